"""Letters in every standing, brought there by real moves, around one noon."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Failure
from mahavishnu.model.lifecycle import archive, claim, give_up, new_letter, succeed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - on purpose: it is refused everywhere
TOKEN = "token-1"
BY: dict[str, Any] = {"now": NOON, "by": "ada"}
IN_TIME: dict[str, Any] = {"token": TOKEN, "now": NOON + timedelta(minutes=3)}


def noon(minutes: float = 0, **more: float) -> datetime:
    """So long after noon."""
    return NOON + timedelta(minutes=minutes, **more)


def draft(**fields: Any) -> DeadLetter:
    """A letter as a capturer hands it to `capture`: the failure and what is to be done about it, nothing decided."""
    given: dict[str, Any] = {"task_id": "wf_1", "entry_id": "entry-1", "error": "boom", "last_error": "boom"}
    moments = {"failed_at": NOON, "created_at": NOON, "updated_at": NOON}
    return DeadLetter(**{**given, **moments, **fields})


def captured(**fields: Any) -> DeadLetter:
    """A letter that was just captured: pending, due a minute after noon unless `fields` say otherwise."""
    return new_letter(draft(**fields))


def claimed(
    letter: DeadLetter, now: datetime | None = None, *, token: str = TOKEN, manual: bool = False, minutes: float = 5
) -> DeadLetter:
    """`letter` in the hands of worker-1, from `now` (or from when it is due) for some minutes."""
    start = now or letter.due_at or NOON
    until = start + timedelta(minutes=minutes)
    return claim(letter, owner="worker-1", token=token, until=until, now=start, manual=manual)


def failure(message: str = "boom again", at: datetime = NOON, **fields: Any) -> Failure:
    """One failed run."""
    return Failure(at=at, message=message, **fields)


def made(letter: DeadLetter, **fields: Any) -> DeadLetter:
    """What a move at noon + 3 minutes is expected to make of `letter`: these fields changed, and no other."""
    return replace(letter, **{"updated_at": noon(3), **fields})


_due = captured(retry_policy="immediate")
_exhausted = captured(max_retries=0)
STANDINGS: dict[str, DeadLetter] = {
    "due": _due,
    "waiting": captured(),
    "running": claimed(_due),
    "crashed": claimed(_due, minutes=0),  # its lease has just run out
    "exhausted": _exhausted,
    "given_up": give_up(_exhausted, **BY),
    "completed": succeed(claimed(_due), token=TOKEN, now=NOON),
    "archived": archive(_due, **BY),
}

"""What happened: events for listeners, after the write; audit entries, before an act and completed after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mahavishnu.model.json_value import EMPTY, Json, depth, difference
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Version


class EventName(StrEnum):
    """Everything that is told."""

    CAPTURED = "dlq.captured"
    MERGED = "dlq.merged"
    REOPENED = "dlq.reopened"
    SKIPPED = "dlq.skipped"
    RETRY_STARTED = "dlq.retry.started"
    RETRY_SUCCEEDED = "dlq.retry.succeeded"
    RETRY_FAILED = "dlq.retry.failed"
    EXHAUSTED = "dlq.exhausted"
    RECOVERED = "dlq.recovered"
    RELEASED = "dlq.released"
    STALE_CLAIM = "dlq.stale_claim"
    REDRIVEN = "dlq.redriven"
    REQUEUED = "dlq.requeued"
    EDITED = "dlq.edited"
    RESOLVED = "dlq.resolved"
    ARCHIVED = "dlq.archived"
    CLEARED = "dlq.cleared"
    GROUP_CHANGED = "dlq.group.changed"
    RUN_STARTED = "dlq.run.started"
    RUN_CHANGED = "dlq.run.changed"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to one letter, or to what `detail` names; it never holds payload.

    Of a bulk run it has `run_id`, `state` and the counts.
    """

    name: EventName
    at: datetime
    letter: DeadLetter | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], object]


# --- the audit: who did what

MOST_CHANGES = 100  # that one entry tells
LONGEST_VALUE = 1000  # characters of a value, as JSON, that an entry repeats
DEEPEST_VALUE = 100  # one that is nested deeper is told as text: inside of an entry it would be too deep
_UNTOLD = frozenset({"updated_at"})  # it changes with every act


class AuditOutcome(StrEnum):
    """What is known of the act."""

    ASKED = "asked"  #: it was begun; if that is long ago, nobody knows what came of it
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act, written before it and completed after it.

    `subject` is `letter:<key>`, `group:<fingerprint>`, `run:<id>` or `queue`. `reason` is what the actor said,
    `why` what it was refused for. `changes` maps each changed field (`status`, or `task/url` inside of JSON) to what it
    was `before` and is `after`; what the act counted has an `after` only.
    """

    entry_id: str
    at: datetime
    actor: str
    action: str
    subject: str
    role: str | None = None
    via: str = "python"
    outcome: AuditOutcome = AuditOutcome.ASKED
    reason: str | None = None
    why: str | None = None
    changes: Json = EMPTY
    ended_at: datetime | None = None
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        return self.entry_id


Changes = dict[str, dict[str, Any]]
Told = DeadLetter | Mapping[str, Any] | None


def subjects_of_runs(letters: Iterable[DeadLetter]) -> tuple[str, ...]:
    """The bulk runs that have moved these letters, as subjects, each once: what they did, they did to the letters."""
    return tuple(dict.fromkeys(f"run:{run_id}" for letter in letters for run_id in letter.runs))


def changes_between(before: Told, after: Told) -> Changes:
    """The fields in which two states of one thing differ, each with what it was and is. None: it was not there.

    >>> changes_between({"state": "new", "owner": "ann"}, {"state": "resolved", "owner": "ann"})
    {'state': {'before': 'new', 'after': 'resolved'}}
    """
    return {
        change["path"].removeprefix("/"): {side: change[side] for side in ("before", "after") if side in change}
        for change in difference(_told(before), _told(after))
    }


def bounded(changes: Changes) -> Json:
    """The changes as an entry keeps them: not too many, and no value longer than it helps."""
    told = {name: {side: _short(value) for side, value in change.items()} for name, change in changes.items()}
    if left := list(told)[MOST_CHANGES:]:
        told = {name: told[name] for name in list(told)[:MOST_CHANGES]}
        told["…"] = {"after": f"{len(left)} more changes"}
    return Json.of(told, "changes")


def _told(state: Told) -> Any:
    if isinstance(state, DeadLetter):
        state = state.to_dict()
    return {name: Json.of(value, name).value for name, value in (state or {}).items() if name not in _UNTOLD}


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else Json.of(value, "value").text
    if len(text) > LONGEST_VALUE:
        return text[: LONGEST_VALUE - 1] + "…"
    return value if isinstance(value, str) or depth(text) <= DEEPEST_VALUE else text

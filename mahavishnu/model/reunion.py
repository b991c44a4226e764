"""Two letters under one key, written while two stores could not see each other: what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from mahavishnu.model.letter import KEPT_FAILURES, DeadLetter, DeadLetterStatus, FormerLetter
from mahavishnu.model.lifecycle import next_generation


@dataclass(frozen=True, slots=True)
class Reunion:
    """What to write, in this order: `former` into history, then `live` over the one that was there (None: leave it)."""

    live: DeadLetter | None = None
    former: FormerLetter | None = None
    wait: bool = False  # not now: ours is being run


def reunite(theirs: DeadLetter, ours: DeadLetter) -> Reunion:
    """`theirs` lives in the shared store, `ours` was kept locally. Nothing is lost.

    The same entry twice: the one that got further. Two entries of one task: open ones become one with the occurrences
    of both, a closed one goes to history.
    """
    if theirs.entry_id == ours.entry_id:
        return Reunion(live=replace(ours, version=theirs.version)) if _further(ours) > _further(theirs) else Reunion()
    if ours.status is DeadLetterStatus.RETRYING:
        return Reunion(wait=True)
    if not theirs.is_open:
        former, live = next_generation(theirs, ours)
        return Reunion(live, former)
    if not ours.is_open:
        return Reunion(former=FormerLetter.of(ours))
    if ours.failures and set(ours.failures) <= set(theirs.failures):
        return Reunion()  # joined before, and somebody died before saying so
    return Reunion(live=_joined(theirs, ours))


def _further(letter: DeadLetter) -> tuple[bool, int, bool, str]:
    updated = letter.updated_at.isoformat()
    return not letter.is_open, letter.total_attempts, letter.status is DeadLetterStatus.RETRYING, updated


def _joined(theirs: DeadLetter, ours: DeadLetter) -> DeadLetter:
    failures = tuple(sorted({*theirs.failures, *ours.failures}, key=lambda failure: failure.at))
    return replace(
        theirs,
        occurrences=theirs.occurrences + ours.occurrences,
        total_attempts=theirs.total_attempts + ours.total_attempts,
        last_error=max(theirs, ours, key=lambda letter: letter.failed_at).last_error,
        failures=(*failures[:1], *failures[1:][-KEPT_FAILURES + 1 :]),
        tallies=theirs.tallies.joined(ours.tallies),
        updated_at=max(theirs.updated_at, ours.updated_at) + timedelta(milliseconds=1),
    )

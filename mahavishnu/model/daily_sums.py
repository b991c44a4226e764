"""How old tombstones are added up, so that they can be removed: their numbers go into the sums of one day.

First the day lists them. Then each is folded by compare-and-set: from that write on its numbers count in the day and no
longer in itself. Then the day adds up those that were folded, and lists nothing. Nobody replaces or removes a folded
tombstone that a day lists, so at any moment it can be told of each where its numbers count.

A letter that comes back takes its numbers out of the sums in the same way. First a *placeholder*, a folded tombstone,
takes its key. Then a day lists it as returning. Then the letter replaces the placeholder by compare-and-set: from that
write on the day counts its numbers no more. Then the day takes them off, and lists nothing. Who finds a placeholder
that nobody goes on with removes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import Tallies


class FoldState(Enum):
    """What has become of a tombstone that a day lists."""

    UNFOLDED = "unfolded"  #: it still counts its numbers itself
    FOLDED = "folded"  #: the day counts them
    SUCCEEDED = "succeeded"  #: another letter or tombstone has taken them over: the day never counts them
    RETURNED = "returned"  #: of one that comes back: it counts them itself again, and the day no more
    ABSENT = "absent"  #: of one that comes back: it is not there yet


@dataclass(frozen=True, slots=True)
class ListedTombstone:
    """A tombstone that is to be folded, or a letter that is to come back, with its numbers."""

    key: str
    entry_id: str
    updated_at: datetime
    generation: int
    tallies: Tallies
    returning: bool = False

    @classmethod
    def of(cls, tombstone: DeadLetter, *, returning: bool = False) -> ListedTombstone:
        numbers = tombstone.generation, tombstone.tallies
        return cls(tombstone.key, tombstone.entry_id, tombstone.updated_at, *numbers, returning)


def fold(tombstone: DeadLetter, day: str) -> DeadLetter:
    """The tombstone when its numbers count in those of the day: it has none any more."""
    resolution = replace(tombstone.resolution, notes=day)
    return evolve(tombstone, generation=0, tallies=Tallies(), resolution=resolution)


def fold_state(listed: ListedTombstone, current: DeadLetter | None, day: str) -> FoldState:
    """What has become of what is listed, if this is what is under its key now."""
    if listed.returning:
        back = current is not None and current.knows(listed.entry_id) and not _is_placeholder(listed, current, day)
        return FoldState.RETURNED if back else FoldState.ABSENT
    if current is None or not current.is_deleted:
        return FoldState.SUCCEEDED
    if current.generation:
        return FoldState.UNFOLDED if ListedTombstone.of(current) == listed else FoldState.SUCCEEDED
    return FoldState.FOLDED if _is_placeholder(listed, current, day) else FoldState.SUCCEEDED


def _is_placeholder(listed: ListedTombstone, current: DeadLetter, day: str) -> bool:
    """Whether it is the folded tombstone of what is listed, of that day."""
    same = (current.entry_id, current.updated_at, current.resolution.notes) == (listed.entry_id, listed.updated_at, day)
    return same and current.is_deleted and not current.generation


def numbers_of(day_letters: int, tallies: Tallies, done: Iterable[ListedTombstone]) -> tuple[int, Tallies]:
    """A day's number of letters and its tallies, with those of what was folded, without those of what came back."""
    for listed in done:
        day_letters += -listed.generation if listed.returning else listed.generation
        tallies = tallies.combine(listed.tallies.negate() if listed.returning else listed.tallies)
    return day_letters, tallies

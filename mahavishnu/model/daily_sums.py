"""How old tombstones are added up, so that they can be removed: their numbers go into the sums of one day.

First the day lists them. Then each is folded by compare-and-set: from that write on its numbers count in the day and no
longer in itself. Then the day adds up those that were folded, and lists nothing. Nobody replaces or removes a folded
tombstone that a day lists, so at any moment it can be told of each where its numbers count.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class ListedTombstone:
    """A tombstone that is to be folded, with its numbers."""

    key: str
    entry_id: str
    updated_at: datetime
    generation: int
    tallies: Tallies

    @classmethod
    def of(cls, tombstone: DeadLetter) -> ListedTombstone:
        return cls(tombstone.key, tombstone.entry_id, tombstone.updated_at, tombstone.generation, tombstone.tallies)


def fold(tombstone: DeadLetter, day: str) -> DeadLetter:
    """The tombstone when its numbers count in those of the day: it has none any more."""
    resolution = replace(tombstone.resolution, notes=day)
    return evolve(tombstone, generation=0, tallies=Tallies(), resolution=resolution)


def fold_state(listed: ListedTombstone, current: DeadLetter | None, day: str) -> FoldState:
    """What has become of the listed tombstone, if this is what is under its key now."""
    if current is None or not current.is_deleted:
        return FoldState.SUCCEEDED
    if current.generation:
        return FoldState.UNFOLDED if ListedTombstone.of(current) == listed else FoldState.SUCCEEDED
    same = (current.entry_id, current.updated_at, current.resolution.notes) == (listed.entry_id, listed.updated_at, day)
    return FoldState.FOLDED if same else FoldState.SUCCEEDED

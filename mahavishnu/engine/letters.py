"""The letters of a queue as everybody sees them: without the tombstones that deleted ones left under their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mahavishnu.model.errors import StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.model.query import Between, Condition, Is, Not, Query
from mahavishnu.stores.base import Collection, Cursor, Page, Result, Tally

_NOT_DELETED = Not(Is("resolution_status", (ResolutionStatus.DELETED,)))
_NEVER_IN_TOMBSTONES = {"due_at", "fingerprint", "runs", "run_outcomes", "words"}  # these fields are empty there
_ONE_OF = {"status": DeadLetterStatus.ARCHIVED, "resolution_status": ResolutionStatus.DELETED}


@dataclass(frozen=True, slots=True)
class VisibleLetters:
    """The collection of letters without tombstones. `records` are all of them, for those who keep count."""

    records: Collection[DeadLetter]

    async def write(self, records: Sequence[DeadLetter]) -> list[Result[DeadLetter]]:
        """As `records` does it; under the key of a tombstone nothing can be created."""
        return await self.records.write(records)

    async def remove(self, records: Sequence[DeadLetter]) -> list[bool | StoreError]:
        return await self.records.remove(records)

    async def get(self, keys: Sequence[str]) -> list[Result[DeadLetter]]:
        found = await self.records.get(keys)
        return [None if isinstance(each, DeadLetter) and each.is_deleted else each for each in found]

    async def find(self, query: Query, after: Cursor | None = None) -> Page[DeadLetter]:
        return await self.records.find(without_deleted(query), after)

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        return await self.records.tally(without_deleted(query), by, sums=sums, spans=spans)


def without_deleted(query: Query) -> Query:
    """The query for letters that are not deleted: itself where no tombstone can match, as where something is due."""
    if any(_excludes_tombstones(condition) for condition in query.where):
        return query
    return replace(query, where=(*query.where, _NOT_DELETED))


def _excludes_tombstones(condition: Condition) -> bool:
    match condition:
        case Is(field, values):
            return field in _NEVER_IN_TOMBSTONES or (field in _ONE_OF and _ONE_OF[field] not in values)
        case Between(field):
            return field in _NEVER_IN_TOMBSTONES
    return False

"""The letters of a queue as everybody sees them: those of its namespace, without the tombstones of deleted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from msgspec.structs import replace

from mahavishnu.model.errors import StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.model.permissions import Scope, without_payload_search
from mahavishnu.model.query import (
    ALL_NAMESPACES,
    Between,
    Condition,
    Is,
    Not,
    Query,
    own_records,
    within_namespace,
    without_waiting_items,
)
from mahavishnu.model.record import Value
from mahavishnu.stores.base import Buckets, Collection, Cursor, Histogram, Page, Result, Tally
from mahavishnu.stores.kind import T

SCOPED_FIELDS = frozenset({"namespace", "queue", "adapter"})
_NOT_DELETED = Not(Is("resolution_status", (ResolutionStatus.DELETED,)))
_NEVER_IN_TOMBSTONES = {"due_at", "fingerprint", "runs", "run_outcomes"}  # these fields are empty there
_ONE_OF = {"status": DeadLetterStatus.ARCHIVED, "resolution_status": ResolutionStatus.DELETED}


class _NarrowRecords(Value, Generic[T], frozen=True):
    """The records of one namespace, or of all (`*`): what is searched for and counted. Keys say themselves where."""

    records: Collection[T]
    namespace: str = ALL_NAMESPACES

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        return await self.records.write(records)

    async def remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        return await self.records.remove(records)

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        return await self.records.find(self._narrow(query), after)

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        return await self.records.tally(self._narrow(query), by, sums=sums, spans=spans)

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        return await self.records.histogram(self._narrow(query), buckets)

    def _narrow(self, query: Query) -> Query:
        raise NotImplementedError


class NamespaceRecords(_NarrowRecords[T], frozen=True):
    """The records of one namespace, or of all.

    Of letters, a query may name another namespace. Records with `default_is_none` have none where it is `default`. With
    `failed_only`, items of named queues that have not failed are left out where all namespaces are meant.
    """

    default_is_none: bool = False
    scope: Scope | None = None  #: what is outside of it is not there; of kinds with `fields` to search for
    fields: frozenset[str] = frozenset()
    failed_only: bool = False

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        found = await self.records.get(keys)
        if (scope := self.scope) is None:
            return found
        return [
            None if each is None or (not isinstance(each, StoreError) and not scope.covers_record(each)) else each
            for each in found
        ]

    def _narrow(self, query: Query) -> Query:
        if self.failed_only:
            query = without_waiting_items(query, self.namespace)
        meant = (own_records if self.default_is_none else within_namespace)(query, self.namespace)
        if self.scope is None:
            return meant
        return self.scope.restrict(meant, self.fields, default_is_none=self.default_is_none)


class VisibleLetters(_NarrowRecords[DeadLetter], frozen=True):
    """The letters of a namespace without tombstones. `records` are all of every namespace, for those who know keys;
    `with_deleted` those of this one, and `counted` those that are in its numbers.

    Over all namespaces, items of named queues that have not failed are seen and counted only `with_items`.
    """

    scope: Scope | None = None
    payloads: bool = True  #: whether payloads can be searched
    with_items: bool = False

    @property
    def with_deleted(self) -> NamespaceRecords[DeadLetter]:
        """The letters of the namespace, its items, and its tombstones."""
        return NamespaceRecords(self.records, self.namespace, scope=self.scope, fields=SCOPED_FIELDS)

    @property
    def counted(self) -> NamespaceRecords[DeadLetter]:
        """The letters of the namespace, and its tombstones, as its numbers have them."""
        return replace(self.with_deleted, failed_only=not self.with_items)

    async def get(self, keys: Sequence[str]) -> list[Result[DeadLetter]]:
        found = await self.with_deleted.get(keys)
        return [None if isinstance(each, DeadLetter) and each.is_deleted else each for each in found]

    def _narrow(self, query: Query) -> Query:
        return self.counted._narrow(without_deleted(query if self.payloads else without_payload_search(query)))


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

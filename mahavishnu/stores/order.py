"""The order of records that a query asks for, for everybody who sorts or merges in Python."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any, Generic

from mahavishnu.model.query import Query
from mahavishnu.stores.schema import Kind, T


class Order(Generic[T]):
    """The order of a query: its sort fields, empty values last, ties by key. A position is the values compared."""

    def __init__(self, kind: Kind[T], query: Query) -> None:
        self._terms = [kind.by_name[sort.field].term for sort in query.sort]
        self._descending = [sort.descending for sort in query.sort]

    def position(self, record: T) -> tuple[Any, ...]:
        """Where the record stands."""
        return (*(term(record) for term in self._terms), record.key)

    def compare(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
        """Negative if `one` comes first."""
        for mine, theirs, descending in zip(one, other, [*self._descending, False], strict=True):
            if mine != theirs:
                if mine is None or theirs is None:
                    return 1 if mine is None else -1
                return 1 if (mine > theirs) != descending else -1
        return 0

    def sorted(self, records: Iterable[T]) -> list[T]:
        """The records in order."""
        placed = [(self.position(record), record) for record in records]
        placed.sort(key=lambda pair: pair[0][-1])
        for index in reversed(range(len(self._terms))):  # stable sorts, the most important one last
            present = [pair for pair in placed if pair[0][index] is not None]
            absent = [pair for pair in placed if pair[0][index] is None]
            present.sort(key=lambda pair: pair[0][index], reverse=self._descending[index])
            placed = present + absent
        return [record for _, record in placed]

    @property
    def key(self) -> Any:
        """For `sorted` and `heapq.merge` over positions."""
        return cmp_to_key(self.compare)

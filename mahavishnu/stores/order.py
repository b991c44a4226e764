"""The order of records that a query asks for, for everybody who sorts or merges in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cmp_to_key
from typing import Any, Generic

from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.query import Query, Sort
from mahavishnu.stores.kind import FieldType, Kind, T

_NUMBERS = (int, float)


def foreign_cursor() -> InvalidQuery:
    """What a cursor of another list, or one that somebody made up, raises in every store."""
    return InvalidQuery("the cursor is not one of this list; leave it out to start at the beginning")


def checked_position(kind: Kind[Any], sorts: Sequence[Sort], after: Sequence[Any]) -> tuple[Any, ...]:
    """The position that a cursor says, which comes from outside and may be anything. Raises InvalidQuery."""
    if len(after) != len(sorts) + 1 or not isinstance(after[-1], str):
        raise foreign_cursor()
    for sort, value in zip(sorts, after, strict=False):
        match kind.by_name[sort.field].type:
            case FieldType.DATE:
                fits = isinstance(value, datetime) and value.tzinfo is not None
            case FieldType.INTEGER:
                fits = isinstance(value, _NUMBERS) and value == value
            case _:
                fits = isinstance(value, str)
        if not fits and value is not None:
            raise foreign_cursor()
    return tuple(after)


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

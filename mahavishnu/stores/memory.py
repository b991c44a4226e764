"""Records in a dict, for tests and on request. Nothing survives the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Generic

from mahavishnu.model.query import AnyOf, At, Between, Condition, HasKey, Is, Missing, Not, Query
from mahavishnu.model.record import Version
from mahavishnu.stores.base import Buckets, Cell, Cursor, Health, Histogram, OpenClose, Page, Result, Tally
from mahavishnu.stores.kind import Field, FieldType, Kind, Order, T, require_position, scalar_text


class MemoryStore(OpenClose):
    """A store in this process's memory. It needs no lock: nothing in it awaits between reading and writing."""

    def __init__(self) -> None:
        self._collections: dict[Kind[Any], MemoryCollection[Any]] = {}
        self._versions = count(1)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def health(self) -> Health:
        return Health("ok", "in memory: lost when the process ends")

    def collection(self, kind: Kind[T]) -> MemoryCollection[T]:
        return self._collections.setdefault(kind, MemoryCollection(kind, lambda: (next(self._versions),)))

    async def detach(self, kind: Kind[Any]) -> str:
        return "in memory"

    async def attach(self, kind: Kind[Any]) -> None: ...

    async def drop(self, kind: Kind[Any]) -> None:
        self._collections.pop(kind, None)

    def __repr__(self) -> str:
        return "MemoryStore()"


class MemoryCollection(Generic[T]):
    """One kind of record. Records are immutable, so they are handed out as they are."""

    def __init__(self, kind: Kind[T], new_version: Callable[[], Version]) -> None:
        self.kind = kind
        self._new_version = new_version
        self._records: dict[str, T] = {}

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        return [self._write(record) for record in records]

    async def remove(self, records: Sequence[T]) -> list[Any]:
        return [self._is_current(record) and self._records.pop(record.key, None) is not None for record in records]

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        return [self._records.get(key) for key in keys]

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        self.kind.check(query)
        order = Order(self.kind, query)
        found = order.sort(matching(self.kind, query.where, self._records.values()))
        if after is not None:
            place = require_position(self.kind, query.sort, after.after)
            found = [record for record in found if order.compare(order.position(record), place) > 0]
        items = found[: query.limit]
        positions = [order.position(record) for record in items]
        return Page(items, Cursor(positions[-1]) if len(found) > len(items) else None, positions)

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        return tally_of(self.kind, self._records.values(), query, by, sums=sums, spans=spans)

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        return histogram_of(self.kind, self._records.values(), query, buckets)

    def _write(self, record: T) -> T | None:
        if record.version is None:
            if record.key in self._records:
                return None
        elif not self._is_current(record):
            return None
        stored = self.kind.versioned(record, self._new_version())
        self._records[stored.key] = stored
        return stored

    def _is_current(self, record: T) -> bool:
        current = self._records.get(record.key)
        return current is not None and current.version == record.version


def tally_of(
    kind: Kind[T],
    records: Iterable[T],
    query: Query,
    by: Sequence[str] = (),
    *,
    sums: Sequence[str] = (),
    spans: Sequence[str] = (),
) -> Tally:
    """Count those of the records that the query means, as `Collection.tally` does."""
    kind.check_tally(query, by, sums, spans)
    groups: dict[tuple[Any, ...], list[T]] = {}
    fields = [kind.by_name[name] for name in by]
    for record in matching(kind, query.where, records):
        groups.setdefault(tuple(field.term(record) for field in fields), []).append(record)
    return Tally({values: _cell(kind, group, sums, spans) for values, group in groups.items()})


def histogram_of(kind: Kind[T], records: Iterable[T], query: Query, buckets: Buckets) -> Histogram:
    """Count those of the records that the query means by time, as `Collection.histogram` does."""
    kind.check_tally(query, (), (), (buckets.field,))
    term = kind.by_name[buckets.field].term
    found = matching(kind, buckets.narrow(query).where, records)
    return buckets.fill(((term(record) - buckets.start) // buckets.interval, 1) for record in found)


def _cell(kind: Kind[T], records: Sequence[T], sums: Sequence[str], spans: Sequence[str]) -> Cell:
    moments = {name: _present(kind.by_name[name], records) for name in spans}
    return Cell(
        len(records),
        {name: sum(_present(kind.by_name[name], records)) for name in sums},
        {name: min(values) for name, values in moments.items() if values},
        {name: max(values) for name, values in moments.items() if values},
    )


def _present(field: Field[T], records: Iterable[T]) -> list[Any]:
    return [value for record in records if (value := field.value(record)) is not None]


def matching(kind: Kind[T], conditions: Iterable[Condition], records: Iterable[T]) -> Iterator[T]:
    """Return the records for which all conditions hold, the meaning that other stores' translations agree with."""

    def holds_mostly(condition: Condition) -> bool:  # better asked last
        return not isinstance(condition, Not | AnyOf | HasKey) and kind.by_name[condition.field].common

    tests = [_test(kind, each) for each in sorted(conditions, key=holds_mostly)]
    return (record for record in records if all(test(record) for test in tests))


def _test(kind: Kind[T], condition: Condition) -> Callable[[T], bool]:
    match condition:
        case Not(inner):
            test = _test(kind, inner)
            return lambda record: not test(record)
        case AnyOf(conditions):
            tests = [_test(kind, each) for each in conditions]
            return lambda record: any(test(record) for test in tests)
        case HasKey(keys):
            known = frozenset(keys)
            return lambda record: record.key in known
    field = kind.by_name[condition.field]
    term = field.term
    match condition:
        case Is(_, values):
            wanted = frozenset(values)
            if field.type is FieldType.KEYWORDS:
                return lambda record: not wanted.isdisjoint(term(record))
            return lambda record: term(record) in wanted
        case Missing():
            return lambda record: term(record) in (None, (), frozenset())
        case At(_, path, value):
            pair = (path, scalar_text(value))
            return lambda record: pair in term(record)
        case Between():
            return lambda record: condition.has(term(record))

"""Contract of every store. `mahavishnu.testing.StoreContract` tests each sentence.

A store is a map from keys to records in which every write is a compare-and-set. It knows no rules: those are pure
functions in `mahavishnu.model`. It only knows *create if absent*, *replace if unchanged*, *remove if unchanged*, *get*,
*find*, *tally* and *histogram*, for any `Kind` of record.
"""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeAlias, cast

from msgspec import field
from msgspec.structs import force_setattr, replace

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import (
    IncompatibleStore,
    InvalidInput,
    InvalidQuery,
    MahavishnuError,
    StoreError,
    StoreUnavailable,
)
from mahavishnu.model.query import Between, Query
from mahavishnu.model.record import Value, Version
from mahavishnu.stores.kind import Kind, T

__all__ = [
    "Buckets",
    "Cell",
    "Collection",
    "Cursor",
    "Health",
    "Histogram",
    "Kind",
    "Page",
    "Result",
    "Store",
    "T",
    "Tally",
    "Version",
]

Result: TypeAlias = "T | StoreError | None"
CURRENT = ""
MOST_BUCKETS = 10_000  # of one histogram
_MILLISECOND = timedelta(milliseconds=1)


class Cursor(Value, frozen=True):
    """End of a page. `str(cursor)` travels through URLs; `Cursor.parse` takes it back.

    `snapshot` is the state that later pages come from, where a store keeps one; CURRENT asks it not to.
    """

    after: tuple[Any, ...]
    snapshot: str | None = None

    def __str__(self) -> str:
        text = json.dumps([self.after, self.snapshot], separators=(",", ":"), default=_to_json)
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Raises InvalidQuery for anything but what `str` of a cursor gave."""
        try:
            after, snapshot = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            return cls(tuple(_from_json(value) for value in after), snapshot)
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError, binascii.Error):
            raise InvalidQuery(
                f"{text[:40]!r} is not a cursor of a list; leave it out to start at the beginning"
            ) from None


def _to_json(value: Any) -> Any:
    if isinstance(value, Cursor):
        return {"cursor": [list(value.after), value.snapshot]}
    if isinstance(value, datetime):
        return {"at": value.isoformat()}
    raise TypeError(f"a cursor cannot hold {value!r}")


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "at" in value:
        return datetime.fromisoformat(value["at"])
    after, snapshot = value["cursor"]
    return Cursor(tuple(_from_json(inner) for inner in after), snapshot)


class Page(Value, Generic[T], frozen=True):
    """Some records in the order asked for.

    `next` is None when there are no more. `corrupt` are stored records of this page that cannot be read.
    `degraded` says, in words, why a part of the truth was out of reach; a page that has it is not the whole answer.
    """

    items: Sequence[T]
    next: Cursor | None = None
    positions: Sequence[tuple[Any, ...]] = ()  # one for each item; `Cursor(position)` goes on after it
    corrupt: tuple[StoreError, ...] = ()
    degraded: str | None = None


class Cell(Value, frozen=True):
    """Count, sums, and earliest and latest instants of one group of records."""

    count: int = 0
    sums: Mapping[str, int] = field(default_factory=dict)
    earliest: Mapping[str, datetime] = field(default_factory=dict)
    latest: Mapping[str, datetime] = field(default_factory=dict)

    def plus(self, other: Cell) -> Cell:
        """Both groups as one."""
        return Cell(
            self.count + other.count,
            {name: self.sums.get(name, 0) + other.sums.get(name, 0) for name in {**self.sums, **other.sums}},
            {
                name: min(c.earliest[name] for c in (self, other) if name in c.earliest)
                for name in {**self.earliest, **other.earliest}
            },
            {
                name: max(c.latest[name] for c in (self, other) if name in c.latest)
                for name in {**self.latest, **other.latest}
            },
        )


class Tally(Value, frozen=True):
    """Cells by the values of the fields asked for, in that order; None where a record has none."""

    cells: Mapping[tuple[Any, ...], Cell]
    degraded: str | None = None

    @property
    def total(self) -> Cell:
        """All cells as one."""
        whole = Cell()
        for cell in self.cells.values():
            whole = whole.plus(cell)
        return whole

    def by(self, place: int) -> dict[Any, Cell]:
        """The cells by one of the fields alone: `tally.by(0)` for the first one asked for."""
        groups: dict[Any, Cell] = {}
        for values, cell in self.cells.items():
            value = values[place]
            groups[value] = groups[value].plus(cell) if value in groups else cell
        return groups


class Buckets(Value, frozen=True):
    """Equal intervals for the instants of a DATE field, one after the other from `start`, which is cut to milliseconds.

    A bucket includes its start and excludes its end. With `open_end` the last one includes all later instants.
    Raises InvalidQuery for an interval that is not a positive number of milliseconds, and for too many buckets.
    """

    field: str
    start: datetime
    interval: timedelta
    count: int
    open_end: bool = False

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= MOST_BUCKETS:
            raise InvalidQuery(f"a histogram has 1 to {MOST_BUCKETS} buckets, not {self.count!r:.80}")
        if self.interval < _MILLISECOND or self.interval % _MILLISECOND:
            raise InvalidQuery(f"the interval of a histogram is in whole milliseconds, not {self.interval!r:.80}")
        try:
            force_setattr(self, "start", instant(self.start))
            _ = self.end
        except (InvalidInput, OverflowError) as problem:
            raise InvalidQuery(f"a histogram cannot have these buckets: {problem}") from None

    @property
    def end(self) -> datetime:
        """The end of the last bucket."""
        return self.start + self.interval * self.count

    @property
    def step(self) -> int:
        """The milliseconds of one bucket."""
        return self.interval // _MILLISECOND

    def narrow(self, query: Query) -> Query:
        """Return the query for those of its records that are in a bucket."""
        inside = Between(self.field, at_least=self.start, below=None if self.open_end else self.end)
        return replace(query, where=(*query.where, inside))

    def fill(self, found: Iterable[tuple[int, int]]) -> Histogram:
        """Return the histogram of (number of a bucket, count) pairs; numbers past the last bucket count there."""
        counts = [0] * self.count
        for number, count in found:
            counts[min(number, self.count - 1)] += count
        return Histogram(tuple(counts))


class Histogram(Value, frozen=True):
    """The count of records in each bucket, the earliest first, also where it is zero."""

    counts: tuple[int, ...]
    degraded: str | None = None

    def plus(self, other: Histogram) -> Histogram:
        """Return the sums over both, which have the same buckets."""
        counts = zip(self.counts, other.counts, strict=True)
        return Histogram(tuple(map(sum, counts)), self.degraded or other.degraded)


class Health(Value, frozen=True):
    """Status of a store: `ok`, `degraded` (works, but not with everything) or `down`, and the reason in words.

    `waiting` records are kept locally until the primary store is back, the oldest since `oldest`.
    """

    status: str
    detail: str = ""
    waiting: int = 0
    oldest: datetime | None = None


class Collection(Protocol[T]):
    """All records of one kind in a store.

    Results come in the order of what was asked, one for each. Three things can become of a record that is written:
    it is *stored* (the record comes back with its new version), somebody else *got there first* (None), or it *failed*
    (a StoreError, for that record alone). The three are never mixed up: a refused record is never reported as existing.

    If the store as a whole cannot answer, the call raises StoreUnavailable. If the answer is lost after the write
    landed, the store reads again and says what happened; where it cannot, the error's `maybe_written` is true.
    Cancelling a call never undoes nor half-does a write.
    """

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        """Without a version: create if absent. With one: replace if unchanged since. Durable when it returns.

        Keys may repeat in one call: the first one wins.
        """
        ...

    async def remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        """Remove if unchanged; False if changed or gone. After a lost answer, True may be the removal of another."""
        ...

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        """The current records; None where there is none, CorruptRecord where it cannot be read."""
        ...

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        """One page of what the query means, at most `query.limit` records.

        It sees everything this process has written; writes of others may take a moment. Paging on with `page.next`
        neither repeats nor omits a record whose sort fields did not change meanwhile; the later pages may show the
        records as they were when paging began.
        """
        ...

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        """Count what the query means, grouped by the values of `by`; add up `sums`, and note the range of `spans`.

        `by` are KEYWORD, DATE or INTEGER fields, `sums` INTEGER and `spans` DATE ones; others raise InvalidQuery. Sort
        and limit of the query do not matter. A record that cannot be read is still counted.
        """
        ...

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        """Count what the query means by time, in one request: a number for each bucket, zeros included.

        A record outside all buckets, or without a value in the field, is not counted; one that cannot be read is.
        Anything but a DATE field raises InvalidQuery. Sort and limit of the query do not matter.
        """
        ...


class Store(Protocol):
    """Collections of records, one for each kind. Use it as an async context manager, or open and close it."""

    async def open(self) -> None:
        """Make it ready. Raises StoreMisconfigured, StoreCorrupt or StoreUnavailable, and changes nothing then."""
        ...

    async def close(self) -> None:
        """Finish what was asked for, then let go of everything. Closing twice is fine."""
        ...

    async def health(self) -> Health:
        """Return the present status. Never raises."""
        ...

    def collection(self, kind: Kind[T]) -> Collection[T]:
        """The records of one kind."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class OpenClose:
    """The context manager half of a store, for those who have the other half."""

    async def open(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def home_of(store: Store) -> Store:
    """The store that all processes share: of two stores as one the primary, else the store itself."""
    home: Store = getattr(store, "primary", store)
    return home


def is_home_away(store: Store) -> bool:
    """Return True if the store that all processes share is known to be out of reach."""
    return getattr(store, "away", None) is not None


def finds_are_current(store: Store) -> bool:
    """Return whether all reads see others' writes at once, as `get` does; a store says so by such an attribute."""
    return getattr(store, "finds_are_current", False) is True


def keeps_counters(store: Store) -> bool:
    """Return whether tallies that a kind declares as `counted` cost the same however many records there are."""
    return getattr(store, "keeps_counters", False) is True


async def scan(collection: Collection[T], query: Query) -> AsyncIterator[T]:
    """Yield every record of the query. Raises StoreError for an incomplete page, or after one with a corrupt record."""
    async for page in find_pages(collection, query):
        for item in page.items:
            yield item
        if page.corrupt:
            raise page.corrupt[0]
        require_complete(page)


async def pages(collection: Collection[T], query: Query) -> AsyncIterator[Sequence[T]]:
    """Yield every readable record of the query, page after page. Raises StoreError for an incomplete page."""
    async for page in find_pages(collection, query):
        require_complete(page)
        if page.items:
            yield page.items


async def find_pages(collection: Collection[T], query: Query) -> AsyncIterator[Page[T]]:
    """Page after page as the store gives them: each says itself what of it is corrupt or missing. Raises StoreError."""
    after: Cursor | None = None
    while True:
        page = await collection.find(query, after)
        yield page
        if page.next is None:
            return
        after = page.next


def require_complete(page: Page[Any]) -> None:
    """Raise StoreError if the page is not the whole truth."""
    if page.degraded:
        raise StoreError(f"the list is not complete: {page.degraded}")


async def is_unchanged(collection: Collection[T], record: T) -> bool:
    """Return True if the store has the record in this version. Raises the record's own StoreError."""
    current = await get_one(collection, record.key)
    return current is not None and current.version == record.version


def is_same_version(record: T, current: Result[T]) -> bool:
    """Return True if `current` is there and has the version of `record`."""
    return current is not None and not isinstance(current, StoreError) and current.version == record.version


async def write_one(collection: Collection[T], record: T) -> T | None:
    """Write a single record: the stored one, or None if somebody else got there first. Raises its StoreError."""
    (result,) = await collection.write([record])
    if isinstance(result, StoreError):
        raise result
    return result


async def get_one(collection: Collection[T], key: str) -> T | None:
    """The current record, or None. Raises CorruptRecord."""
    (result,) = await collection.get([key])
    if isinstance(result, StoreError):
        raise result
    return result


UNREAD: Any = object()


async def write_with_retry(
    collection: Collection[T],
    key: str,
    change: Callable[[T | None], T | Awaitable[T | None] | None],
    *,
    what: str,
    known: T | None = UNREAD,
    tries: int = 50,
) -> tuple[T | None, T | None]:
    """Create or change a record; again while somebody else is quicker. Returns it before and after.

    `change` gets the current record (None if there is none) before each try, and returns what is to be written, with
    the version of what it got. If it returns None, nothing is written, and the second value returned is None. `known`
    is what the first try takes for the current record, which saves reading it. Raises what `change` raises, the
    record's own StoreError, and StoreUnavailable, saying `what` it is, after so many `tries` were lost in a row.
    """
    current = known
    for _ in range(tries):
        if current is UNREAD:
            current = await get_one(collection, key)
        changed = change(current)
        after: T | None = await changed if isawaitable(changed) else changed
        if after is None:
            return current, None
        if (written := await write_one(collection, after)) is not None:
            return current, written
        current = UNREAD
    raise StoreUnavailable(f"{what} {key!r} was changed by others {tries} times in a row")


class Update(Value, Generic[T], frozen=True):
    """A record as it was read, and as it is stored now: the same object where nothing had to be written."""

    before: T
    after: T


async def update_with_retry(
    collection: Collection[T],
    key: str,
    change: Callable[[T], T],
    *,
    check: Callable[[T, T], Awaitable[object]] | None = None,
    what: str = "letter",
    known: T | None = UNREAD,
    tries: int = 50,
) -> Update[T] | None:
    """Read a record, change it, write it if nobody else has; again where somebody was quicker. None: there is none.

    `check(before, after)` is awaited before each write; `known` is as in `write_with_retry`. What `change` or `check`
    raises ends it; a `change` that returns the record itself ends it without a write. Raises StoreUnavailable after too
    many `tries`.
    """

    async def decide(before: T | None) -> T | None:
        if before is None or (after := change(before)) is before:
            return None
        if check is not None:
            await check(before, after)
        return after

    before, after = await write_with_retry(collection, key, decide, what=what, known=known, tries=tries)
    return None if before is None else Update(before, before if after is None else after)


async def update_many_with_retry(
    collection: Collection[T],
    records: Sequence[T],
    decide: Callable[[T, T | None], T | Awaitable[T | None] | None],
    *,
    what: str = "letter",
    tries: int = 50,
) -> list[T | MahavishnuError | None]:
    """Write records as `Collection.write` does, and decide again about each that another writer changed first.

    `decide` gets the record that lost and the current one (None if there is none), and returns what to write instead,
    with the version of the current one, or None for nothing. The current records are read by one call; the few that
    are written again are written one by one.

    Returns for each record, in order: the stored one; None where `decide` found nothing to write; or an error, of that
    record alone: its StoreError, the MahavishnuError that `decide` raised, or StoreUnavailable in an outage or after so
    many further `tries`. Raises StoreError only if the first write fails as a whole: later some may be stored.
    """
    outcomes: list[T | MahavishnuError | None] = [*await collection.write(records)] if records else []
    lost = [(place, record) for place, record in enumerate(records) if outcomes[place] is None]
    found: Sequence[Result[T]]
    try:
        found = await collection.get([record.key for _, record in lost]) if lost else ()
    except StoreError as problem:
        found = [problem] * len(lost)
    for (place, record), current in zip(lost, found, strict=True):
        try:
            if isinstance(current, StoreError):
                raise current
            again = partial(decide, record)
            _, outcomes[place] = await write_with_retry(
                collection, record.key, again, what=what, known=current, tries=tries
            )
        except MahavishnuError as problem:  # the others are decided all the same
            outcomes[place] = problem
    return outcomes


class PartitionedStore(Protocol):
    """A store that can take away a kind with a `partition` as a whole. Doing it twice is doing it once."""

    async def detach(self, kind: Kind[Any]) -> str:
        """Let go of the place, so that others can move it away or switch it off. Returns where it is, in words."""
        ...

    async def attach(self, kind: Kind[Any]) -> None:
        """Use the place again. Raises StoreUnavailable if it is not there."""
        ...

    async def drop(self, kind: Kind[Any]) -> None:
        """Remove the place with all that is in it."""
        ...


def require_partitions(store: Store) -> PartitionedStore:
    """The store as one that has partitions. Raises InvalidInput."""
    if not all(hasattr(store, name) for name in ("detach", "attach", "drop")):
        raise InvalidInput(f"{store!r} cannot take a part of what it keeps away")
    return cast("PartitionedStore", store)


# --- the schema number of a store: refuses what this version cannot read, and upgrades what an older one wrote

SCHEMA = 1  # raised when other code could misread or spoil a store, together with an entry in UPGRADES
UNNUMBERED = 0  # a store of a development version before 0.1.0


class Upgrade(Value, frozen=True):
    """The way from one number to the next one.

    `file` gets a connection in a transaction, which stores the number, too: it is done once. `index` gets a function
    that sends a request (method, path, body) and the name of the index. It may be done twice, also at the same time.
    """

    file: Callable[[sqlite3.Connection], None]
    index: Callable[[Callable[..., Awaitable[object]], str], Awaitable[None]]


UPGRADES: dict[int, Upgrade] = {}  # by the number that they lead away from


def upgrades_from(found: int, what: str, url: str | None = None) -> list[Upgrade]:
    """Return the upgrades from the number that was `found` to the present one. Raises IncompatibleStore."""
    steps = range(found, SCHEMA)
    if found > SCHEMA or any(step not in UPGRADES for step in steps):
        raise IncompatibleStore(what, found, SCHEMA, url)
    return [UPGRADES[step] for step in steps]

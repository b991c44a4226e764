"""What the tests of the contract share: the fixtures, the sample kinds and values, and how to read and write them."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic

import pytest
import pytest_asyncio

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import CorruptRecord, StoreError
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Condition, Is, Query, Sort
from mahavishnu.model.record import Version, Versioned
from mahavishnu.stores.base import Collection, Cursor, Page, Result, Store, Tally
from mahavishnu.stores.kind import Field, FieldType, Kind, T
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.testing.letters import make_letter


def _nest(depth: int, *, lists: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if lists else {"deeper": value}
    return value


def _mix(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth // 2):
        value = {f"level {level}": [value, level]}
    return value


SCALARS: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "minus one": -1,
    "64 bit": 2**63,
    "beyond 64 bit": 10**40,
    "minus beyond 64 bit": -(10**40),
    "one as float": 1.0,
    "minus zero": -0.0,
    "a tenth": 0.1,
    "more digits than a float has": 0.1234567890123456789,
    "largest float": 1.7976931348623157e308,
    "smallest float": 5e-324,
    "exponent": 1e22,
    "empty text": "",
    "text": "naïve Ω 漢字 😀",
    "lone surrogate": "broken \ud800 name \udfff",
    "control characters": "\x00\x01\x1f\x7f\u2028\u2029\r\n\t",
    "quotes": "\"'`\\/%_*?#{}[]<>&$;--",
    "looks like a date": "2026-01-01",
    "looks like a number": "1e5",
    "looks like JSON": '{"a": [1, null]}',
    "looks like a path": "../../etc/passwd",
    "40,000 characters": "ä" * 40_000,
    "one word of 40,000 bytes": "x" * 40_000,
}
OBJECTS: dict[str, dict[str, Any]] = {
    "empty": {},
    "one number": {"value": 1},
    "the same key as text": {"value": "a"},
    "the same key as object": {"value": {"b": 2}},
    "the same key as list": {"value": [1, "a", {"b": 2}, None, [[]]]},
    "the same key as date": {"value": "2026-01-01T00:00:00Z"},
    "the same key as boolean": {"value": True},
    "the same key as float": {"value": 1.5},
    "5,000 keys": {f"key {number}": number for number in range(5_000)},
    "empty and blank keys": {"": 1, " ": 2, "\t": {"": {"": 3}}},
    "dotted keys": {"a.b": 1, "a": {"b": 2, "c.d": 3}, ".": 4, "..": 5, "a..b": 6, ".a": 7, "a.": 8},
    "keys that mean something elsewhere": {
        "_id": 1,
        "_source": {"_type": 2},
        "$ref": 3,
        "__proto__": 4,
        "*": 5,
        "@": 6,
    },
    "names of our own fields": {"task_id": 1, "status": {"keyword": []}, "version": None, "schema": 99, "metadata": []},
    "unicode keys": {"ключ": 1, "键": 2, "😀": 3, "e\u0301": 4, "é": 5, "\ud800": 6, "\x00": 7, '"': 8, "\\": 9},
    "keys that differ in case": {"Key": 1, "key": 2, "KEY": 3},
    "a key of 5,000 characters": {"k" * 5_000: 1},
    "a key of 40,000 characters": {"k" * 40_000: 1},
    "empty containers": {"list": [], "object": {}, "lists": [[], [{}], [None]]},
    "a list of everything": {"list": list(SCALARS.values())},
    "a long list": {"list": list(range(10_000))},
    **{f"{depth} lists deep": {"deep": _nest(depth, lists=True)} for depth in (19, 20, 21, 50, 150)},
    **{f"{depth} objects deep": {"deep": _nest(depth, lists=False)} for depth in (19, 20, 21, 50, 150)},
    "100 lists and objects deep": {"deep": _mix(100)},
    **{f"scalar: {name}": {"value": value} for name, value in SCALARS.items()},
}
HUGE = {"1 MB in one text": {"text": "0123456789abcdef" * 65_536}, "1 MB in many": {"rows": ["row " * 25] * 10_000}}
ANYTHING: dict[str, Any] = {  # what a task may be, which need not be an object
    **OBJECTS,
    **{f"bare {name}": value for name, value in SCALARS.items()},
    "bare list": [1, [2, [3]], {"four": 4}],
    "bare empty list": [],
}


TORN = "torn"  # a parcel of this colour can be written, but not be read back


class Parcel(Versioned, frozen=True, kw_only=True):
    """A record with a field of every type."""

    key: str
    shelf: str
    name: str = ""
    colour: str | None = None
    tags: tuple[str, ...] = ()
    sent_at: datetime | None = None
    weight: int | None = None
    labels: Json = EMPTY
    contents: Json = EMPTY
    note: str | None = None
    version: Version | None = None


def _encode(parcel: Parcel) -> str:
    document = {
        "key": parcel.key,
        "shelf": parcel.shelf,
        "name": parcel.name,
        "colour": parcel.colour,
        "tags": parcel.tags,
        "sent_at": parcel.sent_at and instant_text(parcel.sent_at),
        "weight": parcel.weight,
        "note": parcel.note,
    }
    return json.dumps({name: value for name, value in document.items() if value not in (None, ())})


def _decode(document: Mapping[str, Any], version: Version) -> Parcel:
    read = document.get
    if read("colour") == TORN:
        raise CorruptRecord(str(read("key")), "it is torn")
    sent_at = read("sent_at")
    return Parcel(
        key=document["key"],
        shelf=document["shelf"],
        name=document["name"],
        colour=read("colour"),
        tags=tuple(read("tags") or ()),
        sent_at=sent_at and datetime.fromisoformat(sent_at),
        weight=read("weight"),
        labels=Json.from_parsed(read("labels") or {}),
        contents=Json.from_parsed(read("contents")),
        note=read("note"),
        version=version,
    )


PARCELS: Kind[Parcel] = Kind(
    name="parcels",
    index="contract_parcels",
    encode=_encode,
    decode=_decode,
    versioned=lambda parcel, version: replace(parcel, version=version),
    fields=(
        Field("shelf", FieldType.KEYWORD, lambda parcel: parcel.shelf),
        Field("name", FieldType.KEYWORD, lambda parcel: parcel.name),
        Field("colour", FieldType.KEYWORD, lambda parcel: parcel.colour),
        Field("tags", FieldType.KEYWORDS, lambda parcel: parcel.tags),
        Field("sent_at", FieldType.DATE, lambda parcel: parcel.sent_at),
        Field("weight", FieldType.INTEGER, lambda parcel: parcel.weight),
        Field("heavy", FieldType.INTEGER, lambda parcel: int((parcel.weight or 0) >= 100), derived=True),
        Field("labels", FieldType.FLAT, lambda parcel: parcel.labels),
        Field("contents", FieldType.JSON, lambda parcel: parcel.contents),
        Field("note", FieldType.TEXT, lambda parcel: parcel.note),
        Field("key", FieldType.BLOB, lambda parcel: parcel.key),
    ),
    indexes=(("shelf", "sent_at"), ("weight",)),
)


@dataclass(frozen=True)
class Sample(Generic[T]):
    """How to make and ask for records of one kind, without knowing which.

    Each has a name, a number, and a shelf that keeps the records of one test apart from all others.
    """

    kind: Kind[T]
    make: Callable[[str, str, int], T]
    renumbered: Callable[[T, int], T]
    number: Callable[[T], int]
    shelf_field: str
    number_field: str

    def many(self, shelf: str, count: int) -> list[T]:
        """Records numbered from 0, whose keys are in the same order."""
        return [self.make(shelf, f"r{number:05}", number) for number in range(count)]

    def query(self, shelf: str, *where: Condition, by_number: bool = True, limit: int = 500) -> Query:
        """The records of one shelf, by number."""
        sort = (Sort(self.number_field),) if by_number else ()
        return Query((Is(self.shelf_field, (shelf,)), *where), sort, limit)

    def __repr__(self) -> str:
        return self.kind.name


def _letter(shelf: str, name: str, number: int) -> DeadLetter:
    return make_letter(task_id=name, namespace=shelf, entry_id=f"{shelf}:{name}", priority=number)


SAMPLES: tuple[Sample[Any], ...] = (
    Sample[DeadLetter](
        LETTERS,
        _letter,
        lambda letter, number: replace(letter, priority=number),
        lambda letter: letter.priority,
        "namespace",
        "priority",
    ),
    Sample[FormerLetter](
        HISTORY,
        lambda shelf, name, number: FormerLetter.of(_letter(shelf, name, number)),
        lambda letter, number: replace(letter, priority=number),
        lambda letter: letter.priority,
        "namespace",
        "priority",
    ),
    Sample[Parcel](
        PARCELS,
        lambda shelf, name, number: Parcel(key=f"{shelf}:{name}", shelf=shelf, name=name, weight=number),
        lambda parcel, number: replace(parcel, weight=number),
        lambda parcel: parcel.weight or 0,
        "shelf",
        "weight",
    ),
)


PATIENCE_SECONDS = 60  # for a test in which a broken store would wait for ever
MOST_PAGES = 3000  # no list here is longer


class ContractTests:
    """The base of all topics."""

    pytestmark = pytest.mark.asyncio

    def make_store(self) -> Store:
        """An unopened store, every time another one."""
        raise NotImplementedError(f"{type(self).__name__} has to define make_store()")

    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        """An open store."""
        async with self.make_store() as store:
            yield store

    @pytest.fixture
    def shelf(self) -> str:
        """Where the records of this test are; the store may hold those of others."""
        return "s" + secrets.token_hex(4)

    @pytest.fixture(params=SAMPLES, ids=repr)
    def sample(self, request: pytest.FixtureRequest) -> Sample[Any]:
        """One kind after the other."""
        sample: Sample[Any] = request.param
        return sample


def all_stored(results: Sequence[Result[T]]) -> list[T]:
    """The records, which have all been written or found."""
    records: list[T] = []
    for result in results:
        assert result is not None, "somebody else was there first, or it is gone"
        if isinstance(result, StoreError):
            raise result
        records.append(result)
    return records


async def put(collection: Collection[T], records: Sequence[T]) -> list[T]:
    """Write records that nothing stands in the way of."""
    return all_stored(await collection.write(records))


async def put_one(collection: Collection[T], record: T) -> T:
    (stored,) = await put(collection, [record])
    return stored


async def current(collection: Collection[T], key: str) -> T:
    """The record that has to be there."""
    (record,) = all_stored(await collection.get([key]))
    return record


Carrier = Callable[[Page[Any]], Cursor]  # what a reader keeps of a page, to go on after it


def next_of(page: Page[Any]) -> Cursor:
    assert page.next is not None
    return page.next


async def pages(
    collection: Collection[T],
    query: Query,
    carry: Carrier = next_of,
    meanwhile: Callable[[int], Awaitable[None]] | None = None,
) -> list[Page[T]]:
    """All pages of a list, in which nothing may be missing. Between two of them `meanwhile` happens."""
    found: list[Page[T]] = []
    after: Cursor | None = None
    while True:
        page = await collection.find(query, after)
        assert page.degraded is None
        assert len(page.items) + len(page.corrupt) <= query.limit
        assert len(page.positions) == len(page.items)
        found.append(page)
        assert len(found) < MOST_PAGES, "this list does not come to an end"
        if page.next is None:
            return found
        after = carry(page)
        if meanwhile is not None:
            await meanwhile(len(found))


async def everything(collection: Collection[T], query: Query) -> list[T]:
    """All records of a list."""
    found = await pages(collection, query)
    assert not any(page.corrupt for page in found)
    return [record for page in found for record in page.items]


async def full_tally(collection: Collection[Any], query: Query, by: Sequence[str] = (), **more: Sequence[str]) -> Tally:
    """A tally in which nothing may be missing."""
    tally = await collection.tally(query, by, **more)
    assert tally.degraded is None
    return tally


async def names_of(store: Store, shelf: str, *where: Condition) -> str:
    """The one-letter names of the parcels for which the conditions hold, in alphabetical order."""
    query = Query((Is("shelf", (shelf,)), *where), (Sort("name"),))
    return "".join([parcel.name for parcel in await everything(store.collection(PARCELS), query)])


def keys(records: Iterable[Any]) -> list[str]:
    return [record.key for record in records]


def without_version(sample: Sample[T], record: T) -> T:
    """The same content, as if it had never been stored."""
    return sample.kind.versioned(record, None)


def strictly(value: Any) -> Any:
    """A form in which 1, 1.0 and True are different, as they are in JSON."""
    if isinstance(value, dict):
        return {key: strictly(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strictly(item) for item in value]
    return type(value), repr(value)

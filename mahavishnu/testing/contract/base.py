"""What the promises have in common: the store, a shelf of one's own, and short ways to write and read."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
import pytest_asyncio

from mahavishnu.model.errors import StoreError
from mahavishnu.model.query import Condition, Is, Query, Sort
from mahavishnu.stores.base import Collection, Cursor, Page, Result, Store, Tally
from mahavishnu.stores.kind import T
from mahavishnu.testing.contract.kinds import PARCELS, SAMPLES, Sample

PATIENCE_SECONDS = 60  # for a test in which a broken store would wait for ever
MOST_PAGES = 3000  # no list here is longer


class Promises:
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


async def tallied(collection: Collection[Any], query: Query, by: Sequence[str] = (), **more: Sequence[str]) -> Tally:
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


def unversioned(sample: Sample[T], record: T) -> T:
    """The same content, as if it had never been stored."""
    return sample.kind.versioned(record, None)


def strictly(value: Any) -> Any:
    """A form in which 1, 1.0 and True are different, as they are in JSON."""
    if isinstance(value, dict):
        return {key: strictly(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strictly(item) for item in value]
    return type(value), repr(value)

"""Records outlive the store that wrote them, and several stores can work on the same ones."""

from __future__ import annotations

import asyncio
from typing import Any

from mahavishnu.stores.base import Result
from mahavishnu.testing.contract.base import (
    PATIENCE_SECONDS,
    Promises,
    all_stored,
    current,
    everything,
    keys,
    put,
    put_one,
    tallied,
    unversioned,
)
from mahavishnu.testing.contract.kinds import Sample


class Lasting(Promises):
    """For stores of which `make_store` gives several onto the same records."""

    async def test_what_was_written_is_there_after_a_restart(self, sample: Sample[Any], shelf: str) -> None:
        async with self.make_store() as store:
            stored = await put(store.collection(sample.kind), sample.many(shelf, 30))
        async with self.make_store() as store:
            collection = store.collection(sample.kind)
            found = all_stored(await collection.get(keys(stored)))
            assert found == stored
            assert [record.version for record in found] == [record.version for record in stored]
            assert await everything(collection, sample.query(shelf)) == stored
            assert (await tallied(collection, sample.query(shelf))).total.count == 30
            assert await collection.write([sample.make(shelf, "r00000", 9)]) == [None]
            replaced = await put_one(collection, sample.renumbered(stored[0], 9))  # versions go on being good
            assert await collection.remove([stored[0], replaced, stored[1]]) == [False, True, True]
        async with self.make_store() as store:
            assert keys(await everything(store.collection(sample.kind), sample.query(shelf))) == keys(stored[2:])

    async def test_an_old_version_stays_invalid_after_restarts(self, sample: Sample[Any], shelf: str) -> None:
        async with self.make_store() as store:
            collection = store.collection(sample.kind)
            first = await put_one(collection, sample.make(shelf, "a", 1))
            assert await collection.remove([first]) == [True]
        async with self.make_store() as store:
            collection = store.collection(sample.kind)
            again = await put_one(collection, unversioned(sample, first))
            assert again.version != first.version
        async with self.make_store() as store:
            collection = store.collection(sample.kind)
            assert await collection.write([sample.renumbered(first, 2)]) == [None]
            assert await collection.remove([first]) == [False]
            assert (await current(collection, first.key)).version == again.version

    async def test_two_stores_at_once(self, sample: Sample[Any], shelf: str) -> None:
        async with self.make_store() as one, self.make_store() as two:
            ours, theirs = one.collection(sample.kind), two.collection(sample.kind)
            record = await put_one(ours, sample.make(shelf, "a", 1))
            assert await theirs.write([sample.make(shelf, "a", 2)]) == [None]
            seen = await current(theirs, record.key)
            assert (seen, seen.version) == (record, record.version)
            changed = await put_one(theirs, sample.renumbered(seen, 3))
            assert await ours.write([sample.renumbered(record, 4)]) == [None]
            assert await ours.remove([record]) == [False]
            assert sample.number(await current(ours, record.key)) == 3
            assert await ours.remove([changed]) == [True]
            assert await theirs.get([record.key]) == [None]
            assert await theirs.write([sample.renumbered(changed, 5)]) == [None]

    async def test_two_stores_lose_no_update(self, sample: Sample[Any], shelf: str) -> None:
        async with self.make_store() as one, self.make_store() as two:
            key = (await put_one(one.collection(sample.kind), sample.make(shelf, "counter", 0))).key

            async def increment(number: int) -> None:
                collection = (one, two)[number % 2].collection(sample.kind)
                written: Result[Any] = None
                while written is None:
                    record = await current(collection, key)
                    (written,) = await collection.write([sample.renumbered(record, sample.number(record) + 1)])
                all_stored([written])

            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.gather(*(increment(number) for number in range(20)))
            assert sample.number(await current(two.collection(sample.kind), key)) == 20
            rivals = [sample.make(shelf, "prize", number) for number in range(40)]
            stores = (one, two)
            results = await asyncio.gather(
                *(stores[n % 2].collection(sample.kind).write([rival]) for n, rival in enumerate(rivals))
            )
            (winner,) = all_stored([result for (result,) in results if result is not None])
            assert sample.number(await current(one.collection(sample.kind), winner.key)) == sample.number(winner)

"""Opening, closing, and saying how one is."""

from __future__ import annotations

import asyncio

from mahavishnu.stores.base import Result, Store, get_one, write_one
from mahavishnu.testing.contract.base import PATIENCE_SECONDS, Promises, all_stored, current, put_one
from mahavishnu.testing.contract.kinds import PARCELS, Parcel


class Serving(Promises):
    """The store as a whole."""

    async def test_a_working_store_is_ok(self, store: Store) -> None:
        health = await store.health()
        assert (health.status, health.waiting, health.oldest) == ("ok", 0, None)

    async def test_closing_twice_is_fine(self, shelf: str) -> None:
        store = self.make_store()
        await store.open()
        await put_one(store.collection(PARCELS), Parcel(key=shelf, shelf=shelf))
        await store.close()
        await store.close()
        async with self.make_store() as store:
            await store.close()

    async def test_health_never_raises(self, shelf: str) -> None:
        store = self.make_store()
        seen = [await store.health()]
        async with store:
            seen.append(await store.health())
            await put_one(store.collection(PARCELS), Parcel(key=shelf, shelf=shelf))
            seen.append(await store.health())
        seen.append(await store.health())
        assert {health.status for health in seen} <= {"ok", "degraded", "down"}
        assert [health.status for health in seen[1:3]] == ["ok", "ok"]

    async def test_close_finishes_what_was_asked_for(self, shelf: str) -> None:
        store = self.make_store()
        async with store:
            collection = store.collection(PARCELS)
            calls = []
            for number in range(20):
                started = asyncio.Event()

                async def write(parcel: Parcel, started: asyncio.Event = started) -> list[Result[Parcel]]:
                    started.set()
                    return await collection.write([parcel])

                calls.append(asyncio.ensure_future(write(Parcel(key=f"{shelf}:{number}", shelf=shelf))))
                await started.wait()
        async with asyncio.timeout(PATIENCE_SECONDS):
            for result in await asyncio.gather(*calls):
                all_stored(result)

    async def test_leaving_by_an_error_closes_too(self, shelf: str) -> None:
        class Stop(Exception):
            pass

        try:
            async with self.make_store() as store:
                await put_one(store.collection(PARCELS), Parcel(key=shelf, shelf=shelf))
                raise Stop
        except Stop:
            await store.close()

    async def test_short_ways_for_one_record(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        parcel = Parcel(key=shelf, shelf=shelf)
        assert await get_one(collection, shelf) is None
        assert await write_one(collection, parcel) == parcel
        assert await write_one(collection, parcel) is None
        assert await get_one(collection, shelf) == await current(collection, shelf)

"""Many at once: exactly one wins, and who gives up takes nobody along."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mahavishnu.stores.base import Collection, Result, Store
from mahavishnu.testing.clock import turn
from mahavishnu.testing.contract.base import PATIENCE_SECONDS, Promises, all_stored, current, everything, put, put_one
from mahavishnu.testing.contract.kinds import Sample


class Racing(Promises):
    """Concurrent callers."""

    async def test_of_200_creators_one_wins(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        rivals = [sample.make(shelf, "prize", number) for number in range(200)]
        results = await asyncio.gather(*(collection.write([rival]) for rival in rivals))
        (winner,) = all_stored([result for (result,) in results if result is not None])
        assert sample.number(await current(collection, winner.key)) == sample.number(winner)
        assert [number for number, (result,) in enumerate(results) if result is not None] == [sample.number(winner)]

    async def test_of_50_removers_one_wins(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        created = await put_one(collection, sample.make(shelf, "prize", 1))
        results = await asyncio.gather(*(collection.remove([created]) for _ in range(50)))
        assert sorted(results) == [*[[False]] * 49, [True]]

    async def test_no_update_is_lost(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        key = (await put_one(collection, sample.make(shelf, "counter", 0))).key

        async def increment() -> int:
            attempts = 0
            written: Result[Any] = None
            while written is None:
                attempts += 1
                record = await current(collection, key)
                (written,) = await collection.write([sample.renumbered(record, sample.number(record) + 1)])
            all_stored([written])
            return attempts

        async with asyncio.timeout(PATIENCE_SECONDS):
            attempts = await asyncio.gather(*(increment() for _ in range(50)))
        assert sample.number(await current(collection, key)) == 50
        assert max(attempts) <= 50, "a writer lost although nobody had won"

    async def test_writers_of_overlapping_batches(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        """Every record is created once, whatever the batches it comes in."""
        collection = store.collection(sample.kind)
        records = sample.many(shelf, 60)
        batches = [records[start : start + 20] for start in range(0, 41, 4)]
        results = await asyncio.gather(*(collection.write(batch) for batch in batches))
        winners = all_stored([result for batch in results for result in batch if result is not None])
        assert sorted(record.key for record in winners) == [record.key for record in records]

    async def test_a_cancelled_writer_takes_nobody_along(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        base = await put(collection, sample.many(shelf, 120))
        async with asyncio.timeout(PATIENCE_SECONDS):
            for patience, start in enumerate(range(0, 120, 12)):  # later and later in the course of the write
                old = base[start : start + 12]
                calls = [
                    asyncio.ensure_future(collection.write([sample.renumbered(record, 1000 + sample.number(record))]))
                    for record in old
                ]
                for _ in range(patience):
                    await turn()
                for call in calls[::2]:
                    call.cancel()
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                for place, outcome in enumerate(outcomes):
                    assert not isinstance(outcome, BaseException) or (
                        place % 2 == 0 and isinstance(outcome, asyncio.CancelledError)
                    ), f"writer {place} of {patience} got {outcome!r}, only the even ones were cancelled"
                    await self._check_whole(collection, sample, old[place], outcome)
        assert len(await everything(collection, sample.query(shelf))) == 120

    async def _check_whole(
        self, collection: Collection[Any], sample: Sample[Any], old: Any, outcome: Sequence[Any] | BaseException
    ) -> None:
        found = await current(collection, old.key)
        if not isinstance(outcome, BaseException):
            (written,) = all_stored(outcome)
            assert (sample.number(found), found.version) == (1000 + sample.number(old), written.version)
            return
        assert sample.number(found) in (sample.number(old), 1000 + sample.number(old))
        (result,) = await collection.write([sample.renumbered(found, 5000)])
        if result is None:  # the cancelled write landed meanwhile; it cannot do so again
            found = await current(collection, old.key)
            (result,) = await collection.write([sample.renumbered(found, 5000)])
        all_stored([result])

    async def test_what_was_seen_is_not_undone_by_cancelling(
        self, store: Store, sample: Sample[Any], shelf: str
    ) -> None:
        collection = store.collection(sample.kind)
        for patience, old in enumerate(await put(collection, sample.many(shelf, 10))):
            call = asyncio.ensure_future(collection.write([sample.renumbered(old, 1000)]))
            for _ in range(patience):
                await turn()
            seen = await current(collection, old.key)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            found = await current(collection, old.key)
            if found.version != seen.version:
                assert (seen.version, sample.number(found)) == (old.version, 1000)

    async def test_a_cancelled_creator_leaves_all_or_nothing(
        self, store: Store, sample: Sample[Any], shelf: str
    ) -> None:
        collection = store.collection(sample.kind)
        for patience in range(8):
            record = sample.make(shelf, f"c{patience}", 1)
            call = asyncio.ensure_future(collection.write([record]))
            for _ in range(patience):
                await turn()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            (again,) = await collection.write([record])
            found = await current(collection, record.key)
            assert found == record
            if again is not None:
                assert found.version == all_stored([again])[0].version

    async def test_a_cancelled_reader_disturbs_nobody(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        stored = await put(collection, sample.many(shelf, 5))
        for patience in range(5):
            calls = [
                asyncio.ensure_future(collection.get([stored[0].key])),
                asyncio.ensure_future(collection.find(sample.query(shelf))),
                asyncio.ensure_future(collection.tally(sample.query(shelf))),
            ]
            other = asyncio.ensure_future(everything(collection, sample.query(shelf)))
            for _ in range(patience):
                await turn()
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert await other == stored
        assert await current(collection, stored[0].key) == stored[0]

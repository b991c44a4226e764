"""Creating, replacing and removing; and races for one record, of which exactly one is won."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mahavishnu.model.letter import FormerLetter
from mahavishnu.stores.base import Collection, Result, Store
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.testing.clock import turn
from mahavishnu.testing.contract.base import (
    PARCELS,
    PATIENCE_SECONDS,
    ContractTests,
    Parcel,
    Sample,
    all_stored,
    current,
    everything,
    keys,
    put,
    put_one,
    without_version,
)
from mahavishnu.testing.letters import make_letter


class WritingContract(ContractTests):
    """Every write is a compare-and-set."""

    async def test_what_was_created_is_there(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        record = sample.make(shelf, "a", 7)
        stored = await put_one(collection, record)
        assert stored == record
        assert stored.version is not None
        assert record.version is None
        found = await current(collection, record.key)
        assert found == record
        assert found.version == stored.version

    async def test_create_only_if_absent(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        first = await put_one(collection, sample.make(shelf, "a", 1))
        assert await collection.write([sample.make(shelf, "a", 2)]) == [None]
        found = await current(collection, first.key)
        assert (sample.number(found), found.version) == (1, first.version)

    async def test_the_same_content_twice_is_created_once(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        first = await put_one(collection, sample.make(shelf, "a", 1))
        assert await collection.write([without_version(sample, first)]) == [None]
        assert (await current(collection, first.key)).version == first.version

    async def test_replace_if_unchanged(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        created = await put_one(collection, sample.make(shelf, "a", 1))
        second = await put_one(collection, sample.renumbered(created, 2))
        assert sample.number(second) == 2
        assert second.version != created.version
        read = await current(collection, created.key)
        assert (sample.number(read), read.version) == (2, second.version)
        third = await put_one(collection, sample.renumbered(read, 3))  # a version that was read is as good
        assert sample.number(await current(collection, created.key)) == 3
        assert len({created.version, second.version, third.version}) == 3

    async def test_replace_loses_after_a_change(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        stale = await put_one(collection, sample.make(shelf, "a", 1))
        changed = await put_one(collection, sample.renumbered(stale, 2))
        assert await collection.write([sample.renumbered(stale, 3)]) == [None]
        found = await current(collection, stale.key)
        assert (sample.number(found), found.version) == (2, changed.version)

    async def test_a_change_back_is_a_change(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        first = await put_one(collection, sample.make(shelf, "a", 1))
        second = await put_one(collection, sample.renumbered(first, 2))
        third = await put_one(collection, sample.renumbered(second, 1))
        assert await collection.write([sample.renumbered(first, 9), sample.renumbered(second, 9)]) == [None, None]
        assert await collection.remove([first]) == [False]
        assert (await current(collection, first.key)).version == third.version

    async def test_rewriting_the_same_content_is_a_change(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        first = await put_one(collection, sample.make(shelf, "a", 1))
        again = await put_one(collection, first)
        assert again.version != first.version
        assert await collection.write([first]) == [None]
        assert await collection.remove([first]) == [False]

    async def test_remove_if_unchanged(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        created = await put_one(collection, sample.make(shelf, "a", 1))
        assert await collection.remove([created]) == [True]
        assert await collection.get([created.key]) == [None]
        assert await collection.remove([created]) == [False]

    async def test_remove_loses_after_a_change(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        stale = await put_one(collection, sample.make(shelf, "a", 1))
        changed = await put_one(collection, sample.renumbered(stale, 2))
        assert await collection.remove([stale]) == [False]
        assert await current(collection, stale.key) == changed
        assert await collection.remove([await current(collection, stale.key)]) == [True]

    async def test_remove_needs_a_version(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        """Who has never read the record cannot know that it is unchanged."""
        collection = store.collection(sample.kind)
        created = await put_one(collection, sample.make(shelf, "a", 1))
        assert await collection.remove([without_version(sample, created), sample.make(shelf, "b", 1)]) == [False, False]
        assert (await current(collection, created.key)).version == created.version

    async def test_a_removed_record_cannot_be_replaced(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        created = await put_one(collection, sample.make(shelf, "a", 1))
        await collection.remove([created])
        assert await collection.write([sample.renumbered(created, 2)]) == [None]
        assert await collection.get([created.key]) == [None]

    async def test_a_version_of_another_record_is_none_of_this_one(
        self, store: Store, sample: Sample[Any], shelf: str
    ) -> None:
        collection = store.collection(sample.kind)
        first = await put_one(collection, sample.make(shelf, "a", 1))
        elsewhere = sample.kind.versioned(sample.make(shelf, "never", 1), first.version)
        assert await collection.write([elsewhere]) == [None]
        assert await collection.get([elsewhere.key]) == [None]
        assert await collection.remove([elsewhere]) == [False]

    async def test_an_old_version_stays_invalid_after_creating_again(
        self, store: Store, sample: Sample[Any], shelf: str
    ) -> None:
        collection = store.collection(sample.kind)
        first = await put_one(collection, sample.make(shelf, "a", 1))
        assert await collection.remove([first]) == [True]
        again = await put_one(collection, without_version(sample, first))
        assert again.version != first.version
        assert await collection.write([sample.renumbered(first, 2)]) == [None]
        assert await collection.remove([first]) == [False]
        assert sample.number(await current(collection, first.key)) == 1
        assert sample.number(await put_one(collection, sample.renumbered(again, 3))) == 3

    async def test_results_come_in_order_and_one_does_not_affect_another(
        self, store: Store, sample: Sample[Any], shelf: str
    ) -> None:
        collection = store.collection(sample.kind)
        old = await put(collection, [sample.make(shelf, name, 1) for name in "abcde"])
        new = await put(collection, [sample.renumbered(record, 2) for record in old[:2]])
        results = await collection.write(
            [
                sample.make(shelf, "f", 3),
                sample.renumbered(old[0], 3),
                sample.renumbered(new[1], 3),
                sample.make(shelf, "c", 3),
                sample.make(shelf, "g", 3),
                sample.renumbered(old[3], 3),
            ]
        )
        assert [result is not None for result in results] == [True, False, True, False, True, True]
        assert keys(all_stored([r for r in results if r is not None])) == keys(
            sample.make(shelf, name, 3) for name in "fbgd"
        )
        names = [sample.make(shelf, name, 0).key for name in "abcdefg"]
        assert [sample.number(r) for r in all_stored(await collection.get(names))] == [2, 3, 1, 3, 1, 3, 3]
        removed = await collection.remove([old[4], old[1], sample.make(shelf, "h", 1), old[2]])
        assert removed == [True, False, False, True]
        assert [r is not None for r in await collection.get(names)] == [True, True, False, True, False, True, True]

    async def test_of_a_key_repeated_in_one_call_the_first_wins(
        self, store: Store, sample: Sample[Any], shelf: str
    ) -> None:
        collection = store.collection(sample.kind)
        results = await collection.write(
            [
                sample.make(shelf, "a", 1),
                sample.make(shelf, "b", 1),
                sample.make(shelf, "a", 2),
                sample.make(shelf, "a", 1),
            ]
        )
        assert [result is not None for result in results] == [True, True, False, False]
        first, _ = all_stored(results[:2])
        results = await collection.write([sample.renumbered(first, number) for number in (5, 6, 7)])
        assert [result is not None for result in results] == [True, False, False]
        (now,) = all_stored(results[:1])
        assert sample.number(await current(collection, first.key)) == 5
        assert await collection.remove([now, now]) == [True, False]

    async def test_get_answers_for_each_key(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        a, b = await put(collection, [sample.make(shelf, "a", 1), sample.make(shelf, "b", 2)])
        unknown = sample.make(shelf, "unknown", 0).key
        assert await collection.get([b.key, unknown, a.key, b.key]) == [b, None, a, b]

    async def test_nothing_asked_nothing_done(self, store: Store, sample: Sample[Any]) -> None:
        collection = store.collection(sample.kind)
        assert await collection.write([]) == []
        assert await collection.remove([]) == []
        assert await collection.get([]) == []

    async def test_many_at_once(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        """More than fit one request of anything."""
        collection = store.collection(sample.kind)
        stored = await put(collection, sample.many(shelf, 1500))
        wanted = [stored[index] for index in range(1499, -1, -1)]
        assert await collection.get(keys(wanted)) == wanted
        replaced = await put(collection, [sample.renumbered(record, sample.number(record) + 1) for record in wanted])
        assert [sample.number(record) for record in replaced] == list(range(1500, 0, -1))
        assert await collection.remove([*replaced[:700], stored[0]]) == [*[True] * 700, False]
        found = await collection.get(keys(wanted))
        assert [record is None for record in found] == [*[True] * 700, *[False] * 800]

    async def test_kinds_do_not_mix(self, store: Store, shelf: str) -> None:
        """One key in each kind is a record of its own."""
        key = make_letter(task_id="same", namespace=shelf).key
        letter = make_letter(task_id="same", namespace=shelf, entry_id="1")
        former = FormerLetter.of(make_letter(entry_id=key, namespace=shelf))
        parcel = Parcel(key=key, shelf=shelf)
        assert letter.key == former.key == parcel.key
        letters, history, parcels = store.collection(LETTERS), store.collection(HISTORY), store.collection(PARCELS)
        await put_one(letters, letter)
        kept = await put_one(history, former)
        await put_one(parcels, parcel)
        assert [await letters.get([key]), await history.get([key]), await parcels.get([key])] == [
            [letter], [former], [parcel]
        ]  # fmt: skip
        assert await history.remove([kept]) == [True]
        assert [await letters.get([key]), await history.get([key]), await parcels.get([key])] == [
            [letter], [None], [parcel]
        ]  # fmt: skip

    async def test_two_looks_at_a_kind_see_the_same_records(
        self, store: Store, sample: Sample[Any], shelf: str
    ) -> None:
        created = await put_one(store.collection(sample.kind), sample.make(shelf, "a", 1))
        found = await current(store.collection(sample.kind), created.key)
        assert found == created
        assert await store.collection(sample.kind).remove([found]) == [True]


class RaceContract(ContractTests):
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

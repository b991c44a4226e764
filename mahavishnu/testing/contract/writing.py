"""Create if absent, replace if unchanged, remove if unchanged, and get."""

from __future__ import annotations

from typing import Any

from mahavishnu.model.letter import FormerLetter
from mahavishnu.stores.base import Store
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.testing.contract.base import Promises, all_stored, current, keys, put, put_one, unversioned
from mahavishnu.testing.contract.kinds import PARCELS, Parcel, Sample
from mahavishnu.testing.letters import make_letter


class Writing(Promises):
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
        assert await collection.write([unversioned(sample, first)]) == [None]
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
        assert await collection.remove([unversioned(sample, created), sample.make(shelf, "b", 1)]) == [False, False]
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
        again = await put_one(collection, unversioned(sample, first))
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

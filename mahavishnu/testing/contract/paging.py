"""Long lists come in pages, and stay true while others write."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.query import Is, Query, Sort
from mahavishnu.stores.base import Cursor, Store, scan
from mahavishnu.testing.clock import START
from mahavishnu.testing.contract.base import Carrier, Promises, everything, keys, next_of, pages, put
from mahavishnu.testing.contract.kinds import PARCELS, SAMPLES, Parcel, Sample

CARRIERS: tuple[Carrier, ...] = (
    next_of,
    lambda page: Cursor.parse(str(next_of(page))),
    lambda page: Cursor(page.positions[-1]),
)
SORTS = (
    (),
    (Sort("weight"),),
    (Sort("weight", descending=True),),
    (Sort("sent_at", descending=True), Sort("weight")),
    (Sort("colour"), Sort("sent_at")),
    (Sort("colour", descending=True),),
)


def parcels(shelf: str) -> list[Parcel]:
    """Thirty, with ties and with empty fields, created in no order."""
    return [
        Parcel(
            key=f"{shelf}:{number:02}",
            shelf=shelf,
            name=f"{number:02}",
            colour=None if number % 5 == 0 else ("red", "Blue", "ä", "")[number % 4],
            weight=None if number % 7 == 0 else number % 3,
            sent_at=None if number % 4 == 0 else START + timedelta(milliseconds=number % 6),
        )
        for number in sorted(range(30), key=lambda number: (number * 7) % 30)
    ]


class Paging(Promises):
    """Cursors."""

    @pytest.mark.parametrize("carry", CARRIERS, ids=["cursor", "text", "position"])
    async def test_pages_make_the_whole_list(self, store: Store, shelf: str, carry: Carrier) -> None:
        collection = store.collection(PARCELS)
        await put(collection, parcels(shelf))
        for sort in SORTS:
            whole = await collection.find(Query((Is("shelf", (shelf,)),), sort))
            assert len(whole.items) == 30
            assert whole.next is None
            for limit in (1, 7, 10, 29, 30, 31) if sort else (3,):
                found = await pages(collection, Query((Is("shelf", (shelf,)),), sort, limit), carry)
                assert [record.key for page in found for record in page.items] == keys(whole.items)
                assert [len(page.items) for page in found] == [limit] * (30 // limit) + [30 % limit] * (30 % limit > 0)

    async def test_every_position_is_a_cursor(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, parcels(shelf))
        for sort in SORTS:
            query = Query((Is("shelf", (shelf,)),), sort)
            whole = await collection.find(query)
            assert len(whole.positions) == 30
            for place in (0, 1, 13, 22, 27, 28, 29):
                after = Cursor(whole.positions[place])
                for cursor in (after, Cursor.parse(str(after))):
                    rest = await collection.find(query, cursor)
                    assert keys(rest.items) == keys(whole.items[place + 1 :])

    async def test_an_empty_list(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        page = await store.collection(sample.kind).find(sample.query(shelf))
        assert (list(page.items), page.next, page.corrupt, page.degraded) == ([], None, (), None)

    async def test_scan_gives_everything(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        await put(collection, sample.many(shelf, 45))
        found: list[Any] = []
        async for record in scan(collection, sample.query(shelf, limit=10)):
            found.append(record)
            assert len(found) <= 45
        assert [sample.number(record) for record in found] == list(range(45))

    async def test_more_than_ten_thousand(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        total = 10_050
        given = [Parcel(key=f"{shelf}:{n:05}", shelf=shelf, name=f"{n:05}", weight=n % 3) for n in range(total)]
        await put(collection, given)
        query = Query((Is("shelf", (shelf,)),), (Sort("weight", descending=True),), limit=10_000)
        found = await pages(collection, query)
        assert [len(page.items) for page in found] == [10_000, 50]
        names = [record.name for page in found for record in page.items]
        assert names == [parcel.name for weight in (2, 1, 0) for parcel in given if parcel.weight == weight]
        assert (await collection.tally(query)).total.count == total

    async def test_unchanged_records_come_once_while_others_write(
        self, store: Store, sample: Sample[Any], shelf: str
    ) -> None:
        await self._check_paging(store, sample, shelf, next_of)

    @pytest.mark.parametrize("carry", CARRIERS[1:], ids=["text", "position"])
    async def test_also_however_the_cursor_was_carried(self, store: Store, shelf: str, carry: Carrier) -> None:
        await self._check_paging(store, SAMPLES[-1], shelf, carry)

    async def _check_paging(self, store: Store, sample: Sample[Any], shelf: str, carry: Carrier) -> None:
        """Numbers 0, 10, …, 590 in pages of 9; between two pages some move, come, go or are written again."""
        collection = store.collection(sample.kind)
        stored = await put(collection, [sample.make(shelf, f"r{n:03}", n * 10) for n in range(60)])
        restless, doomed = set(range(0, 60, 3)), set(range(1, 60, 6))
        calm = [n for n in range(60) if n not in restless | doomed]

        async def meanwhile(page: int) -> None:
            moved = [n for n in restless if n % 4 == page % 4]
            changes = [sample.renumbered(stored[n], (595 - sample.number(stored[n])) % 600) for n in moved]
            rewritten = [stored[n] for n in calm]  # with the same number: they stay where they are
            new = [sample.make(shelf, f"new-{page}-{n}", n * 100 + page) for n in range(6)]
            written = await put(collection, [*changes, *rewritten, *new])
            for n, record in zip([*moved, *calm], written, strict=False):
                stored[n] = record
            gone = [stored[n] for n in doomed if n % 5 == page % 5]
            doomed.difference_update(n for n in list(doomed) if n % 5 == page % 5)
            assert all(await collection.remove(gone))

        found = await pages(collection, sample.query(shelf, limit=9), carry, meanwhile)
        assert len(found) >= 6
        seen = [record.key for page in found for record in page.items]
        assert [key for key in seen if key in {stored[n].key for n in calm}] == [stored[n].key for n in calm]

    async def test_foreign_texts_are_no_cursors(self) -> None:
        for text in ("", "x", "e30", "bnVsbA", "W10", "WzFd", "🙂", "W1sxXV0", "WzEsMl0"):
            with pytest.raises(InvalidQuery):
                Cursor.parse(text)

    async def test_a_cursor_that_is_not_of_this_list_is_refused(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, parcels(shelf))
        dates, weights, colours = (Sort("sent_at"),), (Sort("weight", descending=True),), (Sort("colour"),)
        foreign: list[tuple[tuple[Sort, ...], tuple[Any, ...]]] = [
            ((), ()),
            ((), (1,)),
            ((), (None,)),
            ((), ([],)),
            ((), (1, "key")),
            (weights, ("key",)),
            (weights, (1, 2, "key")),
            (weights, (1, 2)),
            (weights, ("heavy", "key")),
            (weights, (START, "key")),
            (weights, ([1], "key")),
            (dates, ("soon", "key")),
            (dates, (START.replace(tzinfo=None), "key")),
            (colours, (7, "key")),
            (colours, ({"red": 1}, "key")),
        ]
        for sort, after in foreign:
            with pytest.raises(InvalidQuery):
                await collection.find(Query((Is("shelf", (shelf,)),), sort), Cursor(after))

    async def test_an_everything_list_holds_ours(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        stored = await put(collection, sample.many(shelf, 3))
        assert set(keys(stored)) <= set(keys(await everything(collection, Query(limit=10_000))))

"""The order of lists, their pages and cursors."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.query import AnyOf, At, Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.stores.base import Cursor, Store, scan
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing.clock import START
from mahavishnu.testing.contract.base import (
    PARCELS,
    SAMPLES,
    TORN,
    Carrier,
    ContractTests,
    Parcel,
    Sample,
    everything,
    keys,
    next_of,
    pages,
    put,
    put_one,
)
from mahavishnu.testing.contract.reading import varied_parcels


class OrderContract(ContractTests):
    """Order, freshness, and what cannot be asked."""

    async def test_order(self, store: Store, shelf: str) -> None:
        await put(store.collection(PARCELS), varied_parcels(shelf))
        expected: list[tuple[Any, ...]] = [
            ("abcdefg",),
            ("dfbacge", Sort("weight")),
            ("gacbfde", Sort("weight", descending=True)),
            ("gabdfce", Sort("sent_at")),
            ("cfbdage", Sort("sent_at", descending=True)),
            ("fdbgace", Sort("colour")),
            ("acgbdfe", Sort("colour", descending=True)),
            ("fdbgcae", Sort("colour"), Sort("sent_at", descending=True)),
            ("gcabfde", Sort("weight", descending=True), Sort("sent_at", descending=True)),
            ("gfedcba", Sort("name", descending=True)),
            ("abcdefg", Sort("shelf")),
            ("gabcdef", Sort("heavy", descending=True)),
        ]
        found = []
        for _, *sort in expected:
            query = Query((Is("shelf", (shelf,)),), tuple(sort))
            names = "".join(parcel.name for parcel in await everything(store.collection(PARCELS), query))
            found.append((names, *sort))
        assert found == expected

    async def test_order_of_texts_is_by_code_point(self, store: Store, shelf: str) -> None:
        texts = ["", " ", "-", "0", "1", "10", "2", "A", "Z", "_", "a", "aa", "b", "z", "ß", "ä", "\uff5e", "😀"]
        assert texts == sorted(texts)
        collection = store.collection(PARCELS)
        await put(collection, [Parcel(key=shelf + text, shelf=shelf, colour=text) for text in texts])
        for query in (
            Query((Is("shelf", (shelf,)),), (Sort("colour"),)),
            Query((Is("shelf", (shelf,)),)),  # by key alone
        ):
            assert [parcel.colour for parcel in await everything(collection, query)] == texts

    async def test_a_list_is_up_to_date(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        """Whoever writes finds it in the next list, without waiting."""
        collection = store.collection(sample.kind)
        query = sample.query(shelf)
        assert await everything(collection, query) == []
        a = await put_one(collection, sample.make(shelf, "a", 1))
        assert await everything(collection, query) == [a]
        b = await put_one(collection, sample.make(shelf, "b", 2))
        assert keys(await everything(collection, query)) == [a.key, b.key]
        a = await put_one(collection, sample.renumbered(a, 3))
        assert keys(await everything(collection, query)) == [b.key, a.key]
        assert await everything(collection, sample.query(shelf, Is(sample.number_field, (1,)))) == []
        await collection.remove([b])
        (listed,) = await everything(collection, query)
        assert listed.version == a.version
        await put_one(collection, sample.renumbered(listed, 4))
        assert (await collection.tally(query, [sample.number_field])).cells.keys() == {(4,)}

    async def test_an_unreadable_record_does_not_hide_the_others(self, store: Store, shelf: str) -> None:
        """Where nothing is ever encoded (in memory), it is simply readable."""
        collection = store.collection(PARCELS)
        given = varied_parcels(shelf)
        torn = [replace(parcel, colour=TORN) if parcel.name in "bcf" else parcel for parcel in given]
        await put(collection, torn)
        results = await collection.get(keys(given))
        sound = [parcel for parcel in torn if parcel.colour != TORN]
        assert [each for each in results if not isinstance(each, Exception) and each and each.colour != TORN] == sound
        broken = [each for each in results if isinstance(each, Exception)]
        query = Query((Is("shelf", (shelf,)),), (Sort("name"),), limit=2)
        found = await pages(collection, query)
        assert [parcel for page in found for parcel in page.items if parcel.colour != TORN] == sound
        corrupt = [problem for page in found for problem in page.corrupt]
        assert len(corrupt) == len(broken) in (0, 3)
        assert None not in results
        assert (await collection.tally(query, ["colour"])).cells[(TORN,)].count == 3

    @pytest.mark.parametrize("kind", [LETTERS, PARCELS], ids=["letters", "varied_parcels"])
    async def test_what_a_kind_does_not_have(self, store: Store, kind: Kind[Any]) -> None:
        collection = store.collection(kind)
        text, date, many, flat, json, keyword, number = (
            ("error", "failed_at", "repos", "metadata", "task", "status", "priority")
            if kind.name == "letters"
            else ("note", "sent_at", "tags", "labels", "contents", "colour", "weight")
        )
        wrong: list[Condition] = [
            Is("no_such_field", ("a",)),
            Is("no_such_field'; --", ("a",)),
            Is(text, ("a",)),
            Is(json, ("a",)),
            Is(flat, ("a",)),
            Missing(json),
            Between(many, at_least=1),
            Between("shelf" if kind is PARCELS else "status", at_least=1),
            Between(date, at_least=1),
            Between(date, below=START.replace(tzinfo=None)),
            Between(number, at_most=START),
            Between(number, at_least=cast("Any", "1")),
            Between(number, below=cast("Any", float("nan"))),
            Not(Between(date, at_most=1)),
            At(json, "a", 1),
            At(date, "a", 1),
            Not(Is("no_such_field", ("a",))),
            AnyOf((Is(date, ()), Not(AnyOf((Missing("no_such_field"),))))),
        ]
        for condition in wrong:
            with pytest.raises(InvalidQuery):
                await collection.find(Query((condition,)))
            with pytest.raises(InvalidQuery):
                await collection.tally(Query((condition,)))
        for field in ("no_such_field", text, json, many, flat):
            with pytest.raises(InvalidQuery):
                await collection.find(Query(sort=(Sort(field),)))
            with pytest.raises(InvalidQuery):
                await collection.tally(Query(), [field])
        for field in ("no_such_field", text, json, many, flat, keyword, date):
            with pytest.raises(InvalidQuery):
                await collection.tally(Query(), sums=[field])
        for field in ("no_such_field", text, json, many, flat, keyword, number):
            with pytest.raises(InvalidQuery):
                await collection.tally(Query(), spans=[field])


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


def paged_parcels(shelf: str) -> list[Parcel]:
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


class PagingContract(ContractTests):
    """Cursors."""

    @pytest.mark.parametrize("carry", CARRIERS, ids=["cursor", "text", "position"])
    async def test_pages_make_the_whole_list(self, store: Store, shelf: str, carry: Carrier) -> None:
        collection = store.collection(PARCELS)
        await put(collection, paged_parcels(shelf))
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
        await put(collection, paged_parcels(shelf))
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
        await put(collection, paged_parcels(shelf))
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

"""Lists are in order and up to date, and one broken record does not spoil them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.query import AnyOf, At, Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.stores.base import Store
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing.clock import START
from mahavishnu.testing.contract.base import Promises, everything, keys, pages, put, put_one
from mahavishnu.testing.contract.finding import parcels
from mahavishnu.testing.contract.kinds import PARCELS, TORN, Parcel, Sample


class Listing(Promises):
    """Order, freshness, and what cannot be asked."""

    async def test_order(self, store: Store, shelf: str) -> None:
        await put(store.collection(PARCELS), parcels(shelf))
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
        given = parcels(shelf)
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

    @pytest.mark.parametrize("kind", [LETTERS, PARCELS], ids=["letters", "parcels"])
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

"""Tallies equal a recount."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mahavishnu.model.query import Between, Is, Missing, Not, Query, Sort
from mahavishnu.stores.base import Cell, Store
from mahavishnu.testing.clock import START
from mahavishnu.testing.contract.base import Promises, put, put_one, tallied
from mahavishnu.testing.contract.kinds import PARCELS, Parcel, Sample


def parcels(shelf: str) -> list[Parcel]:
    given: list[tuple[str | None, int | None, datetime | None]] = [
        ("red", 3, START),
        ("red", None, START + timedelta(milliseconds=1)),
        ("red", -5, None),
        ("blue", None, None),
        ("blue", None, START - timedelta(days=365 * 100)),
        (None, 2**40, START + timedelta(days=365 * 100)),
        (None, 2**40, None),
        ("", 0, START),
    ]
    return [
        Parcel(key=f"{shelf}:{number}", shelf=shelf, name=f"{number % 2}", colour=colour, weight=weight, sent_at=sent)
        for number, (colour, weight, sent) in enumerate(given)
    ]


class Counting(Promises):
    """Counts, sums and spans."""

    async def test_the_count_of_all(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        query = sample.query(shelf)
        empty = await tallied(collection, query)
        assert empty.total == Cell()
        assert sum(cell.count for cell in empty.cells.values()) == 0
        await put(collection, sample.many(shelf, 12))
        assert dict((await tallied(collection, query)).cells) == {(): Cell(12)}
        few = sample.query(shelf, Between(sample.number_field, below=5), limit=2)
        assert (await tallied(collection, few)).total.count == 5
        everywhere = await tallied(collection, Query())
        assert everywhere.total.count >= 12

    async def test_by_one_field(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, parcels(shelf))
        query = Query((Is("shelf", (shelf,)),), (Sort("weight"),), limit=1)
        by_colour = await tallied(collection, query, ["colour"])
        assert dict(by_colour.cells) == {
            ("red",): Cell(3), ("blue",): Cell(2), (None,): Cell(2), ("",): Cell(1)
        }  # fmt: skip
        assert by_colour.total == Cell(8)
        by_weight = await tallied(collection, query, ["weight"])
        assert {values[0]: cell.count for values, cell in by_weight.cells.items()} == {
            3: 1, None: 3, -5: 1, 2**40: 2, 0: 1
        }  # fmt: skip
        assert all(type(value) in (int, type(None)) for (value,) in by_weight.cells)
        derived = await tallied(collection, query, ["heavy"])
        assert dict(derived.cells) == {(0,): Cell(6), (1,): Cell(2)}

    async def test_by_several_fields(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, parcels(shelf))
        query = Query((Is("shelf", (shelf,)),))
        tally = await tallied(collection, query, ["name", "colour", "weight"])
        assert {values: cell.count for values, cell in tally.cells.items()} == {
            ("0", "red", 3): 1, ("1", "red", None): 1, ("0", "red", -5): 1, ("1", "blue", None): 1,
            ("0", "blue", None): 1, ("1", None, 2**40): 1, ("0", None, 2**40): 1, ("1", "", 0): 1,
        }  # fmt: skip
        assert {value: cell.count for value, cell in tally.by(1).items()} == {"red": 3, "blue": 2, None: 2, "": 1}
        turned = await tallied(collection, query, ["weight", "name"])
        assert {values[::-1]: cell.count for values, cell in turned.cells.items()} == {
            values: cell.count for values, cell in (await tallied(collection, query, ["name", "weight"])).cells.items()
        }

    async def test_sums_and_spans(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, parcels(shelf))
        long = timedelta(days=365 * 100)
        query = Query((Is("shelf", (shelf,)),))
        tally = await tallied(collection, query, ["colour"], sums=["weight", "heavy"], spans=["sent_at"])
        assert dict(tally.cells) == {
            ("red",): Cell(
                3, {"weight": -2, "heavy": 0}, {"sent_at": START}, {"sent_at": START + timedelta(milliseconds=1)}
            ),
            ("blue",): Cell(2, {"weight": 0, "heavy": 0}, {"sent_at": START - long}, {"sent_at": START - long}),
            (None,): Cell(2, {"weight": 2**41, "heavy": 2}, {"sent_at": START + long}, {"sent_at": START + long}),
            ("",): Cell(1, {"weight": 0, "heavy": 0}, {"sent_at": START}, {"sent_at": START}),
        }
        assert all(type(value) is int for cell in tally.cells.values() for value in cell.sums.values())
        total = (await tallied(collection, query, sums=["weight"], spans=["sent_at"])).total
        assert total == Cell(8, {"weight": 2**41 - 2}, {"sent_at": START - long}, {"sent_at": START + long})
        dateless = await tallied(
            collection, Query((Is("shelf", (shelf,)), Missing("sent_at"))), sums=["weight"], spans=["sent_at"]
        )
        assert dict(dateless.cells) == {(): Cell(3, {"weight": 2**40 - 5})}

    async def test_what_the_query_leaves_out_is_not_counted(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, parcels(shelf))
        query = Query((Is("shelf", (shelf,)), Not(Missing("weight")), Between("weight", below=10)))
        tally = await tallied(collection, query, ["colour"], sums=["weight"])
        assert {values: (cell.count, cell.sums["weight"]) for values, cell in tally.cells.items()} == {
            ("red",): (2, -2),
            ("",): (1, 0),
        }

    async def test_more_groups_than_fit_one_answer(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(
            collection,
            [Parcel(key=f"{shelf}:{n}", shelf=shelf, name=f"{n % 1500:04}", weight=n) for n in range(3000)],
        )
        tally = await tallied(collection, Query((Is("shelf", (shelf,)),)), ["name"], sums=["weight"])
        assert dict(tally.cells) == {(f"{n:04}",): Cell(2, {"weight": 2 * n + 1500}) for n in range(1500)}

    async def test_a_tally_is_up_to_date(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        query, number = sample.query(shelf), sample.number_field

        async def counts() -> dict[Any, int]:
            tally = await tallied(collection, query, [number], sums=[number])
            assert all(cell.sums[number] == values[0] * cell.count for values, cell in tally.cells.items())
            return {values[0]: cell.count for values, cell in tally.cells.items() if cell.count}

        assert await counts() == {}
        a, b = await put(collection, [sample.make(shelf, "a", 1), sample.make(shelf, "b", 1)])
        assert await counts() == {1: 2}
        a = await put_one(collection, sample.renumbered(a, 5))
        assert await counts() == {1: 1, 5: 1}
        assert await collection.remove([b]) == [True]
        assert await counts() == {5: 1}
        assert await collection.remove([a]) == [True]
        assert await counts() == {}

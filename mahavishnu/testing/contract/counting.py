"""Tallies; agreement with the reference store on random queries; and many calls at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ErrorCategory, ResolutionStatus, Tallies
from mahavishnu.model.query import AnyOf, At, Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.stores.base import MOST_BUCKETS, Buckets, Cell, Histogram, Result, Store, get_one, write_one
from mahavishnu.stores.kind import FieldType, Kind
from mahavishnu.stores.kinds import HISTORY, LEDGER, LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.retained import LedgerEntry
from mahavishnu.testing.clock import START
from mahavishnu.testing.contract.base import (
    PARCELS,
    PATIENCE_SECONDS,
    TORN,
    ContractTests,
    Parcel,
    Sample,
    all_stored,
    current,
    everything,
    full_tally,
    keys,
    pages,
    put,
    put_one,
)
from mahavishnu.testing.letters import make_letter

MILLISECOND, HOUR = timedelta(milliseconds=1), timedelta(hours=1)


def counted_parcels(shelf: str) -> list[Parcel]:
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


class CountContract(ContractTests):
    """Counts, sums and spans."""

    async def test_the_count_of_all(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        query = sample.query(shelf)
        empty = await full_tally(collection, query)
        assert empty.total == Cell()
        assert sum(cell.count for cell in empty.cells.values()) == 0
        await put(collection, sample.many(shelf, 12))
        assert dict((await full_tally(collection, query)).cells) == {(): Cell(12)}
        few = sample.query(shelf, Between(sample.number_field, below=5), limit=2)
        assert (await full_tally(collection, few)).total.count == 5
        everywhere = await full_tally(collection, Query())
        assert everywhere.total.count >= 12

    async def test_by_one_field(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, counted_parcels(shelf))
        query = Query((Is("shelf", (shelf,)),), (Sort("weight"),), limit=1)
        by_colour = await full_tally(collection, query, ["colour"])
        assert dict(by_colour.cells) == {
            ("red",): Cell(3), ("blue",): Cell(2), (None,): Cell(2), ("",): Cell(1)
        }  # fmt: skip
        assert by_colour.total == Cell(8)
        by_weight = await full_tally(collection, query, ["weight"])
        assert {values[0]: cell.count for values, cell in by_weight.cells.items()} == {
            3: 1, None: 3, -5: 1, 2**40: 2, 0: 1
        }  # fmt: skip
        assert all(type(value) in (int, type(None)) for (value,) in by_weight.cells)
        derived = await full_tally(collection, query, ["heavy"])
        assert dict(derived.cells) == {(0,): Cell(6), (1,): Cell(2)}

    async def test_by_several_fields(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, counted_parcels(shelf))
        query = Query((Is("shelf", (shelf,)),))
        tally = await full_tally(collection, query, ["name", "colour", "weight"])
        assert {values: cell.count for values, cell in tally.cells.items()} == {
            ("0", "red", 3): 1, ("1", "red", None): 1, ("0", "red", -5): 1, ("1", "blue", None): 1,
            ("0", "blue", None): 1, ("1", None, 2**40): 1, ("0", None, 2**40): 1, ("1", "", 0): 1,
        }  # fmt: skip
        assert {value: cell.count for value, cell in tally.by(1).items()} == {"red": 3, "blue": 2, None: 2, "": 1}
        turned = await full_tally(collection, query, ["weight", "name"])
        assert {values[::-1]: cell.count for values, cell in turned.cells.items()} == {
            values: cell.count
            for values, cell in (await full_tally(collection, query, ["name", "weight"])).cells.items()
        }

    async def test_sums_and_spans(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, counted_parcels(shelf))
        long = timedelta(days=365 * 100)
        query = Query((Is("shelf", (shelf,)),))
        tally = await full_tally(collection, query, ["colour"], sums=["weight", "heavy"], spans=["sent_at"])
        assert dict(tally.cells) == {
            ("red",): Cell(
                3, {"weight": -2, "heavy": 0}, {"sent_at": START}, {"sent_at": START + timedelta(milliseconds=1)}
            ),
            ("blue",): Cell(2, {"weight": 0, "heavy": 0}, {"sent_at": START - long}, {"sent_at": START - long}),
            (None,): Cell(2, {"weight": 2**41, "heavy": 2}, {"sent_at": START + long}, {"sent_at": START + long}),
            ("",): Cell(1, {"weight": 0, "heavy": 0}, {"sent_at": START}, {"sent_at": START}),
        }
        assert all(type(value) is int for cell in tally.cells.values() for value in cell.sums.values())
        total = (await full_tally(collection, query, sums=["weight"], spans=["sent_at"])).total
        assert total == Cell(8, {"weight": 2**41 - 2}, {"sent_at": START - long}, {"sent_at": START + long})
        dateless = await full_tally(
            collection, Query((Is("shelf", (shelf,)), Missing("sent_at"))), sums=["weight"], spans=["sent_at"]
        )
        assert dict(dateless.cells) == {(): Cell(3, {"weight": 2**40 - 5})}

    async def test_what_the_query_leaves_out_is_not_counted(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(collection, counted_parcels(shelf))
        query = Query((Is("shelf", (shelf,)), Not(Missing("weight")), Between("weight", below=10)))
        tally = await full_tally(collection, query, ["colour"], sums=["weight"])
        assert {values: (cell.count, cell.sums["weight"]) for values, cell in tally.cells.items()} == {
            ("red",): (2, -2),
            ("",): (1, 0),
        }

    async def test_more_groups_than_fit_one_answer(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        await put(
            collection, [Parcel(key=f"{shelf}:{n}", shelf=shelf, name=f"{n % 1500:04}", weight=n) for n in range(3000)]
        )
        tally = await full_tally(collection, Query((Is("shelf", (shelf,)),)), ["name"], sums=["weight"])
        assert dict(tally.cells) == {(f"{n:04}",): Cell(2, {"weight": 2 * n + 1500}) for n in range(1500)}

    async def test_a_tally_is_up_to_date(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        query, number = sample.query(shelf), sample.number_field

        async def counts() -> dict[Any, int]:
            tally = await full_tally(collection, query, [number], sums=[number])
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


class HistogramContract(ContractTests):
    """Counts by time."""

    async def test_a_bucket_includes_its_start_and_not_its_end(self, store: Store, shelf: str) -> None:
        collection, query = store.collection(PARCELS), Query((Is("shelf", (shelf,)),), (Sort("weight"),), limit=1)
        moments = [
            START - MILLISECOND, START, START + MILLISECOND, START + HOUR - MILLISECOND,
            START + 2 * HOUR,
            START + 4 * HOUR - MILLISECOND,
            START + 4 * HOUR, START + timedelta(days=365 * 7000), START - timedelta(days=365 * 100), None,
        ]  # fmt: skip
        await put(collection, parcels_sent(shelf, moments))
        closed = Buckets("sent_at", START, HOUR, 4)
        assert await collection.histogram(query, closed) == Histogram((3, 0, 1, 1))
        assert await collection.histogram(query, replace(closed, open_end=True)) == Histogram((3, 0, 1, 3))
        one = Buckets("sent_at", START, MILLISECOND, 1)
        assert await collection.histogram(query, one) == Histogram((1,))
        assert await collection.histogram(query, replace(one, open_end=True)) == Histogram((7,))

    async def test_without_records_every_bucket_is_zero(self, store: Store, shelf: str) -> None:
        collection, query = store.collection(PARCELS), Query((Is("shelf", (shelf,)),))
        buckets = Buckets("sent_at", START, HOUR, MOST_BUCKETS)
        assert await collection.histogram(query, buckets) == Histogram((0,) * MOST_BUCKETS)
        await put(collection, parcels_sent(shelf, [None, START - HOUR]))
        assert await collection.histogram(query, replace(buckets, open_end=True)) == Histogram((0,) * MOST_BUCKETS)

    async def test_buckets_begin_at_any_instant(self, store: Store, shelf: str) -> None:
        """Also before 1970, where some count milliseconds below zero, and in another zone."""
        collection, query = store.collection(PARCELS), Query((Is("shelf", (shelf,)),))
        first = datetime(1969, 12, 31, 23, 59, 59, 7_000, UTC)
        step = timedelta(milliseconds=997)
        await put(collection, parcels_sent(shelf, [first + step * n for n in (0, 0, 1, 3)] + [first - MILLISECOND]))
        buckets = Buckets("sent_at", first + timedelta(microseconds=999), step, 5)
        assert await collection.histogram(query, buckets) == Histogram((2, 1, 0, 1, 0))
        abroad = replace(buckets, start=first.astimezone(timezone(timedelta(hours=5, minutes=45))))
        assert await collection.histogram(query, abroad) == Histogram((2, 1, 0, 1, 0))

    async def test_what_the_query_leaves_out_is_not_in_a_bucket(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        parcels = [
            replace(parcel, weight=number, colour=("red", "blue", None)[number % 3], tags=("a",) * (number % 2))
            for number, parcel in enumerate(parcels_sent(shelf, [START + HOUR * (n // 4) for n in range(12)]))
        ]
        await put(collection, parcels)
        buckets, here = Buckets("sent_at", START, HOUR, 3), Is("shelf", (shelf,))
        asked: dict[Condition, tuple[int, ...]] = {
            Is("colour", ("red",)): (2, 1, 1),
            Not(Is("colour", ("red",))): (2, 3, 3),
            Missing("colour"): (1, 1, 2),
            Is("tags", ("a",)): (2, 2, 2),
            Between("weight", at_least=3, below=9): (1, 4, 1),
            Between("sent_at", below=START + HOUR): (4, 0, 0),
            AnyOf((Is("weight", (0,)), Is("weight", (11,)))): (1, 0, 1),
            AnyOf(()): (0, 0, 0),
        }
        for condition, counts in asked.items():
            assert await collection.histogram(Query((here, condition)), buckets) == Histogram(counts), condition

    async def test_a_histogram_is_up_to_date(self, store: Store, shelf: str) -> None:
        collection, query = store.collection(PARCELS), Query((Is("shelf", (shelf,)),))
        buckets = Buckets("sent_at", START, HOUR, 2)
        (parcel,) = await put(collection, parcels_sent(shelf, [START]))
        assert await collection.histogram(query, buckets) == Histogram((1, 0))
        parcel = await put_one(collection, replace(parcel, sent_at=START + HOUR))
        assert await collection.histogram(query, buckets) == Histogram((0, 1))
        assert await collection.remove([parcel]) == [True]
        assert await collection.histogram(query, buckets) == Histogram((0, 0))

    async def test_a_record_that_cannot_be_read_is_counted_by_time(self, store: Store, shelf: str) -> None:
        collection, query = store.collection(PARCELS), Query((Is("shelf", (shelf,)),))
        whole, torn = parcels_sent(shelf, [START, START])
        await put(collection, [whole])
        stored = all_stored(await collection.write([replace(torn, colour=TORN)]))
        assert await collection.histogram(query, Buckets("sent_at", START, HOUR, 1)) == Histogram((2,))
        assert await collection.remove(stored) == [True]  # other tests read all records of this store

    async def test_only_dates_have_a_histogram(self, store: Store, sample: Sample[Any], shelf: str) -> None:
        collection = store.collection(sample.kind)
        for field in ("unheard_of", *(each.name for each in sample.kind.fields if each.type is not FieldType.DATE)):
            with pytest.raises(InvalidQuery):
                await collection.histogram(sample.query(shelf), Buckets(field, START, HOUR, 1))

    async def test_agreement_with_tally(self, store: Store, shelf: str) -> None:
        chance, collection = random.Random(20260102), store.collection(PARCELS)
        spread = [START + timedelta(milliseconds=chance.randint(-(10**7), 10**7)) for _ in range(200)]
        await put(collection, parcels_sent(shelf, spread))
        for _ in range(15):
            start = chance.choice(spread) + chance.randint(-1, 1) * MILLISECOND
            step = timedelta(milliseconds=chance.choice((1, 1000, chance.randint(2, 10**7))))
            buckets = Buckets("sent_at", start, step, chance.randint(1, 5), open_end=chance.random() < 0.5)
            where = (Is("shelf", (shelf,)), Not(Is("name", (str(chance.randint(0, 3)),))))
            ends = [start + step * number for number in range(1, buckets.count)]
            bounds = zip([start, *ends], [*ends, None if buckets.open_end else buckets.end], strict=True)
            counts = [
                (await full_tally(collection, Query((*where, Between("sent_at", at_least, below))))).total.count
                for at_least, below in bounds
            ]
            assert await collection.histogram(Query(where), buckets) == Histogram(tuple(counts)), buckets


def parcels_sent(shelf: str, moments: Sequence[datetime | None]) -> list[Parcel]:
    return [
        Parcel(key=f"{shelf}:{number}", shelf=shelf, name=f"{number % 4}", sent_at=moment)
        for number, moment in enumerate(moments)
    ]


WORDS = ("red", "Red", "blue", "ä", "", "x y", "10", "9", "😀")
LABELS = ("a", "a.b", "b", "tenant")
VALUES = ("x", "1", 1, 1.0, 2.5, True, False, "true", -3, "")


def random_parcel(chance: random.Random, shelf: str, number: int) -> Parcel:
    return Parcel(
        key=f"{shelf}:{number:03}",
        shelf=shelf,
        name=f"{number:03}",
        colour=chance.choice((None, *WORDS)),
        tags=tuple(chance.sample(WORDS, chance.choice((0, 1, 2, 4)))),
        sent_at=chance.choice((None, _moment(chance))),
        weight=chance.choice((None, chance.randint(-5, 5), chance.randint(-(10**12), 10**12))),
        labels=Json.of({path: _label(chance) for path in chance.sample(LABELS, chance.randint(0, 3))}),
    )


def random_letter(chance: random.Random, shelf: str, number: int) -> DeadLetter:
    return make_letter(
        task_id=f"{number:03}",
        namespace=shelf,
        queue=chance.choice(("default", "mail")),
        entry_id=f"{shelf}:{number:03}",
        status=chance.choice(list(DeadLetterStatus)),
        created_at=_moment(chance),
        priority=chance.randint(-3, 3),
        error=" ".join(chance.sample(("connection", "reset", "Timeout", "größer", "404"), 3)),
        error_category=chance.choice((None, *ErrorCategory)),
        repos=tuple(chance.sample(("api", "web", "Web"), chance.randint(0, 2))),
        fingerprint=chance.choice((None, "f1", "f2")),
        metadata={path: _label(chance) for path in chance.sample(LABELS, chance.randint(0, 3))},
        occurrences=chance.randint(1, 9),
    )


class AgreementContract(ContractTests):
    """Comparison with `MemoryStore`; the seed is fixed, so a failure can be repeated."""

    async def test_parcels_as_in_memory(self, store: Store, shelf: str) -> None:
        values: dict[str, Callable[[random.Random], Any]] = {
            "colour": lambda chance: chance.choice(WORDS),
            "tags": lambda chance: chance.choice(WORDS),
            "name": lambda chance: f"{chance.randint(0, 150):03}",
            "weight": lambda chance: chance.randint(-5, 5),
            "heavy": lambda chance: chance.randint(0, 1),
            "sent_at": _moment,
        }
        await self._compare(store, PARCELS, random_parcel, shelf, "shelf", values, ("colour", "weight", "heavy"))

    async def test_letters_as_in_memory(self, store: Store, shelf: str) -> None:
        values: dict[str, Callable[[random.Random], Any]] = {
            "status": lambda chance: chance.choice(list(DeadLetterStatus)).value,
            "resolution_status": lambda chance: chance.choice(list(ResolutionStatus)).value,
            "error_category": lambda chance: chance.choice(list(ErrorCategory)).value,
            "words": lambda chance: chance.choice(("connection", "reset", "timeout", "größer", "404")),
            "repos": lambda chance: chance.choice(("api", "web", "Web")),
            "fingerprint": lambda chance: chance.choice(("f1", "f2", "f3")),
            "queue": lambda chance: chance.choice(("default", "mail")),
            "partition": lambda chance: chance.randint(0, 255),
            "priority": lambda chance: chance.randint(-3, 3),
            "created_at": _moment,
            "due_at": _moment,
            "next_retry_at": _moment,
        }
        groups = ("status", "error_category", "fingerprint", "priority", "queue")
        await self._compare(store, LETTERS, random_letter, shelf, "namespace", values, groups)

    async def test_declared_counts_as_in_memory(self, store: Store, shelf: str) -> None:
        """A store may keep the numbers that a kind declares as `counted`; they agree after any writes."""
        chance = random.Random(20260102)
        made = [random_letter(chance, shelf, number) for number in range(120)]
        numbers = range(0, 120, 3)
        changed = [replace(random_letter(chance, shelf, number), queue=made[number].queue) for number in numbers]
        kinds: list[tuple[Kind[Any], Callable[[DeadLetter], Any]]] = [
            (LETTERS, lambda it: it),
            (HISTORY, FormerLetter.of),
        ]
        for kind, make in kinds:
            ours, reference = store.collection(kind), MemoryStore().collection(kind)
            for collection in (ours, reference):
                stored = await put(collection, [make(each) for each in made])
                versions = {each.key: each.version for each in stored}
                again = [make(each) for each in changed]
                stored = await put(collection, [replace(each, version=versions[each.key]) for each in again])
                await collection.remove(stored[::2])
                assert await collection.remove(stored[::2]) == [False] * 20, "they are gone"
            for each in kind.counted:
                here: list[Condition] = [Is("namespace", (shelf,))]
                if each.at is not None:
                    here.append(Between(each.at, START - timedelta(days=3), START + timedelta(days=9999)))
                for where in (here, [*here, *(Not(Missing(name)) for name in each.flags[:1])]):
                    asked = {"sums": each.sums, "spans": each.spans}
                    theirs = await full_tally(reference, Query(tuple(where)), each.by, **asked)
                    tally = await full_tally(ours, Query(tuple(where)), each.by, **asked)
                    assert {by: cell for by, cell in tally.cells.items() if cell.count} == theirs.cells, (each, where)

    async def test_a_number_that_a_document_omits(self, store: Store, shelf: str) -> None:
        """It is found, sorted and counted as what it is in the record, in each kind that leaves defaults out."""
        edited = make_letter(task_id="edited", namespace=shelf, revision=2, dlq_retry_count=1, recoveries=1)
        letters = [
            make_letter(task_id="new", namespace=shelf),
            replace(edited, tallies=Tallies(*range(1, len(fields(Tallies)) + 1))),
        ]
        former = [FormerLetter.of(letter) for letter in letters]
        entries = [
            LedgerEntry(f"{shelf}-{number}", START, number + 1, letter.tallies, namespace=shelf)
            for number, letter in enumerate(letters)
        ]
        given: list[tuple[Kind[Any], Sequence[Any]]] = [(LETTERS, letters), (HISTORY, former), (LEDGER, entries)]
        for kind, records in given:
            ours, reference = store.collection(kind), MemoryStore().collection(kind)
            for collection in (ours, reference):
                await put(collection, records)
            here = Is("namespace", (shelf,))
            for name in (field.name for field in kind.fields if field.type is FieldType.INTEGER):
                tests: list[Condition] = [Is(name, (0,)), Is(name, (1, 2)), Between(name, below=1), Missing(name)]
                tests += [Between(name, at_least=0), Between(name, at_most=-1), Between(name, at_least=1)]
                for test in (*tests, *map(Not, tests)):
                    query = Query((here, test), (Sort(name),), limit=1)
                    expected = keys(await everything(reference, query))
                    assert keys(await everything(ours, query)) == expected, (kind.name, query)
                for descending in (False, True):
                    query = Query((here,), (Sort(name, descending),), limit=1)
                    assert keys(await everything(ours, query)) == keys(await everything(reference, query)), query
                theirs = await full_tally(reference, Query((here,)), [name], sums=[name], spans=[])
                assert (await full_tally(ours, Query((here,)), [name], sums=[name], spans=[])).cells == theirs.cells

    async def _compare(
        self,
        store: Store,
        kind: Kind[Any],
        make: Callable[[random.Random, str, int], Any],
        shelf: str,
        shelf_field: str,
        values: dict[str, Callable[[random.Random], Any]],
        groups: tuple[str, ...],
    ) -> None:
        chance = random.Random(20260101)
        ours, reference = store.collection(kind), MemoryStore().collection(kind)
        records = [make(chance, shelf, number) for number in range(150)]
        for collection in (ours, reference):
            stored = await put(collection, records)
            assert await collection.remove(stored[::10]) == [True] * 15
            await put(collection, [make(random.Random(number), shelf, number) for number in range(0, 150, 20)])
        sortable = [name for name in values if kind.by_name[name].type not in (FieldType.KEYWORDS, FieldType.FLAT)]
        numbers = [name for name in values if kind.by_name[name].type is FieldType.INTEGER]
        dates = [name for name in values if kind.by_name[name].type is FieldType.DATE]
        for _ in range(50):
            where = tuple(_condition(chance, kind, values, depth=2) for _ in range(chance.randint(0, 3)))
            sort = tuple(Sort(name, chance.random() < 0.5) for name in chance.sample(sortable, chance.randint(0, 2)))
            query = Query((Is(shelf_field, (shelf,)), *where), sort, limit=chance.choice((23, 60, 500)))
            expected = await everything(reference, query)
            found = await everything(ours, query)
            assert keys(found) == keys(expected), query
            assert found == expected
            by = chance.sample(groups, chance.randint(0, 3))
            asked = {"sums": chance.sample(numbers, 1), "spans": chance.sample(dates, 1)}
            theirs = await full_tally(reference, query, by, **asked)
            tally = await full_tally(ours, query, by, **asked)
            assert tally.total == theirs.total, query
            assert {values: cell for values, cell in tally.cells.items() if cell.count} == theirs.cells, (query, by)
            step = timedelta(days=chance.randint(1, 9999))
            buckets = Buckets(asked["spans"][0], _moment(chance), step, 9, open_end=not by)
            assert await ours.histogram(query, buckets) == await reference.histogram(query, buckets), (query, buckets)
        assert sum(len(page.items) for page in await pages(ours, Query((Is(shelf_field, (shelf,)),)))) == len(
            await everything(reference, Query())
        )


def _moment(chance: random.Random) -> datetime:
    return START + timedelta(milliseconds=chance.choice((-1, 0, 1, 86_400_000, 10**12)))


def _label(chance: random.Random) -> Any:
    value = chance.choice((*VALUES, None))
    return chance.choice((value, [value, "y"], {"b": value}, []))


def _condition(
    chance: random.Random, kind: Kind[Any], values: dict[str, Callable[[random.Random], Any]], depth: int
) -> Condition:
    pick = chance.random()
    if depth and pick < 0.15:
        return Not(_condition(chance, kind, values, depth - 1))
    if depth and pick < 0.3:
        return AnyOf(tuple(_condition(chance, kind, values, depth - 1) for _ in range(chance.randint(0, 3))))
    if pick < 0.4:
        flat = "labels" if "labels" in kind.by_name else "metadata"
        return At(flat, chance.choice((*LABELS, "a.b.b")), chance.choice(VALUES))
    name = chance.choice(list(values))
    value = values[name]
    if kind.by_name[name].type in (FieldType.DATE, FieldType.INTEGER) and pick < 0.8:
        bounds = {
            bound: value(chance) for bound in chance.sample(("at_least", "below", "at_most"), chance.randint(1, 2))
        }
        return Between(name, **bounds)
    if pick < 0.9:
        return Is(name, tuple(value(chance) for _ in range(chance.randint(0, 3))))
    return Missing(name)


class ConcurrencyContract(ContractTests):
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

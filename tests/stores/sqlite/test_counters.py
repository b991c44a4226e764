"""Counters on SQLite: whatever is written, refused or undone, they are what a recount of the records gives."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.groups.counts import HOUR
from mahavishnu.model.errors import StoreError
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.model.query import (
    ALL_NAMESPACES,
    AnyOf,
    Between,
    Condition,
    Is,
    Missing,
    Not,
    Query,
    within_namespace,
    without_waiting_items,
)
from mahavishnu.monitoring.statistics import FAILED_AGAIN
from mahavishnu.stores.base import Buckets
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.scoped import without_deleted
from mahavishnu.stores.sqlite import SQLiteStore, counters
from mahavishnu.stores.sqlite import table as sqlite_sql
from mahavishnu.stores.sqlite.store import SQLiteCollection
from mahavishnu.testing import START, make_letter

Letters = SQLiteCollection[DeadLetter]
MINUTE = timedelta(minutes=1)
OPEN, HERE = Is("resolution_status", ("pending",)), Is("namespace", ("eu",))
NUMBERED = AnyOf((Between("generation", at_least=1), Between("tally_reopened", at_least=1)))
MOMENTS = ("created_at", "grouped_at", "seen_at")
ASKED: Sequence[tuple[tuple[Condition, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = [
    ((HERE, OPEN), ("status", "error_category", "unfit"), (), ()),
    ((NUMBERED,), ("namespace",), ("generation", "tally_exhausted", "occurrences"), ()),
    ((HERE, OPEN, Missing("due_at")), ("fingerprint",), ("occurrences",), ()),
    ((Not(Missing("due_at")), Between("generation", below=1)), ("queue", "counted_group"), (), ()),
    ((Is("fingerprint", ("g1", "g2")), Not(OPEN)), ("fingerprint",), (), ()),
    ((), ("fingerprint", "moved"), (), MOMENTS),
    ((HERE,), (), (), ("seen_at",)),
    ((HERE, OPEN), ("fingerprint",), (), ("created_at",)),
    ((HERE, OPEN, Is("fingerprint", ("g1", "g3"))), ("fingerprint",), ("occurrences",), ("created_at",)),
]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    async with SQLiteStore(tmp_path / "letters.db", kinds=(LETTERS, HISTORY)) as opened:
        yield opened


async def rows(letters: SQLiteCollection[Any], sql: sqlite_sql.Sql) -> list[Any]:
    return await letters._store.open_file().read(letters.table, sql, list)


async def require_exact(letters: Letters) -> None:
    """Compare counters with the records, and answers from counters with answers from records."""
    for shape in letters.table.shapes:
        assert await rows(letters, counters.wrong_cells(letters.table, shape)) == [(0,)], shape.name
    for where, by, sums, spans in ASKED:
        query = Query(where)
        asked = by, sums, spans
        counted = counters.tally(letters.table, query, *asked)
        assert counted is not None, (where, by)
        there = letters._tally(await rows(letters, sqlite_sql.tally(letters.table, query, *asked)), *asked)
        assert letters._tally(await rows(letters, counted), *asked) == there, where  # also while spans are stale
        assert await letters.tally(query, by, sums=sums, spans=spans) == there, where


def some_letter(chance: random.Random, name: str) -> DeadLetter:
    def moment() -> datetime:
        return START + timedelta(milliseconds=chance.randrange(-90, 90) * chance.choice((1, 7_001, 60_000, 3_600_000)))

    status = chance.choice(("pending", "exhausted", "completed", "retrying"))
    letter = make_letter(
        task_id=name,
        status=status,
        namespace=chance.choice(("eu", "us")),
        fingerprint=chance.choice((None, "g1", "g2", "g3")),
        adapter=chance.choice((None, "shop")),
        created_at=moment(),
        grouped_at=chance.choice((None, moment())),
        generation=chance.choice((0, 1, 2)),
        occurrences=chance.choice((1, 5)),
        tallies=Tallies(reopened=chance.choice((0, 1)), exhausted=chance.randrange(3)),
        last_retry_at=chance.choice((None, moment())),
    )
    return evolve(letter, due_at=moment()) if status == "pending" and chance.random() < 0.7 else letter


class World:
    """Letters of two stores on one file, written in any order, also from states that are not the latest."""

    def __init__(self, seed: int, *stores: SQLiteStore) -> None:
        self.chance, self.numbers = random.Random(seed), count()
        self.letters = [store.main_collection(LETTERS) for store in stores]
        self.seen: list[DeadLetter] = []

    async def act(self) -> None:
        chance, letters = self.chance, self.chance.choice(self.letters)
        some = chance.choices(self.seen, k=chance.choice((1, 3, 150))) if self.seen else []
        match chance.choice(("create", "create", "replace", "replace", "replace", "remove", "refuse")):
            case "create":
                made = [some_letter(chance, f"t{next(self.numbers) % 60}") for _ in range(chance.choice((1, 4, 200)))]
                self.seen += [each for each in await letters.write(made) if isinstance(each, DeadLetter)]
            case "replace":
                changed = [
                    evolve(some_letter(chance, each.task_id), namespace=each.namespace, version=each.version)
                    if chance.random() < 0.5
                    else evolve(each, priority=each.priority + 1)
                    for each in some
                ]
                self.seen += [each for each in await letters.write(changed) if isinstance(each, DeadLetter)]
            case "remove":
                await letters.remove(some[:3])
            case "refuse":
                odd = [evolve(each, fingerprint="\ud800") for each in some] + [some_letter(chance, "\ud800")]
                self.seen += [each for each in await letters.write(odd) if isinstance(each, DeadLetter)]
        del self.seen[:-300]


@pytest.mark.parametrize("seed", range(6))
async def test_any_sequence_of_writes_by_two_processes(store: SQLiteStore, seed: int) -> None:
    async with SQLiteStore(store.path) as other:
        world = World(seed, store, other)
        for _ in range(40):
            await world.act()
            await require_exact(world.letters[0])
        assert len(world.seen) > 50


def breaks_off(steps: Iterator[int], most: int) -> bool:
    return next(steps) >= most


async def test_a_transaction_that_is_broken_off_anywhere(store: SQLiteStore) -> None:
    world = World(7, store)
    for _ in range(10):
        await world.act()
    broken = 0
    for most in (*range(1, 400, 13), *range(400, 60_000, 1_999)):
        connection = store.open_file()._connections.writing
        connection.set_progress_handler(partial(breaks_off, count(), most), 1)
        try:
            await world.act()
        except StoreError:
            broken += 1
        connection.set_progress_handler(None, 0)
        await require_exact(world.letters[0])
        await world.act()
    assert broken > 20


async def test_ranges_and_histograms_at_any_instant(store: SQLiteStore) -> None:
    letters, chance = store.main_collection(LETTERS), random.Random(3)
    await letters.write([some_letter(chance, f"t{number}") for number in range(300)])
    for _ in range(60):
        start, end = (START + timedelta(milliseconds=chance.randrange(-(10**7), 10**7)) for _ in range(2))
        for span in (
            Between("created_at", start),
            Between("created_at", start, end),
            Between("created_at", at_most=end),
        ):
            query = Query((HERE, span))
            assert counters.tally(letters.table, query, ("fingerprint",), (), ()) is not None
            there = await rows(letters, sqlite_sql.tally(letters.table, query, ("fingerprint",), (), ()))
            assert await letters.tally(query, ("fingerprint",)) == letters._tally(there, ("fingerprint",), (), ())
    for field, step in (("created_at", HOUR), ("last_retry_at", MINUTE), ("exhausted_at", 2 * HOUR)):
        buckets = Buckets(field, START - 3 * HOUR, step, 5, open_end=step is HOUR)
        sql = sqlite_sql.histogram(letters.table, Query((HERE,)), buckets)
        assert counters.histogram(letters.table, Query((HERE,)), buckets) is not None
        assert await letters.histogram(Query((HERE,)), buckets) == buckets.fill(await rows(letters, sql))
    odd = Buckets("created_at", START + timedelta(seconds=1), HOUR, 5)
    assert counters.histogram(letters.table, Query(), odd) is None


async def test_the_oldest_of_a_group_leaves(store: SQLiteStore) -> None:
    """Its span is counted again once, and then read from the counter."""
    letters = store.main_collection(LETTERS)
    old, _ = await letters.write(
        [make_letter(task_id=f"t{n}", fingerprint="g", created_at=START + n * HOUR) for n in range(2)]
    )
    assert isinstance(old, DeadLetter)
    assert await letters.remove([old]) == [True]
    stale = 'SELECT count(*) FROM "letters#1" WHERE _stale'
    assert await rows(letters, sqlite_sql.Sql(stale)) == [(1,)]
    tally = await letters.tally(Query(), ["fingerprint"], spans=["created_at"])
    assert tally.cells[("g",)].earliest == {"created_at": START + HOUR}
    assert await rows(letters, sqlite_sql.Sql(stale)) == [(0,)]
    await require_exact(letters)


@pytest.mark.parametrize(
    ("query", "by", "spans"), [(where, by, spans) for where, by, _, spans in ASKED if "seen_at" not in spans]
)
async def test_no_tally_goes_through_records(
    store: SQLiteStore, query: tuple[Condition, ...], by: tuple[str, ...], spans: tuple[str, ...]
) -> None:
    letters = store.main_collection(LETTERS)
    sql = counters.tally(letters.table, Query(query), by, (), spans)
    assert sql is not None
    with closing(sqlite3.connect(store.path)) as connection:
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql.text}", sql.values)]
    assert not [step for step in plan if step.startswith("SCAN letters") and "#" not in step], plan
    if spans:
        assert sum("USING INDEX letters.fingerprint" in step or "COVERING INDEX" in step for step in plan) == 2, plan


async def test_an_older_file_is_counted_when_it_is_opened(tmp_path: Path) -> None:
    plain: Kind[Any] = replace(LETTERS, counted=())
    path = tmp_path / "older.db"
    chance = random.Random(5)
    for kind, expected in ((plain, None), (LETTERS, 40), (plain, None), (LETTERS, 80)):
        async with SQLiteStore(path, kinds=(kind,)) as store:
            letters = store.main_collection(kind)
            if kind is LETTERS:
                assert (await letters.tally(Query())).total.count == expected
                await require_exact(letters)
            else:
                fresh = [some_letter(chance, f"t{chance.random()}") for _ in range(40)]
                await letters.write(fresh)
                found = await rows(
                    letters, sqlite_sql.Sql("SELECT name FROM sqlite_master WHERE name LIKE 'letters#%'")
                )
                assert found == [], "counters that nobody changes would be wrong"


async def test_wrong_counters_are_found_and_counted_again(store: SQLiteStore) -> None:
    letters = store.main_collection(LETTERS)
    await letters.write([some_letter(random.Random(1), f"t{number}") for number in range(30)])
    assert await letters.repair_counters() == 0
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute('UPDATE "letters#0" SET "+occurrences" = "+occurrences" + 1')
        (cells,) = other.execute('SELECT count(*) FROM "letters#0"').fetchone()
        other.execute('DELETE FROM "letters#1"')
        assert await letters.repair_counters() > cells
    await require_exact(letters)
    assert await letters.repair_counters() == 0


@pytest.mark.parametrize("namespace", ["eu", ALL_NAMESPACES])
@pytest.mark.parametrize("field", ["created_at", "completed_at", "exhausted_at", "last_retry_at"])
def test_hours_of_the_trend_are_counted(namespace: str, field: str) -> None:
    where = FAILED_AGAIN if field == "last_retry_at" else ()
    query = Query(where)
    if field != "created_at":  # all that came in: those that were deleted, and items of named queues
        query = without_waiting_items(without_deleted(query), namespace)
    query = within_namespace(query, namespace)
    assert counters.histogram(counters.CountedTable(LETTERS), query, Buckets(field, START, HOUR, 24)) is not None


async def test_a_process_of_another_version_that_goes_on_writing(tmp_path: Path) -> None:
    """It has other counters, or none: those of this version are not read any more, and wrong ones never."""
    path, chance = tmp_path / "letters.db", random.Random(9)
    theirs: Kind[Any] = replace(LETTERS, counted=LETTERS.counted[:1])
    async with SQLiteStore(path, kinds=(theirs,)) as other:
        await other.main_collection(theirs).write([some_letter(chance, "t1")])
        async with SQLiteStore(path, kinds=(LETTERS,)) as store:
            letters = store.main_collection(LETTERS)
            for number in (2, 3):
                await letters.write([some_letter(chance, f"{number}")])
                await other.main_collection(theirs).write([some_letter(chance, f"{number}0")])
                for each in (letters, other.main_collection(theirs)):
                    assert (await each.tally(Query())).total.count == 2 * number - 1
                assert len((await letters.tally(Query(), ["namespace"], spans=MOMENTS)).total.latest) > 1
            await letters.repair_counters()
            await require_exact(letters)

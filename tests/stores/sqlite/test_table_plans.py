"""The queries that run all the time find their rows by an index, also in a store that has never been analysed."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.ledger import WITH_NUMBERS
from mahavishnu.letters.reads import BY_REASON
from mahavishnu.model.query import NEWEST_FIRST, SOONEST_FIRST, Between, Is, Query, Sort, letter_query, within_namespace
from mahavishnu.queues.intake import QueueLetters
from mahavishnu.stores.base import Buckets, scan
from mahavishnu.stores.kind import LONGEST_TERM, Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.scoped import without_deleted
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.sqlite import table as sqlite_sql
from mahavishnu.stores.sqlite.store import column_to_merge, values_of
from mahavishnu.stores.sqlite.table import Table
from mahavishnu.testing import START, make_letter
from mahavishnu.workers.rules import run_by

LATER = START + timedelta(days=1)
DUE = "INDEX letters.namespace.due_at.adapter"
HERE = within_namespace(Query(), "eu")  # as the queue of a namespace asks


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[sqlite3.Connection]:
    async with SQLiteStore(tmp_path / "letters.db") as store:
        await store.collection(LETTERS).write([make_letter() for _ in range(100)])
        with closing(sqlite3.connect(tmp_path / "letters.db")) as other:
            yield other


def plan(connection: sqlite3.Connection, sql: sqlite_sql.Sql) -> list[str]:
    """What SQLite is going to do."""
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql.text}", sql.values)]


@pytest.mark.parametrize(
    ("query", "way"),
    [
        (
            letter_query(due=LATER, sort=SOONEST_FIRST),
            "INDEX letters.namespace.due_at.adapter (namespace=? AND due_at<?)",
        ),
        (letter_query(due=LATER, partitions=range(64), sort=SOONEST_FIRST), "INDEX letters.namespace.due_at"),
        (letter_query(limit=50), "INDEX letters.namespace.created_at"),
        (letter_query(status="exhausted"), "INDEX letters.namespace.status.created_at (namespace=? AND status=?)"),
        (letter_query(fingerprint="f"), "INDEX letters.fingerprint.namespace.resolution_status"),
        (Query(sort=(Sort("due_at"),)), "INDEX letters.namespace.due_at"),
    ],
    ids=["due", "due of a partition", "newest", "newest of a status", "a group", "soonest"],
)
def test_the_first_page(connection: sqlite3.Connection, query: Query, way: str) -> None:
    steps = plan(connection, sqlite_sql.select(Table(LETTERS), within_namespace(query, "eu"), None))
    assert any(way in step for step in steps), steps
    if query.sort in (NEWEST_FIRST, ()) and query != letter_query(fingerprint="f"):
        assert not any(step == "USE TEMP B-TREE FOR ORDER BY" for step in steps), "it should read no more than a page"


def test_the_next_item_of_a_long_queue_is_read_without_sorting_the_others(connection: sqlite3.Connection) -> None:
    letters = QueueLetters(DeadLetterQueue(store=MemoryStore()).context)
    steps = plan(connection, sqlite_sql.select(Table(LETTERS), letters.due("orders", 1), None))
    assert any("INDEX letters.namespace.status.created_at (namespace=? AND status=?)" in step for step in steps), steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps


def test_letters_that_are_due_for_others_are_passed_over_in_the_index(connection: sqlite3.Connection) -> None:
    """Whose adapters this worker lacks: none of their rows is read, however many there are."""
    due = letter_query(due=LATER, sort=SOONEST_FIRST, limit=100)
    mine = within_namespace(replace(due, where=(*due.where, *run_by(["mine", "ours"]))), "eu")
    sql = sqlite_sql.select(Table(LETTERS), mine, None)
    assert any(
        "INDEX letters.namespace.due_at.adapter (namespace=? AND due_at<?)" in step for step in plan(connection, sql)
    )
    before_rows = [
        step for step in connection.execute(f"EXPLAIN {sql.text}", sql.values) if step[1] in ("DeferredSeek", "Column")
    ]
    seek = next(place for place, step in enumerate(before_rows) if step[1] == "DeferredSeek")
    (index,) = {step[2] for step in before_rows if step[1] == "DeferredSeek"}
    assert before_rows[seek + 1][2:4] == (index, 2), "the adapter is compared before the row is sought"


@pytest.mark.parametrize(
    ("query", "place", "way"),
    [
        (letter_query(), (LATER, "k"), "INDEX letters.namespace.created_at.fingerprint (namespace=? AND created_at<?)"),
        (
            letter_query(status="pending"),
            (LATER, "k"),
            "INDEX letters.namespace.status.created_at (namespace=? AND status=? AND created_at<?)",
        ),
        (
            Query(sort=(Sort("due_at"),)),
            (LATER, "k"),
            "INDEX letters.namespace.due_at.adapter (namespace=? AND due_at>?)",
        ),
        (Query(sort=(Sort("due_at"),)), (None, "k"), "INDEX sqlite_autoindex_letters_1 (_key>?)"),
    ],
    ids=["newest", "newest of a status", "soonest", "those without a date"],
)
def test_a_page_far_down(connection: sqlite3.Connection, query: Query, place: tuple[Any, ...], way: str) -> None:
    steps = plan(connection, sqlite_sql.select(Table(LETTERS), within_namespace(query, "eu"), place))
    assert any(way in step for step in steps), steps
    assert not any(step == "USE TEMP B-TREE FOR ORDER BY" for step in steps)


@pytest.mark.parametrize(
    ("kind", "query", "way"),
    [
        (HISTORY, letter_query(task_id="t"), "INDEX history.task_id (task_id=?)"),
        (HISTORY, letter_query(), "INDEX history.namespace.created_at"),
    ],
    ids=["of a task", "newest"],
)
def test_history(connection: sqlite3.Connection, kind: Kind[Any], query: Query, way: str) -> None:
    assert any(
        way in step for step in plan(connection, sqlite_sql.select(Table(kind), within_namespace(query, "eu"), None))
    )


@pytest.mark.parametrize(
    ("query", "place", "way"),
    [
        (Query(), None, "INDEX sqlite_autoindex_letters_1"),
        (Query(), ("k",), "INDEX sqlite_autoindex_letters_1 (_key>?)"),
    ],
    ids=["the first page", "far down"],
)
def test_all_namespaces_by_key(connection: sqlite3.Connection, query: Query, place: Any, way: str) -> None:
    steps = plan(connection, sqlite_sql.select(Table(LETTERS), query, place))
    assert any(way in step for step in steps), steps


@pytest.mark.parametrize("place", [None, (LATER, "k")], ids=["the first page", "far down"])
@pytest.mark.parametrize(
    ("query", "way"),
    [
        (letter_query(), "INDEX letters.namespace.created_at.fingerprint (namespace=?"),
        (without_deleted(letter_query()), "INDEX letters.namespace.created_at.fingerprint (namespace=?"),
        (letter_query(status="pending"), "INDEX letters.namespace.status.created_at (namespace=? AND status=?"),
        (letter_query(resolution="pending"), "INDEX letters.namespace.resolution_status.created_at"),
        (Query(sort=(Sort("created_at"),)), "INDEX letters.namespace.created_at.fingerprint (namespace=?"),
        (Query(sort=(Sort("due_at"),)), "INDEX letters.namespace.due_at.adapter (namespace=?"),
    ],
    ids=["newest", "newest that are seen", "of a status", "open", "oldest", "soonest"],
)
def test_a_list_of_all_namespaces_is_merged_and_not_sorted(
    connection: sqlite3.Connection, query: Query, way: str, place: tuple[Any, ...] | None
) -> None:
    table = Table(LETTERS)
    merged = column_to_merge(table, query)
    assert merged == "namespace" and column_to_merge(table, within_namespace(query, "eu")) is None
    steps = plan(connection, sqlite_sql.select(table, query, place, (merged, ["eu", "us"])))
    assert sum(way in step for step in steps) >= 3, "each namespace, and what has none"
    assert not any(step == "USE TEMP B-TREE FOR ORDER BY" for step in steps), steps
    found = plan(connection, values_of(table, merged))
    assert not any("SCAN letters" in step or "B-TREE" in step for step in found), found


@pytest.mark.parametrize("asked_for", [3, 400])
def test_a_list_that_asks_for_many_values_is_a_statement_that_any_sqlite_takes(
    connection: sqlite3.Connection, asked_for: int
) -> None:
    """Each namespace that is merged says them again, and SQLite takes 32766 in a statement unless built otherwise."""
    table, sort = Table(LETTERS), (Sort("created_at"),)
    query = Query((Is("task_id", tuple(f"wf_{number}" for number in range(asked_for))),), sort)
    statement = sqlite_sql.select(table, query, None, ("namespace", [f"n{number}" for number in range(50)]))
    connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32766)
    assert connection.execute(*statement).fetchall() == []
    assert ("UNION" in statement.text) == (asked_for == 3)


def test_what_no_index_has_in_order_is_not_merged() -> None:
    table = Table(LETTERS)
    for query in (
        Query(),
        Query(sort=SOONEST_FIRST),
        Query(sort=(Sort("updated_at"),)),
        Query(sort=(Sort("task_id"),)),
    ):
        assert column_to_merge(table, query) is None


@pytest.mark.parametrize("namespaces", [1, 7, sqlite_sql.MOST_MERGED + 1])
async def test_a_merged_list_is_what_sorting_gives(tmp_path: Path, namespaces: int) -> None:
    """Also over pages, with equal and missing values in the order, and a namespace that is too long for a column."""
    names = [*(f"n{number}" for number in range(namespaces)), "n" * (LONGEST_TERM + 1)]
    letters = [
        make_letter(
            task_id=f"t{number}",
            namespace=names[number % len(names)],
            created_at=START + timedelta(seconds=number % 17),
            due_at=START + timedelta(seconds=number % 11) if number % 3 else None,
        )
        for number in range(150)
    ]
    memory = MemoryStore()
    async with SQLiteStore(tmp_path / "letters.db") as store:
        for each in (store, memory):
            await each.collection(LETTERS).write(letters)
        for field in ("created_at", "due_at"):
            for descending in (False, True):
                query = Query((), (Sort(field, descending), Sort("task_id")), 23)
                lists = [
                    [letter.task_id async for letter in scan(each.collection(LETTERS), query)]
                    for each in (store, memory)
                ]
                assert lists[0] == lists[1] and len(lists[0]) == 150, query.sort


def test_records_by_key(connection: sqlite3.Connection) -> None:
    for keys in (["a"], [f"{number}" for number in range(1000)]):
        steps = plan(connection, sqlite_sql.current(Table(LETTERS), keys))
        assert any("sqlite_autoindex_letters_1 (_key=?)" in step for step in steps), steps


def test_groups_are_counted_by_an_index(connection: sqlite3.Connection) -> None:
    steps = plan(connection, sqlite_sql.tally(Table(LETTERS), HERE, ["status"], [], []))
    assert steps == ["SEARCH letters USING COVERING INDEX letters.namespace.status.created_at (namespace=?)"]


def test_letters_are_counted_by_reason_without_being_looked_at(connection: sqlite3.Connection) -> None:
    first, *_ = plan(connection, sqlite_sql.tally(Table(LETTERS), HERE, BY_REASON, ["dlq_retry_count"], ["created_at"]))
    assert "USING COVERING INDEX letters.namespace.resolution_status" in first


def test_letters_of_one_cause_are_counted_without_being_looked_at(connection: sqlite3.Connection) -> None:
    lately = within_namespace(Query((Between("created_at", at_least=LATER),)), "eu")
    spans = ["created_at"]
    for kind, query, by, sums, spanned in (
        (LETTERS, lately, ["fingerprint"], [], []),
        (HISTORY, HERE, ["fingerprint"], [], spans),
        (HISTORY, lately, ["fingerprint"], [], []),
    ):
        first, *rest = plan(connection, sqlite_sql.tally(Table(kind), query, by, sums, spanned))
        assert "USING COVERING INDEX" in first
        assert rest in ([], ["USE TEMP B-TREE FOR GROUP BY"])


def test_hours_are_counted_without_looking_at_letters(connection: sqlite3.Connection) -> None:
    cause = within_namespace(Query((Is("fingerprint", ("9f3c",)),)), "eu")
    cases: list[tuple[Kind[Any], str, Query]] = [
        *((LETTERS, field, HERE) for field in ("created_at", "exhausted_at")),
        (HISTORY, "created_at", HERE),
        (LETTERS, "created_at", cause),
        (HISTORY, "created_at", cause),
    ]
    for kind, field, query in cases:
        hours = Buckets(field, START, timedelta(hours=1), 24, open_end=True)
        steps = plan(connection, sqlite_sql.histogram(Table(kind), query, hours))
        assert steps[0].startswith(f"SEARCH {kind.name} USING COVERING INDEX"), (field, query, steps)
        assert steps[1:] == ["USE TEMP B-TREE FOR GROUP BY"]


def test_closed_letters_whose_numbers_are_in_a_sum_are_passed_over(connection: sqlite3.Connection) -> None:
    for numbers in WITH_NUMBERS:
        query = within_namespace(Query(numbers), "eu")
        first, *_ = plan(connection, sqlite_sql.tally(Table(LETTERS), query, ["fingerprint"], [], ["created_at"]))
        assert "SEARCH letters USING INDEX letters.namespace.generation.tally_reopened" in first


def test_what_became_of_the_letters_of_a_bulk_run_is_counted_without_looking_at_the_others(
    connection: sqlite3.Connection,
) -> None:
    for kind in (LETTERS, HISTORY):
        query = within_namespace(Query((Is("run_outcomes", ("open 0198",)),)), "eu")
        steps = plan(connection, sqlite_sql.tally(Table(kind), query, [], [], []))
        assert steps == [f"SEARCH {kind.name} USING COVERING INDEX {kind.name}.run_outcomes.namespace (run_outcomes>?)"]
    made = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'letters.run_outcomes.namespace'").fetchone()
    assert made[0].endswith('WHERE "run_outcomes" IS NOT NULL'), "letters that no run has moved cost it nothing"

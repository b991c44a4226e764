"""Searches for texts find the same before, while and after texts are indexed, whatever happens to the letters."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import AnyOf, Condition, Is, Missing, Not, Query, Sort, letter_query, words
from mahavishnu.stores.base import Buckets, Collection, scan
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore, texts, writer
from mahavishnu.stores.sqlite import table as sqlite_table
from mahavishnu.stores.sqlite.table import Table
from mahavishnu.testing import START, make_letter

HOUR = timedelta(hours=1)
ERRORS = ("connection reset", "Größer than 404", "x_y", "", "\ud800 end", "w" * 150, "漢字 😀")
TASKS: tuple[dict[str, Any], ...] = ({}, {"a": "B c"}, {"a": {"b": [1, "x"]}}, {"": "é"}, {"long": "y" * 290})
SEARCHED: tuple[Condition, ...] = (
    *(
        Is("words", (word,))
        for word in ("connection", "größer", "404", "x_y", "end", "w" * 100, "漢字", "nowhere", "a b")
    ),
    *(Is("more_words", (word,)) for word in ("b", "x", "1", "é", "t3", "\ud800")),
    *(Is("task_values", (pair,)) for pair in ("a=B c", "a.b=x", "a.b=1", "=é", f"long={'y' * 290}", "a=b c")),
    *map(Missing, ("words", "more_words", "task_values")),
    Is("words", ("connection", "end")),
    Is("words", ()),
    AnyOf((Is("words", ("404",)), Is("more_words", ("b",)))),
    AnyOf((Is("words", ("404",)), Is("status", ("pending",)))),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "letters.db"


@pytest.fixture
async def letters(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collection[DeadLetter]]:
    """Letters in a store that indexes texts when a test says so."""
    monkeypatch.setattr(writer, "LAG_SECONDS", 1e6)
    async with SQLiteStore(path, synchronous="OFF") as store:
        yield store.collection(LETTERS)


def index(path: Path, most: int = 10**6) -> int:
    """Index the texts of so many letters, as the writer of another process does."""
    table = Table(LETTERS)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("BEGIN IMMEDIATE")
        return table.texts.update(other, table, texts.EVERYTHING, most)


async def found(letters: Collection[DeadLetter], query: Query) -> list[Any]:
    """All that the query finds, in pages, and what it counts."""
    hours = Buckets("created_at", START, HOUR, 4)
    listed = [letter.key async for letter in scan(letters, replace(query, limit=3))]
    tally = await letters.tally(query, ["queue"])
    return [listed, tally.cells if tally.total.count else {}, await letters.histogram(query, hours)]


@pytest.mark.parametrize("few", [0, texts.FEW], ids=["all in order", "few"])
@pytest.mark.parametrize("seed", range(6))
async def test_any_course_of_writes_and_indexing_finds_what_memory_finds(
    letters: Collection[DeadLetter], path: Path, seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahavishnu.stores.sqlite.store.FEW", few)
    chance, memory = random.Random(seed), MemoryStore().collection(LETTERS)
    for _ in range(30):
        there = (await letters.find(Query(sort=(Sort("task_id"),)))).items
        picked = chance.sample(there, min(len(there), 3))
        changes: dict[str, Any] = {
            "error": chance.choice(ERRORS),
            "task": chance.choice(TASKS),
            "queue": chance.choice(("a", "b")),
            "created_at": START + HOUR * chance.randint(0, 3),
        }
        match chance.choice(("add", "add", "change", "remove", "remove last", "index", "index", "index all")):
            case "add":
                one = make_letter(task_id=f"t{chance.randint(0, 12)}", entry_id="e", **changes)
                assert bool((await letters.write([one]))[0]) == bool((await memory.write([one]))[0])
            case "change":
                for each in picked:
                    (mine,) = await memory.get([each.key])
                    assert isinstance(mine, DeadLetter)
                    new: dict[str, Any] = {"error": changes["error"], "last_error": "", "revision": each.revision + 1}
                    assert (await letters.write([replace(each, **new)]))[0] is not None
                    assert (await memory.write([replace(mine, **new)]))[0] is not None
            case "remove" | "remove last" as which:
                gone = (await letters.find(Query())).items[-1:] if which == "remove last" else picked
                await letters.remove(gone)
                await memory.remove([one for one in await memory.get([each.key for each in gone]) if one])  # type: ignore[misc]
            case "index":
                index(path, chance.randint(1, 3))
            case "index all":
                index(path)
                with closing(sqlite3.connect(path)) as other:
                    assert Table(LETTERS).texts.count_unindexed(other)[0] == 0
                    check = """INSERT INTO "letters.texts" ("letters.texts", rank) VALUES ('integrity-check', 1)"""
                    other.execute(check)  # it raises if an entry was forgotten, or is too much
                    other.rollback()
        for condition in (*chance.sample(SEARCHED, 4), Is("words", words(changes["error"]))):
            query = Query((condition, Not(chance.choice(SEARCHED))), chance.choice(((), (Sort("created_at", True),))))
            assert await found(letters, query) == await found(memory, query), query


async def test_each_search_after_indexing_reads_no_document(
    letters: Collection[DeadLetter], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [make_letter(task_id=f"order-{number}", task={"amount": number}) for number in range(30)]
    await letters.write(wanted)
    index(path)
    monkeypatch.setattr(Table, "has_term", lambda *_: pytest.fail("a document was read"))
    for condition in letter_query(text="order 17").where, (Is("task_values", ("amount=17",)),):
        assert [each.task_id for each in (await letters.find(Query(condition))).items] == ["order-17"]
        assert (await letters.tally(Query((Not(condition[0]),)))).total.count == (0 if len(condition) > 1 else 29)


async def test_the_index_leads_to_few_letters_and_the_order_of_a_list_to_many(
    letters: Collection[DeadLetter], path: Path
) -> None:
    await letters.write([make_letter() for _ in range(50)])
    index(path)
    table, query = Table(LETTERS), letter_query(text="task 17", namespace="default")
    few = sqlite_table.few_texts(table, query)
    assert few is not None and sqlite_table.few_texts(table, letter_query()) is None
    with closing(sqlite3.connect(path)) as other:
        other.create_function("has_term", 4, sqlite_table.has_term)
        plans = [
            " ".join(step[3] for step in other.execute(f"EXPLAIN QUERY PLAN {sql.text}", sql.values))
            for sql in (
                sqlite_table.select(table, query, None, few=few),
                sqlite_table.tally(table, query, ["status"], [], [], few),
                sqlite_table.select(table, query, None),
            )
        ]
    for plan in plans[:2]:
        assert "VIRTUAL TABLE INDEX" in plan and "SEARCH letters USING INTEGER PRIMARY KEY (rowid=?)" in plan
        assert "letters.namespace" not in plan
    assert "INDEX letters.namespace.created_at" in plans[2] and "B-TREE FOR ORDER BY" not in plans[2]


async def test_the_writer_indexes_what_others_left_when_somebody_searches(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteStore(path) as store:
        await store.collection(LETTERS).write([make_letter(task_id=f"t{number}") for number in range(1100)])
    monkeypatch.setattr(writer, "LAG_SECONDS", 0.01)
    indexed = asyncio.Event()
    loop, update = asyncio.get_running_loop(), texts.TextIndex.update

    def note(self: Any, connection: sqlite3.Connection, *rest: Any) -> int:
        number = update(self, connection, *rest)
        if not self.count_unindexed(connection)[0]:
            loop.call_soon_threadsafe(indexed.set)
        return number

    monkeypatch.setattr(texts.TextIndex, "update", note)
    async with SQLiteStore(path) as store:
        async with asyncio.timeout(30):
            await indexed.wait()
        letters = store.collection(LETTERS)
        assert [each.task_id for each in (await letters.find(letter_query(text="t1099"))).items] == ["t1099"]


async def test_no_more_than_some_wait_while_writes_leave_no_pause(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LAG_SECONDS": 0.0, "PAUSE_SECONDS": 1e6, "MOST_UNINDEXED": 100}.items():
        monkeypatch.setattr(writer, name, value)
    async with SQLiteStore(path, synchronous="OFF") as store:
        for _ in range(10):
            await store.collection(LETTERS).write([make_letter() for _ in range(90)])
    with closing(sqlite3.connect(path)) as other:
        assert Table(LETTERS).texts.count_unindexed(other)[0] <= 200


async def test_without_fts5_a_store_finds_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(store: SQLiteStore, text: str) -> list[str]:
        return [each.task_id for each in (await store.collection(LETTERS).find(letter_query(text=text))).items]

    with monkeypatch.context() as without:
        without.setattr(texts, "has_fts5", lambda: False)
        async with SQLiteStore(path) as store:
            await store.collection(LETTERS).write([make_letter(task_id="a")])
            assert await found(store, "a") == ["a"]
            assert store.open_file()._connections.text_tables() == []
    async with SQLiteStore(path) as store:
        await store.collection(LETTERS).write([make_letter(task_id="b")])
        for _ in range(2):
            assert [await found(store, text) for text in ("a", "b", "refused")] == [["a"], ["b"], ["a", "b"]]
            index(path)
    monkeypatch.setattr(texts, "has_fts5", lambda: False)
    async with SQLiteStore(path) as store:
        letters = store.collection(LETTERS)
        await letters.write([make_letter(task_id="c")])
        assert await letters.remove((await letters.find(letter_query(text="b"))).items) == [True]
        assert [await found(store, text) for text in ("a", "b", "c", "refused")] == [["a"], [], ["c"], ["a", "c"]]
    monkeypatch.undo()
    async with SQLiteStore(path) as store:
        index(path)
        assert [await found(store, text) for text in ("a", "b", "c")] == [["a"], [], ["c"]]


async def test_a_vacuum_changes_nothing(letters: Collection[DeadLetter], path: Path) -> None:
    stored = [each for each in await letters.write([make_letter(task_id=f"t{n}") for n in range(20)]) if each]
    await letters.remove(stored[:10])  # type: ignore[arg-type]
    index(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("VACUUM")
    await letters.write([make_letter(task_id="new")])
    for text in ("t15", "new"):
        assert [each.task_id for each in (await letters.find(letter_query(text=text))).items] == [text]
    assert (await letters.find(letter_query(text="t3"))).items == []


async def test_an_older_file_is_taken_over(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await store.collection(LETTERS).write([make_letter(task_id=f"t{number}") for number in range(20)])
        expected = (await store.collection(LETTERS).find(Query())).items
    index(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        columns = [name for _, name, *_ in other.execute("PRAGMA table_info(letters)") if name != "_row"]
        names = ", ".join(f'"{name}"' for name in columns)
        made = names.replace('"_key"', '"_key" TEXT NOT NULL PRIMARY KEY')
        other.execute(f'CREATE TABLE older ({made}, "words")')
        other.execute(f"INSERT INTO older ({names}) SELECT {names} FROM letters")
        other.execute("DROP TABLE letters")
        other.execute("ALTER TABLE older RENAME TO letters")
        other.execute("CREATE INDEX mine ON letters (task_id)")
        other.execute("UPDATE _kinds SET format = '[]' WHERE kind = 'letters'")
    async with SQLiteStore(path) as store:
        letters = store.collection(LETTERS)
        assert (await letters.find(Query())).items == expected
        assert [each.task_id for each in (await letters.find(letter_query(text="t7"))).items] == ["t7"]
        index(path)
        assert [each.task_id for each in (await letters.find(letter_query(text="t7"))).items] == ["t7"]
    with closing(sqlite3.connect(path)) as other:
        present = [name for _, name, *_ in other.execute("PRAGMA table_info(letters)")]
        assert present[:3] == ["_row", "_key", "_version"] and "words" not in present
        assert ("mine",) in other.execute("SELECT name FROM sqlite_schema WHERE type = 'index'").fetchall()

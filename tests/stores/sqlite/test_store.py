"""What is particular to the SQLite store: its writer, its errors, its versions. The contract tests what all share."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.model.errors import (
    CorruptRecord,
    InvalidInput,
    InvalidQuery,
    ItemFailed,
    ReadTimeout,
    StoreMisconfigured,
    StoreUnavailable,
)
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import AnyOf, Is, Not, Query, Sort, letter_query
from mahavishnu.model.record import Version
from mahavishnu.stores.base import Cursor, get_one, write_one
from mahavishnu.stores.kind import Field, FieldType, Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.sqlite.store import MANY, READERS, SQLiteCollection
from mahavishnu.stores.sqlite.table import Sql
from mahavishnu.testing import make_letter

SOON = timedelta(milliseconds=20)


@dataclass(frozen=True, slots=True)
class Note:
    """The least that is a record."""

    key: str
    text: str = ""
    size: Any = 0
    version: Version | None = field(default=None, compare=False)


def _encode(note: Note) -> str:
    if note.text == "unencodable":
        raise ValueError("no words for it")
    return json.dumps({"key": note.key, "text": note.text})


def _decode(document: Mapping[str, Any], version: Version) -> Note:
    return Note(document["key"], document["text"], version=version)


NOTES: Kind[Note] = Kind(
    name='the "notes"',  # a name is no SQL
    index="notes",
    encode=_encode,
    decode=_decode,
    versioned=lambda note, version: replace(note, version=version),
    fields=(
        Field("text", FieldType.KEYWORD, lambda note: note.text),
        Field("size", FieldType.INTEGER, lambda note: note.size),
    ),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "letters.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    async with SQLiteStore(path, busy_timeout=SOON) as opened:
        yield opened


@pytest.fixture
def notes(store: SQLiteStore) -> SQLiteCollection[Note]:
    return store.main_collection(NOTES)


def writing(store: SQLiteStore) -> sqlite3.Connection:
    """The store's own writing connection."""
    return store.open_file()._connections.writing


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program is in the middle of writing."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


class TestGroupCommit:
    async def test_concurrent_writes_share_transactions(
        self, store: SQLiteStore, notes: SQLiteCollection[Note]
    ) -> None:
        await notes.write([Note("first")])
        statements: list[str] = []
        writing(store).set_trace_callback(statements.append)
        results = await asyncio.gather(*(notes.write([Note(f"{number}")]) for number in range(200)))
        writing(store).set_trace_callback(None)
        assert [[note.key for note in result if isinstance(note, Note)] for result in results] == [
            [f"{number}"] for number in range(200)
        ]
        assert statements.count("COMMIT") <= 20

    async def test_a_call_with_many_records(self, notes: SQLiteCollection[Note]) -> None:
        many = [Note(f"{number:05}", text="unencodable" if number == 3 else "") for number in range(MANY * 3)]
        results = await notes.write(many)
        assert [place for place, result in enumerate(results) if not isinstance(result, Note)] == [3]
        assert isinstance(results[3], ItemFailed)
        found = await notes.get([note.key for note in many])
        assert [note and note.key for note in found if isinstance(note, Note)] == [
            note.key for note in many if note.text == ""
        ]

    async def test_losers_are_told_apart_from_winners(self, notes: SQLiteCollection[Note]) -> None:
        first = await write_one(notes, Note("b", "1"))
        assert first is not None
        second = await write_one(notes, replace(first, text="2"))
        stale, fresh = replace(first, text="stale"), replace(second or first, text="3")
        results = await notes.write([Note("a"), Note("b"), Note("a", "again"), stale, fresh, fresh, Note("c")])
        assert [isinstance(result, Note) for result in results] == [True, False, False, False, True, False, True]
        assert [note and note.text for note in await notes.get(["a", "b", "c"]) if isinstance(note, Note)] == [
            "",
            "3",
            "",
        ]

    async def test_calls_that_wait_for_one_another_s_records(self, notes: SQLiteCollection[Note]) -> None:
        note = await write_one(notes, Note("a"))
        assert note is not None
        fates = await asyncio.gather(
            notes.write([replace(note, text="1")]), notes.write([replace(note, text="2")]), notes.remove([note])
        )
        assert [bool(fate[0]) for fate in fates].count(True) == 1


class TestCallersAndLoops:
    async def test_one_store_serves_several_loops(self, notes: SQLiteCollection[Note]) -> None:
        async def elsewhere(number: int) -> None:
            assert await write_one(notes, Note(f"{number}")) is not None
            assert await get_one(notes, f"{number}") is not None

        await asyncio.gather(*(asyncio.to_thread(asyncio.run, elsewhere(number)) for number in range(8)))
        assert (await notes.tally(Query())).total.count == 8

    async def test_a_loop_that_is_closed_before_the_answer_comes(self, notes: SQLiteCollection[Note]) -> None:
        await notes.write([Note("warm")])

        def leave() -> None:
            loop = asyncio.new_event_loop()
            task = loop.create_task(notes.write([Note("left behind")]))
            loop.call_soon(loop.stop)
            loop.run_forever()  # the call has been handed over, and nobody will wait for its answer
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                loop.run_until_complete(task)
            loop.close()

        thread = threading.Thread(target=leave)
        thread.start()
        await asyncio.to_thread(thread.join)
        await notes.write([Note("after")])
        assert {note.key for note in (await notes.find(Query())).items} == {"warm", "left behind", "after"}

    async def test_a_cancelled_caller_undoes_nothing(self, path: Path) -> None:
        async with SQLiteStore(path) as store:
            notes = store.collection(NOTES)
            await notes.write([Note("warm")])
            with locked(path):
                both = [Note("a"), Note("b")]
                task = asyncio.create_task(notes.write(both))
                await asyncio.wait([task], timeout=0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await notes.write([Note("after")])  # whoever comes later is served later
            assert {note.key for note in (await notes.find(Query())).items} == {"warm", "a", "b", "after"}

    async def test_readers_do_not_wait_for_a_writer(self, path: Path) -> None:
        async with SQLiteStore(path) as store:
            notes = store.collection(NOTES)
            await notes.write([Note("a")])
            with locked(path):
                waiting = asyncio.create_task(notes.write([Note("b")]))
                assert await get_one(notes, "a") is not None
                assert (await notes.find(Query())).items == [Note("a")]
                assert not waiting.done()
            assert await waiting == [Note("b")]


class TestOneBadRecord:
    @pytest.mark.parametrize("bad", [Note("\ud800"), Note("bad", "unencodable")], ids=["surrogate", "unencodable"])
    async def test_it_fails_alone(self, notes: SQLiteCollection[Note], bad: Note) -> None:
        old = await write_one(notes, Note("old"))
        assert old is not None
        calls = (
            notes.write([Note("a"), bad, Note("b"), Note("a", "again")]),
            notes.write([replace(old, text="new"), replace(old, text="too late"), Note("c")]),
            notes.remove([old, Note("\ud800", version=(1,))]),
        )
        one, other, removed = await asyncio.gather(*calls)
        assert [type(result) for result in one] == [Note, ItemFailed, Note, type(None)]
        assert [type(result) for result in other] == [Note, type(None), Note]
        assert removed == [False, False]
        assert sorted(note.key for note in (await notes.find(Query())).items) == ["a", "b", "c", "old"]

    async def test_one_without_a_usable_key(self, store: SQLiteStore) -> None:
        results = await store.collection(LETTERS).write([make_letter(), make_letter(task_id=""), make_letter()])
        assert [type(result) for result in results] == [DeadLetter, ItemFailed, DeadLetter]

    async def test_one_that_is_too_big(self, store: SQLiteStore, notes: SQLiteCollection[Note]) -> None:
        await notes.write([Note("old")])
        writing(store).setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 5000)
        results = await notes.write([Note("a"), Note("big", "x" * 6000), Note("b")])
        assert [type(result) for result in results] == [Note, ItemFailed, Note]
        assert "too big" in str(results[1])

    @pytest.mark.parametrize("size", [2**63, -(2**63) - 1, "a text", {"a": 1}], ids=str)
    async def test_what_a_column_cannot_hold_is_kept_but_not_findable(
        self, notes: SQLiteCollection[Note], size: Any
    ) -> None:
        assert await write_one(notes, Note("a", "\ud800 lone", size)) is not None
        assert (await get_one(notes, "a")) is not None
        assert (await notes.find(Query((Is("text", ("\ud800 lone",)),)))).items == []
        assert (await notes.find(Query(sort=(Sort("size"),)))).items == [Note("a", "\ud800 lone")]

    async def test_a_letter_with_lone_surrogates_everywhere(self, store: SQLiteStore) -> None:
        odd = "\udfff"
        letter = make_letter(
            error=odd,
            repos=("/a", odd),
            labels=Json.of({odd: odd, "team": "a"}),
            fingerprint=odd,
            payload=Json.of([odd]),
        )
        assert await write_one(store.collection(LETTERS), letter) == letter
        assert await get_one(store.collection(LETTERS), letter.key) == letter


class TestVersions:
    async def test_an_old_version_never_becomes_valid_again(self, notes: SQLiteCollection[Note]) -> None:
        seen: set[Any] = set()
        for _ in range(50):
            note = await write_one(notes, Note("a"))
            assert note is not None and note.version not in seen
            seen.add(note.version)
            assert await notes.remove([note]) == [True]
            again = await write_one(notes, Note("a"))
            assert again is not None and again.version not in seen
            assert await notes.write([replace(note, text="stale")]) == [None]
            assert await notes.remove([note, again]) == [False, True]

    async def test_another_store_s_version_fits_nothing(self, notes: SQLiteCollection[Note]) -> None:
        note = await write_one(notes, Note("a"))
        assert note is not None and note.version is not None
        foreign = replace(note, version=(*note.version, 1))
        assert await notes.write([foreign]) == [None]
        assert await notes.remove([foreign, replace(note, version=None)]) == [False, False]

    async def test_stores_do_not_repeat_one_another_s_versions(self, path: Path) -> None:
        seen: list[Any] = []
        for number in range(5):
            async with SQLiteStore(path) as store, SQLiteStore(path) as other:
                for each in (store, other):
                    results = await each.collection(NOTES).write([Note(f"{number}-{len(seen)}-{n}") for n in range(20)])
                    seen += [note.version for note in results if isinstance(note, Note)]
        assert len(seen) == len(set(seen)) == 200


class TestTheStoreCannotAnswer:
    async def test_another_program_holds_the_lock(self, path: Path, notes: SQLiteCollection[Note]) -> None:
        await notes.write([Note("warm")])
        with locked(path):
            with pytest.raises(StoreUnavailable, match="write lock") as caught:
                await notes.write([Note("a")])
            with pytest.raises(StoreUnavailable):
                await notes.remove([Note("warm", version=(1,))])
        assert not caught.value.maybe_written
        assert await notes.write([Note("a")]) == [Note("a")]

    async def test_the_disk_is_full(self, store: SQLiteStore, notes: SQLiteCollection[Note]) -> None:
        await notes.write([Note("warm")])
        writing(store).execute("PRAGMA max_page_count = 1")  # as many as there are
        calls = [asyncio.create_task(notes.write([Note(f"{number}", "x" * 7000)])) for number in range(5)]
        for call in calls:
            with pytest.raises(StoreUnavailable, match="disk is full") as caught:
                await call
            assert not caught.value.maybe_written
        assert (await notes.find(Query())).items == [Note("warm")]
        writing(store).execute("PRAGMA max_page_count = 1000000")
        assert await notes.write([Note("a")]) == [Note("a")]

    async def test_it_has_become_read_only(self, store: SQLiteStore, notes: SQLiteCollection[Note]) -> None:
        await notes.write([Note("warm")])
        writing(store).execute("PRAGMA query_only = ON")
        with pytest.raises(StoreUnavailable, match="read-only"):
            await notes.write([Note("a")])
        health = await store.health()
        assert health.status == "degraded"
        assert "the latest write failed" in health.detail
        writing(store).execute("PRAGMA query_only = OFF")
        await notes.write([Note("a")])
        assert (await store.health()).status == "ok"

    @pytest.mark.parametrize(("code", "maybe"), [(sqlite3.SQLITE_IOERR, True), (sqlite3.SQLITE_FULL, False)])
    async def test_a_sync_that_fails_may_have_written(
        self, store: SQLiteStore, notes: SQLiteCollection[Note], monkeypatch: pytest.MonkeyPatch, code: int, maybe: bool
    ) -> None:
        await notes.write([Note("warm")])
        monkeypatch.setattr(store.open_file()._connections, "_writing", Failing(writing(store), "COMMIT", code))
        with pytest.raises(StoreUnavailable) as caught:
            await notes.write([Note("a")])
        assert caught.value.maybe_written is maybe
        monkeypatch.undo()
        assert await notes.write([Note("a")]) == [Note("a")]

    async def test_a_bug_in_the_writer_reaches_the_callers(
        self, store: SQLiteStore, notes: SQLiteCollection[Note], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await notes.write([Note("warm")])

        def broken(*_: Any) -> None:
            raise CorruptRecord("a", "which cannot even be copied")

        monkeypatch.setattr(store.open_file()._writer, "_execute", broken)
        with pytest.raises(CorruptRecord):
            await notes.write([Note("a")])
        monkeypatch.undo()
        assert await notes.write([Note("a")]) == [Note("a")]


class Failing:
    """A connection on which one statement meets a broken disk."""

    def __init__(self, connection: sqlite3.Connection, statement: str, code: int) -> None:
        self._connection = connection
        self._statement = statement
        self._code = code

    def execute(self, statement: str, *values: Any) -> Any:
        if statement == self._statement:
            problem = sqlite3.OperationalError("it is broken")
            problem.sqlite_errorcode = self._code
            raise problem
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class TestOpenAndClose:
    async def test_before_and_after(self, path: Path) -> None:
        store = SQLiteStore(path)
        notes = store.collection(NOTES)
        for call in (
            notes.write([Note("a")]),
            notes.get(["a"]),
            notes.find(Query()),
            notes.remove([]),
            notes.tally(Query()),
        ):
            with pytest.raises(StoreUnavailable, match="is not open"):
                await call
        assert (await store.health()).status == "down"
        await store.open()
        await store.open()
        assert await notes.write([Note("a")]) == [Note("a")]
        health = await store.health()
        assert health.status == "ok" and str(path) in health.detail
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailable, match="is not open"):
            await notes.write([Note("b")])
        await store.open()
        assert (await notes.find(Query())).items == [Note("a")]
        await store.close()

    async def test_closing_empties_the_log(self, path: Path) -> None:
        async with SQLiteStore(path) as store:
            await store.collection(NOTES).write([Note(f"{number}") for number in range(1000)])
            assert path.with_name("letters.db-wal").stat().st_size > 0
        assert [each.name for each in path.parent.iterdir()] == ["letters.db"]

    async def test_what_was_asked_for_before_closing_is_done(self, path: Path) -> None:
        store = SQLiteStore(path)
        await store.open()
        notes = store.collection(NOTES)
        calls = [notes.write([Note(f"{number}")]) for number in range(50)]
        calls.append(notes.write([Note(f"many {number}") for number in range(MANY + 1)]))
        tasks = [asyncio.ensure_future(call) for call in calls]
        tasks_reading = asyncio.ensure_future(notes.tally(Query()))
        await asyncio.wait(tasks, timeout=0)
        await store.close()
        assert all(isinstance(result[0], Note) for result in await asyncio.gather(*tasks))
        assert await tasks_reading
        async with store:
            assert (await notes.tally(Query())).total.count == 50 + MANY + 1

    def test_what_it_cannot_be_made_with(self, path: Path) -> None:
        with pytest.raises(InvalidInput, match="MAYBE"):
            SQLiteStore(path, synchronous="MAYBE")
        assert repr(SQLiteStore(path)) == f"SQLiteStore({str(path)!r})"

    @pytest.mark.parametrize(("asked", "level"), [("off", 0), ("NORMAL", 1), ("FULL", 2), ("EXTRA", 3)])
    async def test_how_safe_it_is(self, path: Path, asked: str, level: int) -> None:
        async with SQLiteStore(path, synchronous=asked) as store:
            assert writing(store).execute("PRAGMA synchronous").fetchone() == (level,)
            assert writing(store).execute("PRAGMA journal_mode").fetchone() == ("wal",)

    async def test_a_sqlite_that_is_too_old(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
        with pytest.raises(StoreMisconfigured, match=r"3\.35"):
            await SQLiteStore(path).open()


class TestCorruptRows:
    @pytest.fixture
    async def damaged(self, path: Path, store: SQLiteStore) -> SQLiteCollection[Note]:
        """Five notes, of which the three in the middle cannot be read."""
        notes = store.main_collection(NOTES)
        await notes.write([Note(f"{number}", "x") for number in range(5)])
        with closing(sqlite3.connect(path)) as other, other:
            for key, body in (("1", "{not json"), ("2", "[1]"), ("3", '{"key": "3"}')):
                other.execute("""UPDATE "the ""notes""\" SET _body = ? WHERE _key = ?""", (body, key))
        return notes

    async def test_they_hide_nothing(self, damaged: SQLiteCollection[Note]) -> None:
        page = await damaged.find(Query())
        assert [note.key for note in page.items] == ["0", "4"]
        assert [each.key for each in page.corrupt if isinstance(each, CorruptRecord)] == ["1", "2", "3"]
        assert page.positions == [("0",), ("4",)]
        found = await damaged.get(["0", "1", "2", "3", "4", "5"])
        assert [type(each) for each in found] == [Note, *[CorruptRecord] * 3, Note, type(None)]
        assert (await damaged.tally(Query((Is("text", ("x",)),)))).total.count == 5

    async def test_they_take_their_place_in_pages(self, damaged: SQLiteCollection[Note]) -> None:
        pages: list[tuple[list[str], int]] = []
        after: Cursor | None = None
        while not pages or after is not None:
            page = await damaged.find(Query(sort=(Sort("text"),), limit=2), after)
            pages.append(([note.key for note in page.items], len(page.corrupt)))
            after = page.next
        assert pages == [(["0"], 1), ([], 2), (["4"], 0)]


class TestQueries:
    async def test_slow_ones_are_logged_by_shape(
        self, notes: SQLiteCollection[Note], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("mahavishnu.stores.sqlite.store.SLOW_SECONDS", -1)
        await notes.find(Query((Is("text", ("secret",)),)))
        (record,) = caplog.records
        assert '"text" IN (?)' in record.getMessage() and "secret" not in record.getMessage()

    async def test_one_that_takes_too_long_is_broken_off_and_the_next_is_answered(
        self, store: SQLiteStore, notes: SQLiteCollection[Note], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await notes.write([Note(f"{number}") for number in range(5000)])
        monkeypatch.setattr("mahavishnu.stores.sqlite.store.READ_SECONDS", 0.0)
        for read in (notes.find(Query((Is("text", ("x",)),))), notes.tally(Query((Is("text", ("x",)),)))):
            with pytest.raises(ReadTimeout, match="took longer than 0 s and was broken off"):
                await read
        monkeypatch.undo()
        assert (await notes.tally(Query((Is("text", ("x",)),)))).total.count == 0
        assert (await store.health()).status == "ok"

    async def test_a_record_is_read_by_its_key_while_queries_take_long(
        self, store: SQLiteStore, notes: SQLiteCollection[Note]
    ) -> None:
        await notes.write([Note("a")])
        begun, end = threading.Barrier(READERS + 1), threading.Event()

        def take_long(rows: object) -> None:
            begun.wait()
            end.wait()

        sql = Sql("SELECT 1")
        slow = [asyncio.create_task(store.open_file().read(notes.table, sql, take_long)) for _ in range(READERS)]
        try:
            await asyncio.to_thread(begun.wait)
            assert await asyncio.wait_for(get_one(notes, "a"), 60) == Note("a")
            assert (await store.health()).status == "ok"
        finally:
            end.set()
            await asyncio.gather(*slow)

    async def test_many_values(self, notes: SQLiteCollection[Note]) -> None:
        await notes.write([Note("a", "x\0y"), Note("b", "x"), Note("c", "z", 3)])
        others = tuple(f"other {number}" for number in range(40_000))
        assert [n.key for n in (await notes.find(Query((Is("text", (*others, "x\0y")),)))).items] == ["a"]
        assert [n.key for n in (await notes.find(Query((Is("text", (*others, "z")),)))).items] == ["c"]
        assert [n.key for n in (await notes.find(Query((Is("size", (*range(1, 2000), 2**70)),)))).items] == ["c"]
        found = await notes.get([*others, "b", "\ud800"])
        assert [place for place, note in enumerate(found) if note] == [40_000]

    async def test_many_conditions(self, notes: SQLiteCollection[Note]) -> None:
        await notes.write([Note("a", "7"), Note("b", "x")])
        several = tuple(Is("text", (f"{number}",)) for number in range(5000))
        assert [n.key for n in (await notes.find(Query((AnyOf(several),)))).items] == ["a"]
        assert [n.key for n in (await notes.find(Query(tuple(map(Not, several))))).items] == ["b"]

    async def test_long_text_search(self, store: SQLiteStore) -> None:
        text = " ".join(f"word{number}" for number in range(1500))
        letter = await write_one(store.collection(LETTERS), make_letter(error=text))
        page = await store.collection(LETTERS).find(letter_query(text=text))
        assert page.items == [letter]

    @pytest.mark.parametrize(
        "place", [(), ("a",), ("a", 1, "k"), (1, "k"), ("x", None), ("x", "\ud800"), ("\ud800", "k"), (None, 5)]
    )
    async def test_a_cursor_of_another_list(self, notes: SQLiteCollection[Note], place: tuple[Any, ...]) -> None:
        with pytest.raises(InvalidQuery, match="cursor"):
            await notes.find(Query(sort=(Sort("text"),)), Cursor(place))

    async def test_a_cursor_with_a_value_of_another_type(self, notes: SQLiteCollection[Note]) -> None:
        with pytest.raises(InvalidQuery):
            await notes.find(Query(sort=(Sort("size"),)), Cursor(("text", "k")))

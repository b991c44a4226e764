"""The file: how it comes to be, and that one that is torn or foreign is refused and left as it is."""

# ruff: noqa: ASYNC240 - files are damaged here while nobody else waits for the loop
from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.model.errors import CorruptRecord, StoreCorrupt, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Missing, Query, Sort
from mahavishnu.model.record import Version
from mahavishnu.stores.base import get_one, scan, write_one
from mahavishnu.stores.kind import Field, FieldType, Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.sqlite.connections import PAGE_SIZE
from mahavishnu.testing import make_letter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "letters.db"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in the folder, but for the shared memory that SQLite makes to read a log."""
    return {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")}


async def filled(path: Path, number: int = 40) -> list[DeadLetter]:
    """A store at `path` that was closed with some letters in it."""
    letters = [make_letter(task_id=f"wf_{n:03}", task={"note": "x" * 1000}) for n in range(number)]
    async with SQLiteStore(path) as store:
        await store.collection(LETTERS).write(letters)
    return letters


async def refused(path: Path, error: type[StoreError] = StoreCorrupt) -> StoreError:
    """The error of opening the store, which has changed nothing."""
    before = contents(path.parent)
    with pytest.raises(error) as caught:
        await SQLiteStore(path).open()
    assert contents(path.parent) == before
    assert str(path) in str(caught.value)
    return caught.value


class TestNew:
    async def test_folders_are_made_and_the_file_is_private(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "letters.db"
        async with SQLiteStore(str(path)) as store:
            await store.collection(LETTERS).write([make_letter()])
            files = list(path.parent.iterdir())
            assert {each.name for each in files} == {"letters.db", "letters.db-wal", "letters.db-shm"}
            assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}

    async def test_odd_names(self, tmp_path: Path) -> None:
        for name in ("with space", "50%?mode=ro#x", "ünï", "'quote'"):
            async with SQLiteStore(tmp_path / name) as store:
                await store.collection(LETTERS).write([make_letter()])
            assert (tmp_path / name).stat().st_size > 0
        assert len(list(tmp_path.iterdir())) == 4

    async def test_a_link_to_where_nothing_is_yet(self, path: Path, tmp_path: Path) -> None:
        (tmp_path / "link.db").symlink_to(path)
        async with SQLiteStore(tmp_path / "link.db") as store, SQLiteStore(path) as same:
            letter = await write_one(store.collection(LETTERS), make_letter())
            assert await get_one(same.collection(LETTERS), letter.key if letter else "") == letter

    async def test_many_make_it_at_once(self, path: Path) -> None:
        stores = [SQLiteStore(path) for _ in range(8)]
        await asyncio.gather(*(store.open() for store in stores))
        for number, store in enumerate(stores):
            await store.collection(LETTERS).write([make_letter(task_id=f"{number}")])
        assert [(await store.collection(LETTERS).tally(Query())).total.count for store in stores] == [8] * 8
        await asyncio.gather(*(store.close() for store in stores))
        assert [each.name for each in path.parent.iterdir()] == ["letters.db"]

    async def test_a_file_system_without_links(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_links(*_: Any) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", no_links)
        await filled(path)
        assert [each.name for each in path.parent.iterdir()] == ["letters.db"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    async def test_places_where_no_file_can_be(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("not a folder")
        (tmp_path / "folder").mkdir()
        for path in (tmp_path / "file" / "letters.db", tmp_path / "folder"):
            with pytest.raises(StoreMisconfigured, match=path.name):
                await SQLiteStore(path).open()
        await filled(tmp_path / "letters.db")
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(StoreMisconfigured, match="may not be read and written"):
            await SQLiteStore(tmp_path / "letters.db").open()

    async def test_no_room_to_make_it(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "no space left")

        monkeypatch.setattr(os, "open", full)
        await refused(path, StoreUnavailable)


class TestForeign:
    @pytest.mark.parametrize("content", [b"", b"x", b"no database at all\n" * 1000, bytes(PAGE_SIZE)])
    async def test_no_database(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        await refused(path)

    @pytest.mark.parametrize("mode", ["delete", "wal"])
    @pytest.mark.parametrize("application", [0, 12345])
    async def test_another_program_s_database(self, path: Path, mode: str, application: int) -> None:
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA journal_mode = {mode}")
            other.execute(f"PRAGMA application_id = {application}")
            other.execute("CREATE TABLE letters (key, version, body)")
            await refused(path)  # while it is in use
            other.execute("INSERT INTO letters VALUES (1, 2, 3)")
            other.commit()
        assert "another program" in str(await refused(path))
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT * FROM letters").fetchall() == [(1, 2, 3)]


class TestTorn:
    async def test_a_closed_file_cut_off_anywhere(self, path: Path) -> None:
        await filled(path)
        whole = path.read_bytes()
        cuts = {1, 15, 16, 99, 100, 511, 512, 4096, PAGE_SIZE - 1, len(whole) - 1}
        cuts |= {page * PAGE_SIZE + extra for page in range(1, len(whole) // PAGE_SIZE) for extra in (0, 1, 777)}
        for cut in cuts:
            path.write_bytes(whole[:cut])
            await refused(path)
        path.write_bytes(whole + b"something more")
        await refused(path)
        path.write_bytes(whole)
        async with SQLiteStore(path) as store:
            assert (await store.collection(LETTERS).tally(Query())).total.count == 40

    async def test_a_crashed_file_cut_off_anywhere(self, path: Path, tmp_path: Path) -> None:
        """With the log still there: everything that was acknowledged, or an error."""
        await filled(path)
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        async with SQLiteStore(path) as store:
            collection = store.collection(LETTERS)
            known = [each async for each in scan(collection, Query())]
            await collection.write([replace(each, priority=7) for each in known[:10]])
            await collection.write([make_letter(task_id=f"later_{number}") for number in range(30)])
            for each in path.parent.glob("letters.db*"):
                shutil.copy(each, crashed)
            expected = {each.key: each async for each in scan(collection, Query())}
        whole = contents(crashed)
        size = len(whole["letters.db"])
        outcomes = set()
        for cut in [0, 50, 100, *range(PAGE_SIZE, size, PAGE_SIZE), *range(PAGE_SIZE + 1, size, 3 * PAGE_SIZE), size]:
            for name, content in whole.items():
                (crashed / name).write_bytes(content)
            (crashed / "letters.db").write_bytes(whole["letters.db"][:cut])
            (crashed / "letters.db-shm").unlink(missing_ok=True)
            try:
                async with SQLiteStore(crashed / "letters.db") as store:
                    assert {each.key: each async for each in scan(store.collection(LETTERS), Query())} == expected
                    outcomes.add("opened")
            except StoreCorrupt:
                assert contents(crashed) == {**whole, "letters.db": whole["letters.db"][:cut]}
                outcomes.add("refused")
        assert outcomes == {"opened", "refused"}

    async def test_a_checkpoint_that_was_cut_off(self, path: Path, tmp_path: Path) -> None:
        """The file's header already counts pages that are in the log only."""
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        async with SQLiteStore(path) as store:
            await store.collection(LETTERS).write([make_letter(task={"note": "x" * 5000}) for _ in range(40)])
            shutil.copy(f"{path}-wal", crashed / "letters.db-wal")
        shutil.copy(path, crashed)
        torn = crashed / "letters.db"
        torn.write_bytes(path.read_bytes()[: 2 * PAGE_SIZE + 100])
        async with SQLiteStore(torn) as store:
            assert (await store.collection(LETTERS).tally(Query())).total.count == 40

    async def test_a_log_cut_off_in_its_last_transaction(self, path: Path, tmp_path: Path) -> None:
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        async with SQLiteStore(path) as store:
            first = await write_one(store.collection(LETTERS), make_letter())
            end = Path(f"{path}-wal").stat().st_size
            await store.collection(LETTERS).write([make_letter()])
            shutil.copy(path, crashed)
            log = Path(f"{path}-wal").read_bytes()
        for cut in range(end, len(log), 1000):
            (crashed / "letters.db-wal").write_bytes(log[:cut])
            async with SQLiteStore(crashed / "letters.db") as store:
                assert (await store.collection(LETTERS).find(Query())).items == [first]
            shutil.copy(path, crashed)

    async def test_pages_that_were_overwritten_later(self, path: Path) -> None:
        letters = await filled(path, 400)
        content = bytearray(path.read_bytes())
        begin = 50 * PAGE_SIZE  # after the names of all tables
        content[begin:-PAGE_SIZE] = os.urandom(len(content) - begin - PAGE_SIZE)
        path.write_bytes(content)
        async with SQLiteStore(path) as store:
            collection = store.collection(LETTERS)
            with pytest.raises(StoreCorrupt, match="damaged"):
                await collection.find(Query())
            with pytest.raises(StoreCorrupt, match="damaged"):
                await collection.write(letters)
            await store.health()


@dataclass(frozen=True, slots=True)
class Note:
    """A record whose kind will gain fields."""

    key: str
    text: str
    size: int | None
    version: Version | None = field(default=None, compare=False)


def kind(*names: str, indexes: tuple[tuple[str, ...], ...] = ()) -> Kind[Note]:
    """Notes, of which these fields can be searched."""
    fields: dict[str, Field[Note]] = {
        "text": Field("text", FieldType.KEYWORD, lambda note: note.text),
        "size": Field("size", FieldType.INTEGER, lambda note: note.size),
        "words": Field("words", FieldType.KEYWORDS, lambda note: tuple(note.text.split()), derived=True),
    }

    def encode(note: Note) -> str:
        return f'{{"key": "{note.key}", "text": "{note.text}", "size": {"null" if note.size is None else note.size}}}'

    def decode(document: Mapping[str, Any], version: Version) -> Note:
        return Note(document["key"], document["text"], document["size"], version)

    def versioned(note: Note, version: Version | None) -> Note:
        return replace(note, version=version)

    return Kind("notes", "notes", encode, decode, versioned, tuple(fields[name] for name in names), indexes)


class TestUpgrade:
    async def test_new_fields_are_filled_from_the_bodies(self, path: Path) -> None:
        old, new = kind("text"), kind("text", "size", "words", indexes=(("size",),))
        async with SQLiteStore(path, kinds=[old]) as store:
            stored = await store.collection(old).write([Note(f"{n:04}", f"note {n}", n or None) for n in range(1200)])
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE notes SET _body = 'torn' WHERE _key = '0007'")
        async with SQLiteStore(path, kinds=[new]) as store:
            collection = store.collection(new)
            assert (await collection.find(Query((Is("size", (1100,)),)))).items == [stored[1100]]
            assert (await collection.find(Query((Is("words", ("1100",)),)))).items == [stored[1100]]
            missing = await collection.find(Query((Missing("size"),)))
            assert missing.items == [stored[0]]
            assert [type(each) for each in missing.corrupt] == [CorruptRecord]  # nothing can be derived from it
            assert (await collection.find(Query((Is("text", ("note 7",)),)))).corrupt != ()  # what was known, stays
            assert isinstance(found := (await collection.get(["1100"]))[0], Note)
            assert isinstance(before := stored[1100], Note) and found.version == before.version
        with closing(sqlite3.connect(path)) as other:
            assert ("notes.size",) in other.execute("SELECT name FROM sqlite_schema WHERE type = 'index'").fetchall()

    async def test_an_index_that_is_not_declared_any_more_is_dropped_and_a_stranger_s_stays(self, path: Path) -> None:
        old, new = (
            kind("text", "size", indexes=(("text",), ("size",))),
            kind("text", "size", indexes=(("size", "text"),)),
        )
        async with SQLiteStore(path, kinds=[old]) as store:
            stored = await store.collection(old).write([Note(f"{n}", "x", n) for n in range(3)])
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("CREATE INDEX mine ON notes (text)")
        async with SQLiteStore(path, kinds=[new]) as store:
            assert (await store.collection(new).find(Query((Is("size", (2,)),)))).items == [stored[2]]
        with closing(sqlite3.connect(path)) as other:
            found = other.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL").fetchall()
        assert sorted(found) == [("mine",), ("notes.size.text",)]

    async def test_what_an_older_version_writes_meanwhile_is_found_too(self, path: Path) -> None:
        old, new = kind("text"), kind("text", "size")
        for number, each in enumerate([old, new, old, new]):
            async with SQLiteStore(path, kinds=[each]) as store:
                await store.collection(each).write([Note(f"{number}", "x", number)])
        async with SQLiteStore(path, kinds=[new]) as store:
            page = await store.collection(new).find(Query((Is("size", (0, 1, 2, 3)),), (Sort("size"),)))
            assert [note.key for note in page.items] == ["0", "1", "2", "3"]

    async def test_a_kind_that_was_not_named_at_first(self, path: Path) -> None:
        async with SQLiteStore(path, kinds=()) as store, SQLiteStore(path, kinds=()) as other:
            reading = [store.collection(LETTERS).find(Query()), other.collection(LETTERS).get(["a"])]
            writing = [each.collection(HISTORY).remove([]) for each in (store, other)]
            await asyncio.gather(*reading, *writing)
            letter = await write_one(store.collection(LETTERS), make_letter())
            assert (await other.collection(LETTERS).find(Query())).items == [letter]

    async def test_a_failed_upgrade_changes_nothing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old, new = kind("text"), kind("text", "size")
        async with SQLiteStore(path, kinds=[old]) as store:
            await store.collection(old).write([Note("a", "x", 1)])
        with closing(sqlite3.connect(path)) as other:
            before = list(other.iterdump())

        def broken(*_: Any) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr("mahavishnu.stores.sqlite.table.Table.terms", broken)
        with pytest.raises(StoreUnavailable):
            await SQLiteStore(path, kinds=[new]).open()
        monkeypatch.undo()
        with closing(sqlite3.connect(path)) as other:
            assert list(other.iterdump()) == before
        async with SQLiteStore(path, kinds=[new]) as store:
            assert (await store.collection(new).tally(Query((Is("size", (1,)),)))).total.count == 1

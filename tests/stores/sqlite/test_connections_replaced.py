"""The file, or its log, is moved, replaced or deleted while it is open: what is acknowledged is where people look."""

# ruff: noqa: ASYNC221, ASYNC240 - files are moved here while nobody else waits for the loop
from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.letter import FormerLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import get_one, scan, write_one
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import make_letter, turn

OTHER = """
import asyncio, sys
from mahavishnu.stores.base import scan, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.model.query import Query
from mahavishnu.testing import make_letter

async def main(path):
    async with SQLiteStore(path) as store:
        letters = store.collection(LETTERS)
        print("ready", *[each.key async for each in scan(letters, Query())], flush=True)
        for line in sys.stdin:
            await write_one(letters, make_letter(task_id=line.strip()))
            print(*[each.key async for each in scan(letters, Query())], flush=True)

asyncio.run(main(sys.argv[1]))
"""


class Process:
    """Another process that has the file open."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._hear()[0] == "ready"

    def write(self, key: str) -> list[str]:
        """What there is after it has written that letter, as the other process sees it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{key}\n")
        self._process.stdin.flush()
        return sorted(self._hear())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _hear(self) -> list[str]:
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "live").mkdir()
    return tmp_path / "live" / "letters.db"


@pytest.fixture(params=["just opened", "at rest for long"])
async def store(path: Path, request: pytest.FixtureRequest) -> AsyncIterator[SQLiteStore]:
    """A store that still looks at each name, and one that is content with a look at their folder."""
    async with SQLiteStore(path) as opened:
        former: FormerLetter | None = FormerLetter.of(make_letter(task_id="of-another-kind"))
        end = time.monotonic() + 0.2
        while request.param == "at rest for long" and time.monotonic() < end:
            assert former is not None
            former = await write_one(opened.collection(HISTORY), former)
        yield opened


async def put(store: SQLiteStore, *keys: str) -> None:
    for key in keys:
        assert await write_one(store.collection(LETTERS), make_letter(task_id=key)) is not None


async def keys(store: SQLiteStore) -> list[str]:
    return sorted([each.key async for each in scan(store.collection(LETTERS), Query())])


async def until_it_shows(store: SQLiteStore, *expected: str) -> None:
    """Return when a list has these keys: it is looked at the names a few times a second only."""
    async with asyncio.timeout(30):
        while await keys(store) != [*expected]:
            await turn()


async def seen(path: Path) -> list[str]:
    """What a process that starts now finds."""
    out = subprocess.run([sys.executable, "-c", OTHER, str(path)], input="", capture_output=True, text=True, check=True)
    return sorted(out.stdout.split()[1:])


async def make_backup(path: Path) -> Path:
    backup = path.parent.parent / "backup.db"
    async with SQLiteStore(backup) as other:
        await put(other, "of-the-backup")
    return backup


def remove_log(path: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink()


@pytest.mark.parametrize("first", ["write", "read"])
async def test_a_backup_is_moved_over_it(path: Path, store: SQLiteStore, first: str) -> None:
    await put(store, "of-the-old-file")
    (await make_backup(path)).replace(path)
    if first == "read":
        await until_it_shows(store, "of-the-backup")
    await put(store, "new")
    assert await keys(store) == ["new", "of-the-backup"]
    health = await store.health()
    assert health.status == "degraded"
    assert "was replaced while it was open" in health.detail
    assert await write_one(store.collection(LETTERS), make_letter(task_id="new")) is None
    assert await store.collection(HISTORY).get(["none"]) == [None]
    assert await seen(path) == ["new", "of-the-backup"]


@pytest.mark.parametrize("how", [Path.unlink, lambda path: path.rename(path.parent.parent / "moved.db")])
async def test_it_is_moved_away_or_deleted(path: Path, store: SQLiteStore, how: Callable[[Path], object]) -> None:
    await put(store, "old")
    how(path)
    await put(store, "new")
    assert await keys(store) == ["new"]
    assert (await store.health()).status == "degraded"
    assert await seen(path) == ["new"]
    if (moved := path.parent.parent / "moved.db").exists():
        async with SQLiteStore(moved) as former:
            assert await keys(former) == ["old"], "also what was in the log only"


async def test_something_else_is_put_in_its_place_and_taken_away_again(path: Path, store: SQLiteStore) -> None:
    await put(store, "old")
    aside = path.rename(path.parent.parent / "aside.db")
    path.write_text("not a database" * 1000)
    for _ in range(2):
        with pytest.raises(Exception, match="no SQLite database"):
            await put(store, "new")
        assert (await store.health()).status == "down"
    assert path.read_text().startswith("not a database")
    aside.replace(path)
    await put(store, "new")
    assert await seen(path) == await keys(store) == ["new", "old"]


async def test_the_log_is_removed_and_what_was_in_it_comes_into_the_file(path: Path, store: SQLiteStore) -> None:
    await put(store, "a1", "a2")
    remove_log(path)
    await put(store, "a3")
    other = Process(path)
    assert other.write("b1") == ["a1", "a2", "a3", "b1"]
    await put(store, "a4")
    other.kill()
    assert (await store.health()).status == "ok"
    assert await keys(store) == ["a1", "a2", "a3", "a4", "b1"]
    await store.close()
    assert await seen(path) == ["a1", "a2", "a3", "a4", "b1"]


async def test_the_log_is_removed_under_two_processes(path: Path, store: SQLiteStore) -> None:
    other = Process(path)
    other.write("b1")
    await put(store, "a1")
    remove_log(path)
    assert other.write("b2") == ["a1", "b1", "b2"]
    await put(store, "a2")
    assert other.write("b3") == await keys(store) == ["a1", "a2", "b1", "b2", "b3"]
    other.kill()
    assert await seen(path) == ["a1", "a2", "b1", "b2", "b3"]


async def test_beside_a_new_log_of_others_nothing_is_acknowledged_and_nothing_is_lost(
    path: Path, store: SQLiteStore
) -> None:
    await put(store, "a1")
    remove_log(path)
    other = Process(path)
    other.write("b1")
    with pytest.raises(StoreUnavailable, match="start this process anew"):
        await put(store, "a2")
    with pytest.raises(StoreUnavailable, match="start this process anew"):
        await get_one(store.collection(LETTERS), "a1")
    assert (await store.health()).status == "down"
    other.kill()
    await store.close()
    gc.collect()  # SQLite spoils both logs when the last connection to the file goes, whoever lets it go
    assert await seen(path) == ["b1"]
    (copy,) = path.parent.glob("*.rescued-*")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert await seen(copy) == ["a1"]


async def test_a_process_whose_log_was_emptied_by_another_one_spoils_nothing_when_it_ends(
    path: Path, store: SQLiteStore
) -> None:
    other = Process(path)
    other.write("b1")
    remove_log(path)
    assert other.write("b2") == ["b1", "b2"]
    other.kill()  # what it wrote last is in the new log only
    assert Path(f"{path}-wal").stat().st_size > 0
    await until_it_shows(store, "b1", "b2")
    await store.close()
    assert await seen(path) == ["b1", "b2"]

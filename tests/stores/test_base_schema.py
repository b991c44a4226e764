"""The schema number: new stores get it, and a store of another version is upgraded, or refused and left as it is."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.model.errors import IncompatibleStore
from mahavishnu.model.query import Query
from mahavishnu.stores import base as schema
from mahavishnu.stores.base import Store, Upgrade, write_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.sqlite.store import partition_path
from mahavishnu.testing import make_letter
from tests.support.opensearch import Servers

_DEVELOPMENT_ID = 0x4D56444C
KINDS: tuple[Kind[Any], ...] = (LETTERS, HISTORY)


class Place(ABC):
    """Where a store is, looked at past the store."""

    @property
    def export(self) -> str:
        """The command that exports from it, as a refusal names it."""
        return "mahavishnu dlq export --output letters.jsonl"

    @abstractmethod
    def store(self) -> Store: ...

    @abstractmethod
    def number(self) -> Any: ...

    @abstractmethod
    def set_number(self, number: int | None) -> None:
        """Set the number; None makes it the store of a development version."""

    @abstractmethod
    def contents(self) -> Any: ...

    async def fill(self) -> None:
        async with self.store() as store:
            assert await write_one(store.collection(LETTERS), make_letter(task_id="kept")) is not None

    async def refused(self) -> str:
        """The reason why the store cannot be opened, which has changed nothing."""
        before = self.contents()
        with pytest.raises(IncompatibleStore) as caught:
            await self.store().open()
        assert self.contents() == before
        return str(caught.value)


@dataclass
class File(Place):
    path: Path

    @property
    def export(self) -> str:
        return f"mahavishnu dlq --store 'sqlite:///{self.path}' export --output letters.jsonl"

    def store(self) -> SQLiteStore:
        return SQLiteStore(self.path, kinds=KINDS)

    def number(self) -> Any:
        return self._ask("PRAGMA user_version")

    def set_number(self, number: int | None) -> None:
        if number is None:
            self._ask(f"PRAGMA application_id = {_DEVELOPMENT_ID}")
        else:
            self._ask(f"PRAGMA user_version = {number}")

    def contents(self) -> dict[str, bytes]:
        folder = self.path.parent
        return {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")}

    def _ask(self, statement: str) -> Any:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return next(iter(connection.execute(statement).fetchall()), (None,))[0]


@dataclass
class Indices(Place):
    cluster: Servers
    prefix: str

    def store(self) -> OpenSearchStore:
        return OpenSearchStore(self.cluster.urls, prefix=self.prefix, timeout=60, kinds=KINDS)

    def number(self) -> Any:
        (number,) = {each["mappings"]["_meta"]["mahavishnu"].get("schema") for each in self._found("").values()}
        return number

    def set_number(self, number: int | None) -> None:
        meta = {"layout": 1} if number is None else {"schema": number}
        self._request("PUT", "_dlq/_mapping", {"_meta": {"mahavishnu": meta}})

    def contents(self) -> Any:
        self._request("POST", "_dlq*/_refresh")
        return self._found(""), self._found("/_search?size=100&filter_path=hits")

    def _found(self, path: str) -> Any:
        return self._request("GET", f"_dlq*{path}")

    def _request(self, method: str, path: str, *body: object) -> Any:
        status, answer = self.cluster.request(method, f"/{self.prefix}{path}", *body)
        assert status == 200, answer
        return answer


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return File(tmp_path / "all letters.db")
    return Indices(request.getfixturevalue("opensearch"), request.getfixturevalue("opensearch_prefix"))


async def test_a_new_store_has_the_number_whoever_is_first(place: Place) -> None:
    stores = [place.store() for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    for store in stores:
        await store.close()
    assert place.number() == schema.SCHEMA == 1
    await place.fill()
    assert place.number() == 1


async def test_a_newer_store_is_refused(place: Place) -> None:
    await place.fill()
    place.set_number(2)
    said = await place.refused()
    assert "has schema number 2, and this version of Mahavishnu supports 1" in said
    assert said.endswith("nothing was changed. Upgrade Mahavishnu")


async def test_a_store_of_a_development_version_is_refused_with_the_way_to_save_it(place: Place) -> None:
    await place.fill()
    place.set_number(None)
    said = await place.refused()
    assert "has no schema number (a development version made it)" in said and place.export in said
    assert "mahavishnu dlq import letters.jsonl" in said


async def test_an_older_store_without_an_upgrade_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await place.fill()
    monkeypatch.setattr(schema, "SCHEMA", 3)
    monkeypatch.setitem(schema.UPGRADES, 2, Upgrade(_fail, _fail))
    said = await place.refused()
    assert "has schema number 1, and this version of Mahavishnu supports 3" in said and place.export in said


def _fail(*_: object) -> Any:
    raise AssertionError("nothing may be upgraded in part")


def _upgrade_to(priority: int) -> Upgrade:
    """Give each letter another priority, once."""

    def upgrade_file(connection: sqlite3.Connection) -> None:
        for key, body in connection.execute('SELECT "_key", "_body" FROM letters').fetchall():
            document = json.loads(body)
            assert document.get("priority", 0) == priority - 1
            changed = json.dumps(document | {"priority": priority})
            connection.execute(
                'UPDATE letters SET "_body" = ?, priority = ? WHERE "_key" = ?', (changed, priority, key)
            )

    async def upgrade_index(ask: Callable[..., Awaitable[object]], name: str) -> None:
        # Two processes may do it at once: who comes second changes nothing.
        await ask("POST", f"/{name}/_refresh")
        script = {"source": f"ctx._source.priority = {priority}"}
        await ask(
            "POST",
            f"/{name}/_update_by_query",
            {"query": {"range": {"priority": {"lt": priority}}}, "script": script},
            {"refresh": "true", "conflicts": "proceed"},
        )

    return Upgrade(upgrade_file, upgrade_index)


@pytest.mark.parametrize("first", [None, 1])
async def test_an_older_store_is_upgraded_whoever_is_first(
    place: Place, monkeypatch: pytest.MonkeyPatch, first: int | None
) -> None:
    await place.fill()
    place.set_number(first)
    if first is None:
        monkeypatch.setitem(schema.UPGRADES, 0, Upgrade(lambda _: None, _nothing))
    monkeypatch.setitem(schema.UPGRADES, 1, _upgrade_to(1))
    monkeypatch.setitem(schema.UPGRADES, 2, _upgrade_to(2))
    monkeypatch.setattr(schema, "SCHEMA", 3)
    stores = [place.store() for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    for store in stores:
        page = await store.collection(LETTERS).find(Query())
        assert [letter.priority for letter in page.items] == [2]
        await store.close()
    assert place.number() == 3
    monkeypatch.setattr(schema, "SCHEMA", 1)
    assert "has schema number 3" in await place.refused()


async def _nothing(ask: object, name: str) -> None:
    pass


async def test_an_upgrade_of_a_file_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM letters")
        raise ZeroDivisionError

    file = File(tmp_path / "letters.db")
    await file.fill()
    monkeypatch.setitem(schema.UPGRADES, 1, Upgrade(stop, _fail))
    monkeypatch.setattr(schema, "SCHEMA", 2)
    with pytest.raises(ZeroDivisionError):
        await file.store().open()
    monkeypatch.setattr(schema, "SCHEMA", 1)
    assert file.number() == 1
    async with file.store() as store:
        assert (await store.collection(LETTERS).tally(Query())).total.count == 1


async def test_a_number_that_is_only_in_the_log_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process reads, an upgrade stays in the log, and the file itself has the older number."""
    file = File(tmp_path / "letters.db")
    await file.fill()
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("PRAGMA wal_autocheckpoint = 0")
        other.execute("PRAGMA user_version = 2")
        with pytest.raises(IncompatibleStore, match="schema number 2"):
            await file.store().open()
        assert other.execute("SELECT count(*) FROM letters").fetchone() == (1,)


async def test_a_partition_of_the_archive_has_a_number_of_its_own(tmp_path: Path) -> None:
    file = File(tmp_path / "letters.db")
    await file.fill()
    kind = replace(LETTERS, partition="archive-2026-01")
    partition = File(partition_path(file.path, "archive-2026-01"))
    await partition.fill()
    partition.set_number(2)
    async with file.store() as store:
        with pytest.raises(IncompatibleStore, match=r"archive-2026-01\.db has schema number 2"):
            await store.collection(kind).find(Query())
        assert (await store.collection(LETTERS).tally(Query())).total.count == 1


@pytest.mark.parametrize("part", ["primary", "local"])
async def test_either_part_of_a_pair_is_refused(tmp_path: Path, part: str) -> None:
    other, file = MemoryStore(), File(tmp_path / "part.db")
    await file.fill()
    file.set_number(2)
    before = file.contents()
    pair = FallbackStore(*((file.store(), other) if part == "primary" else (other, file.store())), kinds=KINDS)
    with pytest.raises(IncompatibleStore, match=r"part\.db has schema number 2"):
        await pair.open()
    await pair.close()
    assert file.contents() == before


async def test_a_pair_is_as_new_as_its_file(tmp_path: Path) -> None:
    file = File(tmp_path / "local.db")
    async with FallbackStore(MemoryStore(), file.store(), kinds=KINDS):
        pass
    assert file.number() == schema.SCHEMA


@pytest.mark.parametrize("number", [2, None])
async def test_the_command_line_says_it_in_one_line(tmp_path: Path, number: int | None) -> None:
    file = File(tmp_path / "all letters.db")
    await file.fill()
    file.set_number(number)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "mahavishnu", "dlq", "--store", f"sqlite:///{file.path}", "list"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MAHAVISHNU_DLQ_LOCAL_URL": "none"},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"mahavishnu: {file.path} has ") and done.stderr.count("\n") == 1
    assert (file.export if number is None else "Upgrade Mahavishnu") in done.stderr

"""Failures while the store is broken, and `kill -9` two seconds after their workflows ended.

Each that was acknowledged is found by the next process. Each other one has said so, and the log has its payload whole.
"""

# ruff: noqa: ASYNC240 - files are moved here while nobody else waits for the loop
from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.sqlite import SQLiteStore
from tests.proofs.capturing import make_app, payload
from tests.support.node import CLOCK, ROOT, until
from tests.support.opensearch import Servers
from tests.support.opensearch_proxy import Action, Proxy, answer

pytestmark = pytest.mark.faults
PAGE = b"<html>default backend</html>"


@dataclass
class Place:
    """Where a process keeps its failures. Without OpenSearch, the file is its only store."""

    file: Path
    proxy: Proxy | None = None
    servers: Servers | None = None
    prefix: str = ""

    @property
    def options(self) -> dict[str, Any]:
        file = f"sqlite:///{self.file}"
        if self.proxy is None:
            return {"url": file, "local": None}
        return {"url": f"{self.proxy.url.replace('http', 'opensearch')}/{self.prefix}?timeout=5", "local": file}

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        assert self.servers is not None
        status, said = self.servers.request(method, path, *([] if body is None else [body]))
        assert status == 200, said


@dataclass
class Child:
    """The process that will be killed."""

    process: asyncio.subprocess.Process
    log: asyncio.Task[bytes]

    @classmethod
    async def start(cls, place: Place) -> Child:
        command = [sys.executable, "-m", "tests.proofs.capturing", json.dumps(place.options)]
        if os.geteuid() == 0:  # the permissions of files mean nothing to root
            command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=ROOT)
        assert process.stderr is not None
        return cls(process, asyncio.create_task(process.stderr.read()))

    async def tell(self, *words: str) -> dict[str, str | None]:
        """What the results of these workflows said of the queue: None where they were acknowledged."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{' '.join(words)}\n".encode())
        line = await self.process.stdout.readline()
        assert line, (await self.log).decode()
        told: dict[str, str | None] = json.loads(line)
        return told

    async def kill(self) -> str:
        """Kill it. Returns what it has logged."""
        self.process.kill()
        await self.process.wait()
        return (await self.log).decode()


Breakage: TypeAlias = Callable[[Place, Child | None], AbstractAsyncContextManager[None]]


def answered(ending: str, action: Action) -> Breakage:
    """Requests are answered so by something that is not OpenSearch, or refuses what is sent."""

    @asynccontextmanager
    async def breakage(place: Place, child: Child | None) -> AsyncIterator[None]:
        assert place.proxy is not None
        place.proxy.plan(ending, *[action] * 9999)
        yield
        place.proxy.forget()

    return breakage


@asynccontextmanager
async def read_only_indices(place: Place, child: Child | None) -> AsyncIterator[None]:
    path = f"/{place.prefix}_*/_settings"
    place.request("PUT", path, {"index.blocks.read_only_allow_delete": True})
    yield
    place.request("PUT", path, {"index.blocks.read_only_allow_delete": None})


@asynccontextmanager
async def template_without_source(place: Place, child: Child | None) -> AsyncIterator[None]:
    body = {"mappings": {"_source": {"enabled": False}}, "settings": {"index.final_pipeline": "nosuch"}}
    path = f"/_index_template/{place.prefix}"
    place.request("PUT", path, {"index_patterns": [f"{place.prefix}_*"], "priority": 500, "template": body})
    yield
    place.request("DELETE", path)


@asynccontextmanager
async def index_without_source(place: Place, child: Child | None) -> AsyncIterator[None]:
    path = f"/{place.prefix}_dlq"
    place.request("PUT", path, {"mappings": {"_source": {"enabled": False}}})
    yield
    place.request("DELETE", path)


@asynccontextmanager
async def missing_pipeline(place: Place, child: Child | None) -> AsyncIterator[None]:
    path = f"/{place.prefix}_*/_settings"
    place.request("PUT", path, {"index.final_pipeline": "nosuch"})
    yield
    place.request("PUT", path, {"index.final_pipeline": "_none"})


@asynccontextmanager
async def locked(place: Place, child: Child | None) -> AsyncIterator[None]:
    with closing(sqlite3.connect(place.file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.rollback()


@asynccontextmanager
async def full(place: Place, child: Child | None) -> AsyncIterator[None]:
    assert child is not None
    await child.tell("full")
    yield


@asynccontextmanager
async def read_only_folder(place: Place, child: Child | None) -> AsyncIterator[None]:
    async with SQLiteStore(place.file, kinds=KINDS):
        pass
    place.file.chmod(0o400)
    place.file.parent.chmod(0o500)
    yield
    place.file.parent.chmod(0o700)
    place.file.chmod(0o600)


@asynccontextmanager
async def replaced(place: Place, child: Child | None) -> AsyncIterator[None]:
    backup = place.file.parent.parent / "backup.db"
    async with SQLiteStore(backup, kinds=KINDS):
        pass
    backup.replace(place.file)
    yield


@asynccontextmanager
async def moved_away(place: Place, child: Child | None) -> AsyncIterator[None]:
    place.file.rename(place.file.parent.parent / "moved.db")
    yield


@asynccontextmanager
async def log_removed(place: Place, child: Child | None) -> AsyncIterator[None]:
    for ending in ("-wal", "-shm"):
        Path(f"{place.file}{ending}").unlink()
    yield


async def find(place: Place) -> dict[str, Any]:
    """The payloads of all letters, by task, as a new process sees them when nothing waits any more."""
    app = make_app(**place.options)
    dlq = app.dlq
    assert dlq is not None
    async with app:

        async def all_in() -> bool:
            if isinstance(dlq.store, FallbackStore):
                await dlq.store.drain()
            await dlq.intake.admit_waiting()
            return not await dlq.context.waiting.count() and not (await dlq.health()).waiting

        await until(all_in)
        return {letter.task_id: letter.task for letter in await dlq.list_tasks()}


async def check(place: Place, *breakages: Breakage, from_start: bool = False, forgets: bool = False) -> int:
    """Break the store, have workflows fail, kill the process, mend the store and look. Returns how many are found.

    With `forgets`, the breakage itself takes away what was stored before.
    """
    said: dict[str, str | None] = {}
    async with AsyncExitStack() as broken:
        if from_start:
            for breakage in breakages:
                await broken.enter_async_context(breakage(place, None))
        child = await Child.start(place)
        said |= await child.tell("before")
        if not from_start:
            assert said == {"before": None}
            for breakage in breakages:
                await broken.enter_async_context(breakage(place, child))
            if forgets:
                said.clear()
        said |= await child.tell("a", "b", "c")
        said |= await child.tell("d")
        await CLOCK.sleep(2)
        log = await child.kill()
    found = await find(place)
    for name, problem in said.items():
        if problem is None or "in this process's memory" not in problem:
            assert found.get(name) == payload(name), (name, problem, found.keys(), log[-4000:])
        elif name not in found:
            assert json.dumps(payload(name)["text"]) in log, (name, problem, log[-4000:])
    return len(found)


@pytest.fixture
async def beside_opensearch(opensearch: Servers, opensearch_prefix: str, tmp_path: Path) -> AsyncIterator[Place]:
    async with Proxy(opensearch.urls[0]) as proxy:
        yield Place(tmp_path / "local.db", proxy, opensearch, opensearch_prefix)


@pytest.fixture
def alone(tmp_path: Path) -> Place:
    (tmp_path / "live").mkdir()
    return Place(tmp_path / "live" / "letters.db")


NEVER_OPENSEARCH: dict[str, Breakage] = {
    "a page with 404": answered("", answer(404, PAGE)),
    "a redirect": answered("", answer(302, PAGE)),
    "an empty object": answered("", answer(200, {})),
    "413 for bulks": answered("_bulk", answer(413, PAGE)),
    "413 for everything": answered("", answer(413, PAGE)),
}
OPENSEARCH: dict[str, Breakage] = {"read-only indices": read_only_indices, "a missing pipeline": missing_pipeline}


@pytest.mark.opensearch
@pytest.mark.prove
@pytest.mark.parametrize("breakage", [*NEVER_OPENSEARCH, *OPENSEARCH])
async def test_opensearch_breaks_and_the_local_store_does_not(beside_opensearch: Place, breakage: str) -> None:
    assert await check(beside_opensearch, (NEVER_OPENSEARCH | OPENSEARCH)[breakage]) == 5


@pytest.mark.opensearch
@pytest.mark.prove
@pytest.mark.parametrize("breakage", NEVER_OPENSEARCH)
async def test_what_answers_is_not_opensearch_from_the_start(beside_opensearch: Place, breakage: str) -> None:
    assert await check(beside_opensearch, NEVER_OPENSEARCH[breakage], from_start=True) == 5


@pytest.mark.opensearch
@pytest.mark.parametrize("breakage", [template_without_source, index_without_source])
async def test_opensearch_would_not_give_back_what_it_gets(beside_opensearch: Place, breakage: Breakage) -> None:
    assert await check(beside_opensearch, breakage, from_start=True) == 5


@pytest.mark.opensearch
@pytest.mark.prove
async def test_the_local_store_is_locked_while_something_else_answers(beside_opensearch: Place) -> None:
    await check(beside_opensearch, NEVER_OPENSEARCH["a page with 404"], locked)


@pytest.mark.prove
async def test_the_only_store_is_locked(alone: Place) -> None:
    await check(alone, locked)


async def test_the_disk_is_full(alone: Place) -> None:
    await check(alone, full)


async def test_the_folder_is_read_only(alone: Place) -> None:
    await check(alone, read_only_folder, from_start=True)


@pytest.mark.parametrize("breakage", [replaced, moved_away])
async def test_the_file_is_replaced(alone: Place, breakage: Breakage) -> None:
    assert await check(alone, breakage, forgets=True) == 4


async def test_the_log_is_removed(alone: Place) -> None:
    assert await check(alone, log_removed) == 5

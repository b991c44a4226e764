"""Captures in processes that are forked, killed, or at their end: what was acknowledged is found by the next one."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from tests.support.queues import queue_of

_HEAD = """
import asyncio, atexit, datetime, logging, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: that is the point here
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.stores.sqlite import SQLiteStore
patience = datetime.timedelta(seconds=float(sys.argv[2]))
store = SQLiteStore(sys.argv[1], busy_timeout=patience, kinds=KINDS)
app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{sys.argv[1]}"), store=store)
async def sweep(task, repos):
    raise ConnectionError("refused")
def sync(task, repos):
    raise ConnectionError("refused")
app.register_adapter("sweep", sweep)
app.register_adapter("sync", sync)
async def fails(*names, adapter="sweep"):
    results = await asyncio.gather(*(app.execute_workflow({"id": name}, adapter) for name in names))
    said = [result["dlq_enqueued"] or "wait" in result["dlq_error"] and "memory" not in result["dlq_error"]
            for result in results]
    os.write(1, b"acknowledged\\n" if all(said) else f"{results}\\n".encode())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "letters.db"


@contextmanager
def process(path: Path, code: str, patience: float = 5) -> Iterator[subprocess.Popen[str]]:
    """One that runs this, and waits for a file that is locked for so many seconds."""
    program = [sys.executable, "-c", _HEAD + textwrap.dedent(code), str(path), str(patience)]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as running:
        try:
            yield running
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # with the children that it has forked


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


async def found(path: Path) -> set[str]:
    """What another process finds, each with one occurrence."""
    async with MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{path}")) as app:
        await queue_of(app).intake.admit_waiting()
        assert await queue_of(app).context.waiting.count() == 0
        letters = await queue_of(app).list_tasks()
        assert {letter.occurrences for letter in letters} <= {1}
        return {letter.task_id for letter in letters}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("daemon", [False, True], ids=["a child", "a daemon"])
async def test_a_forked_child_keeps_what_fails(path: Path, daemon: bool) -> None:
    """The store is open in the parent: SQLite could lose what the child writes into the same file."""
    code = f"""
    def in_child():
        asyncio.run(fails("child", "other child"))
        asyncio.run(fails("sync child", adapter="sync"))
    async def main():
        await fails("parent")
        child = os.fork()
        if child == 0:
            thread = threading.Thread(target=in_child)
            thread.start()
            thread.join()
            os._exit(0)
        if {daemon}:
            os._exit(0)
        os.waitpid(child, 0)
        await fails("afterwards")
        await app.shutdown()
    asyncio.run(main())
    """
    with process(path, code) as running:
        said = [await asyncio.to_thread(line, running) for _ in range(3 if daemon else 4)]
        assert set(said) == {"acknowledged"}
        assert await asyncio.to_thread(running.wait, 30) == 0
    children = {"child", "other child", "sync child"}
    assert await found(path) == {"parent", *children, *(["afterwards"] if not daemon else [])}


async def test_a_process_pool_that_forks_keeps_what_fails(path: Path) -> None:
    code = """
    import concurrent.futures, multiprocessing
    def child(name):
        asyncio.run(fails(name))
    async def main():
        await fails("parent")
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.run_in_executor(pool, child, f"child {n}") for n in range(4)))
    asyncio.run(main())
    """
    with process(path, code) as running:
        assert {await asyncio.to_thread(line, running) for _ in range(5)} == {"acknowledged"}
    assert await found(path) == {"parent", *(f"child {n}" for n in range(4))}


async def test_a_store_that_is_opened_after_the_fork_is_the_childs_own(path: Path) -> None:
    code = """
    child = os.fork()
    if child == 0:
        async def main():
            result = await app.execute_workflow({"id": "child"}, "sweep")
            print(result["dlq_enqueued"], flush=True)
        asyncio.run(main())
        os._exit(0)
    os.waitpid(child, 0)
    """
    with process(path, code) as running:
        assert await asyncio.to_thread(line, running) == "True"
    assert await found(path) == {"child"}


@pytest.mark.parametrize("opened", [True, False], ids=["open before", "never open before"])
async def test_what_fails_at_the_interpreters_exit_is_kept(path: Path, opened: bool) -> None:
    code = f"""
    if {opened}:
        asyncio.run(fails("before"))
    else:
        print("acknowledged", flush=True)
    atexit.register(lambda: asyncio.run(fails("at exit")))
    atexit.register(lambda: asyncio.run(fails("sync at exit", adapter="sync")))
    """
    with process(path, code) as running:
        assert {await asyncio.to_thread(line, running) for _ in range(3)} == {"acknowledged"}
        assert await asyncio.to_thread(running.wait, 30) == 0
    assert await found(path) == {"at exit", "sync at exit", *(["before"] if opened else [])}


@pytest.mark.parametrize("end", ["asyncio.run", "closed", "left alone"])
async def test_what_is_being_captured_when_the_event_loop_ends_is_kept(path: Path, end: str) -> None:
    code = f"""
    async def main():
        await fails("before")
        return [asyncio.ensure_future(app.execute_workflow({{"id": f"late {{n}}"}}, "sweep")) for n in range(3)]
    async def begin():
        tasks = await main()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return tasks
    logging.disable(logging.CRITICAL)  # asyncio complains about tasks that are destroyed
    if {end == "asyncio.run"}:
        asyncio.run(begin())
    else:
        loop = asyncio.new_event_loop()
        tasks = loop.run_until_complete(begin())
        if {end == "closed"}:
            loop.close()
    """
    with process(path, code) as running:
        assert await asyncio.to_thread(line, running) == "acknowledged"
        assert await asyncio.to_thread(running.wait, 30) == 0
    assert await found(path) == {"before", *(f"late {n}" for n in range(3))}


@pytest.mark.faults
async def test_a_process_killed_while_the_file_is_locked_loses_nothing_that_it_acknowledged(path: Path) -> None:
    code = """
    async def main():
        await fails("before")
        sys.stdin.readline()
        await fails(*(f"locked {n}" for n in range(5)))
        sys.stdin.readline()
    asyncio.run(main())
    """
    with process(path, code, patience=0.5) as running:
        assert await asyncio.to_thread(line, running) == "acknowledged"
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert running.stdin is not None
            print(file=running.stdin, flush=True)
            assert await asyncio.to_thread(line, running) == "acknowledged"
            running.send_signal(signal.SIGKILL)
            await asyncio.to_thread(running.wait, 30)
            other.execute("ROLLBACK")
    assert await found(path) == {"before", *(f"locked {n}" for n in range(5))}

"""The event loop of code that has none: what it runs, who interrupts it, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from mahavishnu.engine import sync_loop
from mahavishnu.engine.sync_loop import SyncLoop, current_sync_loop
from mahavishnu.model.errors import InsideEventLoop, MahavishnuError, StoreUnavailable, SyncTimeout

colour: ContextVar[str] = ContextVar("colour", default="none")


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncLoop]:
    monkeypatch.setattr(sync_loop, "_LOOK_SECONDS", 0.05)
    loop = SyncLoop()
    yield loop
    loop.end(1)


class Stuck:
    """Work that does not end by itself, and says how it was ended."""

    def __init__(self) -> None:
        self.began, self.cancelled = threading.Event(), threading.Event()

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def answer(value: object) -> object:
    return value


def test_a_thread_gets_what_the_work_returns_and_raises(loop: SyncLoop) -> None:
    async def fail() -> None:
        raise KeyError("x")

    assert loop.run(answer(1)) == 1
    with pytest.raises(KeyError, match="x"):
        loop.run(fail())
    assert loop.run(answer(2)) == 2


def test_the_work_sees_the_context_of_its_caller(loop: SyncLoop) -> None:
    async def look() -> str:
        return colour.get()

    token = colour.set("red")
    try:
        assert loop.run(look()) == "red"
    finally:
        colour.reset(token)
    assert loop.run(look()) == "none"


def test_many_threads_share_one_loop(loop: SyncLoop) -> None:
    """Also when all of them are the first."""
    loops: list[object] = []
    together = threading.Barrier(8)

    async def where() -> object:
        return asyncio.get_running_loop()

    def ask() -> None:
        together.wait()
        loops.append(loop.run(where()))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(loops) == 8 and len(set(loops)) == 1


async def test_where_an_event_loop_runs_it_says_what_to_await(loop: SyncLoop) -> None:
    """In any running one: it would be held up. In its own it would wait for itself for ever."""
    with pytest.raises(InsideEventLoop, match=r"say `await app\.dlq\.get_task\(…\)` there") as caught:
        loop.run(answer(1), name="dlq.get_task")
    assert isinstance(caught.value, MahavishnuError)

    async def ask() -> object:
        return loop.run(answer(1))

    with pytest.raises(InsideEventLoop):
        await asyncio.to_thread(lambda: loop.run(ask()))


def test_what_takes_too_long_is_cancelled(loop: SyncLoop) -> None:
    stuck = Stuck()
    with pytest.raises(SyncTimeout, match=r"dlq\.run_due was cancelled after 0\.01 s") as caught:
        loop.run(stuck.run(), timeout=0.01, name="dlq.run_due")
    assert isinstance(caught.value, TimeoutError)
    assert stuck.cancelled.wait(5)
    assert loop.run(answer(1), timeout=5) == 1


def test_a_timeout_of_the_work_itself_is_its_own(loop: SyncLoop) -> None:
    async def fail() -> None:
        raise TimeoutError("of the work")

    with pytest.raises(TimeoutError, match="of the work") as caught:
        loop.run(fail(), timeout=5)
    assert not isinstance(caught.value, SyncTimeout)


def test_a_signal_in_the_waiting_thread_cancels_the_work(loop: SyncLoop) -> None:
    """As Ctrl-C does, and as task queues end a task that takes too long."""
    stuck = Stuck()

    async def interrupt() -> None:
        asyncio.get_running_loop().call_later(0, os.kill, os.getpid(), signal.SIGINT)
        await stuck.run()

    with pytest.raises(KeyboardInterrupt):
        loop.run(interrupt())
    assert stuck.cancelled.wait(5)
    assert loop.run(answer(1)) == 1


def test_what_ends_a_process_ends_the_caller_and_not_the_loop(loop: SyncLoop) -> None:
    async def leave() -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        loop.run(leave())
    assert loop.run(answer(1)) == 1


def test_what_stops_the_loop_stops_nobody(loop: SyncLoop) -> None:
    async def stop() -> int:
        asyncio.get_running_loop().stop()
        return 1

    assert loop.run(stop()) == 1
    assert loop.run(answer(2)) == 2


def test_at_the_end_what_is_under_way_is_cancelled_and_nothing_begins(loop: SyncLoop) -> None:
    stuck, problems = Stuck(), list[BaseException]()

    def wait() -> None:
        try:
            loop.run(stuck.run())
        except BaseException as problem:
            problems.append(problem)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert stuck.began.wait(5)
    loop.end(0.01)
    waiting.join(5)
    assert stuck.cancelled.is_set()
    assert [str(problem) for problem in problems] == ["the interpreter is ending: this was cancelled"]
    with pytest.raises(StoreUnavailable, match="the interpreter is ending"):
        loop.run(answer(1))


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    """And the parent's goes on."""
    parent = current_sync_loop()
    assert parent.run(answer(1)) == 1
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            ours = current_sync_loop()
            os._exit(0 if ours is not parent and ours.run(answer(2), timeout=10) == 2 else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert current_sync_loop() is parent
    assert parent.run(answer(3), timeout=10) == 3


def test_the_interpreter_does_not_wait_for_a_thread_that_hangs() -> None:
    """A call that somebody left behind in a daemon thread is cancelled at the exit."""
    code = """
import asyncio, threading
from mahavishnu.engine import sync_loop
sync_loop._EXIT_SECONDS = 0.1
began = threading.Event()
async def hang():
    began.set()
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", flush=True)
loop = sync_loop.current_sync_loop()
threading.Thread(target=loop.run, args=[hang()], daemon=True).start()
began.wait(10)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "cancelled\n"

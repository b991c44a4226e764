"""Calls plugin code under a time-out: it may raise, hang or answer nonsense, and the caller continues in time.

All calls together make one hop to another thread, because the hop is what costs. Threads are reused. When a call hangs,
its thread is abandoned and the remaining calls run in another one. Python cannot stop a thread, and nothing can
interrupt code that never releases the interpreter lock (a runaway regular expression). Slow work of classifiers has a
pool of its own, where the jobs that an app gives to asyncio's threads hold up no failure.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias, TypeVar

log = logging.getLogger(__name__)
GRACE_SECONDS = 0.002  # nearly every answer comes in a tenth of this; an event loop is not blocked for longer
T = TypeVar("T")
_THREADS = 4


class Answer(NamedTuple):
    """The outcome of a call: its value, what it raised, or that it hung."""

    place: int
    seconds: float
    value: Any = None
    raised: BaseException | None = None
    hung: bool = False


Call: TypeAlias = "Callable[[Any, Any], Any]"
IsEnough: TypeAlias = "Callable[[Answer], bool]"


def make_call(call: Call, arguments: tuple[Any, Any], place: int = 0, started: float | None = None) -> Answer:
    """Make one call in this thread."""
    started = started or time.perf_counter()
    try:
        value = call(*arguments)
    except BaseException as problem:  # in this thread even SystemExit concerns only the plugin
        return Answer(place, time.perf_counter() - started, raised=problem)
    return Answer(place, time.perf_counter() - started, value)


class _Round:
    """Calls, made one after the other until an answer is enough or the caller abandons them."""

    def __init__(self, calls: Sequence[Call], start: int, arguments: tuple[Any, Any], is_enough: IsEnough) -> None:
        self.calls, self.start, self.arguments, self.is_enough = calls, start, arguments, is_enough
        self.answers: list[Answer] = []
        self.since: float | None = None  # when the current call began
        self.is_abandoned = False
        self.on_done: Callable[[], object] | None = None
        self.context = contextvars.copy_context()
        self.done = threading.Lock()
        self.done.acquire()

    def finish(self) -> None:
        self.done.release()
        if self.on_done is not None:
            self.on_done()

    def run(self) -> None:
        self.since = time.perf_counter()
        for place in range(self.start, len(self.calls)):
            answer = make_call(self.calls[place], self.arguments, place, self.since)
            self.since = time.perf_counter()
            self.answers.append(answer)
            if self.is_abandoned or self._is_enough(answer):
                return

    def _is_enough(self, answer: Answer) -> bool:
        try:
            return self.is_enough(answer)
        except Exception:  # even comparing a plugin's answer may run its code
            return False

    def is_done(self, wait_seconds: float = 0) -> bool:
        return self.done.acquire(timeout=wait_seconds)

    def seconds_left(self, seconds: float) -> float:
        """Return how much longer the current call may take. The time until the thread starts is not counted."""
        since = self.since
        return seconds if since is None else max(seconds - (time.perf_counter() - since), 0)

    def abandon(self, at: int) -> list[Answer]:
        """Return the answers so far, and that the next call hung; its late answer will be ignored."""
        self.is_abandoned = True
        since = self.since or 0
        return [*self.answers[:at], Answer(self.start + at, time.perf_counter() - since, hung=True)]


class _Worker:
    """A thread that waits for rounds to run."""

    def __init__(self) -> None:
        self.rounds: SimpleQueue[_Round] = SimpleQueue()
        self.process = os.getpid()
        threading.Thread(target=self._run, name="mahavishnu-plugins", daemon=True).start()

    def _run(self) -> None:
        while True:
            current = self.rounds.get()
            try:
                current.context.run(current.run)
            finally:
                _idle.append(self)  # before the caller continues: it may need a worker at once
                current.finish()
            del current  # so that the error is not kept alive until the next round


_idle: deque[_Worker] = deque()


def _start(current: _Round) -> bool:
    """Hand the round to a thread; False if no thread can be started."""
    worker = None
    with suppress(IndexError):
        worker = _idle.pop()
    if worker is None or worker.process != os.getpid():  # a fork has none of its parent's threads
        try:
            worker = _Worker()
        except RuntimeError as problem:  # too many threads, or the interpreter is shutting down
            log.warning("plugins are not asked: %s", problem)
            return False
    worker.rounds.put(current)
    return True


def ask(calls: Sequence[Call], arguments: tuple[Any, Any], is_enough: IsEnough, limit: float) -> list[Answer]:
    """Make the calls in order until an answer is enough. Each may take `limit` seconds; then it is abandoned."""
    answers: list[Answer] = []
    start = 0
    while start < len(calls):
        current = _Round(calls, start, arguments, is_enough)
        if not _start(current):
            break
        while True:
            at, left = len(current.answers), current.seconds_left(limit)
            if current.is_done(left):
                return answers + current.answers
            if len(current.answers) == at and not current.seconds_left(limit):
                break
        answers += current.abandon(at)
        start += at + 1
    return answers


async def ask_async(
    calls: Sequence[Call], arguments: tuple[Any, Any], is_enough: IsEnough, limit: float
) -> list[Answer]:
    """Make the calls as `ask` does, without blocking the event loop for more than GRACE_SECONDS."""
    answers: list[Answer] = []
    start = 0
    while start < len(calls):
        current = _Round(calls, start, arguments, is_enough)
        if not _start(current):
            break
        is_done = current.is_done(min(GRACE_SECONDS, limit))
        done_event = asyncio.Event()
        current.on_done = functools.partial(_call_soon, asyncio.get_running_loop(), done_event.set)
        while not is_done:
            at, left = len(current.answers), current.seconds_left(limit)
            if not (is_done := current.is_done()):
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await done_event.wait()
                is_done = current.is_done()
            if not is_done and len(current.answers) == at and not current.seconds_left(limit):
                break
        else:
            return answers + current.answers
        answers += current.abandon(at)
        start += at + 1
    return answers


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed, so nobody waits
        loop.call_soon_threadsafe(function)


async def call_in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Return the answer of a call in another thread; in this one if there is none, as at the end of the interpreter."""
    call = functools.partial(copy_context().run, work, *arguments)
    try:
        working = asyncio.get_running_loop().run_in_executor(_thread_pool(os.getpid()), call)
    except RuntimeError:
        return work(*arguments)
    return await working  # not above: a RuntimeError of its own is an answer


@functools.cache
def _thread_pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="mahavishnu-classify")

"""Calling code that nobody vouches for: it may raise, hang or answer nonsense, and the caller goes on in time.

One hop to another thread is made for all calls together, not one for each: the hop is what costs. Threads are kept for
the next time. Where a call hangs its thread is left behind, and the rest is done in another one; nothing can stop a
thread in Python, and nothing can interrupt code that never lets go of the interpreter (a runaway regular expression).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

log = logging.getLogger(__name__)
GRACE_SECONDS = 0.002  # nearly every answer comes in a tenth of this; an event loop is not held up for longer


class Answer(NamedTuple):
    """What a call came to: a value, or what it raised, or that it hung."""

    place: int
    seconds: float
    value: Any = None
    raised: BaseException | None = None
    hung: bool = False


Call: TypeAlias = "Callable[[Any, Any], Any]"
IsEnough: TypeAlias = "Callable[[Answer], bool]"


def made(call: Call, arguments: tuple[Any, Any], place: int = 0, started: float | None = None) -> Answer:
    """The answer to one call, made here and now."""
    started = started or time.perf_counter()
    try:
        value = call(*arguments)
    except BaseException as problem:  # in a thread of ours even SystemExit is only the plugin's
        return Answer(place, time.perf_counter() - started, raised=problem)
    return Answer(place, time.perf_counter() - started, value)


class _Round:
    """Calls, one after the other, until one of the answers is enough or the caller has lost patience."""

    def __init__(self, calls: Sequence[Call], start: int, arguments: tuple[Any, Any], is_enough: IsEnough) -> None:
        self.calls, self.start, self.arguments, self.is_enough = calls, start, arguments, is_enough
        self.answers: list[Answer] = []
        self.since: float | None = None  # when the call that is being made began
        self.left_behind = False
        self.tell: Callable[[], object] | None = None
        self.context = contextvars.copy_context()
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        self.context.run(self._run)

    def finish(self) -> None:
        self.done.release()
        if self.tell is not None:
            self.tell()

    def _run(self) -> None:
        self.since = time.perf_counter()
        for place in range(self.start, len(self.calls)):
            answer = made(self.calls[place], self.arguments, place, self.since)
            self.since = time.perf_counter()
            self.answers.append(answer)
            if self.left_behind or self._is_enough(answer):
                return

    def _is_enough(self, answer: Answer) -> bool:
        try:
            return self.is_enough(answer)
        except Exception:  # even to compare what a plugin answered may run its code
            return False

    def is_done(self, wait_seconds: float = 0) -> bool:
        return self.done.acquire(timeout=wait_seconds)

    def patience(self, seconds: float) -> float:
        """How much longer the current call may take. A thread that was not given the processor yet costs nothing."""
        since = self.since
        return seconds if since is None else max(seconds - (time.perf_counter() - since), 0)

    def leave(self, at: int) -> list[Answer]:
        """Give up the call at this position; what it answers some day is not looked at."""
        self.left_behind = True
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
            this = self.rounds.get()
            try:
                this.run()
            finally:
                _idle.append(self)  # before the caller goes on: it may come back at once
                this.finish()
            del this  # an error must not be kept alive until the next one comes


_idle: deque[_Worker] = deque()


def _begin(this: _Round) -> bool:
    """Hand the round to a thread; False if there is none to be had."""
    worker = None
    with suppress(IndexError):
        worker = _idle.pop()
    if worker is None or worker.process != os.getpid():  # a fork has none of its parent's threads
        try:
            worker = _Worker()
        except RuntimeError as problem:  # there are too many threads, or the interpreter is on its way out
            log.warning("plugins are not asked: %s", problem)
            return False
    worker.rounds.put(this)
    return True


def ask(calls: Sequence[Call], arguments: tuple[Any, Any], is_enough: IsEnough, limit: float) -> list[Answer]:
    """Make the calls in order until an answer is enough. Each may take `limit` seconds; then it is left behind."""
    answers: list[Answer] = []
    start = 0
    while start < len(calls):
        this = _Round(calls, start, arguments, is_enough)
        if not _begin(this):
            break
        while True:
            at, patience = len(this.answers), this.patience(limit)
            if this.is_done(patience):
                return answers + this.answers
            if len(this.answers) == at and not this.patience(limit):
                break
        answers += this.leave(at)
        start += at + 1
    return answers


async def ask_async(
    calls: Sequence[Call], arguments: tuple[Any, Any], is_enough: IsEnough, limit: float
) -> list[Answer]:
    """As `ask`, without holding up the event loop for more than a moment."""
    answers: list[Answer] = []
    start = 0
    while start < len(calls):
        this = _Round(calls, start, arguments, is_enough)
        if not _begin(this):
            break
        is_done = this.is_done(min(GRACE_SECONDS, limit))
        told = asyncio.Event()
        this.tell = _bell(told)
        while not is_done:
            at, patience = len(this.answers), this.patience(limit)
            if not (is_done := this.is_done()):
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience):
                        await told.wait()
                is_done = this.is_done()
            if not is_done and len(this.answers) == at and not this.patience(limit):
                break
        else:
            return answers + this.answers
        answers += this.leave(at)
        start += at + 1
    return answers


def _bell(told: asyncio.Event) -> Callable[[], object]:
    loop = asyncio.get_running_loop()

    def ring() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(told.set)

    return ring

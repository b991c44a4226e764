"""The event loop for code that has none: one in each process, in a thread of its own, that threads can wait for."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Generic, Protocol, TypeVar

from mahavishnu.model.errors import InsideEventLoop, StoreUnavailable, SyncTimeout

log = logging.getLogger(__name__)
R = TypeVar("R")
_CANCEL_SECONDS = 1.0  # for which a caller who was interrupted waits until its work was cancelled
_LOOK_SECONDS = 1.0  # between two looks at whether the thread is still there
_EXIT_SECONDS = 5.0  # for what is under way when the interpreter ends
_FORK_SECONDS = 2.0  # for what is under way when the process is forked


class Tenant(Protocol):
    """What uses a store in the loop."""

    def leave(self, seconds: float) -> Coroutine[Any, Any, object]:
        """Close the store if that is possible within so many seconds: the process is about to be forked."""

    @property
    def shutdown(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """Closes it for good: the interpreter ends."""

    def is_open_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether that event loop uses the store."""


class SyncLoop:
    """Runs coroutines for threads that have no event loop, in one thread that is started at first use.

    A forked process has another one: ask `current_sync_loop` each time. It ends with the interpreter: what is under way
    may end for a while, the rest is cancelled.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._jobs: set[_Job[Any]] = set()
        self._attaching = threading.Lock()
        self._all_tenants: weakref.WeakSet[Tenant] = weakref.WeakSet()
        self._is_ending = False
        self._is_held = False
        self._process = os.getpid()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop, if it has been started."""
        return self._loop

    def attach(self, tenant: Tenant) -> None:
        """Have what uses a store in this loop called before a fork and at the end."""
        with self._attaching:
            self._all_tenants.add(tenant)

    @property
    def _tenants(self) -> list[Tenant]:
        with self._attaching:
            return list(self._all_tenants)

    def run(self, work: Coroutine[Any, Any, R], *, timeout: float | None = None, name: str = "") -> R:
        """Run this in the loop's thread and wait for it: what it returns, or raises. It sees the caller's context.

        An exception that a signal raises in the waiting thread, as Ctrl-C does, cancels the work and is raised. Raises
        SyncTimeout, after the work was cancelled, when it took longer than `timeout` seconds; InsideEventLoop if an
        event loop is running in this thread; StoreUnavailable at the interpreter's end. `name` is how messages call it.
        """
        job = _Job(work, copy_context())
        self._jobs.add(job)
        try:
            self._begin(job, name)
            if not self._wait(job, timeout):
                raise SyncTimeout(name or "what was called", timeout or 0.0)
        except BaseException as problem:  # also what a signal raises, wherever this thread is
            job.cancel()
            self._wait(job, _CANCEL_SECONDS)
            if not isinstance(problem, SyncTimeout) or not job.has_result:
                raise
        finally:
            self._jobs.discard(job)
        try:
            return job.result()
        except asyncio.CancelledError:
            if self._is_ending:
                raise StoreUnavailable("the interpreter is ending: this was cancelled") from None
            raise

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Run this in the loop's thread, from any thread, without waiting. Raises StoreUnavailable if it cannot."""

        async def run() -> None:
            try:
                await work
            finally:
                self._jobs.discard(job)

        job = _Job(run(), Context())
        self._jobs.add(job)
        try:
            job.begin_in(self._start())
        except (RuntimeError, StoreUnavailable) as problem:
            self._jobs.discard(job)
            job.cancel()
            work.close()
            raise StoreUnavailable(f"no thread can do this now: {problem}") from problem

    def end(self, seconds: float) -> None:
        """Let what is under way end for so long at most, cancel the rest, and end the thread."""
        self._is_ending = True
        atexit.unregister(self.end)
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or thread is threading.current_thread() or self._process != os.getpid():
            return
        self._wait_for_jobs(seconds)
        self._run_unasked([tenant.shutdown() for tenant in self._tenants if tenant.is_open_in(loop)], seconds)
        with suppress(RuntimeError):  # it is closed
            loop.call_soon_threadsafe(loop.stop)
        thread.join(_CANCEL_SECONDS + seconds)
        if thread.is_alive():
            log.error("the thread %r does not end: something in its event loop holds it up", thread.name)

    def _wait_for_jobs(self, seconds: float) -> None:
        if self._process != os.getpid() or self._thread is threading.current_thread():
            return
        until = time.monotonic() + seconds
        for job in list(self._jobs):
            job.ended.wait(max(0.0, until - time.monotonic()))

    def prepare_fork(self) -> None:
        """Close what is open, so that both processes can open it, and begin nothing until `go_on` in the child."""
        if self._loop is None or self._thread is threading.current_thread():
            return
        self._is_held = self._starting.acquire(timeout=_FORK_SECONDS)
        self._run_unasked([tenant.leave(_FORK_SECONDS) for tenant in self._tenants], _FORK_SECONDS)

    def go_on(self) -> None:
        """After a fork, in the parent."""
        if self._is_held:
            self._is_held = False
            self._starting.release()

    def _run_unasked(self, works: list[Coroutine[Any, Any, Any]], seconds: float) -> None:
        """Run these although nothing else may begin, for so long at most. What they raise is logged."""
        jobs = [_Job(work, copy_context()) for work in works]
        until = time.monotonic() + seconds
        for job in jobs:
            if self._loop is None:
                job.cancel()
                continue
            with suppress(RuntimeError):  # it is closed
                job.begin_in(self._loop)
        for job in jobs:
            if not self._wait(job, max(0.0, until - time.monotonic())):
                job.cancel()
            elif (problem := job.problem) is not None:
                log.error("a store was not closed as it should be: %s", problem)

    def _begin(self, job: _Job[Any], name: str) -> None:
        if asyncio._get_running_loop() is not None:
            raise InsideEventLoop(name)
        try:
            job.begin_in(self._start())
        except RuntimeError as problem:
            raise StoreUnavailable(f"no thread can run {name or 'this'} now: {problem}") from problem

    def _wait(self, job: _Job[Any], seconds: float | None) -> bool:
        """Whether it has ended, after so many seconds at most."""
        left = seconds
        while left is None or left > 0:
            if job.ended.wait(_LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS)):
                return True
            if self._thread is None or not self._thread.is_alive():
                job.fail(StoreUnavailable("the thread that was to do it has ended"))
            left = None if left is None else left - _LOOK_SECONDS
        return job.ended.is_set()

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._is_ending:
                raise StoreUnavailable("the interpreter is ending: nothing can be run under app.sync any more")
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                loop = asyncio.new_event_loop()
                # A daemon: Python would wait for any other thread before it lets this one be ended.
                thread = threading.Thread(target=self._serve, args=[loop], name="mahavishnu-sync", daemon=True)
                self._loop, self._thread = loop, thread
                thread.start()
                atexit.register(self.end, _EXIT_SECONDS)
                # Before thread pools are closed, which opening a store may need: that is too early for `atexit`.
                if (register := getattr(threading, "_register_atexit", None)) is not None:
                    with suppress(RuntimeError):  # it is too late
                        register(self._wait_for_jobs, _EXIT_SECONDS)
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._is_ending:  # what is run may stop the loop, or raise what ends a process: its caller gets that
            with suppress(KeyboardInterrupt, SystemExit):
                loop.run_forever()
        try:
            if tasks := asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(tasks, timeout=_CANCEL_SECONDS))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


class _Job(Generic[R]):
    """One coroutine, and who waits for it."""

    def __init__(self, work: Coroutine[Any, Any, R], context: Context) -> None:
        self.ended = threading.Event()
        self._work, self._context = work, context
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[R] | None = None
        self._problem: BaseException | None = None

    def begin_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin it in the loop of another thread. Raises RuntimeError if that is closed."""
        self._loop = loop
        loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Cancel it from another thread, whether or not it was begun."""
        if self._loop is None:
            self._end()
            return
        try:
            self._loop.call_soon_threadsafe(self._end)
        except RuntimeError as problem:  # the loop is closed
            self.fail(StoreUnavailable(str(problem)))

    def fail(self, problem: BaseException) -> None:
        """Let nobody wait for it any more."""
        if not self.ended.is_set():
            self._problem = problem
            self.ended.set()

    def _begin(self) -> None:
        if not self.ended.is_set():  # otherwise it was cancelled before
            self._task = asyncio.get_running_loop().create_task(self._work, context=self._context)
            self._task.add_done_callback(self._finish)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()
            self.fail(asyncio.CancelledError())

    def _finish(self, task: asyncio.Task[R]) -> None:
        if not task.cancelled():
            task.exception()  # looked at, also where nobody waits any more
        self.ended.set()

    @property
    def has_result(self) -> bool:
        """Whether it came to an end of its own."""
        return self.ended.is_set() and self._task is not None and self._task.done() and not self._task.cancelled()

    @property
    def problem(self) -> BaseException | None:
        """What it raised; None if it did not, or was cancelled."""
        if self._problem is not None or self._task is None or not self._task.done() or self._task.cancelled():
            return self._problem
        return self._task.exception()

    def result(self) -> R:
        """What it returned, or raise what it raised."""
        if self._problem is not None:
            raise self._problem
        assert self._task is not None
        return self._task.result()


def current_sync_loop() -> SyncLoop:
    """The one of this process."""
    return _current


_current = SyncLoop()
_of_parents: list[SyncLoop] = []  # kept: a loop that is collected here would be taken out of the parent's selector


def _after_fork() -> None:
    global _current
    _of_parents.append(_current)
    atexit.unregister(_current.end)
    _current = SyncLoop()  # the thread of the former one is the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _current.prepare_fork(), after_in_parent=lambda: _current.go_on(), after_in_child=_after_fork
    )

"""Opens the queue's store in one event loop after the other, and closes it without losing what is in memory only."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import Context, ContextVar
from typing import Any, TypeVar

from mahavishnu.engine.sync_loop import current_sync_loop
from mahavishnu.engine.waiting_room import WaitingRoom
from mahavishnu.model.errors import MahavishnuError, StoreError, StoreUnavailable
from mahavishnu.stores.base import Store
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.memory import MemoryStore

log = logging.getLogger(__name__)
DEFAULT_SECONDS = 2.0  # time-out of a call to OpenSearch
R = TypeVar("R")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds between the tries to write down what waits outside of the store
_MOST_LOOPS = 20  # event loops that may end one after the other while one of them is to store something
_PATIENCE_SECONDS = 5.0  # for an event loop of another thread: it may be blocked, even by who waits here
_LOOK_SECONDS = 0.2
_IN_USE = "this queue is in use by another event loop that is running: give each loop an app of its own"


class UsedElsewhere(MahavishnuError):
    """The queue is in use by another event loop, which is running."""


class StoreSession:
    """Keeps the store open for the event loop that uses it."""

    def __init__(self, store: Store, waiting: WaitingRoom) -> None:
        self._store, self._waiting = store, waiting
        self._open_in: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[None] | None = None
        self._deciding = threading.Lock()
        self._opened_by: int | None = None  # the process that this one was forked from while it used the store
        self._writing_down: asyncio.Task[None] | None = None
        self._on_new_loop: list[Callable[[], object]] = []
        self.before_closing: list[Callable[[], Coroutine[Any, Any, None]]] = []  # each writes what waits for the store
        self._lent_to: asyncio.AbstractEventLoop | None = None  # it gives the store up where another one wants it
        self.is_kept: Callable[[], bool] = lambda: False  # whether something in it needs the store for good
        self.shutdown: Callable[[], Coroutine[Any, Any, None]] = self.close  # with all that works on the store
        self._leaving: asyncio.Future[None] | None = None
        self._uses = set[object]()  # of the store, by work in the event loop that it is lent to
        self._unused: asyncio.Event | None = None
        self.on_written_down: Callable[[], object] = lambda: None  # called when what waited outside is in the store
        waiting.on_outside = self.write_down_later
        _sessions.add(self)

    def on_new_loop(self, reset: Callable[[], object]) -> None:
        """Call `reset` whenever an event loop opens the store: what belonged to the former one is gone."""
        self._on_new_loop.append(reset)

    @property
    def used_elsewhere(self) -> bool:
        """Return whether another running event loop, or the parent process, uses the store, or is giving it up."""
        loop = asyncio.get_running_loop()
        if self._leaving is not None and self._leaving.get_loop() is loop:
            return True
        return self._open_in is not loop and (self._opened_by is not None or self._other_loop(loop) is not None)

    def is_open_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this event loop uses the store."""
        return self._open_in is loop

    async def open(self) -> None:
        """Make the store ready; opening it twice is opening it once. Raises what the store raises.

        One event loop after the other may use a queue. Raises UsedElsewhere while another one is running, unless it
        gives the store up, and StoreUnavailable in a process that was forked while the store was open.
        """
        loop = asyncio.get_running_loop()
        if self._open_in is loop:
            return
        self._require_own_process()
        await self._wait_for_sync_loop(loop)
        with self._deciding:
            other = self._other_loop(loop)
            if other is not None and other is not self._lent_to:
                raise UsedElsewhere(_IN_USE)
            if self._opening is None or self._opening.get_loop() is not loop:
                self._opening = asyncio.create_task(self._open_store(other))
            opening = self._opening
        await asyncio.shield(opening)

    async def _wait_for_sync_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """While the sync loop opens the store: it gives it up only when that is done."""
        opening = self._opening
        if opening is not None and (other := opening.get_loop()) is not loop and other is current_sync_loop().loop:
            with contextlib.suppress(StoreError, UsedElsewhere, _LoopEnded):  # whoever opens it here sees that, too
                await _run_in(other, self.open)

    async def run_in_home_loop(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run this where the store is used: in another event loop if that is running and uses it, otherwise here.

        It is begun again where that event loop ends meanwhile. Raises what it raises, and StoreUnavailable in a forked
        process, and if that event loop does not answer.
        """
        loop = asyncio.get_running_loop()
        for _ in range(_MOST_LOOPS):
            if self._leaving is not None and self._leaving.get_loop() is loop and not self._is_inside_use:
                await asyncio.shield(self._leaving)
            if self._open_in is loop:
                return await self._use(work)
            self._require_own_process()
            home = self._other_loop(loop)
            try:
                return await self._use(work) if home is None else await _run_in(home, work)
            except (UsedElsewhere, _LoopEnded):
                continue
        raise StoreUnavailable("the event loops that use this queue end before they can store anything")

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """While this lasts the store is not given up to another event loop."""
        use = object()
        token = _current_use.set(use)
        self._uses.add(use)
        try:
            yield
        finally:
            self._uses.discard(use)
            _current_use.reset(token)
            if not self._uses and self._unused is not None:
                self._unused.set()

    async def _use(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        with self.in_use():
            return await work()

    @property
    def _is_inside_use(self) -> bool:
        """Whether this is part of something that uses the store: who gives it up waits for that."""
        return _current_use.get() in self._uses

    async def leave(self, seconds: float = _PATIENCE_SECONDS) -> bool:
        """Close the store if this event loop uses it, once nothing needs it; False if that takes longer."""
        loop = asyncio.get_running_loop()
        if self._leaving is not None and self._leaving.get_loop() is loop:
            await asyncio.shield(self._leaving)
        if self._open_in is not loop:
            return True
        if self.is_kept() or self._is_inside_use:  # it would wait for itself
            return False
        leaving = self._leaving = loop.create_future()
        try:
            self._unused = asyncio.Event()
            if self._uses:
                await asyncio.wait_for(self._unused.wait(), seconds)
            await self.close()
        except TimeoutError:
            return False
        finally:
            self._leaving = None
            leaving.set_result(None)
        return True

    async def close(self) -> None:
        """Store what is in memory only, if that is possible, and close the store; the next use opens it again."""
        if self._open_in is None and self._waiting.has_outside:
            with contextlib.suppress(StoreError):  # the letters are counted in the log below
                await self.open()
            if self._open_in is None:
                self._waiting.write_files()
                if lost := len(self._waiting.in_memory):
                    log.error("%d failures that wait in memory are lost if this process ends", lost)
        if self._writing_down is not None and self._writing_down.get_loop() is asyncio.get_running_loop():
            self._writing_down.cancel()
        self._writing_down = None
        if self._open_in is not None:
            if self._open_in is asyncio.get_running_loop():
                for write in self.before_closing:
                    await write()
                await flush_before_exit(self._store, self._waiting)
            self._open_in = None
            await self._store.close()

    def write_down_later(self) -> None:
        """Store what waits outside of the store as soon as that is possible, in the event loop that uses the store."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        home = self._open_in if self._open_in is not None and self._open_in.is_running() else loop
        if home is None or self._opened_by is not None:
            return  # whoever opens the store next does it
        if home is loop:
            self._start_writing_down()
        else:
            with contextlib.suppress(RuntimeError):  # it has just been closed
                home.call_soon_threadsafe(self._start_writing_down)

    def call_at_home(self, function: Callable[[], object]) -> bool:
        """Have the event loop that uses the store call this soon, or when it goes on; False if there is none."""
        home = self._open_in
        if home is None or home.is_closed() or self._opened_by is not None:
            return False
        with contextlib.suppress(RuntimeError):  # it has just been closed
            home.call_soon_threadsafe(function)
        return True

    def _start_writing_down(self) -> None:
        loop = asyncio.get_running_loop()
        current = self._writing_down
        if current is None or current.done() or current.get_loop() is not loop:
            # In a context of its own: it has nothing to do with the run that failed just now.
            self._writing_down = asyncio.Task(self._write_down(), loop=loop, context=Context())
            self._writing_down._log_destroy_pending = False  # type: ignore[attr-defined]  # it may end with its loop

    async def _write_down(self) -> None:
        pause, clock = _FIRST_PAUSE, self._waiting.recorder.clock
        while self._waiting.has_outside:
            await clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            try:
                self._waiting.write_files()  # they outlive the process, whatever becomes of the store
                await self.open()
                await self._waiting.write_down()
            except (StoreError, UsedElsewhere) as problem:
                log.debug("what waits outside of the store has to wait on: %s", problem)
            except Exception:
                log.exception("writing down what waits outside of the store went wrong and is tried again")
            else:
                self.on_written_down()

    async def _open_store(self, other: asyncio.AbstractEventLoop | None = None) -> None:
        try:
            if other is not None:
                with contextlib.suppress(_LoopEnded):
                    if not await _run_in(other, self.leave):
                        raise UsedElsewhere(_IN_USE)
            if self._open_in is not None:  # by another event loop, as a program of several asyncio.run has them
                await self._store.close()
                self._open_in = None
            for reset in self._on_new_loop:
                reset()
            await self._store.open()
            if isinstance(self._store, MemoryStore):
                log.warning("letters are kept in this process's memory: they are lost when it ends")
            self._open_in = asyncio.get_running_loop()
            if (sync := current_sync_loop()).loop is self._open_in:
                self._lent_to = self._open_in
                sync.attach(self)
            if self._waiting.has_outside:
                self._start_writing_down()
        finally:
            self._opening = None

    def _other_loop(self, loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop | None:
        """The event loop that uses the store, or opens it, if it is another one and running."""
        opening = self._opening
        for other in (self._open_in, opening.get_loop() if opening is not None else None):
            if other is not None and other is not loop and other.is_running():
                return other
        return None

    def _require_own_process(self) -> None:
        if self._opened_by is not None:
            raise StoreUnavailable(
                f"the store was open in process {self._opened_by} when this one was forked from it, and cannot be used "
                "here: open it after the fork only, or start processes by spawn"
            )

    def _after_fork(self) -> None:
        """In the child: the store's connections and threads are the parent's, and so is what waits in its memory."""
        self._deciding = threading.Lock()
        self._lent_to = self._leaving = self._unused = None
        self._uses = set()
        if self._open_in is None and self._opening is None:
            return
        self._open_in = self._opening = self._writing_down = None
        if not isinstance(self._store, MemoryStore):
            self._opened_by = os.getppid()
            self._waiting.in_memory.clear()


_sessions: weakref.WeakSet[StoreSession] = weakref.WeakSet()


def _after_fork() -> None:
    for session in list(_sessions):
        session._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_current_use: ContextVar[object] = ContextVar("mahavishnu_store_use", default=None)


class _LoopEnded(Exception):
    """The event loop that was to do something ended before it had done it."""


async def _run_in(home: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run this in an event loop of another thread. Raises _LoopEnded if that ends meanwhile, else what it raises.

    Raises StoreUnavailable if that event loop does not answer for some seconds. It may do it later all the same. It may
    take as long as it needs while its event loop goes on.
    """
    last_sign = time.monotonic()

    def note_sign() -> None:
        nonlocal last_sign
        last_sign = time.monotonic()

    answer: concurrent.futures.Future[R] = concurrent.futures.Future()
    working = work()

    def begin() -> None:
        if answer.set_running_or_notify_cancel():
            task = asyncio.get_running_loop().create_task(working)
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # who waits for it sees that the loop ended
            task.add_done_callback(finish)

    def finish(task: asyncio.Future[R]) -> None:
        if task.cancelled():
            answer.set_exception(_LoopEnded())
        elif (problem := task.exception()) is not None:
            answer.set_exception(problem)
        else:
            answer.set_result(task.result())

    try:
        home.call_soon_threadsafe(begin)
    except RuntimeError:  # it was closed
        working.close()
        raise _LoopEnded from None
    try:
        waiting = asyncio.wrap_future(answer)
        while not waiting.done():
            await asyncio.wait({waiting}, timeout=_LOOK_SECONDS)
            if waiting.done():
                break
            if not home.is_running():
                raise _LoopEnded
            if time.monotonic() > last_sign + _PATIENCE_SECONDS:
                raise StoreUnavailable("the event loop that uses the store does not answer")
            with contextlib.suppress(RuntimeError):  # it has just been closed
                home.call_soon_threadsafe(note_sign)
        return await waiting
    finally:
        if answer.cancel() or not home.is_running():  # it was not begun, or is not continued
            with contextlib.suppress(ValueError):  # it is running in this moment after all
                working.close()


async def flush_before_exit(store: Store, waiting: WaitingRoom) -> None:
    """Write to a safe place what only this process's memory holds; log what is lost if that fails."""
    try:
        await waiting.write_down()
    except StoreError as problem:
        if lost := len(waiting.in_memory):
            log.error("%d failures that wait in memory are lost if this process ends: %s", lost, problem)
    if "mahavishnu.stores.fallback" not in sys.modules:  # then this store is none, and importing it takes a moment
        return
    from mahavishnu.stores.fallback import FallbackStore

    if isinstance(store, FallbackStore) and isinstance(store.local, MemoryStore) and (await store.health()).waiting:
        await store.drain()
        if lost := (await store.health()).waiting:
            log.error("%d records are lost if this process ends: only its memory holds them", lost)


def store_for(opensearch_client: Any, all_kinds: Callable[[], Sequence[Kind[Any]]]) -> Store:
    """Memory, or OpenSearch through a given client with memory for when it is away."""
    if opensearch_client is None:
        return MemoryStore()
    from mahavishnu.stores.fallback import FallbackStore
    from mahavishnu.stores.opensearch import OpenSearchStore

    kinds = all_kinds()
    primary = OpenSearchStore(client=opensearch_client, kinds=kinds, timeout=_timeout_of(opensearch_client))
    return FallbackStore(primary, MemoryStore(), kinds=kinds)


def _timeout_of(opensearch_client: Any) -> float:
    """The time-out that the client was made with; the store's own where it was made without one."""
    options = getattr(getattr(opensearch_client, "transport", None), "kwargs", None)
    seconds = options.get("timeout") if isinstance(options, Mapping) else None
    return float(seconds) if isinstance(seconds, int | float) and 0 < seconds < math.inf else DEFAULT_SECONDS

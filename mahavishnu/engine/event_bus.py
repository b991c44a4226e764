"""The event bus: calls listeners, a user's observability manager and the log with what happened."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection
from concurrent import futures
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar

from mahavishnu.model.errors import ENDS, InvalidInput
from mahavishnu.model.events import Event, EventName, Listener, letter_fields

log = logging.getLogger("mahavishnu.dlq")
_WARNINGS = frozenset({EventName.EXHAUSTED, EventName.STALE_CLAIM})
MOST_WAITING = 10_000  # events that wait for one listener
_FLUSH_SECONDS = 5.0
_LOOK_SECONDS = 0.2  # between two looks at whether an event loop still exists
_IDLE_SECONDS = 1.0  # after which a listener's thread ends
T = TypeVar("T")
DROPPED = "events_dropped"


class Named(Protocol):
    """What a queued listener is called with."""

    @property
    def name(self) -> str: ...


class EventBus:
    """Calls every listener with each event; one that raises is logged and does not affect the others."""

    def __init__(self, counts: Counter[str] | None = None) -> None:
        """`counts` gets `events_dropped`: how often a listener was told nothing, because it was too slow."""
        self._counts: Counter[str] = Counter() if counts is None else counts
        self._listeners: list[tuple[Listener, Collection[EventName] | None]] = [(_log_event, None)]
        self._by_name: dict[EventName, tuple[Listener, ...]] = {}  # as they are found: forgotten with each change
        self._queued: list[QueuedListener] = []
        self._to_finish: list[Callable[[], Awaitable[object]]] = []

    def subscribe(self, listener: Listener, names: Collection[EventName] | None = None) -> Callable[[], None]:
        """Call a quick part of the queue with each event, or those of these names. Returns a function that ends it."""
        self._listeners.append((listener, names))
        self._by_name.clear()

        def end() -> None:
            self._listeners.remove((listener, names))
            self._by_name.clear()

        return end

    def listen(
        self, listener: Listener, show: Callable[[Event], Event | None] = lambda event: event
    ) -> Callable[[], None]:
        """Have `listener` called with each event from now on; nobody waits for it. Returns a function that ends it.

        `show` returns the event as the listener may see it; None: not at all.
        Raises InvalidInput for a listener that cannot be called.
        """
        if not callable(listener):
            raise InvalidInput(f"a listener is a function of an event, not {listener!r:.80}")
        queued = self.queue(listener)
        forget = self.subscribe(lambda event: queued(shown) if (shown := show(event)) else None)

        def end() -> None:
            queued.is_wanted = False
            forget()

        return end

    def queue(self, listener: Callable[[Any], object]) -> QueuedListener:
        """A queue of its own for a listener of anything that has a name, which `flush` waits for."""
        queued = QueuedListener(listener, self._counts)
        self._queued = [*(each for each in self._queued if each.is_behind or each.is_wanted), queued]
        return queued

    def on_flush(self, finish: Callable[[], Awaitable[object]]) -> None:
        """Await this in `flush`, before listeners are waited for."""
        self._to_finish.append(finish)

    async def flush(self, seconds: float = _FLUSH_SECONDS) -> None:
        """Let listeners hear what was published, for so long at most. What they have not heard by then is logged."""
        for finish in self._to_finish:
            await finish()
        behind = [each for each in self._queued if each.is_behind]
        await asyncio.gather(*(asyncio.to_thread(each.catch_up, seconds) for each in behind))

    def publish(self, event: Event) -> None:
        """Call every listener with this event. Raises only what ends a program."""
        if (listeners := self._by_name.get(event.name)) is None:
            listeners = tuple(each for each, names in self._listeners if names is None or event.name in names)
            self._by_name[event.name] = listeners
        for listener in listeners:
            try:
                listener(event)
            except ENDS:
                raise
            except BaseException:
                log.exception("a listener stumbled over %s", event.name)


class QueuedListener:
    """Calls a listener in its own thread, or awaits it in the loop; past `MOST_WAITING`, events are dropped."""

    def __init__(self, listener: Callable[[Any], object], counts: Counter[str]) -> None:
        self.is_wanted = True
        self._listener, self._counts = listener, counts
        self._start_anew()

    def _start_anew(self) -> None:
        self._waiting: deque[tuple[Named, Context, asyncio.AbstractEventLoop | None]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_calling, self._is_full = False, False
        self._process = os.getpid()

    @property
    def is_behind(self) -> bool:
        """Whether it has not heard everything that was published."""
        return bool(self._waiting) or self._is_calling

    def __call__(self, event: Named) -> None:
        if self._process != os.getpid():  # a fork has neither the thread nor what it still had to hear
            self._start_anew()
        loop = asyncio._get_running_loop()
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._counts[DROPPED] += 1
                if not self._is_full:
                    log.error("listener %r is too slow, events are dropped until it catches up", self._listener)
                self._is_full = True
                return
            self._is_full = False
            self._waiting.append((event, copy_context(), loop))
            if self._thread is None:
                self._thread = threading.Thread(target=self._call_with_all, name="mahavishnu listener", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def catch_up(self, seconds: float) -> None:
        """Return when it has heard everything, or after so long."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self.is_behind, seconds):
                log.error("listener %r has not heard %d events", self._listener, len(self._waiting) + self._is_calling)

    def _call_with_all(self) -> None:
        while True:
            with self._changed:
                self._is_calling = False
                self._changed.notify_all()
                if not self._changed.wait_for(lambda: self._waiting, _IDLE_SECONDS):
                    self._thread = None
                    return
                event, context, loop = self._waiting.popleft()
                self._is_calling = True
            try:
                context.run(self._call, event, loop)
            except BaseException:  # also what ends a program: it ends the thread of nobody else
                log.exception("a listener stumbled over %s", event.name)

    def _call(self, event: Named, loop: asyncio.AbstractEventLoop | None) -> None:
        heard = self._listener(event)
        if loop is None:
            return
        if inspect.iscoroutine(heard):
            contained = contain(heard)
            hearing = asyncio.run_coroutine_threadsafe(contained, loop)
            while not hearing.done():  # of a loop that was closed before it began, nobody would ever hear
                futures.wait([hearing], _LOOK_SECONDS)
                if loop.is_closed() and not hearing.done():
                    contained.close()
                    heard.close()
                    raise RuntimeError("its event loop was closed before it could hear of it")
            hearing.result()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_do_nothing)  # wakes it: the listener may have set one of its events


async def contain(awaitable: Awaitable[T]) -> T:
    """Await code of strangers. If it ends the program, or cancels itself, that is an error of it and of nobody else."""
    try:
        return await awaitable
    except SystemExit as problem:
        raise RuntimeError(f"it raised SystemExit: {problem}") from problem
    except asyncio.CancelledError as problem:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
        raise RuntimeError("it raised CancelledError") from problem


def _do_nothing() -> None:
    """What a loop is woken with."""


def reporting_to(manager: Any) -> Listener:
    """A listener that hands events to an object with `log_info` and `log_error`, each `(message, attributes)`."""

    def report(event: Event) -> None:
        method = getattr(manager, "log_error" if event.name in _WARNINGS else "log_info", None)
        if method is not None:
            method(_sentence(event), _attributes(event))

    return report


def _log_event(event: Event) -> None:
    level = logging.WARNING if event.name in _WARNINGS else logging.DEBUG
    if log.isEnabledFor(level):
        log.log(level, "%s", _sentence(event), extra={"event": str(event.name), "fields": _log_fields(event)})


def _log_fields(event: Event) -> dict[str, Any]:
    return {**event.detail, **(letter_fields(event.letter) if event.letter is not None else {})}


def _sentence(event: Event) -> str:
    letter = event.letter
    if letter is None:
        return event.name
    return f"{event.name}: {letter.key} ({letter.status}, attempt {letter.total_attempts}): {letter.last_error:.200}"


def _attributes(event: Event) -> dict[str, Any]:
    attributes: dict[str, Any] = {"event": str(event.name), "at": event.at.isoformat(), **event.detail}
    if event.letter is not None:
        attributes |= {
            "task_id": event.letter.task_id,
            "entry_id": event.letter.entry_id,
            "status": str(event.letter.status),
            "error_category": event.letter.error_category,
            "retry_count": event.letter.retry_count,
        }
    return attributes

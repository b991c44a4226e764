"""An event loop on virtual time: it never waits, runs the same way each time, and hosts processes that can crash.

Everything in a simulation runs in this one loop. A callback belongs to the host whose code scheduled it. A crashed host
gets no callback any more: its coroutines stop at the `await` where they stand, and no `finally` of theirs runs. A
frozen host gets its callbacks once it thaws, as a suspended process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import os
import random
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from mahavishnu.classify import plugin_guard
from mahavishnu.model import ids
from mahavishnu.model.clock import instant

MOST_TURNS = 5_000_000  # of one simulation: code that never waits would never end
_BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)
_seeding = random.Random.seed


@dataclass(eq=False, slots=True)
class Host:
    """A process of the simulation."""

    name: str
    pid: int = 1
    crashed: bool = False
    frozen: bool = False
    waiting: list[asyncio.Handle] = field(default_factory=list)  # callbacks that came while it was frozen


WORLD = Host("world")
_host: ContextVar[Host] = ContextVar("host")


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose clock jumps to the next timer as soon as nothing is left to do."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self.host = WORLD
        self.turns = 0
        self._graveyard: list[object] = []  # a coroutine that is collected would run its `finally` blocks
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._note_problem)
        self.problems: list[str] = []

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        return super().call_soon(callback, *args, context=self._owned(context))

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        return self.call_soon(callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return super().call_at(when, callback, *args, context=self._owned(context))

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call it here and now: a thread would make the order depend on the machine."""
        answer = self.create_future()
        try:
            result = func(*args)
        except BaseException as problem:
            answer.set_exception(problem)
        else:
            answer.set_result(result)
        return answer

    @contextlib.contextmanager
    def acting_as(self, host: Host) -> Iterator[None]:
        """Let what the block schedules belong to this host."""
        former, self.host = self.host, host
        try:
            yield
        finally:
            self.host = former

    def spawn(self, host: Host, work: Any) -> asyncio.Task[Any]:
        """Start a coroutine on a host."""
        context = Context()
        context.run(_host.set, host)
        with self.acting_as(host):
            return self.create_task(work, context=context)

    def freeze(self, host: Host) -> None:
        """Suspend a host: it does nothing until it thaws."""
        host.frozen = True

    def thaw(self, host: Host) -> None:
        """Let a frozen host go on, with all that happened meanwhile at once."""
        host.frozen = False
        self._ready.extend(host.waiting)
        host.waiting.clear()

    def _owned(self, context: Context | None) -> Context:
        context = copy_context() if context is None else context
        if _host not in context:
            context.run(_host.set, self.host)
        return context

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None) -> Any:
        return NumberedTask(work, loop=loop, context=context)

    def _note_problem(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.problems.append(f"{context['message']}: {context.get('exception')!r}")

    def _run_once(self) -> None:
        self.turns += 1
        if self.turns > MOST_TURNS:
            raise RuntimeError(f"the simulation does not end; it is {self._now:.0f} s of virtual time old")
        while self._scheduled and (self._scheduled[0]._cancelled or not self._ready):
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer._cancelled:
                self._now = max(self._now, timer.when())
                self._ready.append(timer)
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle._cancelled:
                self._run(handle)

    def _run(self, handle: asyncio.Handle) -> None:
        host = handle._context[_host]  # type: ignore[attr-defined]
        if host.crashed:
            self._graveyard.append(handle)
        elif host.frozen:
            host.waiting.append(handle)
        else:
            self.host = host
            handle._run()
            self.host = WORLD

    def _process_events(self, event_list: Any) -> None: ...

    def _write_to_self(self) -> None: ...


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set depends on its number, and not on its address."""

    _numbers = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        NumberedTask._numbers += 1
        self._number = NumberedTask._numbers
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class HostClock:
    """The clocks of a host: a wall clock that may be set, and one that never goes back."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.offset = timedelta(0)

    def now(self) -> datetime:
        return instant(_BEGIN + timedelta(seconds=self._loop.time()) + self.offset)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)  # noqa: TID251 - of the virtual loop


class _Seeded(random.Random):
    """A generator of random numbers that is seeded from the simulation's own where its maker gives no seed."""

    def seed(self, a: Any = None, version: int = 2) -> None:
        _seeding(self, _chance[-1].getrandbits(64) if a is None else a, version)


_chance: list[random.Random] = []


@contextlib.contextmanager
def deterministic(seed: int, loop: VirtualLoop) -> Iterator[random.Random]:
    """Draw all that is random in this process from one seed, and make threads, process ids and garbage predictable."""
    chance = random.Random(seed)
    _chance.append(random.Random(chance.getrandbits(64)))
    NumberedTask._numbers = 0

    def start_inline(current: Any) -> bool:
        current.context.run(current.run)
        current.finish()
        return True

    gc.disable()
    try:
        with (
            patch.object(os, "urandom", lambda count: _chance[-1].randbytes(count)),
            patch.object(socket, "gethostname", lambda: "simulation"),  # shares of letters go by workers' names
            patch.object(os, "getpid", lambda: loop.host.pid),
            patch.object(random, "Random", _Seeded),
            patch.object(random, "random", random.Random(chance.getrandbits(64)).random),
            patch.object(plugin_guard, "_start", start_inline),
            patch.object(ids, "_pool", ids._Pool(0, [])),
            patch.object(ids.new_entry_id, "_last", 0),
            patch.object(ids.new_entry_id, "mark", "51a0b1c2"),
        ):
            yield chance
    finally:
        gc.enable()
        _chance.pop()

"""Work that is done again and again beside a processor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from mahavishnu.model.clock import Clock, wait_for
from mahavishnu.model.errors import StoreError

log = logging.getLogger(__name__)


class PeriodicTask(Struct):
    """An action done every `seconds` (asked each time), and at once after `wake`. If it fails it is tried again."""

    name: str
    action: Callable[[], Awaitable[object]]
    seconds: Callable[[], float]
    awake: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Do it now, without waiting for the next time."""
        self.awake.set()


class PeriodicTasks:
    """Does periodic tasks until it is stopped, each in its own time: one that hangs holds up nothing else."""

    def __init__(self, clock: Clock, *periodic: PeriodicTask) -> None:
        self._clock = clock
        self._periodic = periodic
        self._tasks: list[asyncio.Task[None]] = []

    def wake(self) -> None:
        """Do all of them now: the times between them may have changed."""
        for each in self._periodic:
            each.wake()

    def start(self) -> None:
        """Begin, with each task at once for the first time. Starting twice is starting once."""
        if not self._tasks:
            for each in self._periodic:
                each.awake = asyncio.Event()  # an event belongs to the event loop that waited for it
            self._tasks = [asyncio.create_task(self._repeat(each)) for each in self._periodic]

    async def stop(self) -> None:
        """End, in the middle of a task if need be: each of them can be done again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _repeat(self, each: PeriodicTask) -> None:
        while True:
            each.awake.clear()
            try:
                await each.action()
            except StoreError as problem:
                log.debug("%s has to wait: %s", each.name, problem)
            except Exception:
                log.exception("%s went wrong and is tried again", each.name)
            await wait_for(each.awake, self._clock, each.seconds())

"""Chores: what has to be done now and then while letters are worked on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import StoreError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PeriodicTask:
    """Something done every `seconds` (asked each time), and at once after `wake`. One that fails is tried again."""

    name: str
    action: Callable[[], Awaitable[object]]
    seconds: Callable[[], float]
    awake: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Do it now."""
        self.awake.set()


class PeriodicTasks:
    """Does the chores until it is stopped, each in its own time: one that hangs holds up nothing else."""

    def __init__(self, clock: Clock, *chores: PeriodicTask) -> None:
        self._clock = clock
        self._chores = chores
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, each chore at once for the first time. Starting twice is starting once."""
        if not self._tasks:
            for chore in self._chores:
                chore.awake = asyncio.Event()  # an event belongs to the event loop that waited for it
            self._tasks = [asyncio.create_task(self._repeat(chore)) for chore in self._chores]

    async def stop(self) -> None:
        """End, in the middle of a chore if need be: each of them can be done again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _repeat(self, chore: PeriodicTask) -> None:
        while True:
            chore.awake.clear()
            try:
                await chore.action()
            except StoreError as problem:
                log.debug("%s has to wait: %s", chore.name, problem)
            except Exception:
                log.exception("%s went wrong and is tried again", chore.name)
            await self._wait(chore)

    async def _wait(self, chore: PeriodicTask) -> None:
        waits: set[asyncio.Task[object]] = {
            asyncio.create_task(chore.awake.wait()),
            asyncio.create_task(self._clock.sleep(chore.seconds())),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

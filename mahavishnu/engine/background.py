"""What runs beside the processor: periodic tasks, and the registry of live workers that share the letters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mahavishnu.model.clock import Clock, wait_for
from mahavishnu.model.errors import StoreError
from mahavishnu.model.ids import PARTITIONS
from mahavishnu.model.query import Between, Query
from mahavishnu.stores.base import Collection, get_one, write_one
from mahavishnu.stores.kinds import Worker

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 5.0
LIVES_SECONDS = 16.0  # after three missed beats a worker counts as gone
_FORGOTTEN = timedelta(days=1)


@dataclass(slots=True)
class PeriodicTask:
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


class WorkerRegistry:
    """Knows the live workers, and which partitions of letters this one looks after.

    Being wrong costs conflicts, never correctness: every claim is a compare-and-set.
    """

    def __init__(self, workers: Collection[Worker], name: str, clock: Clock) -> None:
        self.live: tuple[str, ...] = (name,)  # those that share the same letters
        self.queues: tuple[str, ...] = ()  # whose letters this worker takes; empty: all
        self._workers = workers
        self._me = Worker(name, clock.now(), clock.now())
        self._clock = clock

    def partitions(self) -> list[range]:
        """The partitions of this worker, then those of the others in turn: who helps begins with the next worker."""
        place, workers = self.live.index(self._me.name), len(self.live)
        every = [range(PARTITIONS * each // workers, PARTITIONS * (each + 1) // workers) for each in range(workers)]
        return every[place:] + every[:place]

    async def heartbeat(self) -> None:
        """Record that this worker lives, and read who else does. If the store is away the list stays as it was."""
        now = self._clock.now()
        try:
            current = await get_one(self._workers, self._me.name)
            version = current.version if current else None
            await write_one(
                self._workers, Worker(self._me.name, self._me.started_at, now, self.queues or None, version)
            )
            same = {worker.name for worker in await self._live_workers() if (worker.queues or ()) == self.queues}
            live = sorted({self._me.name, *same})
            if tuple(live) != self.live:
                log.info("%d workers share the letters: %s", len(live), ", ".join(live))
            self.live = tuple(live)
            gone = await self._workers.find(Query((Between("seen_at", below=now - _FORGOTTEN),)))
            await self._workers.remove(gone.items)
        except StoreError as problem:
            log.debug("the list of workers is out of reach: %s", problem)

    async def others(self) -> list[str]:
        """The other workers that live now. Raises StoreError."""
        return [worker.name for worker in await self._live_workers() if worker.name != self._me.name]

    async def _live_workers(self) -> Sequence[Worker]:
        since = self._clock.now() - timedelta(seconds=LIVES_SECONDS)
        page = await self._workers.find(Query((Between("seen_at", at_least=since),)))
        return page.items

    async def deregister(self) -> None:
        """Remove this worker from the list, so that the others take over its share at their next heartbeat."""
        try:
            if (current := await get_one(self._workers, self._me.name)) is not None:
                await self._workers.remove([current])
        except StoreError as problem:
            log.debug("the list of workers is out of reach: %s", problem)

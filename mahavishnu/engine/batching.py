"""Batching: what arrives in the same turn of the event loop is stored by one call; each caller has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

BATCH_SIZE = 100  # two batches are in flight at once, so callers of the first continue while the second is written


class Pending(Protocol):
    """Something to be stored, with the future by which its caller waits for the answer, if one does."""

    @property
    def future(self) -> asyncio.Future[Any] | None: ...


W = TypeVar("W", bound=Pending)
R = TypeVar("R")


def resolve(future: asyncio.Future[R], value: R) -> None:
    """Answer the caller, unless it has given up."""
    if not future.done():
        future.set_result(value)


class Batcher(Generic[W]):
    """Hands to `store` what was added in the same turn of the event loop; `store` resolves the future of each.

    A caller may give up: what it added is stored all the same. If `store` raises or is cancelled, so is the future of
    everything in the batch that has no answer yet; `on_lost` is called with each of the batch before, because an event
    loop that ends cancels what it has not done.
    """

    def __init__(
        self, store: Callable[[Sequence[W]], Awaitable[None]], on_lost: Callable[[W], object] = lambda pending: None
    ) -> None:
        self._store, self._on_lost = store, on_lost
        # The batch that still takes more, and its event loop. In one attribute, as several threads may replace it: one
        # whose batch is no longer here begins another.
        self._open: tuple[asyncio.AbstractEventLoop, list[W]] | None = None
        self._tasks: dict[asyncio.Task[Any], Sequence[W]] = {}

    def add(self, pending: W) -> None:
        """Store this with the next batch."""
        loop = asyncio.get_running_loop()
        current = self._open
        if current is None or current[0] is not loop or len(current[1]) == BATCH_SIZE:
            current = self._open = (loop, [])
            self.spawn(self._flush(current[1]), current[1])
        current[1].append(pending)

    def spawn(
        self, work: Coroutine[Any, Any, R], batch: Sequence[W] = (), context: Context | None = None
    ) -> asyncio.Task[R]:
        """Run this, which resolves the futures of `batch`, in a task of its own that `finish` waits for."""
        # Not by the loop's own factory: an eager one would begin at once, and the batch would leave nearly empty.
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), context=context)
        self._tasks[task] = batch
        task.add_done_callback(partial(self._on_task_end, batch))
        return task

    def list_unfinished(self) -> list[W]:
        """Everything of which the tasks have not come to their end, in whatever event loop."""
        return [pending for batch in list(self._tasks.values()) for pending in batch]

    def forget(self) -> None:
        """Forget what is under way: it is done in the process that this one was forked from."""
        self._tasks = {}

    async def finish(self) -> None:
        """Return when everything that was added or spawned has come to its end."""
        loop = asyncio.get_running_loop()
        while tasks := [task for task in list(self._tasks) if task.get_loop() is loop]:
            await asyncio.wait(tasks)

    async def _flush(self, batch: list[W]) -> None:
        self._end_batch(batch)
        await self._store(batch)

    def _end_batch(self, batch: Sequence[W]) -> None:
        current = self._open
        if current is not None and current[1] is batch:
            self._open = None

    def _on_task_end(self, batch: Sequence[W], task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        self._end_batch(batch)  # if it was cancelled before it began
        problem = None if task.cancelled() else task.exception()
        if task.cancelled() or problem is not None:
            for pending in batch:
                self._on_lost(pending)
                if pending.future is not None and not pending.future.done():
                    pending.future.cancel() if problem is None else pending.future.set_exception(problem)

"""What comes in at the same moment is stored by one call, and each is told what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

BATCH_SIZE = 100  # a store writes two such lots at once: who is told first goes on while the other is under way


class Pending(Protocol):
    """Something that is to be stored, with the future by which somebody waits for it."""

    @property
    def future(self) -> asyncio.Future[Any]: ...


W = TypeVar("W", bound=Pending)
R = TypeVar("R")


def resolve(answer: asyncio.Future[R], value: R) -> None:
    """Answer who waits, unless they have given up."""
    if not answer.done():
        answer.set_result(value)


class Batcher(Generic[W]):
    """Hands to `store` what was added in the same turn of the event loop; `store` answers each.

    Who waits may give up: what was added is stored all the same. If `store` raises, or is cancelled, so is what those
    wait for who have no answer yet.
    """

    def __init__(self, store: Callable[[Sequence[W]], Awaitable[None]]) -> None:
        self._store = store
        self._open: list[W] | None = None  # the lot that has not left yet
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way: set[asyncio.Task[Any]] = set()

    def add(self, waiting: W) -> None:
        """Have it stored with the next lot."""
        loop = waiting.future.get_loop()
        lot = self._open
        if lot is None or len(lot) == BATCH_SIZE or self._loop is not loop:
            lot = self._open = []
            self._loop = loop
            self.spawn(self._flush(lot), lot)
        lot.append(waiting)

    def spawn(
        self, work: Coroutine[Any, Any, R], lot: Sequence[W] = (), context: Context | None = None
    ) -> asyncio.Task[R]:
        """Do this, which answers the `lot`, in a task of its own that `finish` waits for."""
        # Not by the loop's own factory: an eager one would begin at once, and the lot would leave without what comes.
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), context=context)
        self._under_way.add(task)
        task.add_done_callback(partial(self._on_task_end, lot))
        return task

    async def finish(self) -> None:
        """Return when all that was added, and what is followed, has come to its end."""
        loop = asyncio.get_running_loop()
        while under_way := [task for task in self._under_way if task.get_loop() is loop]:
            await asyncio.wait(under_way)

    async def _flush(self, lot: list[W]) -> None:
        if self._open is lot:
            self._open = None
        await self._store(lot)

    def _on_task_end(self, lot: Sequence[W], task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if self._open is lot:  # cancelled before it began
            self._open = None
        problem = None if task.cancelled() else task.exception()
        if task.cancelled() or problem is not None:
            for waiting in lot:
                if problem is None:
                    waiting.future.cancel()
                elif not waiting.future.done():
                    waiting.future.set_exception(problem)

"""Reads that many ask for at once are done once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class Shared(Generic[R]):
    """Reads that many ask for at the same time are done once.

    Whoever asks while such a read is under way waits for the next one, which all who wait share: nobody is answered
    from a read that began before they asked, so that they see what was written before.
    """

    def __init__(self) -> None:
        self._running: dict[Any, asyncio.Task[R]] = {}
        self._next: dict[Any, asyncio.Task[R]] = {}

    async def get(self, key: Any, read: Callable[[], Awaitable[R]]) -> R:
        """The answer of a read that has begun after this was called."""
        if key in self._next:
            return await asyncio.shield(self._next[key])
        running = self._running.get(key)
        if running is None:
            task = self._running[key] = asyncio.ensure_future(self._begin(key, read))
        else:
            task = self._next[key] = asyncio.ensure_future(self._after(running, key, read))
        task.add_done_callback(_noticed)  # also if nobody waits for it any more
        return await asyncio.shield(task)

    async def _begin(self, key: Any, read: Callable[[], Awaitable[R]]) -> R:
        try:
            return await read()
        finally:
            if key not in self._next:
                self._running.pop(key, None)

    async def _after(self, running: asyncio.Task[R], key: Any, read: Callable[[], Awaitable[R]]) -> R:
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:  # the loop ends; another one may come
            del self._next[key]
            self._running.pop(key, None)
            raise
        self._running[key] = self._next.pop(key)
        return await self._begin(key, read)


def _noticed(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()

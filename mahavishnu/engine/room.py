"""How many letters may still come in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import QueueFull

_AT_THE_LIMIT_SECONDS = 0.25


class Capacity:
    """Counts open letters: exactly inside this process, others' at each recount. It errs on the side of refusing.

    Whoever got places reports `used` for those that hold a stored letter, `unused` for those that nothing came of.
    """

    def __init__(
        self, max_size: int, count: Callable[[], Awaitable[int]], clock: Clock, fresh_seconds: float = 5.0
    ) -> None:
        self.max_size = max_size
        self._count = count
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._known = 0
        self._counted_at: float | None = None
        self._reserved = 0
        self._committed_meanwhile = 0
        self._lock = asyncio.Lock()

    async def reserve(self, task_id: str) -> None:
        """Take a place. Raises QueueFull if there is none."""
        if not await self.reserve_many(1):
            raise QueueFull(task_id, self._taken, self.max_size)

    async def reserve_many(self, places: int) -> int:
        """Take so many places, or as many as there are. Returns how many."""
        if not self._is_fresh(self._fresh_seconds):
            await self._recount(self._fresh_seconds)
        if self._taken + places > self.max_size:
            await self._recount(_AT_THE_LIMIT_SECONDS)  # others may have closed some
        places = min(places, max(self.max_size - self._taken, 0))
        self._reserved += places
        return places

    def commit(self, places: int = 1) -> None:
        """The places hold stored letters now."""
        self.cancel(places)
        self._known += places
        self._committed_meanwhile += places

    def cancel(self, places: int = 1) -> None:
        """Nothing came of them."""
        self._reserved = max(self._reserved - places, 0)  # those of a former event loop are not counted any more

    def reset(self) -> None:
        """Another event loop goes on with it: nothing of the former one is under way any more."""
        self._lock, self._reserved, self._counted_at = asyncio.Lock(), 0, None

    def invalidate(self) -> None:
        """Letters were opened or closed here, nobody knows how many: count again before the next one."""
        self._counted_at = None

    def decrement(self, places: int = 1) -> None:
        """Letters were closed here."""
        self._known = max(self._known - places, 0)

    @property
    def _taken(self) -> int:
        return self._known + self._reserved

    def _is_fresh(self, seconds: float) -> bool:
        return self._counted_at is not None and self._clock.monotonic() - self._counted_at <= seconds

    async def _recount(self, older_than_seconds: float) -> None:
        async with self._lock:
            if self._is_fresh(older_than_seconds):  # somebody else counted while we waited
                return
            now = self._clock.monotonic()
            self._committed_meanwhile = 0
            counted = await self._count()
            # A letter stored during the count may be in it or not: never let in one too many.
            self._known = counted + self._committed_meanwhile
            self._counted_at = now

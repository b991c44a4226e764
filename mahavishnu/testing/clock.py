"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

from mahavishnu.model.clock import instant

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A `mahavishnu.model.clock.Clock` for tests: time passes only in `advance`, at once and exactly.

    Who sleeps on it wakes in the order of the wake-up times, and of going to sleep where those are equal.

    >>> clock = ManualClock()
    >>> clock.advance(90)
    >>> clock.now().isoformat(), clock.monotonic()
    ('2026-01-01T00:01:30+00:00', 90.0)
    """

    def __init__(self, start: datetime = START) -> None:
        """Raises InvalidInput if `start` has no time zone."""
        instant(start)
        self._wall = start.astimezone(UTC)
        self._passed = timedelta()  # exact, unlike a sum of floats
        self._order = count()
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """The wall clock, cut to whole milliseconds as any other."""
        return instant(self._wall)

    def monotonic(self) -> float:
        """Seconds that were advanced since the clock was made."""
        return self._passed.total_seconds()

    def advance(self, seconds: float | timedelta = 0, *, minutes: float = 0, hours: float = 0) -> None:
        """Let time pass on both clocks, and wake those whose time has come; they run when the caller next awaits.

        Raises ValueError for time that goes back: only the wall clock can, see `set`.
        """
        step = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        step += timedelta(minutes=minutes, hours=hours)
        if step < timedelta(0):
            raise ValueError(f"time cannot pass by {step}; use set() for a wall clock that jumps back")
        self._wall += step
        self._passed += step
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            _, _, sleeper = heapq.heappop(self._sleepers)
            if not sleeper.done():
                sleeper.set_result(None)

    def set(self, now: datetime) -> None:
        """Make the wall clock jump, forwards or back. No time passes: nobody wakes, `monotonic` stays.

        Raises InvalidInput if `now` has no time zone.
        """
        instant(now)
        self._wall = now.astimezone(UTC)

    async def sleep(self, seconds: float) -> None:
        """Return after the clock was advanced by `seconds`. Zero or less only lets others run."""
        if seconds <= 0:
            await turn()
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self._passed + timedelta(seconds=seconds), next(self._order), sleeper)
        heapq.heappush(self._sleepers, entry)
        self._tell_watchers()
        try:
            await sleeper
        finally:
            if entry in self._sleepers:  # cancelled
                self._sleepers.remove(entry)
                heapq.heapify(self._sleepers)

    async def sleeping(self, sleepers: int = 1) -> float:
        """Return as soon as at least so many sleep on this clock: the seconds until the first of them wakes.

        So a test waits for a loop to have come to rest before it advances the clock, or looks at what was done.
        """
        while len(self._sleepers) < max(1, sleepers):
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((sleepers, watcher))
            try:
                await watcher
            finally:
                self._watchers = [each for each in self._watchers if each[1] is not watcher]
        return (self._sleepers[0][0] - self._passed).total_seconds()

    @property
    def sleepers(self) -> int:
        """How many sleep on this clock right now."""
        return len(self._sleepers)

    def _tell_watchers(self) -> None:
        for wanted, watcher in self._watchers:
            if len(self._sleepers) >= wanted and not watcher.done():
                watcher.set_result(None)

    def __repr__(self) -> str:
        return f"ManualClock({self.now().isoformat()}, {self.sleepers} sleeping)"


async def turn() -> None:
    """Let every other task that is ready run until it next waits for something."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_soon(passed.set_result, None)
    await passed

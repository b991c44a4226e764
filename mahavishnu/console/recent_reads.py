"""Reads for many viewers: done once for all of them, shown for a few seconds, and renewed while they are watched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from mahavishnu.http.middleware import retrieve_exception
from mahavishnu.model.clock import Clock, SystemClock
from mahavishnu.model.errors import MahavishnuError

R = TypeVar("R")
D = TypeVar("D")
RENEWED_AFTER = 2.0  # seconds
AFTER_CHANGES = 1.0  # so long an answer lasts where a change is known: many come at once
LASTS = 5.0  # after which it is not shown any more
RESTS = 10  # times as long as a read took, the next one waits: workers need the store more than viewers
MOST_PAGES = 20  # texts for one answer: of people with different names
MOST_KEPT = 100  # answers


@dataclass(frozen=True, slots=True)
class Recent(Generic[R]):
    """Answer of a read, and the time when the reading began: it is true as of then."""

    value: R
    at: datetime
    began: float = 0.0  #: on the clock that says how old it is
    took: float = 0.0  #: seconds
    pages: list[tuple[Any, str]] = field(default_factory=list, compare=False)  #: texts of pages that show it
    _derived: dict[Any, Any] = field(default_factory=dict, compare=False)

    def derive(self, make: Callable[[Recent[R]], D]) -> D:
        """Return what `make` makes of it: made once for all callers."""
        if make not in self._derived:
            self._derived[make] = make(self)
        found: D = self._derived[make]
        return found

    def beside(self, *others: Recent[Any]) -> Recent[R]:
        """Return this answer for a page that shows others too: as old as the oldest, with texts of all these."""
        texts: list[tuple[Any, str]] = self._derived.setdefault(tuple(each.began for each in others), [])
        return replace(self, at=min(self.at, *(each.at for each in others)), pages=texts)

    def text(self, frame: Any, render: Callable[[], str]) -> str:
        """The text of the page that shows this within the frame: made once for equal frames."""
        for other, text in self.pages:
            if other == frame:
                return text
        text = render()
        if len(self.pages) < MOST_PAGES:
            self.pages.append((frame, text))
        return text


class _Reading(NamedTuple):
    """A read that is under way."""

    began: float
    task: asyncio.Task[Recent[Any]]


class RecentReads:
    """Answers of reads that cost the store much, each shared by all callers that ask for the same.

    After two seconds an answer is renewed in the background; after five it is not given any more, and callers wait. A
    slow read is renewed later, so that reading takes a tenth of the time at most.
    """

    def __init__(self, clock: Clock, pace: Clock | None = None) -> None:
        """Keep answers. `pace` says how old they are; the clock of the letters may tell another time."""
        self._clock, self._pace = clock, pace or SystemClock()
        self._kept: dict[Hashable, Recent[Any]] = {}
        self._reading: dict[Hashable, _Reading] = {}
        self._changed_at = float("-inf")

    def now(self) -> float:
        """This moment, on the clock that says how old answers are."""
        return self._pace.monotonic()

    async def get(self, key: Hashable, read: Callable[[], Awaitable[R]], since: float = float("-inf")) -> Recent[R]:
        """Return a recent answer under this key, from `since` on, or that of `read`. Raises its error without one."""
        now = self._pace.monotonic()
        kept = self._find(key, now, since)
        if kept is not None and now - kept.began < _pause(kept, RENEWED_AFTER):
            return kept
        reading = self._reading.get(key)
        if reading is None or reading.began < since:
            reading = self._reading[key] = _Reading(now, asyncio.ensure_future(self._read(key, read)))
            reading.task.add_done_callback(retrieve_exception)
        return kept if kept is not None else await asyncio.shield(reading.task)

    def peek(self, key: Hashable, since: float = float("-inf")) -> Recent[Any] | None:
        """Return what `get` would give at once, and not renew; otherwise None."""
        now = self._pace.monotonic()
        kept = self._find(key, now, since)
        return kept if kept is not None and now - kept.began < _pause(kept, RENEWED_AFTER) else None

    def _find(self, key: Hashable, now: float, since: float) -> Recent[Any] | None:
        """Return what may still be shown under this key. The oldest answers are dropped, if they are too old."""
        while self._kept and now - next(iter(self._kept.values())).began >= LASTS:
            del self._kept[next(iter(self._kept))]
        kept = self._kept.get(key)
        if kept is None or now - kept.began >= LASTS or kept.began < since:
            return None
        changed = kept.began <= self._changed_at
        return None if changed and now - kept.began >= _pause(kept, AFTER_CHANGES) else kept

    def outdate(self) -> None:
        """Note a change, here or elsewhere: earlier answers are shown for a second, and then no more."""
        self._changed_at = self._pace.monotonic()

    def forget(self) -> None:
        """Note a change made here, so that the next page shows it: reads that began before do not count."""
        self._kept.clear()
        self._reading.clear()  # they go on for those who wait already

    async def _read(self, key: Hashable, read: Callable[[], Awaitable[R]]) -> Recent[R]:
        at, began, me = self._clock.now(), self._pace.monotonic(), asyncio.current_task()
        try:
            value = await read()
            found = Recent(value, at, began, self._pace.monotonic() - began)
            if self._is_wanted(key, me):
                self._kept.pop(key, None)
                self._kept[key] = found
                while len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
            return found
        finally:
            if self._is_wanted(key, me):
                del self._reading[key]

    def _is_wanted(self, key: Hashable, task: asyncio.Task[Any] | None) -> bool:
        """Return True if the answer of this read is kept, and not one that began later."""
        reading = self._reading.get(key)
        return reading is not None and reading.task is task


def _pause(kept: Recent[Any], least: float) -> float:
    """Return the time from one reading to the next, short enough to have the next answer before this one is old."""
    return max(least, min(RESTS * kept.took, LASTS - 2 * kept.took))


async def read_or_none(read: Awaitable[R]) -> R | None:
    """Return the result of a read; None if it fails: one part of a page must not take the others along."""
    try:
        return await read
    except MahavishnuError:
        return None

"""The due letters of one worker's share, and of what others have left lying: looked up many at a time."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import SOONEST_FIRST, Query, Sort, letters
from mahavishnu.stores.base import Collection

log = logging.getLogger(__name__)
_AT_ONCE = 2000  # due letters looked up at once
_OLDEST_EVERY = 4  # every so many look-ups go by age alone, so that low priority is not starved
_LEFT_LYING_SECONDS = 10.0  # after which letters of other workers' shares are anybody's
_HELPED = 100  # of which so many are taken at once: their worker may live, and has found them too


class DueLetters:
    """Finds due letters and hands them out one by one. `shares` are the partitions to look after, its own first."""

    def __init__(self, collection: Collection[DeadLetter], shares: Callable[[], Sequence[range]]) -> None:
        self._letters = collection
        self._partitions = shares
        self._found: deque[DeadLetter] = deque()
        self._was_all = False
        self._lookups = 0

    @property
    def has_more(self) -> bool:
        """Whether the last look at the queue found more than was handed out since."""
        return bool(self._found) or not self._was_all

    async def fetch(self, now: datetime) -> None:
        """Look at the queue, unless something is left of the last look. Raises StoreError."""
        if not self._found:
            self._found.extend(await self._due(now))

    def pop(self) -> DeadLetter | None:
        """One of those that were found; None when they are used up."""
        return self._found.popleft() if self._found else None

    def expect_more(self) -> None:
        """A letter that was handed out is still due: the next look will find it."""
        self._was_all = False

    def clear(self) -> None:
        """What was found is no longer true: the next look begins anew."""
        self._found.clear()
        self._was_all = False

    async def _due(self, now: datetime) -> Sequence[DeadLetter]:
        self._lookups += 1
        sort = (Sort("due_at"),) if self._lookups % _OLDEST_EVERY == 0 else SOONEST_FIRST
        mine, *others = self._partitions()
        if not others:
            return await self._find(letters(due=now, sort=sort, limit=_AT_ONCE))
        found = await self._find(letters(due=now, partitions=mine, sort=sort, limit=_AT_ONCE))
        # Who has nothing to do helps with what others have left lying: they may be gone.
        overdue = now - timedelta(seconds=_LEFT_LYING_SECONDS)
        while not found and others:
            found = await self._find(letters(due=overdue, partitions=others.pop(0), sort=sort, limit=_HELPED))
        self._was_all = not found  # otherwise there may be more in other shares
        return found

    async def _find(self, query: Query) -> Sequence[DeadLetter]:
        page = await self._letters.find(query)
        self._was_all = len(page.items) < query.limit
        for problem in page.corrupt:
            log.error("a due letter cannot be read and is left alone: %s", problem)
        return page.items

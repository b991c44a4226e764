"""Numbers by hour, for charts: what came in, succeeded, failed again and was given up, counted by the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import DeadLetterStatus, RequeueOutcome
from mahavishnu.model.query import Between, Condition, Is, Not, Query
from mahavishnu.stores.base import Collection

if TYPE_CHECKING:
    from mahavishnu.engine.context import QueueContext

HOURS, MOST_HOURS = 24, 72
_HOUR = timedelta(hours=1)
_KEPT = timedelta(seconds=30)  # so long the same numbers are shown again
_AT_ONCE = 8  # counts that are asked for at the same time: who works on letters comes first
_FAILED_AGAIN: tuple[Condition, ...] = (
    Not(Is("status", (DeadLetterStatus.COMPLETED.value, DeadLetterStatus.RETRYING.value))),
    Not(Is("requeue_outcome", (RequeueOutcome.IN_FLIGHT.value,))),  # sent back: no run has ended since
)
NOT_KNOWN = (
    "a letter counts once in each column: failed again in the hour in which its latest retry began, exhausted in that "
    "in which its retries were used up last; what happened to it before that, and is not so any more, is not counted",
    "letters that have left for the archive, and those deleted so long ago that they are in sums by day only, "
    "are in no hour",
)


@dataclass(frozen=True, slots=True)
class HourCounts:
    """The numbers of one hour, which begins at `start`; the last one goes on."""

    start: datetime
    arrived: int
    completed: int
    failed_again: int
    exhausted: int


@dataclass(frozen=True, slots=True)
class Trend:
    """Numbers by hour, the oldest first; `not_known` says, in words, what they leave out, and `degraded` why some may
    be missing now.
    """

    hours: tuple[HourCounts, ...]
    counted_at: datetime
    not_known: tuple[str, ...] = NOT_KNOWN
    degraded: str | None = None


class Trends:
    """Numbers by hour of one namespace, or of all."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context
        self._latest: dict[int, Trend] = {}

    async def by_hour(self, hours: int = HOURS) -> Trend:
        """Letters that came in, succeeded, failed again and were exhausted, in each of the last `hours` of UTC.

        The store counts; numbers of the last half minute are shown again. Raises InvalidInput and StoreError.

        >>> (await dlq.trends.by_hour()).hours[-1].arrived  # doctest: +SKIP
        12
        """
        if type(hours) is not int or not 1 <= hours <= MOST_HOURS:
            raise InvalidInput(f"hours must be a whole number from 1 to {MOST_HOURS}, not {hours!r:.80}")
        now = self._context.clock.now()
        latest = self._latest.get(hours)
        if latest is None or not timedelta() <= now - latest.counted_at < _KEPT:
            await self._context.open()
            latest = self._latest[hours] = await self._count(now, hours)
        return latest

    async def _count(self, now: datetime, hours: int) -> Trend:
        last = now.replace(minute=0, second=0, microsecond=0)
        starts = [last - _HOUR * ago for ago in reversed(range(hours))]
        letters, history = self._context.letters, self._context.history
        limit = asyncio.Semaphore(_AT_ONCE)
        degraded: list[str] = []

        async def count(kept: Collection, start: datetime, field: str, where: Sequence[Condition]) -> int:  # type: ignore[type-arg]
            async with limit:
                tally = await kept.tally(Query((Between(field, at_least=start, below=start + _HOUR), *where)))
            degraded.extend(filter(None, [tally.degraded]))
            return tally.total.count

        async def count_all(start: datetime) -> HourCounts:
            # Tombstones too: that a letter came in stays true when it is deleted.
            arrived, former, completed, former_completed, failed_again, exhausted = await asyncio.gather(
                count(letters.with_deleted, start, "created_at", ()),
                count(history, start, "created_at", ()),
                count(letters, start, "completed_at", ()),
                count(history, start, "completed_at", ()),
                count(letters, start, "last_retry_at", _FAILED_AGAIN),
                count(letters, start, "exhausted_at", ()),
            )
            return HourCounts(start, arrived + former, completed + former_completed, failed_again, exhausted)

        counted = await asyncio.gather(*map(count_all, starts))
        return Trend(tuple(counted), now, degraded=degraded[0] if degraded else None)

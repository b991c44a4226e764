"""Numbers by hour, for charts: what came in, succeeded, failed again and was given up, counted by the store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import DeadLetterStatus, RequeueOutcome
from mahavishnu.model.query import Condition, Is, Not, Query
from mahavishnu.stores.base import Buckets, Collection, Histogram

if TYPE_CHECKING:
    from mahavishnu.engine.context import QueueContext

HOURS, MOST_HOURS = 24, 72
_HOUR = timedelta(hours=1)
_KEPT = timedelta(seconds=30)  # so long the same numbers are shown again
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
        first = now.replace(minute=0, second=0, microsecond=0) - _HOUR * (hours - 1)
        letters, history = self._context.letters, self._context.history

        async def count(kept: Collection[Any], field: str, where: tuple[Condition, ...] = ()) -> Histogram:
            return await kept.histogram(Query(where), Buckets(field, first, _HOUR, hours))

        # Tombstones too: that a letter came in stays true when it is deleted.
        arrived, former, completed, former_completed, failed_again, exhausted = counted = await asyncio.gather(
            count(letters.with_deleted, "created_at"),
            count(history, "created_at"),
            count(letters, "completed_at"),
            count(history, "completed_at"),
            count(letters, "last_retry_at", _FAILED_AGAIN),
            count(letters, "exhausted_at"),
        )
        columns = (arrived.plus(former), completed.plus(former_completed), failed_again, exhausted)
        starts = [first + _HOUR * number for number in range(hours)]
        lines = zip(starts, *(each.counts for each in columns), strict=True)
        degraded = next((each.degraded for each in counted if each.degraded), None)
        return Trend(tuple(HourCounts(*line) for line in lines), now, degraded=degraded)

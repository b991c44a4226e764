"""Requests with an idempotency key: done once, answered as often as they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.model.clock import Clock
from mahavishnu.model.query import Between, Query
from mahavishnu.model.record import Version, Versioned
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import Collection, get_one, write_one, write_with_retry
from mahavishnu.stores.kind import BLOB
from mahavishnu.stores.record_codec import record_kind

__all__ = ["REPLIES", "Replies", "Reply"]
KEPT = timedelta(days=1)
_CLEAN_SECONDS = 3600.0


class Replies:
    """Answers of the last time, by default a day, in the store: also another process gives them again.

    One that has begun and not ended stays so for that time, also if its server is known to be gone: it may have had its
    effect, and a person has to look before it is done again.
    """

    NEEDS = "work"

    @classmethod
    def for_queue(cls, queue: LetterQueue) -> Replies:
        """Return the replies in the queue's store; they are kept as long as its retention says."""
        context = queue.context

        def retention() -> timedelta:
            return timedelta(days=context.rules(RetentionRules).replies_days)

        return cls(context.store.collection(REPLIES), context.clock, retention)

    def __init__(self, replies: Collection[Reply], clock: Clock, kept: Callable[[], timedelta] = lambda: KEPT) -> None:
        self._replies, self._clock, self._kept = replies, clock, kept

    async def begin(self, key: str, asked: str) -> Reply | None:
        """Note the request. Returns None for a new one, which has to go on; else what is known of the first time."""
        fresh = Reply(key, asked, self._clock.now())

        def replace_old(former: Reply | None) -> Reply | None:
            if former is not None and former.at + self._kept() > self._clock.now():
                return None
            return replace(fresh, version=former.version if former else None)  # one too old to count is replaced

        what = "the reply to request"
        former, written = await write_with_retry(self._replies, key, replace_old, what=what, known=None)
        return former if written is None else None

    async def finish(self, key: str, status: int, headers: str, body: str) -> None:
        """Note the answer to the request."""
        begun = await get_one(self._replies, key)
        if begun is not None and begun.status is None:
            await write_one(self._replies, replace(begun, status=status, headers=headers, body=body))

    async def forget(self, key: str) -> None:
        """Forget a request that had no effect: it may be tried again."""
        begun = await get_one(self._replies, key)
        if begun is not None and begun.status is None:
            await self._replies.remove([begun])

    async def clean(self) -> None:
        """Drop answers that are older than that time."""
        while True:
            page = await self._replies.find(Query((Between("at", below=self._clock.now() - self._kept()),)))
            if not page.items or True not in await self._replies.remove(page.items):
                return


class Reply(Versioned, frozen=True):
    """The answer to repeat for an idempotency key; without a `status` the first request has only begun."""

    key: str
    asked: str  #: a digest of the request
    at: datetime
    status: int | None = None
    headers: str = "{}"
    body: str = ""
    version: Version | None = None


REPLIES = record_kind(Reply, name="replies", index="dlq_replies", types={"headers": BLOB, "body": BLOB})


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of replies."""
    return (PeriodicTask("removal of old replies", queue.service(Replies).clean, lambda: _CLEAN_SECONDS),)

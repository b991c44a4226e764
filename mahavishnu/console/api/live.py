"""What changes, as it changes: server-sent events for live views.

The store is asked, not only this process: letters change in workers, and runs in others. Everybody who listens shares
one look at the store; a look comes at once after something has happened here, and every second otherwise.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import StreamingResponse

from mahavishnu.console.api.access import Queue, Viewer
from mahavishnu.console.api.reading import plain
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.clock import SystemClock, instant_text
from mahavishnu.model.errors import StoreError
from mahavishnu.model.query import Between, Query, Sort
from mahavishnu.stores.base import Collection
from mahavishnu.stores.codec import LETTERS
from mahavishnu.stores.groups import GROUPS
from mahavishnu.stores.runs import RUNS

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
QUIET_SECONDS = 15.0  # after which a comment shows that the line is open
_BEHIND = timedelta(seconds=5)  # clocks of other machines may be behind, and their writes visible later
_MOST = 500  # changes told in one look; beyond that, one is told to read anew
_WAITING = 2000  # events kept for a slow listener
_REMEMBERED = 10_000
_LETTER = ("task_id", "namespace", "queue", "entry_id", "status", "error_category", "fingerprint", "retry_count",
           "priority", "updated_at")  # fmt: skip
_RUN = ("run_id", "verb", "state", "counts", "halted_because", "updated_at")
_GROUP = ("fingerprint", "state", "owner", "updated_at")
router = APIRouter(tags=["live"])

Told = tuple[str, str, dict[str, Any]]  # the event's id, its name, its data


class Live:
    """Looks at the store while somebody listens, and tells every listener."""

    def __init__(self, dlq: DeadLetterQueue) -> None:
        self._dlq = dlq
        self._listeners: set[asyncio.Queue[Told | None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._happened = asyncio.Event()
        self._seen: OrderedDict[tuple[str, str, Any], None] = OrderedDict()

    async def listen(self, since: datetime | None) -> AsyncIterator[Told | None]:
        """Everything from now on, or from `since`; None now and then while nothing happens."""
        queue: asyncio.Queue[Told | None] = asyncio.Queue(_WAITING)
        if since is not None:
            for told in await self._changed(since, remember=False):
                queue.put_nowait(told)
        self._listeners.add(queue)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(self._dlq.clock.now()))
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.discard(queue)
            if not self._listeners and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def close(self) -> None:
        """Tell nobody anything any more."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self, since: datetime) -> None:
        stop = self._dlq.listen(lambda event: self._happened.set())
        quiet = 0.0
        try:
            while True:
                self._happened.clear()
                began = self._dlq.clock.now()
                try:
                    changes = await self._changed(since - _BEHIND, remember=True)
                    since = began
                except StoreError as problem:
                    changes = [(instant_text(began), "degraded", {"detail": "the store cannot be reached"})]
                    log.warning("live views cannot look at the store: %s", problem)
                for told in changes:
                    self._tell(told)
                quiet = 0.0 if changes else quiet + LOOK_SECONDS
                if quiet >= QUIET_SECONDS:
                    quiet = 0.0
                    self._tell(None)
                await self._rest()
        finally:
            stop()

    async def _rest(self) -> None:
        """A moment, so that a busy queue is not looked at all the time; then until something happens, or a while."""
        clock = SystemClock()  # for people who look on, whatever time letters live in
        await clock.sleep(LOOK_SECONDS / 5)
        waits = {asyncio.ensure_future(self._happened.wait()), asyncio.ensure_future(clock.sleep(LOOK_SECONDS))}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _changed(self, since: datetime, *, remember: bool) -> list[Told]:
        changes: list[Told] = []
        store = self._dlq.store
        for name, collection, shown in (
            ("letter", store.collection(LETTERS), _LETTER),
            ("run", store.collection(RUNS), _RUN),
            ("group", store.collection(GROUPS), _GROUP),
        ):
            changes += await self._of(name, collection, shown, since, remember)
        return sorted(changes, key=lambda told: told[0])

    async def _of(
        self, name: str, collection: Collection[Any], shown: tuple[str, ...], since: datetime, remember: bool
    ) -> list[Told]:
        query = Query((Between("updated_at", at_least=since),), (Sort("updated_at"),), _MOST)
        page = await collection.find(query)
        told: list[Told] = []
        for record in page.items:
            mark = (name, record.key, record.updated_at)
            if remember and mark in self._seen:
                continue
            self._remember(mark)
            told.append((instant_text(record.updated_at), name, {each: plain(getattr(record, each)) for each in shown}))
        if page.next is not None:
            told.append((told[-1][0] if told else instant_text(since), "many", {"of": name}))
        return told

    def _remember(self, mark: tuple[str, str, Any]) -> None:
        self._seen[mark] = None
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _tell(self, told: Told | None) -> None:
        for queue in list(self._listeners):
            if queue.full():  # too slow: it reads anew
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait((told[0] if told else "", "many", {"of": "everything"}))
            queue.put_nowait(told)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}},
    summary="What changes, as it changes",
)
async def events(
    request: Request, dlq: Queue, actor: Viewer, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> StreamingResponse:
    """Events `letter`, `run` and `group` with the record in short; `many`: too much has changed, read the list again.

    `degraded`: the store cannot be reached. With Last-Event-ID it goes on from there.
    """
    live: Live = request.app.state.live
    since = None
    if last_event_id:
        try:
            since = datetime.fromisoformat(last_event_id)
        except ValueError:
            since = None  # an id that is not ours: from now on
        if since is not None and since.tzinfo is None:
            since = None
    await dlq.open()
    return StreamingResponse(_written(live.listen(since)), media_type="text/event-stream", headers=_UNBUFFERED)


_UNBUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def _written(told: AsyncIterator[Told | None]) -> AsyncIterator[str]:
    yield ": open\n\n"
    async for each in told:
        if each is None:
            yield ": still here\n\n"
        else:
            identity, name, data = each
            yield f"id: {identity}\nevent: {name}\ndata: {json.dumps(data)}\n\n"

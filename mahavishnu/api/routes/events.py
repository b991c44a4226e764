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

from mahavishnu.api.auth import Queue, Viewer
from mahavishnu.api.responses import plain
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.clock import Clock, SystemClock, instant, instant_text
from mahavishnu.model.errors import InvalidInput, StoreError
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.query import Between, Query, Sort
from mahavishnu.stores.base import Page
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

Told = tuple[str, str, dict[str, Any]]  # the event's id (empty: the last one counts on), its name, its data
Seen = OrderedDict[tuple[str, str, Any], None]
ANEW: Told = ("", "many", {"of": "everything"})


class Live:
    """Looks at the store while somebody listens, and tells every listener."""

    def __init__(self, dlq: DeadLetterQueue, pace: Clock | None = None) -> None:
        """`pace` says how often it looks; it is not the clock of the letters, whose time may be another one."""
        self._dlq = dlq
        self._pace = pace or SystemClock()
        self._listeners: set[asyncio.Queue[Told | None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._happened = asyncio.Event()
        self._seen: Seen = OrderedDict()
        self._degraded: str | None = None
        self._cleared = False

    async def listen(self, since: datetime | None = None) -> AsyncIterator[Told | None]:
        """Everything from now on, or from shortly before `since`; None now and then while nothing happens.

        It ends when this is closed.
        """
        queue: asyncio.Queue[Told | None] = asyncio.Queue(_WAITING)
        self._listeners.add(queue)  # before the look back: what is told meanwhile comes after it
        try:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look(self._dlq.clock.now()))
            elif self._degraded is not None:
                yield _degraded(self._degraded)
            if since is not None:
                for told in await self._missed(since):
                    yield told
            while True:
                each = await queue.get()
                if each is _END:
                    return
                yield each
        finally:
            self._listeners.discard(queue)
            if not self._listeners:
                self._stop_looking()

    async def _missed(self, since: datetime) -> list[Told]:
        try:
            return (await self._changed(since - _BEHIND))[0]
        except StoreError as problem:
            log.warning("what somebody has missed cannot be told: %s", problem)
            return [ANEW]

    async def close(self) -> None:
        """Tell nobody anything any more: who listens is at the end."""
        self._tell(_END)
        self._stop_looking()

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._degraded = None

    async def _look(self, since: datetime) -> None:
        stop = self._dlq.listen(self._heard)
        quiet = 0.0
        try:
            while True:
                self._happened.clear()
                began = self._dlq.clock.now()
                try:
                    changes, degraded = await self._changed(since - _BEHIND, self._seen)
                    since = began
                except StoreError as problem:
                    changes, degraded = [], "the store cannot be reached"
                    if self._degraded is None:
                        log.warning("live views cannot look at the store: %s", problem)
                changes += self._besides(degraded)
                for told in changes:
                    self._tell(told)
                quiet = 0.0 if changes else quiet + LOOK_SECONDS
                if quiet >= QUIET_SECONDS:
                    quiet = 0.0
                    self._tell(None)
                await self._rest()
        except Exception:  # nobody else would notice: who listens comes back, and then it is looked again
            log.exception("live views have stopped looking")
            self._looking = None
            self._tell(_END)
        finally:
            stop()

    def _heard(self, event: Event) -> None:
        self._cleared |= event.name is EventName.CLEARED  # what is deleted is found by no look
        self._happened.set()

    def _besides(self, degraded: str | None) -> list[Told]:
        """What is to be told that no record says."""
        told: list[Told] = []
        if degraded is not None and self._degraded is None:
            told.append(_degraded(degraded))
        if self._cleared or (degraded is None and self._degraded is not None):  # others may have written meanwhile
            told.append(ANEW)
        self._degraded, self._cleared = degraded, False
        return told

    async def _rest(self) -> None:
        """A moment, so that a busy queue is not looked at all the time; then until something happens, or a while."""
        await self._pace.sleep(LOOK_SECONDS / 5)
        waits = {asyncio.ensure_future(self._happened.wait()), asyncio.ensure_future(self._pace.sleep(LOOK_SECONDS))}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _changed(self, since: datetime, seen: Seen | None = None) -> tuple[list[Told], str | None]:
        """What has changed, except for what is `seen`, and why some may be missing."""
        store, query = self._dlq.store, Query((Between("updated_at", at_least=since),), (Sort("updated_at"),), _MOST)
        letters = await store.collection(LETTERS).find(query)
        runs = await store.collection(RUNS).find(query)
        groups = await store.collection(GROUPS).find(query)  # all of them, before one counts as seen
        changes = _of("letter", letters, _LETTER, seen) + _of("run", runs, _RUN, seen)
        changes += _of("group", groups, _GROUP, seen)
        return sorted(changes, key=lambda told: told[0]), letters.degraded or runs.degraded or groups.degraded

    def _tell(self, told: Told | None) -> None:
        for queue in list(self._listeners):
            _put(queue, told)


_END: Told = ("", "end", {})


def _put(queue: asyncio.Queue[Told | None], told: Told | None) -> None:
    if queue.full():  # too slow: it reads anew
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(ANEW)
    queue.put_nowait(told)


def _degraded(why: str) -> Told:
    return "", "degraded", {"detail": why}


def _of(name: str, page: Page[Any], shown: tuple[str, ...], seen: Seen | None) -> list[Told]:
    told: list[Told] = []
    for record in page.items:
        mark = (name, record.key, record.version)  # two changes may have the same instant
        if seen is not None:
            if mark in seen:
                continue
            seen[mark] = None
            while len(seen) > _REMEMBERED:
                seen.popitem(last=False)
        told.append((instant_text(record.updated_at), name, {each: plain(getattr(record, each)) for each in shown}))
    if page.next is not None:
        told.append((told[-1][0] if told else "", "many", {"of": name}))
    return told


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}},
    summary="What changes, as it changes",
)
async def events(
    request: Request, dlq: Queue, actor: Viewer, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> StreamingResponse:
    """Events `letter`, `run` and `group` with the record in short; `many`: more has changed, read the list again.

    `degraded`: changes may be missing, until `many` tells that it is over. With Last-Event-ID it goes on shortly
    before that: a change may be told twice, and none is left out.
    """
    live: Live = request.app.state.live
    since = _instant_of(last_event_id)
    await dlq.open()
    return StreamingResponse(_written(live.listen(since)), media_type="text/event-stream", headers=_UNBUFFERED)


def _instant_of(event_id: str | None) -> datetime | None:
    """When the last event that was heard happened; None for an id that is not ours: from now on.

    >>> _instant_of("2026-01-01T00:00:00.000Z").year, _instant_of("7"), _instant_of("0001-01-01T00:00:00Z")
    (2026, None, None)
    """
    try:
        looked_from = instant(datetime.fromisoformat(event_id or "") - _BEHIND)  # in the year 1 there is none before
        return looked_from + _BEHIND
    except (ValueError, OverflowError, InvalidInput):
        return None


_UNBUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def _written(told: AsyncIterator[Told | None]) -> AsyncIterator[str]:
    yield ": open\n\n"
    async for each in told:
        if each is None:
            yield ": still here\n\n"
        else:
            identity, name, data = each
            head = f"id: {identity}\n" if identity else ""
            yield f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"

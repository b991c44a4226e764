"""Domain events and live changes over HTTP: stored events for consumers, and server-sent events for live views.

For live views the store is polled, because letters and runs also change in other processes. All listeners share one
poll; it comes at once after a change in this process, and every second otherwise.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field, StrictInt
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mahavishnu.bulk.records import RUNS
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.events.rules import EventPosition
from mahavishnu.events.service import DomainEvents
from mahavishnu.groups.records import GROUPS
from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, Viewer, require_role
from mahavishnu.http.responses import json_response, to_json
from mahavishnu.http.routing import Depends, Header, Router
from mahavishnu.http.routing import Query as Parameters
from mahavishnu.http.schemas import Name, NamespaceName, RequestModel, ResponseModel, fields_of
from mahavishnu.model.clock import Clock, SystemClock, instant, instant_text, wait_for
from mahavishnu.model.errors import InvalidInput, StoreError
from mahavishnu.model.events import DomainEvent, Event, EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.permissions import Scope
from mahavishnu.model.query import Between, Query, Sort
from mahavishnu.stores.base import Page

if TYPE_CHECKING:
    from mahavishnu.access.sessions import Sessions
    from mahavishnu.http.auth import Session


# --- stored events

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "acknowledging events"))]
router = Router(tag="domain_events", prefix="/domain-events")
_HIGHEST = 10**15 - 1  # the digits of a number in a key
Consumer = Annotated[str, Field(min_length=1, max_length=100)]


@fields_of(DomainEvent, "event_id name namespace created_at task_id step condition delivery_mode number")
class StoredEvent(ResponseModel):
    """A stored domain event. One that comes twice has the same `event_id`."""

    payload: Any


class StoredEvents(ResponseModel):
    """Events in their order. `next` is what to read after, and to acknowledge when all were dealt with."""

    events: list[StoredEvent]
    next: int
    has_more: bool


@fields_of(EventPosition, "consumer namespace number at")
class Position(ResponseModel):
    """The number up to which a consumer has acknowledged events."""


class EventsQuery(RequestModel):
    """The range of events: after a number, or without one after what the consumer has acknowledged."""

    consumer: Consumer | None = None
    after: Annotated[int, Field(ge=0, le=_HIGHEST)] | None = None
    name: Annotated[list[str] | None, Field(max_length=20)] = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    namespace: NamespaceName | None = None


class Acknowledgement(RequestModel):
    """The consumer has dealt with all events up to this number."""

    consumer: Name
    number: Annotated[StrictInt, Field(ge=0, le=_HIGHEST)]


@router.get("", response_model=StoredEvents, summary="Stored domain events, in their order", name="list")
async def list_events(dlq: OwnQueue, actor: Viewer, params: Annotated[EventsQuery, Parameters()]) -> Response:
    """List stored events. Nothing is acknowledged by it: a second read gets the same."""
    events = dlq.in_namespace(params.namespace or dlq.namespace).service(DomainEvents)
    page = await events.read(params.after, params.limit, consumer=params.consumer, names=params.name or "*")
    shown = [event.to_dict() for event in page.events]
    return json_response({"events": shown, "next": page.next, "has_more": page.has_more}, 200)


@router.post("/acknowledge", response_model=Position, summary="A consumer has dealt with events")
async def acknowledge(dlq: Queue, actor: Operator, body: Acknowledgement) -> Response:
    """Move a consumer's position. It never goes back: a lower number than before changes nothing."""
    position = await dlq.service(DomainEvents).acknowledge(body.consumer, body.number)
    answer = {name: getattr(position, name) for name in ("consumer", "namespace", "number")}
    return json_response(answer | {"at": position.at.isoformat()}, 200)


# --- live changes

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
KEEPALIVE_SECONDS = 15.0  # after which a comment shows that the connection is open
_CLOCK_SKEW = timedelta(seconds=5)  # clocks of other machines may be behind, and their writes visible later
_MAX_CHANGES = 200  # changes sent after one poll; if there are more, clients are told to read the lists again
_MAX_QUEUED = 20  # polls whose events are kept for a slow listener
_MAX_SEEN = 10_000
_MOST_OTHERS = 50  # namespaces beside the server's own that are polled at a time
_LETTER = ("task_id", "namespace", "queue", "adapter", "entry_id", "status", "error_category", "fingerprint",
           "retry_count", "priority", "updated_at")  # fmt: skip
_RUN = ("run_id", "namespace", "verb", "state", "counts", "halted_because", "updated_at")
_GROUP = ("fingerprint", "namespace", "state", "owner", "updated_at")
live_router = Router(tag="live")

_UNBUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
Seen = OrderedDict[tuple[str, str, Any], None]
EventId = Annotated[str, Field(max_length=100)]


class LiveEvent(NamedTuple):
    """One event for clients. With an empty id, the client goes on from the id before it."""

    id: str
    name: str
    data: dict[str, Any]


class LiveEvents:
    """The events of one poll, for all listeners; none to show that the connection is open."""

    def __init__(self, *events: LiveEvent) -> None:
        self.events = events
        self._texts: dict[tuple[Scope | None, bool], str] = {}

    def text(self, scope: Scope | None, brief: bool = False) -> str:
        """Return this scope's text, made once for all; `brief`: the latest event of each name, without its record."""
        if (scope, brief) not in self._texts:
            seen = [event for event in self.events if scope is None or _is_in(scope, event)]
            if brief:
                seen = [event._replace(data={}) for event in {event.name: event for event in seen}.values()]
            self._texts[scope, brief] = "".join(map(_as_sse, seen)) if self.events else ": still here\n\n"
        return self._texts[scope, brief]


READ_AGAIN = LiveEvent("", "many", {"of": "everything"})
_STILL_HERE, _END = LiveEvents(), LiveEvents()


class LiveFeed:
    """Polls the store while there are listeners, and sends changes to each of them."""

    def __init__(
        self, dlq: LetterQueue, pace: Clock | None = None, on_change: Callable[[], None] | None = None
    ) -> None:
        """`pace` times the polls; it is not the clock of the letters, whose time may be another one.

        `on_change` is called before listeners are told of changes.
        """
        self._on_change = on_change
        self._dlq = dlq
        self._pace = pace or SystemClock()
        self._others: dict[str, LiveFeed] = {}  # of other namespaces
        self._listeners: set[asyncio.Queue[LiveEvents]] = set()
        self._polling: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._seen: Seen = OrderedDict()
        self._degraded: str | None = None
        self._cleared = False

    def within(self, dlq: LetterQueue) -> LiveFeed:
        """Return the feed of this queue's namespace. Raises HTTPException where it would be one too many to poll."""
        if dlq.namespace == self._dlq.namespace:
            return self
        self._others = {name: feed for name, feed in self._others.items() if feed._listeners}
        if len(self._others) >= _MOST_OTHERS and dlq.namespace not in self._others:
            raise HTTPException(503, f"{_MOST_OTHERS} other namespaces are followed live now: close pages of some")
        return self._others.setdefault(dlq.namespace, LiveFeed(dlq, self._pace, self._on_change))

    async def listen(self, since: datetime | None = None) -> AsyncGenerator[LiveEvents]:
        """Yield events from now on, or from just before `since`, and empty ones between, until the feed is closed."""
        queue: asyncio.Queue[LiveEvents] = asyncio.Queue(_MAX_QUEUED)
        self._listeners.add(queue)  # before the missed events are read: what is published meanwhile comes after them
        try:
            if self._polling is None:
                self._polling = asyncio.create_task(self._poll(self._dlq.clock.now()))
            elif self._degraded is not None:
                yield LiveEvents(LiveEvent("", "degraded", {"detail": self._degraded}))
            if since is not None and (missed := await self._missed_events(since)):
                yield LiveEvents(*missed)
            while (events := await queue.get()) is not _END:
                yield events
        finally:
            self._listeners.discard(queue)
            if not self._listeners:
                self._stop_polling()

    async def _missed_events(self, since: datetime) -> list[LiveEvent]:
        try:
            return (await self._changes(since - _CLOCK_SKEW))[0]
        except StoreError as problem:
            log.warning("events that a client missed cannot be read: %s", problem)
            return [READ_AGAIN]

    async def close(self) -> None:
        """End the streams of all listeners, and stop polling."""
        self._publish(_END)
        self._stop_polling()
        for other in self._others.values():
            await other.close()

    def _stop_polling(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            self._polling = None
        self._degraded = None

    async def _poll(self, since: datetime) -> None:
        stop = self._dlq.context.events.subscribe(self._on_event)
        quiet = 0.0
        try:
            while True:
                self._wake.clear()
                began = self._dlq.clock.now()
                try:
                    changes, degraded = await self._changes(since - _CLOCK_SKEW, self._seen)
                    since = began
                except StoreError as problem:
                    changes, degraded = [], "the store cannot be reached"
                    if self._degraded is None:
                        log.warning("live views cannot read the store: %s", problem)
                changes += self._status_events(degraded)
                if changes:
                    if self._on_change is not None:
                        self._on_change()
                    self._publish(LiveEvents(*changes))
                quiet = 0.0 if changes else quiet + POLL_SECONDS
                if quiet >= KEEPALIVE_SECONDS:
                    quiet = 0.0
                    self._publish(_STILL_HERE)
                await self._wait_for_next_poll()
        except Exception:  # no caller awaits this task: clients whose streams end reconnect, which restarts it
            log.exception("live views have stopped polling")
            self._polling = None
            self._publish(_END)
        finally:
            stop()

    def _on_event(self, event: Event) -> None:
        self._cleared |= event.name is EventName.CLEARED  # no poll finds what was deleted
        self._wake.set()

    def _status_events(self, degraded: str | None) -> list[LiveEvent]:
        """Return events about the feed itself, which come from no record."""
        events: list[LiveEvent] = []
        if degraded is not None and self._degraded is None:
            events.append(LiveEvent("", "degraded", {"detail": degraded}))
        if self._cleared or (degraded is None and self._degraded is not None):  # others may have written meanwhile
            events.append(READ_AGAIN)
        self._degraded, self._cleared = degraded, False
        return events

    async def _wait_for_next_poll(self) -> None:
        """Wait a moment, so that a busy queue is not polled all the time; then for a change here, or a second."""
        await self._pace.sleep(POLL_SECONDS / 5)
        await wait_for(self._wake, self._pace, POLL_SECONDS)

    async def _changes(self, since: datetime, seen: Seen | None = None) -> tuple[list[LiveEvent], str | None]:
        """Return the changes that are not in `seen`, and why some may be missing."""
        context = self._dlq.context
        query = Query((Between("updated_at", at_least=since),), (Sort("updated_at"),), _MAX_CHANGES)
        letters = await context.letters.find(query)
        runs = await context.own_records(RUNS).find(query)
        groups = await context.own_records(GROUPS).find(query)  # all three are read before anything counts as seen
        changes = _events_of("letter", letters, _LETTER, seen) + _events_of("run", runs, _RUN, seen)
        changes += _events_of("group", groups, _GROUP, seen)
        return sorted(changes, key=lambda event: event.id), letters.degraded or runs.degraded or groups.degraded

    def _publish(self, events: LiveEvents) -> None:
        for queue in list(self._listeners):
            if queue.full():  # the client is too slow: it has to read the lists again
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(LiveEvents(READ_AGAIN))
            queue.put_nowait(events)


def _events_of(name: str, page: Page[Any], shown: tuple[str, ...], seen: Seen | None) -> list[LiveEvent]:
    events: list[LiveEvent] = []
    for record in page.items:
        mark = (name, record.key, record.version)  # two changes may have the same instant
        if seen is not None:
            if mark in seen:
                continue
            seen[mark] = None
            while len(seen) > _MAX_SEEN:
                seen.popitem(last=False)
        data = {field: to_json(getattr(record, field)) for field in shown}
        data["namespace"] = data["namespace"] or DEFAULT_NAMESPACE
        events.append(LiveEvent(instant_text(record.updated_at), name, data))
    if page.next is not None:
        events.append(LiveEvent(events[-1].id if events else "", "many", {"of": name}))
    return events


@live_router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}},
    summary="What changes, as it changes",
)
async def events(
    request: Request,
    dlq: Queue,
    actor: Viewer,
    last_event_id: Annotated[EventId | None, Header()] = None,
    brief: bool = False,
) -> StreamingResponse:
    """Stream events `letter`, `run` and `group` with the record in short; `many`: more has changed, read the list.

    `brief`: for clients that read the list again in any case. At most one event of each name at a time, without the
    record. `degraded`: changes may be missing, until `many` tells that it is over. With Last-Event-ID it goes on
    shortly before that: a change may be told twice, and none is left out.
    """
    home: LetterQueue = request.app.state.dlq
    live: LiveFeed = request.app.state.live.within(home.in_namespace(dlq.namespace))
    since = _instant_from_id(last_event_id)
    is_over: Callable[[], bool] | None = None
    session: Session | None = request.scope.get("session")
    if session is not None:
        sessions: Sessions = request.app.state.sessions
        is_over = partial(sessions.is_over, session)
    await dlq.open()
    texts = _texts(live.listen(since), dlq.context.scope, brief, is_over)
    return StreamingResponse(texts, media_type="text/event-stream", headers=_UNBUFFERED)


def _instant_from_id(event_id: str | None) -> datetime | None:
    """Return the time of the client's last event; None for an id that is not ours.

    >>> _instant_from_id("2026-01-01T00:00:00.000Z").year
    2026
    >>> _instant_from_id("7"), _instant_from_id("0001-01-01T00:00:00Z")
    (None, None)
    """
    try:
        start = instant(datetime.fromisoformat(event_id or "") - _CLOCK_SKEW)  # the year 1 has no such instant
        return start + _CLOCK_SKEW
    except (ValueError, OverflowError, InvalidInput):
        return None


def _is_in(scope: Scope, event: LiveEvent) -> bool:
    """Return whether the event is in the scope of a listener."""
    if "namespace" not in event.data:
        return True
    namespace = event.data["namespace"]
    if event.name != "letter":  # whose letters a group or a run is about, only their own namespace knows
        return scope.covers_whole(namespace)
    return scope.covers(namespace, event.data["queue"], event.data["adapter"])


async def _texts(
    polls: AsyncGenerator[LiveEvents], scope: Scope | None, brief: bool, is_over: Callable[[], bool] | None = None
) -> AsyncIterator[str]:
    """Yield the stream; it ends with the listener's login, and a client with another one comes again."""
    yield ": open\n\n"
    async with aclosing(polls):
        async for events in polls:
            if is_over is not None and is_over():
                return
            if text := events.text(scope, brief):
                yield text


def _as_sse(event: LiveEvent) -> str:
    head = f"id: {event.id}\n" if event.id else ""
    return f"{head}event: {event.name}\ndata: {json.dumps(event.data)}\n\n"

"""The sources of domain events: from changes as they are written, and again from records for events that were missed.

There is no second write beside the outcome. The outbox finds events that were not stored, because a process died or the
store was away, by what has changed: it makes them again of letters and tasks, with the same ids. Stored events are left
out; two processes that look at the same time may store one event twice.

A look goes back to where the former one ended. Letters that were kept locally come home with the dates that they had,
so the process that brings them home leaves a note of the earliest one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.event_bus import MOST_WAITING
from mahavishnu.events.log import EventLog
from mahavishnu.events.rules import (
    LATE,
    OUTBOX,
    TASK_EVENTS,
    EventRules,
    StepEvent,
    event_of,
    letter_events,
    letter_moments,
    names_of,
    task_events,
)
from mahavishnu.model.errors import ENDS, ItemFailed
from mahavishnu.model.events import DeliveryMode, DomainEvent, Event, EventName
from mahavishnu.model.letter import DeadLetter, is_item
from mahavishnu.model.query import Between, Query, Sort
from mahavishnu.stores.base import pages
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.scoped import NamespaceRecords
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.task import TaskRecord

log = logging.getLogger("mahavishnu.events")
_SOURCES_AT_ONCE = 100
SETTLE_SECONDS = 5.0  # within which an event is stored by who wrote the outcome
_LATE_SECONDS = 60.0  # that a write may take until everybody sees it, beside what clocks may differ
_AT_ONCE = 500
UNSTORED = "durable_events_dropped"


class EventSources:
    """Makes domain events of the queue's and tracked tasks' announcements, and gives them to those who want them.

    `wants` says whether subscribers here want events of a name, `tell` gives them one, `store` is awaited and has it
    stored, `drop` counts one that cannot be; none of them raises. Events are stored soon, one batch after the other, in
    the event loop that uses the store.
    """

    def __init__(
        self,
        context: QueueContext,
        wants: Callable[[str], bool],
        tell: Callable[[DomainEvent], object],
        store: Callable[[DomainEvent], Awaitable[object]],
        drop: Callable[[DomainEvent], object],
    ) -> None:
        self.declared: tuple[StepEvent, ...] = ()
        self._context, self._wants, self._tell, self._store, self._drop = context, wants, tell, store, drop
        self._waiting: deque[DomainEvent] = deque()
        self._storing: asyncio.Task[None] | None = None
        self._end: Callable[[], object] = lambda: None

    def listen(self) -> None:
        """Listen for wanted events and no others: an unwanted event costs nothing."""
        self._end()
        wanted = {name for name in EventName if any(map(self._is_wanted, names_of(name)))}
        self._end = self._context.events.subscribe(self._hear, wanted) if wanted else lambda: None
        are_tasks = bool(self.declared) or any(map(self._is_wanted, TASK_EVENTS))
        self._context.on_task_written = self._hear_task if are_tasks else None

    async def finish(self) -> None:
        """Return when earlier events are stored, or counted as dropped."""
        if self._waiting:
            self._begin()
        storing = self._storing
        if storing is not None and storing.get_loop() is asyncio.get_running_loop():
            await asyncio.wait({storing})

    def mode_of(self, event: DomainEvent) -> DeliveryMode:
        """Return the delivery mode of an event that was not published by hand."""
        if event.delivery_mode is DeliveryMode.FAST and self._context.rules(EventRules).is_durable(event.name):
            return DeliveryMode.BROADCAST
        return event.delivery_mode

    def _is_wanted(self, name: str) -> bool:
        return self._wants(name) or self._context.rules(EventRules).is_durable(name)

    def _hear(self, event: Event) -> None:
        self._pass_on(event_of(event, self._context.namespace))

    def _hear_task(self, after: int, task: TaskRecord) -> None:
        try:
            for event in task_events(task, self.declared, after=after):
                self._pass_on(event)
        except ENDS:
            raise
        except BaseException:  # what it tells of is done
            log.exception("the events of task %s were not published", task.task_id)

    def _pass_on(self, event: DomainEvent) -> None:
        event = replace(event, delivery_mode=self.mode_of(event))
        if event.delivery_mode is not DeliveryMode.DURABLE:
            self._tell(event)
        if event.delivery_mode is not DeliveryMode.FAST:
            self._store_soon(event)

    def _store_soon(self, event: DomainEvent) -> None:
        """Have it stored, from any thread."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(event)
            if self._context.session.call_at_home(self._begin):
                return
            with contextlib.suppress(ValueError):
                self._waiting.remove(event)
        self._drop(event)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._storing is None or self._storing.done() or self._storing.get_loop() is not loop:
            self._storing = asyncio.Task(self._store_all(), loop=loop, context=Context())

    async def _store_all(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_SOURCES_AT_ONCE, len(self._waiting)))]
            await asyncio.gather(*(self._store(event) for event in batch))


class Outbox:
    """Stores the events of one namespace that are missing."""

    def __init__(self, context: QueueContext, events: EventLog, sources: EventSources) -> None:
        self._context, self._log, self._sources = context, events, sources
        self.missed_since: datetime | None = None  # the earliest event that this process could not store

    async def publish_missed(self) -> int:
        """Store missing events of changes since the last look; return how many. After a StoreError, look again."""
        now = self._context.clock.now()
        until = now - timedelta(seconds=SETTLE_SECONDS)
        position = await self._log.position(OUTBOX)
        late = timedelta(seconds=_LATE_SECONDS) + 2 * self._context.limits.skew
        since = (until if position is None else position.at) - late
        missed, notes = self.missed_since, await self._log.notes(LATE)
        since = min([since, *(each.at for each in notes), *([] if missed is None else [missed])])
        count = 0
        batch: list[DomainEvent] = []
        async for event in self._events_since(since):
            if event.created_at > until:
                continue
            batch.append(event)
            if len(batch) == _AT_ONCE:
                count += await self._store_unknown(batch)
                batch = []
        count += await self._store_unknown(batch)
        await self._log.move(OUTBOX, 0, at=until)
        await self._log.positions.remove(notes)  # those that came meanwhile are for the next look
        if self.missed_since == missed:
            self.missed_since = None
        return count

    async def _events_since(self, since: datetime) -> AsyncIterator[DomainEvent]:
        """Yield the events to store, by the settings and by declarations for steps."""
        changed = Query((Between("updated_at", at_least=since),), (Sort("updated_at"),))
        async for letters in pages(self._context.letters, changed):
            for event in (event for letter in letters for event in letter_events(letter, since)):
                if self._sources.mode_of(event) is not DeliveryMode.FAST:
                    yield replace(event, delivery_mode=DeliveryMode.BROADCAST)
        tasks = NamespaceRecords(self._context.store.collection(TASKS), self._context.namespace)
        moved = Query((Between("moved_at", at_least=since),), (Sort("moved_at"),))
        async for found in pages(tasks, moved):
            for event in (each for task in found for each in task_events(task, self._sources.declared, since=since)):
                if (mode := self._sources.mode_of(event)) is not DeliveryMode.FAST:
                    yield replace(event, delivery_mode=mode)

    async def _store_unknown(self, events: list[DomainEvent]) -> int:
        if not events:
            return 0
        known = await self._log.known_ids([event.event_id for event in events])
        missing = [event for event in events if event.event_id not in known]
        count = 0
        for event in missing:
            try:
                await self._log.append(event)
                count += 1
            except ItemFailed as problem:  # it would be so the next time, and keep all others from being stored
                self._context.counts[UNSTORED] += 1
                log.warning("event %s (%s) cannot be stored: %s", event.name, event.event_id, problem)
        if count:
            log.info("%d events were stored that had been missed", count)
        return count


async def note_arrivals(context: QueueContext, kind: Kind[Any], records: Sequence[Any]) -> None:
    """Have the outbox look back to the events of these records, drained from a local store. Raises StoreError."""
    if kind not in (LETTERS, TASKS):
        return
    now, earliest = context.clock.now(), dict[str, datetime]()
    for each in records:
        if isinstance(each, DeadLetter):
            moments = [] if is_item(each) else list(letter_moments(each).values())
        else:
            moments = [move.at for move in each.transitions]
        if moments:
            namespace = each.namespace
            earliest[namespace] = min(earliest.get(namespace, now), *moments)
    for namespace, at in earliest.items():
        if at < now - timedelta(seconds=SETTLE_SECONDS):
            await EventLog(context.in_namespace(namespace)).note(LATE, at)

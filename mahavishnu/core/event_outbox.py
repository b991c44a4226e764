"""The outbox: finds events that nobody stored, because a process died or the store was away, by what has changed.

There is no second write beside the outcome: the records of letters and tasks are what the events are made of again,
with the same ids. What is stored already is left out; two who look at the same time may store one event twice.

A look goes back to where the former one ended. Letters that were kept locally come home with the dates that they had,
so whoever brings them home leaves a note of the earliest one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mahavishnu.core.event_sources import EventSources
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.event_log import EventLog
from mahavishnu.engine.letters import NamespaceRecords
from mahavishnu.model.derived_events import letter_events, letter_moments, task_events
from mahavishnu.model.domain_events import LATE, OUTBOX, DeliveryMode, DomainEvent
from mahavishnu.model.errors import ItemFailed
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Between, Query, Sort
from mahavishnu.queues.items import is_item
from mahavishnu.stores.base import pages
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.source_kinds import TASKS

log = logging.getLogger("mahavishnu.events")
SETTLE_SECONDS = 5.0  # within which an event is stored by who wrote the outcome
_LATE_SECONDS = 60.0  # that a write may take until everybody sees it, beside what clocks may differ
_AT_ONCE = 500
UNSTORED = "durable_events_dropped"


class Outbox:
    """Stores the events of one namespace that are missing."""

    def __init__(self, context: QueueContext, events: EventLog, sources: EventSources) -> None:
        self._context, self._log, self._sources = context, events, sources
        self.missed_since: datetime | None = None  # the earliest event that this process could not store

    async def publish_missed(self) -> int:
        """Store what is missing of the events of what has changed since the last look. Returns how many.

        Raises StoreError; then all of it is looked at again the next time.
        """
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
        """Those that are to be stored, by the settings and by what was declared for steps."""
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
    """Have the outbox look back as far as the events of these records, which come home from a local store. Raises
    StoreError.
    """
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

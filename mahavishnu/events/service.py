"""`app.events`: publish domain events, and hear them in this process or read them from the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.event_bus import QueuedListener
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.events.delivery import EventDelivery
from mahavishnu.events.log import EventLog
from mahavishnu.events.outbox import UNSTORED, EventSources, Outbox
from mahavishnu.events.rules import (
    EventPage,
    EventPosition,
    EventRules,
    Outcome,
    Publication,
    StepEvent,
    is_met,
    matches,
    require_consumer,
    require_event_name,
    require_member,
    require_text,
)
from mahavishnu.model.errors import InvalidInput, MahavishnuError
from mahavishnu.model.events import DeliveryMode, DomainEvent, PublicationCondition
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.json_value import EMPTY
from mahavishnu.model.query import require_namespace

log = logging.getLogger("mahavishnu.events")
EventListener = Callable[[DomainEvent], object]
_require_mode = partial(require_member, DeliveryMode, what="delivery mode")
_require_condition = partial(require_member, PublicationCondition, what="publication condition")
_OUTBOX_SECONDS, _DELIVERY_SECONDS, _REMOVAL_SECONDS = 30.0, 5.0, 3600.0


class DomainEvents:
    """The domain events of one namespace."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._clock = context, context.clock
        self._logs: dict[str, EventLog] = {}
        self._subscribers: list[tuple[QueuedListener, tuple[str, ...]]] = []
        self.sources = EventSources(context, self._is_wanted, self._tell, self._store, self._note_dropped)
        if context.is_itself:  # others only look, and are made for each request
            context.events.on_flush(self.finish)
            self.sources.listen()

    # --- publishing

    async def publish(
        self,
        name: str,
        payload: Any = None,
        *,
        mode: DeliveryMode | str = DeliveryMode.FAST,
        condition: PublicationCondition | str = PublicationCondition.ALWAYS,
        outcome: Outcome | str | None = None,
        task_id: str | None = None,
        step: str | None = None,
        event_id: str | None = None,
    ) -> Publication:
        """Tell subscribers here (`fast`), store it for consumers outside (`durable`), or both (`broadcast`).

        With an `outcome` nothing is published unless the condition is met. A store that does not take the event raises
        nothing: the answer says so, it is counted and logged. Raises InvalidInput for an invalid event, also for a
        payload of more bytes than `dlq_max_task_bytes`.
        """
        mode, condition = _require_mode(mode), _require_condition(condition)
        if not is_met(condition, None if outcome is None else require_member(Outcome, outcome, "outcome")):
            return Publication(None)
        now = self._clock.now()
        event = DomainEvent(
            require_text(event_id, "event_id") or new_entry_id(now),
            require_event_name(name),
            now,
            require_namespace(self._context.namespace),
            EMPTY if payload is None else self._context.letter_factory.json_of(payload, "payload", is_decrypted=False),
            mode,
            condition,
            require_text(task_id, "task_id"),
            require_text(step, "step"),
        )
        return await self.send(event)

    async def send(self, event: DomainEvent) -> Publication:
        """Publish an event that was made before."""
        await self._context.require("events.write", "events", event.namespace)
        told = event.delivery_mode is not DeliveryMode.DURABLE and self._tell(event)
        if event.delivery_mode is DeliveryMode.FAST:
            return Publication(event, told)
        return replace(await self._store(event), told=told)

    async def _store(self, event: DomainEvent) -> Publication:
        try:
            stored = await self._log_of(event.namespace).append(event)
        except Exception as problem:  # whatever the store raises: the work that the event tells of is done
            self._note_dropped(event, problem)
            return Publication(event, problem=str(problem) or type(problem).__name__)
        return Publication(replace(stored, version=None), stored=True)

    def _note_dropped(self, event: DomainEvent, problem: BaseException | None = None) -> None:
        self._context.counts[UNSTORED] += 1
        if self._context.rules(EventRules).durable_outbox:
            missed = self.outbox.missed_since
            self.outbox.missed_since = event.created_at if missed is None else min(missed, event.created_at)
        why = "nothing can be written now" if problem is None else str(problem) or type(problem).__name__
        log.warning(
            "event %s (%s) was not stored: %s", event.name, event.event_id, why,
            exc_info=None if isinstance(problem, MahavishnuError) else problem,
        )  # fmt: skip

    def log_of(self, namespace: str) -> EventLog:
        """Return the stored events of a namespace."""
        self._context.audit.require_now("work")
        return self._log_of(namespace)

    def _log_of(self, namespace: str) -> EventLog:
        if namespace not in self._logs:
            self._logs[namespace] = EventLog(self._context.in_namespace(namespace))
        return self._logs[namespace]

    @property
    def log(self) -> EventLog:
        """The stored events of this namespace."""
        return self.log_of(self._context.namespace)

    @property
    def _log(self) -> EventLog:
        return self._log_of(self._context.namespace)

    async def finish(self) -> None:
        """Return when earlier events are stored, or have failed."""
        await self.sources.finish()
        for each in list(self._logs.values()):
            await each.finish()

    # --- in this process

    def subscribe(self, listener: EventListener, names: str | Sequence[str] = "*") -> Callable[[], None]:
        """Have `listener(event)` called with events of these names, where `*` stands for anything, from now on.

        It has a thread of its own, or is awaited if it is a coroutine function; no caller waits for it. If it is too
        slow, events are dropped, counted and logged. Returns a function that ends it. Raises InvalidInput for a
        listener that cannot be called.
        """
        self._context.audit.require_now("work")
        if not callable(listener):
            raise InvalidInput(f"a listener is a function of an event, not {listener!r:.80}")
        wanted = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else (names,)
        if not all(isinstance(name, str) for name in wanted):
            raise InvalidInput(f"names of events are texts, which may have * in them, not {names!r:.80}")
        queued = self._context.events.queue(listener)
        subscriber = queued, wanted
        self._subscribers = [*self._subscribers, subscriber]
        self.sources.listen()

        def end() -> None:
            queued.is_wanted = False
            self._subscribers = [each for each in self._subscribers if each is not subscriber]
            self.sources.listen()

        return end

    def publish_on_step(
        self,
        step: str,
        name: str,
        condition: PublicationCondition | str = PublicationCondition.SUCCESS,
        mode: DeliveryMode | str = DeliveryMode.FAST,
        *,
        workflow: str = "*",
    ) -> None:
        """Publish an event of this name whenever a step of tracked workflows has ended so, after that was written.

        `step` and `workflow` may have `*` in them. Call it in every process that runs them. Raises InvalidInput.
        """
        self._context.audit.require_now("work")
        for pattern, what in ((step, "step"), (workflow, "workflow")):
            if not isinstance(pattern, str):
                raise InvalidInput(f"{what} is a name, which may have * in it, not {pattern!r:.80}")
        added = StepEvent(step, require_event_name(name), _require_condition(condition), _require_mode(mode), workflow)
        if added not in self.sources.declared:
            self.sources.declared += (added,)
        self.sources.listen()

    def _is_wanted(self, name: str) -> bool:
        return any(matches(name, names) for _, names in self._subscribers)

    def _tell(self, event: DomainEvent) -> bool:
        told = False
        for queued, names in self._subscribers:
            if matches(event.name, names):
                queued(event)
                told = True
        return told

    # --- outside

    async def read(
        self,
        after: int | None = None,
        limit: int = 100,
        *,
        consumer: str | None = None,
        names: str | Sequence[str] = "*",
    ) -> EventPage:
        """Return events of these `names` after a number or `consumer`'s position. Raises StoreError, InvalidInput."""
        await self._context.require("events.read", "events")
        await self._context.open()
        if after is None and consumer is not None:
            position = await self._log.position(require_consumer(consumer))
            after = 0 if position is None else position.number
        page = await self._log.read(after or 0, limit)
        wanted = (names,) if isinstance(names, str) else tuple(names)
        return replace(page, events=tuple(each for each in page.events if matches(each.name, wanted)))

    async def acknowledge(self, consumer: str, number: int) -> EventPosition:
        """Acknowledge all events up to this number for a consumer. Raises InvalidInput for an unknown number."""
        await self._context.require("events.write", f"consumer:{consumer}")
        await self._context.open()
        return await self._log.acknowledge(consumer, number)

    async def consumers(self) -> Sequence[EventPosition]:
        """Return the consumers that have acknowledged events, and up to which number."""
        await self._context.require("events.read", "events")
        return await self._log.consumers()

    async def forget(self, consumer: str) -> bool:
        """Forget a consumer that is gone, so that nothing is kept for it. False if it was not known."""
        await self._context.require("events.write", f"consumer:{consumer}")
        return await self._log.forget(consumer)

    async def remove_old(self) -> int:
        """Remove stored events that the settings no longer keep; a worker does it. Returns how many."""
        await self._context.require("work")
        return await self._log.remove_old()

    # --- what a worker does

    @cached_property
    def outbox(self) -> Outbox:
        """The outbox, which finds events that were never stored."""
        return Outbox(self._context, self.log, self.sources)

    @cached_property
    def delivery(self) -> EventDelivery:
        """The delivery of stored events to other systems."""
        return EventDelivery(self._context, self.log)

    async def publish_missed(self) -> int:
        """Store missing events and return how many; workers do so if the settings say (`events.durable_outbox`)."""
        await self._context.require("work")
        return await self.outbox.publish_missed()

    async def deliver(self) -> int:
        """Deliver new events to the webhook and to plugins; a worker does it. Returns how many."""
        await self._context.require("work")
        return await self.delivery.deliver()


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of domain events."""
    context = queue.context

    async def publish_missed_events() -> None:
        if context.rules(EventRules).durable_outbox:
            await queue.service(DomainEvents).publish_missed()

    async def deliver_events() -> None:
        if context.rules(EventRules).webhook_url or context.chain.plugins.steps("deliver"):
            await queue.service(DomainEvents).deliver()

    return (
        PeriodicTask("the outbox of events", publish_missed_events, lambda: _OUTBOX_SECONDS),
        PeriodicTask("the delivery of events", deliver_events, lambda: _DELIVERY_SECONDS),
        PeriodicTask(
            "removal of old events", lambda: queue.service(DomainEvents).remove_old(), lambda: _REMOVAL_SECONDS
        ),
    )

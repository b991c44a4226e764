"""What happens to letters, tasks and steps, as domain events: after it was written, and where somebody wants it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import replace

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.event_bus import MOST_WAITING
from mahavishnu.model.derived_events import TASK_EVENTS, StepEvent, event_of, names_of, task_events
from mahavishnu.model.domain_events import DeliveryMode, DomainEvent, EventRules
from mahavishnu.model.errors import ENDS
from mahavishnu.model.events import Event, EventName
from mahavishnu.tasks.task import TaskRecord

log = logging.getLogger("mahavishnu.events")
_AT_ONCE = 100


class EventSources:
    """Makes domain events of what the queue and tracked tasks announce, and gives them to those who want them.

    `wants` says whether subscribers here want events of a name, `tell` gives them one, `store` is awaited and has it
    stored, `drop` counts what cannot be; none of them raises.
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
        self._context, self._wants, self._tell = context, wants, tell
        self._later = LaterEvents(context, store, drop)
        self._end: Callable[[], object] = lambda: None

    def listen(self) -> None:
        """Hear of what somebody wants now, and of nothing else: what nobody wants costs nothing."""
        self._end()
        wanted = {name for name in EventName if any(map(self._is_wanted, names_of(name)))}
        self._end = self._context.events.subscribe(self._hear, wanted) if wanted else lambda: None
        are_tasks = bool(self.declared) or any(map(self._is_wanted, TASK_EVENTS))
        self._context.on_task_written = self._hear_task if are_tasks else None

    async def finish(self) -> None:
        """Return when what happened before is stored, or counted as dropped."""
        await self._later.finish()

    def mode_of(self, event: DomainEvent) -> DeliveryMode:
        """Where an event goes that nobody has published by hand."""
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
            self._later.add(event)


class LaterEvents:
    """Events that are stored soon, one after the other, in the event loop that uses the store; nobody waits for it."""

    def __init__(
        self,
        context: QueueContext,
        store: Callable[[DomainEvent], Awaitable[object]],
        drop: Callable[[DomainEvent], object],
    ) -> None:
        self._context, self._store, self._drop = context, store, drop
        self._waiting: deque[DomainEvent] = deque()
        self._storing: asyncio.Task[None] | None = None

    def add(self, event: DomainEvent) -> None:
        """Store it soon. From any thread; raises nothing."""
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
            batch = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
            await asyncio.gather(*(self._store(event) for event in batch))

    async def finish(self) -> None:
        """Return when all of them are stored, or counted as dropped."""
        if self._waiting:
            self._begin()
        storing = self._storing
        if storing is not None and storing.get_loop() is asyncio.get_running_loop():
            await asyncio.wait({storing})

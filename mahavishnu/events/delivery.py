"""Delivery of stored events to other systems: by a webhook, and by plugins, each a consumer with a position.

An event is delivered at least once and in order, by one process at a time. A failed delivery is tried again, for as
long as the event is kept; an event that its receiver refuses is logged, counted and passed by.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field
from tenacity import AsyncRetrying, retry_if_not_exception_type, stop_after_attempt, wait_exponential

from mahavishnu.classify.plugin_guard import ask_async
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.event_bus import contain
from mahavishnu.events.log import EventLog
from mahavishnu.events.rules import EventPosition, EventRules
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import DomainEvent
from mahavishnu.model.webhooks import SIGNATURE_HEADER, hide_addresses, sign

log = logging.getLogger("mahavishnu.events")
WEBHOOK = "webhook"
REFUSED = "events_refused"
_REFUSALS = frozenset({400, 413, 422})  # of this event; any other error may pass
_TRIES, _LONGEST_WAIT_SECONDS = 4, 10.0
_SECONDS = 10.0  # for one try
_PLUGIN_SECONDS = 9.0  # for a plugin that is no coroutine function: it is told from others that took too long
_HELD = timedelta(seconds=120)  # longer than all tries of one event take
_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 10.0, 300.0
_AT_ONCE = 100
Deliver = Callable[[DomainEvent], Awaitable[object]]


class _Rest(Struct):
    """The time until which an unreachable receiver is left alone."""

    seconds: float = 0.0
    until: datetime | None = field(default=None)


class _Hung(Exception):
    """A plugin did not come back. Its thread is left to it, so it is not tried again at once."""


class EventDelivery:
    """Delivers the stored events of one namespace to all configured receivers."""

    def __init__(self, context: QueueContext, events: EventLog) -> None:
        self._context, self._log, self._clock = context, events, context.clock
        self._rests: dict[str, _Rest] = {}

    def receivers(self) -> dict[str, Deliver]:
        """Return the current receivers of events, by the name of the consumer."""
        found: dict[str, Deliver] = {}
        rules = self._context.rules(EventRules)
        if rules.webhook_url:
            found[WEBHOOK] = Webhook(rules.webhook_url, rules.webhook_secret, self._clock.now)
        for step in self._context.chain.plugins.steps("deliver"):
            found[f"plugin:{step.name}"] = _as_deliver(step.call)
        return found

    async def deliver(self) -> int:
        """Deliver new events to all receivers, and return how many. Raises StoreError."""
        receivers = self.receivers()
        counts = await asyncio.gather(*(self._deliver_to(name, each) for name, each in receivers.items()))
        return sum(counts)

    async def _deliver_to(self, consumer: str, deliver: Deliver) -> int:
        rest, now = self._rests.setdefault(consumer, _Rest()), self._clock.now()
        if rest.until is not None and now < rest.until:
            return 0
        position, count = await self._hold(consumer), 0
        if position is None:
            return 0
        while True:
            page = await self._log.read(position.number, _AT_ONCE)
            for event in page.events:
                try:
                    await self._try(event, deliver)
                except InvalidInput as problem:
                    self._context.counts[REFUSED] += 1
                    log.warning("%s refused event %s (%s): %s", consumer, event.name, event.event_id, problem)
                except Exception as problem:
                    rest.seconds = min(rest.seconds * 2 or _FIRST_REST_SECONDS, _LONGEST_REST_SECONDS)
                    rest.until = self._clock.now() + timedelta(seconds=rest.seconds)
                    log.warning("%s did not take event %s, which is tried again: %s", consumer, event.event_id,
                                str(problem) or type(problem).__name__)  # fmt: skip
                    return count
                count += 1
                rest.seconds, rest.until = 0.0, None
                position = await self._log.move(consumer, event.number, held_until=self._clock.now() + _HELD)
                if position.holder != self._context.owner:  # it took so long that another process goes on
                    return count
            if page.next > position.number:
                position = await self._log.move(consumer, page.next)
            if not page.has_more:
                return count

    async def _try(self, event: DomainEvent, deliver: Deliver) -> None:
        async for attempt in AsyncRetrying(
            sleep=self._clock.sleep,
            stop=stop_after_attempt(_TRIES),
            wait=wait_exponential(multiplier=0.5, max=_LONGEST_WAIT_SECONDS),
            retry=retry_if_not_exception_type((InvalidInput, _Hung, asyncio.CancelledError)),
            reraise=True,
        ):
            with attempt:
                async with asyncio.timeout(_SECONDS):
                    await deliver(event)

    async def _hold(self, consumer: str) -> EventPosition | None:
        """Return the position, if no other process delivers events to this consumer now."""
        there = await self._log.position(consumer)
        if there is None:
            there = await self._log.move(consumer, 0)
        others = there.holder not in (None, self._context.owner)
        if others and there.held_until is not None and self._clock.now() < there.held_until + self._context.limits.skew:
            return None
        return await self._log.hold(there, self._context.owner, self._clock.now() + _HELD)


class Webhook:
    """Posts events as JSON, signed with the secret if there is one. Needs httpx (`mahavishnu-dlq[http]`)."""

    def __init__(self, url: str, secret: str | None, now: Callable[[], datetime]) -> None:
        self._url, self._secret, self._now = url, secret, now

    async def __call__(self, event: DomainEvent) -> None:
        """Post an event. Raises InvalidInput if the receiver refuses it, httpx's errors for problems that may pass."""
        import httpx

        body = json.dumps(event.to_dict(), separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "Mahavishnu-Event-Id": event.event_id}
        if self._secret:
            headers[SIGNATURE_HEADER] = sign(self._secret, body, self._now())
        async with httpx.AsyncClient(timeout=_SECONDS) as client:
            with hide_addresses():
                answer = await client.post(self._url, content=body, headers=headers)
        if answer.status_code in _REFUSALS:
            raise InvalidInput(f"it was answered with {answer.status_code}")
        if not answer.is_success:  # the message names no URL: it may have a token in it
            raise httpx.HTTPStatusError(f"answered with {answer.status_code}", request=answer.request, response=answer)


def _as_deliver(call: Callable[[Any, Any], Any]) -> Deliver:
    """Call the plugin in a thread of its own: an error in it, or its hanging, is an error of it alone."""

    async def deliver(event: DomainEvent) -> object:
        answers = await ask_async([call], (event, None), lambda _: True, _PLUGIN_SECONDS)
        if not answers:
            raise RuntimeError("there is no thread to call it in")
        given, raised = answers[-1].value, answers[-1].raised
        if answers[-1].hung:
            raise _Hung(f"it took longer than {_PLUGIN_SECONDS:g} seconds")
        if raised is not None:
            raise raised if isinstance(raised, Exception) else RuntimeError(f"it raised {type(raised).__name__}")
        return await contain(given) if inspect.isawaitable(given) else given

    return deliver

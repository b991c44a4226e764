"""The log of stored domain events: numbered without gaps, read by cursor, acknowledged by each consumer.

The number is a part of the key, so two processes cannot give it to two events: the slower one takes a later one. A
missing number belongs to an event that is being written, or was never written. A reader waits at it for a while, and
then stores a void record there: a late writer gets a later number, and so no reader ever passes by an event.

It is kept where all processes meet. While that store is away nothing is stored, and publishers are told so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.engine.context import QueueContext
from mahavishnu.events.records import EVENT_POSITIONS, EVENTS
from mahavishnu.events.rules import (
    REMOVED,
    EventPage,
    EventPosition,
    EventRules,
    position_key,
    removable_number,
    require_consumer,
)
from mahavishnu.model.errors import InvalidInput, StoreError, StoreUnavailable
from mahavishnu.model.events import VOID, DomainEvent, event_key
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.query import Between, Is, Query, Sort, require_namespace
from mahavishnu.stores.base import Result, get_one, home_of, scan, write_one, write_with_retry
from mahavishnu.stores.scoped import NamespaceRecords

log = logging.getLogger(__name__)
HOLE_SECONDS = 10.0  # that a reader waits for an event which is being written
MOST_READ = 1000
_STRIDE = 100  # numbers that are looked at together
_TRIES = 50
_BY_NUMBER = (Sort("number"),)


class _Appended(Struct):
    """An event to be stored, and the future that awaits it."""

    event: DomainEvent
    future: asyncio.Future[DomainEvent]


class EventLog:
    """The stored events of one namespace."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._clock = context, context.clock
        home = home_of(context.store)
        self.events = NamespaceRecords(home.collection(EVENTS), context.namespace)
        self.positions = NamespaceRecords(home.collection(EVENT_POSITIONS), context.namespace)
        self._batcher = Batcher(self._store)
        self._last: int | None = None  # the highest number that is known to be taken
        self._turn = asyncio.Lock()  # one batch after the other: their numbers would only collide
        self._loop: asyncio.AbstractEventLoop | None = None  # whose lock it is

    # --- storing

    async def append(self, event: DomainEvent) -> DomainEvent:
        """Store an event, together with others of the same moment, and return it with its number. Raises StoreError."""
        require_namespace(self._context.namespace)
        return await self._context.session.run_in_home_loop(lambda: self._append(event))

    async def _append(self, event: DomainEvent) -> DomainEvent:
        await self._context.open()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._last, self._turn = loop, None, asyncio.Lock()
        appended = _Appended(event, loop.create_future())
        self._batcher.add(appended)
        return await appended.future

    async def finish(self) -> None:
        """Return when everything that was appended is stored, or has failed."""
        await self._batcher.finish()

    async def _store(self, batch: Sequence[_Appended]) -> None:
        async with self._turn:
            left = list(batch)
            for _ in range(_TRIES):  # a loop of its own: an event whose number is taken gets the next one: another key
                left = await self._store_some(left)
                if not left:
                    return
            raise StoreUnavailable(f"the numbers of {len(left)} events were taken by others {_TRIES} times in a row")

    async def _store_some(self, batch: Sequence[_Appended]) -> list[_Appended]:
        """Store them under the next numbers. Returns those whose numbers others have taken."""
        last = await self._find_last() if self._last is None else self._last
        self._last = None  # nobody knows it if this is broken off
        numbered = [replace(each.event, number=last + place, version=None) for place, each in enumerate(batch, 1)]
        results = await self.events.write(numbered)
        lost = [event.key for event, result in zip(numbered, results, strict=True) if result is None]
        there = dict(zip(lost, await self.events.get(lost) if lost else (), strict=True))
        # A number that was free because its event is removed is one that readers have passed. It is noted before that.
        removed = await self._last_removed()
        left: list[_Appended] = []
        passed: list[DomainEvent] = []
        for each, event, result in zip(batch, numbered, results, strict=True):
            # the answer to an earlier try may have been lost: then it is there itself
            stored = there[event.key] if result is None else result
            if isinstance(result, StoreError):
                if not each.future.done():
                    each.future.set_exception(result)
            elif isinstance(stored, DomainEvent) and stored.event_id == event.event_id:
                if stored.number > removed:
                    resolve(each.future, stored)
                else:
                    passed.append(stored)
                    left.append(each)
            else:
                left.append(each)
        if passed:
            await self.events.remove(passed)
        elif not lost:
            self._last = numbered[-1].number
        return left

    async def _find_last(self) -> int:
        """Return the highest taken number. A search may miss the latest ones of others, but reads by key do not."""
        page = await self.events.find(Query((), (Sort("number", descending=True),), 1))
        last = max(await self._last_removed(), *(event.number for event in page.items), 0)
        while True:
            keys = [event_key(self._context.namespace, last + place) for place in range(1, _STRIDE + 1)]
            found = [place for place, each in enumerate(await self.events.get(keys), 1) if each is not None]
            if not found:
                return last
            last += found[-1]

    # --- reading

    async def read(self, after: int = 0, limit: int = 100) -> EventPage:
        """Return events whose number is above `after`, in their order. Raises StoreError, InvalidInput."""
        if type(after) is not int or after < 0:
            raise InvalidInput(f"events are read after a number from 0, not {after!r:.80}")
        if type(limit) is not int or not 1 <= limit <= MOST_READ:
            raise InvalidInput(f"1 to {MOST_READ} events are read at once, not {limit!r:.80}")
        require_namespace(self._context.namespace)
        await self._context.open()
        last = max(after, await self._last_removed())
        page = await self.events.find(Query((Between("number", at_least=last + 1),), _BY_NUMBER, limit))
        found: list[DomainEvent] = []
        has_more = page.next is not None
        for event in page.items:
            if event.number > last + 1:
                between, last = await self._fill(last, event)
                found += between
            if event.number > last + 1:  # one that is being written
                has_more = False
                break
            found.append(event)
            last = event.number
        if page.corrupt and not page.items:
            last += len(page.corrupt)  # a page of nothing else
        if len(found) > limit:
            found = found[:limit]
            last, has_more = found[-1].number, True
        return EventPage(tuple(each for each in found if not each.is_void), last, has_more)

    async def _fill(self, last: int, following: DomainEvent) -> tuple[list[DomainEvent], int]:
        """Return the events between two numbers, and the number up to which nothing more can come."""
        found: list[DomainEvent] = []
        while last + 1 < following.number:
            numbers = range(last + 1, min(last + 1 + _STRIDE, following.number))
            keys = [event_key(self._context.namespace, number) for number in numbers]
            for number, given in zip(numbers, await self.events.get(keys), strict=True):
                result: Result[DomainEvent] = given
                if result is None:
                    if number <= await self._last_removed():  # old ones were removed meanwhile
                        last = number
                        continue
                    if self._clock.now() - following.created_at < timedelta(seconds=HOLE_SECONDS):
                        return found, last
                    now, at, own = self._clock.now(), following.created_at, self._context.namespace
                    void = DomainEvent(new_entry_id(now), VOID, at, own, number=number)
                    result = await write_one(self.events, void) or await get_one(self.events, void.key)
                if isinstance(result, DomainEvent):
                    found.append(result)
                elif result is not None:
                    log.warning("event %s cannot be read and is passed over: %s", keys[number - numbers[0]], result)
                last = number
        return found, last

    # --- consumers

    async def position(self, consumer: str) -> EventPosition | None:
        """Return the position of a consumer; None if it has never acknowledged anything."""
        await self._context.open()
        return await get_one(self.positions, position_key(self._context.namespace, consumer))

    async def consumers(self) -> Sequence[EventPosition]:
        """Return every known consumer with its position."""
        await self._context.open()
        found = [each async for each in scan(self.positions, Query((), (Sort("consumer"),)))]
        return [each for each in found if not each.consumer.startswith("*")]

    async def acknowledge(self, consumer: str, number: int) -> EventPosition:
        """Raise a consumer's position to this number; it never falls. Raises InvalidInput for a future number."""
        require_consumer(consumer)
        require_namespace(self._context.namespace)
        if type(number) is not int or number < 0:
            raise InvalidInput(f"events are acknowledged up to a number from 0, not {number!r:.80}")
        await self._context.open()
        if number > await self._last_removed():
            (there,) = await self.events.get([event_key(self._context.namespace, number)])
            if there is None:
                raise InvalidInput(f"there is no event {number} that {consumer!r} could acknowledge")
        return await self.move(consumer, number)

    async def move(self, consumer: str, number: int, **changes: object) -> EventPosition:
        """Move the position of a consumer here, unless it is further; `changes` are of other fields."""
        now, key = self._clock.now(), position_key(self._context.namespace, consumer)

        def advance(current: EventPosition | None) -> EventPosition | None:
            if current is None:
                current = EventPosition(key, self._context.namespace, consumer, 0, now)
            elif number <= current.number and not changes:
                return None
            values: dict[str, object] = {"at": now, **changes, "number": max(number, current.number)}
            return replace(current, **values)

        before, after = await write_with_retry(self.positions, key, advance, what="the position of consumer")
        return after or before or EventPosition(key, self._context.namespace, consumer, number, now)

    async def note(self, prefix: str, at: datetime) -> None:
        """Leave a note with an instant, under a name of its own. Raises StoreError."""
        consumer = f"{prefix}{new_entry_id(self._clock.now())}"
        key = position_key(self._context.namespace, consumer)
        await write_one(self.positions, EventPosition(key, self._context.namespace, consumer, 0, at))

    async def notes(self, prefix: str) -> list[EventPosition]:
        """Return the notes whose names begin so."""
        await self._context.open()
        return [each async for each in scan(self.positions, Query()) if each.consumer.startswith(prefix)]

    async def hold(self, position: EventPosition, holder: str, until: datetime) -> EventPosition | None:
        """Reserve delivery to this consumer for `holder` until then; None if another process was quicker."""
        return await write_one(self.positions, replace(position, holder=holder, held_until=until))

    async def forget(self, consumer: str) -> bool:
        """Forget a consumer: nothing is kept for it any more. False if it was not known."""
        there = await self.position(require_consumer(consumer))
        return there is not None and (await self.positions.remove([there]))[0] is True

    async def _last_removed(self) -> int:
        there = await get_one(self.positions, position_key(self._context.namespace, REMOVED))
        return 0 if there is None else there.number

    # --- the end of events

    async def remove_old(self) -> int:
        """Remove events that the rules no longer keep, oldest first; safe when two do it. Returns how many."""
        await self._context.open()
        rules, removed = self._context.rules(EventRules), 0
        consumers = await self.consumers()
        acknowledged = min((each.number for each in consumers), default=None)
        while True:
            page = await self.events.find(Query((), _BY_NUMBER, MOST_READ))
            number = removable_number(page.items, acknowledged, rules, self._clock.now())
            if number is None:
                return removed
            await self.move(REMOVED, number)  # before they go: a reader does not wait for what is not there
            results = await self.events.remove([each for each in page.items if each.number <= number])
            removed += sum(each is True for each in results)
            if True not in results:
                return removed

    async def known_ids(self, event_ids: Sequence[str]) -> set[str]:
        """Return which of these events are stored."""
        found: set[str] = set()
        for start in range(0, len(event_ids), MOST_READ):
            query = Query((Is("event_id", tuple(event_ids[start : start + MOST_READ])),))
            found |= {event.event_id async for event in scan(self.events, query)}
        return found

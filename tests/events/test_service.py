"""Domain events: heard in this process, or stored and read by those who acknowledge them."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine import event_bus
from mahavishnu.events.log import HOLE_SECONDS
from mahavishnu.events.records import EVENTS
from mahavishnu.events.rules import EventRules
from mahavishnu.events.service import DomainEvents
from mahavishnu.model.errors import InvalidInput, ItemFailed, StoreUnavailable
from mahavishnu.model.events import DomainEvent, event_key
from mahavishnu.model.query import Query
from tests.support.queues import House


def events_of(queue: DeadLetterQueue) -> DomainEvents:
    events: DomainEvents = queue.domain_events
    return events


class Heard:
    """A subscriber that notes what it hears, and can be waited for."""

    def __init__(self) -> None:
        self.events: list[DomainEvent] = []
        self._changed = threading.Condition()

    def __call__(self, event: DomainEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    async def reached(self, count: int) -> list[DomainEvent]:
        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: len(self.events) >= count, 10)

        assert await asyncio.to_thread(wait), f"heard only {len(self.events)}"
        return self.events


async def test_a_fast_event_is_heard_here_and_stored_nowhere(house: House) -> None:
    heard, others = Heard(), Heard()
    events = events_of(house.queue())
    events.subscribe(heard, "order.*")
    events.subscribe(others, ["invoice.sent"])
    done = await events.publish("order.paid", {"order": 7}, task_id="t-1")
    assert done.told
    assert not done.stored
    (event,) = await heard.reached(1)
    assert (event.name, event.payload.value, event.task_id) == ("order.paid", {"order": 7}, "t-1")
    assert event == done.event
    assert (await events.read()).events == ()
    assert others.events == []


async def test_who_ends_a_subscription_hears_no_more(house: House) -> None:
    heard, events = Heard(), events_of(house.queue())
    end = events.subscribe(heard)
    end()
    end()
    assert not (await events.publish("order.paid")).told


async def test_a_coroutine_function_is_awaited(house: House) -> None:
    heard: asyncio.Queue[DomainEvent] = asyncio.Queue()
    events = events_of(house.queue())
    events.subscribe(heard.put)
    await events.publish("order.paid")
    assert (await heard.get()).name == "order.paid"


async def test_a_blocked_subscriber_holds_up_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_bus, "MOST_WAITING", 3)
    gate, began, heard = threading.Event(), threading.Event(), Heard()

    def block(event: DomainEvent) -> None:
        began.set()
        gate.wait(10)

    queue = house.queue()
    events = events_of(queue)
    events.subscribe(block)
    events.subscribe(heard)
    await events.publish("order.paid")
    await asyncio.to_thread(began.wait, 10)
    for number in range(1, 6):
        await events.publish("order.paid")
        await heard.reached(number + 1)  # the other one hears all of them
    assert queue.context.counts["events_dropped"] == 2
    assert "too slow" in caplog.text
    gate.set()


async def test_a_durable_event_survives_a_restart(any_house: House) -> None:
    first = any_house.queue()
    heard = Heard()
    events_of(first).subscribe(heard)
    done = await events_of(first).publish("order.paid", {"order": 7}, mode="durable")
    assert done.stored
    assert not done.told, "only fast events have subscribers"
    any_house.kill(first)
    page = await events_of(any_house.queue()).read()
    assert page.events == (done.event,)
    assert page.next == 1
    assert heard.events == []


async def test_a_broadcast_is_the_same_event_on_both_ways(any_house: House) -> None:
    events, heard = events_of(any_house.queue()), Heard()
    events.subscribe(heard)
    done = await events.publish("order.paid", mode="broadcast")
    assert done.told
    assert done.stored
    (here,) = await heard.reached(1)
    (there,) = (await events.read()).events
    assert here.event_id == there.event_id


async def test_a_broadcast_is_heard_while_the_store_is_away(house: House, caplog: pytest.LogCaptureFixture) -> None:
    queue, heard = house.queue(), Heard()
    events = events_of(queue)
    await queue.open()
    events.subscribe(heard)
    house.faults.unavailable()
    done = await events.publish("order.paid", mode="broadcast")
    assert done.told
    assert not done.stored
    assert done.problem
    await heard.reached(1)
    assert queue.context.counts["durable_events_dropped"] == 1
    assert "order.paid" in caplog.text
    house.faults.clear()
    assert (await events.publish("order.paid", mode="durable")).stored


async def test_a_subscriber_that_raises_does_not_keep_it_from_the_store(house: House) -> None:
    events = events_of(house.queue())

    def stumble(event: DomainEvent) -> None:
        raise RuntimeError("no")

    events.subscribe(stumble)
    assert (await events.publish("order.paid", mode="broadcast")).stored


async def test_conditions_are_asked_where_there_is_an_outcome(house: House) -> None:
    events = events_of(house.queue())
    unmet = await events.publish("order.failed", condition="failure", outcome="success", mode="durable")
    assert unmet.event is None
    assert (
        await events.publish("order.failed", condition="failure", outcome="permanent_failure", mode="durable")
    ).stored
    assert len((await events.read()).events) == 1


async def test_consumers_acknowledge_each_for_itself(any_house: House) -> None:
    first = events_of(any_house.queue())
    for number in range(5):
        await first.publish("order.paid", {"n": number}, mode="durable")
    page = await first.read(consumer="billing", limit=2)
    assert [event.payload.value["n"] for event in page.events] == [0, 1]
    assert page.has_more
    await first.acknowledge("billing", page.next)
    other = events_of(any_house.queue())
    assert [event.number for event in (await other.read(consumer="billing")).events] == [3, 4, 5]
    assert len((await other.read(consumer="mail")).events) == 5
    assert (await other.acknowledge("billing", 1)).number == 2, "it never goes back"
    assert [(each.consumer, each.number) for each in await other.consumers()] == [("billing", 2)]
    assert await other.forget("billing")
    assert not await other.forget("billing")


async def test_what_never_was_cannot_be_acknowledged(house: House) -> None:
    events = events_of(house.queue())
    await events.publish("order.paid", mode="durable")
    with pytest.raises(InvalidInput, match="there is no event 2 that 'billing' could acknowledge"):
        await events.acknowledge("billing", 2)
    with pytest.raises(InvalidInput, match="from 0"):
        await events.acknowledge("billing", -1)


async def test_many_writers_give_each_number_once(any_house: House) -> None:
    writers = [events_of(any_house.queue()) for _ in range(4)]
    done = await asyncio.gather(
        *(writer.publish("order.paid", {"n": n}, mode="durable") for n in range(50) for writer in writers)
    )
    assert all(each.stored for each in done)
    page = await events_of(any_house.queue()).read(limit=1000)
    assert [event.number for event in page.events] == list(range(1, 201))
    assert {event.event_id for event in page.events} == {each.event.event_id for each in done if each.event}


async def test_what_the_store_refuses_is_told_and_leaves_no_trap(house: House) -> None:
    queue = house.queue()
    events = events_of(queue)

    await events.publish("order.paid", mode="durable")
    collection = events.log.events.records
    written = type(collection).write

    async def write(self: Any, records: Any) -> Any:
        if len(records) == 3:
            return [*await written(self, records[:1]), ItemFailed("x", "too large"), *await written(self, records[2:])]
        return await written(self, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(collection), "write", write)
        done = await asyncio.gather(*(events.publish("order.paid", mode="durable") for _ in range(3)))
    assert [each.stored for each in done] == [True, False, True]
    page = await events.read()
    assert [event.number for event in page.events] == [1, 2], "the third may still be written"
    assert page.next == 2
    house.clock.advance(HOLE_SECONDS)
    assert [event.number for event in (await events.read(after=2)).events] == [4]
    assert (await events.log.events.get([event_key("default", 3)]))[0] is not None, "nobody can take it any more"


async def test_who_is_late_takes_a_later_number(house: House) -> None:
    """A writer that was told its number, and comes to write when readers have given it up."""
    queue = house.queue()
    events = events_of(queue)
    await events.publish("a", mode="durable")
    slow = events_of(house.queue())
    await slow.read()
    slow.log._last = 1
    await events.publish("b", mode="durable")  # takes 2, which the other one is about to write
    done = await slow.publish("c", mode="durable")
    assert done.stored
    assert [event.name for event in (await events.read()).events] == ["a", "b", "c"]


async def test_an_answer_that_is_lost_is_no_second_event(house: House) -> None:
    events = events_of(house.queue())
    await events.publish("a", mode="durable")
    event = DomainEvent("e-1", "b", house.clock.now(), number=2)
    await events.log.events.write([event])
    events.log._last = 1
    assert (await events.publish("b", mode="durable", event_id="e-1")).stored
    assert [event.number for event in (await events.read()).events] == [1, 2]


async def test_old_events_are_removed_and_numbers_go_on(any_house: House) -> None:
    queue = any_house.queue(rules=[EventRules(acknowledged_days=7, durable_days=30)])
    events = events_of(queue)
    for _ in range(3):
        await events.publish("order.paid", mode="durable")
    await events.acknowledge("billing", 2)
    any_house.clock.advance(hours=24 * 7)
    assert await events.remove_old() == 2
    assert [event.number for event in (await events.read()).events] == [3]
    assert [event.number for event in (await events.read(consumer="billing")).events] == [3]
    any_house.clock.advance(hours=24 * 30)
    assert await events.remove_old() == 1
    assert (await events.read()).next == 3
    other = events_of(any_house.queue())
    done = await other.publish("order.paid", mode="durable")
    assert done.event is not None
    assert done.event.number == 4, "who has acknowledged 2 must not miss it"
    assert [event.number for event in (await other.read(consumer="billing")).events] == [4]


@pytest.mark.parametrize("moment", ["before", "at its write"])
async def test_no_number_of_a_removed_event_is_given_again(any_house: House, moment: str) -> None:
    """Who has published nothing for long knows an old number: readers have passed what it would get."""
    rules = EventRules(acknowledged_days=0)
    seldom, busy = (any_house.queue(rules=[rules]) for _ in range(2))
    await events_of(seldom).publish("first", mode="durable")

    async def go_on(call: object = None) -> None:
        for number in range(3):
            await events_of(busy).publish(f"e{number}", mode="durable")
        page = await events_of(busy).read(consumer="a")
        assert page.next == 4
        await events_of(busy).acknowledge("a", page.next)
        assert await events_of(busy).remove_old() == 4

    if moment == "before":
        await go_on()
    else:
        seldom.store.faults.before("write", go_on, kind=EVENTS, times=1)  # type: ignore[attr-defined]
    done = await events_of(seldom).publish("late", mode="durable")
    assert done.stored
    (event,) = (await events_of(busy).read(consumer="a")).events
    assert (event.name, event.number) == ("late", 5)
    assert done.event == event
    stored = events_of(busy).log.events
    assert [each.number for each in (await stored.find(Query())).items] == [5]


async def test_nothing_is_stored_while_the_store_is_away_and_reading_says_so(house: House) -> None:
    queue = house.queue()
    await queue.open()
    house.faults.unavailable()
    with pytest.raises(StoreUnavailable):
        await events_of(queue).read()


@pytest.mark.parametrize("options", [{"after": -1}, {"limit": 0}, {"limit": 1001}, {"consumer": "a b"}])
async def test_what_cannot_be_read_is_refused(house: House, options: Any) -> None:
    with pytest.raises(InvalidInput):
        await events_of(house.queue()).read(**options)


async def test_what_is_no_event_is_refused(house: House) -> None:
    events = events_of(house.queue())
    with pytest.raises(InvalidInput, match="the name of an event"):
        await events.publish("order paid")
    with pytest.raises(InvalidInput, match="payload"):
        await events.publish("order.paid", object(), mode="durable")
    with pytest.raises(InvalidInput, match="a listener is a function"):
        events.subscribe("order.paid")  # type: ignore[arg-type]


async def test_each_namespace_has_its_own(house: House) -> None:
    queue = house.queue()
    await events_of(queue).publish("order.paid", mode="durable")
    assert (await events_of(queue.in_namespace("eu")).read()).events == ()
    with pytest.raises(InvalidInput):
        await events_of(queue.all_namespaces).read()


async def test_only_one_name_may_be_asked_for(house: House) -> None:
    events = events_of(house.queue())
    for name in ("order.paid", "order.sent", "mail"):
        await events.publish(name, mode="durable")
    page = await events.read(names="order.*")
    assert [event.name for event in page.events] == ["order.paid", "order.sent"]
    assert page.next == 3, "what was left out was dealt with"


async def test_an_app_has_them(house: House) -> None:
    app = house.app()
    assert (await app.events.publish("order.paid", mode="durable")).stored


def test_without_an_event_loop(tmp_path: Path) -> None:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path / 'letters.db'}"))
    heard = Heard()
    app.events.subscribe(heard)
    with app.sync as sync:
        assert sync.events.publish("order.paid", {"order": 7}, mode="broadcast").stored
        assert [event.payload.value for event in sync.events.read(consumer="billing").events] == [{"order": 7}]
        assert sync.events.acknowledge("billing", 1).number == 1
    assert len(heard.events) == 1, "closing waits for subscribers"


class Lagging:
    """Stored events of which a search does not see some yet, though whoever asks by their keys does."""

    def __init__(self, records: Any, unseen: range) -> None:
        self._records, self._unseen = records, unseen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def find(self, query: Query, after: Any = None) -> Any:
        page = await self._records.find(replace(query, limit=1000), after)
        seen = [event for event in page.items if event.number not in self._unseen]
        return replace(page, items=tuple(seen[: query.limit]))


async def test_no_event_is_passed_by_where_more_are_between_than_are_read_at_once(house: House) -> None:
    """They were stored so shortly before that a search does not see them; behind them one is being written."""
    events = events_of(house.queue())
    for number in range(1, 13):
        await events.publish("order.paid", number, mode="durable")
    (being_written,) = (await events.read(10, 1)).events
    await events.log.events.remove([being_written])
    events.log.events = Lagging(events.log.events, range(2, 10))  # type: ignore[assignment]
    read, after = list[Any](), 0
    while (page := await events.read(after, 3)).events:
        assert page.next == page.events[-1].number
        read += [event.payload.value for event in page.events]
        after = page.next
        assert page.has_more == (after < 10)
    assert read == list(range(1, 11))


@pytest.mark.parametrize("given", [{"event_id": 5}, {"task_id": 5}, {"step": 5}, {"event_id": "x" * 1001}])
async def test_what_could_not_be_read_again_is_no_event(house: House, given: dict[str, Any]) -> None:
    """It was said to be stored, and each reader passed over it."""
    events = events_of(house.queue())
    with pytest.raises(InvalidInput, match=next(iter(given))):
        await events.publish("order.paid", mode="durable", **given)
    assert (await events.read()).next == 0


async def test_what_nobody_could_hear_is_refused(house: House) -> None:
    events: Any = events_of(house.queue())
    for method, args in (
        (events.subscribe, (print, 5)),
        (events.subscribe, (print, ["a", 5])),
        (events.publish_on_step, (None, "order.paid")),
        (events.publish_on_step, (5, "order.paid")),
    ):
        with pytest.raises(InvalidInput):
            method(*args)


@pytest.mark.parametrize("mode", ["fast", "durable", "broadcast"])
async def test_a_payload_that_is_too_large_is_refused_in_every_mode(house: House, mode: str) -> None:
    """As other payloads are: what is refused was heard by nobody, and has no number."""
    app, heard = house.app(dlq_max_task_bytes=1024), Heard()
    app.events.subscribe(heard)
    fits = "x" * (1024 - len('""'))
    with pytest.raises(InvalidInput, match="payload has 1025 bytes as JSON, more than the 1024 of dlq_max_task_bytes"):
        await app.events.publish("order.paid", fits + "x", mode=mode)
    done = await app.events.publish("order.paid", fits, mode=mode)
    assert (done.told, done.stored) == (mode != "durable", mode != "fast")
    assert [event.payload.value for event in (await app.events.read()).events] == [fits] * (mode != "fast")


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
async def test_a_coroutine_function_that_ends_the_program_ends_nobody_else(
    house: House, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    events, heard, fallen = events_of(house.queue()), Heard(), Heard()

    async def fall(event: DomainEvent) -> None:
        fallen(event)
        raise error

    events.subscribe(fall)
    events.subscribe(heard)
    for number in range(2):
        await events.publish(f"e{number}")
    await heard.reached(2)
    await fallen.reached(2)
    await house.queue().domain_events.finish()

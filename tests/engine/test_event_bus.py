"""Listeners hear of everything, and nobody waits for them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from mahavishnu.engine import event_bus
from mahavishnu.model.events import Event, EventName
from tests.support.letters import NOON
from tests.support.queues import House, Runs, fill, until

current: ContextVar[str] = ContextVar("current", default="nobody")


class Stuck:
    """A listener that hangs in its first event until it is let go."""

    def __init__(self) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        self.heard: list[EventName] = []

    def __call__(self, event: Event) -> None:
        self.reached.set()
        self.go.wait()
        self.heard.append(event.name)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    listener = Stuck()
    yield listener
    listener.go.set()


async def test_a_hanging_listener_delays_neither_captures_nor_runs_nor_other_listeners(
    house: House, stuck: Stuck
) -> None:
    queue = house.queue(Runs())
    heard: list[EventName] = []
    queue.listen(stuck)
    queue.listen(lambda event: heard.append(event.name))
    await fill(queue, 1)
    assert await asyncio.to_thread(stuck.reached.wait, 10)
    assert await queue.run_due() == 1  # it would never end
    story = [EventName.CAPTURED, EventName.RETRY_STARTED, EventName.RETRY_SUCCEEDED]
    await until(lambda: heard == story)
    assert stuck.heard == []
    stuck.go.set()
    await queue.shutdown()  # waits until it has caught up
    assert stuck.heard == story


async def test_closing_does_not_wait_for_ever(house: House, stuck: Stuck, caplog: pytest.LogCaptureFixture) -> None:
    queue = house.queue()
    queue.listen(stuck)
    await fill(queue, 2)
    await queue.context.events.flush(0.01)
    assert "has not heard 2 events" in caplog.text


async def test_what_overflows_is_counted_and_said_once(
    house: House, stuck: Stuck, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_bus, "MOST_WAITING", 3)
    queue = house.queue()
    queue.listen(stuck)
    await fill(queue, 1)
    assert await asyncio.to_thread(stuck.reached.wait, 10)
    await fill(queue, 5)  # four of them are new, and one is merged
    assert (await queue.get_statistics())["lifetime_stats"]["events_dropped"] == 2
    assert caplog.text.count("events are dropped") == 1
    stuck.go.set()
    await queue.context.events.flush()
    assert len(stuck.heard) == 4


async def test_a_coroutine_function_is_awaited_in_the_loop_and_in_the_context_of_the_event(house: House) -> None:
    queue = house.queue()
    heard: list[tuple[str, str, bool]] = []
    loop = asyncio.get_running_loop()

    async def listen(event: Event) -> None:
        heard.append(("async", current.get(), asyncio.get_running_loop() is loop))

    queue.listen(listen)
    queue.listen(lambda event: heard.append(("sync", current.get(), threading.current_thread() is MAIN)))
    current.set("this test")
    await fill(queue, 1)
    await queue.shutdown()
    assert sorted(heard) == [("async", "this test", True), ("sync", "this test", False)]


MAIN = threading.main_thread()


async def test_a_listener_that_sets_something_in_the_loop_is_noticed_at_once(house: House) -> None:
    """Although its thread is another one: earlier versions called it in the loop."""
    queue, told = house.queue(), asyncio.Event()
    queue.listen(lambda event: told.set())
    waiting = asyncio.create_task(told.wait())
    await fill(queue, 1)
    async with asyncio.timeout(10):
        await waiting


async def test_a_listener_goes_on_after_an_exception_and_after_a_rest(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_bus, "_IDLE_SECONDS", 0.0)
    queue = house.queue()
    threads: list[threading.Thread] = []

    def listen(event: Event) -> None:
        threads.append(threading.current_thread())
        raise SystemExit("not this thread's business")

    queue.listen(listen)
    for number in range(2):
        await queue.enqueue(f"wf_{number}", {}, [], "boom")
        await queue.context.events.flush()
        await until(lambda: not threads[-1].is_alive())
    assert len(set(threads)) == 2
    assert caplog.text.count("a listener stumbled over dlq.captured") == 2


async def test_a_forked_child_hears_of_its_own_events(house: House, stuck: Stuck) -> None:
    bus = house.queue().context.events
    bus.listen(stuck)
    bus.publish(Event(EventName.CLEARED, house.clock.now()))
    assert await asyncio.to_thread(stuck.reached.wait, 10)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            stuck.go = threading.Event()
            stuck.go.set()
            bus.publish(Event(EventName.MERGED, house.clock.now()))
            for queued in bus._queued:
                queued.catch_up(10)
            status = int(stuck.heard != [EventName.MERGED])
        finally:
            os._exit(status)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert status == 0


def test_an_event_loop_that_ends_takes_no_listener_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is awaited would have waited for ever for the loop of the first event, and heard no other."""
    bus, heard, loop = event_bus.EventBus(), list[Event](), asyncio.new_event_loop()
    asked, ask = threading.Event(), loop.call_soon_threadsafe
    first, second = (Event(EventName.CLEARED, NOON, None, {"number": number}) for number in (1, 2))

    async def listen(event: Event) -> None:
        heard.append(event)

    async def publish(event: Event) -> None:
        bus.publish(event)

    async def publish_and_flush(event: Event) -> None:
        bus.publish(event)
        await bus.flush()

    def note_asked(*arguments: Any, **more: Any) -> None:
        ask(*arguments, **more)
        asked.set()

    bus.listen(listen)
    monkeypatch.setattr(loop, "call_soon_threadsafe", note_asked)
    loop.run_until_complete(publish(first))
    assert asked.wait(10)
    loop.close()
    asyncio.run(publish_and_flush(second))
    assert heard == [second]


def test_listeners_that_come_and_go_are_called_while_they_are_there() -> None:
    bus, heard = event_bus.EventBus(), list[str]()
    first = bus.subscribe(lambda event: heard.append("first"))
    bus.publish(Event(EventName.CAPTURED, NOON, None, {}))
    second = bus.subscribe(lambda event: heard.append("second"), {EventName.CAPTURED})
    bus.publish(Event(EventName.CAPTURED, NOON, None, {}))
    bus.publish(Event(EventName.MERGED, NOON, None, {}))
    first()
    bus.publish(Event(EventName.CAPTURED, NOON, None, {}))
    second()
    bus.publish(Event(EventName.CAPTURED, NOON, None, {}))
    assert heard == ["first", "first", "second", "first", "second"]

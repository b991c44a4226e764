"""Events that a process could not store, because it died or the store was away, are found by what has changed."""

from __future__ import annotations

import pytest

from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.events.records import EVENT_POSITIONS, EVENTS
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.events import DomainEvent
from mahavishnu.model.query import Query
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.tasks.records import TASKS
from mahavishnu.testing import START, FaultyStore
from mahavishnu.testing.faults import Call
from tests.events.test_service_sources import Shop, stored
from tests.support.queues import NETWORK, House, fails

ON = {"durable_names": ["dlq.captured", "dlq.resolved", "step.complete"], "durable_outbox": True}


def ids(events: list[DomainEvent]) -> list[tuple[str, str]]:
    return [(event.name, event.event_id) for event in events]


async def die_before_events(house: House, queue: DeadLetterQueue) -> None:
    """The process is gone after the outcome, and before anything came of it."""
    await queue.domain_events.finish()
    house.kill(queue)


async def test_what_a_dead_process_has_not_stored_comes_after_a_restart(any_house: House) -> None:
    first = any_house.app(events=ON)
    await first.events.publish_missed()  # somebody has looked before
    first.dlq.store.faults.unavailable("write", kind=EVENTS)  # type: ignore[attr-defined]
    await fails(first, NETWORK)
    await die_before_events(any_house, first.dlq)
    second = any_house.app(events=ON)
    any_house.clock.advance(60)
    assert await second.events.publish_missed() == 1
    (event,) = await stored(second.dlq, 1)
    assert (event.name, event.task_id) == ("dlq.captured", "wf_1")
    any_house.clock.advance(30)
    assert await second.events.publish_missed() == 0, "what is stored is not stored again"


async def test_it_has_the_id_that_it_would_have_had(house: House) -> None:
    app = house.app(events=ON)
    await app.events.publish_missed()
    await fails(app, NETWORK)
    await app.events.finish()
    before = ids(await stored(app.dlq, 1))
    await app.events.log.events.remove((await app.events.read()).events)
    await app.events.log.move("*removed", 1)
    house.clock.advance(60)
    assert await app.events.publish_missed() == 1
    assert ids(await stored(app.dlq, 1)) == before


async def test_what_was_stored_in_time_is_left_alone(house: House) -> None:
    app = house.app(events=ON)
    await app.events.publish_missed()
    await fails(app, NETWORK)
    await app.dlq.letters.resolve("wf_1", by="ann")
    await app.events.finish()
    house.clock.advance(60)
    assert await app.events.publish_missed() == 0
    assert [event.name for event in await stored(app.dlq, 2)] == ["dlq.captured", "dlq.resolved"]


async def test_steps_of_a_dead_process(any_house: House) -> None:
    shop = Shop(any_house, events=ON)
    shop.app.events.publish_on_step("charge", "order.charged", mode="durable")
    await shop.app.events.publish_missed()
    shop.app.dlq.store.faults.unavailable("write", kind=EVENTS)  # type: ignore[attr-defined]
    await shop.ship()
    await die_before_events(any_house, shop.app.dlq)
    other = Shop(any_house, events=ON)
    other.app.events.publish_on_step("charge", "order.charged", mode="durable")
    any_house.clock.advance(60)
    assert await other.app.events.publish_missed() == 2
    events = await stored(other.app.dlq, 2)
    assert sorted(event.name for event in events) == ["order.charged", "step.complete"]
    assert {event.step for event in events} == {"charge"}


async def test_two_who_look_store_equal_events(any_house: House) -> None:
    """Perhaps twice, but then with one id."""
    first = any_house.app(events=ON)
    first.dlq.store.faults.unavailable("write", kind=EVENTS)  # type: ignore[attr-defined]
    await fails(first, NETWORK)
    await die_before_events(any_house, first.dlq)
    others = [any_house.app(events=ON) for _ in range(2)]
    any_house.clock.advance(60)
    await others[0].dlq.open()
    missing = [event async for event in others[0].events.outbox._events_since(START)]
    for each in others:
        await each.events.log.append(missing[0])
    events = await stored(others[0].dlq, 2)
    assert len({event.event_id for event in events}) == 1
    assert [event.number for event in events] == [1, 2]


async def test_after_an_outage_the_process_that_missed_them_looks_further_back(house: House) -> None:
    app = house.app(events=ON)
    await app.events.publish_missed()
    away = house.faults.unavailable("write", kind=EVENTS)
    await fails(app, NETWORK)
    await app.events.finish()
    assert app.dlq.context.counts["durable_events_dropped"] == 1
    for _ in range(60):  # others look meanwhile, and the position goes on
        house.clock.advance(60)
        await app.events.log.move("*outbox", 0, at=house.clock.now())
    away.stop()
    assert await app.events.publish_missed() == 1
    assert [event.name for event in await stored(app.dlq, 1)] == ["dlq.captured"]


async def test_a_look_that_fails_is_taken_again(house: House) -> None:
    app = house.app(events=ON)
    await app.events.publish_missed()
    away = house.faults.unavailable("write", kind=EVENTS)
    await fails(app, NETWORK)
    await app.events.finish()
    house.clock.advance(60)
    with pytest.raises(StoreUnavailable, match=r"away|unavailable|answer"):
        await app.events.publish_missed()
    away.stop()
    assert await app.events.publish_missed() == 1


class Branch:
    """A process without a worker, whose way to the store that all share breaks: it has a local store."""

    def __init__(self, house: House, home: MemoryStore, local: MemoryStore) -> None:
        self.way = FaultyStore(home)
        self.store = FallbackStore(self.way, local, kinds=KINDS, clock=house.clock)
        settings = MahavishnuSettings.model_validate({"dlq_store_url": "memory:", "events": ON})
        self.app = MahavishnuApp(settings, store=self.store, clock=house.clock)
        house.look_after(self.app.dlq)


@pytest.mark.parametrize("died", [False, True])
async def test_what_comes_home_late_is_told_by_whichever_worker_looks_then(house: House, died: bool) -> None:
    home, local = MemoryStore(), MemoryStore()
    branch, worker = Branch(house, home, local), Branch(house, home, MemoryStore()).app
    await worker.events.publish_missed()
    await branch.app.dlq.open()
    outage = branch.way.faults.unavailable()
    await fails(branch.app, NETWORK)
    await branch.app.events.finish()
    for _ in range(60):  # the worker's way is not broken: it looks all the time
        house.clock.advance(60)
        assert await worker.events.publish_missed() == 0
    if died:
        branch = Branch(house, home, local)
    else:
        outage.stop()
    assert (await branch.store.drain()).waiting == 0
    house.clock.advance(30)
    assert await worker.events.publish_missed() == 1
    assert [(event.name, event.task_id) for event in await stored(worker.dlq, 1)] == [("dlq.captured", "wf_1")]
    house.clock.advance(30)
    assert await worker.events.publish_missed() == 0
    assert [each.consumer for each in (await home.collection(EVENT_POSITIONS).find(Query())).items] == ["*outbox"]


async def test_a_note_of_late_records_that_comes_during_a_look_is_for_the_next_one(house: House) -> None:
    home, local = MemoryStore(), MemoryStore()
    branch, worker = Branch(house, home, local), Branch(house, home, MemoryStore())
    await worker.app.events.publish_missed()
    await branch.app.dlq.open()
    outage = branch.way.faults.unavailable()
    await fails(branch.app, NETWORK)
    house.clock.advance(3600)
    outage.stop()

    async def come_home(call: Call) -> None:
        worker.way.faults.clear()
        assert (await branch.store.drain()).moved > 0

    worker.way.faults.after("find", come_home, kind=TASKS)  # the letters have been looked at
    assert await worker.app.events.publish_missed() == 0
    house.clock.advance(30)
    assert await worker.app.events.publish_missed() == 1


async def test_records_are_noted_before_their_local_copies_are_gone(house: House) -> None:
    home, local = MemoryStore(), MemoryStore()
    branch, worker = Branch(house, home, local), Branch(house, home, MemoryStore()).app
    await worker.events.publish_missed()
    await branch.app.dlq.open()
    outage = branch.way.faults.unavailable()
    await fails(branch.app, NETWORK)
    house.clock.advance(3600)
    assert await worker.events.publish_missed() == 0
    outage.stop()
    outage = branch.way.faults.unavailable("write", kind=EVENT_POSITIONS)
    assert (await branch.store.drain()).waiting > 0, "what cannot be noted stays"
    assert await worker.events.publish_missed() == 0
    outage.stop()
    assert (await branch.store.drain()).waiting == 0
    house.clock.advance(30)
    assert await worker.events.publish_missed() == 1


async def test_what_became_visible_after_a_look_is_found_by_the_next(house: House) -> None:
    """As of a machine whose clock is behind, or of a write that took its time."""
    app = house.app(events=ON)
    await app.dlq.open()
    app.dlq.store.faults.unavailable("write", kind=EVENTS)  # type: ignore[attr-defined]
    await fails(app, NETWORK)
    await die_before_events(house, app.dlq)
    other = house.app(events=ON)
    house.clock.advance(45)
    await other.dlq.open()
    await other.events.log.move("*outbox", 0, at=house.clock.now())  # somebody looked, and did not see it yet
    house.clock.advance(5)
    assert await other.events.publish_missed() == 1


@pytest.mark.parametrize("bad", ["letter", "task", "event"])
async def test_one_bad_record_keeps_no_other_events_from_being_stored(
    house: House, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A letter or a task that cannot be read, and an event that the store refuses for its own sake."""
    first = house.app(events=ON)
    await first.events.publish_missed()
    first.dlq.store.faults.unavailable("write", kind=EVENTS)  # type: ignore[attr-defined]
    await first.lifecycle.create("pay")
    for number in (1, 2):
        await fails(first, NETWORK, f"wf_{number}")
    (task,) = (await first.lifecycle.list()).items
    await die_before_events(house, first.dlq)
    second = house.app(events=ON)
    house.clock.advance(60)
    if bad == "event":
        house.faults.item_failed("write", kind=EVENTS, times=1)
    else:
        house.faults.corrupt(kind=LETTERS if bad == "letter" else TASKS, keys=["wf_1", task.task_id])
    expected = {"letter": ["wf_2"], "task": ["wf_1", "wf_2"], "event": ["wf_2"]}[bad]
    assert await second.events.publish_missed() == len(expected)
    assert [event.task_id for event in await stored(second.dlq, len(expected))] == expected
    assert second.dlq.context.counts["durable_events_dropped"] == (bad == "event")
    assert ("cannot be stored" in caplog.text) == (bad == "event")

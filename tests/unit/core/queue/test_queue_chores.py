"""What workers do for queues now and then."""

from __future__ import annotations

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.core.queue.services import archive_old
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, turn
from mahavishnu.testing.faults import Call
from tests.unit.queues import House, Runs


async def test_items_that_were_done_long_ago_go_to_the_archive(house: House) -> None:
    queue = house.queue()
    await queue.queues.create("q")
    made = await queue.queues.produce("q", {"n": 1})
    (lease,) = await queue.queues.lease("q", "w")
    await queue.queues.complete("q", made.id, lease.token)
    await archive_old(queue)
    assert (await queue.queues.item("q", made.id)).status == "completed"
    house.clock.advance(31 * 86400)
    await archive_old(queue)
    (archived,) = (await queue.in_namespace("default@q").archive.list()).items
    assert archived.copy.task_id == made.id
    numbers = await queue.queues.numbers("q")
    assert (numbers["lifetime_stats"]["retry_success"], numbers["lifetime_stats"]["enqueued_total"]) == (1, 1)


async def test_a_worker_looks_after_queues(house: House) -> None:
    queue = house.queue(Runs())
    await queue.queues.create("dead")
    await queue.queues.create("q", dead_queue="dead", expire_timeout="5s")
    await queue.queues.produce("q", 1)
    await queue.start_retry_processor()
    while not (await queue.queues.items("dead")).items:
        house.clock.advance(1)
        await turn()
    await queue.stop_retry_processor()


async def test_one_queue_that_cannot_be_read_keeps_no_other_from_being_looked_after(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    queue = house.queue()
    for name in ("a", "b"):
        await queue.queues.create(name, expire_timeout="5s")
        await queue.queues.produce(name, 1)
    house.clock.advance(5)

    async def fail(call: Call) -> None:
        if "default@a" in str(call.given):
            raise StoreUnavailable("away")

    assert isinstance(queue.store, FaultyStore)
    with queue.store.faults.before("find", fail, kind=LETTERS):
        assert (await queue.queues.maintain())["expired"] == 1
    assert "queue 'a' could not be looked after: away" in caplog.text
    assert (await queue.queues.items("b")).items[0].reason == "expired"
    assert (await queue.queues.maintain())["expired"] == 1


async def test_produce_and_lease_work_on_while_moves_fail(house: House) -> None:
    queue = house.queue()
    await queue.queues.create("dead")
    await queue.queues.create("q", dead_queue="dead")

    async def refuse(call: Call) -> None:
        if any(getattr(each, "queue", None) == "dead" for each in call.given):
            raise StoreUnavailable("down")

    assert isinstance(queue.store, FaultyStore)
    queue.store.faults.before("write", refuse)
    for number in range(100):
        made = await queue.queues.produce("q", number)
        (lease,) = await queue.queues.lease("q", "w")
        assert lease.item.id == made.id
        assert (await queue.queues.retry("q", made.id, lease.token)).status == "dead"
        await queue.queues.maintain()
        house.clock.advance(1)
    queue.store.faults.clear()
    house.clock.advance(60)
    assert (await queue.queues.maintain())["moved"] == 100


async def test_items_come_in_and_go_out_while_the_primary_store_is_away(house: House) -> None:
    primary = FaultyStore(MemoryStore())
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS, clock=house.clock)
    queue = DeadLetterQueue(store=store, clock=house.clock)
    house.look_after(queue)
    await queue.queues.create("q", retry={"attempts": 3, "cooldown": "0s"})
    await queue.queues.produce("q", "before")
    primary.faults.unavailable()
    for payload in ("done", "left"):
        await queue.queues.produce("q", payload)
    done, left = await queue.queues.lease("q", "w", limit=5)
    assert [done.item.payload, left.item.payload] == ["done", "left"]
    await queue.queues.complete("q", done.item.id, done.token)
    assert (await queue.queues.retry("q", left.item.id, left.token)).failure_count == 1
    primary.faults.clear()
    await store.drain()
    items = (await queue.queues.items("q")).items
    assert [(each.payload, each.failure_count) for each in items] == [("before", 0), ("left", 1)]
    assert (await queue.queues.item("q", done.item.id)).status == "completed"

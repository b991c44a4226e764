"""Definitions of named queues: whatever two processes do at once, no dead queue has a dead queue of its own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import InvalidOption, MahavishnuError, NoSuchQueue
from mahavishnu.queues.rules import QueueDefinition, RetryRule
from mahavishnu.testing import turn
from tests.support.queues import House


@pytest.fixture
def queue(house: House) -> DeadLetterQueue:
    return house.queue()


async def refusal(call: Any) -> str:
    with pytest.raises(InvalidOption) as refused:
        await call
    return str(refused.value)


async def test_a_definition_is_kept(house: House, queue: DeadLetterQueue) -> None:
    await queue.queues.create("dead")
    made = await queue.queues.create("orders", dead_queue="dead", retry={"attempts": 3, "cooldown": "30s"})

    assert (made.dead_queue, made.retry) == ("dead", RetryRule(3, "30s"))
    assert await house.queue().queues.get("orders") == made
    assert [each.name for each in await house.queue().queues.list()] == ["dead", "orders"]
    house.clock.advance(1)
    changed = await queue.queues.update("orders", max_attempts=2)
    assert (changed.dead_queue, changed.max_attempts, changed.created_at) == ("dead", 2, made.created_at)
    await queue.queues.delete("orders")
    with pytest.raises(NoSuchQueue, match="there is no queue 'orders'"):
        await queue.queues.get("orders")
    assert [(each.action, each.outcome) for each in (await queue.audit.list()).items] == [
        ("queue.delete", "done"), ("queue.update", "done"), ("queue.create", "done"), ("queue.create", "done"),
    ]  # fmt: skip


async def test_no_chain_of_dead_queues(queue: DeadLetterQueue) -> None:
    """Neither by who names a dead queue nor by what the dead queue names later."""
    await queue.queues.create("C")
    await queue.queues.create("B", dead_queue="C")

    assert await refusal(queue.queues.create("A", dead_queue="B")) == "dead_queue 'B' cannot have its own dead_queue"
    with pytest.raises(NoSuchQueue):
        await queue.queues.get("A")
    await queue.queues.create("D")
    assert await refusal(queue.queues.update("C", dead_queue="D")) == "dead_queue 'C' cannot have its own dead_queue"
    assert await refusal(queue.queues.create("A", dead_queue="A")) == "dead_queue cannot reference itself"
    assert await refusal(queue.queues.update("B", dead_queue="B")) == "dead_queue cannot reference itself"
    missing = "dead_queue 'Z' does not exist; create it first"
    assert await refusal(queue.queues.create("A", dead_queue="Z")) == missing
    assert await refusal(queue.queues.update("B", dead_queue="Z")) == missing
    assert (await queue.queues.get("B")).dead_queue == "C"


async def test_who_is_no_source_any_more_stands_in_nobodys_way(queue: DeadLetterQueue) -> None:
    for name in ("C", "D"):
        await queue.queues.create(name)
    await queue.queues.create("B", dead_queue="C")
    await queue.queues.update("B", dead_queue="D")
    assert (await queue.queues.update("C", dead_queue="D")).dead_queue == "D"
    await queue.queues.delete("B")
    await queue.queues.update("C", dead_queue=None)
    await queue.queues.create("E")
    assert (await queue.queues.update("D", dead_queue="E")).dead_queue == "E"


@pytest.mark.parametrize("order", range(8))
async def test_two_at_once_make_no_chain(house: House, order: int) -> None:
    """A→B and B→C, in many interleavings: exactly one of the two is refused, and by the words about B."""
    one, other = house.queue(), house.queue()
    for name in ("A", "B", "C"):
        await one.queues.create(name)

    async def late(turns: int, call: Any) -> Any:
        for _ in range(turns):
            await turn()
        return await call

    results = await asyncio.gather(
        late(max(0, order - 3), one.queues.update("A", dead_queue="B")),
        late(max(0, 3 - order), other.queues.update("B", dead_queue="C")),
        return_exceptions=True,
    )
    refused = [each for each in results if isinstance(each, MahavishnuError)]
    assert [str(each) for each in refused] == ["dead_queue 'B' cannot have its own dead_queue"]
    assert sum(isinstance(each, QueueDefinition) for each in results) == 1
    a, b = await one.queues.get("A"), await one.queues.get("B")
    assert (a.dead_queue is None) != (b.dead_queue is None)


async def test_a_process_that_died_before_it_named_a_dead_queue_blocks_it_for_a_minute(house: House) -> None:
    queue = house.queue()
    for name in ("A", "B", "C"):
        await queue.queues.create(name)
    doomed = house.queue()
    await doomed.open()
    definitions = doomed.queues._definitions
    await definitions._mark_target(QueueDefinition("A", house.clock.now(), house.clock.now(), dead_queue="B"))
    words = "dead_queue 'B' cannot have its own dead_queue"
    assert await refusal(queue.queues.update("B", dead_queue="C")) == words
    house.clock.advance(timedelta(minutes=1).total_seconds())
    assert (await queue.queues.update("B", dead_queue="C")).dead_queue == "C"


async def test_a_dead_queue_that_others_have_is_not_deleted(queue: DeadLetterQueue) -> None:
    await queue.queues.create("dead")
    for name in ("a", "b"):
        await queue.queues.create(name, dead_queue="dead")
    words = await refusal(queue.queues.delete("dead"))
    assert "'a', 'b'" in words
    assert "force" in words
    await queue.queues.delete("dead", force=True)
    assert [(each.name, each.dead_queue) for each in await queue.queues.list()] == [("a", None), ("b", None)]


async def test_another_change_is_not_blocked_by_a_dead_queue_that_is_none_any_more(
    queue: DeadLetterQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await queue.queues.create("dead")
    await queue.queues.create("orders", dead_queue="dead")
    records = queue.queues._definitions._records
    await records.remove([await queue.queues.get("dead")])

    assert (await queue.queues.update("orders", max_attempts=3)).max_attempts == 3
    assert "dead_queue 'dead' does not exist" in caplog.text
    assert "does not exist" in await refusal(queue.queues.update("orders", dead_queue="dead", max_attempts=4))


async def test_a_name_is_taken_once(queue: DeadLetterQueue) -> None:
    results = await asyncio.gather(*(queue.queues.create("q") for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(each, QueueDefinition) for each in results) == 1
    assert "queue 'q' exists already" in await refusal(queue.queues.create("q"))


async def test_each_namespace_has_its_own_queues(house: House, queue: DeadLetterQueue) -> None:
    await queue.queues.create("q", max_attempts=1)
    other = house.queue(namespace="eu")
    assert await other.queues.list() == []
    await other.queues.create("q", max_attempts=2)
    assert (await queue.queues.get("q")).max_attempts == 1
    assert (await queue.in_namespace("eu").queues.get("q")).max_attempts == 2

"""Retries and the circuit breaker of their adapter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue, DeadLetterStatus
from mahavishnu.engine.breaker import Breakers
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.letter_parts import NO_ADAPTER
from mahavishnu.model.query import letter_query
from mahavishnu.stores.kinds import LETTERS
from tests.support.queues import Gate, House, Runs, fill, letter_of, sound


def opened(queue: DeadLetterQueue, adapter: str = NO_ADAPTER) -> None:
    for _ in range(5):
        queue.context.breakers.record_failure(adapter, "network", queue.clock.monotonic())


async def test_an_open_circuit_costs_no_budget_and_one_success_opens_the_way(any_house: House) -> None:
    queue = any_house.queue(runs := Runs(), concurrency=100)
    opened(queue)
    names = await fill(queue, 100)
    for _ in range(5):
        await queue.run_due()
        any_house.clock.advance(10)
    assert runs.calls == []
    letters = [await letter_of(queue, name) for name in names]
    assert {(letter.status, letter.retry_count, letter.total_attempts) for letter in letters} == {("pending", 0, 0)}
    any_house.clock.advance(10)
    await queue.run_due()
    assert len(runs.calls) == 100
    assert (await sound(queue))["lifetime_stats"]["retry_success"] == 100


async def test_no_other_letter_runs_during_a_probe(any_house: House) -> None:
    queue = any_house.queue(gate := Gate())
    opened(queue)
    await fill(queue, 100)
    any_house.clock.advance(60)
    running = asyncio.create_task(queue.run_due())
    await gate.reached(1)
    await queue.run_due()  # another look finds nothing to claim
    assert len(gate.under_way) == 1
    letters = await queue.letters.find(letter_query(status="retrying"))
    assert len(letters.items) == 1
    gate.open()
    await running


async def test_a_failed_probe_opens_the_circuit_again(house: House) -> None:
    queue = house.queue(runs := Runs(ConnectionError("down")))
    opened(queue)
    await fill(queue, 10)
    house.clock.advance(60)
    await queue.run_due()
    house.clock.advance(59)
    await queue.run_due()
    assert len(runs.calls) == 1


async def test_faults_of_the_letter_never_open_the_circuit(house: House) -> None:
    queue = house.queue(runs := Runs(ValueError("no such field")))
    await fill(queue, 50, max_retries=1)
    await queue.run_due()
    assert len(runs.calls) == 50
    assert (await queue.get_statistics())["circuit_breakers"].get(NO_ADAPTER, {"state": "closed"})["state"] == "closed"


async def test_each_adapter_has_its_own_circuit(house: House) -> None:
    queue = house.queue(runs := Runs())
    opened(queue, "x")
    await queue.enqueue("at-x", {"adapter": "x"}, [], "down", "immediate")
    await queue.enqueue("at-y", {"adapter": "y"}, [], "down", "immediate")
    await queue.run_due()
    assert runs.tasks == [{"adapter": "y"}]
    report = (await queue.get_statistics())["circuit_breakers"]
    assert report["x"]["state"] == "open"
    assert (await letter_of(queue, "at-x")).due_at is not None


async def test_an_open_circuit_refuses_a_manual_retry_unless_forced(any_house: House) -> None:
    queue = any_house.queue(runs := Runs())
    await fill(queue, 1)
    opened(queue)
    answer = await queue.retry_task("wf_00000")
    assert answer["success"] is False
    assert "circuit open" in answer["error"]
    assert (await letter_of(queue, "wf_00000")).total_attempts == 0
    assert (await queue.retry_task("wf_00000", force=True))["success"] is True
    assert len(runs.calls) == 1


async def test_a_probe_that_could_not_be_claimed_lets_another_letter_probe(house: House) -> None:
    queue = house.queue(Runs())
    await fill(queue, 1)
    opened(queue)
    house.clock.advance(60)
    with house.faults.unavailable("write", kind=LETTERS), pytest.raises(StoreUnavailable):
        await queue.retry_task("wf_00000")
    assert (await queue.retry_task("wf_00000"))["success"] is True


async def test_a_forced_retry_that_is_refused_leaves_the_probe_alone(house: House) -> None:
    queue = house.queue(Runs())
    await queue.enqueue("wf_1", {}, [], "down")
    await queue.letters.resolve("wf_1")
    opened(queue)
    house.clock.advance(60)
    assert queue.context.breakers.acquire(NO_ADAPTER, house.clock.monotonic()) is None  # somebody else probes
    assert (await queue.retry_task("wf_1", force=True))["success"] is False
    assert queue.context.breakers.acquire(NO_ADAPTER, house.clock.monotonic()) is not None


async def test_a_dependency_that_cannot_be_looked_up_does_not_keep_the_probe(house: House) -> None:
    queue = house.queue(runs := Runs())
    await queue.enqueue("wf_1", {}, [], "down", "immediate", depends_on=["other"])
    opened(queue)
    house.clock.advance(60)
    with house.faults.unavailable("get", kind=LETTERS):
        await queue.run_due()
    house.clock.advance(minutes=10)  # its lease runs out
    await queue.run_due()
    assert len(runs.calls) == 1
    assert (await letter_of(queue, "wf_1")).status is DeadLetterStatus.COMPLETED


async def test_limits_can_be_changed_while_a_circuit_is_open(house: House) -> None:
    queue = house.queue(Runs())
    opened(queue)
    queue.configure(breakers=Breakers(5, cooloff_seconds=1))
    house.clock.advance(1)
    report: dict[str, Any] = (await queue.get_statistics())["circuit_breakers"]
    assert report[NO_ADAPTER]["state"] == "half_open"

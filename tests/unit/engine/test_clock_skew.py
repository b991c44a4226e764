"""Clocks that jump, and clocks that do not agree."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from tests.unit.queues import Gate, House, Runs, fill, letter_of, pass_time, settle, sound


async def test_set_back_during_a_run_nothing_is_run_twice(house: House) -> None:
    queue = house.queue(gate := Gate())
    await fill(queue, 1)
    await queue.start_retry_processor()
    await gate.reached()
    house.clock.set(house.clock.now() - timedelta(hours=1))
    await pass_time(house.clock, 120, sleepers=4)
    gate.open()
    await settle()
    house.clock.set(house.clock.now() + timedelta(hours=1))
    await pass_time(house.clock, 120, sleepers=4)
    letter = await letter_of(queue, "wf_00000")
    assert (letter.status, len(gate.under_way), letter.total_attempts) == ("completed", 1, 1)
    assert letter.updated_at >= letter.created_at
    await sound(queue)


async def test_set_forward_only_what_is_due_is_run_and_once(house: House) -> None:
    queue = house.queue(runs := Runs())
    await queue.enqueue("soon", "soon", [], "connection refused")
    await queue.enqueue("later", "later", [], "connection refused", "linear")
    await queue.start_retry_processor()
    await house.clock.sleeping(4)
    house.clock.set(house.clock.now() + timedelta(minutes=2))
    await pass_time(house.clock, 60, sleepers=4)
    assert runs.tasks == ["soon"]


async def test_a_lease_is_not_taken_by_a_clock_that_is_a_little_ahead(any_house: House) -> None:
    slow = any_house.queue(gate := Gate(), lease_seconds=60)
    await fill(slow, 1)
    running = asyncio.create_task(slow.run_due())
    await gate.reached()
    ahead = any_house.queue(runs := Runs(), skew_seconds=30)
    any_house.clock.set(any_house.clock.now() + timedelta(seconds=89))
    assert await ahead.run_due() == 0
    any_house.clock.set(any_house.clock.now() + timedelta(seconds=1))
    assert await ahead.run_due() == 1
    assert len(runs.calls) == 1
    gate.open()
    await running
    assert (await sound(ahead))["lifetime_stats"]["retry_success"] == 1

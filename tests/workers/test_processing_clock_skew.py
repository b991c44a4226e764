"""Clocks that jump, and clocks that do not agree."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.testing import ManualClock
from tests.support.queues import Gate, House, Runs, fill, letter_of, pass_time, settle, sound


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


@pytest.mark.parametrize("minutes", [10, -10])
async def test_whatever_the_clock_says_a_living_owner_keeps_its_letter(any_house: House, minutes: int) -> None:
    owner = any_house.queue(gate := Gate(), lease_seconds=60)
    await fill(owner, 1)
    running = asyncio.create_task(owner.run_due())
    await gate.reached()
    other = any_house.queue(runs := Runs(), skew_seconds=30)
    for _ in range(6):
        with ahead(any_house.clock, minutes):
            assert await other.run_due() == 0
        await pass_time(any_house.clock, 60)
    assert (runs.calls, (await letter_of(owner, "wf_00000")).recoveries) == ([], 0)
    gate.open()
    await running
    assert (await sound(other))["lifetime_stats"]["retry_success"] == 1


async def test_a_letter_is_taken_from_a_dead_owner_once_it_was_watched_for_the_length_of_its_lease(
    any_house: House,
) -> None:
    dead = any_house.queue(gate := Gate(), lease_seconds=60)
    await fill(dead, 1)
    running = asyncio.create_task(dead.run_due())
    await gate.reached()
    any_house.kill(dead)
    other = any_house.queue(runs := Runs(), skew_seconds=30)
    any_house.clock.advance(90)
    assert await other.run_due() == 0  # it sees the lease for the first time
    any_house.clock.advance(59)
    assert await other.run_due() == 0
    any_house.clock.advance(1)
    assert await other.run_due() == 1
    assert len(runs.calls) == 1
    running.cancel()
    assert (await sound(other))["lifetime_stats"]["retry_success"] == 1


async def test_a_worker_watches_leases_before_they_end(house: House) -> None:
    worker = house.queue(runs := Runs(), lease_seconds=60, skew_seconds=0)
    await worker.start_retry_processor()
    dead = house.queue(gate := Gate(), lease_seconds=60)
    await fill(dead, 1, retry_policy="never")
    running = asyncio.create_task(dead.retry_task("wf_00000"))
    await gate.reached()
    house.kill(dead)
    await pass_time(house.clock, 80, sleepers=4)  # a lease, and what is between two looks
    running.cancel()
    assert (await letter_of(worker, "wf_00000")).tallies.claims_recovered == 1
    assert runs.calls == []  # nobody but a person runs it


async def test_who_lives_too_short_to_watch_takes_what_ended_an_hour_ago(any_house: House) -> None:
    dead = any_house.queue(gate := Gate(), lease_seconds=60)
    await fill(dead, 1)
    running = asyncio.create_task(dead.run_due())
    await gate.reached()
    any_house.kill(dead)
    any_house.clock.advance(3600)
    assert await any_house.queue(Runs()).run_due() == 0
    any_house.clock.advance(60 + 30)
    assert await any_house.queue(Runs()).run_due() == 1
    running.cancel()


async def test_an_owner_whose_clock_is_set_back_goes_on_renewing(any_house: House) -> None:
    owner = any_house.queue(gate := Gate(), lease_seconds=60)
    await fill(owner, 1)
    running = asyncio.create_task(owner.run_due())
    await gate.reached()
    before = (await letter_of(owner, "wf_00000")).due_at
    any_house.clock.set(any_house.clock.now() - timedelta(minutes=10))
    await pass_time(any_house.clock, 40)
    await until_renewed(owner, before)
    gate.open()
    await running


async def until_renewed(owner: DeadLetterQueue, before: datetime | None) -> None:
    async with asyncio.timeout(10):
        while (await letter_of(owner, "wf_00000")).due_at == before:
            await settle(1)


@contextmanager
def ahead(clock: ManualClock, minutes: float) -> Iterator[None]:
    """Have the clock show another time for a while: as a machine whose clock is wrong reads it."""
    clock.set(clock.now() + timedelta(minutes=minutes))
    yield
    clock.set(clock.now() - timedelta(minutes=minutes))

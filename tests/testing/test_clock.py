from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import InvalidInput
from mahavishnu.testing import START, ManualClock, turn


async def test_it_is_a_clock_that_stands_still() -> None:
    clock: Clock = ManualClock()
    assert (clock.now(), clock.monotonic()) == (START, 0.0)
    await turn()
    assert (clock.now(), clock.monotonic()) == (START, 0.0)


def test_starts_where_it_is_told() -> None:
    there = datetime(2030, 5, 6, 7, 8, 9, 123456, timezone(timedelta(hours=2)))
    assert ManualClock(there).now() == datetime(2030, 5, 6, 5, 8, 9, 123000, UTC)
    assert ManualClock(there).now().tzinfo is UTC
    with pytest.raises(InvalidInput, match="time zone"):
        ManualClock(datetime(2030, 5, 6))  # noqa: DTZ001


def test_advances_by_seconds_and_timedeltas_exactly() -> None:
    clock = ManualClock()
    for _ in range(10):
        clock.advance(0.1)
    assert (clock.now(), clock.monotonic()) == (START + timedelta(seconds=1), 1.0)
    clock.advance(timedelta(days=1))
    clock.advance(minutes=1, hours=2)
    assert clock.now() == START + timedelta(days=1, hours=2, seconds=61)
    clock.advance()
    assert clock.monotonic() == timedelta(days=1, hours=2, seconds=61).total_seconds()


def test_parts_of_milliseconds_add_up() -> None:
    clock = ManualClock()
    clock.advance(0.0006)
    assert clock.now() == START
    clock.advance(0.0006)
    assert clock.now() == START + timedelta(milliseconds=1)


def test_time_does_not_pass_backwards() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="use set"):
        clock.advance(-1)
    assert clock.monotonic() == 0


async def test_the_wall_clock_jumps_and_nothing_else() -> None:
    clock = ManualClock()
    sleeper = asyncio.ensure_future(clock.sleep(10))
    await clock.sleeping()
    clock.advance(5)
    clock.set(START - timedelta(days=1))
    assert (clock.now(), clock.monotonic()) == (START - timedelta(days=1), 5.0)
    clock.set(START + timedelta(days=9))
    await turn()
    assert not sleeper.done()
    clock.advance(5)
    await sleeper
    assert clock.now() == START + timedelta(days=9, seconds=5)
    with pytest.raises(InvalidInput):
        clock.set(datetime(2030, 5, 6))  # noqa: DTZ001


async def test_a_sleeper_wakes_when_its_time_has_come_and_not_before() -> None:
    clock = ManualClock()
    sleeper = asyncio.ensure_future(clock.sleep(10))
    assert await clock.sleeping() == 10
    clock.advance(9.999)
    await turn()
    assert not sleeper.done()
    clock.advance(0.001)
    await sleeper
    assert clock.sleepers == 0


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock = ManualClock()
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("c", 3), ("a", 1), ("b1", 2), ("d", 4), ("b2", 2), ("b3", 2.0)):
            group.create_task(sleep(name, seconds))
        await clock.sleeping(6)
        clock.advance(3)
        await turn()
        assert woken == ["a", "b1", "b2", "b3", "c"]
        clock.advance(1)
    assert woken[-1] == "d"


async def test_an_equal_time_asked_for_later_wakes_later() -> None:
    clock = ManualClock()
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleep("first", 10))
        await clock.sleeping()
        clock.advance(4)
        group.create_task(sleep("second", 6))
        await clock.sleeping(2)
        clock.advance(6)
    assert woken == ["first", "second"]


async def test_no_sleep_only_lets_others_run() -> None:
    clock = ManualClock()
    other = asyncio.ensure_future(turn())
    await clock.sleep(0)
    await clock.sleep(-1)
    assert other.done()
    assert clock.monotonic() == 0


async def test_sleeping_tells_when_a_loop_has_come_to_rest() -> None:
    clock = ManualClock()
    ticks: list[datetime] = []

    async def loop() -> None:
        while True:
            await turn()
            ticks.append(clock.now())
            await clock.sleep(30)

    task = asyncio.ensure_future(loop())
    for number in range(3):
        assert await clock.sleeping() == 30
        assert len(ticks) == number + 1
        clock.advance(30)
    task.cancel()
    assert ticks == [START + timedelta(seconds=30 * number) for number in range(3)]


async def test_sleeping_waits_for_as_many_as_asked() -> None:
    clock = ManualClock()
    watcher = asyncio.ensure_future(clock.sleeping(2))
    first = asyncio.ensure_future(clock.sleep(7))
    await clock.sleeping()
    await turn()
    assert not watcher.done()
    second = asyncio.ensure_future(clock.sleep(5))
    assert await watcher == 5
    clock.advance(7)
    await asyncio.gather(first, second)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    sleepers = [asyncio.ensure_future(clock.sleep(seconds)) for seconds in (3, 1, 2)]
    await clock.sleeping(3)
    sleepers[1].cancel()
    await asyncio.gather(sleepers[1], return_exceptions=True)
    assert clock.sleepers == 2
    assert await clock.sleeping() == 2
    clock.advance(3)
    await asyncio.gather(sleepers[0], sleepers[2])


async def test_a_sleeper_cancelled_as_it_wakes_does_no_harm() -> None:
    clock = ManualClock()
    sleeper = asyncio.ensure_future(clock.sleep(1))
    await clock.sleeping()
    sleeper.cancel()
    clock.advance(1)
    assert isinstance((await asyncio.gather(sleeper, return_exceptions=True))[0], asyncio.CancelledError)
    assert clock.sleepers == 0


async def test_a_cancelled_watcher_is_forgotten() -> None:
    clock = ManualClock()
    watcher = asyncio.ensure_future(clock.sleeping())
    await turn()
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)
    sleeper = asyncio.ensure_future(clock.sleep(1))
    assert await clock.sleeping() == 1
    clock.advance(1)
    await sleeper


async def test_turn_lets_every_ready_task_take_a_step() -> None:
    steps: list[int] = []

    async def walk(number: int) -> None:
        for _ in range(2):
            steps.append(number)
            await turn()

    tasks = [asyncio.ensure_future(walk(number)) for number in (1, 2)]
    await turn()
    assert steps == [1, 2]
    await asyncio.gather(*tasks)
    assert sorted(steps) == [1, 1, 2, 2]


def test_says_what_it_is() -> None:
    assert repr(ManualClock()) == "ManualClock(2026-01-01T00:00:00+00:00, 0 sleeping)"

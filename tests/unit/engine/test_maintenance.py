"""Chores: done now and then, each in its own time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mahavishnu.engine.background import PeriodicTask, PeriodicTasks
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.testing import ManualClock
from tests.unit.queues import settle


async def test_each_at_once_then_in_its_own_time() -> None:
    clock, done = ManualClock(), []

    async def note(name: str) -> None:
        done.append((name, clock.monotonic()))

    seconds = {"quick": 5.0, "slow": 20.0}
    keeping = PeriodicTasks(
        clock,
        PeriodicTask("quick", lambda: note("quick"), lambda: seconds["quick"]),
        PeriodicTask("slow", lambda: note("slow"), lambda: seconds["slow"]),
    )
    keeping.start()
    keeping.start()
    for _ in range(4):
        await clock.sleeping(2)
        clock.advance(5)
    await clock.sleeping(2)
    assert [at for name, at in done if name == "quick"] == [0, 5, 10, 15, 20]
    assert [at for name, at in done if name == "slow"] == [0, 20]
    seconds["quick"] = 100.0  # asked each time
    clock.advance(5)
    await settle()
    clock.advance(50)
    await settle()
    assert [at for name, at in done if name == "quick"][-1] == 25
    await keeping.stop()
    assert clock.sleepers == 0


async def test_woken_it_is_done_at_once() -> None:
    clock, count = ManualClock(), []

    async def do() -> None:
        count.append(1)

    chore = PeriodicTask("one", do, lambda: 1000.0)
    keeping = PeriodicTasks(clock, chore)
    keeping.start()
    await clock.sleeping()
    chore.wake()
    await settle()
    assert len(count) == 2
    await keeping.stop()
    chore.wake()
    await settle()
    assert len(count) == 2


async def test_one_that_hangs_or_fails_disturbs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    clock, count = ManualClock(), []
    never = asyncio.Event()

    async def well() -> None:
        count.append(1)

    async def badly() -> None:
        raise RuntimeError("oops") if len(count) < 3 else StoreUnavailable("away")

    keeping = PeriodicTasks(
        clock,
        PeriodicTask("hangs", never.wait, lambda: 1.0),
        PeriodicTask("fails", badly, lambda: 1.0),
        PeriodicTask("works", well, lambda: 1.0),
    )
    with caplog.at_level(logging.WARNING):
        keeping.start()
        for _ in range(5):
            await clock.sleeping(2)
            clock.advance(1)
        await clock.sleeping(2)
    assert len(count) == 6
    assert 0 < sum("fails went wrong" in message for message in caplog.messages) <= 3  # an outage is no news
    await keeping.stop()


def test_a_chore_goes_on_in_another_event_loop() -> None:
    count: list[int] = []

    async def do() -> None:
        count.append(1)

    chore = PeriodicTask("one", do, lambda: 1000.0)

    async def live() -> None:
        keeping = PeriodicTasks(clock := ManualClock(), chore)
        keeping.start()
        await clock.sleeping()
        await settle()
        await keeping.stop()

    asyncio.run(live())
    asyncio.run(live())
    assert len(count) == 2

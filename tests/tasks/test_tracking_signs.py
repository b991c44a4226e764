"""Long runs give signs of life: one that lives is left alone, one whose process died goes on elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RetryPolicy
from mahavishnu.stores.scoped import NamespaceRecords
from mahavishnu.tasks import tracking as signs
from mahavishnu.tasks.rules import sign
from mahavishnu.tasks.staleness_rules import LIVES, StalenessRules
from mahavishnu.tasks.stuck import StalenessCycle
from mahavishnu.tasks.task import TaskRecord, TaskState
from mahavishnu.tasks.tracking import RunSigns
from tests.support.queues import House

LONG = 31 * 60.0  # longer than a run may be in its state


class Process:
    """A process with a workflow of two steps; the second one waits if it is told to."""

    def __init__(self, house: House, effects: list[str], *, hangs: bool = False, runs: int = 1) -> None:
        self.app = app = house.app()
        self.reached, self.goes_on = asyncio.Event(), asyncio.Event()
        self.begun = 0

        def charge() -> int:
            effects.append("charge")
            return 7

        async def ship(paid: int) -> str:
            if hangs:
                self.begun += 1
                if self.begun == runs:
                    self.reached.set()
                await self.goes_on.wait()
            effects.append(f"ship {paid}")
            return "done"

        @app.workflow(name="order", track=True)
        async def order(number: int) -> str:
            paid = await app.lifecycle.step("charge", charge)
            return await app.lifecycle.step("ship", ship, paid)

        self.order = order


async def task_of(app: MahavishnuApp) -> TaskRecord:
    (task,) = (await app.lifecycle.list("all")).items
    return task


async def letters_of(app: MahavishnuApp) -> list[DeadLetter]:
    return list(await app.dlq.list_tasks())


async def test_the_run_of_a_dead_process_goes_on_elsewhere(any_house: House) -> None:
    """Nobody has to say that it died: another worker takes it on after the steps that have ended."""
    effects: list[str] = []
    here, there = Process(any_house, effects, hangs=True), Process(any_house, effects)
    dead = asyncio.create_task(here.order(1))
    await here.reached.wait()  # from here on it says nothing any more: no sign is written
    cycle = StalenessCycle(there.app.dlq.context)
    any_house.clock.advance(LONG)
    assert await cycle.run() == 0  # its clock may be another one: a silence has to be seen
    assert (await task_of(there.app)).state is TaskState.STEPS_IN_PROCESS
    any_house.clock.advance(LIVES.total_seconds() + 1)
    assert await cycle.run() == 1
    (letter,) = await letters_of(there.app)
    assert letter.retry_policy != RetryPolicy.NEVER

    any_house.clock.advance(3600)
    await there.app.dlq.run_due()

    assert effects == ["charge", "ship 7"]
    assert (await task_of(there.app)).state is TaskState.COMPLETE
    assert await letters_of(there.app) == [] or not (await letters_of(there.app))[0].is_open
    dead.cancel()
    await asyncio.gather(dead, return_exceptions=True)


async def test_one_look_takes_on_more_dead_runs_than_a_batch_has(any_house: House) -> None:
    """All are watched from the first look on, and while they may live they keep nothing else from being found."""
    here, there = Process(any_house, [], hangs=True, runs=5), Process(any_house, [])
    dead = [asyncio.create_task(here.order(number)) for number in range(5)]
    await here.reached.wait()
    of, context = there.app.lifecycle, there.app.dlq.context
    waiting = await of.create("pay")
    for state in ("initializing", "waiting_for_retry"):
        await of.transition(waiting.task_id, state)
    context.set_rules(replace(context.rules(StalenessRules), batch_size=2))
    cycle = StalenessCycle(context)
    any_house.clock.advance(LONG)
    assert await cycle.run() == 1
    assert (await of.get(waiting.task_id)).state is TaskState.ERROR
    any_house.clock.advance(LIVES.total_seconds() + 1)
    assert await cycle.run() == 5
    for run in dead:
        run.cancel()
    await asyncio.gather(*dead, return_exceptions=True)


async def test_a_long_run_that_lives_is_never_moved(any_house: House) -> None:
    """However long it takes, and although others have written its record meanwhile."""
    effects: list[str] = []
    here, there = Process(any_house, effects, hangs=True), Process(any_house, effects)
    running = asyncio.create_task(here.order(1))
    await here.reached.wait()
    cycle = StalenessCycle(there.app.dlq.context)
    for _ in range(60):
        any_house.clock.advance(61)
        task = await task_of(there.app)
        await there.app.lifecycle.staleness.mark(task, f"seen at {any_house.clock.now()}", lambda task: True)
        await here.app.lifecycle.tracking.signs.renew()
        assert await cycle.run() == 0
    here.goes_on.set()
    assert await running == "done"
    assert effects == ["charge", "ship 7"]
    assert (await task_of(there.app)).state is TaskState.COMPLETE
    assert await letters_of(there.app) == []


async def test_a_run_whose_clock_is_behind_is_not_taken_for_dead(any_house: House) -> None:
    """Its signs look old, but they come: who looks again and again sees that."""
    here, there = Process(any_house, [], hangs=True), Process(any_house, [])
    running = asyncio.create_task(here.order(1))
    await here.reached.wait()
    cycle = StalenessCycle(there.app.dlq.context)
    any_house.clock.advance(2 * LONG)
    for _ in range(12):
        any_house.clock.advance(61)
        task = await task_of(there.app)
        old = any_house.clock.now() - timedelta(hours=1)
        await there.app.lifecycle.change(task.task_id, lambda task, old=old: sign(task, now=old))  # type: ignore[misc]
        assert await cycle.run() == 0
    assert (await task_of(there.app)).state is TaskState.STEPS_IN_PROCESS
    here.goes_on.set()
    assert await running == "done"


async def test_signs_of_all_runs_are_one_write(any_house: House) -> None:
    """And there is none of a run that began, or reported a step, not long ago."""
    here = Process(any_house, [], hangs=True, runs=20)
    running = [asyncio.create_task(here.order(number)) for number in range(20)]
    await here.reached.wait()
    sizes: list[int] = []
    write = NamespaceRecords.write

    async def counted(self: Any, records: Any) -> Any:
        sizes.append(len(records))
        return await write(self, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NamespaceRecords, "write", counted)
        any_house.clock.advance(59)
        await here.app.lifecycle.tracking.signs.renew()
        assert sizes == []
        any_house.clock.advance(2)
        await here.app.lifecycle.tracking.signs.renew()
        assert sizes == [20]
    here.goes_on.set()
    assert await asyncio.gather(*running) == ["done"] * 20


async def test_a_timer_writes_the_signs(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, as long as the run lasts."""
    monkeypatch.setattr(signs, "SIGN", timedelta())
    renew, renewed = RunSigns.renew, asyncio.Queue[None]()

    async def heard(self: RunSigns) -> None:
        await renew(self)
        renewed.put_nowait(None)

    monkeypatch.setattr(RunSigns, "renew", heard)
    here = Process(house, [], hangs=True)
    running = asyncio.create_task(here.order(1))
    await here.reached.wait()
    house.clock.advance(61)
    while (await task_of(here.app)).alive_at != house.clock.now():
        await renewed.get()
    here.goes_on.set()
    assert await running == "done"

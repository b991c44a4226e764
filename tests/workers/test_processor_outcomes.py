"""A run's place is free when the run has ended: its outcome is written beside the next runs, and is never forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mahavishnu.classify.assess import Assessment
from mahavishnu.model import lifecycle
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.stores.base import write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import make_letter, turn
from mahavishnu.testing.faults import Call
from mahavishnu.workers import processor as module
from tests.support.queues import Gate, Runs, until
from tests.workers.test_processor import House, assess


def has_outcomes(call: Call) -> bool:
    letters = [each for each in call.given if isinstance(each, DeadLetter)]
    return any(each.status is not DeadLetterStatus.RETRYING and each.total_attempts for each in letters)


class SlowOutcomes:
    """Holds every write of outcomes until the test lets them go; claims and renewals pass."""

    def __init__(self, house: House) -> None:
        self.held = 0
        self._go = asyncio.Event()
        house.store.faults.before("write", self._hold, kind=LETTERS)

    async def _hold(self, call: Call) -> None:
        if has_outcomes(call):
            self.held += 1
            await self._go.wait()

    def release(self) -> None:
        self._go.set()


async def rest() -> None:
    for _ in range(100):
        await turn()


async def test_the_next_run_starts_while_the_outcome_of_the_last_one_is_written() -> None:
    house = House(ran := Runs(), concurrency=1, interval_seconds=3600)
    outcomes = SlowOutcomes(house)
    await house.has(*(make_letter(task_id=name) for name in "abc"))
    house.processor.start()
    await until(lambda: len(ran.calls) == 3)
    assert EventName.RETRY_SUCCEEDED not in house.told()
    outcomes.release()
    await house.processor.stop()
    assert house.told().count(EventName.RETRY_SUCCEEDED) == 3


async def test_no_more_runs_at_once_than_there_are_places() -> None:
    running = most = 0

    async def run(task: Any, repos: list[str]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await turn()
        running -= 1

    house = House(run, concurrency=3, interval_seconds=3600)
    outcomes = SlowOutcomes(house)
    await house.has(*(make_letter(task_id=f"{number}") for number in range(30)))
    house.processor.start()
    await rest()
    outcomes.release()
    await until(lambda: house.told().count(EventName.RETRY_SUCCEEDED) == 30)
    await house.processor.stop()
    assert most == 3


@pytest.mark.parametrize("most", [1, 4])
async def test_letters_go_on_when_outcomes_are_written_although_nothing_else_wakes_the_worker(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be claimed while too many outcomes are on their way: their end is the only sign that it can."""
    monkeypatch.setattr(module, "_MOST_UNWRITTEN", most)
    house = House(ran := Runs(), concurrency=2, interval_seconds=3600)
    outcomes = SlowOutcomes(house)
    await house.has(*(make_letter(task_id=f"{number}") for number in range(40)))
    house.processor.start()
    await rest()
    assert 2 * most <= len(ran.calls) <= 2 * most + 2, "so many may be unwritten"
    outcomes.release()
    await until(lambda: house.told().count(EventName.RETRY_SUCCEEDED) == 40)
    await house.processor.stop()


@pytest.mark.parametrize("runs_in", ["cycle", "background"])
async def test_a_cycle_and_a_stop_wait_for_outcomes(runs_in: str) -> None:
    house = House(ran := Runs())
    outcomes = SlowOutcomes(house)
    await house.has(make_letter(task_id="a"))
    if runs_in == "cycle":
        waiting: asyncio.Task[object] = asyncio.create_task(house.processor.cycle())
        await until(lambda: ran.calls)
    else:
        house.processor.start()
        await until(lambda: ran.calls)
        waiting = asyncio.create_task(house.processor.stop())
    await rest()
    assert not waiting.done()
    assert house.processor.is_busy
    outcomes.release()
    await waiting
    assert (await house.current("a")).status == "completed"
    assert not house.processor.is_busy


async def test_the_lease_is_renewed_until_the_outcome_is_written() -> None:
    house = House(ran := Runs(), interval_seconds=3600)
    outcomes = SlowOutcomes(house)
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await until(lambda: ran.calls and outcomes.held)
    for _ in range(20):
        await house.clock.sleeping(2)
        house.clock.advance(50)
        await rest()
    letter = await house.current("a")
    assert letter.due_at is not None
    assert letter.due_at > house.clock.now()
    outcomes.release()
    await house.processor.stop()
    assert (await house.current("a")).status == "completed"
    assert house.processor.counts["stale_claims"] == 0


async def test_a_letter_that_waits_for_an_outcome_is_looked_at_again_soon() -> None:
    """It is given back meanwhile: the run of the other one may have closed it."""
    house = House(ran := Runs(), concurrency=1, interval_seconds=3600)
    await house.has(make_letter(task_id="a", task="a", priority=5))
    await house.has(make_letter(task_id="b", task="b", depends_on=("a",)))
    outcomes = SlowOutcomes(house)
    house.processor.start()
    await rest()
    assert ran.tasks == ["a"]
    outcomes.release()
    await until(lambda: EventName.RELEASED in house.told())
    await rest()
    house.clock.advance(1)
    await until(lambda: len(ran.calls) == 2)
    assert ran.tasks == ["a", "b"]
    await house.processor.stop()


async def test_a_change_that_stumbles_gives_up_the_lease_of_its_letter_only() -> None:
    house = House(ran := Runs(), concurrency=1, interval_seconds=3600)
    await house.has(make_letter(task_id="a"), make_letter(task_id="b"))

    def stumble(*given: object) -> DeadLetter:
        house.processor.attempts._with_outcome = right  # type: ignore[method-assign]
        raise RuntimeError("a mistake of ours")

    right = house.processor.attempts._with_outcome
    house.processor.attempts._with_outcome = stumble  # type: ignore[method-assign,assignment]
    house.processor.start()
    await until(lambda: EventName.RETRY_SUCCEEDED in house.told())
    await until(lambda: not house.processor.is_busy)
    assert len(ran.calls) == 2
    await house.processor.stop()
    assert sorted([(await house.current(name)).status for name in "ab"]) == ["completed", "retrying"]


# --- time limits of runs


async def test_each_run_is_ended_at_its_own_limit_and_no_sooner() -> None:
    house = House(gate := Gate(), run_seconds=5, interval_seconds=3600)
    house.processor.start()
    for name in "ab":
        await house.has(make_letter(task_id=name))
        house.processor.wake()
        await gate.reached("ab".index(name) + 1)
        await rest()
        house.clock.advance(2)
    await rest()
    house.clock.advance(0.9)
    await rest()
    assert EventName.RETRY_FAILED not in house.told()
    for ended in (1, 2):
        house.clock.advance(0.1 if ended == 1 else 2)
        await until(lambda ended=ended: house.told().count(EventName.RETRY_FAILED) == ended)  # type: ignore[misc]
    assert (await house.current("a")).last_error == "the run took longer than 5 seconds"
    await house.processor.stop()


async def test_a_renewal_that_hangs_keeps_no_run_from_being_ended_in_time() -> None:
    house = House(gate := Gate(), run_seconds=200, interval_seconds=3600)
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await gate.reached()
    renewal = house.store.faults.hold("write", kind=LETTERS, times=1)
    for _ in range(3):
        await house.clock.sleeping(1)
        house.clock.advance(50)
        await rest()
    await renewal.wait_for_call()
    house.clock.advance(50)
    await until(lambda: EventName.RETRY_FAILED in house.told())
    renewal.release()
    await house.processor.stop()


async def test_the_limit_is_that_of_the_workflow_and_not_of_the_classifier() -> None:
    house, classifying = House(Runs(ConnectionError("down")), run_seconds=5, interval_seconds=3600), asyncio.Event()

    async def classify(error: BaseException | str, at: datetime, letter: DeadLetter) -> Assessment:
        classifying.set()
        await house.clock.sleep(6)
        return await assess(error, at, letter)

    house.processor.attempts.assess = classify
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await classifying.wait()
    for _ in range(2):
        await rest()
        house.clock.advance(5)
    await until(lambda: EventName.RETRY_FAILED in house.told())
    await house.processor.stop()
    assert (await house.current("a")).last_error == "down"


async def test_a_limit_that_was_lowered_holds_for_the_next_run() -> None:
    house = House(gate := Gate(), run_seconds=None, interval_seconds=3600)
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await gate.reached()
    house.context.set_limits(replace(house.context.limits, run_seconds=3))
    await house.has(make_letter(task_id="b"))
    house.processor.wake()
    await gate.reached(2)
    await rest()
    house.clock.advance(3)
    await until(lambda: EventName.RETRY_FAILED in house.told())
    await rest()
    assert (await house.current("a")).status == "retrying"
    gate.open()
    await house.processor.stop()


async def test_a_run_that_ends_as_its_letter_is_lost_is_no_outcome_and_ends_nothing_else() -> None:
    house = House(gate := Gate(), interval_seconds=3600)
    await house.has(make_letter(task_id="a"))
    house.processor.start()
    await gate.reached()
    letter, now = await house.current("a"), house.clock.now()
    taken = lifecycle.claim(
        letter, owner="other", token="x", until=now + timedelta(hours=2), now=now + timedelta(hours=1)
    )
    assert await write_one(house.letters, taken) is not None
    for _ in range(4):
        await house.clock.sleeping(1)
        house.clock.advance(50)
        await rest()
    await until(lambda: EventName.STALE_CLAIM in house.told())
    await until(lambda: not house.processor.is_busy)
    assert (await house.current("a")).lease == taken.lease
    await house.processor.stop()

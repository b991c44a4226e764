"""Outcomes that arrive together are one write, and none of them affects the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mahavishnu.model import lifecycle
from mahavishnu.model.backoff import DEFAULT, FailedRetry
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import Failure
from mahavishnu.stores.base import write_one
from mahavishnu.testing import Fault, make_letter, turn
from mahavishnu.workers.processor import Processor
from tests.support.queues import Gate
from tests.workers.test_processor import House, assess

NAMES = ["a", "b", "c", "d"]


class Together:
    """A callback whose runs end in the same moment; `before` is done first, while all of them are under way."""

    def __init__(self, count: int, before: Callable[[], Awaitable[object]] | None = None) -> None:
        self._count, self._before = count, before
        self._here = 0
        self._go = asyncio.Event()

    async def __call__(self, task: Any, repos: list[str]) -> Any:
        self._here += 1
        if self._here == self._count:
            if self._before is not None:
                await self._before()
            self._go.set()
        await self._go.wait()
        if task["name"] == "b":
            raise ConnectionError("down")
        return {"status": "completed"}


async def house_of(callback: Together) -> House:
    house = House(callback)
    await house.has(*(make_letter(task_id=name, task={"name": name}) for name in NAMES))
    return house


async def statuses(house: House) -> dict[str, tuple[str, int]]:
    letters = [await house.current(name) for name in NAMES]
    return {letter.task_id: (letter.status.value, letter.retry_count) for letter in letters}


async def pass_minutes(house: House, minutes: int) -> None:
    """Let time pass in steps that are longer than any pause between two tries."""
    for _ in range(minutes * 10):
        for _ in range(20):
            await turn()
        house.clock.advance(6)
    for _ in range(20):
        await turn()


ALL = {"a": ("completed", 0), "b": ("pending", 1), "c": ("completed", 0), "d": ("completed", 0)}


async def claim_by_hand(house: House, name: str) -> DeadLetter:
    letter, now = await house.current(name), house.clock.now()
    claim = lifecycle.claim(letter, owner="w", token="token", until=now + timedelta(minutes=5), now=now)
    written = await write_one(house.letters, claim)
    assert written is not None
    return written


async def test_outcomes_of_one_moment_are_one_write() -> None:
    house = await house_of(Together(len(NAMES)))
    before = house.store.faults.calls["write"]
    assert await house.processor.cycle() == len(NAMES)
    assert house.store.faults.calls["write"] == before + 2  # the claims, the outcomes
    assert await statuses(house) == ALL
    assert (house.processor.counts["succeeded"], house.processor.counts["failed"]) == (3, 1)


async def test_an_outcome_whose_letter_was_changed_is_decided_again() -> None:
    async def fails_again() -> None:
        letter, now = await house.current("c"), house.clock.now()
        merged = lifecycle.merge(letter, Failure(now, "again"), now)
        assert await write_one(house.letters, merged) is not None

    house = await house_of(Together(len(NAMES), lambda: fails_again()))
    await house.processor.cycle()
    assert await statuses(house) == {**ALL, "c": ("pending", 0)}, "what failed during the run is to be run"
    letter = await house.current("c")
    assert (letter.occurrences, letter.tallies.retry_success, letter.total_attempts) == (2, 1, 1)


async def test_an_outcome_whose_lease_was_lost_is_refused_and_the_others_count() -> None:
    async def taken() -> None:
        house.clock.advance(400)
        letter, now = await house.current("c"), house.clock.now()
        claim = lifecycle.claim(letter, owner="other", token="x", until=now + timedelta(minutes=5), now=now)
        assert await write_one(house.letters, claim) is not None

    house = await house_of(Together(len(NAMES), lambda: taken()))
    await house.processor.cycle()
    assert await statuses(house) == {**ALL, "c": ("retrying", 0)}
    assert house.processor.counts["stale_claims"] == 1
    assert house.told().count(EventName.STALE_CLAIM) == 1


async def test_a_short_outage_loses_no_outcome() -> None:
    async def blinks() -> None:
        house.store.faults.unavailable("write", times=1)

    house = await house_of(Together(len(NAMES), lambda: blinks()))
    cycle = asyncio.create_task(house.processor.cycle())
    await house.clock.sleeping(1 + len(NAMES))  # the leases are watched too
    house.clock.advance(1)
    await cycle
    assert await statuses(house) == ALL
    assert house.processor.counts["stale_claims"] == 0


async def test_a_worker_keeps_an_outcome_until_the_store_answers() -> None:
    """However long the outage is: what succeeded in it is not run again."""
    outage: list[Fault] = []

    async def is_away() -> None:
        outage.append(house.store.faults.unavailable())

    house = await house_of(Together(len(NAMES), lambda: is_away()))
    house.processor.start()
    await pass_minutes(house, 4)
    outage[0].stop()
    await pass_minutes(house, 1)
    assert await statuses(house) == ALL
    assert house.processor.counts["stale_claims"] == 0
    await house.processor.stop()


async def test_a_retry_by_hand_answers_in_an_outage_and_its_outcome_counts_after_it() -> None:
    """Nobody who asked for it waits for hours, and what succeeded is not run again."""
    outage: list[Fault] = []

    async def is_away() -> None:
        outage.append(house.store.faults.unavailable())

    house = await house_of(Together(len(NAMES), lambda: is_away()))
    claimed = [await claim_by_hand(house, name) for name in NAMES]
    house.processor.start()
    answers = [asyncio.create_task(house.processor.run_claimed(letter, "token")) for letter in claimed]
    await pass_minutes(house, 2)
    assert [answer.result().settled for answer in answers] == [None] * len(NAMES)
    outage[0].stop()
    await pass_minutes(house, 1)
    assert await statuses(house) == ALL
    await house.processor.stop()


async def test_a_worker_that_stops_in_an_outage_gives_outcomes_up_after_some_tries() -> None:
    async def is_away() -> None:
        house.store.faults.unavailable()

    house = await house_of(Together(len(NAMES), lambda: is_away()))
    house.processor.start()
    await pass_minutes(house, 2)
    stopping = asyncio.create_task(house.processor.stop())
    await pass_minutes(house, 1)
    assert stopping.done()


@pytest.mark.parametrize("lost", ["answer", "request"])
async def test_a_lost_answer_is_looked_up(lost: str) -> None:
    async def is_lost() -> None:
        getattr(house.store.faults, f"{lost}_lost")("write", times=1)

    house = await house_of(Together(len(NAMES), lambda: is_lost()))
    cycle = asyncio.create_task(house.processor.cycle())
    await house.clock.sleeping(1 + len(NAMES))
    house.clock.advance(1)
    await cycle
    assert await statuses(house) == ALL
    assert house.told().count(EventName.RETRY_SUCCEEDED) == 3
    assert house.processor.counts["stale_claims"] == 0


async def test_a_letter_whose_outcome_the_store_refuses_runs_again_and_the_others_count() -> None:
    async def refuses() -> None:
        house.store.faults.item_failed("write", keys=["c"])

    house = await house_of(Together(len(NAMES), lambda: refuses()))
    await house.processor.cycle()
    assert await statuses(house) == {**ALL, "c": ("retrying", 0)}
    assert house.processor.counts["succeeded"] == 2


async def test_outcomes_are_announced_in_the_context_of_their_run() -> None:
    told: list[tuple[str, str]] = []

    def listen(event: Event) -> None:
        if event.letter is not None and event.name in (EventName.RETRY_SUCCEEDED, EventName.RETRY_FAILED):
            told.append((event.letter.task_id, current.get()))

    current: ContextVar[str] = ContextVar("current", default="nobody's")
    house = await house_of(Together(len(NAMES)))
    processor = Processor(house.context, Together(len(NAMES)), assess=assess)
    house.context.events.subscribe(listen)

    async def run(letter: DeadLetter) -> None:
        current.set(f"{letter.task_id}'s")
        now = house.clock.now()
        claim = lifecycle.claim(letter, owner="me", token=letter.key, until=now + timedelta(minutes=5), now=now)
        claimed = await write_one(house.letters, claim)
        assert claimed is not None
        await processor.run_claimed(claimed, letter.key)

    await asyncio.gather(*[run(await house.current(name)) for name in NAMES])
    assert sorted(told) == [(name, f"{name}'s") for name in NAMES]


async def test_the_outcome_is_written_although_the_caller_is_cancelled() -> None:
    house = await house_of(Together(1))
    now = house.clock.now()
    claim = lifecycle.claim(await house.current("a"), owner="me", token="t", until=now + timedelta(minutes=5), now=now)
    claimed = await write_one(house.letters, claim)
    assert claimed is not None
    hold = house.store.faults.hold("write")
    running = asyncio.create_task(house.processor.run_claimed(claimed, "t"))
    await hold.wait_for_call()
    running.cancel()
    await turn()
    hold.release()
    with pytest.raises(asyncio.CancelledError):
        await running
    await house.processor.stop()  # waits for what is being written
    assert (await house.current("a")).status == "completed"


@pytest.mark.parametrize("odd", [asyncio.CancelledError(), BaseException("neither"), ValueError("bad")])
async def test_what_a_backoff_or_a_listener_raises_affects_no_other_letter(odd: BaseException) -> None:
    def backoff(failed: FailedRetry) -> float:
        raise odd

    def listener(event: Event) -> None:
        raise odd

    house = House(Together(len(NAMES)))
    house.context.backoffs = DEFAULT.with_custom("odd", backoff)
    house.context.events.subscribe(listener)
    await house.has(*(make_letter(task_id=n, task={"name": n}, retry_policy="custom:odd") for n in NAMES))
    await house.processor.cycle()
    assert await statuses(house) == ALL
    assert (await house.current("b")).next_retry_at is not None


@pytest.mark.parametrize(("before", "after"), [(300, 6), (6, 300)])
async def test_leases_are_renewed_in_time_when_their_length_changes(before: int, after: int) -> None:
    """Shorter ones are claimed while the renewal sleeps by the longer; held ones stay as short as they are."""
    house = House(gate := Gate(), lease_seconds=before)
    house.processor.start()
    if before < after:
        await house.has(make_letter(task_id="a"))
        house.processor.wake()
        await gate.reached()
    await house.clock.sleeping(2)
    house.context.set_limits(replace(house.context.limits, lease_seconds=after))
    if before > after:
        await house.has(make_letter(task_id="a"))
        house.processor.wake()
        await gate.reached()
    for _ in range(20):
        await house.clock.sleeping(2)
        house.clock.advance(1)
        for _ in range(20):
            await turn()
        due_at = (await house.current("a")).due_at
        assert due_at is not None
        assert due_at > house.clock.now()
    gate.open()
    await house.processor.stop()


async def test_one_lease_that_cannot_be_renewed_keeps_no_other_from_it() -> None:
    house = House(gate := Gate())
    await house.has(make_letter(task_id="a"), make_letter(task_id="b"))
    house.processor.start()
    await gate.reached(2)
    first = next(iter(house.processor.leases))
    first.letter = evolve(first.letter, updated_at=datetime.max.replace(tzinfo=UTC))  # it cannot be moved on from there
    before = (await house.current("b")).due_at
    for _ in range(4):
        await house.clock.sleeping(2)
        house.clock.advance(50)
    await house.clock.sleeping(2)
    assert first.key == "a"
    assert (await house.current("b")).due_at != before
    gate.open()
    await house.processor.stop()

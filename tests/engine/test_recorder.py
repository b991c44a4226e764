"""Failures are recorded as a new letter, in the open one, or as the next generation."""

from __future__ import annotations

import asyncio

import pytest

from mahavishnu.engine.recorder import Capacities, Capacity, CaptureKind, LetterRecorder
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import QueueFull, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query, letter_query
from mahavishnu.stores.base import get_one, scan, write_one
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.lease_watch import LeaseWatch
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock, make_failure, make_letter


class House:
    def __init__(self, max_size: int = 1000) -> None:
        self.clock = ManualClock()
        self.store = FaultyStore(MemoryStore())
        self.letters = self.store.collection(LETTERS)
        rooms = Capacities("default", max_size, self.count, self.clock)
        self.room = rooms.of("default")
        self.office = LetterRecorder(
            self.letters, self.store.collection(HISTORY), rooms, self.clock, LeaseWatch(self.clock)
        )

    async def count(self, namespace: str = "default") -> int:
        return (await self.letters.tally(letter_query(resolution="pending"))).total.count

    async def capture(self, task_id: str) -> CaptureKind:
        return (await self.office.record(make_letter(task_id=task_id), make_failure(f"{task_id} failed"))).kind


async def test_fifty_failures_of_one_task_are_one_letter() -> None:
    house = House()
    how = await asyncio.gather(*(house.capture("a") for _ in range(50)))
    assert how.count(CaptureKind.CREATED) == 1
    assert how.count(CaptureKind.MERGED) == 49
    letter = await get_one(house.letters, "a")
    assert letter is not None
    assert (letter.occurrences, letter.tallies.deduplicated) == (50, 49)


async def test_a_failure_of_a_closed_letter_starts_the_next_generation() -> None:
    house = House()
    await house.capture("a")
    letter = await get_one(house.letters, "a")
    assert letter is not None
    await write_one(house.letters, lifecycle.resolve(letter, now=house.clock.now(), by="ann"))
    assert await house.capture("a") is CaptureKind.REOPENED
    successor = await get_one(house.letters, "a")
    assert successor is not None
    assert (successor.generation, successor.previous_entry_id) == (2, letter.entry_id)
    assert [each.entry_id async for each in scan(house.store.collection(HISTORY), Query())] == [letter.entry_id]


async def test_the_limit_holds_exactly_under_concurrency() -> None:
    house = House(max_size=100)
    results = await asyncio.gather(*(house.capture(f"t{n}") for n in range(500)), return_exceptions=True)
    assert sum(result is CaptureKind.CREATED for result in results) == 100
    assert sum(isinstance(result, QueueFull) for result in results) == 400
    assert await house.count() == 100


async def test_a_full_queue_still_merges_and_has_room_when_a_letter_is_closed() -> None:
    house = House(max_size=2)
    await house.capture("a")
    await house.capture("b")
    with pytest.raises(QueueFull, match=r"2 of 2.*'c'"):
        await house.capture("c")
    assert await house.capture("a") is CaptureKind.MERGED
    letter = await get_one(house.letters, "a")
    assert letter is not None
    await write_one(house.letters, lifecycle.archive(letter, now=house.clock.now(), by="ann"))
    house.room.decrement()
    assert await house.capture("c") is CaptureKind.CREATED


async def test_letters_closed_by_other_processes_make_room() -> None:
    house = House(max_size=1)
    await house.capture("a")
    (letter,) = await house.letters.get(["a"])
    assert isinstance(letter, DeadLetter)
    await write_one(house.letters, lifecycle.archive(letter, now=house.clock.now(), by="another process"))
    house.clock.advance(1)
    assert await house.capture("b") is CaptureKind.CREATED


async def test_a_place_is_given_back_when_the_store_fails() -> None:
    house = House(max_size=1)
    house.store.faults.unavailable("write", times=1)
    with pytest.raises(StoreUnavailable):
        await house.capture("a")
    assert await house.capture("a") is CaptureKind.CREATED


async def test_a_reservation_of_a_former_event_loop_frees_no_place() -> None:
    async def none_open() -> int:
        return 0

    room = Capacity(5, none_open, ManualClock())
    assert await room.reserve_many(5) == 5
    room.reset()
    room.cancel(3)
    room.commit(2)
    assert await room.reserve_many(10) <= 5
    assert await room.reserve_many(1) == 0

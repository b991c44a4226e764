"""Successes of the application while the store that all processes share is away, and after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock
from mahavishnu.values.payload import LetterRequest
from tests.support.queues import sound

PAYLOAD = {"n": 1}


@dataclass
class Office:
    """One process: its queue, and what becomes of its way to the store that all share."""

    dlq: DeadLetterQueue
    faults: Faults
    clock: ManualClock

    async def fail(self, name: str = "wf_1", payload: object = PAYLOAD) -> DeadLetter:
        self.clock.advance(1)
        return await self.dlq.enqueue(name, payload, [], "connection refused", "immediate")

    async def succeed(self, name: str = "wf_1", payload: object = PAYLOAD, repos: Sequence[str] = ()) -> None:
        self.clock.advance(1)
        request = LetterRequest(name, payload, repos)
        self.dlq.closing.note_success(name, lambda: request, began=self.clock.now())
        await self.dlq.closing.flush()

    async def come_home(self) -> None:
        self.faults.clear()
        self.clock.advance(600)
        assert isinstance(self.dlq.store, FallbackStore)
        await self.dlq.store.drain()
        await self.dlq.closing.flush()


class World:
    def __init__(self) -> None:
        self.clock, self.primary = ManualClock(), MemoryStore()
        self.offices = [self.office() for _ in range(2)]

    def office(self) -> Office:
        faults = Faults()
        store = FallbackStore(FaultyStore(self.primary, faults), MemoryStore(), clock=self.clock)
        return Office(DeadLetterQueue(store=store, clock=self.clock), faults, self.clock)

    async def letters(self) -> dict[str, DeadLetter]:
        """What is in the shared store."""
        found = {each.key: each async for each in scan(self.primary.collection(LETTERS), Query())}
        assert not [broken for each in found.values() for broken in lifecycle.violations(each)]
        return found


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    for office in world.offices:
        await office.dlq.open()
    yield world
    for office in world.offices:
        office.faults.clear()
        await office.dlq.shutdown()


async def test_a_letter_that_is_kept_locally_is_closed_there(world: World) -> None:
    here, _ = world.offices
    with here.faults.unavailable():
        await here.fail()
        await here.succeed()
        local = await here.dlq.get_task("wf_1")
        assert local is not None
        assert local.resolution.by == "application"
    await here.come_home()
    assert (await world.letters())["wf_1"].status == "completed"
    assert (await sound(here.dlq))["lifetime_stats"]["manually_resolved"] == 1


async def test_a_letter_of_the_shared_store_is_closed_when_that_is_back(world: World) -> None:
    here, there = world.offices
    await there.fail()
    with here.faults.unavailable():
        await here.succeed()
        assert (await world.letters())["wf_1"].is_open
    await here.come_home()
    assert (await world.letters())["wf_1"].resolution.by == "application"
    assert here.dlq.context.counts["successes_not_looked_up"] == 0


async def test_both_are_closed(world: World) -> None:
    """A failure was kept locally, as the letter of the same work that others had written could not be seen."""
    here, there = world.offices
    await there.fail()
    with here.faults.unavailable():
        await here.fail()
        await here.succeed()
    await here.come_home()
    assert not (await world.letters())["wf_1"].is_open
    await sound(here.dlq)


async def test_a_failure_that_others_had_since_stays(world: World) -> None:
    here, there = world.offices
    with here.faults.unavailable():
        await here.fail()
        await here.succeed()
        await there.fail()
    await here.come_home()
    letter = (await world.letters())["wf_1"]
    assert letter.is_open
    assert letter.generation == 2 or letter.occurrences == 2
    await sound(here.dlq)


async def test_an_uncertain_copy_is_closed_when_its_twin_is_known(world: World) -> None:
    """The answer to its write was lost: it may be in both stores."""
    here, _ = world.offices
    here.faults.answer_lost("write", kind=LETTERS, times=1)
    here.faults.unavailable("get", kind=LETTERS, times=1)
    await here.fail()
    await here.succeed()
    await here.come_home()
    assert (await world.letters())["wf_1"].resolution.by == "application"
    assert (await sound(here.dlq))["lifetime_stats"]["manually_resolved"] == 1


async def test_other_work_that_goes_home_under_another_id(world: World) -> None:
    here, there = world.offices
    await there.fail(payload={"n": 2})
    with here.faults.unavailable():
        await here.fail()
    await here.come_home()
    await here.succeed()
    letters = await world.letters()
    assert sorted((each.task["n"], each.is_open) for each in letters.values()) == [(1, False), (2, True)]


async def test_a_lost_answer_closes_it_once(world: World) -> None:
    here, _ = world.offices
    await here.fail()
    here.faults.answer_lost("write", kind=LETTERS, times=1)
    await here.succeed()
    await here.come_home()
    assert (await world.letters())["wf_1"].tallies.manually_resolved == 1
    assert (await sound(here.dlq))["lifetime_stats"]["manually_resolved"] == 1


async def test_a_deleted_letter_stays_deleted(world: World) -> None:
    here, there = world.offices
    await there.fail()
    with here.faults.unavailable():
        await here.succeed()
        await there.dlq.clear_all()
    await here.come_home()
    assert (await world.letters())["wf_1"].is_deleted
    stats = await sound(here.dlq)
    assert (stats["lifetime_stats"]["cleared"], stats["lifetime_stats"]["manually_resolved"]) == (1, 0)

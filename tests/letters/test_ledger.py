"""Old tombstones are added up and removed; whoever is at it, and wherever it dies, each number counts exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model import tombstones
from mahavishnu.model.errors import LetterBusy, StoreError, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.model.query import Query
from mahavishnu.model.tombstones import FoldState, ListedTombstone, fold, fold_state
from mahavishnu.stores.base import get_one, scan, write_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LEDGER, LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.retained import LedgerEntry, Revision
from mahavishnu.testing import Faults, FaultyStore, ManualClock, make_letter
from mahavishnu.testing.faults import Call
from tests.support.queues import House, Runs, fill, sound, until

OLD = timedelta(days=31)
OPERATIONS = ("get", "find", "write", "remove")


def ledger_of(queue: DeadLetterQueue) -> Ledger:
    return Ledger(queue.context)


async def records(queue: DeadLetterQueue) -> list[DeadLetter]:
    return [letter async for letter in scan(queue.context.letters.records, Query())]


async def entries(queue: DeadLetterQueue) -> list[LedgerEntry]:
    return [entry async for entry in scan(queue.context.ledger, Query())]


async def deleted_ones(house: House, count: int = 3) -> DeadLetterQueue:
    """Some letters that were deleted long ago, two of them twice, one of those after a retry, and one of today."""
    queue = house.queue(Runs())
    await fill(queue, count)
    await queue.clear_all(by="ann")
    await fill(queue, 2)
    await queue.retry_task("wf_00001")
    await queue.enqueue("wf_00001", {}, [], "boom")
    await queue.clear_all(by="ann")
    house.clock.advance(OLD.total_seconds())
    await queue.enqueue("today", {}, [], "boom")
    await queue.clear_all(by="ann")
    return queue


async def test_old_tombstones_are_added_up_and_removed(any_house: House) -> None:
    queue = await deleted_ones(any_house)
    before = (await sound(queue))["lifetime_stats"]
    assert (before["enqueued_total"], before["cleared"], before["retry_success"]) == (7, 6, 1)
    assert await ledger_of(queue).fold() == 3
    assert [letter.task_id for letter in await records(queue)] == ["today"]
    (day,) = await entries(queue)
    assert (day.key, day.letters, day.folding) == (any_house.clock.now().date().isoformat(), 6, ())
    assert (await sound(queue))["lifetime_stats"] == before
    assert await ledger_of(queue).fold() == 0
    any_house.clock.advance(OLD.total_seconds())
    assert await ledger_of(queue).fold() == 1
    assert (await records(queue), [entry.letters for entry in await entries(queue)]) == ([], [6, 1])
    assert (await sound(queue))["lifetime_stats"] == before
    fresh = await queue.enqueue("wf_00001", {}, [], "boom")
    assert (fresh.generation, fresh.absorbed) == (1, ())
    assert (await sound(queue))["lifetime_stats"]["enqueued_total"] == 8


async def test_the_limit_is_a_setting(any_house: House) -> None:
    queue = await deleted_ones(any_house)
    short = any_house.queue(tombstone_days=1)
    assert await ledger_of(any_house.queue(tombstone_days=40)).fold() == 0
    assert await ledger_of(short).fold() == 3
    any_house.clock.advance(timedelta(days=1, seconds=1).total_seconds())
    assert await ledger_of(short).fold() == 1
    assert await records(queue) == []


async def test_a_processor_does_it_every_hour(house: House) -> None:
    queue = await deleted_ones(house)
    await queue.start_retry_processor()
    while len(await records(queue)) > 1:
        await house.clock.sleeping()
    before = len(await records(queue))
    house.clock.advance(OLD.total_seconds())
    while len(await records(queue)) == before:
        await house.clock.sleeping()
    assert await records(queue) == []


@pytest.mark.parametrize("lost", ["unavailable", "answer_lost"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_wherever_it_dies_nothing_is_lost_nor_counted_twice(any_house: House, operation: str, lost: str) -> None:
    """At each of its calls in turn, before the call and after it."""
    for number in range(1, 100):
        folder = any_house.folder / f"{number}"
        folder.mkdir()
        house = House(any_house.kind, folder)
        queue = await deleted_ones(house, 5)
        before = (await sound(queue))["lifetime_stats"]
        victim, calls = house.queue(), 0
        assert isinstance(victim.store, FaultyStore)

        async def dies(call: Call, last: int = number, faults: Faults = victim.store.faults) -> None:
            nonlocal calls
            calls += 1
            if calls == last:
                getattr(faults, lost)(operation, times=1)

        await victim.open()
        victim.store.faults.before(operation, dies)
        try:
            await ledger_of(victim).fold()
        except StoreError:
            house.kill(victim)
        died = calls >= number
        assert (await sound(queue))["lifetime_stats"] == before, f"{operation} {number}"
        left = 0 if not died else await ledger_of(queue).fold()
        assert left <= 5
        assert [letter.task_id for letter in await records(queue)] == ["today"]
        assert sum(entry.letters for entry in await entries(queue)) == 8
        assert (await sound(queue))["lifetime_stats"] == before, f"{operation} {number}, and then to the end"
        await house.close()
        if not died:
            assert number > 1, "there is such a call"
            return
    raise AssertionError("it makes so many calls?")


class Actor:
    """Something that goes on by one call of the store at a time, and may be killed before any of them."""

    def __init__(self, queue: DeadLetterQueue, what: Coroutine[Any, Any, object]) -> None:
        self.waiting, self._go, self._killed = False, asyncio.Event(), False
        assert isinstance(queue.store, FaultyStore)
        self._hooks = [queue.store.faults.before(operation, self._stop) for operation in OPERATIONS]
        self.task = asyncio.create_task(self._quietly(what))

    async def _quietly(self, what: Coroutine[Any, Any, object]) -> None:
        try:
            await what
        except StoreUnavailable:
            assert self._killed
        finally:
            for hook in self._hooks:
                hook.stop()

    async def _stop(self, call: Call) -> None:
        self.waiting = True
        await self._go.wait()
        self._go.clear()
        self.waiting = False
        if self._killed:
            raise StoreUnavailable("it was killed")

    async def rests(self) -> bool:
        """Whether it has come to its next call; False if it has ended."""
        await until(lambda: self.waiting or self.task.done())
        return self.waiting

    async def goes_on(self) -> None:
        self.waiting = False
        self._go.set()
        await self.rests()

    async def dies(self) -> None:
        self._killed = True
        while not self.task.done():
            await self.goes_on()


async def played(house: House, schedule: list[tuple[int, bool]], tasks: list[str]) -> None:
    """Two processes fold, one of them tomorrow, while letters come in whose keys have tombstones."""
    observer = await deleted_ones(house, 4)
    before = (await sound(observer))["lifetime_stats"]
    late = house.queue(clock=ManualClock(house.clock.now() + timedelta(days=1)))
    queues = [house.queue(), late, house.queue()]
    for queue in queues:
        await queue.open()

    async def capture() -> None:
        for task in tasks:
            await queues[2].context.waiting.keep(make_letter(task_id=task, created_at=house.clock.now()))
            await queues[2].intake.admit_waiting()

    actors = [Actor(queues[0], ledger_of(queues[0]).fold()), Actor(late, ledger_of(late).fold())]
    actors.append(Actor(queues[2], capture()))
    alive = actors
    for chosen, killed in schedule:
        alive = [actor for actor in alive if await actor.rests()]
        if not alive:
            break
        actor = alive[chosen % len(alive)]
        await (actor.dies() if killed else actor.goes_on())
        lifetime = (await sound(observer))["lifetime_stats"]
        assert lifetime["cleared"] == before["cleared"]
        assert lifetime["retry_success"] == before["retry_success"]
    for actor in actors:
        while await actor.rests():
            await actor.goes_on()
        await actor.task
    await ledger_of(observer).fold()
    await observer.intake.admit_waiting()
    stats = await sound(observer)
    assert stats["lifetime_stats"]["cleared"] == before["cleared"]
    assert stats["lifetime_stats"]["enqueued_total"] == before["enqueued_total"] + stats["queue_size"]
    assert {letter.task_id for letter in await observer.list_tasks()} <= set(tasks)
    assert [letter.task_id for letter in await records(observer) if letter.is_deleted] == ["today"]


steps = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([False] * 40 + [True])), min_size=15, max_size=60)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schedule=steps, tasks=st.lists(st.sampled_from(["wf_00000", "wf_00001", "wf_00003"]), max_size=3))
def test_two_at_once_while_letters_come_in(schedule: list[tuple[int, bool]], tasks: list[str]) -> None:
    """Call by call in any order: at no moment is a number missing or there twice."""

    async def live() -> None:
        house = House("memory", Path())
        await played(house, schedule, tasks)
        await house.close()

    asyncio.run(live())


async def test_one_whose_numbers_are_being_taken_over_is_waited_for(any_house: House) -> None:
    """Were it succeeded now, its numbers would count in its day and in its successor, or in neither."""
    queue, other = await deleted_ones(any_house), any_house.queue()
    before = (await sound(queue))["lifetime_stats"]
    assert isinstance(other.store, FaultyStore)
    await other.open()
    hold = other.store.faults.hold("write", kind=LETTERS, after=True)
    folding = asyncio.create_task(ledger_of(other).fold())
    await hold.wait_for_call()
    with pytest.raises(LetterBusy, match="wf_00001"):
        await queue.enqueue("wf_00001", {}, [], "boom")
    await queue.context.waiting.keep(make_letter(task_id="wf_00001"))
    assert await queue.intake.admit_waiting() == 0
    assert (await sound(queue))["lifetime_stats"] == before
    hold.release()
    assert await folding == 3
    assert await queue.intake.admit_waiting() == 1
    lifetime = (await sound(queue))["lifetime_stats"]
    assert (lifetime["enqueued_total"], lifetime["cleared"]) == (before["enqueued_total"] + 1, before["cleared"])


async def test_two_days_that_list_the_same_do_not_both_count_it(any_house: House) -> None:
    queue = await deleted_ones(any_house)
    before = (await sound(queue))["lifetime_stats"]
    late = any_house.queue(clock=ManualClock(any_house.clock.now() + timedelta(days=1)))
    early = any_house.queue()
    holds = []
    for each in (late, early):
        assert isinstance(each.store, FaultyStore)
        await each.open()
        holds.append(each.store.faults.hold("write", kind=LEDGER))
    assert isinstance(late.store, FaultyStore)
    folded = late.store.faults.hold("write", kind=LETTERS, after=True)
    one, other = (asyncio.create_task(ledger_of(each).fold()) for each in (late, early))
    for hold in holds:
        await hold.wait_for_call()  # each is about to list all of them
    holds[0].release()
    await folded.wait_for_call()
    holds[1].release()
    assert await other == 0
    assert [len(entry.folding) for entry in await entries(queue)] in ([3, 0], [0, 3])
    assert (await sound(queue))["lifetime_stats"] == before
    folded.release()
    assert await one == 3
    assert (await sound(queue))["lifetime_stats"] == before
    assert sorted(entry.letters for entry in await entries(queue)) == [0, 6]


async def test_one_that_cannot_be_folded_does_not_hold_up_the_others(any_house: House) -> None:
    queue = await deleted_ones(any_house)
    before = (await sound(queue))["lifetime_stats"]
    with any_house.faults.item_failed("write", kind=LETTERS, keys=["wf_00001"]):
        assert await ledger_of(queue).fold() == 2
        assert (await sound(queue))["lifetime_stats"] == before
    assert {letter.task_id for letter in await records(queue)} == {"wf_00001", "today"}
    assert await ledger_of(queue).fold() == 1
    assert (await sound(queue))["lifetime_stats"] == before


async def test_what_a_dead_editor_left_is_removed_with_the_tombstone(any_house: House) -> None:
    queue = await deleted_ones(any_house)
    (letter,) = [each for each in await records(queue) if each.task_id == "wf_00000"]
    await write_one(queue.context.revisions, Revision.of(letter))
    await ledger_of(queue).fold()
    assert [each async for each in scan(queue.context.revisions, Query())] == []


async def test_tombstones_of_a_local_store_go_home_first() -> None:
    clock = ManualClock()
    primary, local = FaultyStore(MemoryStore()), MemoryStore()
    async with DeadLetterQueue(store=FallbackStore(primary, local, clock=clock), clock=clock) as queue:
        await queue.enqueue("wf", {}, [], "boom", "never")
        primary.faults.unavailable()
        await queue.enqueue("kept", {}, [], "boom", "never")
        kept = await queue.get_task("kept")
        assert kept is not None
        await write_one(queue.context.letters, tombstones.delete(kept, now=clock.now(), by="ann"))
        clock.advance(OLD.total_seconds())
        assert await ledger_of(queue).fold() == 0
        primary.faults.clear()
        store = queue.store
        assert isinstance(store, FallbackStore)
        await store.drain()
        assert await ledger_of(queue).fold() == 1
        lifetime = (await sound(queue))["lifetime_stats"]
        assert (lifetime["enqueued_total"], lifetime["cleared"]) == (2, 1)
        assert await get_one(primary.collection(LETTERS), "kept") is None


def test_what_has_become_of_a_listed_tombstone() -> None:
    clock = ManualClock()
    alive = make_letter(task_id="wf")
    tombstone = tombstones.delete(alive, now=clock.now(), by="ann")
    listed = ListedTombstone.of(tombstone)
    folded = fold(tombstone, "2026-01-01")
    assert (folded.generation, folded.tallies, folded.updated_at) == (0, Tallies(), tombstone.updated_at)
    more = evolve(tombstone, tallies=tombstone.tallies.plus("cleared"))
    for current, day, state in (
        (tombstone, "2026-01-01", FoldState.UNFOLDED),
        (folded, "2026-01-01", FoldState.FOLDED),
        (folded, "2026-01-02", FoldState.SUCCEEDED),  # another day's
        (more, "2026-01-01", FoldState.SUCCEEDED),  # it has taken in another one since, and is listed again later
        (alive, "2026-01-01", FoldState.SUCCEEDED),
        (None, "2026-01-01", FoldState.SUCCEEDED),
    ):
        assert fold_state(listed, current, day) is state


async def test_the_stored_list_reads_back(any_house: House) -> None:
    queue = await deleted_ones(any_house)
    listed = tuple(ListedTombstone.of(letter) for letter in await records(queue))
    entry = LedgerEntry("2026-01-01", any_house.clock.now(), folding=listed)
    await write_one(queue.context.ledger, entry)
    assert await entries(queue) == [entry]
    assert all(each.tallies.cleared for each in listed)

"""Bulk runs whose runner dies, is overtaken or loses its store: each letter is moved once, and is told of rightly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.bulk.records import RUN_PAGES, RUNS
from mahavishnu.bulk.run import PAGE, BulkRun, ItemState, RunState
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.audit import AUDIT
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.lifecycle import MAX_RUNS, claim, release
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import Call, FaultyStore
from tests.support.queues import House, Runs, fill, letter_of, settle, sound

COUNT = PAGE + 40
LONG = 600.0  # until any lease is over


async def worked(queue: DeadLetterQueue, run: BulkRun) -> BulkRun:
    while await queue.runs.advance():
        pass
    return await queue.runs.get(run.run_id)


async def each_was_moved_once(queue: DeadLetterQueue, run: BulkRun, refused: set[str]) -> None:
    """By what the letters say, and by what the run says of them."""
    letters = {letter.key: letter async for letter in scan(queue.context.letters, Query())}
    assert len(letters) == COUNT
    for key, letter in letters.items():
        assert letter.tallies.manually_resolved == 1
        assert letter.runs == (() if key in refused else (run.run_id,))
    items = {item.key: item for item in (await queue.runs.items(run.run_id, limit=10_000)).items}
    assert items.keys() == letters.keys()
    assert {key for key, item in items.items() if item.state is ItemState.REFUSED} == refused
    assert {key for key, item in items.items() if item.state is ItemState.MOVED} == letters.keys() - refused
    assert (run.state, run.counts.members, run.counts.waiting) == (RunState.DONE, COUNT, 0)
    assert (run.counts.moved, run.counts.refused) == (COUNT - len(refused), len(refused))
    await sound(queue)


def dies_at(house: House, queue: DeadLetterQueue, number: int, when: str, kinds: tuple[Any, ...]) -> Callable[[], int]:
    """Kill it before or after its write with this number. Returns how many there have been."""
    assert isinstance(queue.store, FaultyStore)
    writes = 0

    async def count(call: Call) -> None:
        nonlocal writes
        if call.kind not in kinds:
            return
        writes += 1
        if writes == number:
            house.kill(queue)
            raise StoreUnavailable("its process is dead (a test's fault)")

    plan = queue.store.faults.before if when == "before" else queue.store.faults.after
    plan("write", count)
    return lambda: writes


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_runner_may_die_at_any_of_its_writes(tmp_path: Path, when: str) -> None:
    number, killed = 0, True
    while killed:
        number += 1
        house = House("memory", tmp_path)
        first, second = house.queue(), house.queue()
        names = await fill(first, COUNT)
        await first.letters.resolve(names[3])
        run = await first.runs.start("resolve", everything=True, by="ann", ramp=(1, 20))
        writes = dies_at(house, first, number, when, (RUNS, RUN_PAGES, LETTERS, AUDIT))
        try:
            await first.runs.advance()
            await first.runs.advance()
        except StoreUnavailable:
            pass
        killed = writes() >= number
        was_done = (await second.runs.get(run.run_id)).state is RunState.DONE
        assert not await second.runs.advance() or not killed or (await second.runs.get(run.run_id)).lease is None
        house.clock.advance(LONG)
        await each_was_moved_once(second, await worked(second, run), {names[3]})
        (entry,) = (await second.audit.list(action="run.done")).items
        assert entry.reason == f"{COUNT - 1} of {COUNT} letters moved, 1 refused"
        # Who died after the run had ended, and before the entry said so, has told the numbers all the same.
        assert entry.outcome == "done" or (entry.outcome == "asked" and killed and was_done)
        await house.close()
    assert number > 10


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_runner_may_die_while_members_are_being_run(tmp_path: Path, when: str) -> None:
    """They are set aside, come back one by one, and are moved once."""
    number, killed = 0, True
    while killed:
        number += 1
        house = House("memory", tmp_path)
        first, second = house.queue(), house.queue()
        names = await fill(second, COUNT, retry_policy="never")
        running = [names[3], names[PAGE - 1], names[-1]]
        for name in running:
            letter, until = await letter_of(second, name), house.clock.now() + timedelta(hours=1)
            taken = claim(letter, owner="w", token="t", until=until, now=house.clock.now(), manual=True)
            await second.context.letters.write([taken])
        run = await first.runs.start("resolve", everything=True, by="ann")
        writes = dies_at(house, first, number, when, (RUNS, RUN_PAGES, LETTERS))
        runner = first
        for name in running:
            try:
                await runner.runs.advance()
            except StoreUnavailable:
                runner = second
                await runner.runs.advance()
            letter = await letter_of(second, name)
            await second.context.letters.write([release(letter, token="t", now=house.clock.now())])
            house.clock.advance(LONG)
        killed = writes() >= number
        run = await worked(second, run)
        await each_was_moved_once(second, run, set())
        await house.close()
    assert number > 12


async def test_every_runner_dies_after_a_few_writes_until_nothing_is_left(any_house: House) -> None:
    survivor = any_house.queue()
    names = await fill(survivor, COUNT)
    await survivor.letters.resolve(names[3])
    run = await survivor.runs.start("resolve", everything=True, by="ann", max_per_second=50)
    for number in range(40):
        runner = any_house.queue()
        dies_at(any_house, runner, 3 + number % 4, ("before", "after")[number % 2], (RUNS, RUN_PAGES, LETTERS))
        try:
            for _ in range(3):
                await runner.runs.advance()
        except StoreUnavailable:
            pass
        any_house.clock.advance(LONG)
    await each_was_moved_once(survivor, await worked(survivor, run), {names[3]})


async def edited_often(queue: DeadLetterQueue, house: House, times: int) -> None:
    for _ in range(times):
        house.clock.advance(1)
        run = await worked(
            queue, await queue.runs.start("edit", status="pending", by="bob", patch={"n": 1}, create=True)
        )
        assert (run.state, run.counts.moved) == (RunState.DONE, 3)


async def test_a_letter_that_many_runs_have_moved_since_is_not_moved_again(any_house: House) -> None:
    """Its runner dies before it can say what it did, and a dozen other runs come before the next look."""
    first, other = any_house.queue(), any_house.queue()
    await fill(other, 3, retry_policy="never")
    run = await first.runs.start("edit", status="pending", by="ann", patch={"n": 0}, create=True)
    dies_at(any_house, first, 1, "after", (LETTERS,))
    with pytest.raises(StoreUnavailable):
        await first.runs.advance()
    await other.runs.pause(run.run_id, by="ann")
    await edited_often(other, any_house, 12)
    any_house.clock.advance(LONG)
    await other.runs.resume(run.run_id, by="ann")
    run = await worked(other, run)
    assert (run.state, run.counts.moved) == (RunState.DONE, 3)
    await edited_often(other, any_house, 1)
    letters = [letter async for letter in scan(other.context.letters, Query())]
    assert [letter.revision for letter in letters] == [14] * 3, "each run once"
    for letter in letters:
        assert len(letter.runs) == MAX_RUNS
        assert run.run_id not in letter.runs, "it is over: nobody asks any more"


async def test_a_runner_that_slept_through_many_runs_moves_nothing_again(any_house: House) -> None:
    """Its run is over when it wakes up, and the letters have forgotten it."""
    slow, quick = any_house.queue(), any_house.queue()
    await fill(quick, 3, retry_policy="never")
    run = await slow.runs.start("edit", status="pending", by="ann", patch={"n": 0}, create=True)
    assert isinstance(slow.store, FaultyStore)
    hold = slow.store.faults.hold("write", kind=LETTERS)
    sleeping = asyncio.create_task(slow.runs.advance())
    await hold.wait_for_call()
    any_house.clock.advance(LONG)
    assert (await worked(quick, run)).state is RunState.DONE
    await edited_often(quick, any_house, 11)
    hold.release()
    await sleeping
    letters = [letter async for letter in scan(quick.context.letters, Query())]
    assert [letter.revision for letter in letters] == [12] * 3
    assert all(run.run_id not in letter.runs for letter in letters)


async def test_two_runners_at_once_move_nothing_twice(any_house: House) -> None:
    """The first one hangs so long that its lease is over, and then goes on as if nothing had been."""
    slow, quick = any_house.queue(), any_house.queue()
    names = await fill(slow, COUNT)
    await slow.letters.resolve(names[3])
    run = await slow.runs.start("resolve", everything=True, by="ann")
    assert isinstance(slow.store, FaultyStore)
    kinds: tuple[Kind[Any], ...] = (LETTERS, RUN_PAGES, RUNS)
    for place, kind in enumerate(kinds):
        hold = slow.store.faults.hold("write", kind=kind)
        if place == 1:  # past the plan
            hold.release()
            hold = slow.store.faults.hold("write", kind=kind, after=True)
        looking = asyncio.create_task(slow.runs.advance())
        if place == 0:
            await hold.wait_for_call()
            any_house.clock.advance(LONG)
            if any_house.kind == "memory":
                racing = asyncio.create_task(quick.runs.advance())
                await settle()
                hold.release()
                await asyncio.gather(looking, racing)
            else:
                await quick.runs.advance()
                hold.release()
                await looking
        else:
            hold.release()
            await looking
    any_house.clock.advance(LONG)
    await each_was_moved_once(slow, await worked(slow, run), {names[3]})


async def test_a_slice_that_is_overtaken_is_looked_at_again(any_house: House) -> None:
    """The page is written by somebody who does not hold the run any more: the holder asks the letters, and goes on."""
    slow, quick = any_house.queue(), any_house.queue()
    names = await fill(slow, COUNT)
    await slow.letters.resolve(names[3])
    run = await slow.runs.start("resolve", everything=True, by="ann", ramp=(10,))
    assert isinstance(slow.store, FaultyStore)
    assert isinstance(quick.store, FaultyStore)
    plan = slow.store.faults.hold("write", kind=RUN_PAGES)
    stale = asyncio.create_task(slow.runs.advance())
    await plan.wait_for_call()
    rest = slow.store.faults.hold("write", kind=RUN_PAGES)  # of the plan
    plan.release()
    await rest.wait_for_call()
    late = slow.store.faults.hold("write", kind=RUN_PAGES)
    rest.release()
    await late.wait_for_call()  # its letters are moved, and not on record yet
    assert (await letter_of(quick, "wf_00000")).runs == (run.run_id,)
    any_house.clock.advance(LONG)
    holding = quick.store.faults.hold("write", kind=RUN_PAGES)
    carrying = asyncio.create_task(quick.runs.advance())
    await holding.wait_for_call()
    late.release()
    await stale
    holding.release()
    await carrying
    await each_was_moved_once(quick, await worked(quick, run), {names[3]})


async def test_the_runner_goes_on_at_once_when_its_store_is_back(any_house: House) -> None:
    queue = any_house.queue()
    names = await fill(queue, COUNT)
    await queue.letters.resolve(names[3])
    run = await queue.runs.start("resolve", everything=True, by="ann")
    any_house.faults.unavailable("write", kind=RUN_PAGES, times=1)
    with pytest.raises(StoreUnavailable):
        await queue.runs.advance()
    any_house.faults.answer_lost("write", kind=LETTERS, times=1)
    with pytest.raises(StoreUnavailable):
        await queue.runs.advance()
    await each_was_moved_once(queue, await worked(queue, run), {names[3]})


async def test_nobody_spins_while_runs_cannot_be_seen(house: House) -> None:
    queue = house.queue(Runs())
    await fill(queue, 2, max_retries=0)
    run = await queue.runs.start("redrive", everything=True, by="ann", ramp=(1,))
    await queue.processing.start_periodic_tasks()
    await settle()
    await queue.run_due()
    house.faults.unavailable("find", kind=RUNS)
    house.clock.advance(LONG)  # the run was to be looked at long ago
    await settle()
    house.faults.calls.clear()
    await settle()
    assert not house.faults.calls, "no time has passed"
    house.faults.clear()
    house.clock.advance(LONG)
    await settle()
    assert (await queue.runs.get(run.run_id)).counts.moved == 2


async def test_letters_that_cannot_be_written_now_wait(any_house: House) -> None:
    queue = any_house.queue()
    names = await fill(queue, COUNT)
    await queue.letters.resolve(names[3])
    run = await queue.runs.start("resolve", everything=True, by="ann")
    any_house.faults.item_unavailable("write", kind=LETTERS, times=5)
    any_house.faults.item_answer_lost("write", kind=LETTERS, times=5)
    any_house.faults.conflict("write", kind=LETTERS, times=30)
    with pytest.raises(StoreUnavailable):
        await queue.runs.advance()
    await each_was_moved_once(queue, await worked(queue, run), {names[3]})


async def test_a_letter_that_the_store_refuses_is_told_of(any_house: House) -> None:
    queue = any_house.queue()
    names = await fill(queue, 5)
    run = await queue.runs.start("resolve", everything=True, by="ann")
    any_house.faults.item_failed("write", kind=LETTERS, keys=[names[2]])
    any_house.faults.corrupt("get", kind=LETTERS, keys=[names[4]])
    run = await worked(queue, run)
    assert (run.state, run.counts.moved, run.counts.refused) == (RunState.DONE, 3, 2)
    why = {item.key: item.why for item in (await queue.runs.items(run.run_id, state="refused")).items}
    assert why == {
        names[2]: "record it was refused: a test's fault",
        names[4]: "record it cannot be read: a test's fault",
    }


async def test_a_letter_that_cannot_be_read_is_a_member_that_is_refused(any_house: House) -> None:
    queue = any_house.queue()
    names = await fill(queue, 5)
    any_house.faults.corrupt("find", kind=LETTERS, keys=[names[2]])
    preview = await queue.runs.preview("resolve", everything=True)
    assert (preview.matched, preview.eligible) == (5, 4)
    run = await worked(queue, await queue.runs.start("resolve", everything=True, by="ann"))
    assert (run.counts.members, run.counts.moved, run.counts.refused) == (5, 4, 1)


async def test_a_run_that_cannot_be_carried_on_is_halted_and_others_go_on(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 5)
    broken = await queue.runs.start("resolve", everything=True, by="ann", max_per_second=1)
    await queue.runs.advance()
    any_house.clock.advance(1)
    whole = await queue.runs.start("archive", everything=True, by="ann")
    fault = any_house.faults.corrupt("get", kind=RUN_PAGES, times=1)
    while await queue.runs.advance():
        pass
    assert fault.over
    found = {run.run_id: run for run in (await queue.runs.list()).items}
    assert found[whole.run_id].state is RunState.DONE
    assert found[broken.run_id].state is RunState.HALTED
    assert "cannot be read" in str(found[broken.run_id].halted_because)
    entry = (await queue.audit.list(action="run.halt")).items[0]
    assert (entry.actor, entry.reason) == ("halt_on_error", found[broken.run_id].halted_because)
    await queue.runs.resume(broken.run_id, by="ann")
    for _ in range(5):
        any_house.clock.advance(1)
        run = await worked(queue, broken)
    assert (run.state, run.counts.moved, run.counts.waiting) == (RunState.DONE, 1, 0)


async def test_a_runner_that_is_stopped_gives_the_run_back(any_house: House) -> None:
    queue, other = any_house.queue(Runs()), any_house.queue()
    names = await fill(queue, COUNT, retry_policy="never")
    await queue.letters.resolve(names[3])
    run = await queue.runs.start("resolve", everything=True, by="ann")
    hold = any_house.faults.hold("write", kind=LETTERS, after=True)
    await queue.start_retry_processor()
    await hold.wait_for_call()  # moved, and not on record yet
    await queue.stop_retry_processor()
    stored = await other.runs.get(run.run_id)
    assert stored.lease is not None
    assert stored.lease.left
    await each_was_moved_once(other, await worked(other, run), {names[3]})  # at once


async def test_a_run_that_is_cancelled_after_its_runner_died_tells_what_was_moved(any_house: House) -> None:
    first, other = any_house.queue(), any_house.queue()
    await fill(first, COUNT, retry_policy="never")
    run = await first.runs.start("resolve", everything=True, by="ann")
    dies_at(any_house, first, 1, "after", (LETTERS,))
    with pytest.raises(StoreUnavailable):
        await first.runs.advance()
    await other.runs.cancel(run.run_id, by="bob")
    moved = {letter.key async for letter in scan(other.context.letters, Query()) if letter.runs}
    assert len(moved) == PAGE
    run = await other.runs.get(run.run_id)
    assert (run.state, run.counts.moved, run.counts.waiting) == (RunState.CANCELLED, PAGE, COUNT - PAGE)
    items = (await other.runs.items(run.run_id, state="moved", limit=10_000)).items
    assert {item.key for item in items} == moved


async def test_a_page_that_cannot_be_seen_now_is_waited_for(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 3, retry_policy="never")
    run = await queue.runs.start("resolve", everything=True, by="ann", max_per_second=1)
    await queue.runs.advance()
    pages = queue.store.collection(RUN_PAGES)
    kept = [page async for page in scan(pages, Query())]
    await pages.remove(kept)  # to another process's local store
    any_house.clock.advance(1)
    for look in (queue.runs.advance, lambda: queue.runs.get(run.run_id), lambda: queue.runs.items(run.run_id)):
        with pytest.raises(StoreUnavailable, match="cannot be seen now"):
            await look()
    await pages.write([replace(page, version=None) for page in kept])
    for _ in range(3):
        run = await worked(queue, run)
        any_house.clock.advance(1)
    assert (run.state, run.counts.moved) == (RunState.DONE, 3)


async def test_a_long_slice_keeps_its_lease(any_house: House) -> None:
    queue, other = any_house.queue(), any_house.queue()
    await fill(queue, COUNT)
    run = await queue.runs.start("resolve", everything=True, by="ann")

    async def slow(call: Call) -> None:
        any_house.clock.advance(20)
        assert not await other.runs.advance(), "it is somebody's"

    assert isinstance(queue.store, FaultyStore)
    queue.store.faults.before("write", slow, kind=LETTERS)
    queue.store.faults.before("write", slow, kind=RUN_PAGES)
    assert (await worked(queue, run)).counts.moved == COUNT
    assert (await letter_of(queue, "wf_00000")).runs == (run.run_id,)

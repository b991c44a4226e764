"""What a tracked run did is known whatever becomes of its writes: no finished step is run again, and no success."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.errors import InvalidInput, LostLease
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.tasks import rules, tracking
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.rules import begin, begin_step, complete_step, finalize, hand_over, merge_run
from mahavishnu.tasks.task import CLOSE, TaskRecord, TaskState, new_task
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.testing.clock import START
from tests.support.queues import House

DOWN = ConnectionResetError("connection reset by peer")


class Shop:
    """A process with a workflow of three steps, the last of which fails as long as it is told to."""

    def __init__(self, app: MahavishnuApp, *, fails: bool = False, max_attempts: int | None = None) -> None:
        self.app, self.fails, self.ran = app, fails, list[str]()
        step = app.lifecycle.with_options(max_attempts=max_attempts).step

        async def do(name: str) -> str:
            self.ran.append(name)
            return name

        async def last() -> None:
            if self.fails:
                raise DOWN
            self.ran.append("last")

        @app.workflow("ship", key="n", track=True)
        async def ship(n: int) -> None:
            for name in ("one", "two"):
                assert await step(name, do, name) == name
            await app.lifecycle.step("last", last)

        self.ship = ship

    async def look(self) -> None:
        """As a worker does for an hour."""
        for _ in range(12):
            self.app.dlq.clock.advance(300)  # type: ignore[attr-defined]
            await self.app.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
            await self.app.dlq.run_due()


async def task_of(app: MahavishnuApp) -> TaskRecord:
    (task,) = (await app.lifecycle.list("all")).items
    return task


async def letter_of(app: MahavishnuApp) -> DeadLetter:
    (letter,) = await app.dlq.list_tasks()
    return letter


# --- the store is away


@pytest.mark.parametrize("kth", range(1, 9))
async def test_a_success_while_the_store_is_away_is_a_success(any_house: House, kth: int) -> None:
    """Whichever write is the first that fails: the process knows, and says so when the store is back."""
    shop = Shop(any_house.app())
    await shop.app.dlq.open()
    writes = 0

    async def count(call: object) -> None:
        nonlocal writes
        writes += 1
        if writes == kth:
            outages.append(any_house.faults.unavailable("write", kind=TASKS))

    outages: list[Any] = []
    shop.app.dlq.store.faults.before("write", count, kind=TASKS)  # type: ignore[attr-defined]
    await shop.ship(1)
    assert len(outages) == 1
    outages[0].stop()
    await shop.look()
    assert (await task_of(shop.app)).state is TaskState.COMPLETE
    assert shop.ran == ["one", "two", "last"]


async def test_what_waits_is_written_when_the_queue_closes(any_house: House) -> None:
    """Nobody has to look first."""
    shop = Shop(any_house.app())
    await shop.app.dlq.open()
    with any_house.faults.unavailable("write", kind=TASKS):
        await shop.ship(1)
    await shop.app.shutdown()
    assert (await task_of(any_house.app())).state is TaskState.COMPLETE


async def test_runs_that_wait_are_no_more_than_memory_has_room_for(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest one is given up, with an error in the log."""
    monkeypatch.setattr(tracking, "_MOST_UNWRITTEN", 2)
    shop = Shop(house.app())
    await shop.app.dlq.open()
    with house.faults.unavailable("write", kind=TASKS):
        for number in range(3):
            await shop.ship(number)
    await shop.app.lifecycle.tracking.signs.renew()
    assert len((await shop.app.lifecycle.list("all")).items) == 2
    assert "too many could not be written" in caplog.text


class Office:
    """A process whose store is away on demand, and whose local store outlives it."""

    def __init__(self, home: MemoryStore, folder: Path, clock: ManualClock) -> None:
        self.home = FaultyStore(home)
        local = SQLiteStore(folder / "local.db", kinds=KINDS)
        self.store = FallbackStore(self.home, local, kinds=KINDS, clock=clock)
        self.app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=self.store, clock=clock)


class Lasting(MemoryStore):
    """A server, which outlives who closes it."""

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("kth", range(1, 9))
async def test_a_process_that_ends_in_an_outage_leaves_its_task_in_the_local_store(tmp_path: Path, kth: int) -> None:
    """The next one takes it home, and nothing is run again."""
    server, clock = Lasting(), ManualClock()
    office = Office(server, tmp_path, clock)
    shop, writes = Shop(office.app), 0
    await office.app.dlq.open()

    async def count(call: object) -> None:
        nonlocal writes
        writes += 1
        if writes == kth:
            office.home.faults.unavailable()

    office.home.faults.before("write", count, kind=TASKS)
    await shop.ship(1)
    assert writes >= kth
    assert shop.ran == ["one", "two", "last"]
    await office.app.shutdown()

    after = Office(server, tmp_path, clock)
    again = Shop(after.app)
    await after.app.dlq.open()
    assert (await after.store.drain()).refused == ()
    assert (await after.store.health()).waiting == 0
    assert (await task_of(after.app)).state is TaskState.COMPLETE
    assert [step.state for step in (await task_of(after.app)).steps] == ["complete"] * 3
    await again.look()
    assert again.ran == []
    await after.app.shutdown()


@pytest.mark.parametrize("kth", range(1, 9))
async def test_a_lost_answer_that_leaves_a_doubtful_local_copy_costs_no_move(tmp_path: Path, kth: int) -> None:
    """Nobody may change that copy; once it has gone home, the moves after it are written, too."""
    server, clock = Lasting(), ManualClock()
    office = Office(server, tmp_path, clock)
    shop, writes = Shop(office.app), 0
    await office.app.dlq.open()

    async def lose(call: object) -> None:
        nonlocal writes
        writes += 1
        if writes == kth:
            office.home.faults.item_answer_lost("write", kind=TASKS, times=1)

    office.home.faults.before("write", lose, kind=TASKS)
    await shop.ship(1)
    office.home.faults.clear()
    await office.store.drain()
    await office.app.shutdown()

    after = Office(server, tmp_path, clock)
    again = Shop(after.app)
    await after.app.dlq.open()
    assert (await task_of(after.app)).state is TaskState.COMPLETE
    await again.look()
    assert again.ran == []
    await after.app.shutdown()


async def test_a_success_that_comes_home_late_counts_and_closes_the_letter(tmp_path: Path) -> None:
    """Another process took the run for dead meanwhile, and nothing was run again yet."""
    server, clock = Lasting(), ManualClock()
    office, other = Office(server, tmp_path / "a", clock), Office(server, tmp_path / "b", clock)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    shop, there = Shop(office.app), Shop(other.app)
    await office.app.dlq.open()
    hold = office.home.faults.hold("write", kind=TASKS, after=True)
    running = asyncio.create_task(shop.ship(1))
    await hold.wait_for_call()
    office.home.faults.unavailable()
    hold.release()
    await running
    clock.advance(31 * 60)
    await other.app.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
    assert (await task_of(other.app)).state is TaskState.ERROR
    assert (await letter_of(other.app)).is_open

    office.home.faults.clear()
    await office.store.drain()
    clock.advance(60)
    assert (await task_of(other.app)).state is TaskState.COMPLETE
    assert await other.app.lifecycle.handover.finish() == 1
    assert await other.app.dlq.list_tasks() == []
    assert (await task_of(other.app)).owes is None
    await there.look()
    assert there.ran == []
    for each in (office, other):
        await each.app.shutdown()


async def test_a_letter_that_cannot_look_up_its_steps_waits_and_uses_up_no_attempt(tmp_path: Path) -> None:
    """It was kept locally, so its worker takes it in the outage; what the server knows of its work cannot be told."""
    server, clock = Lasting(), ManualClock()
    office = Office(server, tmp_path, clock)
    shop = Shop(office.app, fails=True)
    await office.app.dlq.open()
    office.home.faults.unavailable()
    with pytest.raises(ConnectionResetError):
        await shop.ship(1)
    shop.fails = False
    for _ in range(6):
        clock.advance(1800)
        await office.app.dlq.run_due()
    by_hand = await office.app.dlq.retry_task("ship:1")
    assert by_hand["error"].startswith("nothing was run: the primary store is away")
    letter = await letter_of(office.app)
    assert (str(letter.status), letter.retry_count, letter.total_attempts) == ("pending", 0, 0)
    assert len(letter.failures) == 1 and shop.ran == ["one", "two"]
    office.home.faults.clear()
    await office.store.drain()
    clock.advance(1800)
    await office.app.dlq.run_due()
    assert shop.ran == ["one", "two", "last"]
    assert await office.app.dlq.list_tasks() == []
    await office.app.shutdown()


async def test_a_letter_that_came_home_before_its_task_waits_for_it(tmp_path: Path) -> None:
    """What the run wrote last is in its process's local store: finished steps are not run again, by no worker."""
    server, clock = Lasting(), ManualClock()
    (tmp_path / "other").mkdir()
    office, other = Office(server, tmp_path, clock), Office(server, tmp_path / "other", clock)
    shop, branch = Shop(office.app, fails=True), Shop(other.app)
    await office.app.dlq.open()
    await other.app.dlq.open()
    writes = office.home.faults.unavailable("write", kind=TASKS)
    with pytest.raises(ConnectionResetError):
        await shop.ship(1)
    await office.store.drain()
    assert [letter.task_id for letter in await other.app.dlq.list_tasks()] == ["ship:1"]
    clock.advance(1800)
    await other.app.dlq.run_due()
    assert branch.ran == []
    letter = await letter_of(other.app)
    assert (str(letter.status), letter.retry_count, letter.total_attempts) == ("pending", 0, 0)
    writes.stop()
    await office.store.drain()
    clock.advance(1800)
    await other.app.dlq.run_due()
    assert branch.ran == ["last"]
    await office.app.shutdown()
    await other.app.shutdown()


# --- answers are lost, callers give up


@pytest.mark.parametrize("kth", range(1, 8))
@pytest.mark.parametrize("fault", ["answer_lost", "request_lost"])
@pytest.mark.parametrize("max_attempts", [None, 1])
async def test_a_lost_answer_costs_no_step(any_house: House, fault: str, kth: int, max_attempts: int | None) -> None:
    """Whichever write it is of: what ended is not run again, and none that succeeded has failed."""
    shop = Shop(any_house.app(), fails=True, max_attempts=max_attempts)
    await shop.app.dlq.open()
    writes = 0

    async def lose(call: object) -> None:
        nonlocal writes
        writes += 1
        if writes == kth:
            getattr(shop.app.dlq.store.faults, fault)("write", kind=TASKS, times=1)  # type: ignore[attr-defined]

    any_house.faults.before("write", lose, kind=TASKS)
    with pytest.raises(ConnectionResetError):
        await shop.ship(1)
    assert writes >= kth
    shop.fails = False
    assert (await shop.app.dlq.retry_task("ship:1"))["success"]
    assert shop.ran == ["one", "two", "last"]
    assert (await task_of(shop.app)).state is TaskState.COMPLETE


@pytest.mark.parametrize("after", [False, True])
async def test_a_step_that_is_cancelled_while_it_begins_was_no_attempt(any_house: House, after: bool) -> None:
    """It did not run, so that it may: in this run, and in the next one."""
    app, ran = any_house.app(), list[str]()
    once = app.lifecycle.with_options(max_attempts=1).step

    async def charge() -> None:
        ran.append("charge")

    @app.workflow("ship", key="n", track=True)
    async def ship(n: int) -> None:
        if n == 1 and not ran:
            hold = app.dlq.store.faults.hold("write", after=after, kind=TASKS)  # type: ignore[attr-defined]
            step = asyncio.create_task(once("charge", charge))
            await hold.wait_for_call()
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            hold.release()
        await once("charge", charge)

    await ship(1)
    (step,) = (await task_of(app)).steps
    assert (ran, step.state, step.attempts) == (["charge"], "complete", 1)


@pytest.mark.parametrize(("on_cancel", "letters"), [("ignore", 0), ("capture", 1)])
async def test_a_call_that_is_cancelled_before_its_task_is_there_does_not_run(
    any_house: House, on_cancel: Any, letters: int
) -> None:
    """Its task is cancelled; who wants letters of cancelled calls has one of this call too."""
    app, ran = any_house.app(), list[int]()

    @app.workflow("ship", key="n", track=True, on_cancel=on_cancel)
    async def ship(n: int) -> None:
        ran.append(n)

    await app.dlq.open()
    hold = app.dlq.store.faults.hold("write", after=True, kind=TASKS)  # type: ignore[attr-defined]
    call = asyncio.create_task(ship(1))
    await hold.wait_for_call()
    call.cancel()
    hold.release()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await task_of(app)).state is TaskState.CANCELLED
    assert len(await app.dlq.list_tasks()) == letters
    assert ran == []


# --- what a run reports is merged


def _running(*ended: str, run: str = "r1") -> TaskRecord:
    task = begin(new_task("pay", now=START), now=START, run=run, processor="me")
    for name in ended:
        task = complete_step(begin_step(task, name, now=START), name, now=START)
    return task


def test_merging_twice_is_merging_once() -> None:
    """Of what was written already, of an older state, and of the end."""
    before, after = _running("a"), _running("a", "b")
    done = finalize(after, now=START)
    for theirs, ours in ((before, after), (before, done), (after, done), (_running(), done)):
        merged = merge_run(theirs, ours)
        assert merged == ours
        assert merge_run(merged, ours) is merged
        assert merge_run(merged, theirs) is merged if merged.is_open else True
    assert merge_run(after, before) is after


def test_what_others_wrote_meanwhile_stays() -> None:
    """Their steps and their moves; ours come after, with numbers of their own."""
    base = _running("a")
    theirs = replace(begin_step(base, "theirs", now=START), attention="seen")
    ours = complete_step(begin_step(base, "ours", now=START), "ours", now=START)
    merged = merge_run(theirs, ours)
    assert {step.name: str(step.state) for step in merged.steps} == {
        "a": "complete", "theirs": "in_progress", "ours": "complete"
    }  # fmt: skip
    assert [each.number for each in merged.transitions] == [*range(1, merged.transition_count + 1)]
    assert merged.attention == "seen"
    assert merge_run(merged, ours) is merged


def test_a_run_that_is_far_ahead_brings_all_of_its_steps() -> None:
    """It has let go of moves that the other record never had."""
    ours = _running(*map(str, range(40)))
    ours = replace(ours, transitions=ours.transitions[-16:])
    merged = merge_run(_running("0"), ours)
    assert (merged.steps, merged.transition_count) == (ours.steps, ours.transition_count)
    assert merge_run(merged, ours) is merged


@pytest.mark.parametrize(
    ("reason", "counts"), [("staleness_timeout", True), ("worker_unavailable", True), ("manual", False)]
)
def test_a_success_counts_against_a_rule_and_not_against_a_person(reason: str, counts: bool) -> None:
    """And only under the token of that run."""
    task = _running("a")
    theirs, ours = hand_over(task, now=START + timedelta(hours=1), reason=reason), finalize(task, now=START)
    if counts:
        merged = merge_run(theirs, ours)
        assert (merged.state, merged.owes) == (TaskState.COMPLETE, CLOSE)
        assert merge_run(merged, ours) is merged
    else:
        with pytest.raises(LostLease):
            merge_run(theirs, ours)
    with pytest.raises(LostLease):
        merge_run(replace(theirs, run="r2"), ours)
    with pytest.raises(LostLease):
        merge_run(theirs, complete_step(begin_step(task, "b", now=START), "b", now=START))


# --- limits


async def test_a_step_too_many_is_refused_before_it_runs(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which, and the retry runs nothing again."""
    monkeypatch.setattr(rules, "MAX_STEPS", 2)
    shop = Shop(house.app())
    with pytest.raises(InvalidInput, match="has 2 steps, the most that can be tracked: step 'last' is not run"):
        await shop.ship(1)
    assert shop.ran == ["one", "two"]
    await shop.app.dlq.retry_task("ship:1")
    assert shop.ran == ["one", "two"]


async def test_results_that_are_too_large_together_end_the_run(house: House) -> None:
    """Those that were kept are not made again, and the one that was not is the only one that is."""
    app, ran = house.app(dlq_max_task_bytes=1024), list[int]()

    async def part(number: int) -> str:
        ran.append(number)
        return "x" * 1000

    @app.workflow("big", key="n", track=True)
    async def big(n: int) -> None:
        for number in range(5):
            await app.lifecycle.step(f"part {number}", part, number)

    with pytest.raises(InvalidInput, match=r"what step 'part 3' returned is not kept: .* 3072 bytes together"):
        await big(1)
    assert ran == [0, 1, 2, 3]
    await app.dlq.retry_task("big:1")
    assert ran == [0, 1, 2, 3, 3]


async def test_reports_of_others_are_bounded_too(house: House) -> None:
    """Who works on a task by its id is refused before the record is too large; the step can be reported again."""
    of = house.app(dlq_max_task_bytes=1024).lifecycle
    task = await of.create("import")
    for number in range(4):
        await of.begin_step(task.task_id, f"part {number}")
        if number < 3:
            assert await of.complete_step(task.task_id, f"part {number}", "x" * 1000)
    with pytest.raises(InvalidInput, match="what step 'part 3' returned is not kept"):
        await of.complete_step(task.task_id, "part 3", "x" * 1000)
    assert await of.complete_step(task.task_id, "part 3", "file 3")


# --- letters that the app did not capture, or whose task is not here


async def test_a_letter_that_was_enqueued_is_tracked_from_its_first_retry(any_house: House) -> None:
    """It has the task of that retry in its metadata, with what had ended; a restart of all takes an edit."""
    shop = Shop(any_house.app(), fails=True)
    app = shop.app
    await app.dlq.enqueue("ship:1", {"n": 1}, [], "connection reset", adapter="ship")
    for _ in range(2):
        await app.dlq.retry_task("ship:1")
    assert shop.ran == ["one", "two"]
    letter, task = await letter_of(app), await task_of(app)
    noted = letter.labels.value["lifecycle"]
    assert (noted["task_id"], letter.source.state) == (task.task_id, "steps_in_process")
    assert [(step["name"], step["state"]) for step in noted["steps"]] == [
        ("one", "complete"), ("two", "complete"), ("last", "waiting_for_retry")
    ]  # fmt: skip
    await app.dlq.letters.edit("ship:1", metadata={}, by="ann")
    await app.dlq.retry_task("ship:1")
    assert shop.ran == ["one", "two"] * 2
    shop.fails = False
    assert (await app.dlq.retry_task("ship:1"))["success"]
    assert shop.ran == [*["one", "two"] * 2, "last"]


@pytest.mark.parametrize("captured", [True, False])
async def test_a_letter_whose_task_is_not_here_is_given_back_with_the_reason(captured: bool) -> None:
    """Also if its steps ended in a later run than the one that was captured. An edit has all of it run."""
    clock = ManualClock()
    here, there = (
        Shop(MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), clock=clock), fails=True) for _ in range(2)
    )
    if captured:
        with pytest.raises(ConnectionResetError):
            await here.ship(1)
    else:
        await here.app.dlq.enqueue("ship:1", {"n": 1}, [], "connection reset", adapter="ship")
        await here.app.dlq.retry_task("ship:1")
    assert here.ran == ["one", "two"]
    documents = [json.loads(line) async for line in here.app.dlq.transfer.export()]
    await there.app.dlq.transfer.import_letters(documents, by="ann")
    there.fails = False
    clock.advance(3600)
    await there.app.dlq.run_due()
    letter = await letter_of(there.app)
    assert (there.ran, str(letter.status)) == ([], "exhausted")
    assert (
        "steps of 'ship:1' had finished (one, two), and their task is not in this store" in letter.failures[-1].message
    )
    await there.app.dlq.letters.edit("ship:1", metadata={}, by="ann")
    assert (await there.app.dlq.retry_task("ship:1"))["success"]
    assert there.ran == ["one", "two", "last"]
    for shop in (here, there):
        await shop.app.shutdown()


# --- retention


@pytest.mark.parametrize("close", ["archive", "fail", "cancel"])
async def test_a_task_stays_as_long_as_its_letter_may_be_opened(any_house: House, close: str) -> None:
    """Whatever retention says; a look finds that there is nothing to do. With the letter, it leaves."""
    shop = Shop(any_house.app(retention={"cancelled_days": None}), fails=True)
    app = shop.app
    with pytest.raises(ConnectionResetError):
        await shop.ship(1)
    await getattr(app.dlq.letters, close)("ship:1", by="ann")
    any_house.clock.advance(400 * 86400)
    assert (await app.dlq.archive.run(dry_run=False)).lifecycle_tasks_archived == 0
    await app.dlq.archive.maintain()
    passes = (await app.dlq.audit.list(action="archive.run")).items
    assert len(passes) == 1, "a pass with nothing to do has no entry"
    shop.fails = False
    await (app.dlq.letters.resurrect if close == "archive" else app.dlq.letters.redrive)("ship:1")
    assert (await app.dlq.retry_task("ship:1"))["success"]
    assert shop.ran == ["one", "two", "last"]
    any_house.clock.advance(400 * 86400)
    assert (await app.dlq.archive.run(dry_run=False)).lifecycle_tasks_archived == 1


async def test_a_task_that_is_complete_stays_while_its_letter_is_open(any_house: House) -> None:
    """A worker died between the two: the next one closes the letter, and runs nothing."""
    shop, there = Shop(any_house.app(), fails=True), Shop(any_house.app())
    with pytest.raises(ConnectionResetError):
        await shop.ship(1)
    shop.fails = False
    shop.app.dlq.store.faults.unavailable("write", kind=LETTERS)  # type: ignore[attr-defined]
    (letter,) = await there.app.dlq.list_tasks()
    run = await shop.app.lifecycle.tracking.resume(letter)
    assert run is not None
    await run.succeed()
    any_house.clock.advance(400 * 86400)
    assert (await there.app.dlq.archive.run(dry_run=False)).lifecycle_tasks_archived == 0
    await there.app.dlq.retry_task("ship:1")
    assert there.ran == []
    assert await there.app.dlq.list_tasks() == []


# --- signs of life


async def test_the_run_of_a_blocked_loop_gives_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread, and a connection of its own; what it says afterwards is one task with what the thread wrote."""
    monkeypatch.setattr(tracking, "SIGN", timedelta(milliseconds=20))
    url, clock = f"sqlite:///{tmp_path}/l.db", ManualClock()
    blocked, go_on, signed = threading.Event(), threading.Event(), threading.Event()
    beside = tracking.RunSigns._sign_beside

    async def heard(self: Any) -> None:
        await beside(self)
        signed.set()

    monkeypatch.setattr(tracking.RunSigns, "_sign_beside", heard)

    def first() -> None:
        async def main() -> None:
            async with MahavishnuApp(MahavishnuSettings(dlq_store_url=url), clock=clock) as app:

                @app.workflow("job", track=True)
                async def job() -> None:
                    blocked.set()
                    assert go_on.wait(60)

                await job()

        asyncio.run(main())

    thread = threading.Thread(target=first)
    thread.start()
    assert await asyncio.to_thread(blocked.wait, 60)
    try:
        clock.advance(3600)
        signed.clear()
        assert await asyncio.to_thread(signed.wait, 60)
        async with MahavishnuApp(MahavishnuSettings(dlq_store_url=url), clock=clock) as app:
            task = await task_of(app)
            assert (task.state, task.alive_at) == (TaskState.STEPS_IN_PROCESS, clock.now())
            clock.advance(3600)
            monkeypatch.setattr(tracking.RunSigns, "_sign_beside", beside)
            (row,) = await app.lifecycle.detect_and_transition_stale_tasks(dry_run=True)
            assert row["action_taken"] == "flagged_for_manual_review"
            await app.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
            assert (await task_of(app)).state is TaskState.STEPS_IN_PROCESS
            go_on.set()
            await asyncio.to_thread(thread.join)
            assert (await task_of(app)).state is TaskState.COMPLETE
    finally:
        go_on.set()
        await asyncio.to_thread(thread.join)

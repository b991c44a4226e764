"""Between a task and its letter: one decides, the other follows, and what a dead process left half done is finished."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.model.errors import IllegalMove, InvalidInput, NoSuchTask, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.task import OPEN, TERMINAL, StepRecord, TaskRecord, TaskState
from mahavishnu.testing.faults import Call
from tests.support.queues import House


async def put(app: MahavishnuApp, state: TaskState, **more: Any) -> str:
    """A task in this state."""
    now = app.dlq.clock.now()
    made = await app.lifecycle.create("pay", {"order": str(state)}, priority=5, steps=[StepRecord("a")])
    task = TaskRecord(**{name: getattr(made, name) for name in TaskRecord.__struct_fields__} | {"state": state} | more)
    assert await app.lifecycle.tasks.write([task]) != [None]
    assert now is not None
    return made.task_id


async def letters_of(app: MahavishnuApp) -> list[DeadLetter]:
    return list(await app.dlq.list_tasks())


@pytest.mark.parametrize("state", TaskState)
async def test_an_operator_moves_a_task_that_hangs_or_failed(house: House, state: TaskState) -> None:
    """The letter has the state that it was in; a second time it is the same letter. What ended otherwise stays."""
    app = house.app()
    task_id = await put(app, state)
    if state in TERMINAL and state is not TaskState.ERROR:
        with pytest.raises(IllegalMove, match=f"is {state}: cannot move it to error"):
            await app.lifecycle.move_to_dlq(task_id, by="ann")
        return
    first = await app.lifecycle.move_to_dlq(task_id, "its host is gone", by="ann")
    again = await app.lifecycle.move_to_dlq(task_id, "again", by="bob")

    (letter,) = await letters_of(app)
    assert (first.created, again.created, again.letter.entry_id) == (True, False, first.letter.entry_id)
    assert (letter.reason, letter.source.state, letter.priority) == ("manual", state, 5)
    assert letter.labels.value["lifecycle"]["task_id"] == task_id
    assert "its host is gone" in letter.error and "ann" in letter.error
    assert (await app.lifecycle.get(task_id)).state is TaskState.ERROR
    assert letter.occurrences == 1
    acts = (await app.dlq.audit.list(action="task.move")).items
    assert [(each.actor, each.subject, str(each.outcome)) for each in acts] == [
        ("bob", f"task:{task_id}", "done"), ("ann", f"task:{task_id}", "done"),
    ]  # fmt: skip


async def test_a_letter_keeps_its_task_as_it_was(house: House) -> None:
    """Four steps and eight moves, whatever becomes of the task."""
    app = house.app()
    names = ["a", "b", "c", "d"]
    task_id = (await app.lifecycle.create("pay", steps=[StepRecord(name) for name in names])).task_id
    for name in names[:3]:
        await app.lifecycle.begin_step(task_id, name)
        await app.lifecycle.complete_step(task_id, name, {"secret": "result"})
    await app.lifecycle.transition(task_id, "initializing")
    (await app.lifecycle.move_to_dlq(task_id, "stop", by="ann"))
    await app.dlq.requeue_from_dlq(task_id)
    await app.lifecycle.transition(task_id, "cancelled")

    (letter,) = await letters_of(app)
    snapshot = letter.labels.value["lifecycle"]
    assert [(step["name"], step["state"]) for step in snapshot["steps"]] == [
        ("a", "complete"), ("b", "complete"), ("c", "complete"), ("d", "pending"),
    ]  # fmt: skip
    assert len(snapshot["transitions"]) == 8  # six of steps, the beginning, and the move to error
    assert "result" not in str(snapshot)


@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_step_that_used_up_its_attempts_takes_its_task_along(house: House, attempts: int) -> None:
    """In error, with one letter that says so."""
    app = house.app()
    task_id = (await app.lifecycle.create("pay", steps=[StepRecord("a", max_attempts=attempts)])).task_id
    for _ in range(attempts):
        assert await letters_of(app) == []
        await app.lifecycle.begin_step(task_id, "a")
        await app.lifecycle.fail_step(task_id, "a", "refused")

    (letter,) = await letters_of(app)
    assert (letter.reason, letter.source.kind, letter.due_at) == ("max_retries_exceeded", "task", None)
    assert (await app.lifecycle.get(task_id)).state is TaskState.ERROR


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kth", range(1, 6))
async def test_a_move_whose_process_dies_is_finished_by_others(any_house: House, kth: int, where: str) -> None:
    """Or nothing has happened. There is one letter in the end, and the task is in error."""
    here, there = any_house.app(), any_house.app()
    task_id = await put(there, TaskState.WAITING_FOR_DEPENDENCIES)
    died = await die_at(any_house, here, here.lifecycle.move_to_dlq(task_id, "it hangs", by="ann"), kth, where)
    any_house.clock.advance(60)
    await there.lifecycle.handover.finish()

    task, letters = await there.lifecycle.get(task_id), await letters_of(there)
    if task.state is TaskState.WAITING_FOR_DEPENDENCIES:
        assert died
        assert letters == []
        letters = [(await there.lifecycle.move_to_dlq(task_id, "it hangs", by="ann")).letter]
    (letter,) = letters
    assert (letter.source.state, letter.occurrences) == ("waiting_for_dependencies", 1)
    assert (await there.lifecycle.get(task_id)).state is TaskState.ERROR
    assert await there.lifecycle.handover.finish() == 0


@pytest.mark.parametrize("hours", [1, 60])
async def test_a_move_is_finished_however_late(any_house: House, hours: int) -> None:
    """Its task has a mark until its letter is there, and nobody looks at it again afterwards."""
    here, there = any_house.app(), any_house.app()
    task_id = await put(there, TaskState.WAITING_FOR_DEPENDENCIES)
    assert await die_at(any_house, here, here.lifecycle.move_to_dlq(task_id, "it hangs", by="ann"), 3, "before")
    assert (await there.lifecycle.get(task_id)).owes == "letter"
    any_house.clock.advance(hours * 3600)
    assert (await there.dlq.archive.archive_completed_tasks(retention_days=0)).lifecycle_tasks_archived == 0
    assert [await there.lifecycle.handover.finish() for _ in range(2)] == [1, 0]
    (letter,) = await letters_of(there)
    task = await there.lifecycle.get(task_id)
    assert (letter.source.state, task.state, task.owes) == ("waiting_for_dependencies", TaskState.ERROR, None)


async def die_at(house: House, app: MahavishnuApp, work: Any, kth: int, where: str) -> bool:
    """Do this, and let the process die at its k-th write; whether it came so far."""
    writes, gone, end = 0, asyncio.Event(), asyncio.Event()

    async def die(call: Call) -> None:
        nonlocal writes
        writes += 1
        if writes == kth:
            gone.set()
            await end.wait()

    faults = app.dlq.store.faults  # type: ignore[attr-defined]
    getattr(faults, where)("write", die)
    running = asyncio.create_task(work)
    dying = asyncio.create_task(gone.wait())
    await asyncio.wait([running, dying], return_when=asyncio.FIRST_COMPLETED)
    if not gone.is_set():
        dying.cancel()
        await running
        return False
    house.kill(app.dlq)
    end.set()
    await asyncio.gather(running, return_exceptions=True)
    return True


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kth", range(1, 6))
async def test_twenty_requeues_and_a_process_that_dies_are_one_boost_and_one_transition(
    any_house: House, kth: int, where: str
) -> None:
    """Priority 5 becomes 15, exactly once, for the letter and the task."""
    here, others = any_house.app(), [any_house.app() for _ in range(3)]
    there = others[0]
    task_id = await put(there, TaskState.STEPS_IN_PROCESS)
    letter = (await there.lifecycle.move_to_dlq(task_id, "it hangs", by="ann")).letter

    async def requeue(app: MahavishnuApp) -> bool:
        return bool((await app.dlq.requeue_from_dlq(letter.task_id, resolved_by="ann"))["success"])

    rivals = asyncio.gather(*(requeue(others[number % 3]) for number in range(19)))
    await die_at(any_house, here, requeue(here), kth, where)
    won = await rivals
    if not any(won):  # perhaps it was the dead one
        await requeue(there)
    any_house.clock.advance(60)
    await there.lifecycle.handover.finish()

    (back,) = await letters_of(there)
    task = await there.lifecycle.get(task_id)
    assert (back.priority, task.priority, task.state) == (15, 15, TaskState.PENDING)
    moves = await there.lifecycle.transitions(task_id)
    (requeued,) = [each for each in moves if each.reason == "dlq_requeue"]
    assert requeued.metadata is not None
    assert requeued.metadata.value == {
        "dlq_entry_uuid": back.entry_id, "retry_count": 1, "priority_boost": 10, "resolved_by": "ann",
    }  # fmt: skip
    assert sum(won) <= 1
    assert await there.lifecycle.handover.finish() == 0


@pytest.mark.parametrize("kth", range(1, 5))
async def test_a_requeue_whose_process_dies_is_finished_by_others(any_house: House, kth: int) -> None:
    """If the letter was sent back, its task comes back too, without anybody who does it again."""
    here, there = any_house.app(), any_house.app()
    task_id = await put(there, TaskState.STEPS_IN_PROCESS)
    letter = (await there.lifecycle.move_to_dlq(task_id, "it hangs", by="ann")).letter
    assert await die_at(any_house, here, here.dlq.requeue_from_dlq(letter.task_id), kth, "before")

    await there.lifecycle.handover.finish()

    (left,) = await letters_of(there)
    task = await there.lifecycle.get(task_id)
    assert (left.priority, task.state) == ((15, "pending") if left.requeue is not None else (5, "error"))
    assert task.priority == left.priority
    assert (left.requeue is not None) is (kth > 2)


async def test_a_requeue_brings_a_task_back_once_even_if_it_fails_at_once(house: House) -> None:
    """The letter does not know yet that the run has failed: nobody brings the task back for the same requeue."""
    app = house.app()
    task_id = await put(app, TaskState.STEPS_IN_PROCESS)
    letter = (await app.lifecycle.move_to_dlq(task_id, by="ann")).letter
    await app.dlq.requeue_from_dlq(letter.task_id)
    sent = await app.dlq.get_task(letter.task_id)
    assert sent is not None
    run = await app.lifecycle.tracking.resume(sent)
    assert run is not None
    await run.fail("again")

    await app.lifecycle.handover.follow(sent)

    assert (await app.lifecycle.get(task_id)).state is TaskState.ERROR


async def test_a_failure_whose_task_still_seems_to_run_is_finished(house: House) -> None:
    """The process died between the letter and the task; but a run that goes on is left alone."""
    here, there = house.app(), house.app()

    @here.workflow(name="pay", track=True, retry_policy="never")
    async def pay() -> None:
        raise ValueError("no")

    here.dlq.store.faults.unavailable("write", kind=TASKS, times=1).stop()  # type: ignore[attr-defined]
    letters = 0

    async def die(call: Call) -> None:
        nonlocal letters
        letters += 1
        house.kill(here.dlq)

    here.dlq.store.faults.after("write", die, kind=LETTERS)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="no"):
        await pay()
    assert letters == 1
    (task,) = (await there.lifecycle.list()).items
    assert task.state is TaskState.STEPS_IN_PROCESS
    assert await there.lifecycle.handover.finish() == 0  # it might be going on
    house.clock.advance(60)
    hold = there.dlq.store.faults.hold("write", kind=TASKS)  # type: ignore[attr-defined]
    finishing = asyncio.create_task(there.lifecycle.handover.finish())
    await hold.wait_for_call()
    (letter,) = await letters_of(there)
    other = house.app()
    assert await other.lifecycle.tracking.resume(letter) is not None
    hold.release()
    assert await finishing == 0
    assert (await there.lifecycle.get(task.task_id)).state is TaskState.STEPS_IN_PROCESS
    house.clock.advance(60)
    assert await there.lifecycle.handover.finish() == 1
    assert (await there.lifecycle.get(task.task_id)).state is TaskState.ERROR


async def test_a_deleted_letter_is_not_made_again(house: House) -> None:
    """Somebody wanted it gone."""
    app = house.app()
    task_id = await put(app, OPEN[0])
    await app.lifecycle.move_to_dlq(task_id, by="ann")
    await app.dlq.clear_all(by="ann")
    house.clock.advance(60)
    assert await app.lifecycle.handover.finish() == 0
    assert await letters_of(app) == []


async def test_only_what_is_there_can_be_moved(house: House) -> None:
    with pytest.raises(NoSuchTask):
        await house.app().lifecycle.move_to_dlq("x", by="ann")


@pytest.mark.parametrize("first", ["mover", "worker"])
@pytest.mark.parametrize("kth", range(1, 7))
async def test_who_moves_a_task_and_who_completes_it_cannot_both_win(any_house: House, first: str, kth: int) -> None:
    """Stopped before any of its calls: it is complete without a letter, or in error with one."""
    apps = {"mover": any_house.app(), "worker": any_house.app()}
    done, go_on, at_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    worker = apps["worker"]

    @worker.workflow(name="work", track=True)
    async def work() -> None:
        done.set()
        await go_on.wait()

    async def complete() -> None:
        go_on.set()
        await running

    async def hand_over() -> None:
        try:
            await apps["mover"].lifecycle.move_to_dlq(task.task_id, "it hangs", by="ann")
        except IllegalMove:
            return

    running = asyncio.create_task(work())
    await done.wait()
    (task,) = (await apps["mover"].lifecycle.list()).items
    acts = {"mover": hand_over, "worker": complete}
    calls = 0

    async def stop(call: Call) -> None:
        nonlocal calls
        calls += 1
        if calls == kth:
            at_end.set()
            await other_done.wait()

    other_done = asyncio.Event()
    for operation in ("get", "write"):
        apps[first].dlq.store.faults.before(operation, stop)  # type: ignore[attr-defined]
    one = asyncio.create_task(acts[first]())
    stopped = asyncio.create_task(at_end.wait())
    await asyncio.wait([one, stopped], return_when=asyncio.FIRST_COMPLETED)
    await acts["worker" if first == "mover" else "mover"]()
    other_done.set()
    await asyncio.gather(one, return_exceptions=True)
    stopped.cancel()

    left = await apps["mover"].lifecycle.get(task.task_id)
    letters = await letters_of(apps["mover"])
    assert (left.state, len(letters)) in [(TaskState.COMPLETE, 0), (TaskState.ERROR, 1)]


async def test_details_that_are_too_large_leave_the_task_as_it_was(house: House) -> None:
    app = house.app(dlq_max_task_bytes=1024)
    task_id = await put(app, TaskState.PENDING)
    with pytest.raises(InvalidInput, match="details has 2011 bytes as JSON, more than the 1024 of dlq_max_task_bytes"):
        await app.lifecycle.move_to_dlq(task_id, details={"blob": "x" * 2000})
    assert (await app.lifecycle.get(task_id)).state is TaskState.PENDING
    assert await letters_of(app) == []
    await app.lifecycle.move_to_dlq(task_id, details={"blob": "x" * 1000})
    (letter,) = await letters_of(app)
    assert letter.labels.value["blob"] == "x" * 1000


@pytest.mark.parametrize("bad", ["task", "letter"])
async def test_a_record_that_cannot_be_read_keeps_no_other_hand_over_from_being_finished(
    house: House, bad: str
) -> None:
    """Of two whose letters were never made, or two whose requeues their tasks have not heard of."""
    app, dying = house.app(), house.app()
    ids = [(await app.lifecycle.create("pay", number)).task_id for number in range(2)]
    if bad == "letter":
        for each in ids:
            await app.lifecycle.move_to_dlq(each)
    dying.dlq.store.faults.unavailable("write", kind=LETTERS if bad == "task" else TASKS)  # type: ignore[attr-defined]
    for each in ids:
        with contextlib.suppress(StoreUnavailable):
            await (dying.lifecycle.move_to_dlq(each) if bad == "task" else dying.dlq.requeue_from_dlq(each))
    house.clock.advance(60)
    with house.faults.corrupt("find", kind=TASKS if bad == "task" else LETTERS, keys=[ids[0]]):
        assert await app.lifecycle.handover.finish() == 1
    assert await app.lifecycle.handover.finish() == 1


async def test_a_task_that_cannot_be_read_hides_no_other_that_is_ready(house: House) -> None:
    app = house.app()
    ids = [(await app.lifecycle.create("pay", number)).task_id for number in range(2)]
    with house.faults.corrupt(kind=TASKS, keys=[ids[0]]):
        assert [task.task_id for task in await app.lifecycle.next_ready_tasks()] == [ids[1]]


async def test_a_letter_that_the_store_refuses_keeps_no_other_from_being_made(house: House) -> None:
    app, dying = house.app(), house.app()
    ids = [(await app.lifecycle.create("pay", number)).task_id for number in range(2)]
    dying.dlq.store.faults.unavailable("write", kind=LETTERS)  # type: ignore[attr-defined]
    for each in ids:
        with contextlib.suppress(StoreUnavailable):
            await dying.lifecycle.move_to_dlq(each)
    house.clock.advance(60)
    with house.faults.item_failed("write", keys=[ids[0]], kind=LETTERS):
        assert await app.lifecycle.handover.finish() == 1
    assert await app.lifecycle.handover.finish() == 1

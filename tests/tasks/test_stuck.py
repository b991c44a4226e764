"""Tasks that are active, and in which nothing goes on: reset three times, then given up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mahavishnu.model.errors import ChangedMeanwhile, IllegalMove
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DlqReason, RetryPolicy
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.tasks.rules import ReasonRules
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.staleness_rules import StalenessRules
from mahavishnu.tasks.stuck import StalenessCycle
from mahavishnu.tasks.task import StepRecord, StepState, TaskRecord, TaskState
from mahavishnu.tasks.templates import read_templates
from mahavishnu.workers.processing import Processing
from tests.support.queues import House

RULES = StalenessRules()
STUCK = 10 * 60 + 1.0


def lifecycle_of(house: House, rules: StalenessRules = RULES) -> Lifecycle:
    """As another process has it."""
    return Lifecycle(house.queue(rules=[rules]).context)


async def active(of: Lifecycle, name: str = "import", template: str | None = None) -> TaskRecord:
    """A task of which somebody has begun a step, and then no more is heard."""
    task = await of.create(name, template=template, steps=[StepRecord("read"), StepRecord("book", ("read",))])
    await of.transition(task.task_id, "initializing")
    await of.transition(task.task_id, "steps_in_process")
    return await of.begin_step(task.task_id, "read")


async def look_on(house: House, seconds: float, *workers: StalenessCycle) -> int:
    """So much time passes, and the workers look as they do, every two minutes and in the end. How many were moved."""
    moved = 0
    while seconds > 0:
        house.clock.advance(min(seconds, 120))
        seconds -= 120
        moved += sum(await asyncio.gather(*(worker.recover_stuck() for worker in workers)))
    return moved


async def letters_of(of: Lifecycle) -> list[DeadLetter]:
    return [letter async for letter in scan(of._context.letters, Query())]


async def test_a_stuck_task_is_reset_three_times_and_then_given_up(any_house: House) -> None:
    """Somebody else goes on with it each time, and hangs too; a requeue gives it fresh recoveries."""
    of = lifecycle_of(any_house)
    cycle, task = StalenessCycle(of._context), await active(of)
    for recoveries in (1, 2, 3):
        assert await look_on(any_house, STUCK - 1, cycle) == 0
        assert await look_on(any_house, 1, cycle) == 1
        now = await of.get(task.task_id)
        assert (now.state, now.recovery_count) == (TaskState.WAITING_FOR_RETRY, recoveries)
        assert now.transitions[-1].reason == "reset_to_waiting"
        assert [each.task_id for each in await of.next_ready_tasks()] == [task.task_id]
        await of.transition(task.task_id, "steps_in_process")
        await of.begin_step(task.task_id, "read")
    assert of._context.counts["stuck_tasks_reset"] == 3

    assert await look_on(any_house, STUCK, cycle) == 1
    ended = await of.get(task.task_id)
    assert ended.state is TaskState.ERROR and ended.transitions[-1].reason == "max_retries_exceeded"
    (letter,) = await letters_of(of)
    assert letter.reason == DlqReason.MAX_RETRIES_EXCEEDED and letter.source.state == "steps_in_process"
    assert letter.retry_policy == RetryPolicy.NEVER
    assert "after it was reset 3 times" in letter.error
    assert await cycle.recover_stuck() == 0

    queue = any_house.queue()
    assert (await queue.requeue_from_dlq(letter.task_id))["success"]
    back = await of.get(task.task_id)
    assert (back.state, back.recovery_count) == (TaskState.PENDING, 0)


async def test_a_task_that_reports_is_not_stuck(any_house: House) -> None:
    """Each step that begins or ends counts; so does that its state is one in which others may go on."""
    of = lifecycle_of(any_house)
    cycle, task = StalenessCycle(of._context), await active(of)
    for report in (of.complete_step(task.task_id, "read"), of.begin_step(task.task_id, "book")):
        assert await look_on(any_house, 9 * 60, cycle) == 0
        await report
    assert await look_on(any_house, STUCK, cycle) == 1
    assert await look_on(any_house, STUCK, cycle) == 0  # it waits


async def test_a_task_that_is_kept_alive_is_not_stuck(any_house: House) -> None:
    """A long step says that it goes on; what does not run has nothing to say."""
    of = lifecycle_of(any_house)
    cycle, task = StalenessCycle(of._context), await active(of)
    for _ in range(3):
        assert await look_on(any_house, 9 * 60, cycle) == 0
        await of.keep_alive(task.task_id)
    assert await look_on(any_house, STUCK, cycle) == 1
    waiting = await of.get(task.task_id)
    assert await of.keep_alive(task.task_id) == waiting


async def test_what_a_former_run_still_reports_is_too_late(any_house: House) -> None:
    """A step that was reset is somebody else's: the first one's result is counted, and not taken."""
    of = lifecycle_of(any_house)
    task = await active(of)
    any_house.clock.advance(STUCK)
    await StalenessCycle(of._context).recover_stuck()
    assert await of.complete_step(task.task_id, "read", {"rows": 1}) is False
    assert of.late_reports == 1
    step = (await of.get(task.task_id)).step("read")
    assert step is not None and (step.state, step.result) == (StepState.WAITING_FOR_RETRY, None)


async def test_a_step_without_another_attempt_is_not_reset(any_house: House) -> None:
    """Its task is given up at once, for the same reason."""
    of = lifecycle_of(any_house)
    task = await of.create("pay", steps=[StepRecord("charge", max_attempts=1)])
    await of.transition(task.task_id, "initializing")
    await of.transition(task.task_id, "steps_in_process")
    await of.begin_step(task.task_id, "charge")
    any_house.clock.advance(STUCK)
    assert await StalenessCycle(of._context).recover_stuck() == 1
    (letter,) = await letters_of(of)
    assert letter.reason == DlqReason.MAX_RETRIES_EXCEEDED
    assert (await of.get(task.task_id)).recovery_count == 0


async def test_ten_workers_reset_a_task_once(any_house: House) -> None:
    """And the last time there is one letter."""
    workers = [StalenessCycle(lifecycle_of(any_house)._context) for _ in range(10)]
    of = lifecycle_of(any_house, replace(RULES, max_recoveries_per_task=1))
    for worker in workers:
        worker._context.set_rules(of._context.rules(StalenessRules))
    task = await active(of)
    assert await look_on(any_house, STUCK, *workers) == 1
    assert (await of.get(task.task_id)).recovery_count == 1
    await of.transition(task.task_id, "steps_in_process")
    assert await look_on(any_house, STUCK, *workers) == 1
    (letter,) = await letters_of(of)
    assert letter.occurrences == 1


async def test_what_people_look_at_is_left_alone_and_templates_may_take_longer(any_house: House) -> None:
    """`manual_review` is never reset; a template that allows an hour for its steps has said so."""
    blocks = {
        "by_hand": {"lifecycle": {"staleness_action": "manual_review"}},
        "slow": {"lifecycle": {"max_steps_in_process_minutes": 60}},
        "quick": {"lifecycle": {"max_steps_in_process_minutes": 5}},
    }
    rules = replace(RULES, templates=read_templates(blocks))
    of = lifecycle_of(any_house, rules)
    tasks = {name: await active(of, name, name) for name in blocks}
    cycle = StalenessCycle(of._context)
    assert await look_on(any_house, STUCK, cycle) == 1
    assert (await of.get(tasks["quick"].task_id)).recovery_count == 1
    assert await look_on(any_house, 49 * 60, cycle) == 0
    assert await look_on(any_house, 2 * 60, cycle) == 1
    assert {name: (await of.get(task.task_id)).recovery_count for name, task in tasks.items()} == {
        "by_hand": 0, "slow": 1, "quick": 1,
    }  # fmt: skip


async def test_nobody_is_stuck_for_downtime_or_while_it_is_off(any_house: House) -> None:
    """Off, a dry run, and two hours in which no worker lived: nothing is changed."""
    of = lifecycle_of(any_house)
    cycle, task = StalenessCycle(of._context), await active(of)
    assert await cycle.run() == 0
    any_house.clock.advance(2 * 3600)
    assert await StalenessCycle(lifecycle_of(any_house)._context).recover_stuck() == 0
    of._context.set_rules(replace(RULES, enable_stuck_task_detection=False))
    for _ in range(2):
        any_house.clock.advance(301)
        assert await cycle.run() == await cycle.recover_stuck() == 0
    of._context.set_rules(replace(RULES, enabled=False))
    assert await cycle.recover_stuck() == 0
    of._context.set_rules(replace(RULES, dry_run=True))
    assert await cycle.recover_stuck() == 1
    assert (await of.get(task.task_id)).state is TaskState.STEPS_IN_PROCESS
    of._context.set_rules(RULES)
    assert await cycle.recover_stuck() == 1


async def test_no_letter_where_the_reason_is_switched_off(any_house: House) -> None:
    """The task has only failed: also if a step has used up its attempts."""
    of = lifecycle_of(any_house, replace(RULES, max_recoveries_per_task=0))
    of._context.set_rules(ReasonRules(max_retries_exceeded=False))
    stuck = await active(of)
    failing = await of.create("pay", steps=[StepRecord("charge", max_attempts=1)])
    await of.begin_step(failing.task_id, "charge")
    await of.fail_step(failing.task_id, "charge", "declined")
    any_house.clock.advance(STUCK)
    assert await StalenessCycle(of._context).recover_stuck() == 1
    for task in (stuck, failing):
        assert (await of.get(task.task_id)).state is TaskState.ERROR
    any_house.clock.advance(60)
    await of.handover.finish()
    assert await letters_of(of) == []


async def test_workers_look_every_two_minutes(house: House) -> None:
    """The chore is among those of a worker, with the interval of the settings."""
    queue = house.queue()
    chores = {each.name: each.seconds() for each in Processing.for_queue(queue)._periodic_tasks}
    assert chores["stuck tasks"] == 120 and chores["stale tasks"] == 300


async def test_a_move_that_cannot_be_makes_a_letter_only_if_that_is_wanted(any_house: House) -> None:
    """The caller gets the error either way; what has ended, or was moved by somebody else first, is no case."""
    of = lifecycle_of(any_house)
    task = await of.create("pay")
    for keeps in (False, True):
        of._context.set_rules(ReasonRules(invalid_state_transition=keeps))
        with pytest.raises(ChangedMeanwhile):
            await of.transition(task.task_id, "initializing", from_state="steps_in_process")
        assert await letters_of(of) == []
        with pytest.raises(IllegalMove, match="cannot move it to blocked_by_failures"):
            await of.transition(task.task_id, "blocked_by_failures")
        state = TaskState.ERROR if keeps else TaskState.PENDING
        assert (await of.get(task.task_id)).state is state
    (letter,) = await letters_of(of)
    assert letter.reason == DlqReason.INVALID_STATE_TRANSITION and "blocked_by_failures" in letter.error
    done = await of.create("done")
    await of.finalize(done.task_id)
    with pytest.raises(IllegalMove):
        await of.transition(done.task_id, "pending")
    assert len(await letters_of(of)) == 1

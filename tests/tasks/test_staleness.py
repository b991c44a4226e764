"""Stale tasks are found, and moved once: by templates, in batches, and never if they went on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DlqReason, RequeueOutcome
from mahavishnu.model.query import Query
from mahavishnu.stores.base import get_one, scan
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.tasks.records import STALENESS
from mahavishnu.tasks.rules import ReasonRules
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.staleness_rules import StalenessRules, StaleRow
from mahavishnu.tasks.stuck import StalenessCycle
from mahavishnu.tasks.task import StepRecord, TaskRecord, TaskState
from mahavishnu.tasks.templates import read_templates
from tests.support.queues import House

TEMPLATES = read_templates(
    {
        "payment": {"lifecycle": {"max_waiting_for_dependencies_minutes": 10}},
        "sync": {"lifecycle": {"max_duration_minutes": 10080}},
        "by_hand": {"lifecycle": {"staleness_action": "manual_review"}},
        "just_fail": {"lifecycle": {"staleness_action": "error"}},
        "copy": {"lifecycle": {"auto_fail_on_timeout": False}},
    }
)
RULES = StalenessRules(templates=TEMPLATES)
KEYS = [
    "task_uuid", "namespace_name", "task_name", "current_state", "time_in_state_minutes", "staleness_threshold_minutes",
    "action_taken", "moved_to_dlq", "transition_success",
]  # fmt: skip


def lifecycle_of(house: House, rules: StalenessRules = RULES) -> Lifecycle:
    """As another process has it."""
    return Lifecycle(house.queue(rules=[rules]).context)


async def waiting(of: Lifecycle, name: str, template: str | None = None, **more: Any) -> TaskRecord:
    """A task that waits for its dependencies from now on."""
    task = await of.create(name, template=template, unique=False, **more)
    await of.transition(task.task_id, "initializing")
    return await of.transition(task.task_id, "waiting_for_dependencies")


async def letters_of(of: Lifecycle) -> list[DeadLetter]:
    return [letter async for letter in scan(of._context.letters, Query())]


def actions(rows: Sequence[StaleRow]) -> list[str]:
    return [row["action_taken"] for row in rows]


async def test_a_dry_run_tells_and_changes_nothing(any_house: House) -> None:
    """Nothing at all: not a byte of any record, and it is the default."""
    of = lifecycle_of(any_house)
    tasks = [await waiting(of, f"job-{number}") for number in range(5)]
    any_house.clock.advance(61 * 60)
    before = await of.list("all")
    rows = await of.detect_and_transition_stale_tasks()

    assert actions(rows) == ["would_transition_to_dlq_and_error"] * 5
    assert all(list(row) == KEYS for row in rows)
    assert {row["task_uuid"] for row in rows} == {task.task_id for task in tasks}
    assert rows[0] == {
        **rows[0],
        "namespace_name": "default",
        "current_state": "waiting_for_dependencies",
        "time_in_state_minutes": 61,
        "staleness_threshold_minutes": 60,
        "moved_to_dlq": False,
        "transition_success": False,
    }
    after = await of.list("all")
    assert [(task, task.version) for task in after.items] == [(task, task.version) for task in before.items]
    assert await letters_of(of) == []


async def test_stale_tasks_end_in_error_and_have_letters(any_house: House) -> None:
    """Each letter says what hung, for how long, who found it, and is in the group of what hangs alike."""
    of = lifecycle_of(any_house)
    tasks = [await waiting(of, "pay", "payment", context={"order": number}) for number in range(5)]
    fine = await waiting(of, "sync", "sync")
    any_house.clock.advance(11 * 60)
    events = heard_of(of)
    rows = await of.detect_and_transition_stale_tasks(dry_run=False)

    assert actions(rows) == ["transitioned_to_dlq_and_error"] * 5
    assert all(row["moved_to_dlq"] and row["transition_success"] for row in rows)
    letters = await letters_of(of)
    assert {letter.reason for letter in letters} == {DlqReason.STALENESS_TIMEOUT}
    assert {letter.fingerprint for letter in letters} == {"stale:payment:waiting_for_dependencies"}
    assert sorted(letter.task["order"] for letter in letters) == [0, 1, 2, 3, 4]
    labels = letters[0].labels.value
    assert labels["detector"] == "automatic_staleness_detection" and labels["detection_time"]
    assert labels["lifecycle"] == {
        **labels["lifecycle"],
        "task_uuid": letters[0].task_id,
        "namespace": "default",
        "task_name": "pay",
        "time_in_state_minutes": 11,
        "threshold_minutes": 10,
        "state": "waiting_for_dependencies",
    }
    for task in tasks:
        ended = await of.get(task.task_id)
        last = ended.transitions[-1]
        assert ended.state is TaskState.ERROR and last.reason == "staleness_timeout" and last.metadata is not None
        assert last.metadata.value["automatic_transition"] is True
        assert last.metadata.value["time_in_state_minutes"] == 11
    assert (await of.get(fine.task_id)).state is TaskState.WAITING_FOR_DEPENDENCIES
    assert [event.name for event in events].count(EventName.TASK_STALE) == 5
    assert await of.detect_and_transition_stale_tasks(dry_run=False) == []


def heard_of(of: Lifecycle) -> list[Any]:
    events: list[Any] = []
    of._context.events.subscribe(events.append)
    return events


async def test_each_template_is_judged_by_its_own_limits(any_house: House) -> None:
    """The payment after 11 minutes; the sync not after three days, but after a week."""
    of = lifecycle_of(any_house)
    payment, sync = await waiting(of, "pay", "payment"), await waiting(of, "sync", "sync")
    any_house.clock.advance(11 * 60)
    assert [row["task_uuid"] for row in await of.detect_and_transition_stale_tasks()] == [payment.task_id]
    any_house.clock.advance(3 * 86400)
    assert sync.task_id not in {row["task_uuid"] for row in await of.detect_and_transition_stale_tasks()}
    any_house.clock.advance(4 * 86400)
    assert sync.task_id in {row["task_uuid"] for row in await of.detect_and_transition_stale_tasks()}


async def test_the_longest_overdue_come_first(any_house: House) -> None:
    """By how much they are late, not by how old they are."""
    of = lifecycle_of(any_house)
    late = await waiting(of, "late")
    any_house.clock.advance(10 * 60)
    later = await waiting(of, "later", "payment")
    any_house.clock.advance(2 * 60)
    last = await waiting(of, "last", "payment")
    any_house.clock.advance(55 * 60)
    rows = await of.detect_and_transition_stale_tasks()
    assert [row["task_uuid"] for row in rows] == [later.task_id, last.task_id, late.task_id]
    (first,) = await of.detect_and_transition_stale_tasks(dry_run=False, batch_size=1)
    assert first["task_uuid"] == later.task_id


async def test_templates_say_what_is_done(any_house: House) -> None:
    """`error` makes no letter, `manual_review` tells once, and a letter alone leaves the task where it is."""
    of = lifecycle_of(any_house)
    tasks = {name: await waiting(of, name, name) for name in ("by_hand", "just_fail", "copy")}
    any_house.clock.advance(61 * 60)
    rows = {row["task_name"]: row for row in await of.detect_and_transition_stale_tasks(dry_run=False)}

    assert {name: row["action_taken"] for name, row in rows.items()} == {
        "by_hand": "flagged_for_manual_review",
        "just_fail": "transitioned_to_error_only",
        "copy": "moved_to_dlq_only",
    }
    assert (await of.get(tasks["by_hand"].task_id)).state is TaskState.WAITING_FOR_DEPENDENCIES
    assert (await of.get(tasks["just_fail"].task_id)).state is TaskState.ERROR
    assert (await of.get(tasks["copy"].task_id)).state is TaskState.WAITING_FOR_DEPENDENCIES
    (letter,) = await letters_of(of)
    assert letter.task_id == tasks["copy"].task_id and letter.retry_policy == "never"
    again = await of.detect_and_transition_stale_tasks(dry_run=False)
    assert [(row["task_name"], row["action_taken"]) for row in again] == [("copy", "already_in_dlq")]
    any_house.clock.advance(60)
    await of.handover.finish()
    assert len(await letters_of(of)) == 1


async def test_an_edited_template_counts_at_once(any_house: House) -> None:
    """Limits are not copied into tasks."""
    of = lifecycle_of(any_house)
    task = await waiting(of, "pay", "payment")
    any_house.clock.advance(11 * 60)
    longer = read_templates({"payment": {"lifecycle": {"max_waiting_for_dependencies_minutes": 20}}})
    of._context.set_rules(StalenessRules(templates=longer))
    assert await of.detect_and_transition_stale_tasks() == []
    of._context.set_rules(RULES)
    assert [row["task_uuid"] for row in await of.detect_and_transition_stale_tasks()] == [task.task_id]


async def test_of_ten_detectors_one_moves_each_task(any_house: House) -> None:
    """The others are told that they were not quick enough; each task has one letter."""
    detectors = [lifecycle_of(any_house) for _ in range(10)]
    tasks = [await waiting(detectors[0], f"job-{number}") for number in range(12)]
    any_house.clock.advance(61 * 60)
    all_rows = await asyncio.gather(*(of.detect_and_transition_stale_tasks(dry_run=False) for of in detectors))

    for task in tasks:
        taken = [row["action_taken"] for rows in all_rows for row in rows if row["task_uuid"] == task.task_id]
        assert taken.count("transitioned_to_dlq_and_error") == 1
        assert set(taken) <= {"transitioned_to_dlq_and_error", "skipped_conflict", "already_in_dlq"}
        ended = await detectors[0].get(task.task_id)
        assert [move.to_state for move in ended.transitions].count("error") == 1
    letters = await letters_of(detectors[0])
    assert sorted(letter.task_id for letter in letters) == sorted(task.task_id for task in tasks)
    assert {letter.occurrences for letter in letters} == {1}


async def test_a_letter_that_the_store_does_not_take_is_made_later(any_house: House) -> None:
    """The task has ended; its letter is made by the next who finishes what is half done, and says the same."""
    of = lifecycle_of(any_house)
    task = await waiting(of, "pay", "payment")
    any_house.clock.advance(11 * 60)
    any_house.faults.unavailable("write", kind=LETTERS)
    (row,) = await of.detect_and_transition_stale_tasks(dry_run=False)
    assert row["action_taken"] == "transitioned_to_error_only"
    any_house.faults.clear()
    assert await letters_of(of) == []

    any_house.clock.advance(31)
    assert await lifecycle_of(any_house).handover.finish() == 1
    (letter,) = await letters_of(of)
    assert letter.fingerprint == "stale:payment:waiting_for_dependencies"
    assert letter.task_id == task.task_id and letter.reason == DlqReason.STALENESS_TIMEOUT
    assert letter.labels.value["lifecycle"]["threshold_minutes"] == 10
    assert letter.labels.value["detector"] == "automatic_staleness_detection"


async def test_steps_that_wait_for_one_another_are_named(any_house: House) -> None:
    """A cycle that came in by other means is the reason that the letter says."""
    of = lifecycle_of(any_house)
    task = await waiting(of, "pay", steps=[StepRecord("a"), StepRecord("b")])
    looped = (StepRecord("a", ("b",)), StepRecord("b", ("a",)))
    await of.change(task.task_id, lambda now: replace(now, steps=looped))
    any_house.clock.advance(61 * 60)
    await of.detect_and_transition_stale_tasks(dry_run=False)
    (letter,) = await letters_of(of)
    assert letter.reason == DlqReason.DEPENDENCY_CYCLE_DETECTED


@pytest.mark.parametrize("batch_size", [0, -1, 10_001, True])
async def test_a_batch_that_cannot_be_is_refused(house: House, batch_size: int) -> None:
    with pytest.raises(InvalidInput, match="batch_size"):
        await lifecycle_of(house).detect_and_transition_stale_tasks(batch_size=batch_size)


async def test_a_look_drains_all_and_forgives_downtime(any_house: House) -> None:
    """Batch after batch; what waited for five minutes before two hours of downtime is not stale; off is off."""
    of = lifecycle_of(any_house, replace(RULES, batch_size=2))
    cycle = StalenessCycle(of._context)
    assert await cycle.run() == 0
    tasks = [await waiting(of, f"job-{number}", "payment") for number in range(5)]
    any_house.clock.advance(5 * 60)
    assert await cycle.run() == 0
    any_house.clock.advance(2 * 3600)
    assert await cycle.run() == 0
    any_house.clock.advance(5 * 60 + 1)
    of._context.set_rules(replace(of._context.rules(StalenessRules), enabled=False))
    assert await cycle.run() == 0
    of._context.set_rules(replace(of._context.rules(StalenessRules), enabled=True))
    assert await cycle.run() == len(tasks)
    assert len(await letters_of(of)) == len(tasks)


async def test_a_warning_comes_once_for_each_task_and_state(any_house: House) -> None:
    """After three quarters of the limit, by whichever worker looks."""
    of = lifecycle_of(any_house)
    await waiting(of, "job")
    events = heard_of(of)
    for minutes in (45, 1, 1, 1, 1):
        any_house.clock.advance(minutes * 60)
        await of.staleness.warn()
    assert [event.name for event in events].count(EventName.TASK_STALE_SOON) == 1


@pytest.mark.parametrize("dry_run", [True, False])
async def test_what_was_told_keeps_no_other_from_being_found(any_house: House, dry_run: bool) -> None:
    """More tasks than a batch has are flagged, or have their letter, and are overdue longer: the others come first."""
    of = lifecycle_of(any_house)
    for number in range(7):
        await waiting(of, f"by_hand-{number}", "by_hand")
        await waiting(of, f"copy-{number}", "copy")
    any_house.clock.advance(61 * 60)
    assert len(await of.detect_and_transition_stale_tasks(dry_run=False)) == 14
    late = await waiting(of, "late")
    any_house.clock.advance(61 * 60)

    rows = await of.detect_and_transition_stale_tasks(dry_run, batch_size=5)

    assert late.task_id in {row["task_uuid"] for row in rows}
    assert len(rows) == 5 and rows[-1]["task_uuid"] == late.task_id  # the rest has room, and is overdue longer
    assert set(actions(rows[:-1])) <= {"already_in_dlq", "flagged_for_manual_review"}


async def test_a_batch_is_as_long_as_it_may_be(any_house: House) -> None:
    """It is filled from the next pages, the most overdue first, whatever limit each has exceeded."""
    of = lifecycle_of(any_house)
    names = []
    for number in range(12):
        names.append(f"job-{number}")
        await waiting(of, names[-1], ("payment", None, "by_hand")[number % 3])
        any_house.clock.advance(60)
    any_house.clock.advance(25 * 3600)
    everything = await of.detect_and_transition_stale_tasks(batch_size=100)
    assert len(everything) == 12
    assert [row["task_uuid"] for row in everything[:5]] == [
        row["task_uuid"] for row in await of.detect_and_transition_stale_tasks(batch_size=5)
    ]
    first = [row["task_name"] for row in everything[:4]]
    assert first == ["job-0", "job-3", "job-6", "job-9"]  # payments are overdue longest: their limit is ten minutes


async def test_while_it_is_off_or_nothing_is_tracked_no_look_is_written(any_house: House) -> None:
    """Nor is that downtime: turned on again, tasks are judged by the time that they have been in their states."""
    of = lifecycle_of(any_house)
    cycle, looks = StalenessCycle(of._context), of._context.store.collection(STALENESS)
    for _ in range(3):
        await cycle.run()
        any_house.clock.advance(24 * 3600)
    assert await get_one(looks, "default") is None
    await waiting(of, "first", "payment")
    assert await cycle.run() == 0
    first = await get_one(looks, "default")
    assert first is not None and first.looked_at == any_house.clock.now() and first.pauses == ()

    of._context.set_rules(replace(RULES, enabled=False))
    any_house.clock.advance(300)
    assert await cycle.run() == 0
    off = await get_one(looks, "default")
    assert off is not None and off.off
    any_house.clock.advance(6 * 60)
    assert await cycle.run() == 0
    assert await get_one(looks, "default") == off
    restarted = StalenessCycle(lifecycle_of(any_house)._context)
    assert await restarted.run() == 1


async def test_what_is_switched_off_makes_no_letter(any_house: House) -> None:
    """The task has only failed; and one that would only have a letter is left to people."""
    of = lifecycle_of(any_house)
    of._context.set_rules(ReasonRules(staleness_timeout=False))
    tasks = {name: await waiting(of, name, name) for name in ("plain", "copy")}
    any_house.clock.advance(61 * 60)
    rows = {row["task_name"]: row for row in await of.detect_and_transition_stale_tasks(dry_run=False)}
    assert {name: row["action_taken"] for name, row in rows.items()} == {
        "plain": "transitioned_to_error_only",
        "copy": "flagged_for_manual_review",
    }
    assert (await of.get(tasks["plain"].task_id)).state is TaskState.ERROR
    any_house.clock.advance(60)
    assert await of.handover.finish() == 0
    assert await letters_of(of) == []


async def requeued(of: Lifecycle, house: House) -> tuple[TaskRecord, DeadLetter]:
    """A task that hung, and was sent back."""
    task = await waiting(of, "pay", "payment")
    house.clock.advance(11 * 60)
    await of.detect_and_transition_stale_tasks(dry_run=False)
    (letter,) = await letters_of(of)
    assert (await house.queue().requeue_from_dlq(letter.task_id))["success"]
    return await of.get(task.task_id), letter


async def test_a_task_that_was_sent_back_goes_on_in_peace(any_house: House) -> None:
    """Its letter is open, and nobody runs it: that is no run whose process has died. Once it is done the case ends."""
    of = lifecycle_of(any_house)
    task, _ = await requeued(of, any_house)
    for state in ("initializing", "steps_in_process"):
        await of.transition(task.task_id, state)
    any_house.clock.advance(60)
    assert await of.handover.finish() == 0
    assert (await of.get(task.task_id)).state is TaskState.STEPS_IN_PROCESS
    any_house.faults.unavailable("write", kind=LETTERS)
    assert await of.finalize(task.task_id)
    any_house.faults.clear()
    assert await of.handover.finish() == 1
    (closed,) = await letters_of(of)
    assert closed.requeue is not None and closed.requeue.outcome is RequeueOutcome.SUCCEEDED and not closed.is_open


async def test_a_task_that_was_sent_back_and_hangs_again_has_failed_again(any_house: House) -> None:
    """The requeue has failed then, in the same letter: also if that could not be written at once."""
    of = lifecycle_of(any_house)
    task, letter = await requeued(of, any_house)
    for state in ("initializing", "waiting_for_dependencies"):
        await of.transition(task.task_id, state)
    any_house.clock.advance(11 * 60)
    any_house.faults.unavailable("write", kind=LETTERS)
    (row,) = await of.detect_and_transition_stale_tasks(dry_run=False)
    assert row["action_taken"] == "transitioned_to_error_only"
    any_house.faults.clear()
    any_house.clock.advance(31)
    assert [await of.handover.finish() for _ in range(2)] == [1, 0]
    (again,) = await letters_of(of)
    assert (again.key, again.occurrences) == (letter.key, 2)
    assert again.requeue is not None and again.requeue.outcome is RequeueOutcome.FAILED
    assert (await of.get(task.task_id)).state is TaskState.ERROR

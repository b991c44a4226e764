"""Lifecycle tasks, square by square. What is expected was written from the requirements, not read off the tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mahavishnu.model.errors import IllegalMove, InvalidInput, LostLease
from mahavishnu.model.json_value import Json
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.rules import (
    begin,
    begin_step,
    complete_step,
    fail_step,
    finalize,
    hand_back,
    hand_over,
    move,
    move_step,
    recover,
    require_run,
)
from mahavishnu.tasks.task import (
    ACTIVE,
    BACK_FROM_ERROR,
    INITIAL,
    KEPT_TRANSITIONS,
    STEP_TABLE,
    TASK_TABLE,
    TERMINAL,
    WAITING,
    StepRecord,
    StepState,
    TaskRecord,
    TaskState,
    new_task,
    old_transitions,
    step_readiness,
)

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
ENDS = "error cancelled resolved_manually"
TASK_MOVES = {
    "pending": f"initializing {ENDS}",
    "initializing": f"enqueuing_steps steps_in_process waiting_for_dependencies waiting_for_retry complete {ENDS}",
    "enqueuing_steps": f"steps_in_process waiting_for_dependencies waiting_for_retry {ENDS}",
    "steps_in_process": f"evaluating_results waiting_for_dependencies waiting_for_retry {ENDS}",
    "evaluating_results": "enqueuing_steps steps_in_process waiting_for_dependencies waiting_for_retry "
    f"blocked_by_failures complete {ENDS}",
    "waiting_for_dependencies": f"enqueuing_steps steps_in_process evaluating_results blocked_by_failures {ENDS}",
    "waiting_for_retry": f"enqueuing_steps steps_in_process evaluating_results blocked_by_failures {ENDS}",
    "blocked_by_failures": f"waiting_for_retry evaluating_results {ENDS}",
    "complete": "",
    "error": "",  # but by a letter
    "cancelled": "",
    "resolved_manually": "",
}
STEP_MOVES = {
    "pending": f"enqueued in_progress {ENDS}",
    "enqueued": f"in_progress pending {ENDS}",
    "in_progress": "enqueued_for_orchestration enqueued_as_error_for_orchestration waiting_for_retry complete " + ENDS,
    "enqueued_for_orchestration": f"complete {ENDS}",
    "enqueued_as_error_for_orchestration": f"waiting_for_retry {ENDS}",
    "waiting_for_retry": f"enqueued in_progress {ENDS}",
    "complete": "",
    "error": "",  # but with its task
    "cancelled": "",
    "resolved_manually": "",
}


def task_in(state: TaskState | str = TaskState.PENDING, *steps: StepRecord) -> TaskRecord:
    return replace(new_task("pay", now=NOW, context=Json.of({"order": 1}), steps=steps), state=TaskState(state))


def running(*steps: StepRecord) -> TaskRecord:
    return begin(task_in(TaskState.PENDING, *steps), now=NOW, run="r1", processor="me")


def test_there_are_twelve_task_states_and_ten_step_states() -> None:
    """Each in one group."""
    assert sorted([*INITIAL, *ACTIVE, *WAITING, *TERMINAL]) == sorted(TaskState)
    assert (len(TaskState), len(StepState)) == (12, 10)
    assert (set(TASK_TABLE), set(STEP_TABLE)) == (set(TaskState), set(StepState))


@pytest.mark.parametrize("goal", TaskState)
@pytest.mark.parametrize("start", TaskState)
def test_every_move_of_a_task(start: TaskState, goal: TaskState) -> None:
    """Allowed, or refused with both states named."""
    if goal in TASK_MOVES[start].split():
        moved = move(task_in(start), goal, now=NOW, reason="because", processor="me", metadata={"by": "ann"})
        assert (moved.state, moved.state_entered_at, moved.transition_count) == (goal, NOW, 1)
        (noted,) = moved.transitions
        assert (noted.from_state, noted.to_state, noted.reason, noted.processor) == (start, goal, "because", "me")
        assert moved.terminal_at == (NOW if goal in TERMINAL else None)
    else:
        with pytest.raises(IllegalMove, match=rf"is {start}: cannot move it to {goal}"):
            move(task_in(start), goal, now=NOW)


@pytest.mark.parametrize("goal", StepState)
@pytest.mark.parametrize("start", StepState)
def test_every_move_of_a_step(start: StepState, goal: StepState) -> None:
    """The same for steps."""
    task = task_in("steps_in_process", StepRecord("charge", state=start))
    if goal in STEP_MOVES[start].split():
        moved = move_step(task, "charge", goal, now=NOW)
        assert moved.steps == (StepRecord("charge", state=goal, entered_at=NOW),)
        assert (moved.transitions[0].step, moved.state) == ("charge", TaskState.STEPS_IN_PROCESS)
    else:
        with pytest.raises(IllegalMove, match=rf"step '.*/charge' is {start}: cannot move it to {goal}"):
            move_step(task, "charge", goal, now=NOW)


def test_only_an_open_letter_brings_a_task_back() -> None:
    """For the one reason, and only to where it began."""
    for reason, letter in ((None, "e-1"), ("other", "e-1"), (BACK_FROM_ERROR, None)):
        with pytest.raises(IllegalMove, match="unless an open letter sends it back"):
            move(task_in("error"), TaskState.PENDING, now=NOW, reason=reason, letter=letter)
    for state in ("complete", "cancelled", "resolved_manually"):
        with pytest.raises(IllegalMove, match=f"is {state}"):
            hand_back(task_in(state), now=NOW, letter="e-1", key="e-1/1")

    back = hand_back(task_in("error"), now=NOW, letter="e-1", key="e-1/1", priority=15)

    assert (back.state, back.priority, back.terminal_at) == (TaskState.PENDING, 15, None)
    assert back.transitions[0].metadata is not None
    assert back.transitions[0].metadata.value == {"dlq_entry_uuid": "e-1"}


def test_a_letter_sends_a_task_back_once_for_each_requeue() -> None:
    """Also where the task has failed again since."""
    back = hand_back(task_in("error"), now=NOW, letter="e-1", key="e-1/1")
    failed = hand_over(begin(back, now=NOW, run="r2", processor="me"), now=NOW, reason="workflow_failed")

    assert hand_back(back, now=NOW, letter="e-1", key="e-1/1") is back
    assert hand_back(failed, now=NOW, letter="e-1", key="e-1/1") is failed
    assert hand_back(failed, now=NOW, letter="e-1", key="e-1/2").state is TaskState.PENDING


def test_what_failed_for_good_comes_back_with_its_task() -> None:
    """With fresh attempts; what has succeeded stays."""
    task = running(StepRecord("charge"), StepRecord("ship", max_attempts=1))
    task = complete_step(begin_step(task, "charge", now=NOW), "charge", now=NOW, result=Json.of(7))
    task = fail_step(begin_step(task, "ship", now=NOW), "ship", now=NOW, error="no van")
    assert [step.state for step in task.steps] == ["complete", "error"]

    back = hand_back(hand_over(task, now=NOW, reason="x"), now=NOW, letter="e", key="e/1")

    assert [(step.state, step.attempts) for step in back.steps] == [("complete", 1), ("pending", 0)]


@pytest.mark.parametrize(
    ("attempts", "retryable", "limit", "may"),
    [
        (0, True, 1, True), (0, False, 1, True), (0, True, 3, True), (0, False, 3, True), (0, False, None, True),
        (1, True, 1, False), (1, False, 1, False), (1, True, 3, True), (1, False, 3, False), (2, True, 3, True),
        (3, True, 3, False), (9, True, None, True), (9, False, None, False),
    ],
)  # fmt: skip
def test_whether_a_step_may_be_run(attempts: int, retryable: bool, limit: int | None, may: bool) -> None:
    """The first run always; another one if it is retryable and attempts are left."""
    step = StepRecord("charge", state=StepState.PENDING, attempts=attempts, retryable=retryable, max_attempts=limit)
    task = task_in("steps_in_process", step)

    assert step.may_run is may
    assert step_readiness(task, NOW) == {"charge": None if may else "it has no attempt left"}
    if may:
        assert begin_step(task, "charge", now=NOW).steps[0].attempts == attempts + 1
    else:
        with pytest.raises(IllegalMove, match="cannot run it"):
            begin_step(task, "charge", now=NOW)


def test_a_failed_step_waits_and_one_that_failed_for_good_does_not() -> None:
    """What is in error is never ready again."""
    task = begin_step(running(StepRecord("charge")), "charge", now=NOW)
    later = NOW + timedelta(seconds=30)

    waits = fail_step(task, "charge", now=NOW, error="refused", retry_at=later)
    over = fail_step(task, "charge", now=NOW, error="refused", permanent=True, retry_at=later)

    assert (waits.steps[0].state, waits.steps[0].next_retry_at) == ("waiting_for_retry", later)
    assert "retried at" in str(step_readiness(waits, NOW)["charge"])
    assert step_readiness(waits, later) == {"charge": None}
    assert (over.steps[0].state, over.steps[0].next_retry_at) == ("error", None)
    assert step_readiness(over, later) == {}


def test_steps_wait_for_those_that_they_depend_on() -> None:
    """One that a person has resolved counts as done."""
    a, b = StepRecord("a"), StepRecord("b", ("a",))
    assert step_readiness(task_in("pending", a, b), NOW) == {"a": None, "b": "it waits for a"}
    for state, readiness in ((StepState.RESOLVED_MANUALLY, None), (StepState.ERROR, "it waits for a")):
        assert step_readiness(task_in("pending", replace(a, state=state), b), NOW) == {"b": readiness}


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([StepRecord("a", ("b",)), StepRecord("b", ("c",)), StepRecord("c", ("a",))], "(→ a → b|→ b → c|→ c → a)"),
        ([StepRecord("a", ("a",))], "a → a"),
        ([StepRecord("a", ("x",))], "step 'a' of task 'pay' needs 'x'"),
        ([StepRecord("a"), StepRecord("a")], "two steps called 'a'"),
        ([StepRecord("a", max_attempts=0)], "it could never be run"),
        ([StepRecord("")], "not empty"),
    ],
)  # fmt: skip
def test_steps_that_no_task_can_have(steps: list[StepRecord], says: str) -> None:
    """Refused before anything is made, with what is wrong."""
    with pytest.raises(InvalidInput, match=says):
        new_task("pay", now=NOW, steps=steps)


def test_equal_submissions_are_one_task() -> None:
    """The order of keys does not matter; name, namespace, version and context do."""
    one = new_task("pay", now=NOW, context=Json('{"a":1,"b":{"c":2,"d":3}}'))
    same = new_task("pay", now=NOW + timedelta(1), context=Json('{"b":{"d":3,"c":2},"a":1}'))
    others = [
        new_task("refund", now=NOW, context=one.context),
        new_task("pay", now=NOW, context=one.context, namespace="eu"),
        new_task("pay", now=NOW, context=one.context, template_version="2"),
        new_task("pay", now=NOW, context=Json('{"a":1}')),
    ]
    assert (same.task_id, same.identity_hash) == (one.task_id, one.identity_hash)
    assert len({each.task_id for each in (one, *others)}) == 5


@pytest.mark.parametrize("state", TaskState)
def test_a_run_takes_a_task_over_from_whoever_left_it(state: TaskState) -> None:
    """In any state that is no end; the former run reports nothing any more."""
    left = replace(task_in(state), run="r1", processor="dead")
    if state in TERMINAL:
        with pytest.raises(IllegalMove, match=f"is {state}"):
            begin(left, now=NOW, run="r2", processor="me")
        return
    task = begin(left, now=NOW, run="r2", processor="me")

    assert (task.state, task.run, task.processor) == (TaskState.STEPS_IN_PROCESS, "r2", "me")
    require_run(task, "r2")
    with pytest.raises(LostLease, match="another run has taken it over"):
        require_run(task, "r1")
    with pytest.raises(LostLease, match="it has ended"):
        require_run(finalize(task, now=NOW), "r2")


@pytest.mark.parametrize("state", TaskState)
def test_every_open_task_can_be_completed_by_allowed_moves(state: TaskState) -> None:
    """An end cannot."""
    task = task_in(state)
    if state in TERMINAL:
        with pytest.raises(IllegalMove, match="it has ended"):
            finalize(task, now=NOW)
        return
    done = finalize(task, now=NOW)

    assert (done.state, done.terminal_at) == (TaskState.COMPLETE, NOW)
    ways = [(each.from_state, each.to_state) for each in done.transitions]
    assert all(after in TASK_MOVES[before].split() for before, after in ways)


def test_a_task_whose_steps_are_not_done_is_not_complete() -> None:
    """Unless a workflow runs it, which knows by itself what it needs."""
    with pytest.raises(IllegalMove, match="step 'a' is pending"):
        finalize(task_in("steps_in_process", StepRecord("a")), now=NOW)
    assert finalize(running(StepRecord("a")), now=NOW).state is TaskState.COMPLETE


def test_a_step_reports_once() -> None:
    """A second report, and one of a step that was not begun, are refused."""
    task = begin_step(running(), "charge", now=NOW)
    done = complete_step(task, "charge", now=NOW, result=Json.of(1))
    for again in (complete_step, lambda *given, **more: fail_step(*given, **more, error="no")):
        with pytest.raises(IllegalMove, match="is complete"):
            again(done, "charge", now=NOW)
    with pytest.raises(InvalidInput, match="has no step 'ship'"):
        complete_step(done, "ship", now=NOW)


def test_a_step_whose_process_died_counts_the_attempt() -> None:
    """It is begun again as it stands."""
    once = begin_step(running(), "charge", now=NOW)
    twice = begin_step(once, "charge", now=NOW)
    assert (twice.steps[0].attempts, twice.steps[0].state) == (2, "in_progress")


@pytest.mark.parametrize("state", ACTIVE)
def test_a_task_that_hangs_can_be_recovered(state: TaskState) -> None:
    """It is counted, and the run that hangs reports nothing any more."""
    task = recover(replace(task_in(state), run="r1"), now=NOW)
    assert (task.state, task.recovery_count) == (TaskState.WAITING_FOR_RETRY, 1)
    with pytest.raises(LostLease):
        require_run(task, "r1")


def test_a_task_keeps_its_latest_moves_and_numbers_all_of_them() -> None:
    """What is taken out can be written twice: it has the same keys."""
    task = running()
    while len(task.transitions) <= KEPT_TRANSITIONS:
        task = task_moves.begin_step(task, "charge", now=NOW)
    kept, old = old_transitions(task)

    assert [each.number for each in old] + [each.number for each in kept.transitions] == list(
        range(1, task.transition_count + 1)
    )
    assert len(kept.transitions) < KEPT_TRANSITIONS
    assert old[0].key == f"{task.task_id}/000001"
    assert old_transitions(kept) == (kept, ())

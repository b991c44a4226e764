"""The moves of lifecycle tasks: a record and what happened in, the next record out; nothing here reads a clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import IllegalMove, InvalidInput, LostLease
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.query_text import near_names
from mahavishnu.model.rules import Rules, rule
from mahavishnu.tasks.task import (
    ACTIVE,
    BACK_FROM_ERROR,
    CLOSE,
    LETTER,
    MARK,
    MAX_STEPS,
    STEP_DONE,
    STEP_TABLE,
    TASK_TABLE,
    TERMINAL,
    StepRecord,
    StepState,
    TaskRecord,
    TaskState,
    Transition,
    evolve,
)

_PAYLOADS = 3  # times dlq_max_task_bytes: what a task may have in its one record
_NAMED = 10  # steps that are named where one is not there


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRules(Rules):
    """The reasons for which lifecycle tasks get letters; other reasons always make letters.

    A task that fails for a reason that is switched off has only failed.
    """

    staleness_timeout: bool = rule(True, "Make letters of stale tasks")
    max_retries_exceeded: bool = rule(True, "Make letters of tasks with a step that has no attempt left, or stuck")
    worker_unavailable: bool = rule(True, "Make letters of stale tasks for which no worker lives")
    dependency_cycle_detected: bool = rule(True, "Make letters of stale tasks whose steps wait for one another")
    invalid_state_transition: bool = rule(
        False, "Make letters of tasks that were to be moved as no task can be; the call raises either way"
    )

    def keeps(self, reason: DlqReason) -> bool:
        """Return whether this reason makes a letter."""
        return bool(getattr(self, str(reason), True))


def move(
    task: TaskRecord,
    state: TaskState,
    *,
    now: datetime,
    reason: str | None = None,
    metadata: Mapping[str, object] | None = None,
    processor: str | None = None,
    letter: str | None = None,
) -> TaskRecord:
    """Move the task, from `error` only for BACK_FROM_ERROR with an open `letter`. Raises IllegalMove."""
    if state not in TASK_TABLE[task.state]:
        raise _illegal(task, state)
    if task.state is TaskState.ERROR and (reason != BACK_FROM_ERROR or letter is None):
        raise _illegal(task, state, f"unless an open letter sends it back, for the reason {BACK_FROM_ERROR}")
    now = instant(now)
    noted = _note(task, task.state, state, now, None, reason, metadata, processor)
    return evolve(
        noted,
        state=state,
        state_entered_at=now,
        terminal_at=now if state in TERMINAL else None,
        attention=None,
        processor=processor or task.processor,
    )


def _illegal(task: TaskRecord, state: str, why: str = "") -> IllegalMove:
    return IllegalMove(task.task_id, f"move to {state}", task.state, why, what="task")


def _note(
    task: TaskRecord,
    before: str,
    after: str,
    at: datetime,
    step: str | None = None,
    reason: str | None = None,
    metadata: Mapping[str, object] | None = None,
    processor: str | None = None,
) -> TaskRecord:
    """Return the task with one more transition in its journal."""
    if not isinstance(reason, str | None):
        raise InvalidInput(f"the reason of a move of task {task.task_id!r} is text, not {reason!r:.80}")
    if not isinstance(metadata, Mapping | None):
        raise InvalidInput(f"the metadata of a move of task {task.task_id!r} is a mapping, not {metadata!r:.80}")
    number = task.transition_count + 1
    detail = Json.of(dict(metadata), "metadata") if metadata else None
    added = Transition(number, str(before), str(after), at, step, reason, detail, processor)
    return evolve(task, transition_count=number, transitions=(*task.transitions, added))


def begin(task: TaskRecord, *, now: datetime, run: str, processor: str) -> TaskRecord:
    """Begin a run, or take over an open task: only this run reports steps now. Raises IllegalMove if it ended."""
    if task.state is TaskState.PENDING:
        task = move(task, TaskState.INITIALIZING, now=now, processor=processor)
    if task.state in TERMINAL:
        raise _illegal(task, TaskState.STEPS_IN_PROCESS)
    if task.state is TaskState.BLOCKED_BY_FAILURES:
        task = move(task, TaskState.EVALUATING_RESULTS, now=now, processor=processor)
    if task.state is TaskState.STEPS_IN_PROCESS:  # its process has died
        task = _note(task, task.state, task.state, instant(now), None, "taken_over", None, processor)
        task = evolve(task, state_entered_at=instant(now), processor=processor, attention=None)
    else:
        task = move(task, TaskState.STEPS_IN_PROCESS, now=now, processor=processor)
    for step in task.steps:  # what it returned could not be kept, and what follows needs it
        if step.state is StepState.COMPLETE and step.why_lost is not None:
            task = _note(task, step.state, StepState.PENDING, instant(now), step.name, "result_lost", None, processor)
            task = _with_step(task, replace(step, state=StepState.PENDING, entered_at=instant(now), why_lost=None))
    return evolve(task, run=run, alive_at=instant(now))


def sign(task: TaskRecord, *, now: datetime, run: str | None = None) -> TaskRecord:
    """Note that the run of an active task is alive. With a `run`, raise LostLease if another run has the task."""
    if run is not None:
        require_run(task, run)
    return evolve(task, alive_at=instant(now)) if task.state in ACTIVE else task


def _no_step(task: TaskRecord, name: object) -> InvalidInput:
    names = [step.name for step in task.steps]
    near = near_names(name, names) if isinstance(name, str) else ()
    shown = f"{', '.join(names[:_NAMED])}{' …' if len(names) > _NAMED else ''}" if names else "none"
    hint = f"did you mean {near[0]!r:.80}?" if near else f"its steps: {shown:.300}"
    return InvalidInput(f"task {task.task_id!r} has no step {name!r:.80}; {hint}")


def _with_step(task: TaskRecord, step: StepRecord) -> TaskRecord:
    return evolve(task, steps=tuple(step if each.name == step.name else each for each in task.steps))


def require_run(task: TaskRecord, run: str | None) -> None:
    """Raise LostLease if another run has taken the task over, or it has ended: the report of this run is too late."""
    if task.run != run or not task.is_open:
        why = "another run has taken it over" if task.is_open else "it has ended"
        raise LostLease(task.task_id, "report to", task.state, why, what="task")


def merge_run(theirs: TaskRecord, ours: TaskRecord) -> TaskRecord:
    """Return `theirs`, as the store has the task, with what `ours` reports beyond that: the task as its run has it.

    Merging twice is merging once, and gives `theirs` itself. Raises LostLease if another run has the task, or it has
    ended; but a success still counts if a rule took the run for dead meanwhile.
    """
    succeeded, at = ours.state is TaskState.COMPLETE, ours.state_entered_at
    is_same_end = theirs.state is ours.state and (succeeded or theirs.state_entered_at == at)
    is_late_success = succeeded and _was_taken_for_dead(theirs)
    if theirs.run != ours.run or not (is_same_end or is_late_success):
        require_run(theirs, ours.run)
    known = {_content(each) for each in theirs.transitions}
    oldest = theirs.transitions[0].number if theirs.transitions else 0
    fresh = [each for each in ours.transitions if each.number >= oldest and _content(each) not in known]
    if not fresh:
        signed = ours.alive_at is not None and (theirs.alive_at is None or theirs.alive_at < ours.alive_at)
        return evolve(theirs, alive_at=ours.alive_at) if signed and theirs.is_open else theirs
    # Beyond what ours has inside nobody can tell: then all of its steps are later.
    is_far_ahead = fresh[0].number > theirs.transition_count + 1
    moved = {step.name for step in ours.steps} if is_far_ahead else {each.step for each in fresh}
    mine = {step.name: step for step in ours.steps}
    steps = [mine.pop(step.name, step) if step.name in moved else step for step in theirs.steps]
    names = {step.name for step in theirs.steps}
    steps += [step for step in mine.values() if step.name not in names]
    shift = max(0, theirs.transition_count + 1 - fresh[0].number)
    fresh = [replace(each, number=each.number + shift) for each in fresh]
    merged = evolve(
        theirs,
        steps=tuple(steps),
        transitions=(*theirs.transitions, *fresh),
        transition_count=fresh[-1].number,
        alive_at=max(filter(None, (theirs.alive_at, ours.alive_at)), default=None),
    )
    if not is_far_ahead and all(each.step is not None for each in fresh):
        return merged
    if is_late_success:  # after the failure that its letter tells of
        at = max(at, theirs.state_entered_at)
    return evolve(
        merged,
        state=ours.state,
        state_entered_at=at,
        terminal_at=at if ours.state in TERMINAL else None,
        attention=None,
        processor=ours.processor,
        last_error=ours.last_error,
        owes=CLOSE if is_late_success else theirs.owes,
    )


def _was_taken_for_dead(task: TaskRecord) -> bool:
    """Return whether a rule has failed the task because its run seemed to be over."""
    last = next((each for each in reversed(task.transitions) if each.step is None), None)
    silent = (DlqReason.STALENESS_TIMEOUT, DlqReason.WORKER_UNAVAILABLE)
    return task.state is TaskState.ERROR and last is not None and last.reason in silent


def _content(each: Transition) -> tuple[object, ...]:
    """Return what makes a move the same one under another number."""
    return each.at, each.step, each.from_state, each.to_state, each.reason


def move_step(
    task: TaskRecord,
    name: str,
    state: StepState,
    *,
    now: datetime,
    reason: str | None = None,
    processor: str | None = None,
    **changes: Any,
) -> TaskRecord:
    """Move a step. Raises IllegalMove, which names both states, and InvalidInput for an unknown step."""
    step = task.step(name)
    if step is None:
        raise _no_step(task, name)
    if state not in STEP_TABLE[step.state] or (step.state is StepState.ERROR and reason != BACK_FROM_ERROR):
        raise IllegalMove(f"{task.task_id}/{name}", f"move to {state}", step.state, what="step")
    now = instant(now)
    noted = _note(task, step.state, state, now, name, reason, None, processor)
    return _with_step(noted, replace(step, state=state, entered_at=now, **changes))


def begin_step(
    task: TaskRecord, name: str, *, now: datetime, processor: str | None = None, options: StepRecord | None = None
) -> TaskRecord:
    """Begin a step, a new one with these `options`, as an attempt. Raises IllegalMove if it may not run again."""
    step = task.step(name)
    if step is None:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"a step of task {task.task_id!r} must have a name that is not empty, not {name!r:.80}")
        if len(task.steps) >= MAX_STEPS:
            most = f"task {task.task_id!r} has {MAX_STEPS} steps, the most that can be tracked"
            raise InvalidInput(f"{most}: step {name!r:.80} is not run; split the work into several calls")
        step = options or StepRecord(name)
        task = evolve(task, steps=(*task.steps, step))
    if not step.may_run:
        limit = f"it was run {step.attempts} times of {step.max_attempts}" if step.retryable else "it is not retryable"
        raise IllegalMove(f"{task.task_id}/{name}", "run", step.state, limit, what="step")
    if step.state is StepState.IN_PROGRESS:  # the process that ran it has died
        noted = _note(task, step.state, step.state, instant(now), name, "taken_over", None, processor)
        return _with_step(noted, replace(step, attempts=step.attempts + 1, entered_at=instant(now)))
    return move_step(
        task, name, StepState.IN_PROGRESS, now=now, processor=processor, attempts=step.attempts + 1, next_retry_at=None
    )


def withdraw_step(task: TaskRecord, name: str, *, now: datetime) -> TaskRecord:
    """Take back the beginning of a step that was cancelled before it ran: it was no attempt."""
    step = task.step(name)
    attempts = step.attempts - 1 if step is not None else 0
    return move_step(task, name, StepState.WAITING_FOR_RETRY, now=now, reason="not_run", attempts=attempts)


def claim_step(
    task: TaskRecord, name: str, *, now: datetime, processor: str | None = None, take_over: bool = False
) -> TaskRecord:
    """Begin a step of a task that has no run: of several workers, one begins it.

    Raises IllegalMove too for a step that waits for others, or that is in progress unless `take_over`; and InvalidInput
    for an unknown step, if the steps were given when the task was made.
    """
    if (step := task.step(name)) is not None:
        done = {each.name for each in task.steps if each.state in STEP_DONE}
        why = f"it waits for {', '.join(waits)}" if (waits := [n for n in step.depends_on if n not in done]) else None
        if step.state is StepState.IN_PROGRESS and not take_over:
            why = "somebody has begun it; take_over=True begins it again, if who did has died"
        if why is not None:
            raise IllegalMove(f"{task.task_id}/{name}", "run", step.state, why, what="step")
    elif task.declared:
        raise _no_step(task, name)
    return begin_step(task, name, now=now, processor=processor)


def complete_step(
    task: TaskRecord,
    name: str,
    *,
    now: datetime,
    result: Json | None = None,
    types: Json | None = None,
    why_lost: str | None = None,
) -> TaskRecord:
    """Complete a step. Raises IllegalMove for one that is not in progress: the report is late, or a second one."""
    return move_step(
        task, name, StepState.COMPLETE, now=now, result=result, result_types=types, why_lost=why_lost, last_error=None
    )


def has_room_for(task: TaskRecord, result: Json, most_bytes: int) -> bool:
    """Return whether the task may keep this result too: every store has to take its record as a whole."""
    results = sum(len(step.result.text) for step in task.steps if step.result is not None)
    return len(task.context.text) + results + len(result.text) <= _PAYLOADS * most_bytes


def refuse_result(name: str, most_bytes: int) -> InvalidInput:
    """Return the error for a result that its task has no room for."""
    most = f"{_PAYLOADS * most_bytes} bytes together ({_PAYLOADS} times dlq_max_task_bytes)"
    return InvalidInput(
        f"what step {name!r:.80} returned is not kept: arguments and results of a task may have {most}; return less, "
        "say a file name"
    )


def fail_step(
    task: TaskRecord, name: str, *, now: datetime, error: str, permanent: bool = False, retry_at: datetime | None = None
) -> TaskRecord:
    """Fail a step: it waits for its retry, or is in error if it failed for good or has no attempt left."""
    step = task.step(name)
    again = step is not None and not permanent and step.may_run
    state = StepState.WAITING_FOR_RETRY if again else StepState.ERROR
    return move_step(task, name, state, now=now, last_error=error, next_retry_at=retry_at if again else None)


def finalize(task: TaskRecord, *, now: datetime, processor: str | None = None) -> TaskRecord:
    """Complete the task. Raises IllegalMove if it has ended, or has no run and an open step."""
    if not task.is_open:
        raise _illegal(task, TaskState.COMPLETE, "it has ended")
    left = [step for step in task.steps if step.state not in STEP_DONE]
    if left and task.run is None:  # a workflow that runs knows by itself what it needs
        raise _illegal(task, TaskState.COMPLETE, f"step {left[0].name!r:.80} is {left[0].state}")
    for state in _WAY_TO_COMPLETE[task.state]:
        task = move(task, state, now=now, processor=processor)
    return task


_T = TaskState
_WAY_TO_COMPLETE: Mapping[TaskState, tuple[TaskState, ...]] = {
    _T.PENDING: (_T.INITIALIZING, _T.COMPLETE),
    _T.INITIALIZING: (_T.COMPLETE,),
    _T.ENQUEUING_STEPS: (_T.STEPS_IN_PROCESS, _T.EVALUATING_RESULTS, _T.COMPLETE),
    _T.STEPS_IN_PROCESS: (_T.EVALUATING_RESULTS, _T.COMPLETE),
    _T.EVALUATING_RESULTS: (_T.COMPLETE,),
    **dict.fromkeys((_T.WAITING_FOR_DEPENDENCIES, _T.WAITING_FOR_RETRY), (_T.EVALUATING_RESULTS, _T.COMPLETE)),
    _T.BLOCKED_BY_FAILURES: (_T.EVALUATING_RESULTS, _T.COMPLETE),
}


# --- to a letter, and back


def hand_over(
    task: TaskRecord,
    *,
    now: datetime,
    reason: str,
    error: str | None = None,
    metadata: Mapping[str, object] | None = None,
    processor: str | None = None,
) -> TaskRecord:
    """Fail the task in favor of a letter. One that is in error already stays unchanged."""
    if task.state is TaskState.ERROR:
        return task
    ended = move(task, TaskState.ERROR, now=now, reason=reason, metadata=metadata, processor=processor)
    owes = LETTER if metadata is not None and MARK in metadata else None
    return evolve(ended, last_error=error or task.last_error, owes=owes)


def hand_back(
    task: TaskRecord,
    *,
    now: datetime,
    letter: str,
    key: str,
    priority: int | None = None,
    metadata: Mapping[str, object] | None = None,
    processor: str | None = None,
) -> TaskRecord:
    """Return a task to pending with fresh attempts after its open `letter` was requeued, and its steps in error too.

    Once for each `key`, which names the letter and its requeue: a second time changes nothing. Raises IllegalMove if
    the task has ended otherwise.
    """
    if task.handed_back == key or task.state is TaskState.PENDING:
        return task
    back = return_from_error(task, now=now, letter=letter, metadata=metadata, processor=processor)
    for step in back.steps:
        if step.state is StepState.ERROR:
            back = move_step(back, step.name, StepState.PENDING, now=now, reason=BACK_FROM_ERROR, attempts=0)
    owes = CLOSE if task.adapter is None else None  # a worker closes the letters that it runs
    priority = task.priority if priority is None else priority
    return evolve(back, handed_back=key, recovery_count=0, priority=priority, owes=owes)


def return_from_error(
    task: TaskRecord,
    *,
    now: datetime,
    letter: str,
    metadata: Mapping[str, object] | None = None,
    processor: str | None = None,
) -> TaskRecord:
    """Return a task to pending by its open `letter`; its steps stay unchanged. Raises IllegalMove."""
    detail = {"dlq_entry_uuid": letter, **(metadata or {})}
    back = move(
        task, TaskState.PENDING, now=now, reason=BACK_FROM_ERROR, metadata=detail, processor=processor, letter=letter
    )
    return evolve(back, owes=None)


def recover(
    task: TaskRecord, *, now: datetime, reason: str = "reset_to_waiting", processor: str | None = None
) -> TaskRecord:
    """Reset a task that hangs in an active state, count that, and refuse late reports. Raises IllegalMove."""
    before_taking = {StepState.ENQUEUED: StepState.PENDING, StepState.IN_PROGRESS: StepState.WAITING_FOR_RETRY}
    for step in task.steps:
        if (before := before_taking.get(step.state)) is not None:
            task = move_step(task, step.name, before, now=now, reason=reason, processor=processor, next_retry_at=None)
    waiting = move(task, TaskState.WAITING_FOR_RETRY, now=now, reason=reason, processor=processor)
    return evolve(waiting, recovery_count=task.recovery_count + 1, run=None)

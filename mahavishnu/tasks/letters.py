"""Links between a lifecycle task and its letter: a snapshot in the letter, and the requeue that brought the task back.

A letter goes on with its task as long as that is the same work. If the application fails at the same work in another
task, the letter notes that one: once its own task is complete, there may be work left that only the other one has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mahavishnu.model.clock import instant_text
from mahavishnu.model.ids import derived_task_id
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, RequeueOutcome
from mahavishnu.model.work import _LATEST, _lifecycle_label, _other_failures, _text
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.task import STEP_DONE, StepRecord, TaskRecord, TaskState, task_id_of
from mahavishnu.tasks.task import evolve as evolve_task
from mahavishnu.values.encryption import CONTEXT, Binding, Encryption


def snapshot_of(task: TaskRecord) -> dict[str, Any]:
    """Return the snapshot that a letter keeps of its task: steps and moves, without the results of steps."""
    return {
        "task_id": task.task_id,
        "name": task.name,
        "state": str(task.state),
        "priority": task.priority,
        "created_at": instant_text(task.created_at),
        "steps": [
            {
                "name": step.name,
                "state": str(step.state),
                "attempts": step.attempts,
                **({"last_error": step.last_error[:500]} if step.last_error else {}),
            }
            for step in task.steps
        ],
        "transitions": [
            {
                "number": each.number,
                "from": each.from_state,
                "to": each.to_state,
                "at": instant_text(each.at),
                **({"step": each.step} if each.step is not None else {}),
                **({"reason": each.reason} if each.reason is not None else {}),
            }
            for each in task.transitions
        ],
    }


def in_clear(task: TaskRecord, encryption: Encryption) -> TaskRecord:
    """Return the task with its context and results in clear; it must not be written. Raises CannotRestore."""
    context, types = encryption.decrypt(task.context, task.context_types, binding_of(task))
    steps = tuple(_in_clear(step, binding_of(task, step.name), encryption) for step in task.steps)
    return evolve_task(task, context=context, context_types=types, steps=steps)


def _in_clear(step: StepRecord, binding: Binding, encryption: Encryption) -> StepRecord:
    if step.result is None or step.result_types is None:
        return step
    result, types = encryption.decrypt(step.result, step.result_types, binding)
    return replace(step, result=result, result_types=types)


def binding_of(task: TaskRecord, step: str | None = None) -> Binding:
    """Return what the encrypted values of a task's context are bound to, or those of a step's result."""
    return Binding.of_task(task.namespace, task.task_id, CONTEXT if step is None else f"result of {step}")


def letter_ids_of(task: TaskRecord) -> tuple[str, str]:
    """Return the possible task ids of this task's letter: that of its work, or its own where other work has that."""
    work_id = task.work_id or task.task_id
    return work_id, derived_task_id(work_id, task.context.digest)


def tasks_of(letter: DeadLetter) -> tuple[str, ...]:
    """Return the ids of the tasks that a run of the letter can continue: its own, then one that failed too."""
    known = _lifecycle_label(letter)
    ids = (_text(known, "task_id"), _text(known, _LATEST))
    return tuple(dict.fromkeys(each for each in ids if each is not None))


def ended_steps(letter: DeadLetter) -> list[str]:
    """Return the names of the steps that had ended when the letter's task failed last."""
    steps = _lifecycle_label(letter).get("steps")
    known = [each for each in steps if isinstance(each, dict)] if isinstance(steps, list) else []
    return [str(each.get("name")) for each in known if each.get("state") in STEP_DONE]


def steps_behind(letter: DeadLetter, tasks: Sequence[TaskRecord]) -> list[str]:
    """Return the steps that had ended by the letter's snapshot, and have not by the task that the snapshot is of.

    The task may be on its way from a local store, and its letter has come first; or nobody has it any more.
    """
    own = _text(_lifecycle_label(letter), "task_id")
    for task in tasks:
        if task.task_id == own:
            done = {step.name for step in task.steps if step.state in STEP_DONE}
            return [name for name in ended_steps(letter) if name not in done]
    return [] if {task.task_id for task in tasks} & {*tasks_of(letter)} else ended_steps(letter)


def new_task_id(letter: DeadLetter) -> str:
    """Return the id of the task that begins the work anew: the same until a success, repos or an edit ask again."""
    parts = [letter.entry_id, str(_times_asked(letter)), *sorted(letter.repos)]
    if letter.source.state is not None and not tasks_of(letter):
        parts.append(f"edit {letter.revision}")
    return task_id_of("/".join(parts))


def _times_asked(letter: DeadLetter) -> int:
    """Count the requests for the letter's work beside its own task, and those after it was done."""
    return 1 + _other_failures(_lifecycle_label(letter)) + letter.tallies.reopened


def has_done(task: TaskRecord, letter: DeadLetter) -> bool:
    """Return whether the completed task did the open letter's work, with no request for it since that run began.

    A run that only the application began has done what its own failure left, not what failed in other runs.
    """
    if task.state is not TaskState.COMPLETE or not covers_repos(task, letter):
        return False
    if task.asked:
        return task.asked >= _times_asked(letter)
    return not _other_failures(_lifecycle_label(letter))


def covers_repos(task: TaskRecord, letter: DeadLetter) -> bool:
    """Return whether the task's steps cover all repos of the letter; a task without repos covers all."""
    return not task.repos or (bool(letter.repos) and set(letter.repos) <= set(task.repos))


def goes_on(task: TaskRecord, letter: DeadLetter) -> bool:
    """Return whether a run of the letter continues this task rather than another one."""
    return task.state is not TaskState.COMPLETE and covers_repos(task, letter)


def may_go_on(letter: DeadLetter, task: TaskRecord) -> bool:
    """Return whether a run of the letter, now or once it is opened again, would look at this task."""
    if letter.is_deleted or task.task_id not in (*tasks_of(letter), new_task_id(letter)):
        return False
    may_be_opened = letter.status is not DeadLetterStatus.COMPLETED  # what was resolved is done
    return letter.is_open or (may_be_opened and task.state is not TaskState.COMPLETE)


def is_sent_back(letter: DeadLetter) -> bool:
    """Return whether the letter was requeued and no run has ended since: its task is to be pending."""
    return letter.is_open and letter.requeue is not None and letter.requeue.outcome is RequeueOutcome.IN_FLIGHT


def requeue_key(letter: DeadLetter) -> str:
    """Return the name of the letter's last requeue."""
    return f"{letter.entry_id}/{letter.dlq_retry_count}"


def came_back_by(task: TaskRecord, letter: DeadLetter) -> bool:
    """Return whether the last requeue brought the task back and the letter is idle: the two then fail together."""
    idle = letter.status is not DeadLetterStatus.RETRYING
    return is_sent_back(letter) and idle and task.handed_back == requeue_key(letter)


def has_its_letter(task: TaskRecord, letter: DeadLetter | None) -> bool:
    """Return whether this open letter reports the task's failure already, or will."""
    return letter is not None and letter.is_open and not came_back_by(task, letter)


def follow_requeue(task: TaskRecord, letter: DeadLetter, *, now: datetime, processor: str) -> TaskRecord:
    """Return the task brought back from `error` by the letter's requeue, once; otherwise the task unchanged."""
    if not is_sent_back(letter) or task.state is not TaskState.ERROR:
        return task
    assert letter.requeue is not None
    return task_moves.hand_back(
        task,
        now=now,
        letter=letter.entry_id,
        key=requeue_key(letter),
        priority=task.priority + letter.requeue.boost,
        metadata={
            "retry_count": letter.dlq_retry_count,
            "priority_boost": letter.requeue.boost,
            "resolved_by": letter.requeue.by,
        },
        processor=processor,
    )


def begin_again(task: TaskRecord, letter: DeadLetter, *, now: datetime, run: str, processor: str) -> TaskRecord:
    """Continue the task, with failed steps only after a requeue. Raises IllegalMove if people have ended it."""
    task = follow_requeue(task, letter, now=now, processor=processor)
    if task.state is TaskState.ERROR:
        attempt = {"attempt": letter.total_attempts}
        task = task_moves.return_from_error(
            task, now=now, letter=letter.entry_id, metadata=attempt, processor=processor
        )
    return evolve_task(task_moves.begin(task, now=now, run=run, processor=processor), asked=_times_asked(letter))

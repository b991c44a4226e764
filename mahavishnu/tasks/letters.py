"""What a lifecycle task and its letter know of one another: a snapshot in the letter, and which requeue came back.

A letter goes on with its task as long as that is the same work. If the application fails at the same work in another
task, the letter notes that one: once its own task is complete, there may be work left that only the other one has.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mahavishnu.model.clock import instant_text
from mahavishnu.model.ids import derived_task_id
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, RequeueOutcome
from mahavishnu.model.work import _LATEST, _lifecycle_label, _other_failures, _text
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.task import TaskRecord, TaskState, task_id_of
from mahavishnu.tasks.task import evolve as evolve_task


def snapshot_of(task: TaskRecord) -> dict[str, Any]:
    """What a letter keeps of its task: the steps and moves that it had, without what the steps returned."""
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


def letter_ids_of(task: TaskRecord) -> tuple[str, str]:
    """The task ids that a letter of this task can have: that of its work, or where other work has that, its own."""
    work_id = task.work_id or task.task_id
    return work_id, derived_task_id(work_id, task.context.digest)


def tasks_of(letter: DeadLetter) -> tuple[str, ...]:
    """The ids of the lifecycle tasks with which a run of the letter can go on: its own, then one that failed too."""
    known = _lifecycle_label(letter)
    ids = (_text(known, "task_id"), _text(known, _LATEST))
    return tuple(dict.fromkeys(each for each in ids if each is not None))


def new_task_id(letter: DeadLetter) -> str:
    """The id of the task that begins the letter's work anew: the same until that is asked for once more."""
    return task_id_of(f"{letter.entry_id}/{_times_asked(letter)}")


def _times_asked(letter: DeadLetter) -> int:
    """How often the letter's work was asked for besides by its own task, or asked for again after it was done."""
    return 1 + _other_failures(_lifecycle_label(letter)) + letter.tallies.reopened


def has_done(task: TaskRecord, letter: DeadLetter) -> bool:
    """Whether the open letter's work is done, as its task is complete: nobody asked for it since that run began.

    A run that nothing but the application began has done what its own failure left, not what failed in other runs.
    """
    if task.state is not TaskState.COMPLETE or not covers_repos(task, letter):
        return False
    if task.asked:
        return task.asked >= _times_asked(letter)
    return not _other_failures(_lifecycle_label(letter))


def covers_repos(task: TaskRecord, letter: DeadLetter) -> bool:
    """Whether the steps of the task were for all the repos that the letter is to be run for; none are all."""
    return not task.repos or (bool(letter.repos) and set(letter.repos) <= set(task.repos))


def goes_on(task: TaskRecord, letter: DeadLetter) -> bool:
    """Whether a run of the letter goes on with this task, rather than with another one."""
    return task.state is not TaskState.COMPLETE and covers_repos(task, letter)


def is_sent_back(letter: DeadLetter) -> bool:
    """Whether the letter was requeued, and no run has ended since: its task is to be pending."""
    return letter.is_open and letter.requeue is not None and letter.requeue.outcome is RequeueOutcome.IN_FLIGHT


def requeue_key(letter: DeadLetter) -> str:
    """What names the letter's last requeue."""
    return f"{letter.entry_id}/{letter.dlq_retry_count}"


def came_back_by(task: TaskRecord, letter: DeadLetter) -> bool:
    """Whether the task is there again by the letter's last requeue, and nobody runs the letter: if it fails, so has
    the requeue.
    """
    idle = letter.status is not DeadLetterStatus.RETRYING
    return is_sent_back(letter) and idle and task.handed_back == requeue_key(letter)


def has_its_letter(task: TaskRecord, letter: DeadLetter | None) -> bool:
    """Whether this open letter tells already that the task failed, or will."""
    return letter is not None and letter.is_open and not came_back_by(task, letter)


def follow_requeue(task: TaskRecord, letter: DeadLetter, *, now: datetime, processor: str) -> TaskRecord:
    """The task comes back from `error` as its letter was requeued, once; otherwise it stays as it is."""
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
    """A run of the letter goes on with the task, whatever state its last run left it in.

    Steps that failed for good are run again after a requeue only. Raises IllegalMove for a task that people have ended.
    """
    task = follow_requeue(task, letter, now=now, processor=processor)
    if task.state is TaskState.ERROR:
        attempt = {"attempt": letter.total_attempts}
        task = task_moves.return_from_error(
            task, now=now, letter=letter.entry_id, metadata=attempt, processor=processor
        )
    return evolve_task(task_moves.begin(task, now=now, run=run, processor=processor), asked=_times_asked(letter))

"""What a lifecycle task and its letter know of one another: a snapshot in the letter, and which requeue came back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mahavishnu.model import task_moves
from mahavishnu.model.clock import instant_text
from mahavishnu.model.ids import derived_task_id
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, RequeueOutcome
from mahavishnu.model.task_states import TaskState
from mahavishnu.model.tasks import TaskRecord

LIFECYCLE = "lifecycle"  # in the metadata of a letter: the task that it is of, as it was then


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


def task_of(letter: DeadLetter) -> str | None:
    """The id of the lifecycle task that the letter is of; None if it is of none."""
    if letter.source.state is None:
        return None
    known = letter.labels.member(LIFECYCLE)
    task_id = known.get("task_id") if isinstance(known, dict) else None
    return task_id if isinstance(task_id, str) and task_id else None


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
    return task_moves.begin(task, now=now, run=run, processor=processor)

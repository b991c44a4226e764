"""When a lifecycle task is stuck: it is active, and nothing goes on. It is reset a few times, then given up.

That is for tasks which somebody's own code runs. A tracked workflow gives signs of life, and its letter has it run on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mahavishnu.model.staleness import (
    MINUTE,
    Pause,
    StalenessRules,
    counted_since,
    given_minutes,
    in_minutes,
    long_life_minutes,
)
from mahavishnu.model.task_states import ACTIVE, StepState, TaskState
from mahavishnu.model.tasks import TaskRecord

STUCK_DETECTOR = "stuck_task_detection"  # who moved a task that was stuck too often


def stuck_minutes(rules: StalenessRules, template: str | None, state: TaskState) -> int:
    """How long nothing may go on with a task of this template in this active state.

    A template that has a longer limit of its own for the state has said how long that may take.

    >>> stuck_minutes(StalenessRules(), None, TaskState.STEPS_IN_PROCESS)
    10
    """
    own = given_minutes(rules, template, state) or long_life_minutes(rules, template)
    return max(rules.max_stuck_duration_minutes, own)


def idle_time(task: TaskRecord, now: datetime, pauses: Sequence[Pause] = ()) -> timedelta:
    """For how long nothing has gone on with the task, without the pauses."""
    last = max(task.state_entered_at, *(each.at for each in task.transitions[-1:]), task.alive_at or task.created_at)
    return counted_since(last, now, pauses)


def is_stuck(task: TaskRecord, rules: StalenessRules, now: datetime, pauses: Sequence[Pause] = ()) -> bool:
    """Whether the task is in an active state, and nothing has gone on for too long."""
    if task.state not in ACTIVE or task.run is not None:
        return False
    return idle_time(task, now, pauses) > stuck_minutes(rules, task.template, task.state) * MINUTE


def may_recover(task: TaskRecord, rules: StalenessRules) -> bool:
    """Whether a task that is stuck is reset once more: not too often, and not if a step has no run left."""
    running = [step for step in task.steps if step.state is StepState.IN_PROGRESS]
    return task.recovery_count < rules.max_recoveries_per_task and all(step.may_run for step in running)


def describe_stuck(task: TaskRecord, now: datetime, pauses: Sequence[Pause] = ()) -> str:
    """One sentence for people."""
    minutes = in_minutes(idle_time(task, now, pauses))
    return f"{task.name:.80} is {task.state}, and nothing has gone on for {minutes} minutes"

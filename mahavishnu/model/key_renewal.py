"""What becomes of stored work when its encrypted values get another key, and what a renewal cannot reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.task_letters import letter_ids_of
from mahavishnu.model.tasks import StepRecord, TaskRecord, evolve

Renew = Callable[[Json, Json], tuple[Json, Json]]
"""A payload and its types with another key; the very same two where nothing is to be done."""


def renew_task(task: TaskRecord, renew: Renew) -> TaskRecord:
    """A tracked task with what it was given and what its steps returned as `renew` makes it; itself if that is equal.

    What somebody else runs, who gave its context and results himself, stays as it was given.
    """
    if task.work_id is None:
        return task
    context, types = renew(task.context, task.context_types)
    steps = tuple(_renew_step(step, renew) for step in task.steps)
    same_steps = all(old is new for old, new in zip(task.steps, steps, strict=True))
    if context is task.context and types is task.context_types and same_steps:
        return task
    return evolve(task, context=context, context_types=types, steps=steps)


def _renew_step(step: StepRecord, renew: Renew) -> StepRecord:
    if step.result is None or step.result_types is None:
        return step
    result, types = renew(step.result, step.result_types)
    if result is step.result and types is step.result_types:
        return step
    return replace(step, result=result, result_types=types)


def loses_letter(task: TaskRecord, renewed: TaskRecord) -> bool:
    """Whether a letter of the task could be where the renewed one does not look: an id may be made of its context."""
    return letter_ids_of(task) != letter_ids_of(renewed)


def with_letter(renewed: TaskRecord, letter: DeadLetter) -> TaskRecord:
    """The renewed task, which finds its letter by that one's own id."""
    return evolve(renewed, work_id=letter.task_id)


def out_of_reach(detached: Sequence[str], waiting_outside: int) -> tuple[str, ...]:
    """What a renewal has not looked at, in words: it keeps the keys that it was encrypted with.

    >>> out_of_reach(["2026_01"], 0)[0]
    'month 2026_01 of the archive, which is detached: attach it and begin again'
    """
    found = [f"month {name} of the archive, which is detached: attach it and begin again" for name in detached]
    if waiting_outside:
        found.append(f"failed runs that wait beside the store ({waiting_outside}): begin again when they are in it")
    return (
        *found,
        "what other processes keep locally while the store is away: begin again when it is back",
        "exports and backups: keep the keys that they were made with",
    )

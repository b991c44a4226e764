"""Domain events that are derived from records: of letters, and of lifecycle tasks and their steps.

What a record says is enough to make its event again, with the same id: so an event that nobody published, because the
process died in between, can be found by looking at what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from mahavishnu.model.clock import instant_text
from mahavishnu.model.domain_events import DeliveryMode, DomainEvent, Outcome, PublicationCondition, is_met, matches
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.lifecycle import BY_APPLICATION
from mahavishnu.tasks.task import StepState, TaskRecord, TaskState, Transition

PERMANENTLY_FAILED = "dlq.permanently_failed"  # the domain's own name for one way of being resolved
LONGEST_ERROR = 1000
_ENDINGS = frozenset({EventName.RETRY_SUCCEEDED, EventName.RESOLVED, EventName.ARCHIVED, PERMANENTLY_FAILED})
_IDS = UUID("5b1f3c8e-2a64-4f0c-8d0a-6f1c2f7b9e10")  # the name space of ids of derived events
_OUTCOMES: Mapping[str, Outcome] = {
    StepState.COMPLETE: Outcome.SUCCESS,
    StepState.WAITING_FOR_RETRY: Outcome.RETRYABLE_FAILURE,
    StepState.ERROR: Outcome.PERMANENT_FAILURE,
}
TASK_EVENTS = (*(f"task.{state}" for state in TaskState), *(f"step.{state}" for state in StepState))


@dataclass(frozen=True, slots=True)
class StepEvent:
    """An event that is published whenever a step of this name ends with an outcome that meets the condition."""

    step: str
    name: str
    condition: PublicationCondition = PublicationCondition.SUCCESS
    mode: DeliveryMode = DeliveryMode.FAST
    workflow: str = "*"


# ----------------------------------------------------------------------------------------------------------- of letters


def names_of(name: EventName) -> tuple[str, ...]:
    """The names that domain events of an event of the queue may have."""
    return (name, PERMANENTLY_FAILED) if name is EventName.RESOLVED else (name,)


def letter_moments(letter: DeadLetter) -> dict[str, datetime]:
    """What the letter says has happened to it, by the names of the events, and when."""
    if letter.is_deleted:
        return {}
    found: dict[str, datetime] = {
        EventName.CAPTURED if letter.generation == 1 else EventName.REOPENED: letter.created_at
    }
    retries = [failure.at for failure in letter.failures if failure.processor is not None]
    if retries:
        found[EventName.RETRY_FAILED] = retries[-1]
    if letter.requeue is not None:
        found[EventName.REQUEUED] = letter.requeue.at
    ended = letter.resolution.at
    if letter.exhausted_at is not None and letter.exhausted_at != ended:
        found[EventName.EXHAUSTED] = letter.exhausted_at
    if ended is not None and (name := _ending(letter)) is not None:
        found[name] = ended
    if letter.archived_at is not None and letter.archived_at != ended:
        found[EventName.ARCHIVED] = letter.archived_at
    return found


def _ending(letter: DeadLetter) -> str | None:
    how, by = letter.resolution.status, letter.resolution.by
    if how is ResolutionStatus.MOVED:
        return None
    if letter.archived_at == letter.resolution.at:
        # Both end a case so; where its lineage has known both, the name may be the other one, but not the id.
        was_cancelled = how is ResolutionStatus.CANCELLED and letter.tallies.cancelled > 0
        return EventName.RESOLVED if was_cancelled else EventName.ARCHIVED
    if how is ResolutionStatus.PERMANENTLY_FAILED:
        return PERMANENTLY_FAILED
    if how is ResolutionStatus.REQUEUED and by != BY_APPLICATION:
        return EventName.RETRY_SUCCEEDED
    return EventName.RESOLVED


def event_of(event: Event, namespace: str) -> DomainEvent:
    """The domain event of an event of the queue. One that a letter tells of has the id that the letter gives it."""
    letter, name = event.letter, str(event.name)
    detail = {key: _plain(value) for key, value in event.detail.items()}
    if letter is None:
        return DomainEvent(new_entry_id(event.at), name, event.at, namespace, Json.of(detail))
    if event.name is EventName.RESOLVED and letter.resolution.status is ResolutionStatus.PERMANENTLY_FAILED:
        name = PERMANENTLY_FAILED
    at = letter_moments(letter).get(name)
    if at is None and name in _ENDINGS and letter.archived_at == letter.resolution.at:
        at = letter.archived_at
    made = _letter_event(letter, name, event.at if at is None else at, detail)
    return made if at is not None else _with_id(made, new_entry_id(event.at))


def letter_events(letter: DeadLetter, since: datetime) -> Iterator[DomainEvent]:
    """The events that the letter tells of, from an instant on."""
    for name, at in sorted(letter_moments(letter).items(), key=lambda each: each[1]):
        if at >= since:
            yield _letter_event(letter, name, at, {})


def _letter_event(letter: DeadLetter, name: str, at: datetime, detail: Mapping[str, Any]) -> DomainEvent:
    facts = {
        **detail,
        "task_id": letter.task_id,
        "entry_id": letter.entry_id,
        "queue": letter.queue,
        "status": str(letter.status),
        "resolution_status": str(letter.resolution.status),
        "error_category": letter.error_category,
        "last_error": letter.last_error[:LONGEST_ERROR],
        "fingerprint": letter.fingerprint,
        "retry_count": letter.retry_count,
        "total_attempts": letter.total_attempts,
        "adapter": letter.adapter,
    }
    moment = "ended" if name in _ENDINGS and at == letter.resolution.at else name
    named = f"{letter.namespace}/{letter.entry_id}/{moment}/{instant_text(at)}"
    return DomainEvent(
        str(uuid5(_IDS, named)), name, at, letter.namespace, Json.of(facts), DeliveryMode.FAST, task_id=letter.task_id
    )


def _with_id(event: DomainEvent, event_id: str) -> DomainEvent:
    return DomainEvent(
        event_id, event.name, event.created_at, event.namespace, event.payload, event.delivery_mode,
        task_id=event.task_id,
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """A detail of an event as JSON has it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return instant_text(value) if isinstance(value, datetime) else str(value)


# ---------------------------------------------------------------------------------------- of lifecycle tasks and steps


def task_events(
    task: TaskRecord, declared: Iterable[StepEvent], *, after: int = 0, since: datetime | None = None
) -> Iterator[DomainEvent]:
    """The events of the moves of a task that it has inside: of those past a number, or from an instant on."""
    declared = tuple(declared)
    for move in task.transitions:
        if move.number <= after or (since is not None and move.at < since):
            continue
        kind = "task" if move.step is None else "step"
        yield _task_event(task, move, f"{kind}.{move.to_state}", DeliveryMode.FAST, PublicationCondition.ALWAYS)
        outcome = None if move.step is None else _OUTCOMES.get(move.to_state)
        if outcome is None or move.step is None:
            continue
        for each in declared:
            if (
                matches(move.step, (each.step,))
                and matches(task.name, (each.workflow,))
                and is_met(each.condition, outcome)
            ):
                yield _task_event(task, move, each.name, each.mode, each.condition)


def _task_event(
    task: TaskRecord, move: Transition, name: str, mode: DeliveryMode, condition: PublicationCondition
) -> DomainEvent:
    facts: dict[str, Any] = {
        "task": task.name,
        "from_state": move.from_state,
        "to_state": move.to_state,
        "reason": move.reason,
    }
    if move.step is not None and (step := task.step(move.step)) is not None:
        facts |= {"attempts": step.attempts, "max_attempts": step.max_attempts}
        if move.to_state != StepState.COMPLETE:
            facts["error"] = step.last_error and step.last_error[:LONGEST_ERROR]
    elif task.last_error is not None and move.to_state == TaskState.ERROR:
        facts["error"] = task.last_error[:LONGEST_ERROR]
    return DomainEvent(
        str(uuid5(_IDS, f"{task.namespace}/{task.task_id}/{move.number}/{name}")), name, move.at, task.namespace,
        Json.of(facts), mode, condition, task.task_id, move.step,
    )  # fmt: skip

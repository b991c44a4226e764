"""Domain events: their names, delivery modes and conditions, and how they are made of letters and tasks.

The queue's own events (`model.events`) are for its parts; a domain event has a name and a payload that users choose, or
is made of an event of the queue or of a step that has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar
from uuid import UUID, uuid5

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import DeliveryMode, DomainEvent, Event, EventName, PublicationCondition
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ResolutionStatus, Version
from mahavishnu.model.lifecycle import BY_APPLICATION
from mahavishnu.model.rules import Rules, rule, url_rule
from mahavishnu.tasks.task import StepState, TaskRecord, TaskState, Transition

E = TypeVar("E", bound=StrEnum)
LONGEST_NAME = 200
LONGEST_TEXT = 1000  # of an id
_NAME = re.compile(r"[\w.:-]{1,%d}" % LONGEST_NAME)  # noqa: UP031 - braces are many enough
_CONSUMER = re.compile(r"[\w.:-]{1,100}")


class Outcome(StrEnum):
    """The end of a piece of work."""

    SUCCESS = "success"
    RETRYABLE_FAILURE = "retryable_failure"
    PERMANENT_FAILURE = "permanent_failure"


_FAILURES = frozenset({Outcome.RETRYABLE_FAILURE, Outcome.PERMANENT_FAILURE})
MET_BY: Mapping[PublicationCondition, frozenset[Outcome]] = {
    PublicationCondition.SUCCESS: frozenset({Outcome.SUCCESS}),
    PublicationCondition.FAILURE: _FAILURES,
    PublicationCondition.RETRYABLE_FAILURE: frozenset({Outcome.RETRYABLE_FAILURE}),
    PublicationCondition.PERMANENT_FAILURE: frozenset({Outcome.PERMANENT_FAILURE}),
    PublicationCondition.ALWAYS: frozenset(Outcome),
}


def is_met(condition: PublicationCondition, outcome: Outcome | None) -> bool:
    """Return whether an event with this condition is published after this outcome; without one only if `always`.

    >>> is_met(PublicationCondition.FAILURE, Outcome.RETRYABLE_FAILURE)
    True
    """
    if outcome is None:
        return condition is PublicationCondition.ALWAYS
    return outcome in MET_BY[condition]


@dataclass(frozen=True, slots=True)
class EventPosition:
    """The number up to which a consumer has acknowledged events, or a duty of the queue has come.

    `holder` delivers for this consumer until `held_until`. `at` is when the position was moved last; of the outbox, up
    to when records were looked at.
    """

    key: str
    namespace: str
    consumer: str
    number: int
    at: datetime
    holder: str | None = None
    held_until: datetime | None = None
    version: Version | None = field(default=None, compare=False)


REMOVED = "*removed"  # the position up to which old events were removed
OUTBOX = "*outbox"  # the position of what looks for events that nobody published
LATE = "*late/"  # begins the names of notes for it: `at` is the earliest event of records that came home late


def position_key(namespace: str, consumer: str) -> str:
    """Return the key of a consumer's position."""
    return f"{namespace}/{consumer}"


@dataclass(frozen=True, slots=True)
class EventPage:
    """Stored events in order. `next` is what to read after, or acknowledge; `has_more`: others were there."""

    events: tuple[DomainEvent, ...]
    next: int
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Publication:
    """Result of publishing: `told` here, `stored` or why not; without an `event` its condition was not met."""

    event: DomainEvent | None
    told: bool = False
    stored: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRules(Rules):
    """The events of the queue and of steps that are stored, and for how long.

    `durable_names` are patterns such as `dlq.exhausted` or `dlq.*`. Events that every known consumer has acknowledged
    stay for `acknowledged_days`, others for `durable_days`; None keeps them.
    """

    durable_names: tuple[str, ...] = rule(
        (), "Names of events of the queue, of tasks and of steps that are stored for consumers outside, such as dlq.*"
    )
    durable_outbox: bool = rule(
        False, "Store events that a process could not store before it died, by looking at what has changed"
    )
    acknowledged_days: int | None = rule(
        7, "How long stored events stay that every known consumer has acknowledged; null: always", 0, 36500
    )
    durable_days: int | None = rule(
        30, "How long stored events stay that a consumer has not acknowledged; null: always", 0, 36500
    )
    webhook_url: str | None = url_rule(
        None,
        "Where stored events are posted to, as JSON; empty: nowhere. It is a secret: many have a token in them",
        secret=True,
    )
    webhook_secret: str | None = rule(None, "What posted events are signed with", secret=True)

    def is_durable(self, name: str) -> bool:
        """Return whether events of the queue with this name are stored."""
        return matches(name, self.durable_names)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether the name fits one of these patterns, where `*` stands for anything.

    >>> matches("order.paid", ["order.*"]), matches("order.paid", ["orders"])
    (True, False)
    """
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def require_event_name(name: object) -> str:
    """Return the name of an event. Raises InvalidInput for an invalid one.

    >>> require_event_name("order.paid")
    'order.paid'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"the name of an event has 1 to {LONGEST_NAME} letters, digits and the characters . _ : -, not {name!r:.80}"
        )
    return name


def require_text(value: object, what: str) -> str | None:
    """Return an id that an event carries, or None. Raises InvalidInput for one that could not be read again."""
    if value is not None and (not isinstance(value, str) or len(value) > LONGEST_TEXT):
        raise InvalidInput(f"the {what} of an event is a text of at most {LONGEST_TEXT} characters, not {value!r:.80}")
    return value


def require_consumer(name: object) -> str:
    """Return the name of a consumer. Raises InvalidInput for an invalid one."""
    if not isinstance(name, str) or not _CONSUMER.fullmatch(name):
        raise InvalidInput(
            f"the name of a consumer has 1 to 100 letters, digits and the characters . _ : -, not {name!r:.80}"
        )
    return name


def require_member(kind: type[E], given: object, what: str) -> E:
    """Return the member of this value. Raises InvalidInput, naming `what` there is none of, for an unknown one."""
    try:
        return kind(str(given))
    except ValueError:
        raise InvalidInput(f"there is no {what} {given!r:.80}; there are {', '.join(kind)}") from None


def removable_number(
    events: Iterable[DomainEvent], acknowledged: int | None, rules: EventRules, now: datetime
) -> int | None:
    """Return the number up to which these events, in their order, are no longer kept; None if the first one is.

    `acknowledged` is the lowest position of all known consumers; None if there is no consumer.
    """
    found = None
    for event in events:
        age = now - event.created_at
        is_done = acknowledged is not None and event.number <= acknowledged
        if not (_is_over(age, rules.durable_days) or (is_done and _is_over(age, rules.acknowledged_days))):
            break
        found = event.number
    return found


def _is_over(age: timedelta, days: int | None) -> bool:
    return days is not None and age >= timedelta(days=days)


# --- derived events

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


# --- of letters


def names_of(name: EventName) -> tuple[str, ...]:
    """Return the names that domain events of an event of the queue may have."""
    return (name, PERMANENTLY_FAILED) if name is EventName.RESOLVED else (name,)


def letter_moments(letter: DeadLetter) -> dict[str, datetime]:
    """Return the events that the letter's fields tell of, by name, and their instants."""
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
    """Return the domain event of an event of the queue. One that a letter tells of has the letter's id for it."""
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
    return made if at is not None else replace(made, event_id=new_entry_id(event.at))


def letter_events(letter: DeadLetter, since: datetime) -> Iterator[DomainEvent]:
    """Yield the events that the letter tells of, from an instant on."""
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


def _plain(value: Any) -> Any:
    """Return a detail of an event as JSON has it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return instant_text(value) if isinstance(value, datetime) else str(value)


# --- of lifecycle tasks and steps


def task_events(
    task: TaskRecord, declared: Iterable[StepEvent], *, after: int = 0, since: datetime | None = None
) -> Iterator[DomainEvent]:
    """Yield the events of a task's moves that it has inside: past a number, or from an instant on."""
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

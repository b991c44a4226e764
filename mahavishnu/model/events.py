"""Events for listeners, after the write; audit entries, before an act and completed after it; names of log lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from msgspec import field

from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.json_value import EMPTY, Json, difference, nesting_depth
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.record import Value, Version, Versioned


class EventName(StrEnum):
    """Every kind of event."""

    CAPTURED = "dlq.captured"
    MERGED = "dlq.merged"
    REOPENED = "dlq.reopened"
    SKIPPED = "dlq.skipped"
    RETRY_STARTED = "dlq.retry.started"
    RETRY_SUCCEEDED = "dlq.retry.succeeded"
    RETRY_FAILED = "dlq.retry.failed"
    EXHAUSTED = "dlq.exhausted"
    RECOVERED = "dlq.recovered"
    RELEASED = "dlq.released"
    STALE_CLAIM = "dlq.stale_claim"
    REDRIVEN = "dlq.redriven"
    REQUEUED = "dlq.requeued"
    EDITED = "dlq.edited"
    RESOLVED = "dlq.resolved"
    ARCHIVED = "dlq.archived"
    CLEARED = "dlq.cleared"
    GROUP_CHANGED = "dlq.group.changed"
    RUN_STARTED = "dlq.run.started"
    RUN_CHANGED = "dlq.run.changed"
    QUEUE_FAILED = "QueueFailed"
    QUEUE_ITEM_RETRY = "QueueItemRetry"
    QUEUE_ITEM_DEAD = "QueueItemDead"
    TASK_STALE = "task_staleness_detected"
    TASK_STALE_SOON = "task_staleness_warning"
    WORKER_WAKE = "WorkerWake"


class Event(Value, frozen=True):
    """Something that happened to one letter, or to what `detail` names. It never contains payload.

    For a bulk run, `detail` has `run_id`, `state` and the counts.
    """

    name: EventName
    at: datetime
    letter: DeadLetter | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], object]


MAX_CHANGES = 100  # in one entry
MAX_VALUE_LENGTH = 1000  # characters of a changed value, as JSON
MAX_VALUE_DEPTH = 100  # a value that is nested deeper is kept as text, as the entry adds levels of its own
DELETED_VALUE = "(deleted with the letter)"  # in place of what an entry said of a letter that is deleted
_NO_CONTENTS = frozenset(
    {
        *("status", "resolution_status", "retry_count", "max_retries", "total_attempts", "dlq_retry_count", "priority"),
        *("retry_policy", "error_category", "generation", "occurrences", "revision", "next_retry_at", "last_retry_at"),
        *("failed_at", "created_at", "exhausted_at", "completed_at", "archived_at", "entry_id", "partition"),
    }
)
_IGNORED_FIELDS = frozenset({"updated_at"})  # it changes with every act


class AuditOutcome(StrEnum):
    """Known outcome of an act."""

    ASKED = "asked"  #: begun; if that is long ago, its outcome is unknown
    DONE = "done"
    REFUSED = "refused"


class AuditEntry(Versioned, frozen=True):
    """One act, written before it and completed after it.

    `subject` is `letter:<key>`, `group:<fingerprint>`, `run:<id>` or `queue`. `reason` is given by the actor,
    `why` says why the act was refused. `changes` maps each changed field (`status`, or `task/url` in JSON) to its
    values `before` and `after`; what the act counted has an `after` only. No `namespace` is the one called `default`.
    """

    entry_id: str
    at: datetime
    actor: str
    action: str
    subject: str
    role: str | None = None
    via: str = "python"
    outcome: AuditOutcome = AuditOutcome.ASKED
    reason: str | None = None
    why: str | None = None
    changes: Json = EMPTY
    ended_at: datetime | None = None
    namespace: str | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.entry_id


Changes = dict[str, dict[str, Any]]
AuditedState = DeadLetter | Mapping[str, Any] | None


def run_subjects(letters: Iterable[DeadLetter]) -> tuple[str, ...]:
    """Audit subjects (`run:<id>`) of every bulk run that moved one of these letters, without duplicates."""
    return tuple(dict.fromkeys(f"run:{run_id}" for letter in letters for run_id in letter.runs))


def changes_between(before: AuditedState, after: AuditedState) -> Changes:
    """The fields in which two states of a record differ, with both values. None: the record did not exist.

    >>> changes_between({"state": "new", "owner": "ann"}, {"state": "resolved", "owner": "ann"})
    {'state': {'before': 'new', 'after': 'resolved'}}
    """
    return {
        change["path"].removeprefix("/"): {side: change[side] for side in ("before", "after") if side in change}
        for change in difference(_as_json(before), _as_json(after))
    }


def limit_changes(changes: Changes) -> Json:
    """The changes as an entry keeps them: at most `MAX_CHANGES`, and long values shortened."""
    limited = {name: {side: _limit_value(value) for side, value in change.items()} for name, change in changes.items()}
    if left := list(limited)[MAX_CHANGES:]:
        limited = {name: limited[name] for name in list(limited)[:MAX_CHANGES]}
        limited["…"] = {"after": f"{len(left)} more changes"}
    return Json.of(limited, "changes")


def without_contents(changes: Json) -> Json:
    """The changes of a letter that was deleted: what the machine counted stays, what people or errors said does not."""
    kept = {
        name: change if name in _NO_CONTENTS else dict.fromkeys(change, DELETED_VALUE)
        for name, change in changes.value.items()
    }
    return Json.of(kept, "changes")


def _as_json(state: AuditedState) -> Any:
    if isinstance(state, DeadLetter):
        state = state.to_dict()
    return {name: Json.of(value, name).value for name, value in (state or {}).items() if name not in _IGNORED_FIELDS}


def _limit_value(value: Any) -> Any:
    text = value if isinstance(value, str) else Json.of(value, "value").text
    if len(text) > MAX_VALUE_LENGTH:
        return text[: MAX_VALUE_LENGTH - 1] + "…"
    return value if isinstance(value, str) or nesting_depth(text) <= MAX_VALUE_DEPTH else text


# Names of log lines that machines look for. Besides these, each event of a queue (`EventName`) is a line under its own
# name; a line without one has its module's name.
LOG_EVENTS: Final = {
    "capture.kept": "A failure is in the queue. Of several in one moment there is one line with their `count`, "
    "and a line each at the level DEBUG.",
    "capture.skipped": "A failure is not kept, because the strategy said so.",
    "capture.waits": "A failure is no letter yet: there is no room, or the store cannot take it. It is kept elsewhere.",
    "capture.in_memory": "A failure is in this process's memory only. The line has its redacted payload.",
    "capture.failed": "A failure could not be kept at all. The line has its redacted payload, the only trace of it.",
    "lease.lost": "The outcome of a run does not count, because somebody else owns the letter.",
    "health.warning": "Something that a person should look at.",
    "alert.notice": "Something is wrong, or over: a notice of an alert, where `alerts.log` is on.",
    "alert.failed": "A channel did not take a notice of an alert. It is tried again.",
    "store.lost": "The store does not answer; new records are kept locally.",
    "store.back": "The store answers again; what was kept locally is there.",
    "store.refused": "The store does not take a record, which stays in the local store.",
    "archive.failed": "Letters could not be archived.",
    "staleness.failed": "A stale task could not be moved.",
    "telemetry.failed": "Numbers or traces could not be told. Nothing else is wrong.",
}


def log_event(name: str, **fields: Any) -> dict[str, Any]:
    """Return the `extra` of a log call: the event's name, and fields of its own. Never a payload.

    >>> log_event("store.lost")
    {'event': 'store.lost', 'fields': {}}
    """
    assert name in LOG_EVENTS, name
    return {"event": name, "fields": fields}


def letter_fields(letter: DeadLetter) -> dict[str, Any]:
    """Return the fields of a letter for a log line: names and numbers, nothing of its payload."""
    return {
        "task_id": letter.task_id,
        "entry_id": letter.entry_id,
        "namespace": letter.namespace,
        "queue": letter.queue,
        "adapter": letter.adapter,
        "fingerprint": letter.fingerprint,
        "category": str(letter.error_category),
        "status": str(letter.status),
        "attempt": letter.total_attempts,
    }


VOID = "(void)"  # the name of a record that stands for an event which was never stored


class DeliveryMode(StrEnum):
    """Destination of an event."""

    FAST = "fast"  #: to subscribers in this process, at once; a restart loses it
    DURABLE = "durable"  #: into the store, for consumers outside, in whatever process
    BROADCAST = "broadcast"  #: both, with one id


class PublicationCondition(StrEnum):
    """After which outcomes an event is published."""

    SUCCESS = "success"
    FAILURE = "failure"
    RETRYABLE_FAILURE = "retryable_failure"
    PERMANENT_FAILURE = "permanent_failure"
    ALWAYS = "always"


def event_key(namespace: str, number: int) -> str:
    """The key of a stored event; there is one event of a number, because writes are compare-and-set."""
    return f"{namespace}/{number:015}"


class DomainEvent(Versioned, frozen=True):
    """Something that happened, with its `number` in the namespace once stored. Repeats have the same `event_id`."""

    event_id: str
    name: str
    created_at: datetime
    namespace: str = DEFAULT_NAMESPACE
    payload: Json = EMPTY
    delivery_mode: DeliveryMode = DeliveryMode.FAST
    condition: PublicationCondition = PublicationCondition.ALWAYS
    task_id: str | None = None
    step: str | None = None
    number: int = 0
    version: Version | None = None

    @property
    def key(self) -> str:
        return event_key(self.namespace, self.number)

    @property
    def is_void(self) -> bool:
        """True for the place of an event that was never stored: it is not delivered."""
        return self.name == VOID

    def to_dict(self) -> dict[str, object]:
        """Return the event as JSON for people and programs outside."""
        return {
            "event_id": self.event_id,
            "name": self.name,
            "namespace": self.namespace,
            "created_at": self.created_at.isoformat(),
            "task_id": self.task_id,
            "step": self.step,
            "condition": str(self.condition),
            "delivery_mode": str(self.delivery_mode),
            "number": self.number,
            "payload": self.payload.value,
        }


TRACEPARENT = "traceparent"  # in a letter's metadata, as W3C writes it: what the caller's span was

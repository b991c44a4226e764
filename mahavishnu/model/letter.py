"""The letter: one captured failure with its payload, and the small values it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Self, TypeVar, cast

from mahavishnu.model.clock import instant
from mahavishnu.model.drafts import drafts
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE, document_key
from mahavishnu.model.json_value import EMPTY, Json

DEFAULT_ADAPTER = "llamaindex"  # runs what names no adapter
KEPT_FAILURES = 5
Version = tuple[int, ...]  # a store's own mark of one state of one record: hand it back, never look inside


class DeadLetterStatus(StrEnum):
    """What the machine is doing with the letter."""

    PENDING = "pending"  #: waits for its next run, or for a person if `due_at` is empty
    RETRYING = "retrying"  #: somebody holds a lease on it
    EXHAUSTED = "exhausted"  #: no automatic retry is left
    COMPLETED = "completed"  #: a retry succeeded, or a person settled it
    ARCHIVED = "archived"  #: put away


class ResolutionStatus(StrEnum):
    """How the case ended."""

    PENDING = "pending"  #: it has not
    REQUEUED = "requeued"  #: the work ran again, or went back to where it came from
    PERMANENTLY_FAILED = "permanently_failed"
    MANUALLY_RESOLVED = "manually_resolved"
    CANCELLED = "cancelled"


class RequeueOutcome(StrEnum):
    """What came of a requeue."""

    IN_FLIGHT = "in_flight"  #: no run has ended since
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABANDONED = "abandoned"  #: somebody closed the case before a run had ended


class RetryPolicy(StrEnum):
    """How long to wait before the next retry; `custom:<name>` texts name a registered function."""

    NEVER = "never"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    IMMEDIATE = "immediate"


class ErrorCategory(StrEnum):
    """What kind of failure it was."""

    TRANSIENT = "transient"
    NETWORK = "network"
    RESOURCE = "resource"
    PERMISSION = "permission"
    VALIDATION = "validation"
    PERMANENT = "permanent"


class DlqReason(StrEnum):
    """Why the letter was written."""

    WORKFLOW_FAILED = "workflow_failed"
    STALENESS_TIMEOUT = "staleness_timeout"
    MAX_RETRIES_EXCEEDED = "max_retries_exceeded"
    MAX_ATTEMPTS_EXCEEDED = "max_attempts_exceeded"
    WORKER_UNAVAILABLE = "worker_unavailable"
    DEPENDENCY_CYCLE_DETECTED = "dependency_cycle_detected"
    INVALID_STATE_TRANSITION = "invalid_state_transition"
    QUEUE_ITEM_DEAD = "queue_item_dead"
    EXPIRED = "expired"
    MANUAL = "manual"


class SourceKind(StrEnum):
    """What kind of work failed."""

    WORKFLOW = "workflow"
    TASK = "task"
    QUEUE_ITEM = "queue_item"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Failure:
    """One run that failed."""

    at: datetime
    message: str
    type: str | None = None
    category: str | None = None
    traceback: str | None = None
    processor: str | None = None
    duration_seconds: float | None = None

    def __post_init__(self) -> None:
        if (at := instant(self.at)) is not self.at:
            object.__setattr__(self, "at", at)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run a letter until its `due_at`, and what to go back to if the run does not count."""

    owner: str
    token: str
    prior: DeadLetterStatus = DeadLetterStatus.PENDING
    prior_due: datetime | None = None
    manual: bool = False


@dataclass(frozen=True, slots=True)
class Resolution:
    """How the case ended, when, by whom and why."""

    status: ResolutionStatus = ResolutionStatus.PENDING
    at: datetime | None = None
    by: str | None = None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Requeue:
    """The last time somebody, or a rule, sent the work back with a higher priority, and what came of it.

    `automatic` counts how often a rule did it.
    """

    at: datetime
    by: str
    boost: int = 0
    notes: str | None = None
    outcome: RequeueOutcome = RequeueOutcome.IN_FLIGHT
    automatic: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """Where the work came from."""

    kind: SourceKind = SourceKind.WORKFLOW
    queue: str | None = None
    id: str | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the letter has its category: the classifier's reason, and who spoke."""

    reason: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True)
class Tallies:
    """What a letter and the generations before it add to the lifetime statistics.

    They change in the same write as the move that they count, so sums over the live letters cannot drift, whatever is
    killed. A letter is closed by exactly one of success, requeue, permanent failure, manual resolution, cancellation
    and archiving, so `generation` + `reopened` = the first six, plus one if it is open.
    """

    retry_success: int = 0
    requeued: int = 0
    permanently_failed: int = 0
    manually_resolved: int = 0
    cancelled: int = 0
    archived: int = 0
    reopened: int = 0
    retry_failed: int = 0
    exhausted: int = 0
    manually_retried: int = 0
    claims_recovered: int = 0
    deduplicated: int = 0

    @property
    def closings(self) -> int:
        """How often a case was closed."""
        ended = self.retry_success + self.requeued + self.permanently_failed + self.manually_resolved
        return ended + self.cancelled + self.archived

    def plus(self, *names: str) -> Tallies:
        """These tallies with one more of each named one."""
        more = _tallies_draft(self)
        for name in names:
            setattr(more, name, getattr(more, name) + 1)
        more.__class__ = Tallies
        return cast("Tallies", more)

    def joined(self, other: Tallies) -> Tallies:
        """The sums of both."""
        return Tallies(*(getattr(self, tally.name) + getattr(other, tally.name) for tally in fields(self)))


_tallies_draft = drafts(Tallies)
# Shared by nearly every letter: a letter costs memory only for what is particular about it.
_OPEN, _WORKFLOW, _UNSPOKEN, _NONE_YET = Resolution(), Source(), Verdict(), Tallies()


class _Remembering:
    """Room for what is worked out from a letter's lasting fields, see `evolve`; no part of the value."""

    __slots__ = ("_remembered",)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(_Remembering):
    """One captured failure. Every change makes a new letter, in `mahavishnu.model.lifecycle` and nowhere else.

    `due_at` always says when anyone may next pick it up: the next retry while pending, the lease's end while
    retrying. `generation` counts the letters that this task has had, this one included; `absorbed` are the entry
    ids of letters that this one succeeded, or that were written elsewhere at the same time and became part of it.
    `runs` are the bulk runs that have moved it: the last ones, and all that are not over; `run_outcomes` are what
    became of it after those that redrove it, as `<outcome> <run id>`, `open` where that is not known yet.
    `revision` counts the edits, and what it was before each is kept. `settled` is the last outcome that a claim of
    `claim_letters` was settled with, as `<outcome> <token>`.
    `more_repos` are those that the task failed for while it was being run for others.
    """

    task_id: str
    entry_id: str
    error: str
    failed_at: datetime
    created_at: datetime
    updated_at: datetime
    payload: Json = EMPTY
    repos: tuple[str, ...] = ()
    more_repos: tuple[str, ...] = ()
    labels: Json = EMPTY
    namespace: str = DEFAULT_NAMESPACE
    queue: str = DEFAULT_QUEUE
    status: DeadLetterStatus = DeadLetterStatus.PENDING
    resolution: Resolution = _OPEN
    retry_policy: str = RetryPolicy.EXPONENTIAL
    retry_count: int = 0
    max_retries: int = 3
    total_attempts: int = 0
    due_at: datetime | None = None
    lease: Lease | None = None
    recoveries: int = 0
    last_error: str
    last_retry_at: datetime | None = None
    failures: tuple[Failure, ...] = ()
    error_category: str | None = None
    verdict: Verdict = _UNSPOKEN
    fingerprint: str | None = None
    reason: str = DlqReason.WORKFLOW_FAILED
    source: Source = _WORKFLOW
    priority: int = 0
    depends_on: tuple[str, ...] = ()
    generation: int = 1
    previous_entry_id: str | None = None
    absorbed: tuple[str, ...] = ()
    dlq_retry_count: int = 0
    occurrences: int = 1
    requeue: Requeue | None = None
    runs: tuple[str, ...] = ()
    run_outcomes: tuple[str, ...] = ()
    revision: int = 0
    settled: str | None = None
    tallies: Tallies = _NONE_YET
    exhausted_at: datetime | None = None
    completed_at: datetime | None = None
    archived_at: datetime | None = None
    version: Version | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """Under which the letter lives: at most one live letter per key."""
        return document_key(self.task_id, self.namespace, self.queue)

    @property
    def task(self) -> Any:
        """The job description, as a fresh copy."""
        return self.payload.value

    @property
    def metadata(self) -> dict[str, Any]:
        """What the caller wrote on the letter, as a fresh copy."""
        labels: dict[str, Any] = self.labels.value
        return labels

    @property
    def adapter(self) -> str:
        """The adapter that runs the task: the one it failed on, else the one that the task names."""
        if self.source.kind is SourceKind.WORKFLOW and self.source.queue:
            return self.source.queue
        task = self.task
        name = task.get("adapter") if isinstance(task, Mapping) else None
        return name if isinstance(name, str) and name else DEFAULT_ADAPTER

    @property
    def is_open(self) -> bool:
        """Whether the case still waits for an end."""
        return self.resolution.status is ResolutionStatus.PENDING

    @property
    def next_retry_at(self) -> datetime | None:
        """The retry date that a person sees: empty unless the letter is pending and will be retried."""
        return self.due_at if self.status is DeadLetterStatus.PENDING else None

    @property
    def captured_at(self) -> datetime:
        """When its task was captured last: for this letter, or merged into it. What a retry brought does not count.

        Only a few failures are kept, so this may go back once four retries have failed since; never before
        `created_at`.
        """
        latest = self.created_at
        for failure in self.failures:
            if failure.processor is None and failure.at > latest:
                latest = failure.at
        return latest

    @property
    def resolution_status(self) -> ResolutionStatus:
        return self.resolution.status

    def to_dict(self) -> dict[str, Any]:
        """The letter as JSON values, with the documented names."""
        from mahavishnu.model.record import as_dict  # it needs this module

        return as_dict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerLetter(DeadLetter):
    """A letter that another generation has replaced; history keeps it under its entry id."""

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """`letter` as history keeps it, not stored there yet."""
        values = {each.name: getattr(letter, each.name) for each in fields(DeadLetter)}
        return cls(**{**values, "version": None})

    @property
    def key(self) -> str:
        return self.entry_id


L = TypeVar("L", bound=DeadLetter)
_NAMES = frozenset(each.name for each in fields(DeadLetter))
# What a run changes, and the stores; all the other fields mostly last as long as the letter.
PASSING = frozenset(
    {
        "status",
        "resolution",
        "retry_count",
        "total_attempts",
        "due_at",
        "lease",
        "recoveries",
        "last_retry_at",
        "updated_at",
        "requeue",
        "runs",
        "run_outcomes",
        "settled",
        "tallies",
        "exhausted_at",
        "completed_at",
        "archived_at",
        "version",
    }
)
letter_draft = drafts(DeadLetter)
_remember = DeadLetter._remembered.__set__  # type: ignore[attr-defined]


def evolve(letter: L, **changes: Any) -> L:
    """`letter` with other values in some fields: `dataclasses.replace` in a tenth of the time, for the hot paths.

    Where only passing fields change, the new letter remembers what the old one does.
    """
    new = letter_draft(letter)
    try:
        for name, value in changes.items():
            setattr(new, name, value)
    except AttributeError:
        raise KeyError(*(changes.keys() - _NAMES)) from None
    if (known := remembered(letter)) is not None and changes.keys() <= PASSING:
        new._remembered = known
    new.__class__ = type(letter)
    return cast("L", new)


def remember(letter: DeadLetter, known: object) -> None:
    """Keep something that depends on nothing but the letter's lasting fields."""
    _remember(letter, known)


def remembered(letter: DeadLetter) -> Any:
    """What was kept, or None."""
    return getattr(letter, "_remembered", None)

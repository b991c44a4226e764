"""The small values that records are made of, above all those of a letter."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, StrEnum
from operator import add, neg
from typing import Final

from msgspec.structs import astuple, replace

from mahavishnu.model.clock import cut_at
from mahavishnu.model.record import Value

KEPT_FAILURES = 5
LOST = "lost"  # begins the kind of a value that could not be kept: a description stands in its place
MASK = "***"  # stands where a value is that nobody may see
LEASE_RAN_OUT = "LeaseRanOut"  # the type of a failure that nobody met: the run was not heard of again
NO_ADAPTER = "(none)"  # in queries and in numbers: letters that name no adapter


class Unchanged(Enum):
    """The type of `UNCHANGED`, which is passed in place of a value that is to stay as it is."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


class DeadLetterStatus(StrEnum):
    """Status of a letter in the state machine."""

    PENDING = "pending"  #: waits for its next run, or for a person if `due_at` is empty
    RETRYING = "retrying"  #: somebody holds a lease on it
    EXHAUSTED = "exhausted"  #: no automatic retry is left
    COMPLETED = "completed"  #: a retry succeeded, or a person resolved it
    ARCHIVED = "archived"  #: kept, and out of the way


class ResolutionStatus(StrEnum):
    """End of the case of a letter."""

    PENDING = "pending"  #: it has not ended
    REQUEUED = "requeued"  #: the work ran again, or went back to where it came from
    PERMANENTLY_FAILED = "permanently_failed"
    MANUALLY_RESOLVED = "manually_resolved"
    CANCELLED = "cancelled"
    MOVED = "moved"  #: it lives on in another queue
    DELETED = "deleted"  #: only a tombstone is left of it, which nobody is shown


RESOLUTIONS = tuple(status for status in ResolutionStatus if status is not ResolutionStatus.DELETED)  # to be asked for


class RequeueOutcome(StrEnum):
    """The outcome of a requeue."""

    IN_FLIGHT = "in_flight"  #: no run has ended since
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABANDONED = "abandoned"  #: somebody closed the case before a run had ended


class RetryPolicy(StrEnum):
    """Rule for the wait before the next retry; `custom:<name>` texts name a registered function."""

    NEVER = "never"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    IMMEDIATE = "immediate"


class ErrorCategory(StrEnum):
    """Category of a failure."""

    TRANSIENT = "transient"
    NETWORK = "network"
    RESOURCE = "resource"
    PERMISSION = "permission"
    VALIDATION = "validation"
    PERMANENT = "permanent"


class DlqReason(StrEnum):
    """Reason why the letter was written."""

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
    QUEUED = "queued"  #: nothing has failed yet: it is an item of a named queue
    QUEUE_DEFINITION_MISSING = "queue_definition_missing"


class SourceKind(StrEnum):
    """Kind of work that failed."""

    WORKFLOW = "workflow"
    TASK = "task"
    QUEUE_ITEM = "queue_item"
    MANUAL = "manual"


class Failure(Value, frozen=True, gc=False):
    """One run that failed."""

    at: datetime
    message: str
    type: str | None = None
    category: str | None = None
    traceback: str | None = None
    processor: str | None = None
    duration_seconds: float | None = None
    retry_in_seconds: float | None = None  # the wait before the next run that somebody asked for, such as a server

    __post_init__ = cut_at  # type: ignore[misc]  # a function is a method, too


class Lease(Value, frozen=True, gc=False):
    """The right to run a letter until its `due_at`, and the state to return to if the run does not count.

    `failed_again`: the task failed elsewhere since the lease was given, so that a success of the run is not the end.
    `seconds` are from the claim, or the last renewal, to that end.
    """

    owner: str
    token: str
    prior: DeadLetterStatus = DeadLetterStatus.PENDING
    prior_due: datetime | None = None
    manual: bool = False
    failed_again: bool = False
    seconds: float = 0.0


class Resolution(Value, frozen=True, gc=False):
    """End of the case: status, time, person and reason."""

    status: ResolutionStatus = ResolutionStatus.PENDING
    at: datetime | None = None
    by: str | None = None
    notes: str | None = None


class Requeue(Value, frozen=True, gc=False):
    """The last requeue of the letter and its outcome. `automatic` counts the requeues by the rule."""

    at: datetime
    by: str
    boost: int = 0
    notes: str | None = None
    outcome: RequeueOutcome = RequeueOutcome.IN_FLIGHT
    automatic: int = 0


class Source(Value, frozen=True, gc=False):
    """Origin of the work."""

    kind: SourceKind = SourceKind.WORKFLOW
    queue: str | None = None
    id: str | None = None
    state: str | None = None
    created_at: datetime | None = None  # when the work came in there


WORKFLOW_SOURCE = Source()
"""A workflow of which nothing else is known: of nearly all letters, which share it."""


class RecordedVerdict(Value, frozen=True, gc=False):
    """Reason of the letter's category, and the plugin that gave it."""

    reason: str | None = None
    author: str | None = None


class LatestVerdict(Value, frozen=True, gc=False):
    """Verdict on a letter's latest failure: the reason of its category, its tags, its group, the retry policy.

    The letter keeps a fingerprint or policy of None. `by_verdict` False: a caller chose the policy.
    """

    recorded: RecordedVerdict
    tags: tuple[str, ...] = ()
    fingerprint: str | None = None
    policy: str | None = None
    by_verdict: bool = True


class Tallies(Value, frozen=True, gc=False):
    """Numbers that a letter and the generations before it add to the lifetime statistics.

    They change in the same write as the move that they count, so that sums over the letters cannot drift, even if a
    process is killed. A letter is closed by exactly one of success, requeue, permanent failure, manual resolution,
    cancellation, archiving, deletion while it is open (`cleared`) and the move to another queue, so `generation` +
    `reopened` = the first six and the last two, plus one if it is open.
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
    cleared: int = 0
    moved: int = 0

    @property
    def closings(self) -> int:
        """Number of times that a case was closed."""
        ended = self.retry_success + self.requeued + self.permanently_failed + self.manually_resolved
        return ended + self.cancelled + self.archived + self.cleared + self.moved

    def plus(self, *names: str) -> Tallies:
        """These tallies, each named one increased by one."""
        return replace(self, **{name: getattr(self, name) + 1 for name in names})

    def combine(self, other: Tallies) -> Tallies:
        """The sums of both."""
        return Tallies(*map(add, astuple(self), astuple(other)))

    def negate(self) -> Tallies:
        """Return the numbers that take these off when both are combined."""
        return Tallies(*map(neg, astuple(self)))


class Counted(Value, frozen=True, omit_defaults=True, gc=False):
    """Numbers that a letter had counted of itself when its case had ended: they are in a sum now, and it has none left.

    A letter that is opened again counts on from there. `mark` says which sum took the numbers, and of which state of
    the letter, to tell a sum that is half done. `group` is the fingerprint under which the letter counts in the total
    of its group; empty for none. See `mahavishnu.model.tombstones`.
    """

    mark: str
    letters: int
    reopened: int = 0
    group: str = ""

"""The letter: one captured failure with its payload; and as a dict with the documented names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import StructMeta
from msgspec.structs import asdict, replace

from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE, document_key, new_entry_id, partition_of
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter_parts import (
    LEASE_RAN_OUT,
    NO_ADAPTER,
    WORKFLOW_SOURCE,
    Counted,
    DeadLetterStatus,
    DlqReason,
    Failure,
    Lease,
    RecordedVerdict,
    Requeue,
    Resolution,
    ResolutionStatus,
    RetryPolicy,
    Source,
    SourceKind,
    Tallies,
)
from mahavishnu.model.query import has_items
from mahavishnu.model.record import Version, Versioned

DEFAULT_ADAPTER = "llamaindex"  # of `execute_workflow` without a name, and of nothing else
_key_of = lru_cache(4096)(document_key)  # each step of a letter asks for it again
# Shared by nearly all letters, to save memory.
_OPEN, _NO_VERDICT, _NO_TALLIES = Resolution(), RecordedVerdict(), Tallies()


class DeadLetter(Versioned, frozen=True, gc=False):
    """One captured failure. Only functions of `mahavishnu.model.lifecycle` make the next state of a letter.

    `due_at` is always when anyone may next pick it up: the next retry while pending, the end of the lease while
    retrying. `generation` counts the letters of its task, but for `counted` ones; `absorbed` are entry ids of letters
    that this one succeeded, or that were written elsewhere at the same time and merged into it; `merged` are those of
    the latest failures that were counted on it instead of becoming letters. `runs` are the bulk runs that have moved
    it: the last ones, and all that are not over; `run_outcomes` are its outcomes for those that redrove it, as
    `<outcome> <run id>`, `open` if not known yet. `revision` counts the edits; the state before each is
    kept. `captured_task` is the payload as it was captured, `captured_digest` its digest, once a person has changed it.
    `settled` is the last outcome reported for a claim of `claims.claim`, as `<outcome> <token>`. `more_repos` are the
    repos that the task failed for while it was being run; none are all of them, if the lease says `failed_again`.
    `unfit`: why the worker that took it last could not run it. `adapter` names what runs it. `tags` are a classifier's.
    `policy_by_verdict`: nobody chose the retry policy, so it is that of the latest failure's verdict; so is the
    fingerprint, and `former_fingerprints` are those that it had before; `grouped_at` is the failure that took it from
    the last of them to its present group. An item of a named queue may have a date that
    it `expires_at`; `bound_for` is the queue that it is being moved to.
    `payload_types` says how values are read that JSON has no type for, by path; `typed`: where it says nothing, too.
    """

    task_id: str
    entry_id: str
    error: str
    last_error: str
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
    last_retry_at: datetime | None = None
    failures: tuple[Failure, ...] = ()
    error_category: str | None = None
    verdict: RecordedVerdict = _NO_VERDICT
    fingerprint: str | None = None
    reason: str = DlqReason.WORKFLOW_FAILED
    source: Source = WORKFLOW_SOURCE
    adapter: str | None = None
    tags: tuple[str, ...] = ()
    payload_types: Json = EMPTY
    typed: bool = False
    policy_by_verdict: bool = False
    former_fingerprints: tuple[str, ...] = ()
    grouped_at: datetime | None = None
    priority: int = 0
    depends_on: tuple[str, ...] = ()
    generation: int = 1
    previous_entry_id: str | None = None
    absorbed: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    dlq_retry_count: int = 0
    occurrences: int = 1
    requeue: Requeue | None = None
    runs: tuple[str, ...] = ()
    run_outcomes: tuple[str, ...] = ()
    revision: int = 0
    captured_digest: str | None = None
    captured_task: Json | None = None
    settled: str | None = None
    unfit: str | None = None
    tallies: Tallies = _NO_TALLIES
    counted: Counted | None = None
    exhausted_at: datetime | None = None
    completed_at: datetime | None = None
    archived_at: datetime | None = None
    expires_at: datetime | None = None
    bound_for: str | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        """The name of the letter in a store: there is at most one live letter per key."""
        return _key_of(self.task_id, self.namespace, self.queue)

    @property
    def circuit(self) -> str:
        """The name of the circuit that its runs go through: letters of one adapter share one."""
        return self.adapter or NO_ADAPTER

    @property
    def task(self) -> Any:
        """The job description, as a fresh copy."""
        return self.payload.value

    @property
    def task_snapshot(self) -> Any:
        """The job description as it was captured, whatever people have made of it since, as a fresh copy."""
        return (self.captured_task or self.payload).value

    @property
    def metadata(self) -> dict[str, Any]:
        """The caller's metadata, as a fresh copy."""
        labels: dict[str, Any] = self.labels.value
        return labels

    @property
    def is_open(self) -> bool:
        """True if the case has not ended."""
        return self.resolution.status is ResolutionStatus.PENDING

    @property
    def is_deleted(self) -> bool:
        """True for a tombstone: the rest of a deleted letter, under its key, see `tombstones.delete`."""
        return self.resolution.status is ResolutionStatus.DELETED

    @property
    def next_retry_at(self) -> datetime | None:
        """The retry date that a person sees: empty unless the letter is pending and will be retried."""
        return self.due_at if self.status is DeadLetterStatus.PENDING else None

    @property
    def captured_at(self) -> datetime:
        """Latest capture of its task, for this letter or merged into it. Failed retries do not count.

        As only a few failures are kept, this may go back after four failed retries, but never before `created_at`.
        """
        latest = self.created_at
        for failure in self.failures:
            if failure.processor is None and failure.at > latest:
                latest = failure.at
        return latest

    @property
    def told(self) -> Sequence[Failure]:
        """The kept failures that say a cause: all but lost leases. The latest one decides on its group."""
        return [failure for failure in self.failures if failure.type != LEASE_RAN_OUT]

    @property
    def seen_at(self) -> datetime:
        """The latest failure of its cause, a retry's too."""
        told = self.told
        return max(told[-1].at, self.created_at) if told else self.created_at

    @property
    def partition(self) -> int:
        """Number of the partition that its key falls into."""
        return partition_of(self.key)

    @property
    def resolution_status(self) -> ResolutionStatus:
        return self.resolution.status

    def knows(self, entry_id: str) -> bool:
        """Return True if it is the letter with this entry id, or has absorbed it, or counts its failure."""
        return entry_id == self.entry_id or entry_id in self.absorbed or entry_id in self.merged

    def to_dict(self) -> dict[str, Any]:
        """The letter as JSON values, with the documented names."""
        types = {"payload_types": self.payload_types.value} if self.payload_types.text != "{}" else {}
        return {**without_payload(self), "task": self.task, "metadata": self.metadata, **types}


class FormerLetter(DeadLetter, frozen=True, gc=False):
    """A letter that another generation has replaced; history keeps it under its entry id."""

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """`letter` as it is kept in the history, without a version."""
        return cls(**{**asdict(letter), "version": None})

    @property
    def key(self) -> str:
        return self.entry_id


def adapter_named_by(source: Source, payload: Json) -> str | None:
    """The adapter that a failure names without saying so: the workflow that it is from, else the task's `adapter`.

    >>> adapter_named_by(Source(), Json.of({"adapter": "sweep"}))
    'sweep'
    """
    if source.kind is SourceKind.WORKFLOW and source.queue:
        return source.queue
    name = payload.member("adapter")
    return name if isinstance(name, str) and name else None


def source_naming(adapter: str | None, source: Source) -> Source:
    """Return the source with the adapter as its queue, which is how people search for a workflow.

    >>> source_naming("sweep", Source()).queue
    'sweep'
    """
    if adapter is None or source.kind is not SourceKind.WORKFLOW or source.queue == adapter:
        return source
    if source is WORKFLOW_SOURCE:  # nearly always
        return _workflow_source(adapter)
    return replace(source, queue=adapter)


@lru_cache(1024)
def _workflow_source(adapter: str) -> Source:
    """One for all letters of an adapter, which saves memory, too."""
    return replace(WORKFLOW_SOURCE, queue=adapter)


L = TypeVar("L", bound=DeadLetter)
evolve = replace
"""Return a letter with other values. Raises TypeError for no fields of it."""

_PLAIN = (
    "task_id", "entry_id", "namespace", "queue", "error", "last_error", "error_category", "retry_count", "max_retries",
    "total_attempts", "fingerprint", "reason", "priority", "generation", "occurrences", "previous_entry_id",
    "dlq_retry_count", "revision", "adapter",
)  # fmt: skip
_MOMENTS = (
    "failed_at", "created_at", "updated_at", "next_retry_at", "last_retry_at", "exhausted_at", "completed_at",
    "archived_at",
)  # fmt: skip

_plain_values, _moment_values = attrgetter(*_PLAIN), attrgetter(*_MOMENTS)
_text = lru_cache(4096)(instant_text)  # many letters have the same instants


def without_payload(letter: DeadLetter) -> dict[str, Any]:
    """Return the letter without `task` and `metadata`, for callers that insert their JSON texts unparsed."""
    return {
        **dict(zip(_PLAIN, _plain_values(letter), strict=True)),
        "repos": list(letter.repos),
        "depends_on": list(letter.depends_on),
        "tags": list(letter.tags),
        "generation": letter.generation + (letter.counted.letters if letter.counted else 0),
        "status": str(letter.status),
        "resolution_status": str(letter.resolution.status),
        "resolved_by": letter.resolution.by,
        "resolution_notes": letter.resolution.notes,
        "retry_policy": str(letter.retry_policy),
        **{name: moment and _text(moment) for name, moment in zip(_MOMENTS, _moment_values(letter), strict=True)},
    }


def _letter_fields(
    task_id: str,
    task: Any,
    repos: Sequence[str],
    error: str,
    failed_at: datetime,
    retry_count: int = 0,
    max_retries: int = 3,
    retry_policy: RetryPolicy | str = RetryPolicy.EXPONENTIAL,
    next_retry_at: datetime | None = None,
    status: DeadLetterStatus | str = DeadLetterStatus.PENDING,
    metadata: Mapping[str, Any] | None = None,
    error_category: str | None = None,
    last_error: str | None = None,
    total_attempts: int | None = None,
    updated_at: datetime | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the fields of a letter for its documented names. `more` are other ones. Raises InvalidInput."""
    failed, payload = instant(failed_at), Json.of(task)
    return {
        "adapter": adapter_named_by(more.get("source", WORKFLOW_SOURCE), payload),
        "task_id": task_id,
        "payload": payload,
        "repos": tuple(repos),
        "error": error,
        "failed_at": failed,
        "retry_count": retry_count,
        "max_retries": max_retries,
        "retry_policy": retry_policy,
        "due_at": next_retry_at and instant(next_retry_at),
        "status": DeadLetterStatus(status),
        "labels": Json.of(dict(metadata or {}), "metadata"),
        "error_category": error_category,
        "last_error": error if last_error is None else last_error,
        "total_attempts": retry_count if total_attempts is None else total_attempts,
        "updated_at": instant(updated_at or failed),
        "entry_id": new_entry_id(failed),
        "created_at": failed,
        **more,
    }


class _Documented(StructMeta):
    """Makes letters from the documented names."""

    def __call__(cls, *given: Any, **named: Any) -> Any:
        if "payload" in named or len(given) == len(cls.__struct_fields__):  # a copy, with the names of a letter
            return super().__call__(*given, **named)
        return super().__call__(**_letter_fields(*given, **named))


class FailedTask(DeadLetter, frozen=True, gc=False, metaclass=_Documented):
    """A letter constructed by users, with the documented names and defaults.

    >>> task = FailedTask("wf_1", {"type": "sweep"}, ["api"], "boom", datetime(2030, 1, 1, tzinfo=UTC))
    >>> task.status, task.retry_count, task.to_dict()["failed_at"]
    (<DeadLetterStatus.PENDING: 'pending'>, 0, '2030-01-01T00:00:00.000Z')
    """

    if TYPE_CHECKING:  # a struct has no `__init__` of its own

        def __init__(
            self,
            task_id: str,
            task: Any,
            repos: Sequence[str],
            error: str,
            failed_at: datetime,
            *more: Any,
            **others: Any,
        ) -> None: ...

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FailedTask:
        """The letter that `to_dict` wrote; missing fields have their defaults. Raises InvalidInput."""
        try:
            values = {name: document[name] for name in _PLAIN if name in document}
            values |= {name: _moment(document[name]) for name in _MOMENTS if document.get(name)}
            names = ("task", "repos", "metadata", "status")
            values |= {name: document[name] for name in names if name in document}
            policy = document.get("retry_policy", RetryPolicy.EXPONENTIAL)
            values["retry_policy"] = RetryPolicy(policy) if policy in list(RetryPolicy) else policy
            values["depends_on"] = tuple(document.get("depends_on", ()))
            values["tags"] = tuple(document.get("tags", ()))
            if types := document.get("payload_types"):
                values["payload_types"] = Json.of(dict(types), "payload_types")
            ended = ResolutionStatus(document.get("resolution_status", ResolutionStatus.PENDING))
            who, notes = document.get("resolved_by"), document.get("resolution_notes")
            return cls(**values, resolution=Resolution(ended, by=who, notes=notes))
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"this is no failed task: {problem}") from problem


def _moment(text: Any) -> datetime:
    moment = text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def is_item(letter: DeadLetter) -> bool:
    """Return True for an item of a named queue."""
    return has_items(letter.namespace, letter.queue)

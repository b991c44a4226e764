"""A letter as a plain dict of JSON values, and back, with the field names of the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, DeadLetterStatus, Resolution, ResolutionStatus, RetryPolicy

_PLAIN = (
    "task_id", "entry_id", "namespace", "queue", "error", "last_error", "error_category", "retry_count", "max_retries",
    "total_attempts", "fingerprint", "reason", "priority", "generation", "occurrences", "previous_entry_id",
    "dlq_retry_count", "revision",
)  # fmt: skip
_MOMENTS = (
    "failed_at", "created_at", "updated_at", "next_retry_at", "last_retry_at", "exhausted_at", "completed_at",
    "archived_at",
)  # fmt: skip


_values, _dates = attrgetter(*_PLAIN), attrgetter(*_MOMENTS)
_text = lru_cache(4096)(instant_text)  # many letters have the same instants


def as_dict(letter: DeadLetter) -> dict[str, Any]:
    """The letter for JSON: texts, numbers, lists and dicts only."""
    return {**without_payload(letter), "task": letter.task, "metadata": letter.metadata}


def without_payload(letter: DeadLetter) -> dict[str, Any]:
    """The same without `task` and `metadata`, for those who write their texts as they are."""
    return {
        **dict(zip(_PLAIN, _values(letter), strict=True)),
        "repos": list(letter.repos),
        "depends_on": list(letter.depends_on),
        "status": str(letter.status),
        "resolution_status": str(letter.resolution.status),
        "resolved_by": letter.resolution.by,
        "resolution_notes": letter.resolution.notes,
        "retry_policy": str(letter.retry_policy),
        **{name: moment and _text(moment) for name, moment in zip(_MOMENTS, _dates(letter), strict=True)},
    }


class FailedTask(DeadLetter):
    """A letter made by hand, with the names and defaults of the documentation.

    >>> task = FailedTask("wf_1", {"type": "sweep"}, ["api"], "boom", datetime(2030, 1, 1, tzinfo=UTC))
    >>> task.status, task.retry_count, task.to_dict()["failed_at"]
    (<DeadLetterStatus.PENDING: 'pending'>, 0, '2030-01-01T00:00:00.000Z')
    """

    __slots__ = ()

    def __init__(
        self,
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
    ) -> None:
        """`more` are other fields of a letter. Raises InvalidInput for what cannot be kept."""
        failed = instant(failed_at)
        super().__init__(
            task_id=task_id,
            payload=Json.of(task),
            repos=tuple(repos),
            error=error,
            failed_at=failed,
            retry_count=retry_count,
            max_retries=max_retries,
            retry_policy=retry_policy,
            due_at=next_retry_at and instant(next_retry_at),
            status=DeadLetterStatus(status),
            labels=Json.of(dict(metadata or {}), "metadata"),
            error_category=error_category,
            last_error=error if last_error is None else last_error,
            total_attempts=retry_count if total_attempts is None else total_attempts,
            updated_at=instant(updated_at or failed),
            **{"entry_id": new_entry_id(failed), "created_at": failed, **more},
        )

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FailedTask:
        """A letter from what `to_dict` gave; what is missing has its default. Raises InvalidInput."""
        try:
            values = {name: document[name] for name in _PLAIN if name in document}
            values |= {name: _moment(document[name]) for name in _MOMENTS if document.get(name)}
            names = ("task", "repos", "metadata", "status")
            values |= {name: document[name] for name in names if name in document}
            policy = document.get("retry_policy", RetryPolicy.EXPONENTIAL)
            values["retry_policy"] = RetryPolicy(policy) if policy in list(RetryPolicy) else policy
            values["depends_on"] = tuple(document.get("depends_on", ()))
            ended = ResolutionStatus(document.get("resolution_status", ResolutionStatus.PENDING))
            who, notes = document.get("resolved_by"), document.get("resolution_notes")
            return cls(**values, resolution=Resolution(ended, by=who, notes=notes))
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"this is no failed task: {problem}") from problem


def _moment(text: Any) -> datetime:
    moment = text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

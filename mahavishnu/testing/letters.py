"""Sound letters for tests, in one line."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, adapter_named_by
from mahavishnu.model.letter_parts import (
    DeadLetterStatus,
    ErrorCategory,
    Failure,
    Lease,
    Resolution,
    ResolutionStatus,
    Source,
    Tallies,
)
from mahavishnu.testing.clock import START

_numbers = count(1)
_CHANGEABLE = frozenset(field.name for field in fields(DeadLetter)) | {"task", "metadata"}


def make_letter(**changes: Any) -> DeadLetter:
    """A sound letter: pending, due at once, never retried, with a `task_id` and `entry_id` of its own.

    Any field of `DeadLetter` can be given; `task` and `metadata` take plain JSON values. What is not given suits what
    is: another `status` brings the lease, resolution and dates that belong to it. What is given is taken as it is, so
    that unsound letters can be made on purpose. Raises InvalidInput for a name that is no field, InvalidPayload for
    what JSON cannot hold.

    >>> letter = make_letter(status="retrying", task={"repo": "api"}, priority=5)
    >>> letter.task, letter.priority, letter.lease.owner
    ({'repo': 'api'}, 5, 'worker-1')
    """
    if unknown := changes.keys() - _CHANGEABLE:
        raise InvalidInput(f"a letter has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(_CHANGEABLE))}")
    number = next(_numbers)
    values: dict[str, Any] = {
        "task_id": f"task-{number}",
        "entry_id": f"00000000-0000-7000-8000-{number:012x}",
        "error": "connection refused",
        "error_category": ErrorCategory.TRANSIENT,
        "created_at": START,
        "payload": Json.of(changes.pop("task", {"type": "code_sweep"})),
        "labels": Json.of(changes.pop("metadata", {}), "metadata"),
        **changes,
    }
    values.setdefault("adapter", adapter_named_by(values.get("source", Source()), values["payload"]))
    status = values["status"] = DeadLetterStatus(values.get("status", DeadLetterStatus.PENDING))
    created = values["created_at"]
    retries = values.get("retry_count", 0)
    budget = values.get("max_retries", max(3, retries))
    if status is DeadLetterStatus.EXHAUSTED:
        retries = values.get("retry_count", budget)
    fitting = {
        "failed_at": created,
        "updated_at": created,
        "last_error": values["error"],
        "retry_count": retries,
        "max_retries": budget,
        "total_attempts": max(retries, int(status is not DeadLetterStatus.PENDING)),
        **_fitting(status, created),
    }
    return DeadLetter(**{**fitting, **values})


def make_failure(message: str = "connection refused", **changes: Any) -> Failure:
    """One failed run, at the start of a `ManualClock` unless `at` is given; any field of `Failure` can be.

    >>> make_failure("timed out", type="TimeoutError").message
    'timed out'
    """
    values = {"at": START, "type": "ConnectionError", "category": ErrorCategory.TRANSIENT, **changes}
    return Failure(message=message, **values)


def _fitting(status: DeadLetterStatus, at: datetime) -> dict[str, Any]:
    done = Resolution(ResolutionStatus.REQUEUED, at, "worker-1")
    match status:
        case DeadLetterStatus.PENDING:
            return {"due_at": at}
        case DeadLetterStatus.RETRYING:
            lease = Lease("worker-1", "token-1", prior_due=at, seconds=300)
            return {"due_at": at + timedelta(minutes=5), "lease": lease, "last_retry_at": at}
        case DeadLetterStatus.EXHAUSTED:
            return {"exhausted_at": at}
        case DeadLetterStatus.COMPLETED:
            return {"completed_at": at, "resolution": done, "tallies": Tallies(retry_success=1)}
        case DeadLetterStatus.ARCHIVED:
            return {"archived_at": at, "resolution": done, "tallies": Tallies(retry_success=1)}

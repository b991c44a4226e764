"""What happened, said after it was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mahavishnu.model.letter import DeadLetter


class EventName(StrEnum):
    """Everything that is told."""

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


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to one letter, or to what `detail` names; it never holds payload.

    Of a bulk run it has `run_id`, `state` and the counts.
    """

    name: EventName
    at: datetime
    letter: DeadLetter | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], object]

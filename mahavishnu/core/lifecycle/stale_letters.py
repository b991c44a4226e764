"""The letter of a task that hung: the same whoever makes it, because all that it says is in the task's last move."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mahavishnu.capture.letter_factory import LetterRequest
from mahavishnu.classify.assess import Assessment
from mahavishnu.classify.exceptions import failure_of
from mahavishnu.classify.verdict import Verdict
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DlqReason, ErrorCategory, RetryPolicy, Source, SourceKind
from mahavishnu.model.staleness import DETECTOR, STALE, stale_fingerprint, stale_labels, stale_snapshot
from mahavishnu.model.task_letters import LIFECYCLE, snapshot_of
from mahavishnu.model.task_states import ACTIVE
from mahavishnu.model.tasks import TaskRecord

_HUNG = Verdict(ErrorCategory.TRANSIENT, "it hung", STALE.rstrip(":"))


def request_for(
    task: TaskRecord,
    state: str,
    reason: DlqReason,
    labels: Mapping[str, Any],
    snapshot: Mapping[str, Any] = {},
    *,
    may_be_retried: bool = True,
) -> LetterRequest:
    """What the letter of a task has that was in this state. Only the letter of a workflow is retried by itself."""
    retried = may_be_retried and task.adapter is not None and not task.notes.value
    return LetterRequest(
        task_id=task.work_id or task.task_id,
        task=task.context.value,
        repos=task.repos,
        retry_policy=task.retry_policy if retried else RetryPolicy.NEVER,
        max_retries=task.max_retries,
        metadata={**task.notes.value, **labels, LIFECYCLE: {**snapshot_of(task), **snapshot, "state": state}},
        priority=task.priority,
        queue=task.queue,
        reason=reason,
        source=Source(SourceKind.TASK if task.adapter is None else SourceKind.WORKFLOW, state=state),
        adapter=task.adapter,
        payload_types=task.context_types,
    )


def was_detected(detail: Mapping[str, Any]) -> bool:
    """Whether a move with this metadata was made because the task hung."""
    return detail.get("by") == DETECTOR


def make_stale_letter(
    context: QueueContext,
    task: TaskRecord,
    state: str,
    reason: DlqReason,
    detail: Mapping[str, Any],
    at: datetime,
    *,
    goes_on: bool = False,
) -> DeadLetter:
    """The letter of a task that was found at this instant to hang in this state. One that `goes_on` is not retried.

    Raises InvalidInput for what no letter can have.
    """
    snapshot = stale_snapshot(task, detail)
    may_run = goes_on or (state in ACTIVE and task.alive_at is None)  # has its process died? A person decides
    request = request_for(task, state, reason, stale_labels(at), snapshot, may_be_retried=not may_run)
    message = str(detail.get("notes") or f"{task.name} hung while it was {state}")
    failure = failure_of(message, at=at, category=_HUNG.category)
    assessment = Assessment(failure, _HUNG, stale_fingerprint(task.template, state))
    return context.letter_factory.make(request, assessment, context.clock.now(), backoffs=context.backoffs)

"""The kinds of records of lifecycle tasks."""

from __future__ import annotations

from datetime import datetime

from mahavishnu.model.errors import LostLease
from mahavishnu.stores.kind import BLOB, TEXT, Field, FieldType, ReconcileResult
from mahavishnu.stores.record_codec import record_kind
from mahavishnu.tasks.rules import merge_run
from mahavishnu.tasks.staleness_rules import StalenessWatch
from mahavishnu.tasks.task import OldTransition, TaskRecord


def _reconcile(theirs: TaskRecord, ours: TaskRecord, now: datetime) -> ReconcileResult[TaskRecord]:
    """Return what becomes of a task whose run went on in the local store while the other one was away."""
    try:
        merged = theirs if ours.run is None else merge_run(theirs, ours)
    except LostLease:  # another run has it: what this one says is late
        merged = theirs
    return ReconcileResult(None if merged is theirs else merged)


TASKS = record_kind(
    TaskRecord,
    name="tasks",
    index="dlq_tasks",
    key="task_id",
    types={
        "last_error": TEXT,
        **dict.fromkeys(("max_retries", "retry_policy", "run", "handed_back", "asked", "declared"), BLOB),
    },
    indexes=[
        ("namespace", "state", "state_entered_at"),
        ("namespace", "state", "created_at"),
        ("namespace", "created_at"),
        ("namespace", "owes"),
    ],
    more=[
        Field(
            "moved_at",
            FieldType.DATE,
            lambda task: task.transitions[-1].at if task.transitions else task.created_at,
            derived=True,
        ),
        # A number can be added up: stores find the mean.
        Field("entered_second", FieldType.INTEGER, lambda task: int(task.state_entered_at.timestamp()), derived=True),
    ],
    reconcile=_reconcile,
)

TRANSITIONS = record_kind(OldTransition, name="transitions", index="dlq_transitions", indexes=[("task_id", "number")])

STALENESS = record_kind(StalenessWatch, name="staleness", index="dlq_staleness", key="namespace")

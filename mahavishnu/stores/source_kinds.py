"""The kinds of records that queues, tracked tasks and the archive need; an app without them keeps none."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mahavishnu.alerts.rules import Alert, later_alert
from mahavishnu.archive.records import ArchivePartition
from mahavishnu.events.rules import DomainEvent, EventPosition
from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.search.rules import SavedView
from mahavishnu.stores.dataclass_codec import dataclass_kind
from mahavishnu.stores.kind import Field, FieldType, Kind, ReconcileResult
from mahavishnu.stores.kinds import KINDS
from mahavishnu.tasks.staleness_rules import StalenessWatch
from mahavishnu.tasks.task import OldTransition, TaskRecord

TEXT, BLOB = FieldType.TEXT, FieldType.BLOB

QUEUES = dataclass_kind(QueueDefinition, name="queues", index="dlq_queues", indexes=(("namespace", "name"),))


def _moved_at(task: TaskRecord) -> datetime:
    """When it, or a step of it, was moved last."""
    return task.transitions[-1].at if task.transitions else task.created_at


def _entered_second(task: TaskRecord) -> int:
    """When it came into its state, as a number that can be added up: stores find the mean of it."""
    return int(task.state_entered_at.timestamp())


TASKS = dataclass_kind(
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
    ],
    more=[
        Field("moved_at", FieldType.DATE, _moved_at, derived=True),
        Field("entered_second", FieldType.INTEGER, _entered_second, derived=True),
    ],
)
TRANSITIONS = dataclass_kind(
    OldTransition, name="transitions", index="dlq_transitions", indexes=[("task_id", "number")]
)

STALENESS = dataclass_kind(StalenessWatch, name="staleness", index="dlq_staleness", key="namespace")

ARCHIVE_PARTITIONS = dataclass_kind(
    ArchivePartition, name="archive_partitions", index="dlq_archive_partitions", key="name"
)

EVENTS = dataclass_kind(
    DomainEvent,
    name="events",
    index="dlq_events",
    types=dict.fromkeys(("delivery_mode", "condition"), BLOB),
    indexes=[("namespace", "number"), ("event_id",)],
)
EVENT_POSITIONS = dataclass_kind(
    EventPosition,
    name="event_positions",
    index="dlq_event_positions",
    types=dict.fromkeys(("number", "at", "holder", "held_until"), BLOB),
)

VIEWS = dataclass_kind(
    SavedView,
    name="views",
    index="dlq_views",
    types={"text": TEXT},
    indexes=[("namespace", "place", "name")],
)

ALERTS = dataclass_kind(
    Alert,
    name="alerts",
    index="dlq_alerts",
    types={
        "title": TEXT,
        "detail": TEXT,
        **dict.fromkeys(("path", "taken_by", "told", "holder", "held_until", "notice_kind"), BLOB),
    },
    indexes=[("namespace", "phase"), ("namespace", "noticed_at")],
    reconcile=lambda theirs, ours, now: ReconcileResult(later_alert(theirs, ours)),
)

STORED: tuple[Kind[Any], ...] = (
    *KINDS,
    QUEUES,
    TASKS,
    TRANSITIONS,
    STALENESS,
    ARCHIVE_PARTITIONS,
    EVENTS,
    EVENT_POSITIONS,
    VIEWS,
    ALERTS,
)

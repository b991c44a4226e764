"""Bulk runs and their members."""

from __future__ import annotations

from mahavishnu.model.bulk_run import BulkRun, RunPage
from mahavishnu.stores.kind import FieldType
from mahavishnu.stores.plain import plain_kind

RUNS = plain_kind(
    BulkRun,
    name="runs",
    index="dlq_runs",
    types={"reason": FieldType.TEXT, "halted_because": FieldType.TEXT},
    indexes=(("state", "due_at"), ("created_at",)),
    due="due_at",
)
RUN_PAGES = plain_kind(RunPage, name="run_pages", index="dlq_run_pages", indexes=(("run_id", "number"),))

"""The kinds of records of bulk runs and of their pages."""

from __future__ import annotations

from mahavishnu.bulk.run import BulkRun, RunPage
from mahavishnu.stores.kind import TEXT
from mahavishnu.stores.record_codec import record_kind

RUNS = record_kind(
    BulkRun,
    name="runs",
    index="dlq_runs",
    types={"reason": TEXT, "halted_because": TEXT},
    indexes=(("state", "due_at"), ("created_at",)),
    due="due_at",
)

RUN_PAGES = record_kind(RunPage, name="run_pages", index="dlq_run_pages", indexes=(("run_id", "number"),))

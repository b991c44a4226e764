"""The kind of records of alerts."""

from __future__ import annotations

from mahavishnu.alerts.rules import Alert, later_alert
from mahavishnu.stores.kind import BLOB, TEXT, ReconcileResult
from mahavishnu.stores.record_codec import record_kind

ALERTS = record_kind(
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

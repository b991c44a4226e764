"""The kind of records of groups."""

from __future__ import annotations

from mahavishnu.groups.rules import Group, reconcile_groups
from mahavishnu.stores.kind import ReconcileResult
from mahavishnu.stores.record_codec import record_kind

GROUPS = record_kind(
    Group,
    name="groups",
    index="dlq_groups",
    reconcile=lambda theirs, ours, now: ReconcileResult(reconcile_groups(theirs, ours)),
)

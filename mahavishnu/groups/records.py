"""The kind of records of groups."""

from __future__ import annotations

from mahavishnu.groups.rules import Group, reconcile_groups
from mahavishnu.stores.dataclass_codec import dataclass_kind
from mahavishnu.stores.kind import ReconcileResult

GROUPS = dataclass_kind(
    Group,
    name="groups",
    index="dlq_groups",
    reconcile=lambda theirs, ours, now: ReconcileResult(reconcile_groups(theirs, ours)),
)

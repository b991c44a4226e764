"""What people and rules said about groups of letters; the letters are counted when somebody asks."""

from __future__ import annotations

from mahavishnu.model.group import Group, reconcile_groups
from mahavishnu.stores.kind import Outcome
from mahavishnu.stores.plain import plain_kind

GROUPS = plain_kind(
    Group,
    name="groups",
    index="dlq_groups",
    reunite=lambda theirs, ours, now: Outcome(reconcile_groups(theirs, ours)),
)

"""The audit as a kind of record."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mahavishnu.model.events import AuditEntry, AuditOutcome
from mahavishnu.stores.kind import FieldType, Outcome
from mahavishnu.stores.plain import plain_kind


def _reunite(theirs: AuditEntry, ours: AuditEntry, now: datetime) -> Outcome[AuditEntry]:
    """Only one process writes an entry, twice: the completed one is the later one."""
    later = theirs.outcome is AuditOutcome.ASKED and ours.outcome is not AuditOutcome.ASKED
    return Outcome(replace(ours, version=theirs.version) if later else None)


AUDIT = plain_kind(
    AuditEntry,
    name="audit",
    index="dlq_audit",
    types={"reason": FieldType.TEXT, "why": FieldType.TEXT},
    indexes=[("at", "entry_id"), ("subject", "at"), ("actor", "at")],
    reunite=_reunite,
)

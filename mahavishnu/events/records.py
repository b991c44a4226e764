"""The kinds of records of domain events and of their consumers' positions."""

from __future__ import annotations

from mahavishnu.events.rules import EventPosition
from mahavishnu.model.events import DomainEvent
from mahavishnu.stores.kind import BLOB
from mahavishnu.stores.record_codec import record_kind

EVENTS = record_kind(
    DomainEvent,
    name="events",
    index="dlq_events",
    types=dict.fromkeys(("delivery_mode", "condition"), BLOB),
    indexes=[("namespace", "number"), ("event_id",)],
)

EVENT_POSITIONS = record_kind(
    EventPosition,
    name="event_positions",
    index="dlq_event_positions",
    types=dict.fromkeys(("number", "at", "holder", "held_until"), BLOB),
)

"""The kinds of records of domain events and of their consumers' positions."""

from __future__ import annotations

from mahavishnu.events.rules import EventPosition
from mahavishnu.model.events import DomainEvent
from mahavishnu.stores.dataclass_codec import dataclass_kind
from mahavishnu.stores.kind import BLOB

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

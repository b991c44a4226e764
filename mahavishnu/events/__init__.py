"""Domain events: derived from letters and tasks or published by users, stored, delivered, and streamed live."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.events.records:EVENTS", "mahavishnu.events.records:EVENT_POSITIONS"),
    services={"domain_events": "mahavishnu.events.service:DomainEvents"},
    chores="mahavishnu.events.service:chores",
    routes=(
        Routes("domain-events", "mahavishnu.events.routes:router"),
        Routes("events", "mahavishnu.events.routes:live_router"),
    ),
    groups=(CommandGroup("event", "Read and acknowledge stored domain events."),),
    commands=(
        Command("dlq", "watch", "mahavishnu.events.commands:watch"),
        Command("event", "list", "mahavishnu.events.commands:list_events"),
        Command("event", "ack", "mahavishnu.events.commands:ack"),
    ),
)

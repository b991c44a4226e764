"""Named queues: definitions, items, leases, and moves to a dead queue."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.queues.records:QUEUES",),
    services={"queues": "mahavishnu.queues.service:NamedQueues"},
    chores="mahavishnu.queues.service:chores",
    routes=(Routes("queues", "mahavishnu.queues.routes:router"),),
    groups=(CommandGroup("queue", "Look after named queues and their items."),),
    pages=("mahavishnu.queues.page",),
    commands=(
        Command("queue", "list", "mahavishnu.queues.commands:list_queues"),
        Command("queue", "show", "mahavishnu.queues.commands:show"),
        Command("queue", "create", "mahavishnu.queues.commands:create"),
        Command("queue", "update", "mahavishnu.queues.commands:update"),
        Command("queue", "delete", "mahavishnu.queues.commands:delete"),
        Command("queue", "push", "mahavishnu.queues.commands:push"),
        Command("queue", "items", "mahavishnu.queues.commands:items"),
        Command("queue", "lease", "mahavishnu.queues.commands:lease"),
        Command("queue", "ack", "mahavishnu.queues.commands:ack"),
        Command("queue", "fail", "mahavishnu.queues.commands:fail"),
        Command("queue", "retry", "mahavishnu.queues.commands:retry"),
        Command("queue", "drop", "mahavishnu.queues.commands:drop"),
        Command("queue", "redrive", "mahavishnu.queues.commands:redrive"),
    ),
)

"""Bulk runs: one verb over many letters, in waves, under a lease."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.bulk.records:RUNS", "mahavishnu.bulk.records:RUN_PAGES"),
    services={"runs": "mahavishnu.bulk.service:BulkRuns"},
    chores="mahavishnu.bulk.service:chores",
    routes=(Routes("runs", "mahavishnu.bulk.routes:router"),),
    groups=(CommandGroup("run", "Look after bulk runs."),),
    pages=("mahavishnu.bulk.selection", "mahavishnu.bulk.page"),
    commands=(
        Command("run", "list", "mahavishnu.bulk.commands:list_runs"),
        Command("run", "show", "mahavishnu.bulk.commands:show"),
        Command("run", "items", "mahavishnu.bulk.commands:items"),
        Command("run", "pause", "mahavishnu.bulk.commands:pause"),
        Command("run", "resume", "mahavishnu.bulk.commands:resume"),
        Command("run", "cancel", "mahavishnu.bulk.commands:cancel"),
        Command("run", "watch", "mahavishnu.bulk.commands:watch"),
    ),
)

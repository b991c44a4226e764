"""Lifecycle tasks: work that is running, its steps, and the letters of tasks that failed or hang."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=(
        "mahavishnu.tasks.records:TASKS",
        "mahavishnu.tasks.records:TRANSITIONS",
        "mahavishnu.tasks.records:STALENESS",
    ),
    chores="mahavishnu.tasks.stuck:chores",
    routes=(Routes("tasks", "mahavishnu.tasks.routes:router"),),
    groups=(CommandGroup("task", "Look at what runs now, and move what hangs to the dead-letter queue."),),
    pages=("mahavishnu.tasks.page",),
    commands=(
        Command("task", "list", "mahavishnu.tasks.commands:list_tasks"),
        Command("task", "show", "mahavishnu.tasks.commands:show"),
        Command("task", "move", "mahavishnu.tasks.commands:move"),
        Command("task", "detect", "mahavishnu.tasks.commands:detect"),
    ),
)

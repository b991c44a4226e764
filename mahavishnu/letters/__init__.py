"""Letters in the hands of people: find, edit, redrive, requeue, transfer; and the numbers of deleted ones."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    services={
        "letters": "mahavishnu.letters.service:LetterOperations",
        "requeues": "mahavishnu.letters.requeue:Requeues",
        "transfer": "mahavishnu.letters.transfer:Transfer",
    },
    settings=("auto_requeue",),
    chores="mahavishnu.letters.requeue:chores",
    routes=(
        Routes("dlq", "mahavishnu.letters.routes:router"),
        Routes("dlq", "mahavishnu.letters.routes:contrasts_router"),
    ),
    groups=(CommandGroup("dlq", "Look after letters."),),
    pages=("mahavishnu.letters.page",),
    commands=(
        Command("dlq", "list", "mahavishnu.letters.commands:list_letters"),
        Command("dlq", "show", "mahavishnu.letters.commands:show"),
        Command("dlq", "revisions", "mahavishnu.letters.commands:revisions"),
        Command("dlq", "restore", "mahavishnu.letters.commands:restore"),
        Command("dlq", "stats", "mahavishnu.letters.commands:stats"),
        Command("dlq", "retry", "mahavishnu.letters.action_commands:retry"),
        Command("dlq", "redrive", "mahavishnu.letters.action_commands:redrive"),
        Command("dlq", "edit", "mahavishnu.letters.action_commands:edit"),
        Command("dlq", "resolve", "mahavishnu.letters.action_commands:resolve"),
        Command("dlq", "fail", "mahavishnu.letters.action_commands:fail"),
        Command("dlq", "cancel", "mahavishnu.letters.action_commands:cancel"),
        Command("dlq", "archive", "mahavishnu.letters.action_commands:archive"),
        Command("dlq", "clear", "mahavishnu.letters.commands:clear"),
        Command("dlq", "export", "mahavishnu.letters.transfer_commands:export"),
        Command("dlq", "import", "mahavishnu.letters.transfer_commands:import_letters"),
        Command("dlq", "drain", "mahavishnu.letters.transfer_commands:drain"),
        Command("dlq", "reclassify", "mahavishnu.letters.commands:reclassify"),
        Command("dlq", "resurrect", "mahavishnu.letters.action_commands:resurrect", listed=False),
        Command("dlq", "requeue", "mahavishnu.letters.action_commands:requeue", listed=False),
        Command("dlq", "status", "mahavishnu.letters.commands:status", listed=False),
    ),
)

"""Letters in the hands of people: find, edit, redrive, requeue, transfer; and the numbers of deleted ones."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Read, Room, Routes

ROOM = Room(
    services={
        "letters": "mahavishnu.letters.service:LetterOperations",
        "requeues": "mahavishnu.letters.requeue:Requeues",
        "transfer": "mahavishnu.letters.transfer:Transfer",
    },
    chores="mahavishnu.letters.requeue:chores",
    routes=(
        Routes("dlq", "mahavishnu.letters.routes:router"),
        Routes("dlq", "mahavishnu.letters.routes:contrasts_router"),
    ),
    reads=(
        Read(
            "/dlq",
            "mahavishnu.letters.documents:letters",
            ("q", "cursor", "limit", "sort", "whole"),
            ("status", "resolution_status", "category", "policy", "namespace", "queue", "fingerprint", "adapter"),
        ),
        Read("/dlq/stats", "mahavishnu.letters.documents:by_reason"),
        Read("/dlq/statistics", "mahavishnu.letters.documents:statistics"),
        Read("/dlq/{}/letter", "mahavishnu.letters.documents:whole_letter", ("queue",)),
        Read("/dlq/{}/contrasts", "mahavishnu.letters.documents:contrasts", ("queue",)),
    ),
    groups=(CommandGroup("dlq", "Look after letters."),),
    pages=("mahavishnu.letters.page",),
    commands=(
        Command("dlq", "list", "mahavishnu.letters.commands:list_letters"),
        Command("dlq", "show", "mahavishnu.letters.commands:show"),
        Command("dlq", "revisions", "mahavishnu.letters.commands:revisions"),
        Command("dlq", "restore", "mahavishnu.letters.commands:restore"),
        Command("dlq", "stats", "mahavishnu.letters.commands:stats"),
        Command("dlq", "retry", "mahavishnu.bulk.letter_commands:retry"),
        Command("dlq", "redrive", "mahavishnu.bulk.letter_commands:redrive"),
        Command("dlq", "edit", "mahavishnu.bulk.letter_commands:edit"),
        Command("dlq", "resolve", "mahavishnu.bulk.letter_commands:resolve"),
        Command("dlq", "fail", "mahavishnu.bulk.letter_commands:fail"),
        Command("dlq", "cancel", "mahavishnu.bulk.letter_commands:cancel"),
        Command("dlq", "archive", "mahavishnu.bulk.letter_commands:archive"),
        Command("dlq", "clear", "mahavishnu.letters.commands:clear"),
        Command("dlq", "export", "mahavishnu.letters.transfer_commands:export"),
        Command("dlq", "import", "mahavishnu.letters.transfer_commands:import_letters"),
        Command("dlq", "drain", "mahavishnu.letters.transfer_commands:drain"),
        Command("dlq", "reclassify", "mahavishnu.letters.commands:reclassify"),
        Command("dlq", "resurrect", "mahavishnu.bulk.letter_commands:resurrect", listed=False),
        Command("dlq", "requeue", "mahavishnu.bulk.letter_commands:requeue", listed=False),
        Command("dlq", "status", "mahavishnu.letters.commands:status", listed=False),
    ),
)

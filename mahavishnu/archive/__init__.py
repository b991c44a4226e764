"""The archive: retention moves closed letters and ended tasks there, by month; restore, export, deletion for good."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.archive.records:ARCHIVE_PARTITIONS",),
    services={"archive": "mahavishnu.archive.service:Archive", "deletion": "mahavishnu.archive.deletion:Deletion"},
    chores="mahavishnu.archive.service:chores",
    routes=(Routes("archive", "mahavishnu.archive.routes:router"),),
    groups=(CommandGroup("archive", "Archive closed letters, find them there, and put them back."),),
    pages=("mahavishnu.archive.page",),
    commands=(
        Command("dlq", "delete", "mahavishnu.archive.commands:delete"),
        Command("archive", "run", "mahavishnu.archive.commands:run"),
        Command("archive", "list", "mahavishnu.archive.commands:list_archived"),
        Command("archive", "search", "mahavishnu.archive.commands:search"),
        Command("archive", "tasks", "mahavishnu.archive.commands:tasks"),
        Command("archive", "show", "mahavishnu.archive.commands:show"),
        Command("archive", "export", "mahavishnu.archive.commands:export"),
        Command("archive", "restore", "mahavishnu.archive.commands:restore"),
        Command("archive", "partitions", "mahavishnu.archive.commands:partitions"),
        Command("archive", "detach", "mahavishnu.archive.commands:detach"),
        Command("archive", "attach", "mahavishnu.archive.commands:attach"),
        Command("archive", "drop", "mahavishnu.archive.commands:drop"),
    ),
)

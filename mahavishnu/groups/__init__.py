"""Groups: letters with one cause, with their owner, notes, holds and trend."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Read, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.groups.records:GROUPS",),
    services={"groups": "mahavishnu.groups.service:Groups"},
    chores="mahavishnu.groups.service:chores",
    routes=(Routes("groups", "mahavishnu.groups.routes:router"),),
    reads=(
        Read("/groups", "mahavishnu.groups.service:groups_document", ("owner", "quiet", "sort", "limit", "cursor")),
        Read("/groups/{}", "mahavishnu.groups.service:group_document"),
    ),
    groups=(CommandGroup("group", "Look after groups of letters with the same cause."),),
    pages=("mahavishnu.groups.page",),
    commands=(
        Command("group", "list", "mahavishnu.groups.commands:list_groups"),
        Command("group", "show", "mahavishnu.groups.commands:show"),
        Command("group", "update", "mahavishnu.groups.commands:update"),
        Command("group", "redrive", "mahavishnu.groups.commands:redrive"),
        Command("group", "release", "mahavishnu.groups.commands:release"),
        Command("group", "regroup", "mahavishnu.groups.commands:regroup"),
    ),
)

"""Search: the query language, completion, and saved views."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room, Routes

ROOM = Room(
    kinds=("mahavishnu.search.records:VIEWS",),
    services={"search": "mahavishnu.search.service:Search", "views": "mahavishnu.search.views:Views"},
    routes=(
        Routes("query", "mahavishnu.search.routes:query_router"),
        Routes("views", "mahavishnu.search.routes:router"),
    ),
    groups=(CommandGroup("view", "Save queries under a name, for everybody."),),
    commands=(
        Command("view", "list", "mahavishnu.search.commands:list_views"),
        Command("view", "save", "mahavishnu.search.commands:save"),
        Command("view", "delete", "mahavishnu.search.commands:delete"),
    ),
)

"""The HTTP frame: routing, authentication, middleware, errors, schemas."""

from __future__ import annotations

from mahavishnu.engine.rooms import Room

ROOM = Room(
    kinds=("mahavishnu.http.replies:REPLIES",),
    services={"replies": "mahavishnu.http.replies:Replies"},
    chores="mahavishnu.http.replies:chores",
)

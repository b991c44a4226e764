"""Logins: sessions, OpenID Connect, throttling."""

from __future__ import annotations

from mahavishnu.engine.rooms import Room

ROOM = Room(
    pages=("mahavishnu.access.page",),
)

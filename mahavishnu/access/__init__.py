"""Access to the console: logins, sessions, and OpenID Connect."""

from __future__ import annotations

from mahavishnu.engine.rooms import Room

ROOM = Room(pages=("mahavishnu.access.page",))

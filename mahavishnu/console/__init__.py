"""The frame of the console: pages, forms, words, static files."""

from __future__ import annotations

from mahavishnu.engine.rooms import Room

ROOM = Room(pages=("mahavishnu.console.console",))

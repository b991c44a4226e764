"""Capture of failures: from a call that fails to a recorded letter."""

from __future__ import annotations

from mahavishnu.engine.rooms import Room

ROOM = Room(
    services={"intake": "mahavishnu.capture.capture:LetterIntake", "closing": "mahavishnu.capture.closing:Closing"}
)

"""The documented path of the names that adapters and their functions need."""

from __future__ import annotations

from mahavishnu.capture.adapters import Adapter, current_attempt

__all__ = ["Adapter", "current_attempt"]

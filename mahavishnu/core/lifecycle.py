"""The service of lifecycle tasks."""

from __future__ import annotations

from mahavishnu.tasks.service import Lifecycle

__all__ = ["Lifecycle"]

"""The names that a strategy of one's own needs."""

from __future__ import annotations

from mahavishnu.capture.strategies import Decision, DLQIntegrationStrategy, Occurrence, Strategy

__all__ = ["DLQIntegrationStrategy", "Decision", "Occurrence", "Strategy"]

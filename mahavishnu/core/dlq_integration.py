"""Connects workflows with the queue: failed runs are captured, and the workflow's own error always survives."""

from __future__ import annotations

from typing import Any

from mahavishnu.capture.adapters import AdapterRegistry
from mahavishnu.capture.capture import CaptureOutcome
from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.capture.strategies import DLQIntegrationStrategy
from mahavishnu.core import wiring
from mahavishnu.core.config import MahavishnuSettings

__all__ = ["CaptureOutcome", "DLQIntegration", "DLQIntegrationStrategy", "create_dlq_integration"]


def create_dlq_integration(app: Any) -> DLQIntegration:
    """Return the integration of an app's `dlq`, by the strategy of its `config`; it follows the app's settings."""
    config = getattr(app, "config", None)
    if isinstance(config, MahavishnuSettings):
        wiring.apply_defaults(app.dlq, config, getattr(app, "chain", None))
    run_again, adapters = getattr(app, "run_again", None), getattr(app, "adapters", None)
    if isinstance(adapters, AdapterRegistry) and run_again is not None:
        app.dlq.processing.run_with(run_again, adapters.known.keys)
        adapters.on_registered = app.dlq.processing.note_adapters
    elif app.dlq.processing.callback is None:
        app.dlq.processing.callback = run_again
    strategy = getattr(config, "dlq_strategy", DLQIntegrationStrategy.AUTOMATIC)
    by_category = getattr(config, "dlq_automatic_policy", "category") == "category"
    return DLQIntegration(app, app.dlq, strategy, by_category=by_category)

"""Your app: the workflows whose failed runs are retried. Replace `sync` by what yours are."""

from __future__ import annotations

from typing import Any

from mahavishnu.core import MahavishnuApp

app = MahavishnuApp()


def sync(task: Any, repos: list[str]) -> str:
    """A workflow."""
    return f"synced {len(repos)} repositories"


app.register_adapter("sync", sync)

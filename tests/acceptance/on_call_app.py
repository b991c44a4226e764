"""The app of the on-call story: a shop whose bills go to a service that has moved."""

from __future__ import annotations

from typing import Any

from mahavishnu.core.app import MahavishnuApp

app = MahavishnuApp()


def bill(task: dict[str, Any], repos: list[str]) -> str:
    """Works at the new address only, and only if the amount is there."""
    if task["url"] == "https://old.example":
        raise ConnectionRefusedError(f"connection to {task['url']} refused for order {task['order']}")
    if task["url"] != "https://new.example":
        raise LookupError(f"no such host: {task['url']}")
    return f"order {task['order']} is billed"


app.register_adapter("billing", bill)

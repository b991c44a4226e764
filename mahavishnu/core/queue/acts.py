"""Who does something with letters, and why."""

from __future__ import annotations

from typing import TypedDict


class Act(TypedDict, total=False):
    """Who acts (`by`, kept on the letter) and why (`notes`), and in which namespace and queue the task is."""

    by: str
    notes: str | None
    namespace: str | None
    queue: str

"""`mahavishnu worker list`: the live workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mahavishnu.cli.client import Connection
from mahavishnu.cli.command import command
from mahavishnu.cli.output import AsJson, print_table, when


@command()
async def list_workers(api: Connection, json: AsJson = False) -> Any:
    """List the live workers: what each can run, what it holds, and when it gave its last sign of life."""
    workers = await api.get("/workers")
    if json:
        return workers
    print_table(
        ("worker", "state", "last seen", "started", "holds", "queues", "runs"),
        [
            (
                each["name"],
                _state(each),
                when(each["seen_at"]),
                when(each["started_at"]),
                each["held"],
                ", ".join(each["queues"]) if each["queues"] else "all",
                _runs(each),
            )
            for each in workers
        ],
        empty="no worker lives: start one (mahavishnu worker --app MODULE:NAME)",
        spare=("queues", "started"),
    )


def _state(worker: Mapping[str, Any]) -> str:
    """Return the state in a word, as far as it is known: the last sign of life is dated by the worker's own clock."""
    if worker["ended"]:
        return "ran once"
    return {True: "lives", False: "silent", None: "unknown"}[worker["live"]]


def _runs(worker: Mapping[str, Any]) -> str:
    """Describe which letters it can run."""
    if worker["takes_all"]:
        return "whatever comes, with a callback of its own"
    if worker["adapters"] is None:
        return "unknown: it does not say"
    return ", ".join(worker["adapters"]) or "nothing: its app has no adapters"

"""`mahavishnu worker list`: who works on letters now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from mahavishnu.cli.client import Connection, run_conversation
from mahavishnu.cli.options import session_of
from mahavishnu.cli.output import AsJson, moment, print_json, print_table


def list_workers(context: typer.Context, json: AsJson = False) -> None:
    """List the live workers: what each can run, what it holds, and when it gave its last sign of life."""

    async def converse(api: Connection) -> None:
        workers = await api.get("/workers")
        if json:
            print_json(workers)
            return
        print_table(
            ("worker", "last seen", "started", "holds", "queues", "runs"),
            [
                (
                    each["name"],
                    moment(each["seen_at"]) if each["live"] else f"gone ({moment(each['seen_at'])})",
                    moment(each["started_at"]),
                    each["held"],
                    ", ".join(each["queues"]) if each["queues"] else "all",
                    _runs(each),
                )
                for each in workers
            ],
            empty="no worker lives: start one (mahavishnu worker --app MODULE:NAME)",
            spare=("queues", "started"),
        )

    run_conversation(session_of(context), converse)


def _runs(worker: Mapping[str, Any]) -> str:
    """What it can run, in words."""
    if worker["takes_all"]:
        return "whatever comes, with a callback of its own"
    if worker["adapters"] is None:
        return "unknown: it does not say"
    return ", ".join(worker["adapters"]) or "nothing: its app has no adapters"

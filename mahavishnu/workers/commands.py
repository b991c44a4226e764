"""`mahavishnu worker list`, the live workers, and `mahavishnu adapter`, the limits that they keep to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection, path_part
from mahavishnu.cli.command import command
from mahavishnu.cli.options import Reason
from mahavishnu.cli.output import AsJson, print_block, print_records
from mahavishnu.model.errors import InvalidInput


@command()
async def list_workers(api: Connection, json: AsJson = False) -> Any:
    """List the live workers: what each can run, what it holds, and when it gave its last sign of life."""
    workers = await api.get("/workers")
    if json:
        return workers
    print_records(
        workers,
        {
            "worker": "name",
            "state": _state,
            "last seen": "seen_at",
            "started": "started_at",
            "holds": "held",
            "queues": lambda each: ", ".join(each["queues"]) if each["queues"] else "all",
            "runs": _runs,
        },
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


_NONE = "none"


@command()
async def list_limits(api: Connection, json: AsJson = False) -> Any:
    """List the adapters that have a limit."""
    limits = await api.get("/adapters")
    if json:
        return limits
    print_records(
        limits,
        {
            "adapter": "adapter",
            "concurrency": lambda each: _or_none(each["concurrency"]),
            "rate": lambda each: _or_none(each["rate"]),
            "running": "held",
            "set by": "set_by",
            "set": "set_at",
        },
        empty="no adapter has a limit: mahavishnu adapter limit NAME --concurrency 5 --rate 100/min",
    )


def _print_limit(limit: Mapping[str, Any]) -> None:
    print_block(
        {
            "adapter": limit["adapter"],
            "concurrency": _or_none(limit["concurrency"]),
            "rate": _or_none(limit["rate"]),
            "set by": limit["set_by"] or "the application, within seconds",
        }
    )


@command(_print_limit)
async def limit(
    api: Connection,
    adapter: Annotated[str, typer.Argument(metavar="NAME", help="The name of the adapter.")],
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", metavar="N", help="Letters that run at once in all workers; none: no limit."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="Runs per s, min or h, such as 100/min; none: no limit."),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Return to what the application declares.")] = False,
    reason: Reason = None,
) -> Any:
    """Limit how many letters of an adapter all workers run at once, and how often."""
    path = f"/adapters/{path_part(adapter)}"
    if reset and (concurrency or rate):
        raise InvalidInput("--reset returns to what the application declares: leave --concurrency and --rate out")
    if reset:
        return await api.post(f"{path}/reset", {"notes": reason, **api.with_actor()})
    changes: dict[str, Any] = {}
    if concurrency is not None:
        if concurrency != _NONE and not concurrency.isdecimal():
            raise InvalidInput(f"--concurrency must be a whole number or none, not {concurrency!r:.80}")
        changes["concurrency"] = None if concurrency == _NONE else int(concurrency)
    if rate is not None:
        changes["rate"] = None if rate == _NONE else rate
    if not changes:
        raise InvalidInput("say what the limit is: --concurrency N, --rate 100/min, or --reset")
    body = {**changes, "notes": reason, **api.with_actor()}
    return (await api.ask("PATCH", f"{path}/limit", body=body)).json()


def _or_none(value: object) -> object:
    return _NONE if value is None else value

"""`mahavishnu event` lists stored domain events; `mahavishnu dlq watch` shows changes as they happen."""

from __future__ import annotations

import asyncio
import json as codec
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection
from mahavishnu.cli.command import command
from mahavishnu.cli.options import Limit, Texts
from mahavishnu.cli.output import (
    AsJson,
    brief,
    escape_controls,
    moment,
    print_json,
    print_line,
    print_notice,
    print_records,
    short,
)
from mahavishnu.letters.view import error_of, state_of
from mahavishnu.model.clock import SystemClock

ROWS = 20
REDRAW_SECONDS = 0.5  # at least between two tables
_STYLES = {"pending": "yellow", "retrying": "cyan", "completed": "green", "exhausted": "red"}
Event = tuple[str, dict[str, Any]]


@command()
async def list_events(
    api: Connection,
    consumer: Annotated[
        str | None, typer.Option("--consumer", metavar="NAME", help="What this consumer has not acknowledged.")
    ] = None,
    after: Annotated[int | None, typer.Option("--after", metavar="N", help="Those after this number.")] = None,
    name: Annotated[Texts, typer.Option("--name", help="Of this name, or of several, such as 'order.*'.")] = None,
    limit: Limit = 50,
    json: AsJson = False,
) -> None:
    """List stored domain events in their order, the oldest first."""
    params = {"consumer": consumer, "after": after, "name": name, "limit": limit}
    found = await api.get("/domain-events", params)
    if json:
        print_json(found)
    else:
        print_records(
            found["events"],
            {
                "number": "number",
                "name": "name",
                "when": "created_at",
                "task": "task_id",
                "payload": lambda each: brief(codec.dumps(each["payload"], ensure_ascii=False)),
            },
            empty="no such events are stored",
            spare=("task",),
        )
    if found["has_more"]:
        print_notice(f"there are more: --after {found['next']} goes on")


@command(lambda done: print_line(f"{done['consumer']} has acknowledged the events up to {done['number']}"))
async def ack(
    api: Connection,
    consumer: Annotated[str, typer.Argument(metavar="CONSUMER", help="The name of the consumer.")],
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the last event it has dealt with.")],
) -> Any:
    """Acknowledge all events up to a number, for a consumer: it does not get them again."""
    return await api.post("/domain-events/acknowledge", {"consumer": consumer, "number": number})


@command()
async def watch(
    api: Connection,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0, help="End after so many seconds.")] = None,
    lines: Annotated[int | None, typer.Option("--lines", min=1, help="End after so many lines.")] = None,
    json: AsJson = False,
) -> None:
    """Watch letters, runs and groups change. Ctrl-C ends it."""
    table = sys.stdout.isatty() and not json and lines is None
    watching = asyncio.ensure_future(_show_table(api) if table else _print_events(api, lines, json))
    ending = asyncio.ensure_future(SystemClock().sleep(seconds if seconds is not None else 10.0**9))
    try:
        await asyncio.wait({watching, ending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
        if not watching.done():
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
    if watching.done() and not watching.cancelled():
        watching.result()


async def _print_events(api: Connection, most: int | None, json: bool) -> None:
    count = 0
    async with api.stream("/events") as stream:
        async for name, data in parse_events(stream):
            if json:
                print_json({"event": name, **data}, indent=None)
            else:
                print_line(sentence(name, data))
            sys.stdout.flush()
            count += 1
            if count == most:
                return


async def _show_table(api: Connection) -> None:
    from rich.console import Console
    from rich.live import Live

    clock = SystemClock()
    changed = asyncio.Event()

    async def listen() -> None:
        async with api.stream("/events") as stream:
            async for _ in parse_events(stream):
                changed.set()

    listening = asyncio.ensure_future(listen())
    try:
        with Live(console=Console(), auto_refresh=False, screen=False) as live:
            while True:
                changed.clear()
                numbers = await api.get("/dlq/statistics")
                letters = await api.list("/dlq", {"sort": "updated", "whole": "true"}, ROWS)
                live.update(_view(letters, numbers), refresh=True)
                await clock.sleep(REDRAW_SECONDS)
                waiting = asyncio.ensure_future(changed.wait())
                await asyncio.wait({waiting, listening}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if listening.done():
                    listening.result()
                    return
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


def _view(letters: list[Any], numbers: Mapping[str, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), expand=True)
    table.add_column("task", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("category", no_wrap=True)
    table.add_column("error", no_wrap=True, overflow="ellipsis", ratio=1)  # it gets what is left
    for each in letters:
        table.add_row(
            Text(escape_controls(each["task_id"])),
            Text(state_of(each), style=_STYLES.get(each["status"], "")),
            str(each["error_category"] or "-"),
            Text(escape_controls(short(error_of(each)))),
        )
    states = ", ".join(f"{count} {status}" for status, count in numbers["status_breakdown"].items())
    warnings = "".join(f"\n{warning}" for warning in numbers["warnings"])
    head = f"{numbers['queue_size']} open letters: {states}; store {numbers['storage_mode']}{warnings}\n"
    return Group(Text(escape_controls(head)), table)


async def parse_events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    """Yield the names and data of server-sent events."""
    name, data = "message", ""
    async for text in lines:
        field, _, value = text.rstrip("\r").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data += value
        elif not text.strip() and data:
            yield name, codec.loads(data)
            name, data = "message", ""


def sentence(name: str, data: Mapping[str, Any]) -> str:
    """Describe an event in a line.

    >>> sentence("group", {"updated_at": "2030-01-01T12:00:00.000Z", "fingerprint": "v1-1", "state": "new"})
    '2030-01-01 12:00:00Z  group   v1-1  new'
    """
    when = moment(data.get("updated_at"))
    match name:
        case "letter":
            category = data["error_category"] or "-"
            what = f"{data['task_id']}  {data['status']}  {category}  retries {data['retry_count']}"
        case "run":
            counts = data["counts"]
            ran = f"{counts['moved']} of {counts['members']} moved, {counts.get('failed_again', 0)} failed again"
            because = f"  {data['halted_because']}" if data.get("halted_because") else ""
            what = f"{data['run_id']}  {data['verb']}  {data['state']}  {ran}{because}"
        case "group":
            what = f"{data['fingerprint']}  {data['state']}"
        case "many":
            what = f"more has changed than is told: look at {data.get('of')} again"
        case _:
            what = str(data.get("detail") or codec.dumps(data))
    return f"{when}  {name:6}  {what}"

"""`mahavishnu event`: stored domain events, for consumers and for people who look what is there."""

from __future__ import annotations

import json as jsons
from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection
from mahavishnu.cli.command import command
from mahavishnu.cli.options import Limit, Texts
from mahavishnu.cli.output import AsJson, brief, print_json, print_line, print_notice, print_table, when


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
        print_table(
            ("number", "name", "when", "task", "payload"),
            [
                (
                    each["number"],
                    each["name"],
                    when(each["created_at"]),
                    each["task_id"],
                    brief(jsons.dumps(each["payload"], ensure_ascii=False)),
                )
                for each in found["events"]
            ],
            empty="no such events are stored",
            spare=("task",),
        )
    if found["has_more"]:
        print_notice(f"there are more: --after {found['next']} goes on")


@command()
async def ack(
    api: Connection,
    consumer: Annotated[str, typer.Argument(metavar="CONSUMER", help="The name of the consumer.")],
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the last event it has dealt with.")],
    json: AsJson = False,
) -> Any:
    """Acknowledge all events up to a number, for a consumer: it does not get them again."""
    done = await api.post("/domain-events/acknowledge", {"consumer": consumer, "number": number})
    if json:
        return done
    print_line(f"{done['consumer']} has acknowledged the events up to {done['number']}")

"""`mahavishnu dlq doctor` and `dlq namespaces`: what a store has of all apps that share it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection
from mahavishnu.cli.command import command
from mahavishnu.cli.output import AsJson, ExitCode, count_of, print_json, print_notice, print_table


@command()
async def doctor(
    api: Connection,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 1000,
    json: AsJson = False,
) -> ExitCode:
    """List records of the store that cannot be read, of all namespaces; it fails with 1 if there are any."""
    found = await api.get("/integrity", {"limit": limit})
    if json:
        print_json(found)
    else:
        rows = [(each["kind"], each["key"], each["why"]) for each in found]
        print_table(("kind", "key", "why"), rows, empty="every record can be read")
        if found:
            what = count_of(len(found), "record")
            print_notice(f"{what} cannot be read: each stays as it is, until you delete or restore it in the store")
    return ExitCode.FAILED if found else ExitCode.DONE


@command()
async def namespaces(api: Connection, json: AsJson = False) -> Any:
    """List the namespaces that have letters, with how many are open and how many of those wait for people."""
    found = await api.get("/query/namespaces")
    if json:
        return found
    rows = [(each["name"], each["open"], each["for_people"]) for each in found]
    print_table(("namespace", "open", "for people"), rows, empty="no namespace can be seen")

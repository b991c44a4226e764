"""`mahavishnu alert`: alerts that hold, their rules, and tests of the channels."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection
from mahavishnu.cli.command import command
from mahavishnu.cli.output import AsJson, ExitCode, print_json, print_line, print_records, print_table, when


@command()
async def list_alerts(
    api: Connection,
    resolved: Annotated[bool, typer.Option("--resolved", help="Also those that are over.")] = False,
    json: AsJson = False,
) -> Any:
    """List the alerts that hold."""
    found = await api.get("/alerts", {"resolved": True} if resolved else None)
    if json:
        return found
    rows = [
        (each["name"], each["phase"], ", ".join(each["reasons"]), when(each["since"]), _channels(each), each["title"])
        for each in found
    ]
    columns = ("alert", "state", "why", "since", "told to", "title")
    print_table(columns, rows, empty="no alert holds", texts=("title", "told to"))


@command()
async def rules(api: Connection, json: AsJson = False) -> Any:
    """List the rules of alerts, and how many alerts hold because of each."""
    found = await api.get("/alerts/rules")
    if json:
        return found
    print_records(
        found,
        {
            "rule": "rule",
            "alerts": lambda each: "not known" if each["holding"] is None else str(each["holding"]),
            "told to": lambda each: ", ".join(each["channels"]) or "nobody",
            "holds when": "about",
        },
        empty="there is no rule",
    )


@command()
async def test(
    api: Connection,
    channel: Annotated[
        str | None,
        typer.Argument(metavar="[CHANNEL]", help="webhook, slack, pagerduty, email or log; all if left out."),
    ] = None,
    json: AsJson = False,
) -> ExitCode:
    """Send a test to the channels of alerts."""
    answers = await api.post("/alerts/test", {"channel": channel})
    if json:
        print_json(answers)
    else:
        for each in answers:
            print_line(f"{each['channel']}: {each['problem'] or 'took it'}")
        if not answers:
            print_line("no channel is configured: see the settings alerts.*")
    return ExitCode.FAILED if any(each["problem"] for each in answers) else ExitCode.DONE


def _channels(alert: dict[str, Any]) -> str:
    """Return the channels with their problems."""
    return "; ".join(
        each["channel"] if each["problem"] is None else f"{each['channel']}: {each['problem']}"
        for each in alert["channels"]
    )

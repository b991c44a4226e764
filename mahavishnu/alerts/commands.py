"""`mahavishnu alert`: alerts that hold, their rules, and tests of the channels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection
from mahavishnu.cli.command import command
from mahavishnu.cli.output import AsJson, Columns, ExitCode, print_json, print_line, print_records, when


def _channels(alert: Mapping[str, Any]) -> str:
    """Return the channels with their problems."""
    return "; ".join(
        each["channel"] if each["problem"] is None else f"{each['channel']}: {each['problem']}"
        for each in alert["channels"]
    )


_ALERT: Columns = {
    "alert": "name",
    "state": "phase",
    "why": lambda each: ", ".join(each["reasons"]),
    "since": lambda each: when(each["since"]),
    "told to": _channels,
    "title": "title",
}
_RULE: Columns = {
    "rule": "rule",
    "alerts": lambda each: "not known" if each["holding"] is None else str(each["holding"]),
    "told to": lambda each: ", ".join(each["channels"]) or "nobody",
    "holds when": "about",
}


@command(partial(print_records, columns=_ALERT, empty="no alert holds", texts=("title", "told to")))
async def list_alerts(
    api: Connection, resolved: Annotated[bool, typer.Option("--resolved", help="Also those that are over.")] = False
) -> Any:
    """List the alerts that hold."""
    return await api.get("/alerts", {"resolved": True} if resolved else None)


@command(partial(print_records, columns=_RULE, empty="there is no rule"))
async def rules(api: Connection) -> Any:
    """List the rules of alerts, and how many alerts hold because of each."""
    return await api.get("/alerts/rules")


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

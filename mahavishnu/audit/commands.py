"""`mahavishnu audit`: acts of people and rules."""

from __future__ import annotations

import json as codec
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.names import audit_subject, check_action
from mahavishnu.cli.options import Every, Limit, instant_from, namespace_column
from mahavishnu.cli.output import AsJson, Columns, brief, for_people, print_records, when

_MAX_CHANGES = 4  # of one entry, that people are shown


@command()
def list_audit(
    actor: Annotated[str | None, typer.Option("--actor", help="Who did it.")] = None,
    action: Annotated[str | None, typer.Option("--action", help="What, such as redrive, edit, run.start.")] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", help="To what: letter:KEY or KEY, group:FINGERPRINT, run:ID or queue.")
    ] = None,
    outcome: Annotated[str | None, typer.Option("--outcome", help="asked, done or refused.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Within the last 2h, or since a date.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Before that.")] = None,
    limit: Limit = 100,
    everything: Every = False,
    json: AsJson = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print JSON, one entry in a line.")] = False,
) -> Converse:
    """List acts of people and rules, newest first."""
    params = {
        "actor": actor,
        "action": action,
        "subject": audit_subject(subject),
        "outcome": outcome,
        "since": instant_from(since, "--since"),
        "until": instant_from(until, "--until"),
    }

    async def converse(api: Connection) -> None:
        await check_action(api, action)
        await api.print_list("/audit", params, None if everything else limit, _print_acts, json=json, jsonl=jsonl)

    return converse


def _print_acts(found: Sequence[Mapping[str, Any]]) -> None:
    columns: Columns = {
        "when": lambda each: when(each["at"]),
        **{name: name for name in namespace_column(found)},
        "who": "actor",
        **{name: name for name in ("via", "action")},
        "to": "subject",
        "outcome": "outcome",
        "why": lambda each: each["why"] or each["reason"],
        "changes": lambda each: _changes(each["changes"]),
    }
    print_records(found, columns, empty="nothing yet", texts=("why", "changes"), spare=("changes", "via"))


def _changes(changes: Mapping[str, Any]) -> str:
    """Describe the changes of one entry: all of them in a pipe, for people the first ones, cut short."""
    most = _MAX_CHANGES if for_people() else len(changes)
    texts = [
        f"{name}: {_side(change, 'before')}{_side(change, 'after')}" for name, change in list(changes.items())[:most]
    ]
    more = len(changes) - most
    return "; ".join([*texts, *([f"… {more} more"] if more > 0 else [])])


def _side(change: Mapping[str, Any], side: str) -> str:
    if side not in change:
        return "" if side == "before" else "gone"
    text = brief(codec.dumps(change[side], ensure_ascii=False), 40)
    return f"{text} → " if side == "before" else text

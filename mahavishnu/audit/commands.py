"""`mahavishnu audit`: acts of people and rules."""

from __future__ import annotations

import json as codec
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mahavishnu.cli.client import Connection
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.names import audit_subject, check_action
from mahavishnu.cli.options import Every, Limit, instant_from, namespace_column
from mahavishnu.cli.output import AsJson, JsonList, brief, for_people, print_json, print_table, when

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
        written, found, count = JsonList(), list[Any](), 0
        async for page in api.pages("/audit", params, None if everything else limit):
            count += len(page)
            for entry in page:
                if jsonl:
                    print_json(entry, indent=None)
                elif json:
                    written.add(entry)
                else:
                    found.append(entry)
        if json and not jsonl:
            written.end()
        elif not jsonl:
            whose = namespace_column(found)
            rows = [
                (
                    when(each["at"]),
                    *(each[name] for name in whose),
                    each["actor"],
                    each["via"],
                    each["action"],
                    each["subject"],
                    each["outcome"],
                    each["why"] or each["reason"],
                    _changes(each["changes"]),
                )
                for each in found
            ]
            print_table(
                ("when", *whose, "who", "via", "action", "to", "outcome", "why", "changes"),
                rows,
                empty="nothing yet",
                texts=("why", "changes"),
                spare=("changes", "via"),
            )
        api.note_list_end(count, api.more)

    return converse


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

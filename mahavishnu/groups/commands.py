"""`mahavishnu group`: letters with the same cause, and what people say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.bulk.commands import BulkRunOptions, start_run
from mahavishnu.bulk.letter_commands import Create, Patch, Sets
from mahavishnu.cli.client import Connection, path_part, task_path
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.merge_patch import patch_for, patch_of, read_patch
from mahavishnu.cli.names import resolve_group
from mahavishnu.cli.options import Every, Limit, Reason, instant_from, namespace_column
from mahavishnu.cli.output import (
    TEXT,
    AsJson,
    Columns,
    ExitCode,
    NotFound,
    brief,
    count_of,
    moment,
    print_block,
    print_line,
    print_records,
    when,
)
from mahavishnu.letters.commands import Apply, assess_again
from mahavishnu.letters.view import ask_for, error_text, place_of, print_commonalities
from mahavishnu.model.errors import InvalidInput

Fingerprint: TypeAlias = Annotated[
    str, typer.Argument(metavar="FINGERPRINT", help="As group list shows it, or how it begins.")
]
_BARS = "▁▂▃▄▅▆▇█"
_NONE = "none"
_STATE_WIDTH = 16  # of a table, at least: "ready_to_redrive"


def _print_groups(groups: Sequence[Mapping[str, Any]]) -> None:
    adapters = any(each["adapters"] for each in groups)
    columns: Columns = {
        "fingerprint": "fingerprint",
        **{name: name for name in namespace_column(groups)},
        "state": _state,
        "open": "count",
        "last hour": "last_hour",
        "last day": "last_day",
        "last seen": lambda each: when(each["last_seen"]),
        **({"adapter": lambda each: ", ".join(each["adapters"])} if adapters else {}),
        "owner": "owner",
        "cause": lambda each: brief(each["title"]),
    }
    spare = ("last seen", "owner", "last hour", "last day", "adapter")
    print_records(groups, columns, empty="no groups", texts={"state": _STATE_WIDTH, "cause": TEXT}, spare=spare)


def _state(group: Mapping[str, Any]) -> str:
    named = {"growing": group.get("growing"), "regression": group["regression"], "on hold": group["on_hold"]}
    marks = [name for name, holds in named.items() if holds]
    return f"{group['state']} ({', '.join(marks)})" if marks else str(group["state"])


@command(_print_groups)
async def list_groups(
    api: Connection,
    state: Annotated[
        str | None,
        typer.Option("--state", help="new, investigating, waiting_for_fix, ready_to_redrive, resolved or wont_fix."),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Of this owner.")] = None,
    on_hold: Annotated[bool | None, typer.Option("--on-hold/--not-on-hold", help="Only those on hold, or not.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Also those that nobody has to look at now.")] = False,
    sort: Annotated[str, typer.Option("--sort", help="count, last_seen or growth.")] = "count",
    limit: Limit = 50,
    everything: Every = False,
) -> Any:
    """List groups, the largest first."""
    held = None if on_hold is None else str(on_hold).lower()
    named = str(quiet or state is not None).lower()  # groups of a state are meant, quiet or not
    params = {"state": state, "owner": owner, "on_hold": held, "quiet": named, "sort": sort}
    return await api.list("/groups", params, None if everything else limit)


def _print_group(group: Mapping[str, Any], place: str | None = None) -> None:
    sample = group["sample"]
    hold = moment(group["hold_until"]) if group["hold_until"] else group["hold_release"]
    fields = {
        "group": group["fingerprint"],
        "cause": group["title"],
        "state": _state(group),
        "owner": group["owner"],
        "on hold until": hold,
        "open": f"{count_of(group['count'], 'letter')}, {count_of(group['occurrences'], 'failure')}",
        "ever": count_of(group["total"], "letter"),
        "first seen": moment(group["first_seen"]),
        "last seen": moment(group["last_seen"]),
        "came": f"{group['last_hour']} in the last hour{', growing' if group.get('growing') else ''}, "
        f"{group['last_day']} in the last day, {group['day_before']} the day before",
        "by hour": bars(group["hours"]),
        **{name: _counts(group[name]) for name in ("statuses", "categories", "queues", "adapters")},
        "sample": f"{sample['task_id']}: {brief(error_text(sample['type'], sample['error']), 300)}" if sample else None,
        "place": place,
        "resolved": f"{moment(group['resolved_at'])} by {group['resolved_by']}" if group["resolved_at"] else None,
        "came back": moment(group["regressed_at"]) if group["regressed_at"] else None,
        "links": " ".join(group["links"]),
    }
    print_block({name: value for name, value in fields.items() if value not in (None, "")})
    if group["notes"]:
        print_line("")
        columns: Columns = {"noted": lambda each: moment(each["at"]), "by": "by", "note": "text"}
        print_records(group["notes"], columns, empty="")


@command()
async def show(api: Connection, fingerprint: Fingerprint, json: AsJson = False) -> Any:
    """Show a group: its cause, a sample, how it grows, and what was said."""
    found = await resolve_group(api, fingerprint)
    if json:
        return found
    _print_group(found, place_of(await _sample_traceback(api, found["sample"])))
    print_commonalities(await ask_for(api, f"/groups/{path_part(found['fingerprint'])}/commonalities"))
    _print_advice(api, found)


@command(_print_group)
def update(
    fingerprint: Fingerprint,
    state: Annotated[str | None, typer.Option("--state", help="What becomes of it.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Who looks after it; none: nobody.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="Add a note.")] = None,
    link: Annotated[str | None, typer.Option("--link", metavar="URL", help="Add a link.")] = None,
    hold_until: Annotated[
        str | None,
        typer.Option("--hold-until", metavar="WHEN", help="On hold for 2h, 3d, or until a date; none: no more."),
    ] = None,
    hold_release: Annotated[
        str | None, typer.Option("--hold-release", metavar="NAME", help="On hold until this release; none: no more.")
    ] = None,
) -> Converse:
    """Record something about a group: state, owner, a note, a link, a hold."""
    given = {"state": state, "owner": owner, "note": note, "link": link, "hold_release": hold_release}
    given["hold_until"] = hold_until if hold_until == _NONE else instant_from(hold_until, "--hold-until", ahead=True)
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise InvalidInput("say something: --state, --owner, --note, --link, --hold-until or --hold-release")
    for name in ("owner", "hold_until", "hold_release"):
        if changes.get(name) == _NONE:
            changes[name] = None

    async def converse(api: Connection) -> Any:
        body = {**changes, **api.with_actor()}
        name = (await resolve_group(api, fingerprint))["fingerprint"]
        return (await api.ask("PATCH", f"/groups/{path_part(name)}", body=body)).json()

    return converse


@command()
def redrive(
    fingerprint: Fingerprint,
    options: BulkRunOptions,
    patch: Patch = None,
    sets: Sets = None,
    create: Create = False,
    reason: Reason = None,
    json: AsJson = False,
) -> Converse:
    """Redrive the letters of a group: the same as `dlq redrive --group FINGERPRINT`."""
    patch = read_patch(patch)
    how = {"patch": patch_of(patch, sets), "patch_for": patch_for(patch, sets), "create": create}
    if options.everything:
        raise InvalidInput("--all is for a redrive without a filter; here the group is meant")

    async def converse(api: Connection) -> ExitCode:
        filters = {"fingerprint": [(await resolve_group(api, fingerprint))["fingerprint"]]}
        return await start_run(api, "redrive", filters, options, reason=reason, json=json, **how)

    return converse


@command()
async def release(
    api: Connection,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The release that is out.")],
    json: AsJson = False,
) -> Any:
    """End the hold of the groups that wait for this release."""
    released = await api.post(f"/groups/releases/{path_part(name)}", api.with_actor())
    if json:
        return released
    number = len(released["released"])
    print_line(f"{count_of(number, 'group')} waited for {name}")


def regroup(
    context: typer.Context,
    fingerprints: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FINGERPRINT]...", help="Only letters of these groups.", show_default=False),
    ] = None,
    apply: Apply = False,
    json: AsJson = False,
) -> None:
    """Group open letters anew, after plugins or rules have changed; what was said of a group goes with its letters."""
    from mahavishnu.groups.service import Groups

    assess_again(
        context,
        "regroup",
        lambda dlq, by: dlq.service(Groups).regroup(dry_run=not apply, by=by, fingerprint=fingerprints or None),
        done="grouped otherwise",
        json=json,
    )


async def _sample_traceback(api: Connection, sample: Mapping[str, Any] | None) -> str | None:
    """Return the traceback of a group's sample; None if it was deleted meanwhile."""
    if sample is None:
        return None
    where = {"namespace": sample["namespace"], "queue": sample["queue"]}
    with suppress(NotFound):
        letter = await api.get(task_path(sample["task_id"], "letter"), where)
        return str(letter["failures"][-1]["traceback"] or "") if letter["failures"] else None
    return None


def _print_advice(api: Connection, group: Mapping[str, Any]) -> None:
    """Print the commands to look at its sample, and to redrive it."""
    sample, command = group["sample"], api.session.command
    if not sample:
        return
    far = [
        word
        for name in ("namespace", "queue")
        if sample[name] != "default"
        for word in (f"--{name}", str(sample[name]))
    ]
    fields = {"look": command("dlq", "show", str(sample["task_id"]), *far)}
    if group["count"]:
        redrive = ["redrive", str(group["fingerprint"]), "--ramp", "1,5", "--stop-percent", "20"]
        if api.session.namespace == "*":
            redrive += ["--namespace", str(group["namespace"])]
        fields["redrive"] = command("group", *redrive)
    print_line("")
    print_block(fields)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def bars(numbers: Sequence[int]) -> str:
    """Return numbers as a row of bars, the highest one with its number.

    >>> bars([0, 1, 4]), bars([])
    ('▁▂█ (most: 4)', '')
    """
    most = max(numbers, default=0)
    if not most:
        return ""
    return "".join(_BARS[min(7, number * 7 // most)] for number in numbers) + f" (most: {most})"

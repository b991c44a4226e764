"""`mahavishnu run`: bulk runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from mahavishnu.cli.commands import bulk
from mahavishnu.cli.letter_view import error_of
from mahavishnu.cli.naming import resolve_run
from mahavishnu.cli.output import AsJson, brief, print_block, print_json, print_line, print_table
from mahavishnu.cli.session import choose_store, session_of

if TYPE_CHECKING:
    from mahavishnu.cli.client import Connection

app = typer.Typer(help="Look after bulk runs.", no_args_is_help=True, rich_markup_mode=None, callback=choose_store)
Id: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or how it begins.")]
Reason: TypeAlias = Annotated[str | None, typer.Option("--reason", help="Why; it is kept in the audit.")]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
_SAMPLE = 3
_AT_ONCE = 50  # letters that are asked for at once
Every: TypeAlias = Annotated[bool, typer.Option("--all", help="All of them, however many there are.")]


@app.command("list")
def list_runs(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option("--state", help="planning, running, paused, halted, cancelled or done.")
    ] = None,
    limit: Limit = 50,
    everything: Every = False,
    json: AsJson = False,
) -> None:
    """List bulk runs, newest first."""
    from mahavishnu.cli.client import run_conversation

    async def ask(api: Connection) -> None:
        runs = await api.list("/runs", {"state": state}, None if everything else limit)
        print_json(runs) if json else bulk.show_runs(runs)
        api.note_list_end(len(runs), limit)

    run_conversation(session_of(context), ask)


@app.command()
def show(context: typer.Context, run: Id, json: AsJson = False) -> None:
    """Show how a run stands."""
    from mahavishnu.cli.client import run_conversation

    async def ask(api: Connection) -> None:
        found = await resolve_run(api, run)
        if json:
            print_json(found)
        else:
            bulk.show_run(found)
            if found["state"] == "halted":
                await _halted(api, found)

    run_conversation(session_of(context), ask)


@app.command()
def items(
    context: typer.Context,
    run: Id,
    state: Annotated[str | None, typer.Option("--state", help="waiting, moved, refused or gone.")] = None,
    outcome: Annotated[str | None, typer.Option("--outcome", help="succeeded, failed_again or closed.")] = None,
    limit: Limit = 200,
    everything: Every = False,
    json: AsJson = False,
) -> None:
    """List the letters of a run, and what became of each."""
    from mahavishnu.cli.client import path_part, run_conversation

    async def ask(api: Connection) -> None:
        asked = {"state": state, "outcome": outcome}
        run_id = (await resolve_run(api, run))["run_id"]
        found = await api.list(f"/runs/{path_part(run_id)}/items", asked, None if everything else limit)
        more = api.more
        if json:
            print_json(found)
        else:
            await _items(api, found)
        api.more = more
        api.note_list_end(len(found), limit)

    run_conversation(session_of(context), ask)


@app.command()
def pause(context: typer.Context, run: Id, reason: Reason = None, json: AsJson = False) -> None:
    """Hold a run up: nothing more is moved until it is resumed."""
    _told(context, run, "pause", json, reason=reason)


@app.command()
def resume(
    context: typer.Context,
    run: Id,
    stop_percent: Annotated[
        float | None, typer.Option("--stop-percent", metavar="N", help="Halt when more than so many percent fail.")
    ] = None,
    reason: Reason = None,
    json: AsJson = False,
) -> None:
    """Go on with a run that was paused or has halted."""
    _told(context, run, "resume", json, reason=reason, stop_percent=stop_percent)


@app.command()
def cancel(context: typer.Context, run: Id, reason: Reason = None, json: AsJson = False) -> None:
    """End a run: what it has moved stays moved, the other letters are left alone."""
    _told(context, run, "cancel", json, reason=reason)


@app.command()
def watch(context: typer.Context, run: Id, json: AsJson = False) -> None:
    """Wait for the end of a run. The exit code is 1 unless everything was done."""
    from mahavishnu.cli.client import run_conversation

    async def ask(api: Connection) -> int:
        return await bulk.wait_for_run(api, await resolve_run(api, run), json=json)

    if code := run_conversation(session_of(context), ask):
        raise typer.Exit(code)


async def _items(api: Connection, items: list[Any]) -> None:
    """One row for each; for those that failed again, their present error."""
    errors = await _errors(api, [each for each in items if each["outcome"] == "failed_again"])
    rows = [
        (each["key"], each["state"], each["outcome"], each["why"] or brief(errors.get(each["entry_id"])))
        for each in items
    ]
    print_table(("letter", "state", "outcome", "why"), rows, empty="no letters")


async def _errors(api: Connection, items: list[Any]) -> dict[str, str]:
    """The last errors of members, by their entry ids; those that are gone, or closed for good, have none."""
    found: dict[str, str] = {}
    for first in range(0, len(items), _AT_ONCE):
        tasks = [_task(each["key"]) for each in items[first : first + _AT_ONCE]]
        for letter in await api.list("/dlq", {"task_id": tasks, "whole": "true"}, None):
            found[letter["entry_id"]] = error_of(letter)
    return found


def _task(key: str) -> str:
    """The task's id in a letter's key.

    >>> _task("wf_1"), _task("a/b"), _task("eu/mail/a/b")
    ('wf_1', 'a/b', 'a/b')
    """
    return key.split("/", 2)[2] if key.count("/") > 1 else key


async def _halted(api: Connection, run: Mapping[str, Any]) -> None:
    """What failed again, and what a person can do."""
    from mahavishnu.cli.client import path_part

    run_id = str(run["run_id"])
    sample = await api.list(f"/runs/{path_part(run_id)}/items", {"outcome": "failed_again"}, _SAMPLE)
    if sample:
        print_line("")
        await _items(api, sample)
    print_line("")
    command = api.session.command
    percent = bulk.resume_percent(run)
    stop = () if percent is None else ("--stop-percent", str(percent))
    print_block(
        {
            "look": command("run", "items", run_id, "--outcome", "failed_again"),
            "go on": command("run", "resume", run_id, *stop),
            "end it": command("run", "cancel", run_id),
        }
    )


def _told(context: typer.Context, run: str, act: str, json: bool, **said: Any) -> None:
    from mahavishnu.cli.client import path_part, run_conversation

    async def ask(api: Connection) -> None:
        found = await resolve_run(api, run)
        after = await api.post(f"/runs/{path_part(found['run_id'])}/{act}", api.with_actor(**said))
        print_json(after) if json else bulk.show_run(after)

    run_conversation(session_of(context), ask)

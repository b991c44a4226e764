"""`mahavishnu run`: bulk runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from mahavishnu.console import bulk
from mahavishnu.console.output import AsJson, as_json, table
from mahavishnu.console.session import reaching, session

if TYPE_CHECKING:
    from mahavishnu.console.client import Connection

app = typer.Typer(help="Look after bulk runs.", no_args_is_help=True, rich_markup_mode=None, callback=reaching)
Id: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
Reason: TypeAlias = Annotated[str | None, typer.Option("--reason", help="Why; it is kept in the audit.")]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
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
    from mahavishnu.console.client import talk

    async def ask(api: Connection) -> None:
        runs = await api.list("/runs", {"state": state}, None if everything else limit)
        as_json(runs) if json else bulk.show_runs(runs)
        api.told(len(runs), limit)

    talk(session(context), ask)


@app.command()
def show(context: typer.Context, run: Id, json: AsJson = False) -> None:
    """Show how a run stands."""
    from mahavishnu.console.client import part, talk

    async def ask(api: Connection) -> None:
        found = await api.get(f"/runs/{part(run)}")
        as_json(found) if json else bulk.show_run(found)

    talk(session(context), ask)


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
    from mahavishnu.console.client import part, talk

    async def ask(api: Connection) -> None:
        asked = {"state": state, "outcome": outcome}
        found = await api.list(f"/runs/{part(run)}/items", asked, None if everything else limit)
        if json:
            as_json(found)
        else:
            rows = [(each["key"], each["state"], each["outcome"], each["why"]) for each in found]
            table(("letter", "state", "outcome", "why"), rows, empty="no letters")
        api.told(len(found), limit)

    talk(session(context), ask)


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
    from mahavishnu.console.client import part, talk

    async def ask(api: Connection) -> int:
        return await bulk.wait(api, await api.get(f"/runs/{part(run)}"), json=json)

    if code := talk(session(context), ask):
        raise typer.Exit(code)


def _told(context: typer.Context, run: str, act: str, json: bool, **said: Any) -> None:
    from mahavishnu.console.client import part, talk

    async def ask(api: Connection) -> None:
        after = await api.post(f"/runs/{part(run)}/{act}", api.signed(**said))
        as_json(after) if json else bulk.show_run(after)

    talk(session(context), ask)

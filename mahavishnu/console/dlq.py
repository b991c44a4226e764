"""`mahavishnu dlq`: the letters."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from mahavishnu.console.exits import ExitCode
from mahavishnu.console.output import AsJson, as_json, line
from mahavishnu.console.session import session

app = typer.Typer(help="Look after letters.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _letters() -> None:
    """Look after letters."""


@app.command()
def reclassify(
    context: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Change the letters; without it nothing is changed.")] = False,
    category: Annotated[str | None, typer.Option(help="Only letters of this category.")] = None,
    json: AsJson = False,
) -> None:
    """Ask the classifier again about open letters, after plugins or rules have changed."""
    from mahavishnu.core.wiring import queue_from
    from mahavishnu.engine.moves import BulkResult

    async def ask() -> BulkResult:
        async with queue_from(session(context).settings) as dlq:
            return await dlq.reclassify(dry_run=not apply, by="cli_user", category=category)

    result = asyncio.run(ask())
    if json:
        as_json(
            {
                "dry_run": result.dry_run,
                "changed": result.done,
                "refused": result.refused,
                "degraded": result.degraded,
            }
        )
    else:
        for key in result.done:
            line(key)
        for key, why in result.refused.items():
            line(f"{key}: {why}")
        done = "would be classified otherwise; --apply does it" if result.dry_run else "classified otherwise"
        line(f"{len(result.done)} {'letter' if len(result.done) == 1 else 'letters'} {done}")
    if result.refused:
        raise typer.Exit(ExitCode.FAILED)

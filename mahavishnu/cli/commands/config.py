"""`mahavishnu config`: what is set, where it comes from, and whether a program can start with it."""

from __future__ import annotations

from typing import Annotated

import typer

from mahavishnu.cli.exits import ExitCode, NotFound
from mahavishnu.cli.output import AsJson, print_json, print_line, print_table
from mahavishnu.cli.session import session_of

app = typer.Typer(help="Show and check the settings.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def show(
    context: typer.Context,
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these settings.")] = None,
    json: AsJson = False,
) -> None:
    """Show every setting and where its value comes from. Secrets are masked."""
    settings = session_of(context).settings
    found = settings.describe()
    known = [setting.key for setting in found]
    for key in keys or ():
        if key not in known:
            raise NotFound.among("setting", key, known)
    chosen = [setting for setting in found if not keys or setting.key in keys]
    if json:
        print_json(
            {
                "file": settings.read_from.label if settings.read_from else None,
                "settings": [
                    {
                        "key": setting.key,
                        "value": setting.value,
                        "origin": setting.origin,
                        "variable": setting.variable,
                        "allowed": setting.allowed,
                        "description": setting.description,
                    }
                    for setting in chosen
                ],
            }
        )
        return
    print_table(
        ("key", "value", "from"),
        ((each.key, each.value, each.origin) for each in chosen),
        empty="no settings",
        texts=("value", "from"),
    )


@app.command()
def check(context: typer.Context, json: AsJson = False) -> None:
    """Check the settings: what keeps a program from starting, and what may surprise later. Opens nothing."""
    from mahavishnu.core.config import check as check_settings

    report = check_settings(session_of(context).settings_file)
    file = report.settings.read_from if report.settings else None
    if json:
        print_json(
            {
                "ok": report.ok,
                "file": file.label if file else None,
                "problems": list(report.problems),
                "warnings": list(report.warnings),
            }
        )
    else:
        for problem in report.problems:
            print_line(f"problem  {problem}")
        for warning in report.warnings:
            print_line(f"warning  {warning}")
        if report.ok:
            print_line(f"the settings can be used ({file.label if file else 'no file, only defaults and variables'})")
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)

"""Values that a command takes by itself are those that typer makes of them, and so are refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperCommand

from mahavishnu.cli.command import PlainCommand

Number = Annotated[int, typer.Option(min=1, max=9)]


def noisy(value: str | None) -> str | None:
    return f"<{value}>"


def command(kind: type[TyperCommand], seen: list[Any]) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    def take(
        name: str,
        others: Annotated[list[str] | None, typer.Argument()] = None,
        number: Number = 3,
        any_number: int | None = None,
        share: float = 0.5,
        flag: bool = False,
        either: Annotated[bool | None, typer.Option("--on/--off")] = None,
        text: str | None = None,
        texts: Annotated[list[str] | None, typer.Option("--with")] = None,
        path: Path | None = None,
        marked: Annotated[str | None, typer.Option(callback=noisy)] = None,
    ) -> None:
        seen.append({name: (type(value), value) for name, value in locals().items() if name != "seen"})

    app.command(cls=kind)(take)
    return typer.main.get_command(app)


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "x y z --number 4 --any-number 0 --flag --on --text t --with a --with b --path p --marked m",
        "größe ä --text ü --with ö --off --share 0.25",
        "x --number 0",
        "x --number 10",
        "x --number 1.0",
        "x --number ٣",
        "x --number -3",
        "x --any-number -3",
        "x --any-number 1_000",
        "x --any-number many",
        "x --share much",
        "x --nonsense",
        "x --text",
        "",
    ],
)
def test_values_and_refusals_are_those_of_typer(line: str) -> None:
    results = []
    for kind in (TyperCommand, PlainCommand):
        seen: list[Any] = []
        try:
            command(kind, seen).main(line.split(), "take", standalone_mode=False)
        except typer.TyperException as refused:
            seen.append(refused.format_message())
        results.append(seen)
    assert results[0] == results[1] != []

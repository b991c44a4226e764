"""`mahavishnu demo`: a few workflows that fail, and what becomes of them, while one looks on."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import typer


def demo(
    speed: Annotated[float, typer.Option(min=1, max=3600, help="How many times faster than real the clock runs.")] = 60,
    seconds: Annotated[float | None, typer.Option(min=0, help="End after so many real seconds.")] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Keep letters here instead of in a new SQLite file.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Serve the API on this port, or on a free one.")] = 8080,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Whether to serve the API.")] = True,
) -> None:
    """Run workflows that fail in telling ways, retry them, and watch. Ctrl-C ends it."""
    from mahavishnu.cli.commands.demo_show import show  # with all of the app: not for those who only want help

    with tempfile.TemporaryDirectory(prefix="mahavishnu-demo-") as folder:
        url = store or f"sqlite:///{Path(folder).as_posix()}/letters.db"
        asyncio.run(show(url, speed, seconds, port if serve else None))

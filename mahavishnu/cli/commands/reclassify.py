"""Asking the plugins of this machine again about the letters of a store: which category is it, which group?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mahavishnu.cli.exits import ExitCode
from mahavishnu.cli.output import print_json, print_line
from mahavishnu.cli.session import session_of
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.core.dead_letter_queue import DeadLetterQueue
    from mahavishnu.engine.moves import BulkResult

Apply: TypeAlias = Annotated[bool, typer.Option("--apply", help="Change the letters; without it nothing is changed.")]


def assess_again(
    context: typer.Context,
    verb: str,
    asked: Callable[[DeadLetterQueue, str], Awaitable[BulkResult]],
    *,
    done: str,
    json: bool,
) -> None:
    """Have `asked(queue, who asks)` done on the store of the settings, and say which letters are `done` differently."""
    from mahavishnu.cli.client import require_store
    from mahavishnu.core.wiring import queue_from

    to = session_of(context)
    if to.server:
        raise InvalidInput(f"{verb} asks the plugins of this machine about the letters of a store: without --server")

    require_store(to)

    async def ask() -> BulkResult:
        async with queue_from(to.settings) as dlq:
            return await asked(dlq, to.user)

    result = asyncio.run(ask())
    if json:
        print_json(
            {
                "dry_run": result.dry_run,
                "changed": result.done,
                "refused": result.refused,
                "degraded": result.degraded,
            }
        )
    else:
        for key in result.done:
            print_line(key)
        for key, why in result.refused.items():
            print_line(f"{key}: {why}")
        told = f"would be {done}; --apply does it" if result.dry_run else done
        print_line(f"{len(result.done)} {'letter' if len(result.done) == 1 else 'letters'} {told}")
    if result.refused:
        raise typer.Exit(ExitCode.FAILED)

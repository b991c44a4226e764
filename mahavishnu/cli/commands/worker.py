"""`mahavishnu worker`: retries the failed workflows of an app until it is told to stop."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahavishnu.cli.commands.serve import stop_signals
from mahavishnu.cli.exits import Failed
from mahavishnu.cli.output import print_error, print_line
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.core.app import MahavishnuApp


def worker(
    app: Annotated[
        str, typer.Option("--app", metavar="MODULE:NAME", help="The MahavishnuApp, or a function that makes it.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Run what is due now, then stop.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log everything that happens to letters.")] = False,
) -> None:
    """Retry failed workflows. SIGTERM and Ctrl-C stop it gracefully, SIGHUP reads the settings again."""
    hung_up = _hang_ups()
    found = import_app(app)
    if found.dlq is None:
        raise Failed("there is nothing to do: dlq_enabled is false")
    _log_to_stderr(verbose)
    asyncio.run(_once(found) if once else _work(found, hung_up))


def import_app(name: str) -> MahavishnuApp:
    """The app that `module:attribute` means. Raises InvalidInput if there is none."""
    from mahavishnu.core.app import MahavishnuApp

    module, colon, path = name.partition(":")
    if not module or not colon or not path:
        raise InvalidInput(f"{name!r} names no app; write package.module:app")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise InvalidInput(f"there is no module {missing.name!r}, which {name!r} asks for") from None
    except (Exception, SystemExit) as problem:  # one that exits while it is imported must not look like a job done
        raise InvalidInput(f"{module} cannot be imported: {type(problem).__name__}: {problem}") from problem
    for attribute in path.split("."):
        found = getattr(found, attribute, None)
    if callable(found) and not isinstance(found, MahavishnuApp):
        try:
            found = found()
        except (Exception, SystemExit) as problem:
            raise InvalidInput(f"{name} makes no app: {type(problem).__name__}: {problem}") from problem
    if not isinstance(found, MahavishnuApp):
        raise InvalidInput(f"{name!r} is {type(found).__name__}, not a MahavishnuApp nor a function that makes one")
    return found


def _hang_ups() -> list[int]:
    """SIGHUPs that come before there is an app to read its settings again: they must not end the process."""
    came: list[int] = []
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda number, frame: came.append(number))
    return came


async def _work(app: MahavishnuApp, hung_up: list[int]) -> None:
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: _reload(app))
    if hung_up:
        _reload(app)
    with stop_signals() as stop:
        async with app:
            assert app.dlq is not None
            await app.start_dlq_processor()
            if not app.config.dlq_retry_processor_enabled:
                raise Failed("there is nothing to do: dlq_retry_processor_enabled is false")
            interval = app.dlq.context.limits.interval_seconds
            print_line(f"worker {app.dlq.context.owner} retries letters of {app.dlq.store!r}, every {interval:g} s")
            sys.stdout.flush()
            await stop.wait()
            print_line(f"stopping: runs may take {app.dlq.context.limits.grace_seconds:g} s to finish")
    print_line("stopped")


async def _once(app: MahavishnuApp) -> None:
    with stop_signals() as stop:
        async with app:
            assert app.dlq is not None
            running, told = asyncio.create_task(app.dlq.run_due()), asyncio.create_task(stop.wait())
            await asyncio.wait({running, told}, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if not running.done():
                print_line(f"stopping: runs may take {app.dlq.context.limits.grace_seconds:g} s to finish")
                await app.dlq.stop_retry_processor()
            ran = await running
    print_line(f"{ran} {'letter' if ran == 1 else 'letters'} run")


def _reload(app: MahavishnuApp) -> None:
    reloaded = app.reload()
    if reloaded.error is not None:
        print_error(f"the settings stay as they were: {reloaded.error}")
    else:
        print_line(f"settings read again: {', '.join(reloaded.changed) or 'nothing has changed'}")
        sys.stdout.flush()


def _log_to_stderr(verbose: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("mahavishnu")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)

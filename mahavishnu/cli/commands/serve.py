"""`mahavishnu serve`: the HTTP API, and the workers of an app in the same process if one is named."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahavishnu.cli.output import print_line
from mahavishnu.cli.session import session_of
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from mahavishnu.api import Access
    from mahavishnu.core.config import MahavishnuSettings
    from mahavishnu.core.dead_letter_queue import DeadLetterQueue


def serve(
    context: typer.Context,
    app: Annotated[
        str | None,
        typer.Option("--app", metavar="MODULE:NAME", help="Also retry the failed workflows of this MahavishnuApp."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on, instead of server.host.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port, instead of server.port.")] = None,
) -> None:
    """Serve the HTTP API. SIGTERM and Ctrl-C stop it gracefully."""
    from mahavishnu.cli.commands.worker import import_app
    from mahavishnu.core.wiring import queue_from

    found = import_app(app) if app else None
    settings = found.config if found else session_of(context).settings
    listening = open_listener(settings, host, port)
    with contextlib.closing(listening):
        if found is not None:
            if found.dlq is None:
                raise InvalidInput("there is nothing to serve: dlq_enabled is false")
            asyncio.run(_with_app(found, listening, settings))
        else:
            asyncio.run(_alone(queue_from(settings), listening, settings))


def open_listener(settings: MahavishnuSettings, host: str | None, port: int | None) -> socket.socket:
    """A socket that listens where it may. Raises InvalidInput where it may not, or cannot."""
    host = host or settings.server.host
    access_of(settings).check_address(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # TCP by name: only then asyncio lets small answers go at once, and not 40 ms later, with the client's next packet.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), settings.server.port if port is None else port))
        listening.listen(128)  # who comes before the server is ready waits
    except OSError as problem:
        listening.close()
        raise InvalidInput(
            f"cannot listen on {host}:{settings.server.port if port is None else port}: {problem.strerror}; "
            "choose another --port (0: any free one)"
        ) from None
    return listening


def access_of(settings: MahavishnuSettings) -> Access:
    """Who may do what, as the settings say. Raises InvalidInput."""
    from mahavishnu.api import Access

    def plain(tokens: Any) -> dict[str, str]:
        return {name: secret.get_secret_value() for name, secret in tokens.items()}

    people = settings.server
    return Access.of(plain(people.viewers), plain(people.operators), plain(people.admins))


@contextlib.asynccontextmanager
async def run_server(
    dlq: DeadLetterQueue, listening: socket.socket, settings: MahavishnuSettings
) -> AsyncIterator[asyncio.Task[None]]:
    """Answer requests while the block runs. The task ends when the server does."""
    api = api_of(dlq, settings)
    server = _server(api)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="mahavishnu server")
    try:
        yield task
    finally:
        server.should_exit = True
        await api.state.live.close()  # who listens to events would be waited for
        await task


def url_of(listening: socket.socket) -> str:
    """Where it can be reached."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def api_of(dlq: DeadLetterQueue, settings: MahavishnuSettings) -> FastAPI:
    """The API of this queue as the settings say. Raises InvalidInput for tokens that are wrong."""
    from mahavishnu.api import create_app

    return create_app(dlq, access=access_of(settings), max_body_bytes=settings.server.max_body_bytes)


def _server(api: FastAPI) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Any:  # they are ours: workers stop with the server
            yield

    config = uvicorn.Config(
        api,
        http="h11",  # not what else may be installed: it refuses a head without an end, and httptools would keep it all
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        lifespan="on",
    )
    return Server(config)


def _collect_seldom() -> None:
    """Have Python look for garbage less often, and never again among what was there before the first request.

    While 50 clients read lists, the looking took a quarter of the time, in pauses of up to 90 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and Ctrl-C set."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _until_told(dlq: DeadLetterQueue, listening: socket.socket, settings: MahavishnuSettings) -> None:
    with stop_signals() as stop:
        async with run_server(dlq, listening, settings) as served:
            _collect_seldom()
            print_line(f"serving {dlq.store!r} at {url_of(listening)}/api/v1")
            sys.stdout.flush()
            asked = asyncio.create_task(stop.wait())
            await asyncio.wait({asked, served}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
    print_line("stopped")


async def _alone(dlq: DeadLetterQueue, listening: socket.socket, settings: MahavishnuSettings) -> None:
    try:
        await dlq.processing.start_periodic_tasks()
        await _until_told(dlq, listening, settings)
    finally:
        await dlq.shutdown()


async def _with_app(app: Any, listening: socket.socket, settings: MahavishnuSettings) -> None:
    async with app:
        await app.start_dlq_processor()
        await _until_told(app.dlq, listening, settings)

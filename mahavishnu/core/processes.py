"""`mahavishnu serve` and `mahavishnu worker`: processes that run until they get a signal to stop."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from uvicorn.protocols.http.h11_impl import H11Protocol

from mahavishnu.capture.adapters import close_threads
from mahavishnu.cli.options import Server, StoreUrl, choose_store, session_of
from mahavishnu.cli.output import Failed, count_of, print_error, print_line, print_notice
from mahavishnu.core.backend import import_app
from mahavishnu.model.errors import InvalidInput
from mahavishnu.monitoring.exposition import LogFormat, configure_logging
from mahavishnu.monitoring.probes import ProbeServer, probes_of
from mahavishnu.settings.wiring import access_of, provider_of

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from mahavishnu.console.frame import FirstFix
    from mahavishnu.core.app import MahavishnuApp
    from mahavishnu.core.config import MahavishnuSettings
    from mahavishnu.core.dead_letter_queue import DeadLetterQueue

_MOMENT = 0.5  # seconds for threads that have nothing left to do

Queues = Annotated[
    list[str] | None, typer.Option("--queue", metavar="NAME", help="Run letters of this queue only; may be repeated.")
]

Format = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="How the log is written to stderr, instead of telemetry.log_format."),
]

# -------------------------------------------------------------------------------------------------------------- serve


def serve(
    context: typer.Context,
    app: Annotated[
        str | None,
        typer.Option("--app", metavar="MODULE:NAME", help="Also retry the failed workflows of this MahavishnuApp."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on, instead of server.host.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port, instead of server.port.")] = None,
    queue: Queues = None,
    log_format: Format = None,
) -> None:
    """Serve the HTTP API. SIGTERM and Ctrl-C stop it gracefully; with an app SIGHUP reads the settings again."""
    from mahavishnu.core.wiring import queue_from
    from mahavishnu.settings.wiring import chain_from, describe_file, other_local_files

    if queue and not app:
        raise InvalidInput("--queue says which letters are run: name the --app that runs them")
    hang_ups = _note_hang_ups() if app else []
    found = import_app(app, session_of(context).settings_file) if app else None
    settings = found.config if found else session_of(context).settings
    form = log_format_of(settings, log_format)
    if form == "json" or settings.alerts.log:  # as text it only prints where it listens, unless somebody reads the log
        configure_logging(form)
    listening = open_listener(settings, host, port)
    for path, count in other_local_files(settings).items():
        print_notice(describe_file(path, count))
    with contextlib.closing(listening):
        if found is not None:
            if found.queue_if_enabled is None:
                raise InvalidInput("there is nothing to serve: dlq_enabled is false")
            found.dlq.processing.take_only(queue or ())
            asyncio.run(_serve_app(found, listening, settings, hang_ups))
            _leave_hanging_runs()
        else:
            dlq = queue_from(settings, chain=chain_from(settings))
            asyncio.run(_serve_queue(dlq, listening, settings))


def log_format_of(settings: MahavishnuSettings, option: LogFormat | None) -> LogFormat:
    """How the log is written: as the option says, else as the settings do."""
    return option or settings.telemetry.log_format


def open_listener(settings: MahavishnuSettings, host: str | None, port: int | None) -> socket.socket:
    """Return a socket that listens on the configured address. Raises InvalidInput if impossible or unsafe."""
    host = host or settings.server.host
    access_of(settings).check_address(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # TCP by name: only then asyncio lets small answers go at once, and not 40 ms later, with the client's next packet.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), settings.server.port if port is None else port))
        listening.listen(128)  # connections that come before the server is ready wait
    except OSError as problem:
        listening.close()
        raise InvalidInput(
            f"cannot listen on {host}:{settings.server.port if port is None else port}: {problem.strerror}; "
            "choose another --port (0: any free one)"
        ) from None
    return listening


@contextlib.asynccontextmanager
async def run_server(
    dlq: DeadLetterQueue, listening: socket.socket, settings: MahavishnuSettings, *, first_fix: FirstFix | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """Answer requests while the block runs. The task ends when the server does."""
    api = api_of(dlq, settings, first_fix=first_fix)
    server = _server(api)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="mahavishnu server")
    try:
        yield task
    finally:
        server.should_exit = True
        await api.state.live.close()  # the server would wait for the end of these streams
        await task


def url_of(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def api_of(dlq: DeadLetterQueue, settings: MahavishnuSettings, *, first_fix: FirstFix | None = None) -> FastAPI:
    """The API of this queue as the settings say. Raises InvalidInput for tokens that are wrong."""
    from mahavishnu.core.api import create_app

    return create_app(
        dlq,
        access=access_of(settings),
        max_body_bytes=settings.server.max_body_bytes,
        session_keys=[key.get_secret_value() for key in settings.server.session_keys],
        first_fix=first_fix,
        provider=provider_of(settings),
        describe_settings=settings.describe,
    )


def _server(api: FastAPI) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Any:  # they are handled here: workers stop with the server
            yield

    config = uvicorn.Config(
        api,
        http=BoundedProtocol,  # not what else may be installed: httptools would keep a head without an end
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who is believed says server.proxy
        timeout_graceful_shutdown=5,
        lifespan="on",
    )
    return Server(config)


def collect_rarely() -> None:
    """Collect garbage rarely, without objects from before the first request: it took a quarter of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


async def _serve_until_stopped(dlq: DeadLetterQueue, listening: socket.socket, settings: MahavishnuSettings) -> None:
    with stop_signals() as stop:
        async with run_server(dlq, listening, settings) as served:
            collect_rarely()
            print_line(f"serving {dlq.store!r} at {url_of(listening)}/api/v1")
            sys.stdout.flush()
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({stopped, served}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
    print_line("stopped")


async def _serve_queue(dlq: DeadLetterQueue, listening: socket.socket, settings: MahavishnuSettings) -> None:
    try:
        await dlq.processing.start_periodic_tasks()
        await _serve_until_stopped(dlq, listening, settings)
    finally:
        await dlq.shutdown()


async def _serve_app(app: Any, listening: socket.socket, settings: MahavishnuSettings, hang_ups: list[int]) -> None:
    _reload_on_hang_up(app, hang_ups)
    async with app:
        await app.start_dlq_processor()
        await _serve_until_stopped(app.dlq, listening, settings)


# ------------------------------------------------------------------------------------------------------------- worker


def worker(
    context: typer.Context,
    app: Annotated[
        str | None, typer.Option("--app", metavar="MODULE:NAME", help="The MahavishnuApp, or a function that makes it.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Run what is due now, also of bulk runs, then stop.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log everything that happens to letters.")] = False,
    queue: Queues = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            "--health-port",
            min=0,
            max=65535,
            help="Answer /metrics, /healthz and /readyz on this port (0: any free one).",
        ),
    ] = None,
    log_format: Format = None,
    server: Server = None,
    store: StoreUrl = None,
) -> None:
    """Retry failed workflows. SIGTERM and Ctrl-C stop it gracefully, SIGHUP reads the settings again.

    With a verb it looks at the workers that there are; --server and --store say of which letters.
    """
    if context.invoked_subcommand is not None:
        if app or once or verbose or queue or log_format or metrics_port is not None:
            raise InvalidInput("a worker is started without a verb: mahavishnu worker --app MODULE:NAME")
        choose_store(context, server, store)
        return
    if server or store:
        raise InvalidInput("a worker retries the letters in the store of its app: leave out --server and --store")
    if not app:
        raise InvalidInput("say which app's workflows are retried: mahavishnu worker --app MODULE:NAME")
    hang_ups = _note_hang_ups()
    found = import_app(app, session_of(context).settings_file)
    if found.queue_if_enabled is None:
        raise Failed("there is nothing to do: dlq_enabled is false")
    found.dlq.processing.take_only(queue or ())
    configure_logging(log_format_of(found.config, log_format), verbose=verbose)
    asyncio.run(_once(found) if once else _work(found, hang_ups, metrics_port))
    _leave_hanging_runs()


def _note_hang_ups() -> list[int]:
    """The SIGHUPs that come before there is an app whose settings could be reloaded: they must not end the process."""
    came: list[int] = []
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda number, frame: came.append(number))
    return came


def _reload_on_hang_up(app: MahavishnuApp, hang_ups: list[int]) -> None:
    """Read the settings again at each SIGHUP from now on, and for those that came before."""
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: _reload(app))
    if hang_ups:
        _reload(app)


async def _work(app: MahavishnuApp, hang_ups: list[int], metrics_port: int | None) -> None:
    _reload_on_hang_up(app, hang_ups)
    with stop_signals() as stop:
        async with app, worker_probes(app, metrics_port) as probes:
            await app.start_dlq_processor()
            collect_rarely()
            if not app.config.dlq_retry_processor_enabled:
                raise Failed("there is nothing to do: dlq_retry_processor_enabled is false")
            interval = app.dlq.context.limits.interval_seconds
            print_line(f"worker {app.dlq.context.owner} retries letters of {app.dlq.store!r}, every {interval:g} s")
            if probes is not None:
                print_line(f"metrics and probes are at {probes.url}")
            sys.stdout.flush()
            await stop.wait()
            print_line(f"stopping: runs may take {app.dlq.context.limits.grace_seconds:g} s to finish")
    print_line("stopped")


async def _once(app: MahavishnuApp) -> None:
    with stop_signals() as stop:
        async with app:
            running, stopped = asyncio.create_task(_run_due(app, stop)), asyncio.create_task(stop.wait())
            await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not running.done():
                print_line(f"stopping: runs may take {app.dlq.context.limits.grace_seconds:g} s to finish")
                await app.dlq.stop_retry_processor()
            ran = await running
            if not stop.is_set():
                await _note_run(app)
    print_line(f"{count_of(ran, 'letter')} run")


async def _run_due(app: MahavishnuApp, stop: asyncio.Event) -> int:
    """Move what bulk runs are to move now, and run what is due; again, where the outcomes let a bulk run go on."""
    await app.dlq.runs.advance()
    ran = await app.dlq.run_due()
    while not stop.is_set() and await app.dlq.runs.advance():
        ran += await app.dlq.run_due()
    return ran


async def _note_run(app: MahavishnuApp) -> None:
    """Sign the list of workers: nobody is to wonder why none lives between two such runs."""
    from mahavishnu.model.errors import StoreError

    try:
        await app.dlq.processing.workers.sign_end()
    except StoreError as problem:
        print_notice(f"the list of workers does not say that this run was: {problem}")


def _reload(app: MahavishnuApp) -> None:
    reloaded = app.reload()
    if reloaded.error is not None:
        print_error(f"the settings stay as they were: {reloaded.error}")
    else:
        print_line(f"settings read again: {', '.join(reloaded.changed) or 'nothing has changed'}")
    sys.stdout.flush()


def _leave_hanging_runs() -> None:
    """End the process if a run still hangs in its thread: its letter was given back, and nothing else is open."""
    if hanging := close_threads(_MOMENT):
        print_error(f"{count_of(hanging, 'run')} could not be interrupted; the process ends without waiting")
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


# ---------------------------------------------------------------------------------------------------------------- both


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


# --- connections that wait for their client

HEAD_SECONDS = 10.0  # for the head of a request, from its first byte; for the first one, from the connection on
MOST_IDLE = 256  # connections without a request; a process has files for 1,024 where nobody has asked for more


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn with time limits for a head, and for a refused body, but none for an open answer."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._idle_since = 0.0
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._deadline = self.loop.call_later(HEAD_SECONDS, transport.abort)
        idle = [each for each in self.connections if isinstance(each, BoundedProtocol) and each.is_idle]
        if len(idle) > MOST_IDLE:
            min(idle, key=lambda each: each._idle_since).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.is_idle:
            self._cancel_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def worker_probes(app: MahavishnuApp, port: int | None) -> AbstractAsyncContextManager[ProbeServer | None]:
    """Return the server for the probes of a worker, on `port` or on that of the settings; none without a port."""
    telemetry = app.config.telemetry
    return probes_of(app.dlq, telemetry.metrics_host, telemetry.metrics_port if port is None else port)

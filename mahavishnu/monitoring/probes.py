"""A small HTTP server for a worker: `/healthz`, `/readyz` and `/metrics`, by GET and HEAD."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from mahavishnu.http.auth import is_loopback
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import log_event
from mahavishnu.model.record import Value
from mahavishnu.monitoring.service import Telemetry
from mahavishnu.workers.processing import Processing

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue

log = logging.getLogger(__name__)
_SECONDS = 5.0  # for a request, and for its answer
_LONGEST_HEAD = 8192
_MOST_AT_ONCE = 32  # connections


class Answer(Value, frozen=True):
    """The answer of a path."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"

    @classmethod
    def of(cls, value: Mapping[str, Any], status: int = 200) -> Answer:
        """Return an answer in JSON."""
        return cls(json.dumps(value).encode(), status)


Route = Callable[[], Awaitable[Answer]]


@dataclass(slots=True)
class ProbeServer:
    """Answers each path by its route, or 500 if that raises; on loopback only to requests for this machine."""

    routes: Mapping[str, Route]
    host: str = "127.0.0.1"
    port: int = 0
    _server: asyncio.Server | None = field(default=None, init=False)
    _open: int = field(default=0, init=False)

    async def start(self) -> None:
        """Listen; a port of 0 becomes the one that was free. Raises InvalidInput where that is not possible."""
        try:
            self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=_LONGEST_HEAD)
        except OSError as problem:
            raise InvalidInput(
                f"cannot listen on {self.host}:{self.port} for metrics: {problem.strerror or problem}; choose another "
                "--metrics-port (0: any free one)"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """The URL on which it listens."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _MOST_AT_ONCE:
                async with asyncio.timeout(_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                answer = await self._answer(head)
                writer.write(_encode(answer, with_body=not head.startswith(b"HEAD ")))
                async with asyncio.timeout(_SECONDS):
                    await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # whoever asked has gone, is too slow, or asks for something else
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes) -> Answer:
        lines = head.decode("latin-1").split("\r\n")
        method, _, rest = lines[0].partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        host = headers.get("host", "")
        if is_loopback(self.host) and not is_loopback(host if host.endswith("]") else host.rpartition(":")[0] or host):
            return Answer.of({"status": "refused: ask for this machine by its loopback name"}, 403)
        if method not in ("GET", "HEAD"):
            return Answer.of({"status": "only GET and HEAD are answered"}, 405)
        if (route := self.routes.get(path)) is None:
            return Answer.of({"status": f"there is {', '.join(sorted(self.routes))}"}, 404)
        try:
            return await route()
        except Exception:
            log.exception("%s could not be answered", path, extra=log_event("telemetry.failed"))
            return Answer.of({"status": "this could not be told; the log says why"}, 500)


def _encode(answer: Answer, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")


def probes_of(dlq: LetterQueue, host: str, port: int | None) -> AbstractAsyncContextManager[ProbeServer | None]:
    """Return a server for the probes of this worker, on `port` or on that of the settings; none without a port."""
    if port is None:
        return nullcontext()
    return ProbeServer(
        {
            "/healthz": lambda: answer_health(dlq),
            "/readyz": lambda: answer_ready(dlq),
            "/metrics": lambda: answer_metrics(dlq),
        },
        host,
        port,
    )


async def answer_health(dlq: LetterQueue) -> Answer:
    """Answer 200 while the process can answer."""
    health = await dlq.health()
    return Answer.of({"status": health.status, "kept_locally": health.waiting})


async def answer_ready(dlq: LetterQueue) -> Answer:
    """Answer 200 while the processor takes letters and the store, or the local one, can be used; 503 otherwise."""
    health, processor = await dlq.health(), dlq.service(Processing).processor
    works = processor is not None and processor.is_running
    told = {"status": health.status, "kept_locally": health.waiting, "takes_letters": works}
    return Answer.of(told, 200 if works and health.status != "down" else 503)


async def answer_metrics(dlq: LetterQueue) -> Answer:
    """Answer with the numbers of this process. A server has those of the store, so that each is told once."""
    from mahavishnu.monitoring.exposition import CONTENT_TYPE_LATEST, exposition

    return Answer(exposition(await dlq.service(Telemetry).collect_process()), content_type=CONTENT_TYPE_LATEST)

"""Transports of requests: to a server by httpx, or to the API in this process, without a socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from mahavishnu.cli.client import API, TOKEN_VARIABLE, Answer
from mahavishnu.cli.options import Session
from mahavishnu.cli.output import Unreachable
from mahavishnu.model.errors import InvalidInput

TIMEOUT_SECONDS = 60.0
LOOK = ": look whether this had its effect"  # after what may have changed something
_MAX_QUEUED = 8  # parts of an answer that may wait for their reader
Message = MutableMapping[str, Any]
App = Callable[
    [dict[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class HttpTransport:
    """Sends requests to a server. Problems on the way are raised as Unreachable or InvalidInput."""

    def __init__(self, session: Session) -> None:
        """Prepare requests of the session. Raises InvalidInput for an invalid address."""
        assert session.server is not None
        self.base = self.where = server_address(session.server)
        token = token_for(session, self.base)
        self.authorized = token is not None
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=TIMEOUT_SECONDS)

    async def request(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> Answer:
        """Send one request and return its whole answer."""
        with self._explain_errors("" if method == "GET" else LOOK):
            response = await self._client.request(method, url, headers=dict(headers), content=content)
        return Answer(url, response.status_code, {**response.headers}, response.content)

    @asynccontextmanager
    async def stream(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """The head of an answer, and its body part by part; that of a refusal is read at once."""
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=None)
        with self._explain_errors():
            async with self._client.stream("GET", url, headers=dict(headers), timeout=timeout) as response:
                body = await response.aread() if response.is_error else b""
                yield Answer(url, response.status_code, {**response.headers}, body), response.aiter_bytes()

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._client.aclose()

    @contextmanager
    def _explain_errors(self, hint: str = "") -> Iterator[None]:
        """Raise what httpx raises as an error of ours; for changes, with a hint where the outcome is unknown."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = str(error.__cause__ or error) or type(error).__name__
            raise Unreachable(f"there is no server at {self.base}: {why}") from None
        except httpx.TimeoutException:
            raise Unreachable(f"{self.base} does not answer{hint}") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise InvalidInput(f"{self.base!r} is no address of a server: write http://host:port") from None
        except httpx.TransportError:
            why = f"{self.base} broke off the connection before it had answered{hint or ': ask again'}"
            raise Unreachable(why) from None


def token_for(session: Session, url: str) -> str | None:
    """The token of the environment; on the server's own machine, the one that the settings know for this user."""
    if token := os.environ.get(TOKEN_VARIABLE):
        return token
    host, server = httpx.URL(url).host, session.settings.server
    if host not in ("localhost", "127.0.0.1", "::1", server.host):
        return None  # it is nobody else's business
    for people in (server.admins, server.operators, server.viewers):
        if session.user in people:
            secret: str = people[session.user].get_secret_value()
            return secret
    return None


def server_address(server: str) -> str:
    """The address of a server without the path of its API. Raises InvalidInput.

    >>> server_address("localhost:8080/api/v1")
    'http://localhost:8080'
    """
    url = server if "://" in server else f"http://{server}"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as problem:
        raise InvalidInput(f"{server!r} is no address of a server: {problem}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput(f"{server!r} is no address of a server: write http://host:port")
    if parsed.userinfo:
        raise InvalidInput(f"a server is told who asks by a token ({TOKEN_VARIABLE}), not in its address")
    return url.rstrip("/").removesuffix(API)


class LocalTransport:
    """Sends requests to an ASGI app."""

    base = "http://localhost"
    authorized = False  # requests inside of a process need no token

    def __init__(self, app: App, where: str) -> None:
        self._app, self.where = app, where

    async def request(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> Answer:
        """Send one request and return its whole answer. Raises what the app raises."""
        start: Message = {"status": 500, "headers": []}
        parts: list[bytes] = []

        async def send(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            else:
                parts.append(message.get("body", b""))

        await self._app(_scope(method, url, headers), _receiver(content or b""), send)
        return Answer(url, start["status"], _headers(start), b"".join(parts))

    @asynccontextmanager
    async def stream(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """The head of an answer, and its body part by part. Raises what the app raises."""
        stream = _Stream(self._app, _scope("GET", url, headers))
        try:
            start = await stream.next_message() or {"status": 500, "headers": []}
            answer = Answer(url, start["status"], _headers(start))
            yield answer, stream.parts()
        finally:
            await stream.close()

    async def close(self) -> None:
        """Nothing is open between requests."""


class _Stream:
    """An answer that the app still writes, in a task of its own."""

    def __init__(self, app: App, scope: dict[str, Any]) -> None:
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(_MAX_QUEUED)
        self._left = asyncio.Event()
        self._task = asyncio.create_task(self._run(app, scope))

    async def _run(self, app: App, scope: dict[str, Any]) -> None:
        try:
            await app(scope, _receiver(b"", self._left), self._messages.put)
        finally:
            with suppress(asyncio.QueueFull):
                self._messages.put_nowait(None)

    async def parts(self) -> AsyncIterator[bytes]:
        while (message := await self.next_message()) is not None:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return

    async def next_message(self) -> Message | None:
        """The next message, or None if there will be none. Raises what the app raised."""
        waiting = asyncio.ensure_future(self._messages.get())
        await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done() and self._messages.empty():
            waiting.cancel()
            self._task.result()
            return None
        message = await waiting
        if message is None:
            await self._task
        return message

    async def close(self) -> None:
        self._left.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _receiver(body: bytes, left: asyncio.Event | None = None) -> Callable[[], Awaitable[Message]]:
    """Return the app's view of the request, and later, if it streams, that its reader has `left`."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        if left is not None:
            await left.wait()
        return {"type": "http.disconnect"}

    return receive


def _headers(start: Message) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}


def _scope(method: str, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    parts = urlsplit(url)
    sent = {"host": parts.netloc, **headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
        "scheme": parts.scheme,
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "server": (parts.hostname, parts.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
        "state": {},
    }

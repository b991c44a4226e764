"""Requests to the API in this process, without a socket: streamed answers are read as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from mahavishnu.cli.client import API, Answer
from mahavishnu.http.responses import json_bytes, link_to

if TYPE_CHECKING:
    from mahavishnu.http.responses import Document

_MAX_QUEUED = 8  # parts of an answer that may wait for their reader

Message = MutableMapping[str, Any]
Read = Callable[[str, str], Awaitable["Document | None"]]
App = Any  # an ASGI app that can be closed


class LocalTransport:
    """Sends requests to an ASGI app."""

    base = "http://localhost"
    authorized = False  # requests inside of a process need no token

    def __init__(self, make_app: Callable[[], App], where: str, read: Read) -> None:
        """Send requests to the app, which is made at first use; but reads first to `read`, which may not need it."""
        self._make_app, self.where, self._read = make_app, where, read

    @cached_property
    def app(self) -> App:
        """The API."""
        return self._make_app()

    async def request(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> Answer:
        """Send one request and return its whole answer. Raises what the app raises."""
        asked = urlsplit(url)
        if method == "GET" and asked.path.startswith(API):
            found = await self._read(asked.path.removeprefix(API), asked.query)
            if found is not None:
                headers = {name.lower(): value for name, value in found.headers.items()}
                if found.next is not None:
                    headers["link"] = link_to(asked.path, parse_qsl(asked.query), str(found.next))
                return Answer(url, HTTPStatus.OK, headers, json_bytes(found.value))
        start: Message = {"status": 500, "headers": []}
        parts: list[bytes] = []

        async def send(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            else:
                parts.append(message.get("body", b""))

        await self.app(_scope(method, url, headers), _receiver(content or b""), send)
        return Answer(url, start["status"], _headers(start), b"".join(parts))

    @asynccontextmanager
    async def stream(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """The head of an answer, and its body part by part. Raises what the app raises."""
        stream = _Stream(self.app, _scope("GET", url, headers))
        try:
            start = await stream.next_message() or {"status": 500, "headers": []}
            answer = Answer(url, start["status"], _headers(start))
            yield answer, stream.parts()
        finally:
            await stream.close()

    async def close(self) -> None:
        """End the streams of events."""
        if "app" in vars(self):
            await self.app.close()


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

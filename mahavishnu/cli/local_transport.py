"""An ASGI app in this process, spoken to as if it were a server: answers are read as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import suppress
from typing import Any

import httpx

_WAITING = 8  # parts of an answer that may wait for their reader
Message = MutableMapping[str, Any]


class InProcess(httpx.AsyncBaseTransport):
    """Sends requests to an ASGI app. Unlike httpx's own, it hands out an answer before it is complete."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        body = await request.aread()
        stream = _Answer()
        stream.run(self._app, _scope(request), body)
        start = await stream.started()
        return httpx.Response(start["status"], headers=start["headers"], stream=stream)


class _Answer(httpx.AsyncByteStream):
    """The body of an answer, while the app still writes it."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(_WAITING)
        self._left = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def run(self, app: Any, scope: dict[str, Any], body: bytes) -> None:
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await self._left.wait()
            return {"type": "http.disconnect"}

        async def work() -> None:
            try:
                await app(scope, receive, self._messages.put)
            finally:
                with suppress(asyncio.QueueFull):
                    self._messages.put_nowait(None)

        self._task = asyncio.create_task(work())

    async def started(self) -> Message:
        return await self._next() or {"status": 500, "headers": []}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._next()) is not None:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return

    async def _next(self) -> Message | None:
        """The next message; None, or what the app raised, if there will be none."""
        assert self._task is not None
        coming = asyncio.ensure_future(self._messages.get())
        await asyncio.wait({coming, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done() and self._messages.empty():
            coming.cancel()
            self._task.result()
            return None
        message = await coming
        if message is None:
            await self._task
        return message

    async def aclose(self) -> None:
        self._left.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _scope(request: httpx.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
        "state": {},
    }

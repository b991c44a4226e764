"""A way between a store and OpenSearch on which requests and answers get lost, as planned."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Request:
    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        """Such as `POST /index/_bulk`."""
        return self.head.split(b"\r\n", 1)[0].decode().partition("?")[0].removesuffix(" HTTP/1.1")

    def with_body(self, body: bytes) -> Request:
        head = re.sub(rb"(?i)content-length: \d+", b"Content-Length: %d" % len(body), self.head)
        return Request(head, body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


Forward: TypeAlias = Callable[[Request], Awaitable[bytes]]
Action: TypeAlias = Callable[[Request, Forward], Awaitable[bytes | None]]  # the answer; None closes the connection


async def lose_answer(request: Request, forward: Forward) -> None:
    """The request arrives, its answer does not: the connection breaks."""
    await forward(request)


async def lose_request(request: Request, forward: Forward) -> None:
    """The connection breaks before the request arrives."""


async def never_answer(request: Request, forward: Forward) -> None:
    """The request arrives, and then nothing more happens."""
    await forward(request)
    await asyncio.Event().wait()


def answer(status: int, body: object) -> Action:
    """This answer, and the request does not arrive."""

    async def act(request: Request, forward: Forward) -> bytes:
        return _response(status, body)

    return act


def error(status: int, type_: str, reason: str = "because", **more: object) -> Action:
    return answer(status, {"error": {"type": type_, "reason": reason, **more}, "status": status})


def items(change: Callable[[int, dict[str, Any]], object | None]) -> Action:
    """The request arrives without the items that `change` gives an answer for, which are answered so."""

    async def act(request: Request, forward: Forward) -> bytes:
        operations = _operations(request.body)
        given = [change(place, action) for place, (action, _) in enumerate(operations)]
        kept = b"".join(text for (_, text), item in zip(operations, given, strict=True) if item is None)
        real: list[Any] = []
        if kept:
            response = await forward(request.with_body(kept))
            real = json.loads(response.partition(b"\r\n\r\n")[2])["items"]
        following = iter(real)
        answers = [
            next(following) if item is None else {next(iter(action)): item}
            for (action, _), item in zip(operations, given, strict=True)
        ]
        return _response(200, {"items": answers})

    return act


def refused(status: int, type_: str, reason: str = "because") -> dict[str, Any]:
    """An item of a bulk that was not done."""
    return {"status": status, "error": {"type": type_, "reason": reason}}


class Proxy:
    """Passes everything on, except for what `plan` says. `requests` are those that came."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self.requests: list[Request] = []
        self._plans: list[tuple[str, Action]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def plan(self, ending: str, *actions: Action) -> None:
        """What happens to the next requests whose path ends so, one action for each."""
        self._plans += [(ending, action) for action in actions]

    def forget(self) -> None:
        """From now on, everything is passed on."""
        self._plans.clear()

    def count(self, ending: str) -> int:
        return sum(request.line.endswith(ending) for request in self.requests)

    @property
    def planned(self) -> int:
        """How much of the plan has not happened yet."""
        return len(self._plans)

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            while (request := await _request(reader)) is not None:
                self.requests.append(request)
                response = await self._respond(request)
                if response is None:
                    break
                writer.write(response)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _respond(self, request: Request) -> bytes | None:
        for place, (ending, action) in enumerate(self._plans):
            if request.line.endswith(ending):
                del self._plans[place]
                return await action(request, self._forward)
        return await self._forward(request)

    async def _forward(self, request: Request) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=2**26)
        try:
            writer.write(request.head + request.body)
            response = await _request(reader)
            assert response
            return response.head + response.body
        finally:
            writer.close()
            await writer.wait_closed()


async def _request(reader: asyncio.StreamReader) -> Request | None:
    """One message; answers look the same as far as this is concerned."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return Request(head, await reader.readexactly(length))


def _response(status: int, body: object) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    return head.encode() + text


def _operations(body: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """The actions of a bulk, each with its lines."""
    found = []
    lines = iter(body.splitlines(keepends=True))
    for line in lines:
        action = json.loads(line)
        found.append((action, line if "delete" in action else line + next(lines)))
    return found

"""Connections whose clients do not send what they began are closed, and those that are answered are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mahavishnu.core import processes as connections
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.processes import open_listener, run_server

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
STREAM = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"
UNFINISHED = b"POST /api/v1/dlq HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
SOON = 0.2
Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Door:
    """Connects to a server, and knows what it has connected."""

    def __init__(self, dlq: DeadLetterQueue, address: tuple[str, int]) -> None:
        self.dlq, self._address = dlq, address
        self.wires: list[Wire] = []

    async def send(self, data: bytes = b"") -> Wire:
        wire = await asyncio.open_connection(*self._address)
        wire[1].write(data)
        self.wires.append(wire)
        return wire


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    settings = MahavishnuSettings(server={"admins": {"ada": "secret"}})
    with open_listener(settings, "127.0.0.1", 0) as listening:
        async with DeadLetterQueue() as dlq, run_server(dlq, listening, settings):
            opened = Door(dlq, listening.getsockname()[:2])
            yield opened
            for _, writer in opened.wires:
                writer.close()


async def head(wire: Wire) -> bytes:
    """The head of the next answer."""
    return await asyncio.wait_for(wire[0].readuntil(b"\r\n\r\n"), 60)


async def ended(wire: Wire, trickle: bytes = b"") -> None:
    """Return when the server has closed the connection, and send a byte now and then until it does."""
    while True:
        try:
            if await asyncio.wait_for(wire[0].read(65536), SOON / 4) == b"":
                return
        except TimeoutError:
            wire[1].write(trickle)
        except ConnectionError:
            return


@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "half a head"])
async def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(
    door: Door, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SOON)
    await asyncio.wait_for(ended(await door.send(sent), b"b" if sent else b""), 60)


async def test_neither_is_a_second_head(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SOON)
    wire = await door.send(WHOLE)
    assert (await head(wire)).startswith(b"HTTP/1.1 200")
    wire[1].write(HALF)
    await asyncio.wait_for(ended(wire, b"b"), 60)


async def test_neither_is_the_rest_of_a_body_that_was_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SOON)
    wire = await door.send(UNFINISHED)
    assert (await head(wire)).startswith(b"HTTP/1.1 401")
    await asyncio.wait_for(ended(wire, b" "), 60)


async def test_a_live_stream_goes_on(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SOON)
    monkeypatch.setattr(connections, "MOST_IDLE", 1)
    stream = await door.send(STREAM)
    assert (await head(stream)).startswith(b"HTTP/1.1 200")
    for _ in range(3):  # they come later, and are closed earlier
        await asyncio.wait_for(ended(await door.send(HALF), b"b"), 60)
    await door.dlq.enqueue("wf", {}, [], "connection refused")
    assert await asyncio.wait_for(stream[0].readuntil(b"event: letter"), 60)


async def test_of_too_many_that_wait_the_one_that_waited_longest_makes_way(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_IDLE", 3)
    first, *others = [await door.send(HALF) for _ in range(3)]
    assert (await head(await door.send(WHOLE))).startswith(b"HTTP/1.1 200")
    await asyncio.wait_for(ended(first), 60)
    others[0][1].write(b"\r\n\r\n")
    assert (await head(others[0])).startswith(b"HTTP/1.1 200"), "it could still be completed"

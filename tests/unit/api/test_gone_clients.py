"""Who goes away in the middle of a long answer is noticed, and nothing more is read for them."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from mahavishnu.cli.commands.serve import open_listener, run_server
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.base import Cursor, Page
from mahavishnu.testing.letters import make_letter

PAGES = 400  # of 500 letters: much more than what fits between two sockets


async def _first_bytes(address: Any) -> None:
    """Ask for an export, read a little of it, and go away without a word."""
    loop = asyncio.get_running_loop()
    with socket.create_connection(address[:2]) as wire:
        wire.setblocking(False)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await loop.sock_sendall(wire, b"GET /api/v1/dlq/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await loop.sock_recv(wire, 1000)).startswith(b"HTTP/1.1 200 OK")


async def test_an_export_that_nobody_reads_on_stops_reading_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dlq, read, over = DeadLetterQueue(), 0, asyncio.Event()
    letters = tuple(replace(make_letter(task_id=f"wf_{number}"), version=(1,)) for number in range(500))

    async def find(*_: Any) -> Page[Any]:
        nonlocal read
        read += 1
        return Page(letters, next=Cursor((read,)) if read < PAGES else None)

    class Answer(StreamingResponse):
        async def __call__(self, *request: Any) -> None:
            try:
                await super().__call__(*request)
            finally:
                over.set()

    monkeypatch.setattr(type(dlq.context.letters), "find", find)
    monkeypatch.setattr("mahavishnu.api.routes.letters.StreamingResponse", Answer)
    settings = MahavishnuSettings()
    with open_listener(settings, "127.0.0.1", 0) as listening:
        async with dlq, run_server(dlq, listening, settings):
            await _first_bytes(listening.getsockname())
            await asyncio.wait_for(over.wait(), 60)
    assert 0 < read < PAGES / 2
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []

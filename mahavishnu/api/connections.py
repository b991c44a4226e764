"""Connections that wait for their client: bounded in time and number, so that they do not take the place of others."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # for the head of a request, from its first byte; for the first one, from the connection on
MOST_IDLE = 256  # connections without a request; a process has files for 1,024 where nobody has asked for more


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, which waits for the end of a head, and for the rest of a refused body, for ever.

    A connection with a request that is being answered, such as a live stream, is left alone.
    """

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

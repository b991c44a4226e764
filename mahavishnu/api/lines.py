"""Answers that are many lines, sent while they are read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from starlette.responses import StreamingResponse

from mahavishnu.model.clock import SystemClock
from mahavishnu.model.errors import StoreError

NDJSON, CSV = "application/x-ndjson", "text/csv"
CHUNK = 64 * 1024  # characters that are sent at once


async def stream_lines(lines: AsyncGenerator[str, None], media_type: str) -> StreamingResponse:
    """The answer that has these lines."""
    first = await anext(lines, None)  # if the store is away, the status can still say so
    return StreamingResponse(_join_lines(first, lines), media_type=media_type)


async def _join_lines(first: str | None, lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Join lines into chunks. After each chunk other tasks run, so that a client that is gone is noticed."""
    parts = [] if first is None else [f"{first}\n"]
    size = 0
    try:
        async for line in lines:
            parts.append(f"{line}\n")
            size += len(line)
            if size >= CHUNK:
                yield "".join(parts)
                parts, size = [], 0
                await SystemClock().sleep(0)
    except StoreError:
        yield "".join(parts)  # what could be read; then the response breaks off
        raise
    yield "".join(parts)

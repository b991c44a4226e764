"""Work on a long list: page by page, while the next page is being read, or past what cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, pages
from mahavishnu.stores.kind import T

P = TypeVar("P")


async def scan_readable(collection: Collection[T], query: Query) -> AsyncIterator[T]:
    """As `scan`, without those that cannot be read: for work that one of them must not keep from all others."""
    async for page in pages(collection, query):
        for item in page:
            yield item


async def work_on_pages(
    given: AsyncIterator[P], work: Callable[[P], Coroutine[Any, Any, None]], at_once: int = 2
) -> None:
    """Do the `work` on each page, on so many `at_once`, so that the store is not idle while a page is being prepared.

    Raises what reading or the first work that fails raises, after the others have been cancelled and have ended.
    """
    running: set[asyncio.Task[None]] = set()
    try:
        async for page in given:
            running.add(asyncio.create_task(work(page)))
            if len(running) >= at_once:
                running = await _next_end(running)
        while running:
            running = await _next_end(running)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _next_end(running: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait until one of them has ended. Returns the others."""
    ended, others = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    for each in ended:
        each.result()
    return others

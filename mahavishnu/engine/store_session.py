"""Opens the queue's store in one event loop after the other, and closes it without losing what is in memory only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mahavishnu.engine.waiting_room import WaitingRoom
from mahavishnu.model.errors import MahavishnuError, StoreError
from mahavishnu.stores.base import Store
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.memory import MemoryStore

log = logging.getLogger(__name__)
DEFAULT_SECONDS = 2.0  # time-out of a call to OpenSearch


class StoreSession:
    """Keeps the store open for the event loop that uses it."""

    def __init__(self, store: Store, waiting: WaitingRoom) -> None:
        self._store, self._waiting = store, waiting
        self._open_in: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[None] | None = None
        self._on_new_loop: list[Callable[[], object]] = []

    def on_new_loop(self, reset: Callable[[], object]) -> None:
        """Call `reset` whenever an event loop opens the store: what belonged to the former one is gone."""
        self._on_new_loop.append(reset)

    async def open(self) -> None:
        """Make the store ready; opening it twice is opening it once. Raises what the store raises.

        One event loop after the other may use a queue. Raises MahavishnuError while another one is running.
        """
        loop = asyncio.get_running_loop()
        if self._open_in is loop:
            return
        for other in (self._open_in, self._opening.get_loop() if self._opening else None):
            if other is not None and other is not loop and other.is_running():
                raise MahavishnuError(
                    "this queue is in use by another event loop that is running: give each loop an app of its own"
                )
        if self._opening is None or self._opening.get_loop() is not loop:
            self._opening = asyncio.create_task(self._open_store())
        await asyncio.shield(self._opening)

    async def close(self) -> None:
        """Close the store; the next use opens it again.

        What is in memory only, because the store was away, is written to the store before that if it can be.
        """
        waiting = self._waiting.in_memory
        if waiting and self._open_in is None:
            with contextlib.suppress(StoreError):  # the letters are counted in the log below
                await self.open()
            if self._open_in is None:
                log.error("%d failures that wait in memory are lost if this process ends", len(waiting))
        if self._open_in is not None:
            if self._open_in is asyncio.get_running_loop():
                await flush_before_exit(self._store, self._waiting)
            self._open_in = None
        await self._store.close()  # also where opening has failed: a part of it may be open

    async def _open_store(self) -> None:
        try:
            if self._open_in is not None:  # by another event loop, as a program of several asyncio.run has them
                await self._store.close()
                self._open_in = None
            for reset in self._on_new_loop:
                reset()
            await self._store.open()
            if isinstance(self._store, MemoryStore):
                log.warning("letters are kept in this process's memory: they are lost when it ends")
            self._open_in = asyncio.get_running_loop()
        finally:
            self._opening = None


async def flush_before_exit(store: Store, waiting: WaitingRoom) -> None:
    """Write to a safe place what only this process's memory holds; log what is lost if that fails."""
    try:
        await waiting.write_down()
    except StoreError as problem:
        log.error("%d failures that wait in memory are lost if this process ends: %s", len(waiting.in_memory), problem)
    if "mahavishnu.stores.fallback" not in sys.modules:  # then this store is none, and importing it takes a moment
        return
    from mahavishnu.stores.fallback import FallbackStore

    if isinstance(store, FallbackStore) and isinstance(store.local, MemoryStore) and (await store.health()).waiting:
        await store.drain()
        if lost := (await store.health()).waiting:
            log.error("%d records are lost if this process ends: only its memory holds them", lost)


def store_for(opensearch_client: Any, kinds: Iterable[Kind[Any]]) -> Store:
    """Memory, or OpenSearch through a given client with memory for when it is away."""
    if opensearch_client is None:
        return MemoryStore()
    from mahavishnu.stores.fallback import FallbackStore
    from mahavishnu.stores.opensearch import OpenSearchStore

    kinds = list(kinds)
    primary = OpenSearchStore(client=opensearch_client, kinds=kinds, timeout=_timeout_of(opensearch_client))
    return FallbackStore(primary, MemoryStore(), kinds=kinds)


def _timeout_of(opensearch_client: Any) -> float:
    """The time-out that the client was made with; the store's own where it was made without one."""
    options = getattr(getattr(opensearch_client, "transport", None), "kwargs", None)
    seconds = options.get("timeout") if isinstance(options, Mapping) else None
    return float(seconds) if isinstance(seconds, int | float) and 0 < seconds < math.inf else DEFAULT_SECONDS

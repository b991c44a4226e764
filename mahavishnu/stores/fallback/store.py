"""Two stores as one: what the primary cannot take now is kept locally, and goes home when it is back.

A record lives in exactly one of the two. New records go to the primary store, or to the local one while the primary is
away or full; they are worked on where they are. Records of the primary wait meanwhile. Nobody is lied to: a read that
could not reach the primary says so, and a record whose twin may exist there is not touched until that is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from mahavishnu.model.clock import Clock, SystemClock
from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.events import log_event
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Health, OpenClose, Store
from mahavishnu.stores.fallback.collection import FallbackCollection
from mahavishnu.stores.fallback.drain import Arrival, DrainResult, local_copy_kind
from mahavishnu.stores.kind import FieldType, Kind, T
from mahavishnu.stores.kinds import stored_kinds
from mahavishnu.stores.lease_watch import LeaseWatch

log = logging.getLogger(__name__)


class FallbackStore(OpenClose):
    """`primary` where possible, `local` where not. It opens and closes both.

    An absent primary costs one time-out, not one per call: from then on it is only tried in the background, after
    `pause_seconds` and then less and less often, up to every `longest_pause_seconds`. A primary that is *misconfigured*
    is no outage: `open` raises StoreMisconfigured. What is written although one of the two could not be opened is kept
    in the other one. If the primary turns out to be misconfigured later, for one kind of record, reads of this kind
    raise it, and new ones are kept locally rather than lost; the other kinds go on.
    """

    def __init__(
        self,
        primary: Store,
        local: Store,
        *,
        kinds: Sequence[Kind[Any]] | None = None,
        clock: Clock | None = None,
        pause_seconds: float = 1.0,
        longest_pause_seconds: float = 10.0,
    ) -> None:
        self.primary, self.local = primary, local
        self.clock = clock or SystemClock()
        self.lease_watch = LeaseWatch(self.clock)
        self._pause, self._longest_pause = pause_seconds, longest_pause_seconds
        self._collections: dict[str, FallbackCollection[Any]] = {}
        self._away: StoreError | None = None
        self._opened = False
        self._watch: asyncio.Task[None] | None = None
        self._draining = asyncio.Lock()
        self._last = DrainResult()
        self.on_arrival: Arrival | None = None  # told which records went home
        self.drained = 0  # records that went home, ever
        self.last_drain_seconds: float | None = None  # how long it took when some went home the last time
        self._changes = 0
        self._at_rest: asyncio.Event | None = None
        for kind in stored_kinds() if kinds is None else kinds:
            self.collection(kind)

    @property
    def away(self) -> StoreError | None:
        """Reason why the primary store is not used at the moment; None while it is."""
        return self._away

    async def open(self) -> None:
        if self._watch is not None:
            return
        try:
            await self.local.open()
        except StoreError:
            with contextlib.suppress(StoreError):
                await self._open_primary()
            raise
        try:
            await self._open_primary()
        except StoreUnavailable as problem:
            self.primary_failed(problem)
        except StoreMisconfigured as problem:
            self.primary_failed(problem)
            raise
        except BaseException:
            await self.local.close()
            raise
        else:
            self._away = None
        self._watch = asyncio.create_task(self._watch_primary(), name="mahavishnu fallback watch")

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        if self._changes:  # what was asked for is finished first, whichever store it needs
            self._at_rest = self._at_rest or asyncio.Event()
            await self._at_rest.wait()
        self._at_rest = None
        self._opened = False
        await self.primary.close()
        await self.local.close()

    def collection(self, kind: Kind[T]) -> FallbackCollection[T]:
        if kind.name not in self._collections:
            self._collections[kind.name] = FallbackCollection(self, kind)
        return self._collections[kind.name]

    def primary_failed(self, problem: StoreError) -> None:
        """Note that the primary store did not answer: it is not asked again before the watch has seen it."""
        if self._away is None or type(self._away) is not type(problem):
            level = logging.ERROR if isinstance(problem, StoreMisconfigured) else logging.WARNING
            extra = log_event("store.lost")
            log.log(level, "primary store lost, new records are kept locally: %s", problem, extra=extra)
        self._away = problem

    @contextlib.asynccontextmanager
    async def change(self) -> AsyncIterator[None]:
        """Count a write or removal in progress, so that closing waits for it."""
        self._changes += 1
        try:
            yield
        finally:
            self._changes -= 1
            if not self._changes and self._at_rest is not None:
                self._at_rest.set()

    async def drain(self) -> DrainResult:
        """Try the primary store now and move home what is kept locally. Never raises a StoreError.

        The watch does this in the background; call it to have it done before going on.
        """
        async with self._draining:
            try:
                await self._open_primary()
                health = await self.primary.health()
                if health.status == "down":
                    forbidden = [await pair.is_forbidden() for pair in list(self._collections.values())]
                    if not any(forbidden):
                        raise StoreUnavailable(health.detail)
            except StoreError as problem:
                self.primary_failed(problem)
                return DrainResult(stopped=problem)
            total, lost, began = DrainResult(), False, self.clock.monotonic()
            try:
                for pair in list(self._collections.values()):
                    drained = await pair.drain()
                    total += drained
                    if isinstance(drained.stopped, StoreUnavailable):
                        self.primary_failed(drained.stopped)
                        lost = True
                        break
            except StoreError as problem:
                log.error("the local store does not answer, what is in it waits: %s", problem)
                self._away = None  # the primary does, and new records must not suffer
                return DrainResult(stopped=problem)
            if self._away is not None and not lost:
                extra = log_event("store.back", moved=total.moved)
                log.warning("primary store is back, %d records went home", total.moved, extra=extra)
                self._away = None
            known = {str(problem) for problem in self._last.refused}
            for refusal in total.refused:
                if str(refusal) not in known:
                    extra = log_event("store.refused")
                    log.error(
                        "the primary store does not take a record, which is kept locally: %s", refusal, extra=extra
                    )
            self._last = total
            if total.moved:
                self.drained += total.moved
                self.last_drain_seconds = self.clock.monotonic() - began
            return total

    async def health(self) -> Health:
        problems = [] if self._away is None else [f"primary store away: {self._away}"]
        try:
            waiting, oldest = await self._count_waiting()
        except StoreError as problem:
            status = "down" if problems else "degraded"
            return Health(status, "; ".join([*problems, f"the local store cannot answer: {problem}"]))
        local = await self.local.health()
        if local.status != "ok":
            problems.append(f"the local store is {local.status}: {local.detail}")
        if self._away is not None:
            return Health("degraded", "; ".join(problems), waiting, oldest)
        health = await self.primary.health()
        problems += [str(pair.forbidden) for pair in self._collections.values() if pair.forbidden]
        problems += map(str, self._last.refused)
        status = "degraded" if waiting or problems else health.status
        return Health(status, "; ".join(filter(None, [health.detail, *problems])), waiting, oldest)

    async def _count_waiting(self) -> tuple[int, datetime | None]:
        count, oldest = 0, list[datetime]()
        for pair in self._collections.values():
            dated = "created_at" in pair.kind.by_name and pair.kind.by_name["created_at"].type is FieldType.DATE
            spans = ["created_at"] if dated else []
            cell = (await self.local.collection(local_copy_kind(pair.kind)).tally(Query(), spans=spans)).total
            count += cell.count
            oldest += cell.earliest.values()
        return count, min(oldest, default=None)

    async def _open_primary(self) -> None:
        if not self._opened:
            await self.primary.open()
            self._opened = True

    async def _watch_primary(self) -> None:
        """Look after the primary while it is away, and after local records that other processes may have left."""
        pause = self._pause
        while True:
            was_away = self._away is not None  # where it comes back and is lost again at once, that is not each second
            try:
                if was_away or not all(p.drained and not p.forbidden for p in self._collections.values()):
                    await self.drain()
                for pair in self._collections.values():
                    await pair.check_other_processes()
            except StoreError as problem:
                log.warning("local store does not answer: %s", problem)
            except Exception:
                log.exception("the watch over the primary store stumbled and goes on")
            lost = (
                was_away
                or self._away
                or self._last.refused
                or any(pair.forbidden for pair in self._collections.values())
            )
            pause = min(pause * 1.5, self._longest_pause) if lost else self._pause
            await self.clock.sleep(pause)

    def __repr__(self) -> str:
        return f"FallbackStore({self.primary!r}, {self.local!r})"

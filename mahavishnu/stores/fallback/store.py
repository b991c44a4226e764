"""Two stores as one: what the primary cannot take now is kept locally, and goes home when it is back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mahavishnu.model.clock import Clock, SystemClock
from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.events import log_event
from mahavishnu.model.ids import new_token
from mahavishnu.model.query import Is, Query, Sort
from mahavishnu.model.record import Value
from mahavishnu.stores.base import Health, OpenClose, Store, get_one, write_with_retry
from mahavishnu.stores.fallback.collection import FallbackCollection
from mahavishnu.stores.fallback.drain import Arrival, DrainResult, local_copy_kind
from mahavishnu.stores.kind import FieldType, Kind, T
from mahavishnu.stores.kinds import LETTERS, LOCAL_STORES, LocalStore, stored_kinds
from mahavishnu.stores.lease_watch import LeaseWatch

log = logging.getLogger(__name__)
BRING_HOME_SECONDS = 5.0  # for what a process takes home before it goes on, or ends
_LEAVE_SECONDS = 2.0  # for what it tells the primary store of the rest
_FIRST_SECONDS, _RENEW_SECONDS = 5.0, 60.0  # until an empty local store is registered; until any is again
_OWN = "own"  # the key of the record in which a local store has its name
_LONG_EMPTY = Query((Is("kept", (0,)),), (Sort("seen_at"),), 100)


class KeptLocally(Value, frozen=True):
    """Numbers of a local store: its records, those of them that are letters, and since when the oldest is there."""

    records: int = 0
    letters: int = 0
    oldest: datetime | None = None

    def describe(self) -> str:
        """Return the numbers as the beginning of a sentence.

        >>> KeptLocally(1001, 1000).describe(), KeptLocally(1, 1).describe(), KeptLocally(2, 0).describe()
        ('1,000 letters and 1 other record are', '1 letter is', '2 records are')
        """
        others, one = self.records - self.letters, self.records == 1
        kinds = [(self.letters, "letter"), (others, "other record" if self.letters else "record")]
        named = [f"{count:,} {kind}{'s' * (count != 1)}" for count, kind in kinds if count]
        return f"{' and '.join(named)} {'is' if one else 'are'}"


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
        self._opened_at = 0.0
        self._broken_off = False  # a drain took longer than whoever waited for it was ready to
        self._registered: LocalStore | None = None  # as the primary store has it
        self._registered_at = self._next_try = 0.0
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
        self._opened_at = self._next_try = self.clock.monotonic()
        self._broken_off, self._registered = False, None
        self._watch = asyncio.create_task(self._watch_primary(), name="mahavishnu fallback watch")

    async def close(self) -> None:
        if self._watch is not None:
            watch, self._watch = self._watch, None
            try:
                if not watch.done():  # else its event loop has ended
                    async with self.change():
                        await self._leave()
            finally:
                watch.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watch
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

    async def bring_home(self) -> KeptLocally:
        """Drain for some seconds at most, unless the primary store is away. Returns what was kept before that."""
        kept = await self.count_kept()
        if kept.records and self._away is None and not self._broken_off:
            try:
                async with asyncio.timeout(BRING_HOME_SECONDS):
                    await self.drain()
            except TimeoutError:
                self._broken_off = True
        return kept

    async def _leave(self) -> None:
        """Before it is closed: take home what is kept locally, and register what is left. Never raises a StoreError."""
        try:
            if not all(pair.drained for pair in self._collections.values()):
                await self.bring_home()
                if (left := await self.count_kept()).records:
                    log.warning("%s still in %s: %s", left.describe(), self.place, self._remedy)
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._register(closing=True)
        except (StoreError, TimeoutError) as problem:
            log.debug("what is kept locally could not be told to the primary store: %s", problem)

    async def drain(self) -> DrainResult:
        """Move home now what is kept locally, as the watch does in the background. Never raises a StoreError."""
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
            kept = await self.count_kept()
        except StoreError as problem:
            status = "down" if problems else "degraded"
            return Health(status, "; ".join([*problems, f"the local store cannot answer: {problem}"]))
        if kept.records:
            then = " until that answers again" if self._away is not None else f": {self._remedy}"
            problems.append(f"{kept.describe()} still in {self.place}{then}")
        local = await self.local.health()
        if local.status != "ok":
            problems.append(f"the local store is {local.status}: {local.detail}")
        if self._away is not None:
            return Health("degraded", "; ".join(problems), kept.records, kept.oldest)
        health = await self.primary.health()
        problems += [str(pair.forbidden) for pair in self._collections.values() if pair.forbidden]
        problems += map(str, self._last.refused)
        status = "degraded" if problems else health.status
        return Health(status, "; ".join(filter(None, [*problems, health.detail])), kept.records, kept.oldest)

    @property
    def place(self) -> str:
        """The file of the local store, or words for it."""
        path = getattr(self.local, "path", None)
        return f"the memory of process {os.getpid()}" if path is None else str(path.absolute())

    @property
    def _remedy(self) -> str:
        return "keep it running" if getattr(self.local, "path", None) is None else "run `mahavishnu dlq drain`"

    async def count_kept(self) -> KeptLocally:
        """Count what is kept locally. Raises StoreError."""
        count, letters, oldest = 0, 0, list[datetime]()
        for pair in self._collections.values():
            dated = "created_at" in pair.kind.by_name and pair.kind.by_name["created_at"].type is FieldType.DATE
            spans = ["created_at"] if dated else []
            cell = (await self.local.collection(local_copy_kind(pair.kind)).tally(Query(), spans=spans)).total
            count += cell.count
            letters += cell.count if pair.kind is LETTERS else 0
            oldest += cell.earliest.values()
        return KeptLocally(count, letters, min(oldest, default=None))

    async def _register(self, *, closing: bool = False) -> None:
        """Tell the primary store of this one and what it keeps (ADR 0072), later if empty. Raises StoreError."""
        now, last = self.clock.monotonic(), self._registered
        if self._away is not None or (now < self._next_try and not closing):
            return
        is_empty = all(pair.drained for pair in self._collections.values())
        kept = KeptLocally() if is_empty else await self.count_kept()
        records = self.primary.collection(LOCAL_STORES)
        if closing and not kept.records:
            if (last := last or await self._left_by_another()) is not None:
                await records.remove([last])  # unless another process, which uses it too, has registered it since
            return
        due = self._opened_at + _FIRST_SECONDS if last is None else self._registered_at + _RENEW_SECONDS
        if kept.records == (last.kept if last else 0) and now < due:
            return
        self._next_try = now + _RENEW_SECONDS
        if last is None and (
            old := [e for e in (await records.find(_LONG_EMPTY)).items if e.is_over(self.clock.now())]
        ):
            await records.remove(old)
        name = await self._own_name()
        mine = LocalStore(name, socket.gethostname(), os.getpid(), self.place, self.clock.now())
        mine = replace(mine, kept=kept.records, letters=kept.letters, oldest=kept.oldest)
        _, self._registered = await write_with_retry(
            records,
            name,
            lambda current: replace(mine, version=current.version if current else None),
            what="local store",
        )
        self._registered_at, self._next_try = now, now

    async def _left_by_another(self) -> LocalStore | None:
        """Return what a process that is gone has registered of this local store, which is empty now."""
        named = await get_one(self.local.collection(LOCAL_STORES), _OWN)
        found = await get_one(self.primary.collection(LOCAL_STORES), named.host) if named else None
        return found if found and (found.kept or found.is_stale(self.clock.now())) else None

    async def _own_name(self) -> str:
        """Return the name that the local store calls itself by, everywhere and for good. Raises StoreError."""
        records = self.local.collection(LOCAL_STORES)
        fresh = LocalStore(_OWN, new_token(), os.getpid(), "", self.clock.now())  # its host is the name
        found, written = await write_with_retry(
            records, _OWN, lambda current: fresh if current is None else None, what="name of the local store"
        )
        named = found or written
        assert named is not None
        return named.host

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
                with contextlib.suppress(StoreError):  # it is tried again in a minute
                    await self._register()
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

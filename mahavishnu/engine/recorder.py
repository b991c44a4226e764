"""Records failures: creates the letter, merges into the open one of its task, or starts the next generation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mahavishnu.model import backoff, lifecycle
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import LetterBusy, QueueFull, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import Failure
from mahavishnu.model.permissions import Scope
from mahavishnu.model.reconcile import Reconciliation, reconcile_letters
from mahavishnu.model.record import Value
from mahavishnu.model.work import as_sole_work, note_other_failure, same_work, with_types_of
from mahavishnu.stores.base import Collection, Result, write_one, write_with_retry
from mahavishnu.stores.lease_watch import LeaseWatch
from mahavishnu.stores.retained import find_place, keep_former

_AT_THE_LIMIT_SECONDS = 0.25  # how old a count may be that refuses a letter
_MOST_CAPACITIES = 100  # of other namespaces that are remembered
_TRIES = 50  # lost races for one letter before it is called an outage


class CaptureKind(StrEnum):
    """Way in which a failure came into the store."""

    CREATED = "created"
    MERGED = "merged"
    REOPENED = "reopened"


class CaptureResult(Value, frozen=True):
    """The letter as it is stored now, and how the failure came into it."""

    letter: DeadLetter
    kind: CaptureKind


class Admission(Value, frozen=True):
    """Letter or tombstone under the key of one from elsewhere, and the letter stored there now, if it was written."""

    before: DeadLetter | None
    stored: DeadLetter | None

    @property
    def kind(self) -> CaptureKind:
        """Way in which the letter came in, unless nothing was written."""
        if self.before is None or self.before.is_deleted:
            return CaptureKind.CREATED
        return CaptureKind.MERGED if self.before.is_open else CaptureKind.REOPENED


@dataclass(slots=True)
class _MergeLock:
    """Lets failures of one task merge into its letter one after the other."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


@dataclass(frozen=True, slots=True)
class LetterRecorder:
    """Stores new letters, as far as the capacity allows, and failures of letters that exist already.

    `letters` are all of them, also tombstones. Those outside of the `scope` of who acts take in nothing, and keep
    their task ids.
    """

    letters: Collection[DeadLetter]
    history: Collection[FormerLetter]
    capacities: Capacities
    clock: Clock
    lease_watch: LeaseWatch
    backoffs: Callable[[], BackoffRegistry] = lambda: backoff.DEFAULT
    scope: Scope | None = None
    _merge_locks: dict[str, _MergeLock] = field(default_factory=dict)

    async def record(self, fresh: DeadLetter, failure: Failure) -> CaptureResult:
        """Store the failure. `fresh` is the letter it would make; an open letter of the same work takes it in instead.

        While an open letter of other work has its task id, it becomes a letter under an id of its own, see
        `mahavishnu.model.work`.

        Raises QueueFull if a new letter would be one too many, and what the store raises.
        """
        capacity = self.capacities.of(fresh.namespace)
        try:
            await capacity.reserve(fresh.task_id)
        except QueueFull:
            if (merged := await self._merge(fresh, failure)) is not None:  # that needs no room
                return merged
            raise
        stored: CaptureResult | None = None
        try:
            created = await write_one(self.letters, fresh)
            if created is not None:
                stored = CaptureResult(letter=created, kind=CaptureKind.CREATED)
            else:
                stored = await self._merge_into_open(fresh, failure)
                if stored is None:
                    taken = await self.take_in(fresh, has_room=True, failure=failure)
                    stored = CaptureResult(taken.stored or taken.before or fresh, taken.kind)
        finally:
            if stored is None or stored.kind is CaptureKind.MERGED:
                capacity.cancel()
            else:
                capacity.commit()
        return stored

    async def record_new(self, fresh: Sequence[DeadLetter]) -> list[Result[DeadLetter]]:
        """Create letters of one namespace by one write; None for each that needs `record`. Raises if none is stored."""
        capacity = self.capacities.of(fresh[0].namespace)
        places = await capacity.reserve_many(len(fresh))
        created: Sequence[Result[DeadLetter]] = ()
        try:
            if places:
                created = await self.letters.write(fresh[:places])
        finally:
            used = sum(isinstance(each, DeadLetter) for each in created)
            capacity.commit(used)
            capacity.cancel(places - used)
        return [*created, *[None] * (len(fresh) - places)]

    async def take_in(
        self, ours: DeadLetter, *, failure: Failure | None = None, has_room: bool = False, even_deleted: bool = False
    ) -> Admission:
        """Bring a letter from elsewhere to its place, see `mahavishnu.model.work`: doing it twice changes nothing.

        The `failure` of a new letter is counted on an open one of the same work. `even_deleted`: also if it was
        deleted. Raises LetterBusy while it has to wait for what is there, QueueFull if there is no room for it, unless
        `has_room` says that there is, and what the store raises.
        """
        for _ in range(_TRIES):  # a loop of its own: the key is looked for in each turn, and history is written first
            place, theirs = await find_place(self.letters, ours, is_new=failure is not None)
            if self._is_hidden(theirs):
                place, theirs = as_sole_work(ours), None
            if failure is not None and theirs is not None and theirs.is_open and not theirs.knows(ours.entry_id):
                if (merged := await self._merge_into_open(place, failure)) is not None:
                    return Admission(theirs, merged.letter)
                continue
            became = Reconciliation(place)
            if theirs is not None:
                now = self.lease_watch.now_for(theirs, place)
                became = reconcile_letters(theirs, place, now, even_deleted=even_deleted)
            if became.wait:
                raise LetterBusy(place.key)
            if became.live is None:
                return Admission(theirs, None)
            needs_room = became.live.is_open and not has_room and not (theirs is not None and theirs.is_open)
            capacity = self.capacities.of(ours.namespace)
            if needs_room:
                await capacity.reserve(ours.task_id)
            stored = None
            try:
                if became.former is not None:
                    await keep_former(self.history, became.former)
                stored = await write_one(self.letters, became.live)
            finally:
                if needs_room:
                    capacity.commit() if stored else capacity.cancel()
            if stored is not None:
                return Admission(theirs, stored)
        raise StoreUnavailable(
            f"letter {ours.key!r} was changed by others {_TRIES} times in a row while it was taken in"
        )

    def _is_hidden(self, letter: DeadLetter | None) -> bool:
        """Return whether who acts may not see the letter that has the place of theirs."""
        return self.scope is not None and letter is not None and not self.scope.covers_record(letter)

    async def _merge(self, fresh: DeadLetter, failure: Failure) -> CaptureResult | None:
        """Count the failure on the open letter of the same work, under whichever id; None if there is none."""
        if (merged := await self._merge_into_open(fresh, failure)) is not None:
            return merged
        place, there = await find_place(self.letters, fresh, is_new=True)
        return await self._merge_into_open(place, failure) if there is not None and there.is_open else None

    async def _merge_into_open(self, fresh: DeadLetter, failure: Failure) -> CaptureResult | None:
        """Add an occurrence to the open letter, one after the other; None if there is none, or it is other work."""

        def merge(current: DeadLetter | None) -> DeadLetter | None:
            if current is None or not current.is_open or current.knows(fresh.entry_id) or self._is_hidden(current):
                return None
            if not same_work(current, fresh.payload, fresh.payload_types, fresh.typed):
                return None
            now = self.clock.now()
            current = note_other_failure(with_types_of(current, fresh), fresh)
            return lifecycle.merge(
                current,
                failure,
                now,
                fresh.repos,
                fresh.depends_on,
                fresh.entry_id,
                verdict=lifecycle.verdict_of(fresh),
                backoffs=self.backoffs(),
            )

        key = fresh.key
        merge_lock = self._merge_locks.setdefault(key, _MergeLock())
        merge_lock.users += 1
        try:
            async with merge_lock.lock:
                found, merged = await write_with_retry(self.letters, key, merge, what="letter", tries=_TRIES)
                if merged is not None:
                    return CaptureResult(merged, CaptureKind.MERGED)
                if found is not None and found.is_open and found.knows(fresh.entry_id):
                    # By an earlier try whose answer was lost.
                    is_new = found.entry_id == fresh.entry_id
                    return CaptureResult(found, CaptureKind.CREATED if is_new else CaptureKind.MERGED)
                return None
        finally:
            merge_lock.users -= 1
            if not merge_lock.users:
                self._merge_locks.pop(key, None)


class Capacity:
    """Counts open letters: exactly inside this process, others' at each recount. It errs on the side of refusing.

    After a reservation comes `commit` for the places that hold a stored letter now, and `cancel` for the others.
    """

    def __init__(
        self, max_size: int, count: Callable[[], Awaitable[int]], clock: Clock, fresh_seconds: float = 5.0
    ) -> None:
        self.max_size = max_size
        self._count = count
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._known = 0
        self._counted_at: float | None = None
        self._reserved = 0
        self._committed_meanwhile = 0
        self._lock = asyncio.Lock()

    async def reserve(self, task_id: str) -> None:
        """Reserve a place for a letter. Raises QueueFull if there is none."""
        if not await self.reserve_many(1):
            raise QueueFull(task_id, self._taken, self.max_size)

    async def reserve_many(self, places: int) -> int:
        """Reserve so many places, or as many as there are. Returns how many."""
        if not self._is_fresh(self._fresh_seconds):
            await self._recount(self._fresh_seconds)
        if self._taken + places > self.max_size:
            await self._recount(_AT_THE_LIMIT_SECONDS)  # others may have closed some
        places = min(places, max(self.max_size - self._taken, 0))
        self._reserved += places
        return places

    def commit(self, places: int = 1) -> None:
        """Turn reserved places into occupied ones: they hold stored letters now."""
        self.cancel(places)
        self._known += places
        self._committed_meanwhile += places

    def cancel(self, places: int = 1) -> None:
        """Give reserved places back, because no letter was stored."""
        self._reserved = max(self._reserved - places, 0)  # those of a former event loop are not counted any more

    def reset(self) -> None:
        """Forget reservations of a former event loop: nothing of it is under way any more."""
        self._lock, self._reserved, self._counted_at = asyncio.Lock(), 0, None

    def invalidate(self) -> None:
        """Count again before the next letter, because an unknown number was opened or closed here."""
        self._counted_at = None

    def decrement(self, places: int = 1) -> None:
        """Note that letters were closed here."""
        self._known = max(self._known - places, 0)

    @property
    def _taken(self) -> int:
        return self._known + self._reserved

    def _is_fresh(self, seconds: float) -> bool:
        return self._counted_at is not None and self._clock.monotonic() - self._counted_at <= seconds

    async def _recount(self, older_than_seconds: float) -> None:
        async with self._lock:
            if self._is_fresh(older_than_seconds):  # another task counted while we waited
                return
            now = self._clock.monotonic()
            self._committed_meanwhile = 0
            counted = await self._count()
            # A letter stored during the count may be in it or not: never let in one too many.
            self._known = counted + self._committed_meanwhile
            self._counted_at = now


class Capacities:
    """The capacity of each namespace: there may be `max_size` open letters in each."""

    def __init__(
        self, own: str, max_size: int, count: Callable[[str], Awaitable[int]], clock: Clock, fresh_seconds: float = 5.0
    ) -> None:
        """Count by `count(namespace)`. Most letters go to the `own` namespace."""
        self._own, self._count, self._clock, self._fresh_seconds = own, count, clock, fresh_seconds
        self._max_size = max_size
        self._known = {own: self._new(own)}

    @property
    def max_size(self) -> int:
        """Number of open letters that there may be in a namespace."""
        return self._max_size

    @max_size.setter
    def max_size(self, value: int) -> None:
        self._max_size = value
        for each in self._known.values():
            each.max_size = value

    def of(self, namespace: str) -> Capacity:
        """The capacity of this namespace."""
        found = self._known.get(namespace)
        if found is None:
            if len(self._known) > _MOST_CAPACITIES:  # a forgotten one is counted anew
                self._known = {self._own: self._known[self._own]}
            found = self._known[namespace] = self._new(namespace)
        return found

    def reset(self) -> None:
        """Forget reservations of a former event loop."""
        for each in self._known.values():
            each.reset()

    def invalidate(self) -> None:
        """Count again before the next letter."""
        for each in self._known.values():
            each.invalidate()

    def _new(self, namespace: str) -> Capacity:
        return Capacity(self._max_size, lambda: self._count(namespace), self._clock, self._fresh_seconds)

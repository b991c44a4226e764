"""Bringing a failure into the store: create the letter, merge into the open one, or start the next generation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mahavishnu.engine.room import Capacity
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import QueueFull, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import Failure, fast_constructor
from mahavishnu.stores.base import Collection, Result, get_one, write_one

_TRIES = 50  # lost races for one letter before it is called an outage


class CaptureKind(StrEnum):
    """What became of a failure."""

    CREATED = "created"
    MERGED = "merged"
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """The letter as it is stored now, and how the failure came into it."""

    letter: DeadLetter
    kind: CaptureKind


_new_result = fast_constructor(CaptureResult)


@dataclass(slots=True)
class _MergeLock:
    """Failures of one task that wait to be merged into its letter."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


@dataclass(frozen=True, slots=True)
class LetterRecorder:
    """What capturing needs: where letters and their history are, and how much room is left."""

    letters: Collection[DeadLetter]
    history: Collection[FormerLetter]
    capacity: Capacity
    clock: Clock
    _merge_locks: dict[str, _MergeLock] = field(default_factory=dict)

    async def record(self, fresh: DeadLetter, failure: Failure) -> CaptureResult:
        """Store the failure. `fresh` is the letter it would make; an open letter of the same key takes it in instead.

        Raises QueueFull if a new letter would be one too many, and what the store raises.
        """
        try:
            await self.capacity.reserve(fresh.task_id)
        except QueueFull:
            if (merged := await self._merge_into_open(fresh, failure)) is not None:  # that needs no room
                return merged
            raise
        stored: CaptureResult | None = None
        try:
            created = await write_one(self.letters, fresh)
            if created is not None:
                stored = _new_result(letter=created, kind=CaptureKind.CREATED)
            else:
                stored = await self._merge_or_reopen(fresh, failure)
        finally:
            if stored is None or stored.kind is CaptureKind.MERGED:
                self.capacity.cancel()
            else:
                self.capacity.commit()
        return stored

    async def record_new(self, fresh: Sequence[DeadLetter]) -> list[Result[DeadLetter]]:
        """New letters by one write; None for each that has no room or no key of its own: `capture` sees to those.

        Raises what the store raises where it could store none.
        """
        places = await self.capacity.reserve_many(len(fresh))
        created: Sequence[Result[DeadLetter]] = ()
        try:
            if places:
                created = await self.letters.write(fresh[:places])
        finally:
            used = sum(isinstance(each, DeadLetter) for each in created)
            self.capacity.commit(used)
            self.capacity.cancel(places - used)
        return [*created, *[None] * (len(fresh) - places)]

    async def _merge_or_reopen(self, fresh: DeadLetter, failure: Failure) -> CaptureResult:
        """There was a letter of the same key when this one was to be created."""
        for _ in range(_TRIES):
            if (merged := await self._merge_into_open(fresh, failure)) is not None:
                return merged
            former = await get_one(self.letters, fresh.key)
            if former is None:  # it has gone since
                if (created := await write_one(self.letters, fresh)) is not None:
                    return CaptureResult(created, CaptureKind.CREATED)
                continue
            if former.is_open:
                continue
            before, successor = lifecycle.next_generation(former, fresh)
            await write_one(self.history, before)  # there already: somebody else is about to do the same
            if (reopened := await write_one(self.letters, successor)) is not None:
                return CaptureResult(reopened, CaptureKind.REOPENED)
        raise _too_many_conflicts(fresh.key)

    async def _merge_into_open(self, fresh: DeadLetter, failure: Failure) -> CaptureResult | None:
        """The open letter with one more occurrence; None if there is no open letter.

        In this process one after the other: of many who read the same letter at once only one could write it.
        """
        key = fresh.key
        line = self._merge_locks.setdefault(key, _MergeLock())
        line.length += 1
        try:
            async with line.lock:
                for _ in range(_TRIES):
                    current = await get_one(self.letters, key)
                    if current is None or not current.is_open:
                        return None
                    changed = lifecycle.merge(current, failure, self.clock.now(), fresh.repos, fresh.depends_on)
                    merged = await write_one(self.letters, changed)
                    if merged is not None:
                        return CaptureResult(merged, CaptureKind.MERGED)
                raise _too_many_conflicts(key)
        finally:
            line.length -= 1
            if not line.length:
                self._merge_locks.pop(key, None)


def _too_many_conflicts(key: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"letter {key!r} was changed by others {_TRIES} times in a row while a failure was captured"
    )

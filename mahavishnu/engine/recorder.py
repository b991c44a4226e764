"""Bringing a failure into the store: create the letter, merge into the open one, or start the next generation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mahavishnu.engine.room import Room
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import QueueFull, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import Failure, fast_constructor
from mahavishnu.stores.base import Collection, Result, get_one, write_one

_TRIES = 50  # lost races for one letter before it is called an outage


class How(StrEnum):
    """What became of a failure."""

    CREATED = "created"
    MERGED = "merged"
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True)
class Captured:
    """The letter as it is stored now, and how the failure came into it."""

    letter: DeadLetter
    how: How


_new_captured = fast_constructor(Captured)


@dataclass(slots=True)
class _Line:
    """Failures of one task that wait to be merged into its letter."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


@dataclass(frozen=True, slots=True)
class Office:
    """What capturing needs: where letters and their history are, and how much room is left."""

    letters: Collection[DeadLetter]
    history: Collection[FormerLetter]
    room: Room
    clock: Clock
    _lines: dict[str, _Line] = field(default_factory=dict)

    async def capture(self, fresh: DeadLetter, failure: Failure) -> Captured:
        """Store the failure. `fresh` is the letter it would make; an open letter of the same key takes it in instead.

        Raises QueueFull if a new letter would be one too many, and what the store raises.
        """
        try:
            await self.room.reserve(fresh.task_id)
        except QueueFull:
            if (merged := await self._merged(fresh, failure)) is not None:  # that needs no room
                return merged
            raise
        stored: Captured | None = None
        try:
            created = await write_one(self.letters, fresh)
            if created is not None:
                stored = _new_captured(letter=created, how=How.CREATED)
            else:
                stored = await self._beside_another(fresh, failure)
        finally:
            if stored is None or stored.how is How.MERGED:
                self.room.unused()
            else:
                self.room.used()
        return stored

    async def create(self, fresh: Sequence[DeadLetter]) -> list[Result[DeadLetter]]:
        """New letters by one write; None for each that has no room or no key of its own: `capture` sees to those.

        Raises what the store raises where it could store none.
        """
        places = await self.room.reserve_some(len(fresh))
        created: Sequence[Result[DeadLetter]] = ()
        try:
            if places:
                created = await self.letters.write(fresh[:places])
        finally:
            used = sum(isinstance(each, DeadLetter) for each in created)
            self.room.used(used)
            self.room.unused(places - used)
        return [*created, *[None] * (len(fresh) - places)]

    async def _beside_another(self, fresh: DeadLetter, failure: Failure) -> Captured:
        """There was a letter of the same key when this one was to be created."""
        for _ in range(_TRIES):
            if (merged := await self._merged(fresh, failure)) is not None:
                return merged
            former = await get_one(self.letters, fresh.key)
            if former is None:  # it has gone since
                if (created := await write_one(self.letters, fresh)) is not None:
                    return Captured(created, How.CREATED)
                continue
            if former.is_open:
                continue
            before, successor = lifecycle.next_generation(former, fresh)
            await write_one(self.history, before)  # there already: somebody else is about to do the same
            if (reopened := await write_one(self.letters, successor)) is not None:
                return Captured(reopened, How.REOPENED)
        raise _unlucky(fresh.key)

    async def _merged(self, fresh: DeadLetter, failure: Failure) -> Captured | None:
        """The open letter with one more occurrence; None if there is no open letter.

        In this process one after the other: of many who read the same letter at once only one could write it.
        """
        key = fresh.key
        line = self._lines.setdefault(key, _Line())
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
                        return Captured(merged, How.MERGED)
                raise _unlucky(key)
        finally:
            line.length -= 1
            if not line.length:
                self._lines.pop(key, None)


def _unlucky(key: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"letter {key!r} was changed by others {_TRIES} times in a row while a failure was captured"
    )

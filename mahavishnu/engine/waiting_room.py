"""The waiting room: failures that could not become letters yet, kept durably until they can.

The automatic path must not lose a failure because the queue is full or its payload too large. Such a letter waits
under its entry id, in the same store, and is let in when there is room.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from mahavishnu.engine.recorder import LetterRecorder
from mahavishnu.model.errors import ItemFailed, QueueFull, StoreError
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Query, Sort
from mahavishnu.stores.base import Collection, Cursor, write_one
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY

log = logging.getLogger(__name__)
WAITING: Kind[FormerLetter] = replace(HISTORY, name="waiting", index="dlq_waiting", lazy=True)
MOST_IN_MEMORY = 1000
_OLDEST_FIRST = Query(sort=(Sort("created_at"),))


class WaitingPlace(StrEnum):
    """Where a letter waits."""

    STORE = "store"
    MEMORY = "memory"  #: the store could not take it: it lasts as long as this process


@dataclass(slots=True)
class WaitingRoom:
    """Keeps letters that wait to be let in. Every process calls `admit` now and then."""

    collection: Collection[FormerLetter]
    recorder: LetterRecorder
    in_memory: list[DeadLetter] = field(default_factory=list)

    async def keep(self, letter: DeadLetter) -> WaitingPlace:
        """Keep the letter until there is room. Raises StoreError if not even this process's memory has room for it."""
        try:
            await write_one(self.collection, FormerLetter.of(letter))
        except StoreError:
            if len(self.in_memory) >= MOST_IN_MEMORY:
                raise
            self.in_memory.append(letter)
            return WaitingPlace.MEMORY
        return WaitingPlace.STORE

    async def write_down(self) -> None:
        """Store what waits in memory only. Raises StoreError while the store cannot be reached."""
        for letter in list(self.in_memory):
            try:
                await write_one(self.collection, FormerLetter.of(letter))
            except ItemFailed as problem:
                log.error("a failure that waits in memory is refused by the store: %s", problem)
            else:
                if letter in self.in_memory:  # otherwise another task does the same at this moment
                    self.in_memory.remove(letter)

    async def count(self) -> int:
        """How many letters wait."""
        return (await self.collection.tally(Query())).total.count + len(self.in_memory)

    async def admit(self, most_bytes: int) -> list[DeadLetter]:
        """Let in letters as far as there is room, the oldest first; a payload over `most_bytes` goes on waiting."""
        await self.write_down()
        admitted: list[DeadLetter] = []
        after: Cursor | None = None
        while True:
            page = await self.collection.find(_OLDEST_FIRST, after)
            for waiting in page.items:
                if len(waiting.payload.text) > most_bytes:
                    continue
                try:
                    admitted += await self._admit_one(waiting)
                except QueueFull:
                    return admitted
                except StoreError as problem:  # a letter that cannot be read or written does not hold up the others
                    log.debug("letter %r has to wait on: %s", waiting.task_id, problem)
                except Exception:
                    log.exception("letter %r cannot be let in and waits on", waiting.task_id)
                else:
                    await self.collection.remove([waiting])
            if page.next is None:
                return admitted
            after = page.next

    async def _admit_one(self, waiting: FormerLetter) -> list[DeadLetter]:
        stored = (await self.recorder.take_in(as_letter(waiting))).stored
        return [] if stored is None else [stored]


def as_letter(waiting: FormerLetter) -> DeadLetter:
    """The letter that waits, as it was when it came."""
    values = {each.name: getattr(waiting, each.name) for each in fields(DeadLetter)}
    return DeadLetter(**{**values, "version": None})

"""Finds stored records that cannot be read: each stays where it is, and hides no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from mahavishnu.archive.partitions import Partitions
from mahavishnu.archive.records import ArchivedLetter, PartitionState
from mahavishnu.archive.task_records import ArchivedTask
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model.errors import CorruptRecord, InvalidInput
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, find_pages, home_of, is_home_away
from mahavishnu.stores.kinds import stored_kinds


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that cannot be read: its kind and key, and why."""

    kind: str
    key: str
    why: str


class UnreadableRecords(list[UnreadableRecord]):
    """Records that cannot be read; `degraded` names what was not looked at, and is None for the whole."""

    degraded: str | None = None


class Integrity:
    """Looks through everything that a store has, of all namespaces."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    async def find_unreadable(self, limit: int = 1000) -> UnreadableRecords:
        """Return the records that cannot be read, at most `limit`. It reads every record once, page by page.

        In the archive also copies whose checksum differs are found. Raises InvalidInput, and StoreError while the store
        gives no answer.

        >>> (await dlq.integrity.find_unreadable())[0].why  # doctest: +SKIP
        "it has no 'task_id'"
        """
        if type(limit) is not int or not 1 <= limit <= 100_000:
            raise InvalidInput(f"limit is a whole number from 1 to 100000, not {limit!r:.80}")
        await self._context.require("find unreadable", "store")
        await self._context.open()
        found = UnreadableRecords()
        async for name, collection in self._collections(found):
            async for page in find_pages(collection, Query()):
                found.degraded = found.degraded or page.degraded
                found += [
                    UnreadableRecord(name, problem.key, problem.reason)
                    if isinstance(problem, CorruptRecord)
                    else UnreadableRecord(name, "", str(problem))
                    for problem in page.corrupt
                ]
                found += [
                    UnreadableRecord(name, copy.key, "its checksum differs from what was written")
                    for copy in page.items
                    if isinstance(copy, ArchivedLetter | ArchivedTask) and not copy.is_intact()
                ]
                if len(found) >= limit:
                    del found[limit:]
                    return found
        return found

    async def _collections(self, found: UnreadableRecords) -> AsyncIterator[tuple[str, Collection[Any]]]:
        """Yield everything that can be read now, by name."""
        store = self._context.store
        for kind in (*stored_kinds(), WAITING):
            yield kind.name, store.collection(kind)
        if is_home_away(store):
            found.degraded = found.degraded or "the archive is out of reach"
            return
        places = Partitions(home_of(store), self._context.clock)
        partitions = await places.every()
        for each in partitions:
            if each.state is PartitionState.ATTACHED:
                yield f"archive {each.name}", places.letters(each.name)
                if each.has_tasks:
                    yield f"archived tasks {each.name}", places.tasks(each.name)
        if detached := [each.name for each in partitions if each.state is PartitionState.DETACHED]:
            found.degraded = found.degraded or f"detached partitions were not read: {', '.join(detached)}"

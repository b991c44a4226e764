"""The partitions of the archive: which there are, and which one takes the letters of a month."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from mahavishnu.archive.records import (
    ARCHIVE_PARTITIONS,
    ARCHIVED_LETTERS,
    ARCHIVED_TASKS,
    ArchivedLetter,
    ArchivedTask,
    ArchivePartition,
    PartitionState,
    archive_kind,
)
from mahavishnu.archive.rules import may_hold, partition_name
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.telemetry import Meters
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import CorruptRecord, IllegalMove, NoSuchPartition, StoreError, StoreUnavailable
from mahavishnu.model.query import Condition, Query, Sort
from mahavishnu.stores.base import (
    Collection,
    Cursor,
    Page,
    Store,
    get_one,
    home_of,
    is_home_away,
    pages,
    require_partitions,
    scan,
    update_with_retry,
    write_with_retry,
)
from mahavishnu.stores.kind import Kind, foreign_cursor

_LATEST_FIRST = Query((), (Sort("month", descending=True), Sort("made_at", descending=True)))
_ASKED = 500
C = TypeVar("C", ArchivedLetter, ArchivedTask)


@dataclass(frozen=True, slots=True)
class CopyLine(Generic[C]):
    """A copy in a list, with its partition."""

    partition: str
    copy: C

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that lists show."""
        return {**{name: getattr(self.copy, name) for name in self.copy.listed}, "partition": self.partition}


@dataclass(frozen=True, slots=True)
class CopyPage(Generic[C]):
    """A part of what partitions have, the latest one first; `next` begins the next page."""

    items: Sequence[CopyLine[C]]
    next: Cursor | None = None
    corrupt: tuple[StoreError, ...] = ()
    degraded: str | None = None


def require_home(context: QueueContext) -> Store:
    """Return the shared store, which has the archive. Raise StoreUnavailable where it is away."""
    if is_home_away(context.store):
        raise StoreUnavailable("the archive is in the store that all processes share, which is out of reach")
    return home_of(context.store)


class Partitions:
    """The partitions of the archive in the shared store `home`."""

    def __init__(self, home: Store, clock: Clock, meters: Meters | None = None) -> None:
        self.home, self._clock, self._meters = home, clock, meters or Meters()
        self._partitions = home.collection(ARCHIVE_PARTITIONS)

    def letters(self, partition: str) -> Collection[ArchivedLetter]:
        """Return the letters in a partition."""
        return self.home.collection(archive_kind(ARCHIVED_LETTERS, partition))

    def tasks(self, partition: str) -> Collection[ArchivedTask]:
        """Return the lifecycle tasks in a partition that has some."""
        return self.home.collection(archive_kind(ARCHIVED_TASKS, partition))

    async def every(self) -> list[ArchivePartition]:
        """Return all partitions, including detached ones, the latest month first."""
        names = [partition.name async for partition in scan(self._partitions, _LATEST_FIRST)]
        there = await self._partitions.get(names)  # a search may be behind, and what was detached cannot be read
        return [each for each in there if isinstance(each, ArchivePartition)]

    async def find_attached(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> list[ArchivePartition]:
        """Return the partitions that may have letters of this time, the latest month first."""
        return [
            each
            for each in await self.every()
            if each.state is PartitionState.ATTACHED and may_hold(each.month, since, until)
        ]

    async def provide(self, month: str) -> ArchivePartition:
        """Return an attached partition that takes this month's letters; create one if there is none."""
        try:
            return await self._provide(month)
        except Exception:
            self._meters.count("mahavishnu_partition_creation_failures_total")
            raise

    async def _provide(self, month: str) -> ArchivePartition:
        number = 0
        while True:
            number += 1
            name = partition_name(month, number)

            async def make(there: ArchivePartition | None, name: str = name) -> ArchivePartition | None:
                if there is not None:
                    return None
                await self.letters(name).write([])  # the place before its name: what is listed can be read
                return ArchivePartition(name, month, self._clock.now())

            there, written = await write_with_retry(self._partitions, name, make, what="partition")
            if written is not None:
                self._meters.count("mahavishnu_partitions_created_total")
            found = written or there
            if found is not None and found.state is PartitionState.ATTACHED:
                return found

    async def provide_for_tasks(self, month: str) -> ArchivePartition | None:
        """Return a partition for lifecycle tasks, marked as having some; None if it was detached."""
        partition = await self.provide(month)

        def mark(there: ArchivePartition) -> ArchivePartition:
            is_due = there.state is PartitionState.ATTACHED and not there.has_tasks
            return replace(there, has_tasks=True) if is_due else there

        update = await update_with_retry(self._partitions, partition.name, mark, what="partition", known=partition)
        return update.after if update is not None and update.after.has_tasks else None

    async def note_export(self, partition: str, namespace: str, step: int) -> bool:
        """Note that letters of it may be in this step of the exports. False if somebody has detached it meanwhile."""

        def note(there: ArchivePartition) -> ArchivePartition:
            if there.state is not PartitionState.ATTACHED or there.exported.get(namespace, 0) >= step:
                return there
            return replace(there, exported={**there.exported, namespace: step})

        update = await update_with_retry(self._partitions, partition, note, what="partition")
        return update is not None and update.after.state is PartitionState.ATTACHED

    async def confirm(self, partition: ArchivePartition) -> bool:
        """Count a batch whose copies are all in the partition. False if somebody has detached it since `provide`."""

        def count(there: ArchivePartition) -> ArchivePartition:
            return replace(there, batches=there.batches + 1) if there.state is PartitionState.ATTACHED else there

        update = await update_with_retry(self._partitions, partition.name, count, what="partition", known=partition)
        return update is not None and update.after is not update.before

    async def count(self, partition: str) -> int:
        """Return how many copies a partition has."""
        return (await self.letters(partition).tally(Query())).total.count

    async def detach(self, partition: str) -> str:
        """Use the partition no more, and let go of its place. Return where that is. Raise NoSuchPartition."""
        places = require_partitions(self.home)
        await self._switch(partition, PartitionState.DETACHED)
        names = [await places.detach(kind) for kind in _kinds_of(await self._require(partition))]
        return " and ".join(dict.fromkeys(names))

    async def attach(self, partition: str) -> None:
        """Use a partition again that was detached; age does not detach it any more. Raise NoSuchPartition."""
        places = require_partitions(self.home)
        for kind in _kinds_of(await self._require(partition)):
            await places.attach(kind)
        await self._switch(partition, PartitionState.ATTACHED)

    async def drop(self, partition: str) -> None:
        """Remove a detached partition with all that is in it. Raise NoSuchPartition, and IllegalMove if it is used."""
        there = await self._require(partition)
        if there.state is not PartitionState.DETACHED:
            raise IllegalMove(partition, "drop", str(there.state), "detach it first", what="partition")
        for kind in _kinds_of(there):
            await require_partitions(self.home).drop(kind)
        await self._partitions.remove([there])

    async def _switch(self, partition: str, state: PartitionState) -> None:
        detached = state is PartitionState.DETACHED

        def switch(there: ArchivePartition) -> ArchivePartition:
            if there.state is state:
                return there
            return replace(there, state=state, detached_at=self._clock.now() if detached else None, kept=not detached)

        if await update_with_retry(self._partitions, partition, switch, what="partition") is None:
            raise NoSuchPartition(partition)

    async def _require(self, partition: str) -> ArchivePartition:
        if (there := await get_one(self._partitions, partition)) is None:
            raise NoSuchPartition(partition)
        return there

    async def find_copies(
        self, entry_ids: Sequence[str], month: str | None = None, *, unreadable: dict[str, str] | None = None
    ) -> dict[str, list[ArchivedLetter]]:
        """Return the copies under these ids by partition, of one `month` or of all. Raise StoreError.

        Given a dict `unreadable`, put there the ids of unreadable copies with the reason, instead of raising.
        """
        found: dict[str, list[ArchivedLetter]] = {}
        partitions = await self.find_attached() if entry_ids else []
        for partition in partitions:
            if month not in (None, partition.month):
                continue
            for start in range(0, len(entry_ids), _ASKED):
                there = await self.letters(partition.name).get(entry_ids[start : start + _ASKED])
                for copy in there:
                    if unreadable is not None and isinstance(copy, CorruptRecord):
                        unreadable[copy.key] = str(copy)
                    elif isinstance(copy, StoreError):
                        raise copy
                    elif copy is not None:
                        found.setdefault(partition.name, []).append(copy)
        return found

    async def find_tasks(self, *where: Condition, readable: bool = False) -> dict[str, list[ArchivedTask]]:
        """Return the matching copies of tasks by partition. With `readable`, skip corrupt ones. Raise StoreError."""
        found: dict[str, list[ArchivedTask]] = {}
        for partition in await self.find_attached():
            if partition.has_tasks:
                copies = self.tasks(partition.name)
                if readable:
                    own = [copy async for page in pages(copies, Query(where)) for copy in page]
                else:
                    own = [copy async for copy in scan(copies, Query(where))]
                if own:
                    found[partition.name] = own
        return found


async def find_in_partitions(
    names: Iterable[str],
    limit: int,
    after: Cursor | None,
    find: Callable[[str, int, Cursor | None], Awaitable[tuple[Sequence[C], Page[C]]]],
) -> CopyPage[C]:
    """Return a page of what `find` finds in these partitions, the latest one first. Raise InvalidQuery.

    `find` takes a partition, the number of copies wanted, and the cursor in it. It returns a page, and the copies of it
    that count.
    """
    first, inner = _position(after)
    items: list[CopyLine[C]] = []
    corrupt: list[StoreError] = []
    left = sorted((name for name in names if first is None or name <= first), reverse=True)
    for place, name in enumerate(left, 1):
        cursor = inner if name == first else None
        while len(items) < limit:
            copies, page = await find(name, limit - len(items), cursor)
            items += [CopyLine(name, copy) for copy in copies]
            corrupt += page.corrupt
            if (cursor := page.next) is None:
                break
        if cursor is not None:
            return CopyPage(items, Cursor((name, str(cursor))), tuple(corrupt))
        if len(items) >= limit and place < len(left):
            return CopyPage(items, Cursor((left[place], "")), tuple(corrupt))
    return CopyPage(items, None, tuple(corrupt))


def _position(after: Cursor | None) -> tuple[str | None, Cursor | None]:
    """Return the partition where a page begins, and the cursor in it. Raise InvalidQuery."""
    if after is None:
        return None, None
    match after.after:
        case (str() as name, str() as inner):
            return name, Cursor.parse(inner) if inner else None
    raise foreign_cursor()


def _kinds_of(partition: ArchivePartition) -> list[Kind[Any]]:
    """Return the kinds of records in a partition."""
    letters, tasks = archive_kind(ARCHIVED_LETTERS, partition.name), archive_kind(ARCHIVED_TASKS, partition.name)
    return [letters, tasks] if partition.has_tasks else [letters]

"""The partitions of the archive, and the copies in them: written and verified, found, and restored to the queue.

A copy counts once its original has left the queue. Restoring puts back what belongs to a letter first, then the letter,
by one compare-and-set. Its copy stays in the partition, and does not count while the letter is in the queue. It says
since when, so that the letter is not archived again at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

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
from mahavishnu.archive.rules import is_archived, may_hold, partition_name
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.telemetry import Meters
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import (
    CorruptRecord,
    IllegalMove,
    NoSuchLetter,
    NoSuchPartition,
    StoreError,
    StoreUnavailable,
    require_answers,
)
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.query import ALL_NAMESPACES, Between, Condition, Is, Query, Sort
from mahavishnu.model.record import Value
from mahavishnu.model.tombstones import is_folded
from mahavishnu.stores.base import (
    Collection,
    Cursor,
    Store,
    get_one,
    home_of,
    is_home_away,
    is_same_version,
    pages,
    require_partitions,
    scan,
    update_with_retry,
    write_one,
    write_with_retry,
)
from mahavishnu.stores.kind import Kind, Record, foreign_cursor
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import Revision
from mahavishnu.stores.scoped import SCOPED_FIELDS, NamespaceRecords

# --- which partitions there are, and which one takes the letters of a month

_LATEST_MONTH_FIRST = Query((), (Sort("month", descending=True), Sort("made_at", descending=True)))
_ASKED = 500
A = TypeVar("A", ArchivedLetter, ArchivedTask)


class CopyLine(Value, Generic[A], frozen=True):
    """A copy in a list, with its partition."""

    partition: str
    copy: A

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that lists show."""
        return {**{name: getattr(self.copy, name) for name in self.copy.listed}, "partition": self.partition}


class CopyPage(Value, Generic[A], frozen=True):
    """A part of what partitions have, the latest one first; `next` begins the next page."""

    items: Sequence[CopyLine[A]]
    next: Cursor | None = None
    corrupt: tuple[StoreError, ...] = ()
    degraded: str | None = None


class ListPart(NamedTuple):
    """The part of a list that is asked for: what was closed from `since` on and before `until`, after this cursor."""

    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
    after: Cursor | None = None


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
        names = [partition.name async for partition in scan(self._partitions, _LATEST_MONTH_FIRST)]
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
        """Return copies by partition, of a `month` or all. Put bad ones into `unreadable`, or raise StoreError."""
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
    partitions: Iterable[ArchivePartition],
    copies_of: Callable[[str], NamespaceRecords[A]],
    only_effective: Callable[[Sequence[A]], Awaitable[Sequence[A]]],
    where: tuple[Condition, ...],
    part: ListPart,
) -> CopyPage[A]:
    """Return a page of the copies that count in these partitions, the latest one first. Raise InvalidQuery."""
    limit = part.limit
    if part.since is not None or part.until is not None:
        where = (*where, Between("closed_at", at_least=part.since, below=part.until))
    first, inner = _position(part.after)
    items: list[CopyLine[A]] = []
    corrupt: list[StoreError] = []
    names = [each.name for each in partitions]
    left = sorted((name for name in names if first is None or name <= first), reverse=True)
    for place, name in enumerate(left, 1):
        cursor = inner if name == first else None
        while len(items) < limit:
            page = await copies_of(name).find(Query(where, _LATEST_FIRST, limit - len(items)), cursor)
            items += [CopyLine(name, copy) for copy in await only_effective(page.items)]
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


# --- copies, written and compared

_TRIES = 10
_LATEST_FIRST = (Sort("closed_at", descending=True),)


class Copy(Record, Protocol):
    """A record that holds others as they were."""

    def has_same_content(self, other: Any) -> bool: ...
    def over(self, there: Any) -> Any: ...


R = TypeVar("R", bound=Record)
C = TypeVar("C", bound=Copy)


class CopySource(Generic[R, C]):
    """The copies to write as `wanted`, and their originals, by the keys of their copies."""

    def __init__(self, records: Collection[R], originals: Mapping[str, R], wanted: Sequence[C] = ()) -> None:
        self.wanted = wanted
        self._records, self._originals = records, originals

    async def find_changed(self) -> set[str]:
        """Return the keys of the originals that have changed since they were read."""
        there = await self._records.get([each.key for each in self._originals.values()])
        pairs = zip(self._originals.items(), there, strict=True)
        return {key for (key, each), now in pairs if not is_same_version(each, now)}

    async def find_protected(self, there: Sequence[C]) -> set[str]:
        """Return the keys of the copies that must stay as they are: of changed originals at least."""
        return await self.find_changed()

    def merge(self, copy: C, there: C) -> C:
        """Return the copy in the place of an earlier one. Raise CorruptRecord."""
        merged: C = copy.over(there)
        return merged


class CopyResult(Struct, Generic[C]):
    """The copies that the store has as they were made, and why others are not there, both by their keys."""

    sure: dict[str, C] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


async def copy_verified(copies: Collection[C], source: CopySource[Any, C]) -> CopyResult[C]:
    """Write the copies, over what an interrupted pass left, and compare what is there then. Raise StoreError.

    Protected copies are in neither part of the result. A copy is always written anew: a process that withdraws its own
    can then not remove that of another one.
    """
    result = CopyResult[C]()
    written = await _write(copies, source, result)
    found = await copies.get(list(written)) if written else []
    for (key, copy), there in zip(written.items(), found, strict=True):
        if isinstance(there, StoreError):
            result.failed[key] = str(there)
        elif there is None or not there.has_same_content(copy):
            result.failed[key] = "its copy in the archive is not what was written; the original stays where it is"
        else:
            result.sure[key] = copy
    return result


async def _write(copies: Collection[C], source: CopySource[Any, C], result: CopyResult[C]) -> dict[str, C]:
    written: dict[str, C] = {}
    waiting = list(source.wanted)
    for _ in range(_TRIES):  # a loop of its own: the source is asked once about all copies there, after they were read
        taken: list[C] = []
        for copy, stored in zip(waiting, await copies.write(waiting), strict=True):
            if isinstance(stored, StoreError):
                result.failed[copy.key] = str(stored)
            elif stored is None:
                taken.append(copy)
            else:
                written[copy.key] = stored
        waiting = []
        found = await copies.get([each.key for each in taken]) if taken else []
        there_now = [there for there in found if there is not None and not isinstance(there, StoreError)]
        protected = await source.find_protected(there_now) if there_now else ()
        for copy, there in zip(taken, found, strict=True):
            if isinstance(there, StoreError):
                result.failed[copy.key] = str(there)
            elif there is None:
                waiting.append(replace(cast("Any", copy), version=None))
            elif there.key not in protected:
                try:
                    waiting.append(source.merge(copy, there))
                except CorruptRecord as problem:  # what only that one has would be lost
                    result.failed[copy.key] = f"{problem}; the original stays where it is"
        if not waiting:
            break
    for copy in waiting:
        result.failed[copy.key] = f"its copy was changed by others {_TRIES} times in a row"
    return written


async def remove_all(records: Collection[R], gone: Sequence[R]) -> list[bool]:
    """Remove these records. Raise the first StoreError."""
    return require_answers(await records.remove(gone) if gone else ())


# --- letters in the archive: found, and restored

ArchivedLine: TypeAlias = CopyLine[ArchivedLetter]
ArchivePage: TypeAlias = CopyPage[ArchivedLetter]


class ArchivedCase(Value, frozen=True):
    """A letter in the archive with its former letters, the latest first, revisions, and archived `tasks`."""

    line: ArchivedLine
    letter: DeadLetter
    former: list[FormerLetter]
    revisions: list[Revision]
    tasks: Sequence[ArchivedTask] = ()


class ArchiveReader:
    """The archived letters of one namespace, or of all."""

    def __init__(self, context: QueueContext) -> None:
        home = require_home(context)
        self.partitions = Partitions(home, context.clock)
        self._namespace, self._scope = context.namespace, context.scope
        self._letters, self._history = home.collection(LETTERS), home.collection(HISTORY)

    async def find(self, where: tuple[Condition, ...], part: ListPart) -> ArchivePage:
        """Return a page of letters, from the partitions of the time that is asked for."""

        def copies_of(name: str) -> NamespaceRecords[ArchivedLetter]:
            letters = self.partitions.letters(name)
            return NamespaceRecords(letters, self._namespace, scope=self._scope, fields=SCOPED_FIELDS)

        attached = await self.partitions.find_attached(part.since, part.until)
        return await find_in_partitions(attached, copies_of, self.only_effective, where, part)

    async def only_effective(self, copies: Sequence[ArchivedLetter]) -> list[ArchivedLetter]:
        """Return the copies whose letters have left the queue."""
        if not copies:
            return []
        there = await self._letters.get([copy.letter_key for copy in copies])
        former = await self._history.get([copy.entry_id for copy in copies])
        counting: list[ArchivedLetter] = []
        for copy, current, old in zip(copies, there, former, strict=True):
            for problem in (current, old):
                if isinstance(problem, StoreError) and not isinstance(problem, CorruptRecord):
                    raise problem
            if isinstance(current, StoreError) or is_archived(copy.entry_id, current, old is not None):
                counting.append(copy)
        return counting

    async def find_lines(self, name: str, queue: str | None = None) -> list[ArchivedLine]:
        """Return the archived letters with this entry id or task id, the latest first."""
        lines: list[ArchivedLine] = []
        for partition, copies in (await self.partitions.find_copies([name])).items():
            lines += [CopyLine(partition, copy) for copy in await self.only_effective(copies)]
        if not lines:
            where: tuple[Condition, ...] = (Is("task_id", (name,)),)
            lines += (await self.find(where, ListPart())).items
        mine = [line for line in lines if self._namespace in (ALL_NAMESPACES, line.copy.namespace)]
        mine = [line for line in mine if self._scope is None or self._scope.covers_record(line.copy)]
        return [line for line in mine if queue in (None, line.copy.queue)]


def read_case(line: ArchivedLine, tasks: Sequence[ArchivedTask] = ()) -> ArchivedCase:
    """Return the letter of a line with all that belongs to it. Raise CorruptRecord."""
    copy = line.copy
    copy.require_intact()
    return ArchivedCase(line, copy.read_letter(), copy.read_former(), copy.read_revisions(), tasks)


async def restore_letter(context: QueueContext, line: ArchivedLine) -> DeadLetter:
    """Put the letter of this line back into the queue, as it was. Raise IllegalMove, NoSuchLetter and StoreError."""
    home, key = home_of(context.store), line.copy.letter_key
    letters, history = home.collection(LETTERS), home.collection(HISTORY)
    made: list[tuple[Collection[Any], list[Any]]] = []
    for _ in range(_TRIES):  # a loop of its own: each turn puts back records of three kinds, or takes them away again
        current = await get_one(letters, key)
        try:
            _refuse_if_taken(line.copy, current)
            case = await _mark_copy(context, line)
            if current is not None and not is_folded(current):
                current = await _claim(letters, case, current)
                if current is None:
                    continue
            belongings: list[tuple[Kind[Any], list[Any]]] = [(HISTORY, case.former), (REVISIONS, case.revisions)]
            made += [(there := home.collection(kind), await _keep(there, own)) for kind, own in belongings]
            if (stored := await _put_back(context, letters, case.letter, current)) is not None:
                return stored
        except (IllegalMove, NoSuchLetter):
            if _stays_away(line.copy, await get_one(letters, key)) and await get_one(history, line.copy.key) is None:
                for collection, records in made:
                    await collection.remove(records)
            raise
    raise StoreUnavailable(f"letter {key!r} was changed by others {_TRIES} times in a row")


async def _mark_copy(context: QueueContext, line: ArchivedLine) -> ArchivedCase:
    """Mark the copy as restored. Return the case as the archive has it then."""
    copies, now = Partitions(home_of(context.store), context.clock).letters(line.partition), context.clock.now()
    marked = await update_with_retry(
        copies, line.copy.entry_id, lambda copy: replace(copy, restored_at=now), what="archived letter"
    )
    if marked is None:
        raise NoSuchLetter(line.copy.letter_key)
    return read_case(CopyLine(line.partition, marked.after))


async def _claim(letters: Collection[DeadLetter], case: ArchivedCase, tombstone: DeadLetter) -> DeadLetter | None:
    """Write the tombstone again before anything is put back. Return None if it has changed.

    A process that still removes what belongs to the letter stops at that. If this process dies now, the next clean-up
    removes the former letters: the tombstone names one of them, as while they are still to be removed.
    """
    former = case.former[0].entry_id if case.former else tombstone.previous_entry_id
    return await write_one(letters, evolve(tombstone, previous_entry_id=former))


def _stays_away(copy: ArchivedLetter, current: DeadLetter | None) -> bool:
    """Return whether the letter cannot be restored any more: its key is taken, or it was deleted."""
    if current is None:
        return False
    return current.entry_id != copy.entry_id or (current.is_deleted and current.archived_at is None)


async def _keep(collection: Collection[Any], records: list[Any]) -> list[Any]:
    """Create what is not there, and write the rest again: who is removing it loses. Return what was created."""
    made: list[Any] = []
    for record in records:

        def keep_first(there: Any, record: Any = record) -> Any:
            return there or record

        there, written = await write_with_retry(collection, record.key, keep_first, what="record")
        made += [written] if there is None else []
    return made


async def _put_back(
    context: QueueContext, letters: Collection[DeadLetter], letter: DeadLetter, tombstone: DeadLetter | None
) -> DeadLetter | None:
    """Store the letter under its key, with its kept numbers. Return None if another process was quicker."""
    if tombstone is None:
        return await Ledger(context).take_back(letter)
    if is_folded(tombstone):  # its numbers are on the way into a day's sum
        await Ledger(context).settle(letter.namespace)
        return None
    # More may have come home meanwhile.
    names = ("generation", "tallies", "absorbed", "merged", "counted", "version")
    return await write_one(letters, evolve(letter, **{name: getattr(tombstone, name) for name in names}))


def _refuse_if_taken(copy: ArchivedLetter, current: DeadLetter | None) -> None:
    """Raise IllegalMove where something else has the letter's key, NoSuchLetter where somebody deleted it."""
    if current is None:
        return
    if not current.is_deleted:
        why = "it is no longer in the archive"
        if current.entry_id != copy.entry_id:
            why = f"its task failed again, and entry {current.entry_id} has its place"
        raise IllegalMove(copy.letter_key, "restore", f"{current.status} in the queue", why)
    if current.entry_id != copy.entry_id:
        why = f"its task failed again, and entry {current.entry_id}, which is gone too, is still remembered"
        raise IllegalMove(copy.letter_key, "restore", "archived", why)
    if current.archived_at is None:
        raise NoSuchLetter(copy.letter_key)

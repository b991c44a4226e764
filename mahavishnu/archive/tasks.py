"""Archived lifecycle tasks: moved into the archive with all their moves, and found there.

A task is copied, compared, then removed. Removing the unchanged task is the decision: until then its copy does not
count. Its moves that are records of their own go after it; the copy says how many are left, so that another process
goes on where one has died.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from mahavishnu.archive.partitions import (
    ArchiveReader,
    CopyPage,
    CopySource,
    ListPart,
    Partitions,
    copy_verified,
    find_in_partitions,
    read_case,
    remove_all,
    require_home,
)
from mahavishnu.archive.records import ArchivedLetter, ArchivedTask, archived_task_key
from mahavishnu.archive.rules import leaving_tasks, month_of
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import CorruptRecord, NoSuchTask, StoreError, require_answers
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import ALL_NAMESPACES, Between, Condition, Is, Query
from mahavishnu.model.record import Value
from mahavishnu.model.rules import RetentionRules
from mahavishnu.model.work import task_of
from mahavishnu.stores.base import Collection, pages
from mahavishnu.stores.scoped import NamespaceRecords
from mahavishnu.tasks.records import TASKS, TRANSITIONS
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import OldTransition, TaskRecord, as_old_transition

_LEFT = Between("left", at_least=1)
_SCOPED = frozenset({"namespace", "queue"})
_LOOKED_AT = 500  # tasks of one page, where nothing is archived yet


class TaskArchiving:
    """One go at archiving lifecycle tasks, in the store that all processes share."""

    def __init__(self, context: QueueContext, rules: RetentionRules, partitions: Partitions) -> None:
        self._context, self._clock, self._rules, self._places = context, context.clock, rules, partitions
        self._tasks = NamespaceRecords(partitions.home.collection(TASKS), context.namespace)
        self._transitions = partitions.home.collection(TRANSITIONS)
        self.failed: dict[str, str] = {}

    async def run(self, batch_size: int, *, dry_run: bool) -> int:
        """Archive the due tasks in batches; return how many left, or would leave, and `failed`. Raise StoreError."""
        if not dry_run:
            await self.finish()
        if (query := leaving_tasks(self._rules, self._clock.now(), batch_size)) is None:
            return 0
        count = 0
        async for page in pages(self._tasks, query):
            months: dict[str, list[TaskRecord]] = defaultdict(list)
            for task in await self._find_leaving(page):
                months[month_of(task.state_entered_at)].append(task)
            for month, tasks in months.items():
                count += len(tasks) if dry_run else await self._archive(month, tasks)
        return count

    async def _find_leaving(self, tasks: Sequence[TaskRecord]) -> list[TaskRecord]:
        """Return those of these tasks that no letter may go on with."""
        needed = await Lifecycle(self._context).handover.find_needed(tasks)
        return [task for task in tasks if task.task_id not in needed]

    async def has_work(self) -> bool:
        """Return whether anything is to be done."""
        query = leaving_tasks(self._rules, self._clock.now(), 1)
        if query is not None and (await self._tasks.find(query)).items:
            async for page in pages(self._tasks, replace(query, limit=_LOOKED_AT)):
                if await self._find_leaving(page):
                    return True
        return bool(await self._places.find_tasks(_LEFT, readable=True))

    async def finish(self) -> None:
        """Remove the moves that are left of tasks that a process had archived which then died."""
        for partition, copies in (await self._places.find_tasks(_LEFT, readable=True)).items():
            await self._remove_moves(self._places.tasks(partition), await self.only_effective(copies))

    async def only_effective(self, copies: Sequence[ArchivedTask]) -> list[ArchivedTask]:
        """Return the copies whose tasks are gone; a task made again under the same id is another one."""
        there = require_answers(await self._tasks.get([copy.task_id for copy in copies]) if copies else ())
        pairs = zip(copies, there, strict=True)
        return [copy for copy, task in pairs if task is None or archived_task_key(task) != copy.key]

    async def _archive(self, month: str, tasks: Sequence[TaskRecord]) -> int:
        """Copy, compare, and let the tasks leave. Return how many left."""
        partition = await self._places.provide_for_tasks(month)
        if partition is None:
            return 0
        copies, now = self._places.tasks(partition.name), self._clock.now()
        moves = await self._find_moves(tasks)
        wanted = [ArchivedTask.of(task, moves.get(task.task_id, []), now) for task in tasks]
        originals = {archived_task_key(task): task for task in tasks}
        copied = await copy_verified(copies, CopySource(self._tasks, originals, wanted))
        self.failed |= copied.failed
        sure = [task for key, task in originals.items() if key in copied.sure]
        if not sure or not await self._places.confirm(partition):
            return 0
        gone: list[ArchivedTask] = []
        lost: list[ArchivedTask] = []
        for task, removed in zip(sure, await self._tasks.remove(sure), strict=True):
            copy = copied.sure[archived_task_key(task)]
            if isinstance(removed, StoreError):
                self.failed[copy.key] = str(removed)
            else:
                (gone if removed else lost).append(copy)
        if lost:  # somebody changed them, or another process has archived them
            counting = {copy.key for copy in await self.only_effective(lost)}
            await copies.remove([copy for copy in lost if copy.key not in counting])
        await self._remove_moves(copies, [copy for copy in gone if copy.left])
        return len(gone)

    async def _find_moves(self, tasks: Sequence[TaskRecord]) -> dict[str, list[OldTransition]]:
        """Return the moves of these tasks that are records of their own, by task, the oldest first."""
        found: dict[str, list[OldTransition]] = defaultdict(list)
        first = {
            task.task_id: task.transition_count - len(task.transitions) + 1
            for task in tasks
            if task.transition_count > len(task.transitions)
        }
        if first:
            async for page in pages(self._transitions, Query((Is("task_id", tuple(first)),))):
                for move in page:
                    if move.number < first[move.task_id]:
                        found[move.task_id].append(move)
        return {task_id: sorted(own, key=lambda move: move.number) for task_id, own in found.items()}

    async def _remove_moves(self, copies: Collection[ArchivedTask], archived: Sequence[ArchivedTask]) -> None:
        """Remove the moves that these copies hold from where they were, and note that none is left."""
        if not archived:
            return
        own: dict[str, OldTransition] = {}
        read: list[ArchivedTask] = []
        for copy in archived:
            try:
                copy.require_intact()
                own |= {move.key: move for move in copy.read_transitions()}
                read.append(copy)
            except CorruptRecord as problem:
                self.failed[copy.key] = f"{problem}; the task's moves stay where they are"
        there = await self._transitions.get(list(own))
        same = [move for move in there if isinstance(move, OldTransition) and move == own[move.key]]
        await remove_all(self._transitions, same)
        await copies.write([replace(copy, left=0) for copy in read])


class ArchivedTaskCase(Value, frozen=True):
    """A lifecycle task in the archive with every move of it, the oldest first, and the letter that it had, if any."""

    partition: str
    copy: ArchivedTask
    task: TaskRecord
    transitions: list[OldTransition]
    letter: DeadLetter | None


ArchivedTaskPage: TypeAlias = CopyPage[ArchivedTask]


async def search_task_copies(context: QueueContext, where: tuple[Condition, ...], part: ListPart) -> ArchivedTaskPage:
    """Return a page of tasks, from the partitions of the time that is asked for."""
    places = Partitions(require_home(context), context.clock)
    archiving = TaskArchiving(context, context.rules(RetentionRules), places)

    def copies_of(name: str) -> NamespaceRecords[ArchivedTask]:
        return NamespaceRecords(places.tasks(name), context.namespace, scope=context.scope, fields=_SCOPED)

    attached = [each for each in await places.find_attached(part.since, part.until) if each.has_tasks]
    if context.scope is not None and context.scope.adapters is not None:  # a copy does not name its adapter
        attached = []
    return await find_in_partitions(attached, copies_of, archiving.only_effective, where, part)


async def tasks_of_letter(context: QueueContext, letter: ArchivedLetter) -> list[ArchivedTask]:
    """Return the archived tasks that had this letter, the latest first."""
    found = await _find(context, Is("letter_ids", (letter.task_id,)), Is("namespace", (letter.namespace,)))
    known = task_of(letter.read_letter())
    return [copy for _, copy in found if copy.queue == letter.queue and copy.task_id == known]


async def find_task_case(context: QueueContext, task_id: str) -> ArchivedTaskCase:
    """Return the latest archived task with this id, with all that belongs to it. Raise NoSuchTask."""
    found = await _find(context, Is("task_id", (task_id,)))
    if not found:
        raise NoSuchTask(task_id)
    partition, copy = found[0]
    task = copy.read_task()
    moves = [*copy.read_transitions(), *(as_old_transition(task, each) for each in task.transitions)]
    return ArchivedTaskCase(partition, copy, task, moves, await _find_letter(context, copy))


async def _find(context: QueueContext, *where: Condition) -> list[tuple[str, ArchivedTask]]:
    """Return the matching archived tasks with their partitions, the latest first."""
    places = Partitions(require_home(context), context.clock)
    archiving = TaskArchiving(context, context.rules(RetentionRules), places)
    found: list[tuple[str, ArchivedTask]] = []
    for partition, copies in (await places.find_tasks(*where)).items():
        own = [copy for copy in copies if context.namespace in (ALL_NAMESPACES, copy.namespace)]
        own = [copy for copy in own if context.scope is None or context.scope.covers_record(copy)]
        found += [(partition, copy) for copy in await archiving.only_effective(own)]
    return sorted(found, key=lambda each: each[1].closed_at, reverse=True)


async def _find_letter(context: QueueContext, copy: ArchivedTask) -> DeadLetter | None:
    """Return the letter that the task had, from the queue or from the archive."""
    keys = [context.key(name, copy.namespace, copy.queue) for name in copy.letter_ids]
    for letter in require_answers(await context.letters.records.get(keys)):
        if letter is not None and not letter.is_deleted and task_of(letter) == copy.task_id:
            return letter
    reader = ArchiveReader(context)
    for name in copy.letter_ids:
        lines: Sequence[DeadLetter] = [read_case(line).letter for line in await reader.find_lines(name, copy.queue)]
        for letter in lines:
            if task_of(letter) == copy.task_id:
                return letter
    return None

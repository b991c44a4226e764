"""Finds archived lifecycle tasks: by their own id, by what they were and when they ended, and by their letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mahavishnu.core.queue.archive_places import ArchivePlaces, PartitionsPage, find_in_partitions, require_home
from mahavishnu.core.queue.archive_reads import ArchiveReader, read_case
from mahavishnu.core.queue.task_archiving import TaskArchiving
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letters import NamespaceRecords
from mahavishnu.model.errors import NoSuchTask, StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.namespaces import ALL_NAMESPACES
from mahavishnu.model.query import Between, Condition, Is, Query, Sort
from mahavishnu.model.retention import RetentionRules
from mahavishnu.stores.archived import ArchivedLetter
from mahavishnu.stores.archived_tasks import ArchivedTask
from mahavishnu.stores.base import Cursor
from mahavishnu.tasks.letters import task_of
from mahavishnu.tasks.task import OldTransition, TaskRecord, as_old_transition

_SHOWN = ("task_id", "namespace", "name", "state", "queue", "created_at", "closed_at", "archived_at")
_SCOPED = frozenset({"namespace", "queue"})
_LATEST_FIRST = (Sort("closed_at", descending=True),)


@dataclass(frozen=True, slots=True)
class ArchivedTaskCase:
    """A lifecycle task in the archive with every move of it, the oldest first, and the letter that it had, if any."""

    partition: str
    copy: ArchivedTask
    task: TaskRecord
    transitions: list[OldTransition]
    letter: DeadLetter | None


@dataclass(frozen=True, slots=True)
class ArchivedTaskLine:
    """An archived lifecycle task in a list, with the partition that it is in."""

    partition: str
    copy: ArchivedTask

    def to_dict(self) -> dict[str, Any]:
        """What lists show of it."""
        return {**{name: getattr(self.copy, name) for name in _SHOWN}, "partition": self.partition}


@dataclass(frozen=True, slots=True)
class ArchivedTaskPage:
    """A part of the archived lifecycle tasks, the latest end first; `next` is where the next page begins."""

    items: Sequence[ArchivedTaskLine]
    next: Cursor | None = None
    corrupt: tuple[StoreError, ...] = ()


async def search_task_copies(
    context: QueueContext,
    where: tuple[Condition, ...],
    since: datetime | None,
    until: datetime | None,
    limit: int,
    after: Cursor | None,
) -> ArchivedTaskPage:
    """A page of what ended from `since` on and before `until`: only partitions that can have it are asked."""
    if since is not None or until is not None:
        where = (*where, Between("closed_at", at_least=since, below=until))
    places = ArchivePlaces(require_home(context), context.clock)
    archiving = TaskArchiving(context, context.rules(RetentionRules))

    async def find(name: str, most: int, cursor: Cursor | None) -> PartitionsPage[ArchivedTaskLine]:
        tasks = NamespaceRecords(places.tasks(name), context.namespace, scope=context.scope, fields=_SCOPED)
        page = await tasks.find(Query(where, _LATEST_FIRST, most), cursor)
        lines = [ArchivedTaskLine(name, copy) for copy in await archiving.which_count(page.items)]
        return PartitionsPage(lines, page.next, page.corrupt)

    names = [each.name for each in await places.find_attached(since, until) if each.has_tasks]
    found = await find_in_partitions(names, limit, after, find)
    return ArchivedTaskPage(found.items, found.next, found.corrupt)


async def tasks_of_letter(context: QueueContext, letter: ArchivedLetter) -> list[ArchivedTask]:
    """The archived tasks that had this letter, the latest first."""
    found = await _find(context, Is("letter_ids", (letter.task_id,)), Is("namespace", (letter.namespace,)))
    known = task_of(letter.read_letter())
    return [copy for _, copy in found if copy.queue == letter.queue and copy.task_id == known]


async def find_task_case(context: QueueContext, task_id: str) -> ArchivedTaskCase:
    """The latest archived task with this id, with all that belongs to it. Raises NoSuchTask."""
    found = await _find(context, Is("task_id", (task_id,)))
    if not found:
        raise NoSuchTask(task_id)
    partition, copy = found[0]
    task = copy.read_task()
    moves = [*copy.read_transitions(), *(as_old_transition(task, each) for each in task.transitions)]
    return ArchivedTaskCase(partition, copy, task, moves, await _find_letter(context, copy))


async def _find(context: QueueContext, *where: Condition) -> list[tuple[str, ArchivedTask]]:
    """The archived tasks that are so, with their partitions, the latest first."""
    places = ArchivePlaces(require_home(context), context.clock)
    archiving = TaskArchiving(context, context.rules(RetentionRules))
    found: list[tuple[str, ArchivedTask]] = []
    for partition, copies in (await places.find_tasks(*where)).items():
        own = [copy for copy in copies if context.namespace in (ALL_NAMESPACES, copy.namespace)]
        own = [copy for copy in own if context.scope is None or context.scope.covers_record(copy)]
        found += [(partition, copy) for copy in await archiving.which_count(own)]
    return sorted(found, key=lambda each: each[1].closed_at, reverse=True)


async def _find_letter(context: QueueContext, copy: ArchivedTask) -> DeadLetter | None:
    """The letter that the task had: in the queue, or in the archive."""
    keys = [context.key(name, copy.namespace, copy.queue) for name in copy.letter_ids]
    for letter in await context.letters.records.get(keys):
        if isinstance(letter, StoreError):
            raise letter
        if letter is not None and not letter.is_deleted and task_of(letter) == copy.task_id:
            return letter
    reader = ArchiveReader(context)
    for name in copy.letter_ids:
        lines: Sequence[DeadLetter] = [read_case(line).letter for line in await reader.find_lines(name, copy.queue)]
        for letter in lines:
            if task_of(letter) == copy.task_id:
                return letter
    return None

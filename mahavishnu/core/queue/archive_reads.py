"""What is read in the archive. A copy counts once its letter has left the queue: others nobody is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mahavishnu.core.queue.archive_places import ArchivePlaces, PartitionsPage, find_in_partitions, require_home
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letters import SCOPED_FIELDS, NamespaceRecords
from mahavishnu.model.errors import CorruptRecord, StoreError
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.namespaces import ALL_NAMESPACES
from mahavishnu.model.query import Between, Condition, Is, Query, Sort
from mahavishnu.model.retention import is_archived
from mahavishnu.stores.archived import ArchivedLetter
from mahavishnu.stores.archived_tasks import ArchivedTask
from mahavishnu.stores.base import Cursor
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.retained import Revision

_LATEST_FIRST = (Sort("closed_at", descending=True),)


@dataclass(frozen=True, slots=True)
class ArchivedLine:
    """An archived letter in a list, with the partition that it is in."""

    partition: str
    copy: ArchivedLetter

    def to_dict(self) -> dict[str, Any]:
        """What lists show of it."""
        names = "entry_id task_id namespace queue resolution_status reason error_category fingerprint adapter"
        moments = "created_at closed_at archived_at"
        return {
            **{name: getattr(self.copy, name) for name in names.split()},
            **{name: getattr(self.copy, name) for name in moments.split()},
            "partition": self.partition,
        }


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """A part of the archive, the latest first; `next` is where the next page begins."""

    items: Sequence[ArchivedLine]
    next: Cursor | None = None
    corrupt: tuple[StoreError, ...] = ()
    degraded: str | None = None


@dataclass(frozen=True, slots=True)
class ArchivedCase:
    """A letter in the archive with what went there with it: former letters, the latest first, and revisions.

    `tasks` are the archived lifecycle tasks that it was of.
    """

    line: ArchivedLine
    letter: DeadLetter
    former: list[FormerLetter]
    revisions: list[Revision]
    tasks: Sequence[ArchivedTask] = ()


class ArchiveReader:
    """Finds archived letters of one namespace, or of all."""

    def __init__(self, context: QueueContext) -> None:
        home = require_home(context)
        self.places = ArchivePlaces(home, context.clock)
        self._namespace, self._scope = context.namespace, context.scope
        self._letters, self._history = home.collection(LETTERS), home.collection(HISTORY)

    async def find(
        self,
        where: tuple[Condition, ...],
        since: datetime | None,
        until: datetime | None,
        limit: int,
        after: Cursor | None,
    ) -> ArchivePage:
        """A page of what was closed from `since` on and before `until`: only partitions that can have it are asked."""
        if since is not None or until is not None:
            where = (*where, Between("closed_at", at_least=since, below=until))

        async def find(name: str, most: int, cursor: Cursor | None) -> PartitionsPage[ArchivedLine]:
            letters = NamespaceRecords(self.places.letters(name), self._namespace, False, self._scope, SCOPED_FIELDS)
            page = await letters.find(Query(where, _LATEST_FIRST, most), cursor)
            lines = [ArchivedLine(name, copy) for copy in await self.which_count(page.items)]
            return PartitionsPage(lines, page.next, page.corrupt)

        names = [each.name for each in await self.places.find_attached(since, until)]
        found = await find_in_partitions(names, limit, after, find)
        return ArchivePage(found.items, found.next, found.corrupt)

    async def which_count(self, copies: Sequence[ArchivedLetter]) -> list[ArchivedLetter]:
        """Those whose letters have left the queue."""
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
        """The archived letters with this entry id or task id, the latest first."""
        lines: list[ArchivedLine] = []
        for partition, copies in (await self.places.find_copies([name])).items():
            lines += [ArchivedLine(partition, copy) for copy in await self.which_count(copies)]
        if not lines:
            where: tuple[Condition, ...] = (Is("task_id", (name,)),)
            lines += (await self.find(where, None, None, 100, None)).items
        mine = [line for line in lines if self._namespace in (ALL_NAMESPACES, line.copy.namespace)]
        mine = [line for line in mine if self._scope is None or self._scope.covers_record(line.copy)]
        return [line for line in mine if queue in (None, line.copy.queue)]


def read_case(line: ArchivedLine, tasks: Sequence[ArchivedTask] = ()) -> ArchivedCase:
    """The letter of a line with all that belongs to it. Raises CorruptRecord."""
    copy = line.copy
    copy.require_intact()
    return ArchivedCase(line, copy.read_letter(), copy.read_former(), copy.read_revisions(), tasks)

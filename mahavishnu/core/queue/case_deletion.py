"""Deletes what belongs to one letter: former letters, revisions, copies in the archive, values in the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mahavishnu.core.queue.archive_places import ArchivePlaces
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import StoreError, StoreUnavailable
from mahavishnu.model.ids import document_key
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import AnyOf, Is, Query
from mahavishnu.stores.archived import ArchivedLetter, PartitionState
from mahavishnu.stores.archived_tasks import ArchivedTask
from mahavishnu.stores.base import Collection, get_one, home_of, scan
from mahavishnu.stores.kind import T
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import forget_found_revisions, forget_revisions
from mahavishnu.stores.source_kinds import TASKS, TRANSITIONS
from mahavishnu.tasks.letters import letter_ids_of
from mahavishnu.tasks.task import TERMINAL, TaskRecord

_TRIES = 10


@dataclass(frozen=True, slots=True)
class DeletedCase:
    """What was deleted of one task: its letter, former letters, copies in the archive, and what waited for room.

    Among the copies are those of lifecycle tasks that it was the work of.

    `detached` are partitions of the archive that could not be looked into.
    """

    letters: int
    former: int
    copies: int
    waiting: int
    detached: tuple[str, ...] = ()


class CaseDeletion:
    """Deletes what belongs to letters, in the store that all processes share. Doing it twice is doing it once."""

    def __init__(self, context: QueueContext) -> None:
        home = home_of(context.store)
        self._places, self._letters = ArchivePlaces(home, context.clock), home.collection(LETTERS)
        self._history, self._revisions = home.collection(HISTORY), home.collection(REVISIONS)
        self._tasks, self._transitions = home.collection(TASKS), home.collection(TRANSITIONS)
        self._audit = context.audit

    async def delete(self, key: str, task_id: str, tombstone: DeadLetter | None) -> tuple[int, int]:
        """Delete all that there is of this key, which a `tombstone` has or nobody. Returns how many former ones and
        copies. Raises StoreError.
        """
        # What was written a moment ago no search shows yet.
        known = () if tombstone is None else (tombstone.entry_id, *tombstone.absorbed)
        copies = await self._delete_copies(key, task_id, known)
        tasks = await self._delete_tasks(key, task_id)
        former = [each for each in await self._find(self._history, task_id, known) if _key_of(each) == key]
        later = await self._find_later(key, known)
        await _remove(self._history, former := [each for each in former if each.entry_id not in later])
        ids = [*(each.entry_id for each in former), *(each.entry_id for each in copies)]
        if tombstone is not None:
            await forget_revisions(self._revisions, self._history, [tombstone])
        await forget_found_revisions(self._revisions, self._history, ids)
        await self._audit.forget_contents(f"letter:{key}")
        return len(former), len(copies) + tasks

    async def delete_unfinished_copies(self, entry_ids: Sequence[str]) -> None:
        """Delete copies of these letters from the archive: somebody began to archive them, or took them out."""
        for partition, copies in (await self._places.find_copies(entry_ids)).items():
            await _remove(self._places.letters(partition), copies)

    async def find_detached(self) -> tuple[str, ...]:
        """The partitions of the archive that cannot be looked into."""
        return tuple(each.name for each in await self._places.every() if each.state is PartitionState.DETACHED)

    async def _delete_copies(self, key: str, task_id: str, known: Sequence[str]) -> list[ArchivedLetter]:
        gone: list[ArchivedLetter] = []
        for partition in await self._places.find_attached():
            copies = self._places.letters(partition.name)
            for _ in range(_TRIES):  # a loop of its own: it removes, and searches again: others may make further copies
                found = [each for each in await self._find(copies, task_id, known) if each.letter_key == key]
                later = await self._find_later(key, known)
                found = [each for each in found if each.entry_id not in later]
                if not found or False not in await _remove(copies, found):
                    gone += found
                    break
            else:
                raise StoreUnavailable(f"copies of letter {key!r} were changed by others {_TRIES} times in a row")
        return gone

    async def _find_later(self, key: str, known: Sequence[str]) -> set[str]:
        """The letters that came under the key after what is deleted, which is `known`: nobody asked for these."""
        current = await get_one(self._letters, key)
        return set() if current is None else {current.entry_id, *current.absorbed} - set(known)

    async def _delete_tasks(self, key: str, task_id: str) -> int:
        """Delete lifecycle tasks of this work that have ended, also in the archive. Returns how many were there."""
        work_ids = tuple(filter(None, (task_id, task_id.rpartition("@")[0])))
        asked = (AnyOf((Is("work_id", work_ids), Is("task_id", work_ids))), Is("state", TERMINAL))
        ended = [each async for each in scan(self._tasks, Query(asked))]
        ended = [each for each in ended if task_id in letter_ids_of(each) and _key(task_id, each) == key]
        await _remove(self._tasks, ended)
        for task in ended:
            query = Query((Is("task_id", (task.task_id,)),))
            await _remove(self._transitions, [move async for move in scan(self._transitions, query)])
        count = 0
        for partition, copies in (await self._places.find_tasks(Is("letter_ids", (task_id,)))).items():
            own = [copy for copy in copies if _key(task_id, copy) == key]
            count += (await _remove(self._places.tasks(partition), own)).count(True)
        return count

    async def _find(self, collection: Collection[T], task_id: str, known: Sequence[str]) -> list[T]:
        """What a search shows of a task, and what is under the keys that are known. Raises StoreError."""
        found = {each.key: each async for each in scan(collection, Query((Is("task_id", (task_id,)),)))}
        for there in await collection.get(known) if known else []:
            if isinstance(there, StoreError):
                raise there
            if there is not None:
                found[there.key] = there
        return list(found.values())


async def _remove(collection: Collection[T], records: Sequence[T]) -> list[bool | StoreError]:
    """Remove them. Raises the first StoreError."""
    results = await collection.remove(records) if records else []
    for result in results:
        if isinstance(result, StoreError):
            raise result
    return results


def _key(task_id: str, task: TaskRecord | ArchivedTask) -> str:
    """The key of a letter with this id of the task."""
    return document_key(task_id, task.namespace, task.queue)


def _key_of(former: FormerLetter) -> str:
    return document_key(former.task_id, former.namespace, former.queue)

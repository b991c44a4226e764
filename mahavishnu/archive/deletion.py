"""Deletes letters: by one write each becomes a tombstone, which counts what the letter counted."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Container, Sequence
from typing import Any

from mahavishnu.archive.partitions import Partitions, remove_all
from mahavishnu.archive.records import ArchivedLetter, PartitionState, letter_key
from mahavishnu.engine.audit import AUDIT, forget_contents
from mahavishnu.engine.context import DEFAULT_ACTOR, OPEN_LETTERS, QueueContext
from mahavishnu.engine.waiting_room import as_letter
from mahavishnu.model.errors import NoSuchLetter, StoreError, StoreUnavailable, require_answers
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import DEFAULT_QUEUE, document_key
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.query import AnyOf, Between, Is, Missing, Not, Query, within_namespace
from mahavishnu.model.record import Value
from mahavishnu.model.tombstones import delete
from mahavishnu.stores.base import Collection, get_one, home_of, is_home_away, pages, scan, update_with_retry
from mahavishnu.stores.kind import T
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import find_place, forget_found_revisions, forget_revisions
from mahavishnu.tasks.letters import letter_ids_of
from mahavishnu.tasks.records import TASKS, TRANSITIONS
from mahavishnu.tasks.task import TERMINAL

_DELETED = Is("resolution_status", (ResolutionStatus.DELETED,))
_TRIES = 50
_PASSES = 10
_CASE_TRIES = 10


class DeletedCase(Value, frozen=True):
    """Numbers of records deleted for one task, by kind; `detached` partitions of the archive could not be read."""

    letters: int
    former: int
    copies: int
    waiting: int
    detached: tuple[str, ...] = ()


class Deletion:
    """Deletion of letters."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._clock = context, context.clock
        # Tombstones name no adapter; `require_seen` says first what an actor may delete.
        self._letters, self._cases = context.whole.letters.with_deleted, CaseDeletion(context)

    async def clear_all(self, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> int:
        """Delete every open and waiting letter of the namespace. Return how many open ones. Raise StoreError."""
        async with self._context.audit.record("clear", "queue", by=by, reason=notes) as record:
            await self._finish()
            cleared = 0
            for _ in range(_PASSES):  # what waits may be let in meanwhile, and what is kept locally come home
                # What waits first: it is let in under an id that depends on the open letters.
                waited, found = await self._delete_waiting(by), await self._delete_open(by)
                cleared += found
                if not found and not waited:
                    break
            self._announce(by, cleared)
            record.add(cleared=cleared)
        return cleared

    async def delete_task(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
    ) -> DeletedCase:
        """Delete a letter, whatever its state, with its former letters, revisions and copies in the archive.

        Letters of it that wait for room go too, and the outcome of a running attempt is refused. Its numbers stay in
        the statistics, and the audit keeps the act without the contents. Deleting again finishes what a crashed process
        began. Raise NoSuchLetter if there is nothing of it, and StoreError.
        """
        key = self._context.key(task_id, namespace, queue)
        async with self._context.audit.record(
            "delete", f"letter:{key}", by=by, reason=notes, where=namespace
        ) as record:
            if is_home_away(self._context.store):
                raise StoreUnavailable(
                    "a letter is deleted only while the store that all processes share can be reached"
                )
            await self._cases.require_seen(key, task_id)
            waiting = await self._delete_waiting(by, key)
            count, tombstone = await self._bury(key, by)
            former, copies = await self._cases.delete(key, task_id, tombstone)
            if tombstone is not None:
                await self._note_nothing_left(tombstone)
            done = DeletedCase(count, former, copies, waiting, await self._cases.find_detached())
            if not (count or former or copies or waiting or tombstone):
                raise NoSuchLetter(key)
            record.add(letters=count, former=former, copies=copies, waiting=waiting)
            self._announce(by, count, key=key)
        return done

    def _announce(self, by: str, count: int, **more: str) -> None:
        detail = {"by": by, "count": count, "namespace": self._context.namespace, **more}
        self._context.events.publish(Event(EventName.CLEARED, self._clock.now(), None, detail))

    async def _bury(self, key: str, by: str) -> tuple[int, DeadLetter | None]:
        """Make a tombstone of what has the key, and have it say that all is to be deleted. Return how many letters."""

        def bury(current: DeadLetter) -> DeadLetter:
            if not current.is_deleted:
                return delete(current, now=self._clock.now(), by=by, whole=True)
            return evolve(current, archived_at=None, previous_entry_id=current.entry_id)

        done = await update_with_retry(self._letters, key, bury)
        return (0, None) if done is None else (int(not done.before.is_deleted), done.after)

    async def _note_nothing_left(self, tombstone: DeadLetter) -> None:
        """Note that all is deleted that belonged to it; if it has a successor by now, that is as good."""
        await self._letters.write([evolve(tombstone, revision=0, previous_entry_id=None)])

    async def _delete_open(self, by: str) -> int:
        """Delete every open letter. Return how many there were."""
        count = 0
        async for page in pages(self._letters, OPEN_LETTERS):
            count += await self._delete(page, by)
        return count

    async def _delete(self, chosen: Sequence[DeadLetter], by: str) -> int:
        """Delete the letters that are still open. Return how many. Raise the first StoreError at the end."""
        count, rest, problems = 0, list(chosen), list[StoreError]()
        for _ in range(_TRIES):  # a loop of its own: a failed write may have landed, and each turn cleans up
            if not rest:
                break
            tombstones = [delete(letter, now=self._clock.now(), by=by) for letter in rest]
            results = await self._letters.write(tombstones)
            done = [result for result in results if isinstance(result, DeadLetter)]
            unsure = [pair for pair in zip(tombstones, results, strict=True) if not isinstance(pair[1], DeadLetter)]
            there = await self._letters.get([tombstone.key for tombstone, _ in unsure]) if unsure else []
            rest = []
            for (tombstone, problem), current in zip(unsure, there, strict=True):
                if not isinstance(current, DeadLetter):
                    problems += [each for each in (current or problem,) if isinstance(each, StoreError)]
                elif current == tombstone:
                    done.append(current)  # only the answer was lost
                elif current.is_open and (problem is None or current.version != tombstone.version):
                    rest.append(current)  # somebody was quicker, and it is still to be deleted
                elif isinstance(problem, StoreError) and (current.is_open or not current.knows(tombstone.entry_id)):
                    problems.append(problem)
            count += len(done)
            await self._forget_revisions(done)
            if reopened := [letter.entry_id for letter in done if letter.tallies.reopened]:
                await self._cases.delete_unfinished_copies(reopened)
        if rest:
            raise StoreUnavailable(
                f"letter {rest[0].key!r} was changed by others {_TRIES} times in a row while it was deleted"
            )
        if problems:
            raise problems[0]
        return count

    async def _delete_waiting(self, by: str, key: str | None = None) -> int:
        """Delete letters that wait for room, with this `key` or any, and leave tombstones. Return how many."""
        room = self._context.waiting
        waited = {*(letter.entry_id for letter in room.own_in_memory()), *room.own_files()} if key is None else set()
        await room.write_down()
        count = await self._delete_refused(waited, by)
        async for page in pages(room.collection, within_namespace(Query(), room.namespace)):
            of_one_task: dict[str, list[DeadLetter]] = defaultdict(list)
            chosen = [waiting for waiting in page if key in (None, as_letter(waiting).key)]
            for waiting in chosen:
                of_one_task[as_letter(waiting).key].append(as_letter(waiting))
            deleting = (self._delete_where_let_in(letters, by) for letters in of_one_task.values())
            for problem in await asyncio.gather(*deleting, return_exceptions=True):
                if problem is not None:
                    raise problem
            await remove_all(room.collection, chosen)
            count += len(chosen)
        return count

    async def _delete_refused(self, waited: Container[str], by: str) -> int:
        """Delete what the store does not take of what `waited` outside of it: one day it might. Return how many."""
        room, count = self._context.waiting, 0
        for letter in [each for each in room.in_memory if each.entry_id in waited]:
            await self._delete_where_let_in([letter], by)
            room.drop_from_memory(letter)
            count += 1
        for name in [each for each in room.files.names() if each in waited]:
            with room.files.take(name) as waiting:
                if waiting is not None:
                    await self._delete_where_let_in([as_letter(waiting)], by)
                    room.files.remove(name)
                    count += 1
        return count

    async def _delete_where_let_in(self, waiting: Sequence[DeadLetter], by: str) -> None:
        """Leave tombstones of letters of one task under the ids that they would be let in under."""
        recorder = self._context.waiting.recorder
        for letter in waiting:
            place, _ = await find_place(recorder.letters, letter)
            await recorder.take_in(delete(place, now=self._clock.now(), by=by))

    async def finish(self) -> None:
        """Delete what is left of letters that a process had deleted which then died."""
        await self._context.require("work")
        await self._finish()

    async def _finish(self) -> None:
        unfinished = Query((_DELETED, Not(Missing("previous_entry_id")), Missing("archived_at")))
        async for page in pages(self._letters, unfinished):
            for tombstone in page:
                await self._cases.delete(tombstone.key, tombstone.task_id, tombstone)
                await self._note_nothing_left(tombstone)
        left = Query((_DELETED, Between("revision", at_least=1)))
        async for page in pages(self._letters, left):
            await self._forget_revisions(page)

    async def _forget_revisions(self, tombstones: Sequence[DeadLetter]) -> None:
        """Delete their revisions, and note that: a tombstone without a `revision` has none left."""
        await forget_revisions(self._context.revisions, self._context.history, tombstones)
        edited = [evolve(tombstone, revision=0) for tombstone in tombstones if tombstone.revision]
        if edited:
            await self._letters.write(edited)  # one that lost has a successor, and nothing more to be noted


class CaseDeletion:
    """Deletion of what belongs to letters, in the shared store. Repeating it is harmless."""

    def __init__(self, context: QueueContext) -> None:
        home = home_of(context.store)
        self._places, self._letters = Partitions(home, context.clock), home.collection(LETTERS)
        self._history, self._revisions = home.collection(HISTORY), home.collection(REVISIONS)
        self._tasks, self._transitions = home.collection(TASKS), home.collection(TRANSITIONS)
        self._context, self._entries = context, context.own_records(AUDIT)

    async def require_seen(self, key: str, task_id: str) -> None:
        """Raise NoSuchLetter for an actor unless they see all that has this key, and something of it."""
        if (scope := self._context.scope) is None:
            return
        letter = await get_one(self._letters, key)
        found: list[Any] = [] if letter is None or letter.is_deleted else [letter]
        found += [each for each in await self._find(self._history, task_id, ()) if letter_key(each) == key]
        for partition in await self._places.find_attached():
            copies = await self._find(self._places.letters(partition.name), task_id, ())
            found += [each for each in copies if each.letter_key == key]
        if not found or not all(map(scope.covers_record, found)):
            raise NoSuchLetter(key)

    async def delete(self, key: str, task_id: str, tombstone: DeadLetter | None) -> tuple[int, int]:
        """Delete everything of this key. Return the numbers of former letters and of copies. Raise StoreError."""
        # What was written a moment ago no search shows yet.
        known = () if tombstone is None else (tombstone.entry_id, *tombstone.absorbed)
        copies = await self._delete_copies(key, task_id, known)
        tasks = await self._delete_tasks(key, task_id)
        former = [each for each in await self._find(self._history, task_id, known) if letter_key(each) == key]
        later = await self._find_later(key, known)
        await remove_all(self._history, former := [each for each in former if each.entry_id not in later])
        ids = [*(each.entry_id for each in former), *(each.entry_id for each in copies)]
        if tombstone is not None:
            await forget_revisions(self._revisions, self._history, [tombstone])
        await forget_found_revisions(self._revisions, self._history, ids)
        await forget_contents(self._entries, f"letter:{key}")
        return len(former), len(copies) + tasks

    async def delete_unfinished_copies(self, entry_ids: Sequence[str]) -> None:
        """Delete copies of these letters from the archive: somebody began to archive them, or took them out."""
        for partition, copies in (await self._places.find_copies(entry_ids)).items():
            await remove_all(self._places.letters(partition), copies)

    async def find_detached(self) -> tuple[str, ...]:
        """Return the partitions of the archive that cannot be read."""
        return tuple(each.name for each in await self._places.every() if each.state is PartitionState.DETACHED)

    async def _delete_copies(self, key: str, task_id: str, known: Sequence[str]) -> list[ArchivedLetter]:
        gone: list[ArchivedLetter] = []
        for partition in await self._places.find_attached():
            copies = self._places.letters(partition.name)
            for _ in range(_CASE_TRIES):  # a loop of its own: it removes, and searches again for copies of others
                found = [each for each in await self._find(copies, task_id, known) if each.letter_key == key]
                later = await self._find_later(key, known)
                found = [each for each in found if each.entry_id not in later]
                if not found or False not in await remove_all(copies, found):
                    gone += found
                    break
            else:
                raise StoreUnavailable(f"copies of letter {key!r} were changed by others {_CASE_TRIES} times in a row")
        return gone

    async def _find_later(self, key: str, known: Sequence[str]) -> set[str]:
        """Return the letters that came under the key after the `known` ones: these stay."""
        current = await get_one(self._letters, key)
        return set() if current is None else {current.entry_id, *current.absorbed} - set(known)

    async def _delete_tasks(self, key: str, task_id: str) -> int:
        """Delete lifecycle tasks of this work that have ended, also in the archive. Return how many were there."""
        work_ids = tuple(filter(None, (task_id, task_id.rpartition("@")[0])))
        asked = (AnyOf((Is("work_id", work_ids), Is("task_id", work_ids))), Is("state", TERMINAL))
        ended = [each async for each in scan(self._tasks, Query(asked))]
        ended = [
            each
            for each in ended
            if task_id in letter_ids_of(each) and document_key(task_id, each.namespace, each.queue) == key
        ]
        await remove_all(self._tasks, ended)
        for task in ended:
            query = Query((Is("task_id", (task.task_id,)),))
            await remove_all(self._transitions, [move async for move in scan(self._transitions, query)])
        count = 0
        for partition, copies in (await self._places.find_tasks(Is("letter_ids", (task_id,)))).items():
            own = [copy for copy in copies if document_key(task_id, copy.namespace, copy.queue) == key]
            count += (await remove_all(self._places.tasks(partition), own)).count(True)
        return count

    async def _find(self, collection: Collection[T], task_id: str, known: Sequence[str]) -> list[T]:
        """Return the records of a task that a search finds, and those under the `known` keys. Raise StoreError."""
        found = {each.key: each async for each in scan(collection, Query((Is("task_id", (task_id,)),)))}
        there = require_answers(await collection.get(known) if known else ())
        return list((found | {each.key: each for each in there if each is not None}).values())

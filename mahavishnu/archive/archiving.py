"""Moves closed letters into the archive: copy, verify, then delete, each a compare-and-set.

The copy counts once its letter has left the queue, which is one write. So a process may be killed at any point, and two
may archive at once: they leave behind a copy of a letter that still lives. It is not shown, and the next process that
archives that letter writes it again.

A letter has left only if its copy is there. A process that has compared a copy may have its letter leave at any moment.
So no process removes or overwrites a copy that it has read without having seen

- its letter unchanged since it was copied: then the copy is of that state, or of one in which it cannot leave any more,
- or, to take back its own copy, that the letter is no longer what was copied: the next archiver writes it anew,
- or, to remove a former letter's own copy, that its successor has left with a copy that has it, and is still away.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Collection as Names
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from mahavishnu.archive.partitions import CopySource, Partitions, R, copy_verified
from mahavishnu.archive.records import ArchivedLetter, ArchivePartition, letter_key
from mahavishnu.archive.rules import (
    ArchiveResult,
    is_archived,
    keeps_restored,
    leaving_history,
    leaving_queries,
    may_leave,
    month_of,
)
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.waiting_room import as_letter
from mahavishnu.groups.records import GROUPS
from mahavishnu.groups.rules import is_on_hold
from mahavishnu.model.errors import CorruptRecord, StoreError
from mahavishnu.model.events import letter_fields, log_event
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.lifecycle import MAX_ABSORBED
from mahavishnu.model.query import AnyOf, Is, Missing, Not, Query
from mahavishnu.model.rules import BY_RETENTION, RetentionRules
from mahavishnu.model.tombstones import is_placeholder, retire, was_reopened
from mahavishnu.stores.base import Collection, find_pages, is_same_version, pages, require_complete
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import Revision, forget_found_revisions, forget_revisions
from mahavishnu.stores.scoped import NamespaceRecords

P = TypeVar("P")
log = logging.getLogger(__name__)
_ASKED = 500  # letters whose history is looked for at once
_UNFINISHED = (Is("resolution_status", (ResolutionStatus.DELETED,)), Not(Missing("previous_entry_id")))


class Archiving:
    """One pass of archiving, in the store that all processes share."""

    def __init__(
        self, context: QueueContext, rules: RetentionRules, partitions: Partitions, by: str = BY_RETENTION
    ) -> None:
        self._clock, self._rules, self._by = context.clock, rules, by
        home, self._partitions = partitions.home, partitions
        self._letters = NamespaceRecords(home.collection(LETTERS), context.namespace)
        self._groups = NamespaceRecords(home.collection(GROUPS), context.namespace, default_is_none=True)
        self._own_history = NamespaceRecords(home.collection(HISTORY), context.namespace)
        self._history, self._revisions = home.collection(HISTORY), home.collection(REVISIONS)
        self._collector = MoveCollector(self._history, self._revisions)
        self.leftovers = Leftovers(partitions, self._letters, self._history, self._revisions)
        self._counts = Counter[str]()
        self._failed: dict[str, str] = {}

    async def run(self, batch_size: int, *, dry_run: bool) -> ArchiveResult:
        """Archive all that is to leave now, batch after batch. Raise StoreError where the store gives no answer."""
        if not dry_run:
            await self.leftovers.remove_leftovers()
        now = self._clock.now()
        held = await self._held_groups(now)

        async def work(page: Sequence[DeadLetter]) -> None:
            leaving = [letter for letter in page if may_leave(letter, self._rules, now, held)]
            for month, moves in (await self._collector.collect(leaving)).items():
                if dry_run:
                    self._count(await self._without_restored(month, moves))
                else:
                    archived = await self.leftovers.remove_archived([each for move in moves for each in move.former])
                    for move in moves:
                        move.former = [each for each in move.former if each.entry_id not in archived]
                    await self.leftovers.keep_unique(moves)
                    await self._archive(month, moves)

        for query in leaving_queries(self._rules, now, batch_size):
            await work_on_pages(pages(self._letters, query), work)
        if (leaves := leaving_history(self._rules, now, batch_size)) is not None:
            async for former in pages(self._own_history, leaves):
                self._counts["former"] += len(former) if dry_run else await self._archive_former(former)
        return ArchiveResult(
            tasks_archived=self._counts["letters"],
            steps_archived=self._counts["former"],
            transitions_archived=self._counts["revisions"],
            dry_run=dry_run,
            failed={**self._failed, **self.leftovers.failed},
        )

    async def has_work(self) -> bool:
        """Return whether anything is to be done, judging by the first letters."""
        now = self._clock.now()
        if await self.leftovers.exist():
            return True
        for query in leaving_queries(self._rules, now, 1):
            if (await self._letters.find(query)).items:
                return True
        leaves = leaving_history(self._rules, now, 1)
        return leaves is not None and bool((await self._own_history.find(leaves)).items)

    async def _held_groups(self, now: datetime) -> Names[str]:
        """Return the groups on hold, and those whose record cannot be read: their letters are still needed."""
        on_hold = Query((AnyOf((Not(Missing("hold_until")), Not(Missing("hold_release")))),))
        held = set[str]()
        async for page in find_pages(self._groups, on_hold):
            require_complete(page)
            held |= {group.fingerprint for group in page.items if is_on_hold(group, now)}
            held |= {each.key.rpartition("/")[2] for each in page.corrupt if isinstance(each, CorruptRecord)}
        return held

    async def _without_restored(self, month: str, moves: Sequence[ArchiveMove]) -> list[ArchiveMove]:
        """Return the moves of letters that were not restored lately."""
        found = await self._partitions.find_copies([move.letter.entry_id for move in moves], month, unreadable={})
        copies = {copy.entry_id: copy for own in found.values() for copy in own}
        return [
            move
            for move in moves
            if (copy := copies.get(move.letter.entry_id)) is None or not self._is_restored(copy, move.letter)
        ]

    def _is_restored(self, copy: ArchivedLetter, letter: DeadLetter) -> bool:
        return keeps_restored(copy.restored_at, letter, self._rules, self._clock.now())

    async def _archive(self, month: str, moves: list[ArchiveMove]) -> None:
        """Copy, verify, and let the letters leave the queue."""
        partition = await self._partitions.provide(month)
        source = _LetterSource(self._letters, {move.letter.entry_id: move.letter for move in moves}, self._is_restored)
        sure = await self._copy(partition, moves, source)
        now = self._clock.now()
        tombstones = [self._retire(partition.name, move, now) for move in sure]
        results = await self._letters.write(tombstones) if tombstones else []
        left: list[ArchiveMove] = []
        gone: list[DeadLetter] = []
        lost: list[ArchiveMove] = []
        for move, result in zip(sure, results, strict=True):
            if isinstance(result, DeadLetter):
                left.append(move)
                gone.append(result)
            elif isinstance(result, StoreError):
                self._fail(move, str(result))
            else:
                lost.append(move)
        self._count(left)
        await self._withdraw(partition, lost)
        in_history = {move.letter.entry_id for move in left if move.in_history}
        await self.leftovers.remove(
            [each for each in gone if each.revision or each.previous_entry_id or each.entry_id in in_history]
        )

    async def _archive_former(self, former: Sequence[FormerLetter]) -> int:
        """Archive former letters whose successor is still in the queue. Return how many."""
        count, elsewhere = 0, await self.leftovers.remove_archived(former)
        originals = {each.entry_id: each for each in former if each.entry_id not in elsewhere}
        months = await self._collector.collect_former(list(originals.values()))
        for month, moves in months.items():
            partition = await self._partitions.provide(month)
            these = {move.letter.entry_id: originals[move.letter.entry_id] for move in moves}
            sure = await self._copy(
                partition, moves, _FormerSource(self._history, these, self._is_restored, self.leftovers)
            )
            removed = await self._history.remove([these[move.letter.entry_id] for move in sure]) if sure else []
            gone = [move.letter.entry_id for move, done in zip(sure, removed, strict=True) if done is True]
            await self._withdraw(partition, [move for move, done in zip(sure, removed, strict=True) if done is False])
            await forget_found_revisions(self._revisions, self._history, gone)
            count += len(gone)
        return count

    async def _copy(
        self, partition: ArchivePartition, moves: Sequence[ArchiveMove], source: _LetterSource[Any]
    ) -> list[ArchiveMove]:
        """Return the moves with a verified copy in the partition; none if it was detached meanwhile."""
        now = self._clock.now()
        if again := {move.letter.entry_id: move.letter for move in moves if was_reopened(move.letter)}:
            await self._remove_earlier_copies(partition.name, again, source)
        for move in moves:
            move.copy = ArchivedLetter.of(move.letter, move.former, move.revisions, now)
        source.letters = {move.letter.entry_id: move.letter for move in moves}
        source.wanted = [move.copy for move in moves if move.copy]
        copied = await copy_verified(self._partitions.letters(partition.name), source)
        sure: list[ArchiveMove] = []
        for move in moves:
            if (copy := copied.sure.get(move.letter.entry_id)) is not None:
                move.copy = copy
                sure.append(move)
            elif (why := copied.failed.get(move.letter.entry_id)) is not None:
                self._fail(move, why)
        return sure if sure and await self._partitions.confirm(partition) else []

    async def _remove_earlier_copies(
        self, partition: str, reopened: Mapping[str, DeadLetter], source: _LetterSource[Any]
    ) -> None:
        """Remove copies of earlier states of unchanged, reopened letters from other partitions."""
        again = {entry_id: LETTERS.document(letter) for entry_id, letter in reopened.items()}
        found = await self._partitions.find_copies(list(again), unreadable={})
        found.pop(partition, None)
        kept = await source.find_changed() if found else set[str]()
        for name, copies in found.items():
            earlier = [copy for copy in copies if copy.entry_id not in kept and copy.letter != again[copy.entry_id]]
            if earlier:
                await self._partitions.letters(name).remove(earlier)

    async def _withdraw(self, partition: ArchivePartition, lost: Sequence[ArchiveMove]) -> None:
        """Take back the copies of letters that changed meanwhile, unless another process archived them."""
        if not lost:
            return
        there = await self._letters.get([move.letter.key for move in lost])
        former = await self._history.get([move.letter.entry_id for move in lost])
        unused: list[ArchivedLetter] = []
        for move, current, old in zip(lost, there, former, strict=True):
            if isinstance(current, StoreError) or isinstance(old, StoreError) or move.copy is None:
                continue  # nobody knows; what does not count is not shown either
            if is_archived(move.copy.entry_id, current, old is not None):
                is_useless = await self.leftovers.is_in_later_copy(move.copy.entry_id, current)
            else:
                is_useless = not await self.leftovers.find_unique([move.copy])
            if is_useless:
                unused.append(move.copy)
        if unused:
            await self._partitions.letters(partition.name).remove(unused)

    def _fail(self, move: ArchiveMove, why: str) -> None:
        extra = log_event("archive.failed", **letter_fields(move.letter))
        log.error("letter %r could not be archived: %s", move.letter.key, why, extra=extra)
        self._failed[move.letter.key] = why

    def _retire(self, partition: str, move: ArchiveMove, now: datetime) -> DeadLetter:
        move.former = move.copy.read_former() if move.copy and len(move.copy.former) > len(move.former) else move.former
        former = next((each.entry_id for each in move.former if each.entry_id != move.letter.entry_id), None)
        return retire(move.letter, now=now, by=self._by, partition=partition, former=former)

    def _count(self, moves: Sequence[ArchiveMove]) -> None:
        self._counts["letters"] += len(moves)
        self._counts["former"] += sum(len(move.former) for move in moves)
        self._counts["revisions"] += sum(len(move.revisions) for move in moves)


async def work_on_pages(
    given: AsyncIterator[P], work: Callable[[P], Coroutine[Any, Any, None]], at_once: int = 2
) -> None:
    """Do the `work` on each page, so many `at_once`. Raises the first error, after the others have ended."""
    running: set[asyncio.Task[None]] = set()
    try:
        async for page in given:
            running.add(asyncio.create_task(work(page)))
            if len(running) >= at_once:
                running = await _next_end(running)
        while running:
            running = await _next_end(running)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _next_end(running: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait until one of them has ended. Returns the others."""
    ended, others = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    for each in ended:
        each.result()
    return others


class _LetterSource(CopySource[R, ArchivedLetter]):
    """Letters of the queue to copy; the copy of a letter that was restored lately stays as it is."""

    def __init__(
        self,
        records: Collection[R],
        originals: Mapping[str, R],
        is_restored: Callable[[ArchivedLetter, DeadLetter], bool],
    ) -> None:
        super().__init__(records, originals)
        self.letters: Mapping[str, DeadLetter] = {}
        self._is_restored = is_restored

    async def find_protected(self, there: Sequence[ArchivedLetter]) -> set[str]:
        restored = {copy.entry_id for copy in there if self._is_restored(copy, self.letters[copy.entry_id])}
        return restored | await super().find_protected(there)


class _FormerSource(_LetterSource[FormerLetter]):
    """Former letters to copy on their own; their copies keep former letters that are nowhere else."""

    def __init__(
        self,
        records: Collection[FormerLetter],
        originals: Mapping[str, FormerLetter],
        is_restored: Callable[[ArchivedLetter, DeadLetter], bool],
        leftovers: Leftovers,
    ) -> None:
        super().__init__(records, originals, is_restored)
        self.leftovers, self._unique = leftovers, set[str]()

    async def find_protected(self, there: Sequence[ArchivedLetter]) -> set[str]:
        self._unique |= await self.leftovers.find_unique(there)
        return await super().find_protected(there)

    def merge(self, copy: ArchivedLetter, there: ArchivedLetter) -> ArchivedLetter:
        return copy.over_alone(there, self._unique)


class ArchiveMove(Struct):
    """A letter on its way into the archive, with what belongs to it, and its copy as it was written last.

    With `in_history` the history has a state of this letter itself: whoever succeeds a letter writes it there first,
    and may then come to nothing. That is no former letter as long as the letter has its key.
    """

    letter: DeadLetter
    former: Sequence[FormerLetter] = ()
    revisions: Sequence[Revision] = ()
    in_history: bool = False
    copy: ArchivedLetter | None = None


class MoveCollector:
    """Collects former letters and revisions of letters in the shared store; unreadable records stay where they are."""

    def __init__(self, history: Collection[FormerLetter], revisions: Collection[Revision]) -> None:
        self._history, self._revisions = history, revisions

    async def collect(self, letters: Sequence[DeadLetter]) -> dict[str, list[ArchiveMove]]:
        """Return the letters with all that belongs to them, by their month of the archive. Raise StoreError."""
        found = await self._history.get([letter.entry_id for letter in letters]) if letters else []
        in_history = {each.entry_id for each in found if isinstance(each, FormerLetter)}
        moves = [ArchiveMove(letter, in_history=letter.entry_id in in_history) for letter in letters]
        await self._add_former(moves)
        return await self._by_month(moves)

    async def collect_former(self, former: Sequence[FormerLetter]) -> dict[str, list[ArchiveMove]]:
        """Return former letters that leave on their own, by their month of the archive. Raise StoreError."""
        return await self._by_month([ArchiveMove(as_letter(each)) for each in former])

    async def _by_month(self, moves: Sequence[ArchiveMove]) -> dict[str, list[ArchiveMove]]:
        edited = [each.entry_id for move in moves for each in (move.letter, *move.former) if each.revision]
        revisions = defaultdict[str, list[Revision]](list)
        async for revision in _find_by(self._revisions, "entry_id", edited):
            revisions[revision.entry_id].append(revision)
        months: dict[str, list[ArchiveMove]] = defaultdict(list)
        for move in moves:
            assert move.letter.resolution.at is not None
            ids = (move.letter.entry_id, *(each.entry_id for each in move.former))
            own = [sorted(revisions.get(entry_id, ()), key=lambda each: each.number) for entry_id in ids]
            move.revisions = [revision for each in own for revision in each]
            months[month_of(move.letter.resolution.at)].append(move)
        return months

    async def _add_former(self, moves: Sequence[ArchiveMove]) -> None:
        """Add former letters, latest first, also those that a drained local store left under its key."""
        may_have = {move.letter.key: move for move in moves if move.letter.absorbed or move.letter.previous_entry_id}
        names = list({move.letter.task_id: None for move in may_have.values()})  # other queues may have the same task
        found = defaultdict[str, list[FormerLetter]](list)
        async for former in _find_by(self._history, "task_id", names):
            move = may_have.get(key := letter_key(former))
            if move is not None and _may_succeed(move.letter, former):
                found[key].append(former)
        for key, own in found.items():
            may_have[key].former = sorted(own, key=lambda each: each.created_at, reverse=True)


async def _find_by(collection: Collection[R], field: str, values: Sequence[str]) -> AsyncIterator[R]:
    for start in range(0, len(values), _ASKED):
        async for page in pages(collection, Query((Is(field, tuple(values[start : start + _ASKED])),))):
            for record in page:
                yield record


def _may_succeed(letter: DeadLetter, former: FormerLetter) -> bool:
    """Return whether the letter knows the other one under its key as one before it, or may have forgotten it."""
    if len(letter.absorbed) < MAX_ABSORBED and letter.previous_entry_id in (None, *letter.absorbed):
        return former.entry_id in letter.absorbed
    return former.entry_id != letter.entry_id


class Leftovers:
    """Former letters and revisions that archived letters leave in the queue, and copies that others made of them.

    `failed` says by the keys of letters why what belongs to them stays: their copies cannot be trusted. All methods
    raise StoreError where the shared store gives no answer.
    """

    def __init__(
        self,
        partitions: Partitions,
        letters: Collection[DeadLetter],
        history: Collection[FormerLetter],
        revisions: Collection[Revision],
    ) -> None:
        self.failed: dict[str, str] = {}
        self._partitions, self._letters, self._history, self._revisions = partitions, letters, history, revisions

    async def exist(self) -> bool:
        """Return whether an interrupted archiving left anything behind (checks the first match only)."""
        return bool((await self._letters.find(Query(_UNFINISHED, limit=1))).items)

    async def remove_leftovers(self) -> None:
        """Finish clean-ups that a crashed process left behind."""
        async for page in pages(self._letters, Query(_UNFINISHED)):
            attached = {each.name for each in await self._partitions.find_attached()}
            left = [each for each in page if each.archived_at is not None and not is_placeholder(each)]
            # Written again, so that who is about to restore one of them begins again.
            left = [evolve(each) for each in left if each.resolution.notes in attached]
            written = await self._letters.write(left) if left else []
            await self.remove([each for each in written if isinstance(each, DeadLetter)])

    async def remove(self, tombstones: Sequence[DeadLetter]) -> None:
        """Remove from the queue what belongs to these letters, and other copies of it; note that on the tombstones.

        What copies do not have stays, and all of it if a letter is being restored: that changes its tombstone first.
        """
        if not tombstones:
            return
        place = {letter.entry_id: letter.resolution.notes for letter in tombstones}
        with_copies, problems = dict[str, ArchivedLetter](), dict[str, str]()
        for partition, copies in (await self._partitions.find_copies(list(place), unreadable=problems)).items():
            with_copies |= {copy.entry_id: copy for copy in copies if place[copy.entry_id] == partition}
        successors: dict[str, str] = {}  # of former letters
        for entry_id, copy in list(with_copies.items()):
            if (own := _former_in(copy, problems)) is None:
                del with_copies[entry_id]
                continue
            successors |= dict.fromkeys(own, entry_id)
            successors[entry_id] = entry_id  # of which the history may have an earlier state
        for letter in tombstones:
            if (why := problems.get(letter.entry_id)) is not None:
                self.failed[letter.key] = f"{why}; what went with the letter stays in the queue"
        # Before it leaves the history: a process that died in between would leave a copy that counts from then on.
        await self._remove_copies(successors, tombstones)
        there = await self._history.get(list(successors))
        away = await self._find_away(tombstones)
        if old := [each for each in there if isinstance(each, FormerLetter) and successors[each.entry_id] in away]:
            await self._history.remove(old)
        await self._remove_copies(successors, tombstones)  # what others have copied meanwhile
        there = await self._history.get(list(successors)) if successors else []
        unfinished = {of for of, each in zip(successors.values(), there, strict=True) if each is not None}
        away = await self._find_away(tombstones)
        done = [each for each in tombstones if each.entry_id in (away & with_copies.keys()) - unfinished]
        await forget_revisions(self._revisions, self._history, done)
        await self._letters.write([evolve(letter, revision=0, previous_entry_id=None) for letter in done])

    async def keep_unique(self, moves: Sequence[ArchiveMove]) -> None:
        """Add what only copies of these letters' former ones have: those are removed when the letters leave."""
        of = {each.entry_id: move for move in moves for each in move.former}
        found = await self._partitions.find_copies(list(of), unreadable={})
        copies = [copy for own in found.values() for copy in own if copy.former]
        unique = await self.find_unique(copies)
        for copy in copies:
            if _former_in(copy, {}) is None:
                continue
            move, known = of[copy.entry_id], {each.entry_id for each in of[copy.entry_id].former}
            added = [each for each in copy.read_former() if each.entry_id in unique - known]
            move.former = sorted([*move.former, *added], key=lambda each: each.created_at, reverse=True)
            names = {each.entry_id for each in added}
            move.revisions = [*move.revisions, *(each for each in copy.read_revisions() if each.entry_id in names)]

    async def find_unique(self, copies: Iterable[ArchivedLetter]) -> set[str]:
        """Return the former letters that these copies have, and neither the history nor copies of their own."""
        names = list({entry_id for copy in copies if copy.former for entry_id in _former_in(copy, {}) or ()})
        there = await self._history.get(names) if names else []  # first: who takes one from there has copied it
        names = [name for name, each in zip(names, there, strict=True) if each is None]
        found = await self._partitions.find_copies(names, unreadable={})
        return {*names} - {copy.entry_id for own in found.values() for copy in own}

    async def _remove_copies(self, successors: Mapping[str, str], tombstones: Sequence[DeadLetter]) -> None:
        """Remove the copies that former letters have of their own, where their successors are away."""
        own = {letter.entry_id for letter in tombstones}
        found = await self._partitions.find_copies([each for each in successors if each not in own], unreadable={})
        away = await self._find_away(tombstones) if found else set()
        for partition, copies in found.items():
            useless = [copy for copy in copies if successors[copy.entry_id] in away]
            await self._discard(partition, useless, successors)

    async def _discard(self, partition: str, copies: Sequence[ArchivedLetter], kept: Names[str]) -> None:
        """Remove the copies, except those with former letters that are nowhere else and not `kept` either."""
        unique = await self.find_unique(copies) - {*kept}
        useless = [copy for copy in copies if not (unique and unique.intersection(_former_in(copy, {}) or ()))]
        if useless:
            await self._partitions.letters(partition).remove(useless)

    async def _find_away(self, tombstones: Sequence[DeadLetter]) -> set[str]:
        """Return the entry ids of unchanged tombstones, and of those whose key another letter has: both stay away."""
        there = await self._letters.get([letter.key for letter in tombstones]) if tombstones else []
        old = await self._history.get([letter.entry_id for letter in tombstones]) if tombstones else []
        away: set[str] = set()
        for letter, now, former in zip(tombstones, there, old, strict=True):
            other = isinstance(now, DeadLetter) and now.entry_id != letter.entry_id and former is None
            if other or is_same_version(letter, now):
                away.add(letter.entry_id)
        return away

    async def remove_archived(self, former: Sequence[FormerLetter]) -> set[str]:
        """Remove former letters from the history that the copy of a later letter has, if that left first.

        An earlier state of an archived letter goes too; one of a live letter stays. Return the entry ids of all these:
        none of them is to be archived on its own.
        """
        there = await self._letters.get([letter_key(each) for each in former]) if former else []
        elsewhere, removed = set[str](), list[FormerLetter]()
        later: dict[str, tuple[list[str], DeadLetter]] = {}
        for each, at_key in zip(former, there, strict=True):
            if not isinstance(at_key, DeadLetter):
                continue
            if at_key.entry_id == each.entry_id:
                if not at_key.is_deleted or is_placeholder(at_key):
                    elsewhere.add(each.entry_id)
                elif at_key.archived_at is not None:
                    removed.append(each)
            elif entries := [one for one in at_key.absorbed if one != each.entry_id and one not in each.absorbed]:
                later[each.entry_id] = entries, at_key
        found = await self._partitions.find_copies(list(later), unreadable={})
        archived: dict[str, Names[str]] = {}
        for name, (entries, at_key) in later.items():
            if own := await self._find_siblings(name, entries, at_key):
                archived[name] = own
        kept = {each for own in archived.values() for each in own}
        for partition, copies in found.items():  # first, as in `remove`
            await self._discard(partition, [copy for copy in copies if copy.entry_id in archived], kept)
        removed += [each for each in former if each.entry_id in archived]
        if removed:
            await self._history.remove(removed)
        return elsewhere | {each.entry_id for each in removed}

    async def is_in_later_copy(self, entry_id: str, at_key: DeadLetter | None) -> bool:
        """Return whether a later letter under its key is in the archive and has this one as a former letter."""
        if at_key is None or at_key.entry_id == entry_id:
            return False
        later = [each for each in (at_key.entry_id, *at_key.absorbed) if each != entry_id]
        return bool(await self._find_siblings(entry_id, later, at_key))

    async def _find_siblings(self, entry_id: str, later: Sequence[str], at_key: DeadLetter) -> Names[str]:
        """Return the former letters in the copy of a `later` letter that has this one; `at_key` is the latest."""
        former = await self._history.get(later)
        gone = {each for each, old in zip(later, former, strict=True) if is_archived(each, at_key, old is not None)}
        for copies in (await self._partitions.find_copies(later, unreadable={})).values():
            for copy in copies:
                if copy.entry_id in gone and entry_id in (own := _former_in(copy, {}) or ()):
                    return own
        return ()


def _former_in(copy: ArchivedLetter, problems: dict[str, str]) -> list[str] | None:
    """Return the entry ids of a copy's former letters; None, and why in `problems`, if it is not what was written."""
    try:
        copy.require_intact()
        return [each.entry_id for each in copy.read_former()]
    except CorruptRecord as problem:
        problems[copy.entry_id] = str(problem)
        return None

"""Moves closed letters into the archive: copy, verify, then delete, each a compare-and-set.

The copy counts once its letter has left the queue, which is one write. So a process may be killed at any point, and two
may do the same at once: what they leave behind is a copy of a letter that still lives. Nobody is shown it, and the next
who archives that letter writes it again.

A letter has left only if its copy is there. Who has compared a copy may have its letter leave at any moment, so nobody
removes or writes over a copy, after having read it, without having seen

- its letter unchanged since he copied it: then the copy is of that state, or of one in which it cannot leave any more,
- or, to take back his own copy, that its letter is no longer what he copied: who archives it now writes it anew,
- or, to remove a former letter's own copy, that its successor has left with a copy that has it, and is still away.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Collection as Names

from mahavishnu.core.queue.archive_moves import ArchiveMove, MoveCollector
from mahavishnu.core.queue.archive_places import ArchivePlaces
from mahavishnu.core.queue.archive_remains import ArchiveRemains
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letters import NamespaceRecords
from mahavishnu.engine.moves import work_on_pages
from mahavishnu.groups.rules import is_on_hold
from mahavishnu.model.errors import CorruptRecord, StoreError
from mahavishnu.model.events import letter_fields, log_event
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import AnyOf, Missing, Not, Query
from mahavishnu.model.retention import (
    BY_RETENTION,
    ArchiveResult,
    RetentionRules,
    is_archived,
    keeps_restored,
    leaving_history,
    leaving_queries,
    may_leave,
)
from mahavishnu.model.tombstones import retire, was_reopened
from mahavishnu.stores.archived import ArchivedLetter
from mahavishnu.stores.base import Collection, find_pages, home_of, is_same_version, pages, require_complete
from mahavishnu.stores.copies import copy_surely
from mahavishnu.stores.kinds import GROUPS, HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import forget_found_revisions

log = logging.getLogger(__name__)


class Archiving:
    """One go at archiving. Everything is done in the store that all processes share."""

    def __init__(self, context: QueueContext, rules: RetentionRules, by: str = BY_RETENTION) -> None:
        self._clock, self._rules, self._by = context.clock, rules, by
        home = home_of(context.store)
        self._places = ArchivePlaces(home, context.clock, context.meters)
        self._collector, self._remains = MoveCollector(home), ArchiveRemains(context)
        self._letters = NamespaceRecords(home.collection(LETTERS), context.namespace)
        self._groups = NamespaceRecords(home.collection(GROUPS), context.namespace, default_is_none=True)
        self._own_history = NamespaceRecords(home.collection(HISTORY), context.namespace)
        self._history, self._revisions = home.collection(HISTORY), home.collection(REVISIONS)
        self._counts = Counter[str]()
        self._failed: dict[str, str] = {}

    async def run(self, batch_size: int, *, dry_run: bool) -> ArchiveResult:
        """Archive all that is to leave now, batch after batch. Raises StoreError where the store gives no answer."""
        start = self._clock.monotonic()
        if not dry_run:
            await self._remains.finish()
        held, now = await self._held_groups(), self._clock.now()

        async def work(page: Sequence[DeadLetter]) -> None:
            leaving = [letter for letter in page if may_leave(letter, self._rules, now, held)]
            for month, moves in (await self._collector.collect(leaving)).items():
                if dry_run:
                    self._count(await self._without_restored(month, moves))
                else:
                    archived = await self._remains.remove_archived([each for move in moves for each in move.former])
                    for move in moves:
                        move.former = [each for each in move.former if each.entry_id not in archived]
                    await self._remains.keep_what_copies_have(moves)
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
            execution_time_ms=round((self._clock.monotonic() - start) * 1000, 3),
            dry_run=dry_run,
            failed={**self._failed, **self._remains.failed},
        )

    async def has_work(self) -> bool:
        """Whether there is anything to be done, as far as a look at the first letters tells."""
        now = self._clock.now()
        if await self._remains.are_there():
            return True
        for query in leaving_queries(self._rules, now, 1):
            if (await self._letters.find(query)).items:
                return True
        leaves = leaving_history(self._rules, now, 1)
        return leaves is not None and bool((await self._own_history.find(leaves)).items)

    async def _held_groups(self) -> Names[str]:
        """The groups on hold, or perhaps so: somebody has still to look at their letters."""
        on_hold = Query((AnyOf((Not(Missing("hold_until")), Not(Missing("hold_release")))),))
        now = self._clock.now()
        held = set[str]()
        async for page in find_pages(self._groups, on_hold):
            require_complete(page)
            held |= {group.fingerprint for group in page.items if is_on_hold(group, now)}
            held |= {each.key.rpartition("/")[2] for each in page.corrupt if isinstance(each, CorruptRecord)}
        return held

    async def _without_restored(self, month: str, moves: Sequence[ArchiveMove]) -> list[ArchiveMove]:
        """Those that nobody took out of the archive lately."""
        found = await self._places.find_copies([move.letter.entry_id for move in moves], month, unreadable={})
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
        partition = await self._places.provide(month)
        copies = self._places.letters(partition)
        sure = await self._copy_surely(partition, moves)
        tombstones = [self._retire(partition, move) for move in sure]
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
        if lost:
            await self._withdraw(copies, lost)
        in_history = {move.letter.entry_id for move in left if move.in_history}
        await self._remains.remove(
            [each for each in gone if each.revision or each.previous_entry_id or each.entry_id in in_history]
        )

    async def _archive_former(self, former: Sequence[FormerLetter]) -> int:
        """Archive former letters whose successor is still in the queue. Returns how many."""
        count, elsewhere = 0, await self._remains.remove_archived(former)
        there = {each.entry_id: each for each in former if each.entry_id not in elsewhere}
        months = await self._collector.collect_former(list(there.values()))
        for month, moves in months.items():
            partition = await self._places.provide(month)
            these = {move.letter.entry_id: there[move.letter.entry_id] for move in moves}
            sure = await self._copy_surely(partition, moves, these)
            removed = await self._history.remove([there[move.letter.entry_id] for move in sure]) if sure else []
            gone = [move.letter.entry_id for move, done in zip(sure, removed, strict=True) if done is True]
            if lost := [move for move, done in zip(sure, removed, strict=True) if done is False]:
                await self._withdraw(self._places.letters(partition), lost)
            await forget_found_revisions(self._revisions, self._history, gone)
            count += len(gone)
        return count

    async def _copy_surely(
        self, partition: str, moves: Sequence[ArchiveMove], former: Mapping[str, FormerLetter] | None = None
    ) -> list[ArchiveMove]:
        """Those whose copies are in the partition for sure; none if somebody has detached it meanwhile.

        They are letters of the queue, or these `former` ones.
        """

        async def changed() -> set[str]:
            if former is None:
                there = await self._letters.get([move.letter.key for move in moves])
                return {
                    move.letter.entry_id
                    for move, now in zip(moves, there, strict=True)
                    if not is_same_version(move.letter, now)
                }
            old = await self._history.get(list(former))
            return {
                each.entry_id for each, now in zip(former.values(), old, strict=True) if not is_same_version(each, now)
            }

        async def spare(there: Sequence[ArchivedLetter]) -> set[str]:
            if former is not None:
                only_there.update(await self._remains.find_only_in(there))
            restored = {copy.entry_id for copy in there if self._is_restored(copy, letters[copy.entry_id])}
            return restored | await changed()

        letters = {move.letter.entry_id: move.letter for move in moves}
        await self._remove_earlier_copies(partition, moves, changed)
        now = self._clock.now()
        for move in moves:
            move.copy = ArchivedLetter.of(move.letter, move.former, move.revisions, now)
        wanted = [move.copy for move in moves if move.copy]
        only_there = set[str]()

        def over_alone(copy: ArchivedLetter, there: ArchivedLetter) -> ArchivedLetter:
            return copy.over_alone(there, only_there)

        over = ArchivedLetter.over if former is None else over_alone
        copied = await copy_surely(self._places.letters(partition), wanted, spare, over)
        sure: list[ArchiveMove] = []
        for move in moves:
            if (copy := copied.sure.get(move.letter.entry_id)) is not None:
                move.copy = copy
                sure.append(move)
            elif (why := copied.failed.get(move.letter.entry_id)) is not None:
                self._fail(move, why)
        return sure if sure and await self._places.confirm(partition) else []

    async def _remove_earlier_copies(
        self, partition: str, moves: Sequence[ArchiveMove], changed: Callable[[], Awaitable[set[str]]]
    ) -> None:
        """Remove copies of earlier states of these letters elsewhere, unless somebody has changed their letters.

        Only a letter that was opened again can have been copied into another month.
        """
        again = {move.letter.entry_id: LETTERS.document(move.letter) for move in moves if was_reopened(move.letter)}
        found = await self._places.find_copies(list(again), unreadable={})
        found.pop(partition, None)
        kept = await changed() if found else set[str]()
        for name, copies in found.items():
            earlier = [copy for copy in copies if copy.entry_id not in kept and copy.letter != again[copy.entry_id]]
            if earlier:
                await self._places.letters(name).remove(earlier)

    async def _withdraw(self, copies: Collection[ArchivedLetter], lost: Sequence[ArchiveMove]) -> None:
        """Take back the copies of letters that somebody changed meanwhile, unless another process archived them.

        If that one archived the letter as a former one of another, that copy has it.
        """
        there = await self._letters.get([move.letter.key for move in lost])
        former = await self._history.get([move.letter.entry_id for move in lost])
        unused: list[ArchivedLetter] = []
        for move, current, old in zip(lost, there, former, strict=True):
            if isinstance(current, StoreError) or isinstance(old, StoreError) or move.copy is None:
                continue  # nobody knows; what does not count is not shown either
            if is_archived(move.copy.entry_id, current, old is not None):
                is_useless = await self._remains.is_in_another(move.copy.entry_id, current)
            else:
                is_useless = not await self._remains.find_only_in([move.copy])
            if is_useless:
                unused.append(move.copy)
        if unused:
            await copies.remove(unused)

    def _fail(self, move: ArchiveMove, why: str) -> None:
        extra = log_event("archive.failed", **letter_fields(move.letter))
        log.error("letter %r could not be archived: %s", move.letter.key, why, extra=extra)
        self._failed[move.letter.key] = why

    def _retire(self, partition: str, move: ArchiveMove) -> DeadLetter:
        move.former = move.copy.read_former() if move.copy and len(move.copy.former) > len(move.former) else move.former
        former = next((each.entry_id for each in move.former if each.entry_id != move.letter.entry_id), None)
        now = self._clock.now()
        return retire(move.letter, now=now, by=self._by, partition=partition, former=former)

    def _count(self, moves: Sequence[ArchiveMove]) -> None:
        self._counts["letters"] += len(moves)
        self._counts["former"] += sum(len(move.former) for move in moves)
        self._counts["revisions"] += sum(len(move.revisions) for move in moves)

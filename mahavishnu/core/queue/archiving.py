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
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass, field

from mahavishnu.core.queue.archive_places import ArchivePlaces
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letters import NamespaceRecords
from mahavishnu.engine.paging import work_on_pages
from mahavishnu.model.daily_sums import was_reopened
from mahavishnu.model.errors import StoreError
from mahavishnu.model.group import is_on_hold
from mahavishnu.model.ids import document_key
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.log_events import letter_fields, log_event
from mahavishnu.model.query import AnyOf, Is, Missing, Not, Query
from mahavishnu.model.retention import (
    BY_RETENTION,
    ArchiveResult,
    RetentionRules,
    is_archived,
    keeps_restored,
    leaving_history,
    leaving_queries,
    may_leave,
    month_of,
)
from mahavishnu.model.returning import is_placeholder
from mahavishnu.model.tombstones import retire
from mahavishnu.stores.archived import ArchivedLetter, letter_of
from mahavishnu.stores.base import Collection, home_of, is_same_version, pages, scan
from mahavishnu.stores.copies import copy_surely
from mahavishnu.stores.kinds import GROUPS, HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import Revision, forget_found_revisions, forget_revisions

log = logging.getLogger(__name__)
_ASKED = 500  # letters whose history is looked for at once
_DELETED = Is("resolution_status", (ResolutionStatus.DELETED,))


@dataclass(slots=True)
class _Move:
    """A letter on its way into the archive, with what belongs to it, and its copy as it was written last."""

    letter: DeadLetter
    former: list[FormerLetter] = field(default_factory=list)
    revisions: list[Revision] = field(default_factory=list)
    copy: ArchivedLetter | None = None


class Archiving:
    """One go at archiving. Everything is done in the store that all processes share."""

    def __init__(self, context: QueueContext, rules: RetentionRules, by: str = BY_RETENTION) -> None:
        self._clock, self._rules, self._by = context.clock, rules, by
        home = home_of(context.store)
        self._places = ArchivePlaces(home, context.clock, context.meters)
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
            await self.finish()
        held, now = await self._held_groups(), self._clock.now()

        async def work(page: Sequence[DeadLetter]) -> None:
            leaving = [letter for letter in page if may_leave(letter, self._rules, now, held)]
            for month, moves in (await self._collect(leaving)).items():
                if dry_run:
                    self._count(await self._without_restored(month, moves))
                else:
                    archived = await self._remove_archived([each for move in moves for each in move.former])
                    for move in moves:
                        move.former = [each for each in move.former if each.entry_id not in archived]
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
            failed=self._failed,
        )

    async def has_work(self) -> bool:
        """Whether there is anything to be done, as far as a look at the first letters tells."""
        now, left = self._clock.now(), Query((_DELETED, Not(Missing("previous_entry_id"))), limit=1)
        for query in (left, *leaving_queries(self._rules, now, 1)):
            if (await self._letters.find(query)).items:
                return True
        leaves = leaving_history(self._rules, now, 1)
        return leaves is not None and bool((await self._own_history.find(leaves)).items)

    async def finish(self) -> None:
        """Remove what is left in the queue of letters that a process had archived which then died."""
        unfinished = Query((_DELETED, Not(Missing("previous_entry_id"))))
        attached = {each.name for each in await self._places.find_attached()}
        async for page in pages(self._letters, unfinished):
            left = [each for each in page if each.archived_at is not None and not is_placeholder(each)]
            # Written again, so that who is about to restore one of them begins again.
            left = [evolve(each) for each in left if each.resolution.notes in attached]
            written = await self._letters.write(left) if left else []
            await self._forget([each for each in written if isinstance(each, DeadLetter)])

    async def _held_groups(self) -> Names[str]:
        """The groups on hold: somebody has still to look at their letters."""
        on_hold = Query((AnyOf((Not(Missing("hold_until")), Not(Missing("hold_release")))),))
        now = self._clock.now()
        return {group.fingerprint async for group in scan(self._groups, on_hold) if is_on_hold(group, now)}

    async def _collect(self, letters: Sequence[DeadLetter]) -> dict[str, list[_Move]]:
        """The letters with all that belongs to them, by the month of the archive that they go to."""
        months: dict[str, list[_Move]] = defaultdict(list)
        former = await self._find_former(letters)
        revisions = await self._find_revisions(letters, former)
        for letter in letters:
            assert letter.resolution.at is not None
            own = former.get(letter.key, [])
            ids = (letter.entry_id, *(each.entry_id for each in own))
            found = [revision for entry_id in ids for revision in revisions.get(entry_id, ())]
            months[month_of(letter.resolution.at)].append(_Move(letter, own, found))
        return months

    async def _find_former(self, letters: Sequence[DeadLetter]) -> dict[str, list[FormerLetter]]:
        """The former letters of these, by the letters' keys, the latest first."""
        found: dict[str, list[FormerLetter]] = defaultdict(list)
        names = [letter.task_id for letter in letters if letter.absorbed or letter.previous_entry_id]
        keys = {letter.key for letter in letters}
        for start in range(0, len(names), _ASKED):
            query = Query((Is("task_id", tuple(names[start : start + _ASKED])),))
            async for former in scan(self._history, query):
                if (key := _letter_key(former)) in keys:
                    found[key].append(former)
        return {key: sorted(own, key=lambda each: each.created_at, reverse=True) for key, own in found.items()}

    async def _find_revisions(
        self, letters: Sequence[DeadLetter], former: dict[str, list[FormerLetter]]
    ) -> dict[str, list[Revision]]:
        """What edited ones of these were before, by entry ids."""
        found: dict[str, list[Revision]] = defaultdict(list)
        edited = [letter.entry_id for letter in letters if letter.revision]
        edited += [each.entry_id for own in former.values() for each in own if each.revision]
        for start in range(0, len(edited), _ASKED):
            query = Query((Is("entry_id", tuple(edited[start : start + _ASKED])),))
            async for revision in scan(self._revisions, query):
                found[revision.entry_id].append(revision)
        return {entry_id: sorted(own, key=lambda each: each.number) for entry_id, own in found.items()}

    async def _without_restored(self, month: str, moves: Sequence[_Move]) -> list[_Move]:
        """Those that nobody took out of the archive lately."""
        found = await self._places.find_copies([move.letter.entry_id for move in moves], month)
        copies = {copy.entry_id: copy for own in found.values() for copy in own}
        return [
            move
            for move in moves
            if (copy := copies.get(move.letter.entry_id)) is None or not self._is_restored(copy, move.letter)
        ]

    def _is_restored(self, copy: ArchivedLetter, letter: DeadLetter) -> bool:
        return keeps_restored(copy.restored_at, letter, self._rules, self._clock.now())

    async def _archive(self, month: str, moves: list[_Move]) -> None:
        """Copy, verify, and let the letters leave the queue."""
        partition = await self._places.provide(month)
        copies = self._places.letters(partition)
        sure = await self._copy_surely(partition, moves)
        tombstones = [self._retire(partition, move) for move in sure]
        results = await self._letters.write(tombstones) if tombstones else []
        left: list[_Move] = []
        gone: list[DeadLetter] = []
        lost: list[_Move] = []
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
        await self._forget([letter for letter in gone if letter.revision or letter.previous_entry_id])

    async def _archive_former(self, former: Sequence[FormerLetter]) -> int:
        """Archive former letters whose successor is still in the queue. Returns how many."""
        count, archived = 0, await self._remove_archived(former)
        letters = {each.entry_id: letter_of(each) for each in former if each.entry_id not in archived}
        revisions = await self._find_revisions(list(letters.values()), {})
        months: dict[str, list[_Move]] = defaultdict(list)
        for letter in letters.values():
            assert letter.resolution.at is not None
            own = revisions.get(letter.entry_id, [])
            months[month_of(letter.resolution.at)].append(_Move(letter, [], list(own)))
        there = {each.entry_id: each for each in former}
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
        self, partition: str, moves: Sequence[_Move], former: Mapping[str, FormerLetter] | None = None
    ) -> list[_Move]:
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
            restored = {copy.entry_id for copy in there if self._is_restored(copy, letters[copy.entry_id])}
            return restored | await changed()

        letters = {move.letter.entry_id: move.letter for move in moves}
        await self._remove_earlier_copies(partition, moves, changed)
        now = self._clock.now()
        for move in moves:
            move.copy = ArchivedLetter.of(move.letter, move.former, move.revisions, now)
        wanted = [move.copy for move in moves if move.copy]
        copied = await copy_surely(self._places.letters(partition), wanted, spare)
        sure: list[_Move] = []
        for move in moves:
            if (copy := copied.sure.get(move.letter.entry_id)) is not None:
                move.copy = copy
                sure.append(move)
            elif (why := copied.failed.get(move.letter.entry_id)) is not None:
                self._fail(move, why)
        return sure if sure and await self._places.confirm(partition) else []

    async def _remove_earlier_copies(
        self, partition: str, moves: Sequence[_Move], changed: Callable[[], Awaitable[set[str]]]
    ) -> None:
        """Remove copies of earlier states of these letters elsewhere, unless somebody has changed their letters.

        Only a letter that was opened again can have been copied into another month.
        """
        again = {move.letter.entry_id: LETTERS.document(move.letter) for move in moves if was_reopened(move.letter)}
        found = await self._places.find_copies(list(again))
        found.pop(partition, None)
        kept = await changed() if found else set[str]()
        for name, copies in found.items():
            earlier = [copy for copy in copies if copy.entry_id not in kept and copy.letter != again[copy.entry_id]]
            if earlier:
                await self._places.letters(name).remove(earlier)

    async def _withdraw(self, copies: Collection[ArchivedLetter], lost: Sequence[_Move]) -> None:
        """Take back the copies of letters that somebody changed meanwhile, unless another process archived them.

        If that one archived the letter as a former one of another, that copy has it.
        """
        there = await self._letters.get([move.letter.key for move in lost])
        former = await self._history.get([move.letter.entry_id for move in lost])
        unused: list[ArchivedLetter] = []
        for move, current, old in zip(lost, there, former, strict=True):
            if isinstance(current, StoreError) or isinstance(old, StoreError) or move.copy is None:
                continue  # nobody knows; what does not count is not shown either
            archived = is_archived(move.copy.entry_id, current, old is not None)
            if not archived or await self._is_in_another(move.copy.entry_id, current):
                unused.append(move.copy)
        if unused:
            await copies.remove(unused)

    async def _is_in_another(self, entry_id: str, at_key: DeadLetter | None) -> bool:
        """Whether a later letter under its key is in the archive and has this one as a former letter."""
        if at_key is None or at_key.entry_id == entry_id:
            return False
        later = [each for each in (at_key.entry_id, *at_key.absorbed) if each != entry_id]
        return await self._is_in_copies_of(entry_id, later, at_key)

    async def _is_in_copies_of(self, entry_id: str, later: Sequence[str], at_key: DeadLetter) -> bool:
        """Whether the archive has it as a former letter of one of these, of which `at_key` is the latest."""
        former = await self._history.get(later)
        gone = {each for each, old in zip(later, former, strict=True) if is_archived(each, at_key, old is not None)}
        for copies in (await self._places.find_copies(later)).values():
            for copy in copies:
                if copy.entry_id in gone and any(each.entry_id == entry_id for each in copy.read_former()):
                    return True
        return False

    async def _forget(self, tombstones: Sequence[DeadLetter]) -> None:
        """Remove from the queue what went with these letters, and what else the archive has of it; note that.

        What copies do not have stays. Who restores a letter changes its tombstone first: then all of it stays.
        """
        with_copies: dict[str, ArchivedLetter] = {}
        place = {letter.entry_id: letter.resolution.notes for letter in tombstones}
        for partition, copies in (await self._places.find_copies(list(place))).items():
            with_copies |= {copy.entry_id: copy for copy in copies if place[copy.entry_id] == partition}
        former: dict[str, str] = {}  # whose successors are which letters
        for letter in tombstones:
            if (copy := with_copies.get(letter.entry_id)) is not None:
                former |= {each.entry_id: letter.entry_id for each in copy.read_former()}
        there = await self._history.get(list(former))
        away = await self._which_are_away(tombstones)
        if old := [each for each in there if isinstance(each, FormerLetter) and former[each.entry_id] in away]:
            await self._history.remove(old)
        found = await self._places.find_copies(list(former))
        away = await self._which_are_away(tombstones)
        for partition, copies in found.items():
            # A letter itself may be in the history too, in an earlier state.
            own = [copy for copy in copies if former[copy.entry_id] in away and copy.entry_id not in place]
            await self._places.letters(partition).remove(own)
        there = await self._history.get(list(former)) if former else []
        unfinished = {of for of, each in zip(former.values(), there, strict=True) if each is not None}
        done = [each for each in tombstones if each.entry_id in (away & with_copies.keys()) - unfinished]
        await forget_revisions(self._revisions, self._history, done)
        await self._letters.write([evolve(letter, revision=0, previous_entry_id=None) for letter in done])

    async def _which_are_away(self, tombstones: Sequence[DeadLetter]) -> set[str]:
        """The entry ids of those that nobody has changed, or whose key another letter has: they cannot be restored."""
        there = await self._letters.get([letter.key for letter in tombstones]) if tombstones else []
        old = await self._history.get([letter.entry_id for letter in tombstones]) if tombstones else []
        away: set[str] = set()
        for letter, now, former in zip(tombstones, there, old, strict=True):
            other = isinstance(now, DeadLetter) and now.entry_id != letter.entry_id and former is None
            if other or is_same_version(letter, now):
                away.add(letter.entry_id)
        return away

    async def _remove_archived(self, former: Sequence[FormerLetter]) -> set[str]:
        """Remove from the history what is in the copy of a later letter that has left before the one that has the key.

        Its tombstone was succeeded before all was removed that went with it. Returns the entry ids of these.
        """
        there = await self._letters.get([_letter_key(each) for each in former]) if former else []
        removed = list[FormerLetter]()
        pairs = zip(former, there, strict=True)
        for each, at_key in ((each, now) for each, now in pairs if isinstance(now, DeadLetter)):
            later = [entry for entry in at_key.absorbed if entry != each.entry_id and entry not in each.absorbed]
            if later and await self._is_in_copies_of(each.entry_id, later, at_key):
                removed.append(each)
        if removed:
            await self._history.remove(removed)
        return {each.entry_id for each in removed}

    def _fail(self, move: _Move, why: str) -> None:
        extra = log_event("archive.failed", **letter_fields(move.letter))
        log.error("letter %r could not be archived: %s", move.letter.key, why, extra=extra)
        self._failed[move.letter.key] = why

    def _retire(self, partition: str, move: _Move) -> DeadLetter:
        move.former = move.copy.read_former() if move.copy and len(move.copy.former) > len(move.former) else move.former
        former = move.former[0].entry_id if move.former else None
        now = self._clock.now()
        return retire(move.letter, now=now, by=self._by, partition=partition, former=former)

    def _count(self, moves: Sequence[_Move]) -> None:
        self._counts["letters"] += len(moves)
        self._counts["former"] += sum(len(move.former) for move in moves)
        self._counts["revisions"] += sum(len(move.revisions) for move in moves)


def _letter_key(former: FormerLetter) -> str:
    """The key that the former letter had while it lived."""
    return document_key(former.task_id, former.namespace, former.queue)

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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass

from mahavishnu.archive.copies import copy_surely
from mahavishnu.archive.partitions import ArchivePlaces
from mahavishnu.archive.records import ArchivedLetter, letter_of
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
from mahavishnu.engine.letters import NamespaceRecords
from mahavishnu.engine.moves import work_on_pages
from mahavishnu.groups.records import GROUPS
from mahavishnu.groups.rules import is_on_hold
from mahavishnu.model.errors import CorruptRecord, StoreError
from mahavishnu.model.events import letter_fields, log_event
from mahavishnu.model.ids import document_key
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.lifecycle import MAX_ABSORBED
from mahavishnu.model.query import AnyOf, Is, Missing, Not, Query
from mahavishnu.model.retention import BY_RETENTION, RetentionRules
from mahavishnu.model.tombstones import is_placeholder, retire, was_reopened
from mahavishnu.stores.base import Collection, Store, find_pages, home_of, is_same_version, pages, require_complete
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import Revision, forget_found_revisions, forget_revisions

# ----------------------------------------------------------------------------------------------------
# Letters on their way into the archive, each with what belongs to it: its former letters and its revisions.

_ASKED = 500  # letters whose history is looked for at once


@dataclass(slots=True)
class ArchiveMove:
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
    """Finds what belongs to letters, in the store that all processes share; what cannot be read stays where it is."""

    def __init__(self, home: Store) -> None:
        self._history, self._revisions = home.collection(HISTORY), home.collection(REVISIONS)

    async def collect(self, letters: Sequence[DeadLetter]) -> dict[str, list[ArchiveMove]]:
        """The letters with all that belongs to them, by the month of the archive that they go to. Raises StoreError."""
        found = await self._history.get([letter.entry_id for letter in letters]) if letters else []
        in_history = {each.entry_id for each in found if isinstance(each, FormerLetter)}
        moves = [ArchiveMove(letter, in_history=letter.entry_id in in_history) for letter in letters]
        await self._add_former(moves)
        return await self._by_month(moves)

    async def collect_former(self, former: Sequence[FormerLetter]) -> dict[str, list[ArchiveMove]]:
        """The same for former letters that go by themselves."""
        return await self._by_month([ArchiveMove(letter_of(each)) for each in former])

    async def _by_month(self, moves: Sequence[ArchiveMove]) -> dict[str, list[ArchiveMove]]:
        revisions = await self._find_revisions(moves)
        months: dict[str, list[ArchiveMove]] = defaultdict(list)
        for move in moves:
            assert move.letter.resolution.at is not None
            if revisions:
                ids = (move.letter.entry_id, *(each.entry_id for each in move.former))
                move.revisions = [revision for entry_id in ids for revision in revisions.get(entry_id, ())]
            months[month_of(move.letter.resolution.at)].append(move)
        return months

    async def _add_former(self, moves: Sequence[ArchiveMove]) -> None:
        """Add to each letter its former ones, the latest first.

        The history can have others under its key: a local store that brings a letter home writes it there first, and
        may then find that it becomes the successor of the one that it was to be a former letter of.
        """
        may_have = {move.letter.key: move for move in moves if move.letter.absorbed or move.letter.previous_entry_id}
        names = list({move.letter.task_id: None for move in may_have.values()})  # other queues may have the same task
        found = defaultdict[str, list[FormerLetter]](list)
        for start in range(0, len(names), _ASKED):
            query = Query((Is("task_id", tuple(names[start : start + _ASKED])),))
            async for page in pages(self._history, query):
                for former in page:
                    move = may_have.get(key := letter_key(former))
                    if move is not None and _may_succeed(move.letter, former):
                        found[key].append(former)
        for key, own in found.items():
            may_have[key].former = sorted(own, key=lambda each: each.created_at, reverse=True)

    async def _find_revisions(self, moves: Sequence[ArchiveMove]) -> Mapping[str, list[Revision]]:
        """What edited ones of these were before, by entry ids."""
        found: dict[str, list[Revision]] = defaultdict(list)
        edited = [each.entry_id for move in moves for each in (move.letter, *move.former) if each.revision]
        for start in range(0, len(edited), _ASKED):
            query = Query((Is("entry_id", tuple(edited[start : start + _ASKED])),))
            async for page in pages(self._revisions, query):
                for revision in page:
                    found[revision.entry_id].append(revision)
        return {entry_id: sorted(own, key=lambda each: each.number) for entry_id, own in found.items()}


def _may_succeed(letter: DeadLetter, former: FormerLetter) -> bool:
    """Whether the letter knows the other one under its key as one before it, or may have forgotten it."""
    if len(letter.absorbed) < MAX_ABSORBED and letter.previous_entry_id in (None, *letter.absorbed):
        return former.entry_id in letter.absorbed
    return former.entry_id != letter.entry_id


def letter_key(former: FormerLetter) -> str:
    """The key that the former letter had while it lived."""
    return document_key(former.task_id, former.namespace, former.queue)


# ----------------------------------------------------------------------------------------------------
# What archived letters leave behind: former letters and revisions in the queue, copies that others have made of them.

_UNFINISHED = (Is("resolution_status", (ResolutionStatus.DELETED,)), Not(Missing("previous_entry_id")))


class ArchiveRemains:
    """Removes it, in the store that all processes share. Raises StoreError where that gives no answer.

    `failed` says by the keys of letters why what went with them stays: their copies cannot be trusted.
    """

    def __init__(self, context: QueueContext) -> None:
        self.failed: dict[str, str] = {}
        home = home_of(context.store)
        self._places = ArchivePlaces(home, context.clock)
        self._letters = NamespaceRecords(home.collection(LETTERS), context.namespace)
        self._history, self._revisions = home.collection(HISTORY), home.collection(REVISIONS)

    async def are_there(self) -> bool:
        """Whether some letter has left of which a process had not removed all, as far as a look at the first tells."""
        return bool((await self._letters.find(Query(_UNFINISHED, limit=1))).items)

    async def finish(self) -> None:
        """Remove what is left in the queue of letters that a process had archived which then died."""
        attached = {each.name for each in await self._places.find_attached()}
        async for page in pages(self._letters, Query(_UNFINISHED)):
            left = [each for each in page if each.archived_at is not None and not is_placeholder(each)]
            # Written again, so that who is about to restore one of them begins again.
            left = [evolve(each) for each in left if each.resolution.notes in attached]
            written = await self._letters.write(left) if left else []
            await self.remove([each for each in written if isinstance(each, DeadLetter)])

    async def remove(self, tombstones: Sequence[DeadLetter]) -> None:
        """Remove from the queue what went with these letters, and what else the archive has of it; note that.

        What copies do not have stays. Who restores a letter changes its tombstone first: then all of it stays.
        """
        place = {letter.entry_id: letter.resolution.notes for letter in tombstones}
        with_copies, problems = dict[str, ArchivedLetter](), dict[str, str]()
        for partition, copies in (await self._places.find_copies(list(place), unreadable=problems)).items():
            with_copies |= {copy.entry_id: copy for copy in copies if place[copy.entry_id] == partition}
        former: dict[str, str] = {}  # whose successors are which letters
        for entry_id, copy in list(with_copies.items()):
            if (own := _former_in(copy, problems)) is None:
                del with_copies[entry_id]
                continue
            former |= dict.fromkeys(own, entry_id)
            former[entry_id] = entry_id  # of which the history may have an earlier state
        for letter in tombstones:
            if (why := problems.get(letter.entry_id)) is not None:
                self.failed[letter.key] = f"{why}; what went with the letter stays in the queue"
        # Before it leaves the history: a process that died in between would leave a copy that counts from then on.
        await self._remove_copies(former, tombstones)
        there = await self._history.get(list(former))
        away = await self._which_are_away(tombstones)
        if old := [each for each in there if isinstance(each, FormerLetter) and former[each.entry_id] in away]:
            await self._history.remove(old)
        await self._remove_copies(former, tombstones)  # what others have copied meanwhile
        there = await self._history.get(list(former)) if former else []
        unfinished = {of for of, each in zip(former.values(), there, strict=True) if each is not None}
        away = await self._which_are_away(tombstones)
        done = [each for each in tombstones if each.entry_id in (away & with_copies.keys()) - unfinished]
        await forget_revisions(self._revisions, self._history, done)
        await self._letters.write([evolve(letter, revision=0, previous_entry_id=None) for letter in done])

    async def keep_what_copies_have(self, moves: Sequence[ArchiveMove]) -> None:
        """Add to these letters what only copies of their former ones have: those are removed when the letters leave.

        A former letter has such a copy if it was archived itself, and whoever succeeds a letter wrote it into the
        history after that.
        """
        of = {each.entry_id: move for move in moves for each in move.former}
        found = await self._places.find_copies(list(of), unreadable={})
        copies = [copy for own in found.values() for copy in own if copy.former]
        only_there = await self.find_only_in(copies)
        for copy in copies:
            if _former_in(copy, {}) is None:
                continue
            move, known = of[copy.entry_id], {each.entry_id for each in of[copy.entry_id].former}
            added = [each for each in copy.read_former() if each.entry_id in only_there - known]
            move.former = sorted([*move.former, *added], key=lambda each: each.created_at, reverse=True)
            names = {each.entry_id for each in added}
            move.revisions = [*move.revisions, *(each for each in copy.read_revisions() if each.entry_id in names)]

    async def find_only_in(self, copies: Iterable[ArchivedLetter]) -> set[str]:
        """The former letters that these copies have, and neither the history nor copies of their own."""
        names = list({entry_id for copy in copies if copy.former for entry_id in _former_in(copy, {}) or ()})
        there = await self._history.get(names) if names else []  # first: who takes one from there has copied it
        names = [name for name, each in zip(names, there, strict=True) if each is None]
        found = await self._places.find_copies(names, unreadable={})
        return {*names} - {copy.entry_id for own in found.values() for copy in own}

    async def _remove_copies(self, former: Mapping[str, str], tombstones: Sequence[DeadLetter]) -> None:
        """Remove the copies that former letters have of their own, where their successors are away."""
        own = {letter.entry_id for letter in tombstones}
        found = await self._places.find_copies([each for each in former if each not in own], unreadable={})
        away = await self._which_are_away(tombstones) if found else set()
        for partition, copies in found.items():
            await self._discard(partition, [copy for copy in copies if former[copy.entry_id] in away], former)

    async def _discard(self, partition: str, copies: Sequence[ArchivedLetter], kept: Names[str]) -> None:
        """Remove the copies, but for those with former letters that are nowhere else and not `kept` either."""
        only_there = await self.find_only_in(copies) - {*kept}
        useless = [copy for copy in copies if not (only_there and only_there.intersection(_former_in(copy, {}) or ()))]
        if useless:
            await self._places.letters(partition).remove(useless)

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

    async def remove_archived(self, former: Sequence[FormerLetter]) -> set[str]:
        """Remove from the history what the copy of a letter has that has left before the one that has the key.

        Its tombstone was succeeded before all was removed that went with it. An earlier state of a letter that is in
        the archive itself goes too; one of a letter that lives stays. Returns the entry ids of all these: none of them
        is to be archived by itself.
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
        found = await self._places.find_copies(list(later), unreadable={})
        archived: dict[str, Names[str]] = {}
        for name, (entries, at_key) in later.items():
            if own := await self._former_with(name, entries, at_key):
                archived[name] = own
        kept = {each for own in archived.values() for each in own}
        for partition, copies in found.items():  # first, as in `remove`
            await self._discard(partition, [copy for copy in copies if copy.entry_id in archived], kept)
        removed += [each for each in former if each.entry_id in archived]
        if removed:
            await self._history.remove(removed)
        return elsewhere | {each.entry_id for each in removed}

    async def is_in_another(self, entry_id: str, at_key: DeadLetter | None) -> bool:
        """Whether a later letter under its key is in the archive and has this one as a former letter."""
        if at_key is None or at_key.entry_id == entry_id:
            return False
        later = [each for each in (at_key.entry_id, *at_key.absorbed) if each != entry_id]
        return bool(await self._former_with(entry_id, later, at_key))

    async def _former_with(self, entry_id: str, later: Sequence[str], at_key: DeadLetter) -> Names[str]:
        """The former letters that the archive has of one of these, it among them; `at_key` is the latest. Or none."""
        former = await self._history.get(later)
        gone = {each for each, old in zip(later, former, strict=True) if is_archived(each, at_key, old is not None)}
        for copies in (await self._places.find_copies(later, unreadable={})).values():
            for copy in copies:
                if copy.entry_id in gone and entry_id in (own := _former_in(copy, {}) or ()):
                    return own
        return ()


def _former_in(copy: ArchivedLetter, problems: dict[str, str]) -> list[str] | None:
    """The entry ids of the former letters that a copy has; None, and why, if it is not what was written."""
    try:
        copy.require_intact()
        return [each.entry_id for each in copy.read_former()]
    except CorruptRecord as problem:
        problems[copy.entry_id] = str(problem)
        return None


# ----------------------------------------------------------------------------------------------------

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

        async def find_changed() -> set[str]:
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
            return restored | await find_changed()

        letters = {move.letter.entry_id: move.letter for move in moves}
        await self._remove_earlier_copies(partition, moves, find_changed)
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
        self, partition: str, moves: Sequence[ArchiveMove], find_changed: Callable[[], Awaitable[set[str]]]
    ) -> None:
        """Remove copies of earlier states of these letters elsewhere, unless somebody has changed their letters.

        Only a letter that was opened again can have been copied into another month.
        """
        again = {move.letter.entry_id: LETTERS.document(move.letter) for move in moves if was_reopened(move.letter)}
        found = await self._places.find_copies(list(again), unreadable={})
        found.pop(partition, None)
        kept = await find_changed() if found else set[str]()
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

"""What archived letters leave behind: former letters and revisions in the queue, copies that others have made of them.

It is removed after its letter has left, and whoever comes next goes on where a process has died.
"""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Iterable, Mapping, Sequence

from mahavishnu.core.queue.archive_moves import ArchiveMove, letter_key
from mahavishnu.core.queue.archive_places import ArchivePlaces
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letters import NamespaceRecords
from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.letter import DeadLetter, FormerLetter, evolve
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.query import Is, Missing, Not, Query
from mahavishnu.model.retention import is_archived
from mahavishnu.model.tombstones import is_placeholder
from mahavishnu.stores.archived import ArchivedLetter
from mahavishnu.stores.base import home_of, is_same_version, pages
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.retained import forget_revisions

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

"""Letters on their way into the archive, each with what belongs to it: its former letters and its revisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mahavishnu.model.ids import document_key
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.lifecycle import MAX_ABSORBED
from mahavishnu.model.query import Is, Query
from mahavishnu.model.retention import month_of
from mahavishnu.stores.archived import ArchivedLetter, letter_of
from mahavishnu.stores.base import Store, pages
from mahavishnu.stores.kinds import HISTORY, REVISIONS
from mahavishnu.stores.retained import Revision

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

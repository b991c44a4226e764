"""Takes a letter out of the archive: what belongs to it first, then the letter, by one compare-and-set.

Its copy stays in the partition, and does not count while the letter is in the queue. It says since when, so that the
letter is not archived again at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mahavishnu.core.queue.archive_places import ArchivePlaces
from mahavishnu.core.queue.archive_reads import ArchivedCase, ArchivedLine, read_case
from mahavishnu.engine.context import QueueContext
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.errors import IllegalMove, NoSuchLetter, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.tombstones import is_folded
from mahavishnu.stores.archived import ArchivedLetter
from mahavishnu.stores.base import Collection, get_one, home_of, update_with_retry, write_one, write_with_retry
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS

_TRIES = 10


async def restore_letter(context: QueueContext, line: ArchivedLine) -> DeadLetter:
    """Put the letter of this line back into the queue, as it was. Raises IllegalMove, NoSuchLetter and StoreError."""
    home, key = home_of(context.store), line.copy.letter_key
    letters, history = home.collection(LETTERS), home.collection(HISTORY)
    made: list[tuple[Collection[Any], list[Any]]] = []
    for _ in range(_TRIES):  # a loop of its own: each turn puts back records of three kinds, or takes them away again
        current = await get_one(letters, key)
        try:
            _refuse_if_taken(line.copy, current)
            case = await _mark_copy(context, line)
            if current is not None and not is_folded(current):
                current = await _claim(letters, case, current)
                if current is None:
                    continue
            made += [(there := home.collection(kind), await _keep(there, own)) for kind, own in _belongings(case)]
            if (stored := await _put_back(context, letters, case.letter, current)) is not None:
                return stored
        except (IllegalMove, NoSuchLetter):
            if _stays_away(line.copy, await get_one(letters, key)) and await get_one(history, line.copy.key) is None:
                for collection, records in made:
                    await collection.remove(records)
            raise
    raise StoreUnavailable(f"letter {key!r} was changed by others {_TRIES} times in a row")


async def _mark_copy(context: QueueContext, line: ArchivedLine) -> ArchivedCase:
    """The case as the archive has it by now, after its copy was marked as taken out."""
    copies, now = ArchivePlaces(home_of(context.store), context.clock).letters(line.partition), context.clock.now()
    marked = await update_with_retry(
        copies, line.copy.entry_id, lambda copy: replace(copy, restored_at=now), what="archived letter"
    )
    if marked is None:
        raise NoSuchLetter(line.copy.letter_key)
    return read_case(ArchivedLine(line.partition, marked.after))


async def _claim(letters: Collection[DeadLetter], case: ArchivedCase, tombstone: DeadLetter) -> DeadLetter | None:
    """Write the tombstone again before anything is put back. None if somebody has changed it.

    Whoever still removes what went with the letter stops at that. If this process dies now, its former letters are
    removed by the next who looks: the tombstone names one of them as it does while they are still to be removed.
    """
    former = case.former[0].entry_id if case.former else tombstone.previous_entry_id
    return await write_one(letters, evolve(tombstone, previous_entry_id=former))


def _belongings(case: ArchivedCase) -> list[tuple[Kind[Any], list[Any]]]:
    return [(HISTORY, case.former), (REVISIONS, case.revisions)]


def _stays_away(copy: ArchivedLetter, current: DeadLetter | None) -> bool:
    """Whether nobody can restore the letter any more: something else has its key, or somebody deleted it."""
    if current is None:
        return False
    return current.entry_id != copy.entry_id or (current.is_deleted and current.archived_at is None)


async def _keep(collection: Collection[Any], records: list[Any]) -> list[Any]:
    """Create what is not there, and write the rest again: who is removing it loses. Returns what was created."""
    made: list[Any] = []
    for record in records:

        def kept(there: Any, record: Any = record) -> Any:
            return record if there is None else there

        there, written = await write_with_retry(collection, record.key, kept, what="record")
        made += [written] if there is None else []
    return made


async def _put_back(
    context: QueueContext, letters: Collection[DeadLetter], letter: DeadLetter, tombstone: DeadLetter | None
) -> DeadLetter | None:
    """The letter takes its key again, and its numbers from whatever counts them. None if somebody was quicker."""
    if tombstone is None:
        return await Ledger(context).take_back(letter)
    if is_folded(tombstone):  # its numbers are on the way into a day's sum
        await Ledger(context).settle(letter.namespace)
        return None
    # More may have come home meanwhile.
    names = ("generation", "tallies", "absorbed", "merged", "counted", "version")
    return await write_one(letters, evolve(letter, **{name: getattr(tombstone, name) for name in names}))


def _refuse_if_taken(copy: ArchivedLetter, current: DeadLetter | None) -> None:
    """Raise IllegalMove where something else has the letter's key, NoSuchLetter where somebody deleted it."""
    if current is None:
        return
    if not current.is_deleted:
        why = "it is no longer in the archive"
        if current.entry_id != copy.entry_id:
            why = f"its task failed again, and entry {current.entry_id} has its place"
        raise IllegalMove(copy.letter_key, "restore", f"{current.status} in the queue", why)
    if current.entry_id != copy.entry_id:
        why = f"its task failed again, and entry {current.entry_id}, which is gone too, is still remembered"
        raise IllegalMove(copy.letter_key, "restore", "archived", why)
    if current.archived_at is None:
        raise NoSuchLetter(copy.letter_key)

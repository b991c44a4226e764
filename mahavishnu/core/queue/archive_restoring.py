"""Takes a letter out of the archive: what belongs to it first, then the letter, by one compare-and-set.

Its copy stays in the partition, and does not count while the letter is in the queue. It says since when, so that the
letter is not archived again at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mahavishnu.core.queue.archive_places import ArchivePlaces
from mahavishnu.core.queue.archive_reads import ArchivedCase, ArchivedLine, read_case
from mahavishnu.core.queue.ledger import Ledger
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.daily_sums import is_folded
from mahavishnu.model.errors import IllegalMove, NoSuchLetter, StoreError, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.stores.base import Collection, get_one, home_of, update_with_retry, write_one
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS

_TRIES = 10


async def restore_letter(context: QueueContext, line: ArchivedLine) -> DeadLetter:
    """Put the letter of this line back into the queue, as it was. Raises IllegalMove, NoSuchLetter and StoreError."""
    case, home, now = read_case(line), home_of(context.store), context.clock.now()
    letters = home.collection(LETTERS)
    _refuse_if_taken(case.letter, await get_one(letters, case.letter.key))
    copies = ArchivePlaces(home, context.clock).letters(line.partition)
    await update_with_retry(
        copies, line.copy.entry_id, lambda copy: replace(copy, restored_at=now), what="archived letter"
    )
    made = {kind: await _create(home.collection(kind), records) for kind, records in _belongings(case)}
    try:
        return await _put_back(context, letters, case)
    except (IllegalMove, NoSuchLetter):
        current, former = await get_one(letters, case.letter.key), home.collection(HISTORY)
        if _stays_away(case.letter, current) and await get_one(former, case.letter.entry_id) is None:
            for kind, records in made.items():
                await home.collection(kind).remove(records)
        raise


def _belongings(case: ArchivedCase) -> list[tuple[Kind[Any], list[Any]]]:
    return [(HISTORY, case.former), (REVISIONS, case.revisions)]


def _stays_away(letter: DeadLetter, current: DeadLetter | None) -> bool:
    """Whether nobody can restore the letter any more: something else has its key, or somebody deleted it."""
    if current is None:
        return False
    return current.entry_id != letter.entry_id or (current.is_deleted and current.archived_at is None)


async def _create(collection: Collection[Any], records: list[Any]) -> list[Any]:
    """Create what is not there yet. Returns what was created. Raises StoreError."""
    results = await collection.write(records) if records else []
    for result in results:
        if isinstance(result, StoreError):
            raise result
    return [result for result in results if result is not None]


async def _put_back(context: QueueContext, letters: Collection[DeadLetter], case: ArchivedCase) -> DeadLetter:
    """The letter takes its key again, and its numbers from whatever counts them now."""
    letter, ledger = case.letter, Ledger(context)
    for _ in range(_TRIES):
        current = await get_one(letters, letter.key)
        _refuse_if_taken(letter, current)
        stored: DeadLetter | None = None
        if current is None:
            stored = await ledger.take_back(letter)
        elif is_folded(current):  # its numbers are on the way into a day's sum
            await ledger.settle(letter.namespace)
        else:
            # More may have come home meanwhile.
            names = ("generation", "tallies", "absorbed", "merged", "counted", "version")
            stored = await write_one(letters, evolve(letter, **{name: getattr(current, name) for name in names}))
        if stored is not None:
            return stored
    raise StoreUnavailable(f"letter {letter.key!r} was changed by others {_TRIES} times in a row")


def _refuse_if_taken(letter: DeadLetter, current: DeadLetter | None) -> None:
    """Raise IllegalMove where something else has the letter's key, NoSuchLetter where somebody deleted it."""
    if current is None:
        return
    if not current.is_deleted:
        why = "it is no longer in the archive"
        if current.entry_id != letter.entry_id:
            why = f"its task failed again, and entry {current.entry_id} has its place"
        raise IllegalMove(letter.key, "restore", f"{current.status} in the queue", why)
    if current.entry_id != letter.entry_id:
        why = f"its task failed again, and entry {current.entry_id}, which is gone too, is still remembered"
        raise IllegalMove(letter.key, "restore", "archived", why)
    if current.archived_at is None:
        raise NoSuchLetter(letter.key)

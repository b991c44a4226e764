"""Deleting letters without losing count of them, see `mahavishnu.stores.retained`, and what they were with them.

What was kept of a letter when it was edited goes after the letter and before its entry says *gone*: where somebody died
in between, the entry still says *leaving*, and `finish` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mahavishnu.model.errors import StoreError, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import Collection, get_one, scan
from mahavishnu.stores.retained import SUMS, Entry, Revision, entry_for, forget_revisions, revision_key

_TRIES = 50


@dataclass(frozen=True, slots=True)
class DeletionCollections:
    """Where letters are, and everything that is kept of them."""

    letters: Collection[DeadLetter]
    ledger: Collection[Entry]
    history: Collection[FormerLetter]
    revisions: Collection[Revision]

    async def forget(self, entry_ids: Sequence[str], keys: Sequence[str] = ()) -> None:
        """Delete the revisions of these letters; of those that are in the history they stay. Raises StoreError."""
        former = await self.history.get(entry_ids) if entry_ids else []
        for problem in former:
            if isinstance(problem, StoreError):
                raise problem
        gone = [entry_id for entry_id, there in zip(entry_ids, former, strict=True) if there is None]
        await forget_revisions(self.revisions, gone, keys)


async def delete(
    shelves: DeletionCollections,
    chosen: Sequence[DeadLetter],
    still: Callable[[DeadLetter], bool],
    now: datetime,
    by: str,
) -> list[DeadLetter]:
    """Remove those of `chosen` that are `still` to be removed when it happens. Returns the removed ones.

    Raises the StoreError of a letter that could not be removed, after the others were.
    """
    letters, ledger = shelves.letters, shelves.ledger
    removed: list[DeadLetter] = []
    problems: list[StoreError] = []
    rest = list(chosen)
    for _ in range(_TRIES):
        if not rest:
            break
        entries = await _noted(ledger, [entry_for(letter, now, by) for letter in rest])
        await _forget(ledger, [former for letter in rest for former in letter.absorbed])
        results = await letters.remove(rest)
        done = [letter for letter, result in zip(rest, results, strict=True) if result is True]
        problems += [result for result in results if isinstance(result, StoreError)]
        await shelves.forget(
            [entry_id for letter in done for entry_id in (letter.entry_id, *letter.absorbed)],
            [revision_key(letter.entry_id, number) for letter in done for number in range(letter.revision + 1)],
        )
        await _noted(ledger, [replace(entries[letter.entry_id], gone=True) for letter in done])
        removed += done
        changed = [letter for letter, result in zip(rest, results, strict=True) if result is False]
        rest = []
        for before, current in zip(changed, await letters.get([letter.key for letter in changed]), strict=True):
            if not isinstance(current, DeadLetter) or before.entry_id not in (current.entry_id, *current.absorbed):
                continue  # somebody else removed it
            if current.entry_id == before.entry_id and still(current):
                rest.append(current)
            else:  # it was finished meanwhile and stays, or lives on in its next generation
                await _forget(ledger, [before.entry_id])
    if rest:
        raise StoreUnavailable(
            f"letter {rest[0].key!r} was changed by others {_TRIES} times in a row while it was deleted"
        )
    if problems:
        raise problems[0]
    return removed


async def finish(shelves: DeletionCollections) -> None:
    """Do the rest for letters that somebody had removed who then died, or could not go on. Raises StoreError."""
    async for entry in scan(shelves.ledger, Query((Is("gone", (0,)),))):
        letter = await get_one(shelves.letters, entry.letter_key)
        if letter is None or entry.entry_id not in (letter.entry_id, *letter.absorbed):
            await shelves.forget((entry.entry_id, *entry.absorbed))
            await _noted(shelves.ledger, [replace(entry, gone=True)])


async def _forget(ledger: Collection[Entry], entry_ids: Sequence[str]) -> None:
    """Drop the entries that say *leaving* of letters that did not leave, or that left as part of another one."""
    for _ in range(_TRIES):
        found = await ledger.get(entry_ids) if entry_ids else []
        leaving = [entry for entry in found if isinstance(entry, Entry) and not entry.gone]
        if not leaving or False not in await ledger.remove(leaving):
            return


async def left_behind(letters: Collection[DeadLetter], ledger: Collection[Entry]) -> Mapping[str, int]:
    """The sums over all deleted letters, exact also where somebody died while deleting one."""
    tally = await ledger.tally(Query(), by=["gone"], sums=SUMS)
    groups = tally.by(0)
    sums = {name: groups[1].sums.get(name, 0) if 1 in groups else 0 for name in SUMS}
    if 0 not in groups or not groups[0].count:
        return sums
    async for entry in scan(ledger, Query((Is("gone", (0,)),))):
        letter = await get_one(letters, entry.letter_key)
        if letter is None or entry.entry_id not in (letter.entry_id, *letter.absorbed):
            sums = {name: sums[name] + count for name, count in entry.sums().items()}
    return sums


async def _noted(ledger: Collection[Entry], entries: Sequence[Entry]) -> dict[str, Entry]:
    """The entries as the ledger has them now; what an earlier try left there is brought up to date."""
    noted: dict[str, Entry] = {}
    waiting = list(entries)
    for _ in range(_TRIES):
        if not waiting:
            return noted
        results = await ledger.write(waiting)
        lost: list[Entry] = []
        for entry, result in zip(waiting, results, strict=True):
            if isinstance(result, StoreError):
                raise result
            if result is None:
                lost.append(entry)
            else:
                noted[entry.entry_id] = result
        waiting = []
        for entry, current in zip(lost, await ledger.get([entry.key for entry in lost]), strict=True):
            if isinstance(current, StoreError):
                raise current
            if current is not None and current.gone:
                noted[entry.entry_id] = current  # somebody else has deleted this letter to the end
            else:
                waiting.append(replace(entry, version=current.version if current else None))
    raise StoreUnavailable(f"the ledger entry of {waiting[0].letter_key!r} was changed by others {_TRIES} times")

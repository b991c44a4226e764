"""Deletes letters without losing count of them (see `mahavishnu.stores.retained`), and their revisions with them.

The revisions of a letter are deleted after the letter, and before its ledger entry says *gone*: where a process dies in
between, the entry still says *leaving*, and the next deletion does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mahavishnu.engine.context import DEFAULT_ACTOR, OPEN_LETTERS, QueueContext
from mahavishnu.model.errors import StoreError, StoreUnavailable
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import Cursor, get_one, scan
from mahavishnu.stores.retained import SUMS, LedgerEntry, forget_revisions, ledger_entry, revision_key

_TRIES = 50
_PAGE = 500


class Deletion:
    """Deletes letters, and knows the sums over all that were deleted."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._clock = context, context.clock
        self._letters, self._history = context.letters, context.history
        self._ledger, self._revisions = context.ledger, context.revisions

    async def clear_all(self, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> int:
        """Delete every open letter with its revisions, and empty the waiting room. Returns how many letters are gone.

        Raises StoreError if not all of them can be reached.
        """
        async with self._context.audit.record("clear", "queue", by=by, reason=notes) as record:
            cleared = await self._delete_open(by)
            detail = {"by": by, "count": cleared}
            self._context.events.publish(Event(EventName.CLEARED, self._clock.now(), None, detail))
            record.add(cleared=cleared)
        return cleared

    async def sums(self) -> Mapping[str, int]:
        """The sums over all deleted letters, exact also where a process died while it deleted one."""
        tally = await self._ledger.tally(Query(), by=["gone"], sums=SUMS)
        groups = tally.by(0)
        sums = {name: groups[1].sums.get(name, 0) if 1 in groups else 0 for name in SUMS}
        if 0 not in groups or not groups[0].count:
            return sums
        async for entry in scan(self._ledger, Query((Is("gone", (0,)),))):
            if await self._is_gone(entry):
                sums = {name: sums[name] + count for name, count in entry.sums().items()}
        return sums

    async def _delete_open(self, by: str) -> int:
        count = 0
        await self._finish()
        after: Cursor | None = None
        while True:
            page = await self._letters.find(replace(OPEN_LETTERS, limit=_PAGE), after)
            if page.degraded:
                raise StoreError(f"not everything can be cleared now, {count} letters were: {page.degraded}")
            count += len(await self._delete(page.items, lambda letter: letter.is_open, by))
            if page.next is None:
                break
            after = page.next
        waiting = self._context.waiting
        await waiting.collection.remove([former async for former in scan(waiting.collection, Query())])
        waiting.in_memory.clear()
        return count

    async def _delete(
        self, chosen: Sequence[DeadLetter], still_due: Callable[[DeadLetter], bool], by: str
    ) -> list[DeadLetter]:
        """Remove those of `chosen` for which `still_due` holds when it happens. Returns the removed ones.

        Raises the StoreError of a letter that could not be removed, after the others were.
        """
        now = self._clock.now()
        removed: list[DeadLetter] = []
        problems: list[StoreError] = []
        rest = list(chosen)
        for _ in range(_TRIES):
            if not rest:
                break
            entries = await self._write_entries([ledger_entry(letter, now, by) for letter in rest])
            await self._drop_leaving([former for letter in rest for former in letter.absorbed])
            results = await self._letters.remove(rest)
            done = [letter for letter, result in zip(rest, results, strict=True) if result is True]
            problems += [result for result in results if isinstance(result, StoreError)]
            await self._delete_revisions(
                [entry_id for letter in done for entry_id in (letter.entry_id, *letter.absorbed)],
                [revision_key(letter.entry_id, number) for letter in done for number in range(letter.revision + 1)],
            )
            await self._write_entries([replace(entries[letter.entry_id], gone=True) for letter in done])
            removed += done
            changed = [letter for letter, result in zip(rest, results, strict=True) if result is False]
            rest = []
            current_letters = await self._letters.get([letter.key for letter in changed])
            for before, current in zip(changed, current_letters, strict=True):
                if not isinstance(current, DeadLetter) or before.entry_id not in (current.entry_id, *current.absorbed):
                    continue  # somebody else removed it
                if current.entry_id == before.entry_id and still_due(current):
                    rest.append(current)
                else:  # it was finished meanwhile and stays, or lives on in its next generation
                    await self._drop_leaving([before.entry_id])
        if rest:
            raise StoreUnavailable(
                f"letter {rest[0].key!r} was changed by others {_TRIES} times in a row while it was deleted"
            )
        if problems:
            raise problems[0]
        return removed

    async def _finish(self) -> None:
        """Do the rest for letters that a process had removed which then died. Raises StoreError."""
        async for entry in scan(self._ledger, Query((Is("gone", (0,)),))):
            if await self._is_gone(entry):
                await self._delete_revisions((entry.entry_id, *entry.absorbed))
                await self._write_entries([replace(entry, gone=True)])

    async def _is_gone(self, entry: LedgerEntry) -> bool:
        letter = await get_one(self._letters, entry.letter_key)
        return letter is None or entry.entry_id not in (letter.entry_id, *letter.absorbed)

    async def _delete_revisions(self, entry_ids: Sequence[str], keys: Sequence[str] = ()) -> None:
        """Delete the revisions of these letters; those of letters in the history stay. Raises StoreError."""
        former = await self._history.get(entry_ids) if entry_ids else []
        for problem in former:
            if isinstance(problem, StoreError):
                raise problem
        gone = [entry_id for entry_id, there in zip(entry_ids, former, strict=True) if there is None]
        await forget_revisions(self._revisions, gone, keys)

    async def _drop_leaving(self, entry_ids: Sequence[str]) -> None:
        """Drop the *leaving* entries of letters that did not leave, or that left as part of another one."""
        for _ in range(_TRIES):
            found = await self._ledger.get(entry_ids) if entry_ids else []
            leaving = [entry for entry in found if isinstance(entry, LedgerEntry) and not entry.gone]
            if not leaving or False not in await self._ledger.remove(leaving):
                return

    async def _write_entries(self, entries: Sequence[LedgerEntry]) -> dict[str, LedgerEntry]:
        """Write entries and return them as the ledger has them now; those of an earlier try are brought up to date."""
        written: dict[str, LedgerEntry] = {}
        waiting = list(entries)
        for _ in range(_TRIES):
            if not waiting:
                return written
            results = await self._ledger.write(waiting)
            lost: list[LedgerEntry] = []
            for entry, result in zip(waiting, results, strict=True):
                if isinstance(result, StoreError):
                    raise result
                if result is None:
                    lost.append(entry)
                else:
                    written[entry.entry_id] = result
            waiting = []
            for entry, current in zip(lost, await self._ledger.get([entry.key for entry in lost]), strict=True):
                if isinstance(current, StoreError):
                    raise current
                if current is not None and current.gone:
                    written[entry.entry_id] = current  # somebody else has deleted this letter to the end
                else:
                    waiting.append(replace(entry, version=current.version if current else None))
        raise StoreUnavailable(f"the ledger entry of {waiting[0].letter_key!r} was changed by others {_TRIES} times")

"""The members of a bulk run: who they are, moving some of them, and what became of them.

The mark that a run leaves on a letter in the same write as its move decides what was done: pages only report it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mahavishnu.model import bulk_rules, bulk_run, lifecycle
from mahavishnu.model.bulk_run import BUSY, BulkRun, ItemOutcome, ItemState, RunItem
from mahavishnu.model.errors import IllegalMove, MahavishnuError, StoreError, StoreUnavailable, cannot
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.lifecycle import MAX_RUNS
from mahavishnu.model.query import Between, Query, Sort
from mahavishnu.stores.base import Collection, Cursor, Result

Change = Callable[[DeadLetter], DeadLetter]
_FOUND = 1000  # letters that are looked up at once
_TRIES = 20


class Lost(Exception):
    """Somebody else carries the run on, or has done so to its end."""


def meant(query: Query, until: datetime) -> Query:
    """The query, for letters that were there then, the oldest first, many at a time."""
    return Query((*query.where, Between("created_at", at_most=until)), (Sort("created_at"),), _FOUND)


async def members(
    letters: Collection[DeadLetter], query: Query, until: datetime
) -> AsyncIterator[tuple[list[DeadLetter], tuple[StoreError, ...]]]:
    """The letters that the query means and that there were then, the oldest first, many at a time.

    With them come the records that cannot be read. Raises StoreUnavailable where not everything can be seen.
    """
    chosen = meant(query, until)
    after: Cursor | None = None
    seen: set[str] = set()  # a letter that goes home from a local store meanwhile is found twice
    while True:
        page = await letters.find(chosen, after)
        if page.degraded:
            raise StoreUnavailable(f"not every letter that is meant can be seen now: {page.degraded}")
        fresh = [letter for letter in page.items if letter.key not in seen]
        seen.update(letter.key for letter in fresh)
        yield fresh, page.corrupt
        if page.next is None:
            return
        after = page.next


def reason_of(problem: MahavishnuError, key: str) -> str:
    """Why a letter is refused, in words that are the same for all letters refused for this reason."""
    if isinstance(problem, IllegalMove):
        return f"{problem.state}: {cannot(problem.move)}"
    return str(problem).replace(f"letter {key!r}", "it").replace(f"of {key!r}", "of it").replace(repr(key), "it")


async def _no_objection(before: Sequence[DeadLetter], after: Sequence[DeadLetter]) -> Sequence[MahavishnuError | None]:
    return [None] * len(before)


@dataclass(frozen=True, slots=True)
class Movers:
    """What moves the letters of one run: `change` is the verb; `prepare` may object before letters are replaced."""

    letters: Collection[DeadLetter]
    history: Collection[FormerLetter]
    runs: Collection[BulkRun]
    run_id: str
    awaited: bool = False
    change: Change = lambda letter: letter
    prepare: Callable[[Sequence[DeadLetter], Sequence[DeadLetter]], Awaitable[Sequence[MahavishnuError | None]]] = (
        _no_objection
    )
    moved: Callable[[DeadLetter], object] = lambda letter: None

    async def move(self, items: Sequence[RunItem], now: datetime) -> tuple[list[RunItem], StoreError | None]:
        """Move these waiting members. Those that a store could not take now stay waiting, and the reason is given.

        Raises StoreUnavailable where it is not known what was done: asking the letters tells, later; and Lost.
        """
        done = list(items)
        todo = list(range(len(items)))
        away: StoreError | None = None
        for _ in range(_TRIES):
            current = await self._now([items[place] for place in todo])
            over = await self._over(current)
            before: dict[int, DeadLetter] = {}
            changed: dict[int, DeadLetter] = {}
            for place, letter in zip(todo, current, strict=True):
                settled = self._settled(items[place], letter)
                if settled is not None:
                    done[place] = settled
                elif isinstance(letter, DeadLetter):
                    try:
                        moved = self.change(letter)
                        changed[place] = lifecycle.mark_moved_by_run(
                            letter, moved, self.run_id, awaited=self.awaited, over=over
                        )
                        before[place] = letter
                    except MahavishnuError as problem:
                        waits = isinstance(problem, IllegalMove) and bulk_rules.is_busy(letter, now)
                        done[place] = replace(items[place], why=BUSY) if waits else _refused(items[place], problem)
            places = list(changed)
            objections = await self.prepare(list(before.values()), list(changed.values())) if changed else []
            for place, objection in zip(places, objections, strict=True):
                if objection is not None:
                    del changed[place]
                    if isinstance(objection, StoreUnavailable):
                        away = objection
                    else:
                        done[place] = _refused(items[place], objection)
            todo = []
            results = await self.letters.write(list(changed.values())) if changed else []
            for place, written in zip(changed, results, strict=True):
                if written is None:
                    todo.append(place)  # somebody was quicker: look again
                elif isinstance(written, DeadLetter):
                    done[place] = replace(items[place], state=ItemState.MOVED, why=None)
                    self.moved(written)
                elif isinstance(written, StoreUnavailable):
                    away = written
                else:
                    done[place] = _refused(items[place], written)
            if not todo:
                return done, away
        return done, away or StoreUnavailable(f"{len(todo)} letters were changed by others {_TRIES} times in a row")

    async def ready(self, items: Sequence[RunItem], now: datetime) -> list[bool]:
        """Which of these members are not being run, or not any more."""
        return [
            not isinstance(letter, DeadLetter) or not bulk_rules.is_busy(letter, now)
            for letter in await self._now(items)
        ]

    async def recognise(self, items: Sequence[RunItem]) -> list[RunItem]:
        """Which of these waiting members were moved by somebody who could not say so any more."""
        current = await self._now(items)
        return [
            replace(item, state=ItemState.MOVED, why=None) if self._is_marked(letter) else item
            for item, letter in zip(items, current, strict=True)
        ]

    async def outcomes(self, items: Sequence[RunItem]) -> list[RunItem]:
        """These moved members with what became of them, as far as it is known now."""
        return [
            item if isinstance(letter, StoreError) else replace(item, outcome=self._outcome(letter, item.outcome))
            for item, letter in zip(items, await self._now(items), strict=True)
        ]

    async def _now(self, items: Sequence[RunItem]) -> list[Result[DeadLetter]]:
        """The members' letters as they are now: the one that was meant, also where another has replaced it."""
        found: list[Result[DeadLetter]] = list(await self.letters.get([item.key for item in items]))
        replaced = [
            place
            for place, (item, letter) in enumerate(zip(items, found, strict=True))
            if letter is None or (isinstance(letter, DeadLetter) and letter.entry_id != item.entry_id)
        ]
        if replaced:
            formers = await self.history.get([items[place].entry_id for place in replaced])
            for place, former in zip(replaced, formers, strict=True):
                found[place] = former
        for letter in found:
            if isinstance(letter, StoreUnavailable):
                raise letter
        return found

    async def _over(self, letters: Sequence[Result[DeadLetter]]) -> frozenset[str]:
        """The runs that letters with many of them may forget. Raises Lost if this one is over itself.

        It is asked after the letters were read: what is not over then has not been forgotten by them. So a runner that
        was asleep for long does not take a letter that has forgotten its run for one that was never moved.
        """
        many = [letter for letter in letters if isinstance(letter, DeadLetter) and len(letter.runs) >= MAX_RUNS]
        asked = {run_id for letter in many for run_id in letter.runs}
        if not asked:
            return frozenset()
        ours, *others = await self.runs.get([self.run_id, *asked])
        if isinstance(ours, StoreError):
            raise ours
        if ours is None or ours.is_over:
            raise Lost
        return frozenset(run.run_id for run in others if isinstance(run, BulkRun) and run.is_over)

    def _outcome(self, letter: DeadLetter | None, known: ItemOutcome | None) -> ItemOutcome | None:
        """What is known stays so where the letter does not tell any more."""
        if letter is None:
            return known or ItemOutcome.CLOSED
        return bulk_run.outcome_for(letter, self.run_id) or known

    def _is_marked(self, letter: Result[DeadLetter]) -> bool:
        return isinstance(letter, DeadLetter) and self.run_id in letter.runs

    def _settled(self, item: RunItem, letter: Result[DeadLetter]) -> RunItem | None:
        """What becomes of a member that cannot be moved any more, or has been; None for one that can."""
        if isinstance(letter, StoreError):
            return _refused(item, letter)
        if self._is_marked(letter):
            return replace(item, state=ItemState.MOVED, why=None)
        if letter is None:
            return replace(item, state=ItemState.GONE, why="it was deleted")
        if isinstance(letter, FormerLetter):
            return replace(item, state=ItemState.GONE, why="its task has failed again since, in a letter of its own")
        return None


def _refused(item: RunItem, problem: MahavishnuError) -> RunItem:
    return replace(item, state=ItemState.REFUSED, why=reason_of(problem, item.key))

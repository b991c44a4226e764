"""The numbers of letters that these do not count themselves any more, see `mahavishnu.model.tombstones`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeGuard

from msgspec.structs import replace

from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import StoreError, StoreUnavailable, require_answers
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import ResolutionStatus, Tallies
from mahavishnu.model.query import AnyOf, Between, Is, Missing, Not, Query, Sort, written_namespace
from mahavishnu.model.tombstones import (
    FoldState,
    GroupSum,
    ListedTombstone,
    fold,
    fold_closed,
    fold_state,
    groups_of,
    has_numbers,
    is_placeholder,
    numbers_of,
    placeholder,
)
from mahavishnu.stores.base import (
    Result,
    Store,
    get_one,
    home_of,
    is_home_away,
    is_unchanged,
    pages,
    scan,
    write_one,
    write_with_retry,
)
from mahavishnu.stores.kinds import HISTORY, LEDGER, LETTERS, REVISIONS
from mahavishnu.stores.retained import LedgerEntry, LedgerState, forget_revisions
from mahavishnu.stores.scoped import NamespaceRecords

log = logging.getLogger(__name__)
_TRIES = 10
_LISTED = 500  # tombstones, or closed letters, at once
_CLOSED_FOR = timedelta(hours=1)  # before a letter is added up: one that was closed just now may be opened again
_SUMS_AT_ONCE = 1000  # months
_CLOSED_AT_ONCE = 5000  # closed letters of one go
MANY_CLOSED = _CLOSED_AT_ONCE // 2  # where one go had so many, there are probably more
_OTHERS_DAYS = 365  # how long at least a tombstone of another app is left to that: it may have a limit of its own
_OTHERS = 20  # other namespaces at once
_TALLIES = Tallies.__struct_fields__
_SUMS = (*(f"tally_{name}" for name in _TALLIES), "letters")
_DELETED = Is("resolution_status", (ResolutionStatus.DELETED,))
_ENDED = Not(Is("resolution_status", (ResolutionStatus.PENDING, ResolutionStatus.DELETED)))
# Letters that have numbers in no sum; those that are open, or were opened again, have some.
HAS_NUMBERS = AnyOf((Between("generation", at_least=1), Between("tally_reopened", at_least=1)))
# The same as two queries, because each of them finds its letters with an index.
WITH_NUMBERS: tuple[tuple[Is | Between, ...], ...] = (
    (Between("generation", at_least=1),),
    (Is("generation", (0,)), Between("tally_reopened", at_least=1)),
)


class Ledger:
    """Adds up old tombstones and closed letters, and knows the sums."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._clock = context, context.clock

    async def sums(self) -> Mapping[str, int]:
        """Return the sums over all entries, exact also after a crash during a deletion or an addition."""
        context = self._context
        tally = await context.ledger.tally(Query(), by=["gone"], sums=_SUMS)
        groups = tally.by(0)
        sums: Counter[str] = Counter(dict.fromkeys(_SUMS, 0))
        for state in (LedgerState.GONE, LedgerState.FOLDING):
            sums.update(groups[state].sums if state in groups else {})
        if LedgerState.FOLDING in groups:
            async for day in scan(context.ledger, _in_state(LedgerState.FOLDING)):
                there = require_answers(await context.letters.records.get([listed.key for listed in day.folding]))
                for listed, current in zip(day.folding, there, strict=True):
                    match fold_state(listed, current, day.key):
                        case FoldState.FOLDED:
                            sums.update(_numbers(listed.generation, listed.tallies))
                        case FoldState.RETURNED:
                            sums.subtract(_numbers(listed.generation, listed.tallies))
        return sums

    async def groups(self) -> Mapping[str, GroupSum]:
        """Return the letters that are in sums, by group; in an outage those of readable sums."""
        sums: dict[str, GroupSum] = {}
        some = AnyOf((Between("by_group", at_least=1), Is("gone", (LedgerState.FOLDING.value,))))
        page = await self._context.ledger.find(Query((some,), limit=_SUMS_AT_ONCE))  # what is away is missing
        for month in page.items:
            for name, one in month.groups.items():
                sums[name] = sums[name].plus(one) if name in sums else one
            listed = [each for each in month.folding if each.group is not None]
            read = await self._context.letters.records.get([each.key for each in listed]) if listed else ()
            pairs = zip(listed, require_answers(read), strict=True)
            folded = [each for each, current in pairs if fold_state(each, current, month.key) is FoldState.FOLDED]
            sums = groups_of(sums, folded)
        return sums

    async def take_back(self, letter: DeadLetter) -> DeadLetter | None:
        """Store a letter again and take its numbers out of the sums. Return None if its key is taken."""
        return await self._folding(letter.namespace).take_back(letter)

    async def settle(self, namespace: str) -> None:
        """Finish what others have begun to add up, so that no key is held by it."""
        await self._folding(namespace).settle()

    def _folding(self, namespace: str, limit: timedelta = timedelta()) -> _Folding:
        return _Folding(home_of(self._context.store), namespace, self._clock.now(), limit)

    async def _is_home(self) -> bool:
        await self._context.open()
        return not is_home_away(self._context.store)

    async def fold(self) -> int:
        """Fold old tombstones into sums, remove them, and return how many; none without the shared store."""
        limit = timedelta(days=self._context.limits.tombstone_days)
        # Tombstones that are kept locally go home first.
        return await self._folding(self._context.namespace, limit).fold_all() if await self._is_home() else 0

    async def fold_closed(self, at_least: int = _LISTED) -> int:
        """Fold the numbers of letters closed a while ago, by parts; return how many: none without the shared store."""
        folding = self._folding(self._context.namespace, _CLOSED_FOR)
        return await folding.fold_closed(at_least) if await self._is_home() else 0

    async def fold_others(self) -> int:
        """Add up year-old tombstones of other namespaces, whose apps may be gone, a part at a time. Return how many."""
        if not await self._is_home():
            return 0
        home, now = home_of(self._context.store), self._clock.now()
        limit = timedelta(days=max(self._context.limits.tombstone_days, _OTHERS_DAYS))
        old = Query((_DELETED, Between("resolution_timestamp", below=now - limit)))
        tally = await home.collection(LETTERS).tally(old, ["namespace"])
        others = sorted(
            str(name) for (name,), cell in tally.cells.items() if cell.count and name != self._context.namespace
        )
        count = 0
        for name in others[:_OTHERS]:
            count += await _Folding(home, name, now, limit).fold_all(lists=1)
        return count


class _Folding:
    """One go at adding up old tombstones. Several processes may be at it, and any may die at any point."""

    def __init__(self, home: Store, namespace: str, now: datetime, limit: timedelta) -> None:
        self._namespace, self._now, self._limit = written_namespace(namespace), now, limit
        self._letters = NamespaceRecords(home.collection(LETTERS), namespace)
        self._ledger = NamespaceRecords(home.collection(LEDGER), namespace, default_is_none=True)
        self._revisions, self._history = home.collection(REVISIONS), home.collection(HISTORY)

    async def fold_all(self, lists: int | None = None) -> int:
        """Fold and remove what is old enough, or so many lists of it. Return how many tombstones were folded."""
        count = await self.settle()
        while lists != 0 and (listing := await self._list_more()) is not None:
            count += await self._finish_day(listing)
            await self._remove_folded()
            lists = None if lists is None else lists - 1
        await self._remove_counted()
        return count

    async def settle(self) -> int:
        """Finish what somebody has left behind. Return how many were folded."""
        count = await self._finish_days()
        await self._remove_folded()
        return count

    async def _finish_days(self) -> int:
        count = 0
        async for day in scan(self._ledger, _in_state(LedgerState.FOLDING)):
            count += await self._finish_day(day)
        return count

    async def fold_closed(self, at_least: int) -> int:
        """Fold letters that were closed long enough ago, some at a time. Return how many were folded."""
        count = await self._finish_days()
        stuck = await self._listed_keys()
        old = Between("resolution_timestamp", below=self._now - self._limit)
        found: list[str] = []
        for numbers in WITH_NUMBERS:
            order = Sort(numbers[-1].field)  # as the index has it
            page = await self._letters.find(Query((*numbers, _ENDED, old), (order,), _CLOSED_AT_ONCE))
            found += [letter.key for letter in page.items if letter.key not in stuck]
        if len(found) < at_least:
            return count
        for start in range(0, len(found), _LISTED):
            month, seen = await self._list_closed(found[start : start + _LISTED])
            count += 0 if month is None else await self._finish_day(month, seen)
        return count

    async def _listed_keys(self) -> set[str]:
        """Return the keys listed by a sum that is not finished: undecided, or another process is at it."""
        return {each.key async for day in scan(self._ledger, _in_state(LedgerState.FOLDING)) for each in day.folding}

    async def _list_closed(self, keys: list[str]) -> tuple[LedgerEntry | None, Sequence[DeadLetter]]:
        """Have this month list the closed letters under these keys. Return its entry, or None, and the letters."""
        month = await get_one(self._ledger, name := self._name(self._now.strftime("%Y-%m")))
        if month is not None and month.folding:
            return None, ()
        old = filter(self._is_old, await self._letters.get(keys))
        seen = [each for each in old if not (each.is_open or each.is_deleted) and has_numbers(each)]
        listed = tuple(map(ListedTombstone.of_closed, seen))
        month = replace(month or self._empty_day(name), folding=listed)
        return await write_one(self._ledger, month) if listed else None, seen

    async def take_back(self, letter: DeadLetter) -> DeadLetter | None:
        """Store the letter in the place of a placeholder that today lists. None if its key is taken."""
        listed = ListedTombstone.of(letter, returning=True)
        for _ in range(_TRIES):  # a loop of its own: two records change in turn, and the second may undo the first
            place = await write_one(self._letters, placeholder(letter, self._today, self._now))
            if place is None:
                return None

            async def with_letter(day: LedgerEntry | None, place: DeadLetter = place) -> LedgerEntry | None:
                # After the day was read: who puts the letter back instead of us has to write the day.
                if not await is_unchanged(self._letters, place):
                    return None
                # Listed twice it would be taken off twice; but who found the place empty must not finish the day.
                day = day or self._empty_day()
                return day if listed in day.folding else replace(day, folding=(*day.folding, listed))

            _, day = await write_with_retry(self._ledger, self._today, with_letter, what="the numbers of")
            stored = await write_one(self._letters, evolve(letter, version=place.version))
            if day is not None:
                await self._finish_day(day)
            if stored is not None:
                return stored
        raise StoreUnavailable(f"letter {letter.key!r} was changed by others {_TRIES} times in a row")

    @property
    def _today(self) -> str:
        return self._name(self._now.date().isoformat())

    def _name(self, date: str) -> str:
        return date if self._namespace is None else f"{self._namespace}/{date}"

    def _empty_day(self, name: str | None = None) -> LedgerEntry:
        return LedgerEntry(name or self._today, self._now, namespace=self._namespace)

    async def _list_more(self) -> LedgerEntry | None:
        """Have today list old tombstones. Return today's entry, or None if there is nothing to be done."""

        async def list_old(day: LedgerEntry | None) -> LedgerEntry | None:
            if day is not None and day.folding:
                return None  # another process is at it, or some cannot be folded
            old = Between("resolution_timestamp", below=self._now - self._limit)
            page = await self._letters.find(Query((_DELETED, old, Between("generation", at_least=1)), limit=_LISTED))
            # A search may be behind. What was folded in today's name before its list was emptied is seen here.
            there = await self._letters.get([letter.key for letter in page.items])
            gone = [letter for letter in there if self._is_old(letter) and letter.is_deleted and letter.generation]
            listed = tuple(map(ListedTombstone.of, gone))
            return replace(day or self._empty_day(), folding=listed) if listed else None

        _, listing = await write_with_retry(self._ledger, self._today, list_old, what="the numbers of", tries=_TRIES)
        return listing

    def _is_old(self, letter: Result[DeadLetter]) -> TypeGuard[DeadLetter]:
        at = letter.resolution.at if isinstance(letter, DeadLetter) else None
        return at is not None and at < self._now - self._limit

    async def _finish_day(self, day: LedgerEntry, seen: Sequence[DeadLetter] = ()) -> int:
        """Fold the tombstones that the day lists, and add up their numbers. Return how many were added up.

        An undecided tombstone, which the store refuses or cannot read, stays listed. `seen` are the letters as they
        were listed: if one has changed since, its write is refused, and it is read again.
        """
        folded: list[ListedTombstone] = []
        left: list[ListedTombstone] = []
        undecided = list(day.folding)
        for _ in range(_TRIES):  # a loop of its own: each turn also removes placeholders and looks again
            keys = [listed.key for listed in undecided]
            there, seen = seen or (await self._letters.get(keys) if keys else []), ()
            to_fold: dict[ListedTombstone, DeadLetter] = {}
            placeholders: dict[ListedTombstone, DeadLetter] = {}
            for listed, current in zip(undecided, there, strict=True):
                if isinstance(current, StoreError):
                    log.error("a deleted letter cannot be added up: %s", current)
                    left.append(listed)
                    continue
                state = fold_state(listed, current, day.key)
                if state in (FoldState.FOLDED, FoldState.RETURNED):
                    folded.append(listed)
                elif state is FoldState.UNFOLDED and current is not None:
                    to_fold[listed] = current
                elif state is FoldState.ABSENT and current is not None and current.knows(listed.entry_id):
                    placeholders[listed] = current
            await self._letters.remove(list(placeholders.values()))
            if not (to_fold or placeholders):
                undecided = []
                break
            results = await self._letters.write(
                [(fold_closed if each.closed else fold)(current, day.key) for each, current in to_fold.items()]
            )
            undecided = [*placeholders]
            for listed, result in zip(to_fold, results, strict=True):
                place = undecided if result is None else left if isinstance(result, StoreError) else folded
                place.append(listed)
        letters, tallies = numbers_of(day.letters, day.tallies, folded)
        groups = groups_of(day.groups, folded)
        added = replace(day, letters=letters, tallies=tallies, groups=groups, folding=(*left, *undecided))
        count = sum(not listed.returning for listed in folded)
        return count if await write_one(self._ledger, added) is not None else 0

    async def _remove_counted(self) -> None:
        """Remove old tombstones of letters whose numbers had been added up while they were closed."""
        old = Between("resolution_timestamp", below=self._now - self._limit)
        none = (Between("generation", at_most=0), Not(Missing("counted_group")))
        listed = await self._listed_keys()
        async for page in pages(self._letters, Query((_DELETED, *none, old), limit=_LISTED)):
            gone = [each for each in page if not has_numbers(each) and each.key not in listed]
            await forget_revisions(self._revisions, self._history, gone)
            await self._letters.remove(gone)

    async def _remove_folded(self) -> None:
        """Remove the tombstones that are folded and added up, with what revisions are left of their letters."""
        folded = Query((_DELETED, Between("generation", at_most=0), Missing("counted_group")), limit=_LISTED)
        async for page in pages(self._letters, folded):
            names = sorted({letter.resolution.notes or "" for letter in page})
            days = dict(zip(names, await self._ledger.get(names), strict=True))
            done = [letter for letter in page if not _is_listed(letter, days[letter.resolution.notes or ""])]
            gone = [letter for letter in done if not is_placeholder(letter)]
            await forget_revisions(self._revisions, self._history, gone)
            await self._letters.remove(done)


def _is_listed(letter: DeadLetter, day: Result[LedgerEntry]) -> bool:
    """Return whether its day still needs the tombstone to know that it was folded."""
    if isinstance(day, LedgerEntry):
        return any(fold_state(listed, letter, day.key) is FoldState.FOLDED for listed in day.folding)
    return day is not None


def _in_state(state: LedgerState) -> Query:
    return Query((Is("gone", (state.value,)),))


def _numbers(letters: int, tallies: Tallies) -> dict[str, int]:
    """Return the numbers as a tally over `_SUMS` gives them."""
    return {"letters": letters, **{f"tally_{name}": getattr(tallies, name) for name in _TALLIES}}


async def add_up_closed(context: QueueContext) -> None:
    """Add up letters that were closed a while ago, step by step, with half of the time left to others."""
    clock, began = context.clock, context.clock.monotonic()
    while await Ledger(context).fold_closed() >= MANY_CLOSED:
        await clock.sleep(clock.monotonic() - began)
        began = clock.monotonic()

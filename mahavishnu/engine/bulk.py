"""Carrying bulk runs on: planning them, moving their members slice by slice, waiting for what becomes of them.

Any process may carry any run on, one at a time: it takes a lease by compare-and-set and gives it back as soon as there
is nothing to do for a moment. Who finds the lease of somebody who died asks the letters what was done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from mahavishnu.engine.members import Movers, members
from mahavishnu.model import bulk, query_json
from mahavishnu.model.bulk import (
    ACTIVE,
    PAGE,
    POLL_SECONDS,
    BulkRun,
    Finish,
    Halt,
    ItemOutcome,
    ItemState,
    Move,
    RunCounts,
    RunItem,
    RunLease,
    RunPage,
    RunState,
    Wait,
)
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import MahavishnuError, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.ids import new_token
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Is, Not, Query, Sort
from mahavishnu.stores.base import Collection, Result, get_one, scan, write_one

log = logging.getLogger(__name__)
LEASE_SECONDS = 30.0
_AT_ONCE = 100  # runs that one look takes up
_TURN = 50  # slices before other runs have their turn
READ = 20  # pages read at once
_REST = 3.0  # how much longer than counting letters takes, nothing is counted while others are moved
_TRIES = 20


class Verbs(Protocol):
    """What the runner has to be told of the verbs, and tells."""

    def change(self, run: BulkRun, letter: DeadLetter) -> DeadLetter:
        """The letter as the run wants it. Raises MahavishnuError where that cannot be."""
        ...

    async def prepare(
        self, run: BulkRun, before: Sequence[DeadLetter], after: Sequence[DeadLetter]
    ) -> Sequence[MahavishnuError | None]:
        """These letters are about to be replaced by those: an objection for each, or None."""
        ...

    def moved(self, run: BulkRun, letter: DeadLetter) -> None:
        """This letter was moved."""
        ...

    def changed(self, run: BulkRun) -> None:
        """This is how far the run is now."""
        ...

    def halting(self, run: BulkRun, why: str) -> AbstractAsyncContextManager[Callable[[str], object]]:
        """Around the write that halts the run; it gives what is to be told why it was not halted after all."""
        ...


class _Lost(Exception):
    """Somebody else carries the run on."""


class _Overtaken(Exception):
    """Somebody else has written a page."""


class _Stopped(Exception):
    """A person has stopped the run."""


@dataclass(frozen=True, slots=True)
class Shelves:
    """Where runs, their pages and the letters are."""

    runs: Collection[BulkRun]
    pages: Collection[RunPage]
    letters: Collection[DeadLetter]
    history: Collection[FormerLetter]

    async def read(self, run: BulkRun, numbers: Sequence[int]) -> list[RunPage]:
        """These pages of the run as they are now."""
        keys = [bulk.page_key(run.run_id, run.plan or "", number) for number in numbers]
        pages = await self.pages.get(keys)
        for key, page in zip(keys, pages, strict=True):
            if page is None:  # it may be on its way from a local store of somebody else
                raise StoreUnavailable(f"page {key!r} of a bulk run cannot be seen now")
        return [_stored(page) for page in pages]

    async def shown(self, run: BulkRun, numbers: Sequence[int]) -> list[RunPage]:
        """The same for people: of a run that was stopped after its holder had died, nobody else recognises members."""
        pages = await self.read(run, numbers)
        if run.lease is None or run.state in ACTIVE:
            return pages
        for number, page in enumerate(pages):
            places = [place for place, item in enumerate(page.items) if item.state is ItemState.WAITING]
            if places:  # behind the first page that waits there is nothing to recognise
                movers = Movers(self.letters, self.history, run.run_id)
                found = dict(zip(places, await movers.recognise([page.items[place] for place in places]), strict=True))
                items = tuple(found.get(place, item) for place, item in enumerate(page.items))
                pages[number] = replace(page, items=items)
                break
        return pages

    async def outcomes(self, run_id: str, *, whole: bool = False) -> dict[ItemOutcome | None, int]:
        """How many of the letters that the run has moved have come to what; None for those that it is open for.

        Raises StoreUnavailable where it has to be the `whole` truth, and is not.
        """
        known: dict[ItemOutcome | None, int] = dict.fromkeys((None, *ItemOutcome), 0)
        both: tuple[Collection[Any], ...] = (self.letters, self.history)
        for collection in both:
            tally = await collection.tally(
                Query((Is("runs", (run_id,)),)), ["resolution_status", "status", "retry_count"]
            )
            if whole and tally.degraded:
                raise StoreUnavailable(tally.degraded)
            for values, cell in tally.cells.items():
                known[bulk.outcome_of(*values)] += cell.count
        return known

    async def up_to_date(self, run: BulkRun) -> BulkRun:
        """The run with counts as they are now, also while somebody carries it on."""
        if run.plan is None or run.state is RunState.DONE:
            return run
        if run.lease is not None:
            counts = RunCounts()
            for start in range(0, run.pages, READ):
                for page in await self.shown(run, range(start, min(start + READ, run.pages))):
                    counts = counts.plus(bulk.counted(page.items))
            run = replace(run, counts=counts)
        if run.awaits_outcomes:
            known = await self.outcomes(run.run_id)
            run = replace(run, counts=replace(run.counts, **{str(how): known[how] for how in ItemOutcome}))
        return run


class Runner:
    """Carries on whatever is due, in this process."""

    def __init__(
        self,
        shelves: Shelves,
        verbs: Verbs,
        *,
        owner: str,
        clock: Clock,
        lease_seconds: Callable[[], float] = lambda: LEASE_SECONDS,
        skew_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.next_due: datetime | None = None  # when the soonest run has to be looked at again
        self._shelves = shelves
        self._verbs = verbs
        self._owner = owner
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._skew_seconds = skew_seconds
        self._dropped: set[str] = set()  # leases that this runner could not give back: nobody works under them

    async def look(self) -> bool:
        """Carry on everything that is due, until it has to wait. Returns whether anything was done.

        Raises StoreError; what was done until then stays done, and the next look goes on.
        """
        self.next_due = None  # what it was has come; where this look fails, the next one has time
        page = await self._shelves.runs.find(Query((Is("state", ACTIVE),), (Sort("due_at"),), _AT_ONCE))
        did = False
        problem: StoreError | None = None
        if page.degraded:
            problem = StoreUnavailable(f"not every bulk run can be seen now: {page.degraded}")
        due: list[datetime] = []
        for found in page.items:
            turn = None
            try:
                if (turn := await self._take(found.run_id)) is not None:
                    did |= await self._carry(turn)
                    found = turn.run
            except StoreError as trouble:  # of one run: the others are not held up
                problem = trouble
            if found.due_at is not None and found.state in ACTIVE:
                soon = self._clock.now() + timedelta(seconds=POLL_SECONDS)
                due.append(found.due_at if turn is not None else max(found.due_at, soon))
        self.next_due = min(due, default=None)
        if problem is not None:
            raise problem
        return did

    async def _take(self, run_id: str) -> _Turn | None:
        """The right to carry the run on, or None."""
        run = await get_one(self._shelves.runs, run_id)
        if run is None or not self._is_free(run):
            return None
        now, lease = self._clock.now(), RunLease(self._owner, new_token())
        until = now + timedelta(seconds=self._lease_seconds())
        taken = await write_one(self._shelves.runs, bulk.taken(run, lease, until, now))
        if taken is None:
            return None
        if run.lease is not None:
            self._dropped.discard(run.lease.token)
        return _Turn(
            self._shelves, self._verbs, self._clock, self._lease_seconds, taken, lease, recovering=run.lease is not None
        )

    def _is_free(self, run: BulkRun) -> bool:
        if run.state in ACTIVE and run.lease is not None and run.lease.token in self._dropped:
            return True
        return bulk.is_free(run, self._clock.now(), timedelta(seconds=self._skew_seconds()))

    async def _carry(self, turn: _Turn) -> bool:
        try:
            return await turn.carry_on()
        except _Lost:
            return True
        except asyncio.CancelledError:
            with suppress(StoreError, _Lost):
                await turn.leave()
            raise
        except (StoreUnavailable, StoreMisconfigured):
            self._dropped.add(turn.lease.token)
            raise
        except Exception as problem:  # it would be the same in the next look
            log.exception("bulk run %s cannot be carried on", turn.run.run_id)
            with suppress(_Lost):
                await turn.halt(f"it cannot be carried on: {type(problem).__name__}: {problem}", exact=False)
            return True


class _Turn:
    """Carrying one run on for a while, under a lease."""

    def __init__(
        self,
        shelves: Shelves,
        verbs: Verbs,
        clock: Clock,
        lease_seconds: Callable[[], float],
        run: BulkRun,
        lease: RunLease,
        *,
        recovering: bool,
    ) -> None:
        self.run = run  # with everything that is known here; the stored one may be behind
        self.lease = lease
        self._shelves = shelves
        self._verbs = verbs
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._recovering = recovering
        self._did = False
        self._look_after = 0.0
        self._page: RunPage | None = None
        self._movers = Movers(
            shelves.letters,
            shelves.history,
            run.run_id,
            lambda letter: verbs.change(run, letter),
            lambda before, after: verbs.prepare(run, before, after),
            lambda letter: verbs.moved(run, letter),
        )

    async def carry_on(self) -> bool:
        """Until it has to wait, is over, or others shall have their turn. Returns whether anything was done."""
        try:
            if self.run.plan is None:
                self._recovering = False
                await self._plan()
                self._did = True
            for _ in range(_TURN):
                try:
                    if self._recovering:
                        await self._recount()
                    if await self._step():
                        break
                except _Overtaken:  # by somebody who does not know yet that this is the one to carry it on
                    self._recovering = True
            else:
                await self._give_back(self._clock.now())
        except _Stopped:
            self._did = True
            await (self.leave() if self._recovering else self._give_back(self._clock.now()))
        if self._did:
            self._verbs.changed(self.run)
        return self._did

    async def _step(self) -> bool:
        """Do the next thing. Returns whether the run is given back."""
        await self._go_on()
        # Counting may take as long as a slice where there are many letters: then not before each of them.
        if bulk.must_look(self.run) and (bulk.must_wait(self.run) or self._clock.monotonic() >= self._look_after):
            began = self._clock.monotonic()
            await self._look_at_outcomes()
            ended = self._clock.monotonic()
            self._look_after = ended + _REST * (ended - began)
        match bulk.next_step(self.run, self._clock.now()):
            case Move(most):
                self._did = True
                await self._move(most)
                return False
            case Wait(until):
                await self._give_back(until)
            case Halt(why):
                await self.halt(why)
            case Finish():
                await self._look_at_items(final=True)
                if self.run.awaits_outcomes and self.run.counts.awaited:  # counting told it otherwise
                    await self._give_back(self._clock.now() + timedelta(seconds=POLL_SECONDS))
                    return True
                await self._write(lambda run: bulk.finished(run, self._clock.now()))
                self._did = True
        return True

    async def leave(self) -> None:
        """Stop at once: how far it has come is for others to find out."""
        await self._write(lambda run: bulk.left(run, self._clock.now()), tuple(RunState))

    async def halt(self, why: str, *, exact: bool = True) -> None:
        """Touch nothing more until somebody resumes it. Unless `exact`, the counts may be behind."""

        def halted(run: BulkRun) -> BulkRun:
            after = bulk.halted(run, why, self._clock.now()) if run.state in ACTIVE else run
            return after if exact else replace(after, lease=replace(self.lease, left=True))

        async with self._verbs.halting(self.run, why) as refused:
            await self._write(halted, ACTIVE if exact else tuple(RunState))
            if self.run.state is not RunState.HALTED:
                refused(f"it was {self.run.state} before that")
        self._did = True

    # --- planning

    async def _plan(self) -> None:
        """Write the members down, and then, in one write, that they are the members."""
        plan = self.lease.token
        items: list[RunItem] = []
        pages, counts = 0, RunCounts()
        query = query_json.from_json(self.run.query.value)
        async for found, corrupt in members(self._shelves.letters, query, self.run.created_at):
            items += [RunItem(letter.key, letter.entry_id) for letter in found]
            items += [RunItem(getattr(problem, "key", "?"), "", ItemState.REFUSED, str(problem)) for problem in corrupt]
            whole = len(items) // PAGE * PAGE
            pages, counts = await self._written(plan, pages, counts, items[:whole])
            items = items[whole:]
            await self._go_on()
        pages, counts = await self._written(plan, pages, counts, items)
        await self._write(
            lambda run: bulk.planned(run, plan, pages, counts, self._clock.now()), (RunState.PLANNING, RunState.PAUSED)
        )
        others = Query((Is("run_id", (self.run.run_id,)), Not(Is("plan", (plan,)))))
        with suppress(StoreError):  # pages of plans that came to nothing: nobody looks at them
            await self._shelves.pages.remove([page async for page in scan(self._shelves.pages, others)])
        self._verbs.changed(self.run)

    async def _written(
        self, plan: str, pages: int, counts: RunCounts, items: Sequence[RunItem]
    ) -> tuple[int, RunCounts]:
        made = bulk.paged(self.run.run_id, plan, pages, items)
        for result in await self._shelves.pages.write(made) if made else []:
            _stored(result)
        return pages + len(made), counts.plus(bulk.counted(items))

    # --- moving

    async def _move(self, most: int) -> None:
        page = await self._waiting_page()
        places = [place for place, item in enumerate(page.items) if item.state is ItemState.WAITING][:most]
        chosen = [page.items[place] for place in places]
        done, away = await self._movers.move(chosen)
        await self._write_page(page, dict(zip(places, done, strict=True)))
        after = bulk.counted(done)
        counts = self.run.counts.plus(replace(after, members=0))
        self.run = bulk.moved_on(self.run, counts, page.number, after.moved, self._clock.now())
        if away is not None:
            raise away

    async def _waiting_page(self) -> RunPage:
        """The first page that has waiting members."""
        number = self.run.at_page
        while True:
            if self._page is None or self._page.number != number:
                (self._page,) = await self._shelves.read(self.run, [number])
            if any(item.state is ItemState.WAITING for item in self._page.items):
                return self._page
            number += 1

    async def _write_page(self, page: RunPage, changed: dict[int, RunItem]) -> RunPage:
        items = tuple(changed.get(place, item) for place, item in enumerate(page.items))
        if items == page.items:
            return page
        written = await write_one(self._shelves.pages, replace(page, items=items))
        if written is None:
            raise _Overtaken
        if self._page is not None and self._page.number == page.number:
            self._page = written
        return written

    # --- how far it is

    async def _look_at_outcomes(self) -> None:
        """What became of the moved letters: by counting them; by looking at each where nothing more is to come."""
        known = await self._shelves.outcomes(self.run.run_id, whole=True)
        # Somebody may have died while a letter was replaced: until that is done it is in the history too.
        twice = sum(known.values()) > self.run.counts.moved
        if twice or (not known[None] and bulk.must_wait(self.run)):
            await self._look_at_items()
        else:
            counts = replace(self.run.counts, **{str(how): known[how] for how in ItemOutcome})
            self.run = bulk.heard(self.run, counts, self._clock.now())

    async def _look_at_items(self, *, final: bool = False) -> None:
        """Write down what became of each moved letter, as far as it is known, and count anew."""
        counts = RunCounts()
        async for page in self._pages_so_far():
            open_ones = (None, ItemOutcome.FAILED_AGAIN) if final else (None,)
            places = [
                place
                for place, item in enumerate(page.items)
                if item.state is ItemState.MOVED and item.outcome in open_ones
            ]
            if places and self.run.awaits_outcomes:
                looked = await self._movers.outcomes([page.items[place] for place in places])
                page = await self._write_page(page, dict(zip(places, looked, strict=True)))
            counts = counts.plus(bulk.counted(page.items))
        counts = replace(counts, members=self.run.counts.members)
        self.run = bulk.heard(self.run, counts, self._clock.now())

    async def _recount(self) -> None:
        """Find out how far somebody has come who could not say so."""
        self._page = None
        self.run = replace(self.run, at_page=self.run.pages)
        counts = RunCounts()
        recognised = False
        async for page in self._pages_so_far():
            places = [place for place, item in enumerate(page.items) if item.state is ItemState.WAITING]
            if places and not recognised:
                recognised = True  # it moved them page by page: behind the first one that waits there is nothing
                found = await self._movers.recognise([page.items[place] for place in places])
                page = await self._write_page(page, dict(zip(places, found, strict=True)))
                self.run = replace(self.run, at_page=page.number)
            counts = counts.plus(bulk.counted(page.items))
        self.run = bulk.heard(self.run, counts, self._clock.now())
        self._recovering = False

    async def _pages_so_far(self) -> AsyncIterator[RunPage]:
        """Those that were worked on, and the present one."""
        numbers = range(min(self.run.at_page + 1, self.run.pages))
        for start in range(0, len(numbers), READ):
            await self._go_on()
            for page in await self._shelves.read(self.run, numbers[start : start + READ]):
                yield page

    # --- the lease

    async def _go_on(self) -> None:
        """Raises _Lost or _Stopped if this is not the one to carry it on any more; prolongs the lease if need be."""
        while True:
            await self._refresh()
            if self.run.state not in ACTIVE:
                raise _Stopped
            now, seconds = self._clock.now(), self._lease_seconds()
            if self.run.due_at is None or self.run.due_at > now + timedelta(seconds=seconds / 2):
                return
            prolonged = bulk.taken(self.run, self.lease, now + timedelta(seconds=seconds), now)
            written = await write_one(self._shelves.runs, prolonged)
            if written is not None:
                self.run = written
                return

    async def _refresh(self) -> None:
        """What people have changed meanwhile, with what is known here."""
        stored = await get_one(self._shelves.runs, self.run.run_id)
        if stored is None or stored.lease is None or stored.lease.token != self.lease.token:
            raise _Lost
        known = self.run
        self.run = replace(
            stored,
            counts=known.counts,
            at_page=known.at_page,
            step=known.step,
            paced_at=known.paced_at,
            quiet_since=known.quiet_since,
        )

    async def _give_back(self, until: datetime) -> None:
        await self._write(lambda run: bulk.given_back(run, until, self._clock.now()))

    async def _write(
        self, change: Callable[[BulkRun], BulkRun], states: Sequence[RunState] = (RunState.RUNNING,)
    ) -> None:
        """Have it written; where a person was quicker, and it is not in one of these states, it is only given back."""
        for _ in range(_TRIES):
            await self._refresh()
            now = self._clock.now()
            wanted = change(self.run) if self.run.state in states else bulk.given_back(self.run, now, now)
            written = await write_one(self._shelves.runs, wanted)
            if written is not None:
                self.run = written
                return
        raise StoreUnavailable(f"bulk run {self.run.run_id} was changed by others {_TRIES} times in a row")


def _stored(result: Result[RunPage]) -> RunPage:
    if isinstance(result, StoreError):
        raise result
    if result is None:
        raise _Lost
    return result

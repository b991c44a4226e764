"""Carrying one bulk run on for a while: planning it, moving its members slice by slice, looking what became of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from mahavishnu.bulk.members import Lost
from mahavishnu.bulk.run_store import READ, Shelves
from mahavishnu.model import bulk_rules, bulk_run
from mahavishnu.model.bulk_rules import POLL_SECONDS, Finish, Halt, MoveSlice, WaitUntil
from mahavishnu.model.bulk_run import (
    ACTIVE,
    BulkRun,
    ItemOutcome,
    ItemState,
    RunCounts,
    RunItem,
    RunLease,
    RunPage,
    RunState,
)
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import MahavishnuError, StoreError, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.base import get_one, write_one

_TURN = 50  # slices before other runs have their turn
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

    def halting(self, run: BulkRun, why: str, *, broken: bool) -> AbstractAsyncContextManager[Callable[[str], object]]:
        """Around the write that halts the run; it gives what is to be told why it was not halted after all.

        `broken`: it cannot be carried on; otherwise its stop rule halts it.
        """
        ...

    def finishing(self, run: BulkRun) -> AbstractAsyncContextManager[Callable[[str], object]]:
        """Around the write that ends the run; it gives what is to be told why it was not ended after all.

        Where somebody died inside, it is entered again, by whoever carries the run on.
        """
        ...


class _Overtaken(Exception):
    """Somebody else has written a page."""


class _Stopped(Exception):
    """A person has stopped the run."""


class Turn:
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
        self._movers = replace(
            shelves.movers(run),
            change=lambda letter: verbs.change(run, letter),
            prepare=lambda before, after: verbs.prepare(run, before, after),
            moved=lambda letter: verbs.moved(run, letter),
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
        if bulk_rules.needs_outcomes(self.run) and (
            bulk_rules.must_wait_for_outcomes(self.run) or self._clock.monotonic() >= self._look_after
        ):
            began = self._clock.monotonic()
            await self._look_at_outcomes()
            ended = self._clock.monotonic()
            self._look_after = ended + _REST * (ended - began)
        match bulk_rules.next_step(self.run, self._clock.now()):
            case MoveSlice(most):
                self._did = True
                await self._move(most)
                return False
            case WaitUntil(until):
                await self._give_back(until)
            case Halt(why):
                await self.halt(why)
            case Finish():
                await self._look_at_items(final=True)
                if self.run.awaits_outcomes and self.run.counts.awaited:  # counting told it otherwise
                    await self._give_back(self._clock.now() + timedelta(seconds=POLL_SECONDS))
                    return True
                async with self._verbs.finishing(self.run) as refused:
                    await self._write(lambda run: bulk_rules.finish(run, self._clock.now()))
                    if self.run.state is not RunState.DONE:
                        refused(f"it was {self.run.state} before that")
                self._did = True
        return True

    async def leave(self) -> None:
        """Stop at once: how far it has come is for others to find out."""
        await self._write(lambda run: bulk_rules.abandon_lease(run, self._clock.now()), tuple(RunState))

    async def halt(self, why: str, *, exact: bool = True) -> None:
        """Touch nothing more until somebody resumes it. Unless `exact`, the counts may be behind."""

        def halted(run: BulkRun) -> BulkRun:
            after = bulk_rules.halt(run, why, self._clock.now()) if run.state in ACTIVE else run
            return after if exact else replace(after, lease=replace(self.lease, left=True))

        async with self._verbs.halting(self.run, why, broken=not exact) as refused:
            await self._write(halted, ACTIVE if exact else tuple(RunState))
            if self.run.state is not RunState.HALTED:
                refused(f"it was {self.run.state} before that")
        self._did = True

    # --- planning

    async def _plan(self) -> None:
        """Write the members down, and then, in one write, that they are the members."""
        plan = self.lease.token
        pages, counts = await self._shelves.freeze(self.run, plan, self._go_on)
        await self._write(
            lambda run: bulk_rules.with_plan(run, plan, pages, counts, self._clock.now()),
            (RunState.PLANNING, RunState.PAUSED),
        )
        with suppress(StoreError):
            await self._shelves.remove_others(self.run.run_id, plan)
        self._verbs.changed(self.run)

    # --- moving

    async def _move(self, most: int) -> None:
        page, places = await self._next_members()
        chosen = [page.items[place] for place in places[:most]]
        done, away = await self._movers.move(chosen, self._clock.now())
        page = await self._write_page(page, dict(zip(places, done, strict=False)))
        after = bulk_run.count_items(done)
        counts = self.run.counts.plus(replace(after, members=0))
        busy = any(item.is_busy for item in page.items)
        self.run = bulk_rules.after_slice(self.run, counts, page.number, after.moved, self._clock.now(), busy=busy)
        if away is not None:
            raise away

    async def _next_members(self) -> tuple[RunPage, list[int]]:
        """A page and who is to be moved next in it: the fresh ones first, then those that were busy and are not now."""
        while self.run.at_page < self.run.pages:
            page = await self._read(self.run.at_page)
            if places := [place for place, item in enumerate(page.items) if item.is_fresh]:
                return page, places
            self.run = replace(self.run, at_page=self.run.at_page + 1)
        page = await self._read(self.run.busy_pages[0])
        places = [place for place, item in enumerate(page.items) if item.is_busy]
        ready = await self._movers.ready([page.items[place] for place in places], self._clock.now())
        return page, [place for place, is_ready in zip(places, ready, strict=True) if is_ready]

    async def _read(self, number: int) -> RunPage:
        if self._page is None or self._page.number != number:
            (self._page,) = await self._shelves.read(self.run, [number])
        return self._page

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
        if twice or (not known[None] and bulk_rules.must_wait_for_outcomes(self.run)):
            await self._look_at_items()
        else:
            counts = replace(self.run.counts, **{str(how): known[how] for how in ItemOutcome})
            self.run = bulk_rules.with_outcomes(self.run, counts, self._clock.now())

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
            counts = counts.plus(bulk_run.count_items(page.items))
        counts = replace(counts, members=self.run.counts.members)
        self.run = bulk_rules.with_outcomes(self.run, counts, self._clock.now())

    async def _recount(self) -> None:
        """Find out how far somebody has come who could not say so."""
        self._page = None
        self.run = replace(self.run, at_page=self.run.pages)
        counts, at_page, busy_pages = RunCounts(), self.run.pages, list[int]()
        async for page in self._pages_so_far():
            places = [place for place, item in enumerate(page.items) if item.state is ItemState.WAITING]
            if (
                places and at_page == self.run.pages
            ):  # it moved them page by page: behind the first fresh one is nothing
                if any(page.items[place].is_fresh for place in places):
                    at_page = page.number
                found = await self._movers.recognise([page.items[place] for place in places])
                page = await self._write_page(page, dict(zip(places, found, strict=True)))
            if any(item.is_busy for item in page.items):
                busy_pages.append(page.number)
            counts = counts.plus(bulk_run.count_items(page.items))
        self.run = replace(self.run, at_page=at_page, busy_pages=tuple(busy_pages))
        self.run = bulk_rules.with_outcomes(self.run, counts, self._clock.now())
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
        """Raises Lost or _Stopped if this is not the one to carry it on any more; prolongs the lease if need be."""
        while True:
            await self._refresh()
            if self.run.state not in ACTIVE:
                raise _Stopped
            now, seconds = self._clock.now(), self._lease_seconds()
            if self.run.due_at is None or self.run.due_at > now + timedelta(seconds=seconds / 2):
                return
            prolonged = bulk_rules.with_lease(self.run, self.lease, now + timedelta(seconds=seconds), now)
            written = await write_one(self._shelves.runs, prolonged)
            if written is not None:
                self.run = written
                return

    async def _refresh(self) -> None:
        """What people have changed meanwhile, with what is known here."""
        stored = await get_one(self._shelves.runs, self.run.run_id)
        if stored is None or stored.lease is None or stored.lease.token != self.lease.token:
            raise Lost
        known = self.run
        self.run = replace(
            stored,
            counts=known.counts,
            at_page=known.at_page,
            busy_pages=known.busy_pages,
            step=known.step,
            paced_at=known.paced_at,
            quiet_since=known.quiet_since,
        )

    async def _give_back(self, until: datetime) -> None:
        await self._write(lambda run: bulk_rules.return_lease(run, until, self._clock.now()))

    async def _write(
        self, change: Callable[[BulkRun], BulkRun], states: Sequence[RunState] = (RunState.RUNNING,)
    ) -> None:
        """Have it written; where a person was quicker, and it is not in one of these states, it is only given back."""
        for _ in range(_TRIES):
            await self._refresh()
            now = self._clock.now()
            wanted = change(self.run) if self.run.state in states else bulk_rules.return_lease(self.run, now, now)
            written = await write_one(self._shelves.runs, wanted)
            if written is not None:
                self.run = written
                return
        raise StoreUnavailable(f"bulk run {self.run.run_id} was changed by others {_TRIES} times in a row")

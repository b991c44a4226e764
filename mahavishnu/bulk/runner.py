"""Works on one bulk run for a while, under a lease: plans it, moves its members slice by slice, looks for outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from mahavishnu.bulk import rules as bulk_rules
from mahavishnu.bulk.members import READ, PageConflict, RunLeaseLost, RunMembers, RunStore, RunVerb
from mahavishnu.bulk.rules import POLL_SECONDS, Finish, Halt, MoveSlice, WaitUntil
from mahavishnu.bulk.run import (
    ACTIVE,
    BulkRun,
    ItemState,
    RunCounts,
    RunItem,
    RunLease,
    RunPage,
    RunState,
    count_items,
    summary,
)
from mahavishnu.engine.audit import AuditRecord
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.errors import StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import new_token
from mahavishnu.model.query import Is, Query, Sort
from mahavishnu.model.work import ItemOutcome
from mahavishnu.stores.base import get_one, write_one, write_with_retry

LEASE_SECONDS = 30.0
# Who halts a run in the audit: the stop rule; an error that makes it impossible to continue. And who ends one.
STOP_RULE, HALT_ON_ERROR, RUNNER = "stop_rule", "halt_on_error", "runner"
_SLICES = 50  # before other runs have their turn
_PAUSE = 3.0  # outcomes are not counted again for this many times as long as counting them took
_TRIES = 20
log = logging.getLogger(__name__)
_AT_ONCE = 100  # runs taken in one round


class RunStopped(Exception):
    """A person has paused or cancelled the run."""


def lease_time(context: QueueContext) -> timedelta:
    """Return for how long a process takes a run."""
    return timedelta(seconds=min(LEASE_SECONDS, context.limits.lease_seconds))


def announce_run(context: QueueContext, run: BulkRun, name: EventName = EventName.RUN_CHANGED, **detail: Any) -> None:
    """Publish the state and the counts of a run."""
    state = {"run_id": run.run_id, "verb": run.verb, "state": str(run.state), "by": run.by, **asdict(run.counts)}
    if run.halted_because:
        state["halted_because"] = run.halted_because
    context.events.publish(Event(name, context.clock.now(), None, state | detail))


class RunExecutor:
    """The work on one run under its lease."""

    def __init__(self, context: QueueContext, store: RunStore, run: BulkRun, *, recovering: bool) -> None:
        """`recovering`: the process that worked on the run before did not record its progress."""
        assert run.lease is not None
        self.run = run  # with the progress that is known here; the stored run may be behind
        self.lease: RunLease = run.lease
        self._context, self._clock, self._store = context, context.clock, store
        self._members = RunMembers(store, run.run_id, run.awaits_outcomes)
        self._verb = RunVerb(context, run)
        self._recovering = recovering
        self._fresh = True  # `run` is what is stored
        self._did = False
        self._moved = False  # in the step before
        self._count_after = 0.0
        self._page: RunPage | None = None

    async def execute(self) -> bool:
        """Work until the run waits or ends, `_SLICES` at most. Return if it did. Raise RunLeaseLost, StoreError."""
        try:
            if self.run.plan is None:
                self._recovering = False
                await self._plan()
                self._did = True
            for _ in range(_SLICES):
                try:
                    if self._recovering:
                        await self._rebuild_progress()
                    if await self._step():
                        break
                except PageConflict:  # with a process that does not know yet that it has lost the run
                    self._recovering = True
            else:
                await self._return_lease(self._clock.now())
        except RunStopped:
            self._did = True
            await (self.abandon() if self._recovering else self._return_lease(self._clock.now()))
        if self._did:
            announce_run(self._context, self.run)
        return self._did

    async def _step(self) -> bool:
        """Do what the run needs now. Return whether its lease is returned."""
        waits = bulk_rules.must_wait_for_outcomes(self.run)
        # Letters that were moved just now have no outcomes yet. Counting many may take as long as moving a slice:
        # then it is not done before each slice.
        if bulk_rules.needs_outcomes(self.run) and (
            not self._moved if waits else self._clock.monotonic() >= self._count_after
        ):
            began = self._clock.monotonic()
            await self._count_outcomes(waits=waits)
            ended = self._clock.monotonic()
            self._count_after = ended + _PAUSE * (ended - began)
        match bulk_rules.next_step(self.run, self._clock.now()):
            case MoveSlice(most):
                await self._check_lease()
                self._did = True
                self._moved = await self._move_slice(most, self._clock.now())
                return False
            case WaitUntil(until):
                await self._return_lease(until)
            case Halt(why):
                await self.halt(why)
            case Finish():
                await self._finish()
        return True

    async def abandon(self) -> None:
        """Stop at once. The next process to take the run has to find out how far it is."""
        await self._write(bulk_rules.abandon_lease, tuple(RunState))

    async def halt(self, why: str, *, exact: bool = True) -> None:
        """Halt the run until a person resumes it. Unless `exact`, the counts may be behind."""

        def halt(run: BulkRun, now: datetime) -> BulkRun:
            after = bulk_rules.halt(run, why, now) if run.state in ACTIVE else run
            return after if exact else replace(after, lease=replace(self.lease, left=True))

        async with self._audit("run.halt", STOP_RULE if exact else HALT_ON_ERROR, why) as record:
            record.add(**asdict(self.run.counts))
            await self._write(halt, ACTIVE if exact else tuple(RunState))
            if self.run.state is not RunState.HALTED:
                record.refuse(f"it was {self.run.state} before that")
        self._did = True

    async def _finish(self) -> None:
        await self._refresh_outcomes(final=True)
        if self.run.awaits_outcomes and self.run.counts.awaited:  # the letters do not agree with the counts
            await self._return_lease(self._clock.now() + timedelta(seconds=POLL_SECONDS))
            return
        # One entry, however often this is begun: a process that died here has audited the same counts.
        async with self._audit("run.done", RUNNER, summary(self.run), f"{self.run.run_id}-done") as record:
            record.add(**asdict(self.run.counts))
            await self._write(bulk_rules.finish)
            if self.run.state is not RunState.DONE:
                record.refuse(f"it was {self.run.state} before that")
        self._did = True

    def _audit(
        self, action: str, by: str, reason: str, entry_id: str | None = None
    ) -> AbstractAsyncContextManager[AuditRecord]:
        subject = f"run:{self.run.run_id}"
        return self._context.audit.record(action, subject, by=by, reason=reason, via="rule", entry_id=entry_id)

    # --- planning

    async def _plan(self) -> None:
        """Write the pages of members, and then, in one write, that these are the members."""
        plan = self.lease.token
        pages, counts = await self._members.plan(self.run, plan, self._check_lease)
        await self._write(
            lambda run, now: bulk_rules.with_plan(run, plan, pages, counts, now), (RunState.PLANNING, RunState.PAUSED)
        )
        with suppress(StoreError):
            await self._store.remove_other_plans(self.run.run_id, plan)
        announce_run(self._context, self.run)

    # --- moving

    async def _move_slice(self, most: int, now: datetime) -> bool:
        """Move so many of the next members at most. Return whether letters were moved."""
        page, places = await self._next_members(now)
        chosen = [page.items[place] for place in places[:most]]
        done, away = await self._members.move(chosen, self._verb, now)
        page = await self._write_page(page, dict(zip(places, done, strict=False)))
        after = count_items(done)
        counts = self.run.counts.plus(replace(after, members=0))
        busy = any(item.is_busy for item in page.items)
        self.run = bulk_rules.after_slice(self.run, counts, page.number, after.moved, self._clock.now(), busy=busy)
        if away is not None:
            raise away
        return after.moved > 0

    async def _next_members(self, now: datetime) -> tuple[RunPage, list[int]]:
        """Return a page and its next members to move: fresh ones first, then those that are not busy any more."""
        while self.run.at_page < self.run.pages:
            page = await self._read(self.run.at_page)
            if places := [place for place, item in enumerate(page.items) if item.is_fresh]:
                return page, places
            self.run = replace(self.run, at_page=self.run.at_page + 1)
        page = await self._read(self.run.busy_pages[0])
        places = [place for place, item in enumerate(page.items) if item.is_busy]
        idle = await self._members.are_idle([page.items[place] for place in places], now)
        return page, [place for place, is_idle in zip(places, idle, strict=True) if is_idle]

    async def _read(self, number: int) -> RunPage:
        if self._page is None or self._page.number != number:
            (self._page,) = await self._store.read_pages(self.run, [number])
        return self._page

    async def _write_page(self, page: RunPage, changed: dict[int, RunItem]) -> RunPage:
        items = tuple(changed.get(place, item) for place, item in enumerate(page.items))
        if items == page.items:
            return page
        written = await self._store.replace_page(replace(page, items=items))
        if self._page is not None and self._page.number == page.number:
            self._page = written
        return written

    # --- progress

    async def _count_outcomes(self, *, waits: bool) -> None:
        """Update the counts of outcomes: by tallies, or by reading each letter where no further outcome is to come."""
        known = await self._store.count_outcomes(self.run.run_id, whole=True)
        # A letter that is being replaced is in the history too: if its process died, until the next write completes it.
        twice = sum(known.values()) > self.run.counts.moved
        if twice or (waits and not known[None]):
            await self._refresh_outcomes()
        else:
            counts = replace(self.run.counts, **{str(how): known[how] for how in ItemOutcome})
            self.run = bulk_rules.with_outcomes(self.run, counts, self._clock.now())

    async def _refresh_outcomes(self, *, final: bool = False) -> None:
        """Write the outcome of each moved letter on its page, as far as it is known, and count all members again."""
        counts = RunCounts()
        open_ones = (None, ItemOutcome.FAILED_AGAIN) if final else (None,)
        async for page in self._pages_so_far():
            places = [
                place
                for place, item in enumerate(page.items)
                if item.state is ItemState.MOVED and item.outcome in open_ones
            ]
            if places and self.run.awaits_outcomes:
                found = await self._members.find_outcomes([page.items[place] for place in places])
                page = await self._write_page(page, dict(zip(places, found, strict=True)))
            counts = counts.plus(count_items(page.items))
        counts = replace(counts, members=self.run.counts.members)
        self.run = bulk_rules.with_outcomes(self.run, counts, self._clock.now())

    async def _rebuild_progress(self) -> None:
        """Find out how far a process came that did not record it."""
        await self._check_lease()
        self._page = None
        self.run = replace(self.run, at_page=self.run.pages)
        counts, at_page, busy_pages = RunCounts(), self.run.pages, list[int]()
        async for page in self._pages_so_far():
            places = [place for place, item in enumerate(page.items) if item.state is ItemState.WAITING]
            # Members are moved page by page: behind the first page with a fresh one there is nothing to recognise.
            if places and at_page == self.run.pages:
                if any(page.items[place].is_fresh for place in places):
                    at_page = page.number
                found = await self._members.recognise_moved([page.items[place] for place in places])
                page = await self._write_page(page, dict(zip(places, found, strict=True)))
            if any(item.is_busy for item in page.items):
                busy_pages.append(page.number)
            counts = counts.plus(count_items(page.items))
        self.run = replace(self.run, at_page=at_page, busy_pages=tuple(busy_pages))
        self.run = bulk_rules.with_outcomes(self.run, counts, self._clock.now())
        self._recovering = False

    async def _pages_so_far(self) -> AsyncIterator[RunPage]:
        """Yield the pages up to the present one. Check the lease between them."""
        numbers = range(min(self.run.at_page + 1, self.run.pages))
        for start in range(0, len(numbers), READ):
            if start:
                await self._check_lease()
            for page in await self._store.read_pages(self.run, numbers[start : start + READ]):
                yield page

    # --- the lease

    async def _check_lease(self) -> None:
        """Read changes since the last write, and extend a half-used lease. Raise RunLeaseLost, RunStopped."""
        while True:  # a loop of its own: the run is only read if it may have been changed, and only written when due
            if not self._fresh:
                self._take_over(await get_one(self._store.runs, self.run.run_id))
            self._fresh = False
            if self.run.state not in ACTIVE:
                raise RunStopped
            whole, now = lease_time(self._context), self._clock.now()
            if self.run.due_at is None or self.run.due_at > now + whole / 2:
                return
            written = await write_one(self._store.runs, bulk_rules.with_lease(self.run, self.lease, now + whole, now))
            if written is not None:
                self.run = written
                return

    def _take_over(self, stored: BulkRun | None) -> None:
        """Take over what people changed in the stored run, and keep the progress that is known here."""
        if stored is None or stored.lease is None or stored.lease.token != self.lease.token:
            raise RunLeaseLost
        progress = ("counts", "at_page", "busy_pages", "step", "paced_at", "quiet_since")
        self.run = replace(stored, **{name: getattr(self.run, name) for name in progress})

    async def _return_lease(self, until: datetime) -> None:
        await self._write(lambda run, now: bulk_rules.return_lease(run, until, now))

    async def _write(
        self, change: Callable[[BulkRun, datetime], BulkRun], states: Sequence[RunState] = (RunState.RUNNING,)
    ) -> None:
        """Write a change. If a person was quicker, and the run is not in these states now, only return the lease."""

        def change_stored(stored: BulkRun | None) -> BulkRun:
            if stored is not self.run:
                self._take_over(stored)
            now = self._clock.now()
            return change(self.run, now) if self.run.state in states else bulk_rules.return_lease(self.run, now, now)

        runs, key = self._store.runs, self.run.run_id
        _, written = await write_with_retry(runs, key, change_stored, what="bulk run", known=self.run, tries=_TRIES)
        if written is not None:
            self.run, self._fresh = written, True


class Runner:
    """The work of this process on every run that is due."""

    def __init__(self, context: QueueContext, store: RunStore) -> None:
        self.next_due: datetime | None = None  # when the soonest run is due again
        self._context, self._clock, self._store = context, context.clock, store
        self._dropped: set[str] = set()  # tokens of leases that this runner could not return: nobody works under them

    async def advance(self) -> bool:
        """Work on each due run until it has to wait. Return whether anything was done. Raise StoreError."""
        self.next_due = None  # it has come; if this call fails, the next one has time
        page = await self._store.runs.find(Query((Is("state", ACTIVE),), (Sort("due_at"),), _AT_ONCE))
        did = False
        problem: StoreError | None = None
        if page.degraded:
            problem = StoreUnavailable(f"not every bulk run can be seen now: {page.degraded}")
        due: list[datetime] = []
        now, skew = self._clock.now(), timedelta(seconds=self._context.limits.skew_seconds)
        free = {run.run_id for run in page.items if bulk_rules.is_free(run, now, skew, self._dropped)}
        for run in page.items:
            executor = None
            try:
                if run.run_id in free and (executor := await self._take(run, skew)) is not None:
                    did |= await self._execute(executor)
                    run = executor.run
            except StoreError as error:  # it must not stop the other runs
                problem = error
            if run.due_at is not None and run.state in ACTIVE:
                soon = self._clock.now() + timedelta(seconds=POLL_SECONDS)
                due.append(run.due_at if executor is not None else max(run.due_at, soon))
        self.next_due = min(due, default=None)
        if problem is not None:
            raise problem
        return did

    async def _take(self, run: BulkRun, skew: timedelta) -> RunExecutor | None:
        """Take the lease of a run that was found free. None if it is not free any more."""
        lease = RunLease(self._context.owner, new_token())

        def take(current: BulkRun | None) -> BulkRun | None:
            whole, now = lease_time(self._context), self._clock.now()
            if current is None or (current is not run and not bulk_rules.is_free(current, now, skew, self._dropped)):
                return None  # it was changed since, or `find` lags
            return bulk_rules.with_lease(current, lease, now + whole, now)

        before, written = await write_with_retry(self._store.runs, run.run_id, take, what="bulk run", known=run)
        if before is None or written is None:
            return None
        if before.lease is not None:
            self._dropped.discard(before.lease.token)
        return RunExecutor(self._context, self._store, written, recovering=before.lease is not None)

    async def _execute(self, executor: RunExecutor) -> bool:
        try:
            return await executor.execute()
        except RunLeaseLost:
            return True
        except asyncio.CancelledError:
            with suppress(StoreError, RunLeaseLost):
                await executor.abandon()
            raise
        except (StoreUnavailable, StoreMisconfigured):
            self._dropped.add(executor.lease.token)
            raise
        except Exception as problem:  # the next call would meet it again
            log.exception("bulk run %s cannot be carried on", executor.run.run_id)
            with suppress(RunLeaseLost):
                await executor.halt(f"it cannot be carried on: {type(problem).__name__}: {problem}", exact=False)
            return True

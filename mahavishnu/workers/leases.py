"""The leases that one worker holds: renewed while their letters wait and run, ended by an outcome or given back.

And its places under the limits of adapters, which it shares with the other workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec.structs import replace

from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.engine.context import QueueContext
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import wait_for
from mahavishnu.model.errors import CannotRestore, LostLease, StoreError, StoreUnavailable
from mahavishnu.model.events import EventName, letter_fields, log_event
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query, Sort
from mahavishnu.stores.base import Collection, Result, get_one, write_one, write_with_retry
from mahavishnu.stores.lease_watch import lease_seconds, must_renew
from mahavishnu.workers.records import LIMITS
from mahavishnu.workers.rules import BY_APPLICATION, AdapterLimit, grant

R = TypeVar("R")
Change = Callable[[DeadLetter], DeadLetter]
log = logging.getLogger(__name__)
_PATIENCE = 8  # tries to write something while the store is away
_ANSWER_SECONDS = 30.0  # for which the caller of a retry waits for its outcome to be written
_EARLY_SECONDS = 0.001  # by which a run may be ended before its time: clocks round


def _is_enough(tries: int) -> bool:
    return tries > _PATIENCE


@dataclass(slots=True)
class LeasedLetter:
    """A letter on which this worker holds a lease.

    `letter` is as it was last written by this worker, at `written` on its monotonic clock.
    """

    letter: DeadLetter
    token: str
    key: str
    circuit: str
    written: float
    running: asyncio.Task[Any] | None = None
    ends: float = math.inf  # when its run has to be over
    late: bool = False  # the run was cancelled because it took too long
    lost: bool = False  # another worker owns the letter
    stopped: bool = False  # the run was cancelled because its worker stops, or its caller gave up
    by_hand: bool = False  # somebody waits for the answer
    outcome: PendingOutcome | None = None  # its run has ended


@dataclass(slots=True)
class PendingOutcome:
    """The change that a run makes to its letter, on its way into the store, and the future of who waits for that."""

    leased: LeasedLetter
    change: Change
    announce: Callable[[DeadLetter], object]  # called with the letter as it was written
    context: Context
    future: asyncio.Future[DeadLetter | None] | None = None


class LeaseTable:
    """The leased letters, by key. Outcomes that arrive together are written together; runs that take long are ended."""

    def __init__(self, context: QueueContext, counts: Counter[str]) -> None:
        self._context, self._counts = context, counts
        self._letters, self._clock = context.letters, context.clock
        self._leased: dict[str, LeasedLetter] = {}
        self._writes: set[asyncio.Task[Any]] = set()
        self._outcomes = Batcher(self._write_outcomes, self._abandon)
        self._watching: asyncio.Task[None] | None = None
        self._watchers, self._started = 0, False  # how many need that
        self._look, self._next_look = asyncio.Event(), math.inf
        self.on_renewal: Callable[[], Awaitable[object]] | None = None  # awaited whenever leases may have to be renewed
        self.on_written: Callable[[LeasedLetter], object] = self.remove  # called when an outcome is no longer pending
        self.unwritten = 0  # outcomes that nobody waits for
        self._gives_up = True

    def __len__(self) -> int:
        return len(self._leased)

    def __contains__(self, key: str) -> bool:
        return key in self._leased

    def __iter__(self) -> Iterator[LeasedLetter]:
        return iter(self._leased.values())

    def add(self, letter: DeadLetter, token: str, key: str, circuit: str) -> LeasedLetter:
        """Hold the lease on a letter that was just claimed."""
        leased = self._leased[key] = LeasedLetter(letter, token, key, circuit, self._clock.monotonic())
        self._context.lease_watch.look([letter])  # who knows it from its beginning need not watch it after its end
        return leased

    def remove(self, leased: LeasedLetter) -> None:
        """Forget the lease: it has ended. If it was the probe of a circuit without an outcome, another one may be."""
        self._leased.pop(leased.key, None)
        if leased.circuit in self._context.breakers.not_closed:
            self._context.breakers.release(leased.circuit, leased.token)

    @property
    def is_ending(self) -> bool:
        """True if the event loop ends, which cancels every task."""
        return self._watching is not None and self._watching.cancelling() > 0

    def start(self) -> None:
        """Begin to renew the leases, and to keep outcomes until the store takes them."""
        self._gives_up, self._started = False, True
        self._watch()

    def hurry(self) -> None:
        """Give outcomes up after some more tries: the worker stops."""
        self._gives_up = True

    async def stop(self) -> None:
        """Finish all writes, and end the renewal of leases."""
        self.hurry()
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._outcomes.finish()
        if self._started:
            self._started = False
            await self._end_watch()

    @contextlib.asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Renew leases meanwhile, even if `start` was never called."""
        self._watch()
        try:
            yield
        finally:
            await self._end_watch()

    def _watch(self) -> None:
        self._watchers += 1
        if self._watchers == 1:
            self._watching = asyncio.create_task(self._watch_leases(), name="mahavishnu leases")

    async def _end_watch(self) -> None:
        self._watchers -= 1
        if not self._watchers and (watching := self._watching) is not None:
            if not watching.cancelling():  # or else by the end of the event loop, which the runs have to know
                self._watching = None
                watching.cancel()
            await asyncio.wait({watching})

    async def finish_write(self, write: Coroutine[Any, Any, R]) -> R:
        """Await this write to its end, even if the run is cancelled meanwhile."""
        writing = asyncio.create_task(write)
        self._writes.add(writing)
        writing.add_done_callback(self._writes.discard)
        return await asyncio.shield(writing)

    async def write_outcome(
        self, leased: LeasedLetter, change: Change, announce: Callable[[DeadLetter], object]
    ) -> DeadLetter | None:
        """Apply `change` to the letter under its lease, and announce it once it is written.

        Both happen even if the caller is cancelled meanwhile. `change` raises LostLease if another worker owns the
        letter. None if the outcome could not be written for that reason, or because the store stays away; that of a
        retry by hand may be written after that.
        """
        future: asyncio.Future[DeadLetter | None] = asyncio.get_running_loop().create_future()
        self._outcomes.add(PendingOutcome(leased, change, announce, copy_context(), future))
        if leased.by_hand:
            enough: asyncio.Future[Any] = asyncio.create_task(self._clock.sleep(_ANSWER_SECONDS))
            answer: asyncio.Future[Any] = future
            try:
                await asyncio.wait((answer, enough), return_when=asyncio.FIRST_COMPLETED)
            finally:
                enough.cancel()
            if not future.done():
                return None
        return await future

    def write_outcome_later(
        self, leased: LeasedLetter, change: Change, announce: Callable[[DeadLetter], object]
    ) -> None:
        """Do the same while nobody waits; the lease is renewed until then."""
        leased.outcome = PendingOutcome(leased, change, announce, copy_context())
        self.unwritten += 1
        self._outcomes.add(leased.outcome)

    async def _write_outcomes(self, outcomes: Sequence[PendingOutcome]) -> None:
        """Write outcomes that arrived together at once, and one by one where that is not enough."""
        changed: list[tuple[PendingOutcome, DeadLetter]] = []
        for outcome in outcomes:
            try:
                changed.append((outcome, outcome.change(outcome.leased.letter)))
            except LostLease:
                outcome.context.run(self._refuse, outcome)
            except Exception as problem:
                if outcome.future is not None and not outcome.future.done():
                    outcome.future.set_exception(problem)
                self._abandon(outcome, problem)
        results: Sequence[Result[DeadLetter]]
        try:
            results = await self._letters.write([letter for _, letter in changed]) if changed else ()
        except StoreError as problem:
            results = [problem] * len(changed)
        for (outcome, letter), result in zip(changed, results, strict=True):
            if isinstance(result, DeadLetter):
                outcome.context.run(self._finish, outcome, result)
            else:
                self._outcomes.spawn(self._write_alone(outcome, letter, result), [outcome], outcome.context)

    async def _write_alone(self, outcome: PendingOutcome, tried: DeadLetter, answer: StoreError | None) -> None:
        """Write an outcome whose letter was changed by others, or that the store had a problem with.

        A worker tries until the store answers, and a few times more when it stops. Otherwise a success during an outage
        would be run again after it.
        """
        leased = outcome.leased
        try:
            if isinstance(answer, StoreUnavailable):
                await self._pause(1)
            letter = await write_under_lease(
                self._letters, leased.letter, outcome.change, self._pause, self._patience(leased), tried
            )
        except StoreError as problem:
            log.error("the outcome of letter %r could not be written, it will run again: %s", leased.key, problem)
            self._end(outcome, None)
        else:
            self._finish(outcome, letter) if letter is not None else self._refuse(outcome)

    def _patience(self, leased: LeasedLetter) -> Callable[[int], bool]:
        """Return a function that tells by the number of tries whether to give up an outcome."""
        while_working = 0

        def gives_up(tries: int) -> bool:
            nonlocal while_working
            if not self._gives_up:
                if tries == _PATIENCE:
                    log.warning("the outcome of letter %r waits until the store answers", leased.key)
                while_working = tries
            return tries - while_working > _PATIENCE

        return gives_up

    def _finish(self, outcome: PendingOutcome, letter: DeadLetter) -> None:
        outcome.announce(letter)
        self._end(outcome, letter)

    def _refuse(self, outcome: PendingOutcome) -> None:
        self.report_stale(outcome.leased)
        self._end(outcome, None)

    def _abandon(self, outcome: PendingOutcome, problem: Exception | None = None) -> None:
        if outcome.leased.outcome is outcome:
            log.error("an attempt stumbled: its lease will run out", exc_info=problem)
            self._end(outcome, None)

    def _end(self, outcome: PendingOutcome, letter: DeadLetter | None) -> None:
        """Answer who waits for the outcome. If nobody had to, the letter is given up here."""
        if outcome.future is not None:
            resolve(outcome.future, letter)
        if outcome.leased.outcome is outcome:
            outcome.leased.outcome = None
            self.unwritten -= 1
            self.on_written(outcome.leased)

    def report_stale(self, leased: LeasedLetter) -> None:
        """Announce that a run's outcome does not count: the letter has another owner, or its case was closed."""
        self._counts["stale_claims"] += 1
        log.warning(
            "stale_claim: the outcome of letter %r does not count: it has another owner, or its case was closed",
            leased.key,
            extra=log_event("lease.lost", **letter_fields(leased.letter)),
        )
        self._context.announce(EventName.STALE_CLAIM, leased.letter)

    async def give_back(
        self, leased: LeasedLetter, wait_seconds: float = 0.0, *, unfit: CannotRestore | None = None, **why: object
    ) -> None:
        """Release the letter and refund its attempt. `unfit` is why its workflow here could not take it."""
        due = self._clock.now() + timedelta(seconds=wait_seconds)

        def release(current: DeadLetter) -> DeadLetter:
            now, token = self._clock.now(), leased.token
            if unfit is None:
                return lifecycle.release(current, token=token, now=now, due_at=due)
            return lifecycle.release(current, token=token, now=now, unfit=str(unfit), needs_edit=unfit.needs_edit)

        try:
            letter = await write_under_lease(self._letters, leased.letter, release, self._pause, _is_enough)
        except Exception as problem:  # whatever it is, the others are given back
            log.warning("letter %r could not be given back, its lease will run out: %r", leased.key, problem)
            return
        finally:
            self.remove(leased)
        if letter is not None:
            self._context.announce(EventName.RELEASED, letter, **why)

    async def _pause(self, tries: int) -> None:
        """Wait between two tries to write while the store is away."""
        await self._clock.sleep(min(0.1 * 2**tries, 5.0))

    def begin_run(self, leased: LeasedLetter, began: float, seconds: float | None) -> None:
        """Note that the current task runs the letter, since then, and for so long at most."""
        leased.running = asyncio.current_task()
        if seconds is not None:
            leased.ends = began + seconds
            if leased.ends < self._next_look:
                self._look.set()

    async def _watch_leases(self) -> None:
        """Renew each lease at half of its life, whether its letter is running or waits. End runs that take too long."""
        wake = self._look.set  # leases may be shorter from now on
        self._context.on_new_limits.add(wake)
        renewal: asyncio.Task[None] | None = None
        try:
            while True:
                self._look.clear()
                shortest = min([self._context.limits.lease_seconds, *(lease_seconds(each.letter) for each in self)])
                now = self._clock.monotonic()
                self._next_look = min([now + shortest / 6, *(each.ends for each in self)])
                await wait_for(self._look, self._clock, self._next_look - now)
                soon = self._clock.monotonic() + _EARLY_SECONDS
                for leased in self:
                    if leased.ends <= soon and leased.running is not None:
                        leased.ends, leased.late = math.inf, True
                        leased.running.cancel()
                if renewal is None or renewal.done():  # in an outage it takes long, and no run may for that
                    renewal = asyncio.create_task(self._renew_leases())
        finally:
            self._context.on_new_limits.discard(wake)
            if renewal is not None:
                renewal.cancel()
                await asyncio.wait({renewal})

    async def _renew_leases(self) -> None:
        now = self._clock.monotonic()
        ending = [leased for leased in self if must_renew(leased.letter, leased.written, now)]
        for problem in await asyncio.gather(*map(self.renew, ending), return_exceptions=True):
            if isinstance(problem, Exception):
                log.error("a lease could not be renewed", exc_info=problem)
        if self.on_renewal is not None:
            with contextlib.suppress(StoreError):  # it is tried again
                await self.on_renewal()

    async def renew(self, leased: LeasedLetter) -> bool:
        """Prolong the lease. False if that could not be written, or if another worker owns the letter by now.

        A run whose letter has another owner is cancelled.
        """
        until = self._clock.now() + timedelta(seconds=self._context.limits.lease_seconds)
        began = self._clock.monotonic()

        def renew(current: DeadLetter) -> DeadLetter:
            return lifecycle.renew(current, token=leased.token, until=until, now=self._clock.now())

        try:
            letter = await write_under_lease(
                self._letters,
                leased.letter,
                renew,
                lambda tries: self._clock.sleep(0.1 * tries),
                lambda tries: tries > 1,
            )
        except Exception as problem:  # whatever it is, the other leases are renewed
            log.warning("the lease on letter %r could not be renewed: %r", leased.key, problem)
            return False
        if letter is not None:
            leased.letter, leased.written = letter, began
            self._context.lease_watch.look([letter])
            return True
        if leased.key in self:
            leased.lost = True
            if leased.running is not None:
                leased.running.cancel()
        return False


async def write_under_lease(
    letters: Collection[DeadLetter],
    letter: DeadLetter,
    change: Change,
    pause: Callable[[int], Awaitable[object]],
    gives_up: Callable[[int], bool],
    tried: DeadLetter | None = None,
) -> DeadLetter | None:
    """Apply `change` to the letter as it is now, for as long as it takes; None if the run no longer owns it.

    `tried` is the content of an earlier write whose answer said too little.

    After a lost compare-and-set the letter is read again and `change` decides again under the lease's token. While the
    store is away the write is tried again, with a `pause` in between: work that was paid for is not lost to an outage.
    Once it `gives_up`, StoreUnavailable is raised, and the lease runs out. Both get the number of tries.
    """
    current = letter if tried is None else None
    tries = 0
    while True:
        try:
            if current is None:
                current = await get_one(letters, letter.key)
                if current is None or current == tried:  # removed meanwhile, or written although no answer came
                    return current
            if not current.knows(letter.entry_id):  # it hides the letter, which waits in the other store
                raise StoreUnavailable(f"letter {letter.key!r} cannot be seen now: another one was kept locally")
            tried = change(current)
            written = await write_one(letters, tried)
            if written is not None:
                return written
        except LostLease:
            return None
        except StoreUnavailable:
            tries += 1
            if gives_up(tries):
                raise
            await pause(tries)
        current = None


# --- limits of adapters

_READ_SECONDS = 2.0  # between two looks of a worker at the limits
_ASKED_AGAIN = timedelta(seconds=1)  # after which a worker asks for a place again
ALL_LIMITS = Query(sort=(Sort("adapter"),), limit=1000)


class LimitGate:
    """The limits of adapters as the workers of a process keep to them: places and runs are taken before a claim."""

    @classmethod
    def for_context(cls, context: QueueContext) -> LimitGate:
        """Return the gate of a queue."""
        return cls(context, declares=True)

    def __init__(self, context: QueueContext, declares: bool = False) -> None:
        """With `declares` it sets the limits of the application, too."""
        self._declares = declares
        self.limits: dict[str, AdapterLimit] = {}  # those that are set, as they were read or written last
        self._context, self._clock = context, context.clock
        self._records = context.own_records(LIMITS)
        self._shut: dict[str, datetime] = {}  # when to ask again
        self._read_at: datetime | None = None
        self._declared: dict[str, tuple[int | None, str | None]] = {}
        self._alone = False  # the shared store is away: this process keeps to the limits by itself

    async def read(self, now: datetime) -> bool:
        """Read the limits, unless that was just done, and declare those of the application. True if some changed.

        While the shared store is away, those that were read last go on in this process, and declared ones begin.

        Raises StoreError.
        """
        if self._read_at is not None and abs((now - self._read_at).total_seconds()) < _READ_SECONDS:
            return False
        self._read_at = now
        page, application = await self._records.find(ALL_LIMITS), self._context.declared_limits()
        self._alone = page.degraded is not None
        if self._alone:
            where = self._context.written_namespace
            for name in application.keys() - self._declared.keys() - self.limits.keys() if self._declares else ():
                self.limits[name] = AdapterLimit(name, *application[name], BY_APPLICATION, now, namespace=where)
            return False
        found = {limit.adapter: limit for limit in page.items}
        for name, declared in application.items() if self._declares else ():
            limit = found.get(name)
            is_reset = limit is not None and limit.set_by is None
            if declared != self._declared.get(name) or is_reset:
                if limit is not None or declared != (None, None):
                    found[name] = await self._declare(name, *declared)
                self._declared[name] = declared
        limits = {name: limit for name, limit in found.items() if limit.is_set}
        changed = [
            name
            for name in {*limits, *self.limits}
            if name not in limits or name not in self.limits or limits[name].values != self.limits[name].values
        ]
        for name in changed:
            self._shut.pop(name, None)
        self.limits = limits
        return bool(changed)

    def is_fresh(self, now: datetime) -> bool:
        """Return whether the limits were read just now."""
        return self._read_at is not None and abs((now - self._read_at).total_seconds()) < 2 * _READ_SECONDS

    async def _declare(self, adapter: str, concurrency: int | None, rate: str | None) -> AdapterLimit:
        """Set a limit that the application declares, unless a person has set one."""
        new = AdapterLimit(adapter, namespace=self._context.written_namespace)

        def change(current: AdapterLimit | None) -> AdapterLimit | None:
            current = current or new
            if current.set_by not in (None, BY_APPLICATION):
                return None
            at = self._clock.now()
            made = replace(current, concurrency=concurrency, rate=rate, set_by=BY_APPLICATION, set_at=at)
            return None if replace(made, set_at=current.set_at) == current else made

        before, after = await write_with_retry(self._records, new.key, change, what="limit")
        return after or before or new

    def find_shut(self, owner: str, held: Mapping[str, int]) -> set[str]:
        """Return the adapters that are at their limit, of which a worker with these letters need not ask for more."""
        now = self._clock.now()
        self._shut = {
            name: at
            for name, at in self._shut.items()
            if at > now and name in self.limits and held.get(name, 0) >= self.limits[name].places_of(owner)
        }
        return set(self._shut)

    def next_try(self) -> float | None:
        """Return the seconds until an adapter at its limit may run more; None if none is."""
        if not self._shut:
            return None
        return max((min(self._shut.values()) - self._clock.now()).total_seconds(), 0.0)

    async def take(
        self, owner: str, wanted: Mapping[str, int], held: Mapping[str, int], until: datetime
    ) -> dict[str, int]:
        """Take as many of the `wanted` places and runs as the limits allow, and say what this worker still holds.

        Its letters are held until `until`. Returns how many were granted, by adapter. Raises StoreError.
        """
        granted: dict[str, int] = {}
        for name, limit in list(self.limits.items()):
            want, has, now = wanted.get(name, 0), held.get(name, 0), self._clock.now()
            if not want and not limit.must_renew(owner, has, now, until):
                continue
            granted[name], self.limits[name] = await self._take(limit, owner, has, want, until)
            if granted[name] < want:
                after = self.limits[name]
                is_paced = after.next_at is not None and after.next_at > now
                self._shut[name] = after.next_at if is_paced and after.next_at else now + _ASKED_AGAIN
        return granted

    async def take_more(self, owner: str, wanted: Mapping[str, int], until: datetime) -> dict[str, int]:
        """Take places and runs for a worker elsewhere, beside those that it holds. Raises StoreError."""
        granted: dict[str, int] = {}
        for name, want in wanted.items():
            granted[name], self.limits[name] = await self._take(self.limits[name], owner, None, want, until)
        return granted

    async def give_back(self, owner: str, adapter: str, places: int, until: datetime | None = None) -> None:
        """Free places of a worker elsewhere; it holds the others until then. Raises StoreError."""
        limit = self.limits.get(adapter)
        if limit is not None and limit.concurrency is not None and limit.places_of(owner):
            await self._take(limit, owner, None, 0, until, places)

    async def _take(
        self, limit: AdapterLimit, owner: str, held: int | None, wanted: int, until: datetime | None, less: int = 0
    ) -> tuple[int, AdapterLimit]:
        granted = wanted

        def change(current: AdapterLimit | None) -> AdapterLimit | None:
            nonlocal granted
            granted = wanted
            if current is None or not current.is_set:
                return None
            now = self._clock.now()
            has = max(current.places_of(owner) - less, 0) if held is None else held
            granted, after = grant(current, owner, has, wanted, now, until or current.end_of(owner) or now)
            return None if after == current else after

        if self._alone:
            after = change(limit)
            return granted, after or limit
        before, after = await write_with_retry(self._records, limit.key, change, what="limit", known=limit)
        return granted, after or before or limit

"""The retry processor: finds due letters, takes leases on them, runs them, and writes down how it went.

It never waits for one letter in order to look after another: a hanging run takes one of the places, not the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mahavishnu.adapters.base import Attempt, Workflow
from mahavishnu.engine import attempt as steps
from mahavishnu.engine.attempt import AssessAttempt, Outcome
from mahavishnu.engine.breaker import Breakers, CircuitState
from mahavishnu.engine.claiming import DueLetters
from mahavishnu.engine.dependencies import blocked_by
from mahavishnu.engine.leases import LeasedLetter, LeaseTable
from mahavishnu.model import backoff, lifecycle
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import ENDS, IllegalMove, StoreError
from mahavishnu.model.events import Event, EventName, Listener
from mahavishnu.model.ids import PARTITIONS, new_token
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.lifecycle import MAX_RECOVERIES
from mahavishnu.stores.base import Collection

log = logging.getLogger(__name__)
_MOST_AHEAD = 2000  # letters claimed before there is a place to run them
_PROBED_SECONDS = 1.0  # for which a letter is given back whose target is being probed
_LOST_IN_A_ROW = 3  # times that others took all that was found, before it is left to them


@dataclass(frozen=True, slots=True)
class Limits:
    """How much, how long, how often."""

    concurrency: int = 50
    run_seconds: float | None = 3600.0
    lease_seconds: float = 300.0
    interval_seconds: float = 60.0
    grace_seconds: float = 30.0
    skew_seconds: float = 30.0  # a lease's end is waited out by so much: the owner's clock may be behind
    only_failed_repos: bool = True  # a retry of a run that failed for some repos is for those only
    polls: bool = True
    wakes: bool = True

    def may_be_leased(self, letter: DeadLetter, now: datetime) -> bool:
        """Whether somebody's lease on the letter may not be over by their clock."""
        grace = timedelta(seconds=self.skew_seconds)
        return letter.status is DeadLetterStatus.RETRYING and letter.due_at is not None and letter.due_at + grace > now


class Processor:
    """Runs due letters with `callback` until it is stopped. `tell` hears of everything after it was written."""

    def __init__(
        self,
        collection: Collection[DeadLetter],
        callback: Workflow,
        assess: AssessAttempt,
        *,
        owner: str,
        clock: Clock,
        limits: Limits | None = None,
        breakers: Breakers | None = None,
        tell: Listener = lambda event: None,
        shares: Callable[[], Sequence[range]] = lambda: [range(PARTITIONS)],
        backoffs: Callable[[], BackoffRegistry] = lambda: backoff.DEFAULT,
    ) -> None:
        self.limits = limits or Limits()
        self.breakers = breakers or Breakers()
        self.counts: Counter[str] = Counter()
        self.owner = owner
        self._letters = collection
        self._finder = DueLetters(collection, shares)
        self._callback = callback
        self._assess = assess
        self._clock = clock
        self._tell_listener = tell
        self._backoffs = backoffs
        self._ready: deque[LeasedLetter] = deque()
        self._held = LeaseTable(collection, clock, lambda: self.limits.lease_seconds, backoffs, self.counts, self._tell)
        self._runs: set[asyncio.Task[None]] = set()
        self._ahead = self.limits.concurrency
        self._awake = asyncio.Event()
        self._claiming = asyncio.Lock()
        self._stopping = False
        self._dates: list[datetime] = []  # a heap: when letters that went through here are due
        self._loops: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it looks for due letters by itself."""
        return self._loops is not None

    @property
    def is_busy(self) -> bool:
        """Whether it holds letters, running or waiting for a place."""
        return bool(self._held)

    def start(self) -> None:
        """Begin to look for due letters, now and then every `interval_seconds`. Starting twice is starting once."""
        if self._loops is None:
            self._stopping = False
            self._loops = asyncio.create_task(self._loop(), name="mahavishnu processor")
            self._held.start()

    def wake(self, due_at: datetime | None = None) -> None:
        """Something is due now, or will be at `due_at`: look then, without waiting for the interval."""
        if not self.limits.wakes:
            return
        if due_at is not None and due_at > self._clock.now():
            heapq.heappush(self._dates, due_at)
            if self._dates[0] < due_at:
                return  # it rests no longer than until then anyway
        self._awake.set()

    async def stop(self) -> None:
        """Take nothing more, let the runs end for `grace_seconds`, then give back what has not ended, unused."""
        self._stopping = True
        self._awake.set()
        if self._loops is not None:
            await asyncio.shield(self._loops)  # not cancelled: a claim that is being written would be known to nobody
            self._loops = None
        async with self._claiming:  # what a cycle is claiming is known after that, and given back like the rest
            self._finder.clear()
        waiting, self._ready = list(self._ready), deque()
        await asyncio.gather(*(self._held.give_back(held) for held in waiting))
        if self._runs:
            grace = asyncio.create_task(self._clock.sleep(self.limits.grace_seconds))
            ended = asyncio.create_task(asyncio.wait(self._runs))
            await asyncio.wait({grace, ended}, return_when=asyncio.FIRST_COMPLETED)
            grace.cancel()
            for run in list(self._runs):
                run.cancel()
            await asyncio.gather(ended, *self._runs, return_exceptions=True)
        await self._held.stop()  # last: what was running until now had to keep its lease

    async def cycle(self) -> int:
        """Run everything that is due now and wait for it: one round, for tests and for `--once`. Returns how many."""
        until = self._clock.now()
        started: set[str] = set()  # what fails and is due again at once is for the next round
        async with self._held.renewing():
            try:
                while True:
                    taken = await self._fill(until, started)
                    if not taken and not self._runs:
                        return len(started)
                    if self._runs and self._finder.has_more:
                        await asyncio.wait(self._runs, return_when=asyncio.FIRST_COMPLETED)
                    while self._runs and not self._finder.has_more:  # there is nothing to claim before these are over
                        await asyncio.wait(self._runs)
            except StoreError:
                while self._runs and not self.is_running:  # what has begun is not left alone: its lease depends on this
                    await asyncio.wait(self._runs)
                raise

    async def run_claimed(self, claimed: DeadLetter, token: str) -> tuple[DeadLetter | None, Outcome]:
        """Run a letter that the caller has claimed and write down how it went; no letter if the lease was lost."""
        held = self._held.add(claimed, token)
        try:
            async with self._held.renewing():
                return await self._run(held)
        finally:
            self._held.remove(held)

    async def _loop(self) -> None:
        troubled = False
        while not self._stopping:
            self._awake.clear()
            now = self._clock.now()
            try:
                taken = await self._fill(now)
                if troubled:
                    log.warning("the processor goes on")
                troubled = False
            except StoreError as problem:
                if not troubled:  # once, not in every round of an outage
                    log.warning("the processor cannot reach the letters and tries again: %s", problem)
                taken, troubled = 0, True
            except Exception:
                log.exception("the processor stumbled and goes on")
                taken = 0
            if not taken:
                await self._rest(now, polls=self.limits.polls or troubled)

    async def _rest(self, looked: datetime, *, polls: bool) -> None:
        """Until something may have changed since it was looked for: a wake-up, a free place, a date, the interval."""
        waits: set[asyncio.Task[object]] = {asyncio.create_task(self._awake.wait())}
        seconds = self._until_next_date(looked)
        if polls:
            interval = self.limits.interval_seconds
            seconds = interval if seconds is None else min(seconds, interval)
        if seconds is not None:
            waits.add(asyncio.create_task(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _until_next_date(self, looked: datetime) -> float | None:
        while self._dates and self._dates[0] <= looked:
            heapq.heappop(self._dates)
        return max((self._dates[0] - self._clock.now()).total_seconds(), 0.0) if self._dates else None

    async def _fill(self, now: datetime, started: set[str] | None = None) -> int:
        """Claim as many due letters as there is room for. Returns how many of them are running or will be.

        None that are in `started` are claimed, and those that are get into it.
        """
        started = set() if started is None else started
        for _ in range(_LOST_IN_A_ROW):
            async with self._claiming:
                taken, lost = await self._claim_found(now, started)
            if taken or not lost:
                return taken
        return 0

    async def _claim_found(self, now: datetime, started: set[str]) -> tuple[int, int]:
        """Claim once what has been found. Returns how many were taken, and how many somebody else had taken."""
        room = self._ahead - len(self._held)
        if self._stopping:
            return 0, 0
        if room <= 0 or not self._is_hungry:
            self._finder.expect_more()  # perhaps: what brought us here is looked for as soon as there is a place
            return 0, 0
        await self._finder.fetch(now)
        chosen: dict[str, tuple[DeadLetter, str]] = {}
        while len(chosen) < room and (letter := self._finder.pop()) is not None:
            if letter.key in self._held or letter.key in chosen or letter.key in started:
                continue
            if not self.limits.may_be_leased(letter, now):
                token = new_token()
                until = self._held.lease_end(self._clock.now())
                with contextlib.suppress(IllegalMove):
                    claim = lifecycle.claim(
                        letter, owner=self.owner, token=token, until=until, now=now, backoffs=self._backoffs()
                    )
                    if self._is_safe(claim, [each for each, _ in chosen.values()]):
                        chosen[letter.key] = claim, token
                    else:
                        self._finder.expect_more()  # until there is a place for it
        if not chosen:
            return 0, 0
        taken = lost = 0
        results = await self._letters.write([letter for letter, _ in chosen.values()])
        for (_, token), result in zip(list(chosen.values()), results, strict=True):
            if isinstance(result, DeadLetter):
                self._took(result, token)
                started.add(result.key)
                taken += 1
            elif result is None:
                lost += 1
            else:
                log.warning("a due letter could not be claimed: %s", result)
        if lost:  # somebody else is at it: the rest of what was found may be theirs by now
            self.counts["conflicts"] += lost
            self._finder.clear()
        # Letters that end faster than they can be claimed are claimed in larger portions, up to a bound.
        hungry = not self._ready and taken
        self._ahead = max(self.limits.concurrency, min(self._ahead * 2, _MOST_AHEAD) if hungry else self._ahead)
        return taken, lost

    @property
    def _is_hungry(self) -> bool:
        """Whether a place is free, or half of what may be held: claims are written many at a time."""
        free = not self._ready and len(self._runs) < self.limits.concurrency
        return free or len(self._held) <= self._ahead // 2

    def _is_safe(self, claim: DeadLetter, chosen: Sequence[DeadLetter]) -> bool:
        """Whether a letter whose last owner died may be taken now.

        It may have killed its owner, or only have been waiting there. So it is not claimed before it can run, and at
        its last chance it runs with no other like it: only the one that kills is counted as failed.
        """
        if not claim.recoveries or claim.lease is None:
            return True
        held = [*chosen, *(each.letter for each in self._held)]
        if claim.recoveries >= MAX_RECOVERIES - 1 and any(each.recoveries >= MAX_RECOVERIES - 1 for each in held):
            return False
        return len(held) < self.limits.concurrency

    def _took(self, letter: DeadLetter, token: str) -> None:
        if letter.lease is None:  # its lease had run out too often: it was not taken, but settled as failed
            self._tell(EventName.RECOVERED, letter)
            if letter.status is DeadLetterStatus.EXHAUSTED:
                self._tell(EventName.EXHAUSTED, letter)
            if letter.next_retry_at is not None:
                self.wake(letter.next_retry_at)
            return
        self.counts["claimed"] += 1
        self._ready.append(self._held.add(letter, token))
        self._start_ready()

    def _start_ready(self) -> None:
        while self._ready and len(self._runs) < self.limits.concurrency and not self._stopping:
            run = asyncio.create_task(self._attempt(self._ready.popleft()))
            self._runs.add(run)
            run.add_done_callback(self._ended)

    def _ended(self, run: asyncio.Task[None]) -> None:
        self._runs.discard(run)
        if not run.cancelled() and (problem := run.exception()):
            log.error("an attempt stumbled: its lease will run out", exc_info=problem)
        self._start_ready()
        if self._finder.has_more and self._is_hungry:
            self._awake.set()

    async def _attempt(self, held: LeasedLetter) -> None:
        try:
            if await self._may_run(held):
                await self._run(held)
        finally:
            self._held.remove(held)
            if held.letter.recoveries:  # others like it may have to wait for this one
                self._awake.set()

    async def _may_run(self, held: LeasedLetter) -> bool:
        """The guard: a letter whose target is down, or that waits for another one, is given back unused."""
        letter = held.letter
        wait = self.breakers.acquire(letter.adapter, self._clock.monotonic(), held.token)
        if wait is not None:
            self.counts["circuit_skipped"] += 1
            if wait > 0:
                await self._put_off(held, max(wait, _PROBED_SECONDS), circuit="open")
            else:  # somebody probes, who knows how long: how that ends wakes us
                await self._held.give_back(held, _PROBED_SECONDS, circuit="open")
            return False
        blocked = None
        try:
            blocked = await blocked_by(self._letters, letter)
        except StoreError as problem:
            log.warning("what letter %r waits for cannot be looked up, it is given back: %s", letter.key, problem)
            await self._put_off(held, self.limits.interval_seconds)
            return False
        finally:
            if blocked != []:  # somebody else may be the probe
                self.breakers.release(letter.adapter, held.token)
        if blocked:
            await self._put_off(held, self.limits.interval_seconds, blocked_by=blocked)
            return False
        return True

    async def _put_off(self, held: LeasedLetter, seconds: float, **why: object) -> None:
        """Give the letter back, and look at it again then: nothing else may bring us to it before the next interval."""
        await self._held.give_back(held, seconds, **why)
        self.wake(self._clock.now() + timedelta(seconds=seconds))

    async def _run(self, held: LeasedLetter) -> tuple[DeadLetter | None, Outcome]:
        self._tell(EventName.RETRY_STARTED, held.letter)
        attempt = Attempt(held.letter, held.token)
        held.running = asyncio.ensure_future(
            steps.run(self._callback, attempt, self._assess, self._clock, self.limits.run_seconds)
        )
        try:
            outcome = await held.running
        except asyncio.CancelledError:
            if held.running.done() and not held.running.cancelled() and held.running.exception() is None:
                await self._settle(held, held.running.result())  # it was quicker
                raise
            self.breakers.release(held.letter.adapter, held.token)
            if held.lost:
                self._held.refused(held)
                return None, Outcome()
            await self._held.shielded(self._held.give_back(held))
            raise
        except BaseException:
            self.breakers.release(held.letter.adapter, held.token)
            raise
        return await self._settle(held, outcome), outcome

    async def _settle(self, held: LeasedLetter, outcome: Outcome) -> DeadLetter | None:
        """Tell the breaker how it went, write it down, and look again when the letter is due."""
        adapter = held.letter.adapter
        if self.breakers.state(adapter, self._clock.monotonic()) is CircuitState.HALF_OPEN:
            self.wake(self._clock.now() + timedelta(seconds=_PROBED_SECONDS))
        if outcome.assessment is None:
            self.breakers.record_success(adapter)
        else:
            self.breakers.record_failure(adapter, outcome.assessment.category, self._clock.monotonic(), held.token)
        if not self.limits.only_failed_repos:
            outcome = replace(outcome, failed_repos=None)
        letter = await self._held.settle(held, outcome)
        if letter is not None and letter.next_retry_at is not None:
            self.wake(letter.next_retry_at)
        return letter

    def _tell(self, name: EventName, letter: DeadLetter, **detail: object) -> None:
        try:
            self._tell_listener(Event(name, self._clock.now(), letter, detail))
        except ENDS:
            raise
        except BaseException:
            log.exception("a listener stumbled over %s", name)

"""The retry processor: wakes when letters are due, fills its places with them, and stops without losing any.

It never waits for one letter in order to look after another: a hanging run takes one of the places, not the loop.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import datetime

from mahavishnu.classify.assess import Assessor
from mahavishnu.engine.breaker import circuit_name
from mahavishnu.engine.context import QueueContext, Workflow
from mahavishnu.model.clock import wait_for
from mahavishnu.model.errors import StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.workers.attempt import AssessAttempt, AttemptRunner, RunningAttempt
from mahavishnu.workers.claiming import Claimer, ClaimResult
from mahavishnu.workers.leases import LeasedLetter, LeaseTable
from mahavishnu.workers.rules import Share

log = logging.getLogger(__name__)
_MOST_AHEAD = 2000  # letters claimed before there is a place to run them
_LOST_IN_A_ROW = 3  # times that others took all that was found, before it is left to them


class Processor:
    """Runs due letters with `callback` until it is stopped.

    `shares` are the letters that it looks after, and `queues` those to take letters from, if not from all; `assess`
    stands in for the queue's classifier.
    """

    def __init__(
        self,
        context: QueueContext,
        callback: Workflow,
        *,
        shares: Callable[[], Sequence[Share]] = lambda: [Share()],
        queues: Sequence[str] = (),
        assess: AssessAttempt | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.leases = LeaseTable(context, self.counts)
        self.claimer = Claimer(context, self.leases, self.counts, shares, queues)
        assess = assess or Assessor(context.chain).assess_attempt
        self.attempts = AttemptRunner(context, self.leases, callback, assess, self.counts, self.wake)
        self._context, self._clock = context, context.clock
        self._ready: deque[LeasedLetter] = deque()
        self._runs: set[asyncio.Task[None]] = set()
        self._ahead = context.limits.concurrency
        self._awake = asyncio.Event()
        self._claiming = asyncio.Lock()
        self._stopping = False
        self._dates: list[datetime] = []  # a heap: when letters that went through here are due
        self._loops: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """True if it looks for due letters in the background."""
        return self._loops is not None

    @property
    def is_busy(self) -> bool:
        """True if it holds letters, running or waiting for a place."""
        return bool(self.leases)

    def start(self) -> None:
        """Begin to look for due letters, now and then every `interval_seconds`. Starting twice is starting once."""
        if self._loops is None:
            self._stopping = False
            self._loops = asyncio.create_task(self._loop(), name="mahavishnu processor")
            self.leases.start()

    def wake(self, due_at: datetime | None = None) -> None:
        """Look for due letters now, or at `due_at`, without waiting for the interval."""
        if not self._context.limits.wakes:
            return
        if due_at is not None and due_at > self._clock.now():
            heapq.heappush(self._dates, due_at)
            if self._dates[0] < due_at:
                return  # it rests no longer than until then anyway
        self._awake.set()

    async def stop(self) -> None:
        """Take nothing more, let the runs end for `grace_seconds`, then give back unfinished letters unused."""
        self._stopping = True
        self._awake.set()
        if self._loops is not None:
            await asyncio.shield(self._loops)  # not cancelled: a claim that is being written would be known to nobody
            self._loops = None
        async with self._claiming:  # what a cycle is claiming is known after that, and given back like the rest
            self.claimer.due.clear()
        waiting, self._ready = list(self._ready), deque()
        await asyncio.gather(*(self.leases.give_back(leased) for leased in waiting))
        if self._runs:
            grace = asyncio.create_task(self._clock.sleep(self._context.limits.grace_seconds))
            ended = asyncio.create_task(asyncio.wait(self._runs))
            await asyncio.wait({grace, ended}, return_when=asyncio.FIRST_COMPLETED)
            grace.cancel()
            for run in list(self._runs):
                run.cancel()
            await asyncio.gather(ended, *self._runs, return_exceptions=True)
        await self.leases.stop()  # last: what was running until now had to keep its lease

    async def cycle(self) -> int:
        """Run everything that is due now and wait for it: one round, for tests and for `--once`. Returns how many."""
        until = self._clock.now()
        started: set[str] = set()  # what fails and is due again at once is for the next round
        due = self.claimer.due
        async with self.leases.renewing():
            try:
                while True:
                    taken = await self._fill(until, started)
                    if not taken and not self._runs:
                        return len(started)
                    if self._runs and due.has_more:
                        await asyncio.wait(self._runs, return_when=asyncio.FIRST_COMPLETED)
                    while self._runs and not due.has_more:  # there is nothing to claim before these are over
                        await asyncio.wait(self._runs)
            except StoreError:
                while self._runs and not self.is_running:  # what has begun is not left alone: its lease depends on this
                    await asyncio.wait(self._runs)
                raise

    async def run_claimed(self, claimed: DeadLetter, token: str) -> RunningAttempt:
        """Run a letter that the caller has claimed, and settle it."""
        leased = self.leases.add(claimed, token, claimed.key, circuit_name(claimed.adapter))
        try:
            async with self.leases.renewing():
                return await self.attempts.execute(leased)
        finally:
            self.leases.remove(leased)

    # --- wake and rest

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
                await self._rest(now, polls=self._context.limits.polls or troubled)

    async def _rest(self, looked: datetime, *, polls: bool) -> None:
        """Wait for a reason to look again: a wake-up, a free place, a date, the interval."""
        while self._dates and self._dates[0] <= looked:
            heapq.heappop(self._dates)
        seconds = max((self._dates[0] - self._clock.now()).total_seconds(), 0.0) if self._dates else None
        if polls:
            interval = self._context.limits.interval_seconds
            seconds = interval if seconds is None else min(seconds, interval)
        await wait_for(self._awake, self._clock, seconds)

    # --- fill the places

    async def _fill(self, now: datetime, started: set[str] | None = None) -> int:
        """Claim as many due letters as there is room for. Returns how many of them are running or will be.

        Letters in `started` are left out; claimed ones are added to it.
        """
        started = set() if started is None else started
        for _ in range(_LOST_IN_A_ROW):
            async with self._claiming:
                claimed = await self._claim(now, started)
            if claimed.taken or not claimed.lost:
                return claimed.taken
        return 0

    async def _claim(self, now: datetime, started: set[str]) -> ClaimResult:
        """Claim letters that were found, and start those that have a place."""
        room = self._ahead - len(self.leases)
        if self._stopping:
            return ClaimResult()
        if room <= 0 or not self._is_hungry:
            self.claimer.due.expect_more()  # perhaps: what woke us is looked for as soon as there is a place
            return ClaimResult()
        claimed = await self.claimer.claim(room, now, started)
        for letter in claimed.recovered:
            if letter.next_retry_at is not None:
                self.wake(letter.next_retry_at)
        self._ready.extend(claimed.leased)
        self._start_ready()
        # Letters that end faster than they can be claimed are claimed in larger portions, up to a bound.
        hungry = not self._ready and claimed.taken
        concurrency = self._context.limits.concurrency
        self._ahead = max(concurrency, min(self._ahead * 2, _MOST_AHEAD) if hungry else self._ahead)
        return claimed

    @property
    def _is_hungry(self) -> bool:
        """True if a place is free, or half of what may be held: claims are written many at a time."""
        free = not self._ready and len(self._runs) < self._context.limits.concurrency
        return free or len(self.leases) <= self._ahead // 2

    def _start_ready(self) -> None:
        concurrency = self._context.limits.concurrency
        while self._ready and len(self._runs) < concurrency and not self._stopping:
            run = asyncio.create_task(self._run(self._ready.popleft()))
            self._runs.add(run)
            run.add_done_callback(self._on_run_end)

    async def _run(self, leased: LeasedLetter) -> None:
        try:
            await self.attempts.run(leased)
        finally:
            self.leases.remove(leased)
            if leased.letter.recoveries:  # others like it may have to wait for this one
                self._awake.set()

    def _on_run_end(self, run: asyncio.Task[None]) -> None:
        self._runs.discard(run)
        if not run.cancelled() and (problem := run.exception()):
            log.error("an attempt stumbled: its lease will run out", exc_info=problem)
        self._start_ready()
        if self.claimer.due.has_more and self._is_hungry:
            self._awake.set()

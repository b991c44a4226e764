"""The retry processor: wakes when letters are due, fills its places with them, and stops without losing any.

It never waits for one letter in order to look after another: a hanging run takes one of the places, not the loop.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from mahavishnu.classify.assess import Assessor
from mahavishnu.engine.context import QueueContext, Workflow
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import wait_for
from mahavishnu.model.errors import IllegalMove, StoreError
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import new_token
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.lifecycle import MAX_RECOVERIES
from mahavishnu.model.query import AnyOf, Between, Missing, Not, Query, Sort, claim_order, letter_query
from mahavishnu.stores.base import Collection, Cursor
from mahavishnu.workers.attempt import AssessAttempt, AttemptRunner, Misfits, RunningAttempt
from mahavishnu.workers.leases import LeasedLetter, LeaseTable
from mahavishnu.workers.rules import Share, run_by

# --- finding due letters of one worker's share, and claiming them: many by one write

log = logging.getLogger(__name__)
_AT_ONCE = 2000  # due letters looked up at once
_OVERDUE_SECONDS = 10.0  # after which letters of other workers' shares are anybody's
_OVERDUE_AT_ONCE = 100  # of which so many are taken at once: their worker may live, and has found them too


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of one claim of several letters."""

    leased: Sequence[LeasedLetter] = ()
    recovered: Sequence[DeadLetter] = ()  # settled as failed, not taken: their leases had run out too often
    lost: int = 0  # letters that somebody else has taken or changed

    @property
    def taken(self) -> int:
        return len(self.leased) + len(self.recovered)


class _Claim(NamedTuple):
    """A letter as it is to be written, with the token of its lease."""

    letter: DeadLetter
    token: str
    circuit: str


class Claimer:
    """Claims due letters for one worker: of its `shares`, and of these `queues`, or of all."""

    def __init__(
        self,
        context: QueueContext,
        leases: LeaseTable,
        counts: Counter[str],
        shares: Callable[[], Sequence[Share]],
        queues: Sequence[str] = (),
    ) -> None:
        self.due = DueLetters(context.letters, shares, queues, context.part(Misfits))
        self._context, self._leases, self._counts = context, leases, counts

    async def claim(self, most: int, now: datetime, started: set[str]) -> ClaimResult:
        """Claim up to `most` letters that are due now, but none of `started`, to which their keys are added.

        Raises StoreError.
        """
        await self.due.fetch(now)
        claims = self._choose(most, now, started)
        while not claims and await self.due.fetch_further():
            claims = self._choose(most, now, started)
        if not claims:
            return ClaimResult()
        leased: list[LeasedLetter] = []
        recovered: list[DeadLetter] = []
        lost = 0
        results = await self._context.letters.write([claim.letter for claim in claims.values()])
        for (key, claim), result in zip(claims.items(), results, strict=True):
            if isinstance(result, DeadLetter):
                started.add(key)
                if result.lease is None:
                    recovered.append(result)
                    self._context.announce(EventName.RECOVERED, result)
                    if result.status is DeadLetterStatus.EXHAUSTED:
                        self._context.announce(EventName.EXHAUSTED, result)
                else:
                    leased.append(self._leases.add(result, claim.token, key, claim.circuit))
            elif result is None:
                lost += 1
            else:
                log.warning("a due letter could not be claimed: %s", result)
        self._counts["claimed"] += len(leased)
        if lost:  # somebody else is at it: the rest of what was found may be theirs by now
            self._counts["conflicts"] += lost
            self.due.clear()
        return ClaimResult(leased, recovered, lost)

    def _choose(self, most: int, now: datetime, started: set[str]) -> dict[str, _Claim]:
        """Return letters as they are once claimed, by key."""
        context, owner, backoffs = self._context, self._context.owner, self._context.backoffs
        claims: dict[str, _Claim] = {}
        while len(claims) < most and (letter := self.due.pop()) is not None:
            try:
                key, circuit = letter.key, letter.circuit
                if key in self._leases or key in claims or key in started:
                    continue
                if letter.lease is not None and context.may_be_running(letter, now):
                    continue
                token, until = new_token(), context.clock.now() + timedelta(seconds=context.limits.lease_seconds)
                letter = lifecycle.claim(letter, owner=owner, token=token, until=until, now=now, backoffs=backoffs)
                if self._is_safe(letter, claims):
                    claims[key] = _Claim(letter, token, circuit)
                else:
                    self.due.expect_more()  # until there is a place for it
            except IllegalMove:
                continue
            except Exception:  # the others are run all the same
                log.exception("letter %r cannot be claimed and is left alone", letter.task_id)
        return claims

    def _is_safe(self, claim: DeadLetter, claims: dict[str, _Claim]) -> bool:
        """Return whether a letter whose last owner died may be taken now.

        It may have killed its owner, or only have been waiting there. So it is not claimed before it can run, and at
        its last chance it runs with no other like it: only the one that kills is counted as failed.
        """
        if not claim.recoveries or claim.lease is None:
            return True
        held = [each.letter for each in (*claims.values(), *self._leases)]
        if claim.recoveries >= MAX_RECOVERIES - 1 and any(each.recoveries >= MAX_RECOVERIES - 1 for each in held):
            return False
        return len(held) < self._context.limits.concurrency


class DueLetters:
    """Finds due letters, many at a time, and hands them out one by one."""

    def __init__(
        self,
        collection: Collection[DeadLetter],
        shares: Callable[[], Sequence[Share]],
        queues: Sequence[str] = (),
        misfits: Container[DeadLetter] = (),
    ) -> None:
        self._letters, self._misfits = collection, misfits
        self._shares = shares
        self._queues = queues or None
        self._found: deque[DeadLetter] = deque()
        self._was_all = False
        self._lookups = 0
        self._further: deque[_Look] = deque()  # where the last look goes on

    @property
    def has_more(self) -> bool:
        """True if the last look at the queue found more than was handed out since."""
        return bool(self._found) or not self._was_all

    async def fetch(self, now: datetime) -> None:
        """Look at the queue, unless something is left of the last look. Raises StoreError."""
        if not self._found:
            self._found.extend(await self._due(now))

    async def fetch_further(self) -> bool:
        """Go on with the last look, because nothing that it found can be claimed now. False at its end.

        Raises StoreError.
        """
        while not self._found and self._further:
            look = self._further.popleft()
            self._was_all = not self._further
            self._found.extend(await self._find(look))
        return bool(self._found)

    def pop(self) -> DeadLetter | None:
        """Return one of the letters that were found; None when they are used up."""
        return self._found.popleft() if self._found else None

    def expect_more(self) -> None:
        """Note that a letter that was handed out is still due: the next look will find it."""
        self._was_all = False

    def clear(self) -> None:
        """Forget what was found, because it is no longer true: the next look begins anew."""
        self._found.clear()
        self._was_all = False
        self._further.clear()

    async def _due(self, now: datetime) -> Sequence[DeadLetter]:
        self._lookups += 1
        self._further.clear()
        self._was_all = True
        sort = claim_order(self._lookups)
        shares = self._shares()
        found: list[DeadLetter] = []
        for share in shares:
            mine = share.partitions[0] if len(share.partitions) > 1 else None
            found += await self._find(self._look(share, now, sort, _AT_ONCE, mine))
        if len(shares) > 1:
            found.sort(key=lambda letter: (-letter.priority if len(sort) > 1 else 0, letter.due_at))
        others = [(share, partitions) for share in shares for partitions in share.partitions[1:]]
        if not others:
            return found
        # A worker that has nothing to do helps with what others have left lying: they may be gone.
        overdue = now - timedelta(seconds=_OVERDUE_SECONDS)
        while not found and others:
            share, partitions = others.pop(0)
            found += await self._find(self._look(share, overdue, sort, _OVERDUE_AT_ONCE, partitions))
        self._was_all = not found  # otherwise there may be more in other shares
        return found

    def _look(self, share: Share, due: datetime, sort: tuple[Sort, ...], limit: int, partitions: range | None) -> _Look:
        where = () if share.adapters is None else run_by(share.adapters)
        if partitions is not None:  # what did not fit its worker is for all of them
            mine = Between("partition", at_least=partitions.start, below=partitions.stop)
            where = (AnyOf((mine, Not(Missing("unfit")))), *where)
        query = letter_query(due=due, queue=self._queues, sort=sort, limit=limit)
        return _Look(share, replace(query, where=(*query.where, *where)))

    async def _find(self, look: _Look) -> Sequence[DeadLetter]:
        page = await self._letters.find(look.query, look.after)
        if page.next is not None:
            self._further.append(look._replace(after=page.next))
        if len(page.items) >= look.query.limit:
            self._was_all = False
        for problem in page.corrupt:
            log.error("a due letter cannot be read and is left alone: %s", problem)
        adapters = look.share.adapters
        return [  # misfits neither: who finds nothing else has time to help others
            each for each in page.items if (adapters is None or each.adapter in adapters) and each not in self._misfits
        ]


class _Look(NamedTuple):
    """A page of due letters that is to be read."""

    share: Share
    query: Query
    after: Cursor | None = None


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
        self.leases.hurry()
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
                    if not due.has_more and not self.is_running:  # in the background it looks at other times, too
                        return len(started)
            except StoreError:
                while self._runs and not self.is_running:  # what has begun is not left alone: its lease depends on this
                    await asyncio.wait(self._runs)
                raise

    async def run_claimed(self, claimed: DeadLetter, token: str) -> RunningAttempt:
        """Run a letter that the caller has claimed, and settle it."""
        leased = self.leases.add(claimed, token, claimed.key, claimed.circuit)
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

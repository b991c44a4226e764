"""The retry processor: wakes when letters are due, fills its places with them, and stops without losing any.

It never waits for one letter in order to look after another: a hanging run takes one of the places, not the loop.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
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
from mahavishnu.model.record import Value
from mahavishnu.stores.kind import is_uncertain
from mahavishnu.workers.attempt import AssessAttempt, AttemptRunner, Misfits, RunningAttempt
from mahavishnu.workers.background import DueLetters
from mahavishnu.workers.leases import LeasedLetter, LeaseTable, LimitGate
from mahavishnu.workers.rules import Share, Turns, reserved_places

# --- claiming due letters: many by one write

log = logging.getLogger(__name__)
_NEWS_SECONDS = 1.0  # between such looks
_NEWS_INTERVALS = 10  # for which dates are known ahead
_PROBE_SECONDS = 1.0  # after which another letter probes, if a probe was not run


class ClaimResult(Value, frozen=True):
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
        queues: Sequence[str],
        gate: LimitGate,
    ) -> None:
        self.due = DueLetters(context.letters, shares, queues, context.part(Misfits))
        self.gate = gate
        self._context, self._leases, self._counts = context, leases, counts

    async def claim(
        self, most: int, now: datetime, started: set[str], without: Collection[str] = frozenset()
    ) -> ClaimResult:
        """Claim up to `most` letters that are due now, in turns by adapter, but none of adapters `without`.

        Also none of `started`, to which the keys are added. Raises StoreError.
        """
        breakers, probes = self._context.breakers, frozenset[str]()
        if breakers.not_closed:
            probes = breakers.probes_wanted(self._context.clock.monotonic())
        barred = breakers.not_closed - probes
        if self.gate.limits:
            barred |= self.gate.find_shut(self._context.owner, self._count_held())
        await self.due.fetch(now, most, barred, probes)
        shut = {*barred, *without}  # grows: a circuit has one probe, and a limit is reached
        claims: dict[str, _Claim] = {}
        while not claims:
            allowed = await self._take_places(most, shut) if self.gate.limits else {}
            claims = self._choose(most, now, started, shut, allowed)
            if not claims and not (most > 0 and await self.due.fetch_further(shut)):
                return ClaimResult()
        leased: list[LeasedLetter] = []
        recovered: list[DeadLetter] = []
        lost = 0
        try:
            results = await self._context.letters.write([claim.letter for claim in claims.values()])
        except BaseException:
            self._release(claims.values())
            raise
        for (key, claim), result in zip(claims.items(), results, strict=True):
            if isinstance(result, DeadLetter) and result.lease is not None:
                started.add(key)
                leased.append(self._leases.add(result, claim.token, key, claim.circuit))
                continue
            self._release([claim])
            if isinstance(result, DeadLetter):
                started.add(key)
                recovered.append(result)
                self._context.announce(EventName.RECOVERED, result)
                if result.status is DeadLetterStatus.EXHAUSTED:
                    self._context.announce(EventName.EXHAUSTED, result)
            elif result is None:
                lost += 1
            else:
                log.warning("a due letter could not be claimed: %s", result)
        self._counts["claimed"] += len(leased)
        if lost:  # somebody else is at it: the rest of what was found may be theirs by now
            self._counts["conflicts"] += lost
            self.due.clear()
        return ClaimResult(leased, recovered, lost)

    def sort_new(self, letters: Iterable[DeadLetter]) -> Turns[DeadLetter]:
        """Return new letters that may be run without a look at the store. None while others wait, which come first."""
        context, now, turns = self._context, self._context.clock.now(), Turns[DeadLetter]()
        if self.due.has_more or not self.gate.is_fresh(now):
            return turns
        barred = context.breakers.not_closed | self.gate.limits.keys()
        for letter in self.due.takes(letters):
            is_due = letter.due_at is not None and letter.due_at <= now and not letter.depends_on
            is_free = letter.circuit not in barred and letter.key not in self._leases
            if is_due and is_free and letter.namespace == context.namespace:
                turns.add(letter.circuit, letter)
        return turns

    def claim_one(self, letter: DeadLetter, now: datetime) -> _Claim:
        """Return the letter as it is once claimed."""
        context, token = self._context, new_token()
        until = context.clock.now() + timedelta(seconds=context.limits.lease_seconds)
        claimed = lifecycle.claim(
            letter, owner=context.owner, token=token, until=until, now=now, backoffs=context.backoffs
        )
        return _Claim(claimed, token, letter.circuit)

    async def keep_places(self) -> None:
        """Say how many letters of limited adapters are held here. Raises StoreError."""
        if self.gate.limits:
            await self._take_places(0, set())

    async def _take_places(self, most: int, shut: set[str]) -> dict[str, int]:
        """Return how many letters of limited adapters may be claimed; adapters at their limit join `shut`."""
        wait = {
            leased.circuit for leased in self._leases if leased.running is None
        }  # runs of a rate start when claimed
        wanted = {
            name: 0 if limit.rate is not None and name in wait else min(self.due.count(name), most)
            for name, limit in self.gate.limits.items()
            if name not in shut
        }
        until = self._context.clock.now() + timedelta(seconds=self._context.limits.lease_seconds)
        allowed = await self.gate.take(self._context.owner, wanted, self._count_held(), until)
        shut |= {name for name in wanted if not allowed.get(name)}
        return allowed

    def _count_held(self) -> Counter[str]:
        return Counter(leased.circuit for leased in self._leases if leased.circuit in self.gate.limits)

    def _choose(
        self, most: int, now: datetime, started: set[str], shut: set[str], allowed: dict[str, int]
    ) -> dict[str, _Claim]:
        """Return letters as they are once claimed, by key. Adapters of which no more can be claimed join `shut`.

        Of limited adapters so many are `allowed`.
        """
        context, breakers = self._context, self._context.breakers
        claims: dict[str, _Claim] = {}
        while len(claims) < most and (letter := self.due.pop(shut)) is not None:
            try:
                key, circuit = letter.key, letter.circuit
                if key in self._leases or key in claims or key in started:
                    continue
                if letter.lease is not None and context.may_be_running(letter, now):
                    continue
                claim = self.claim_one(letter, now)
                if not self._is_safe(claim.letter, claims):
                    self.due.expect_more()  # until there is a place for it
                    continue
                if circuit in breakers.not_closed:
                    shut.add(circuit)
                    if breakers.acquire(circuit, context.clock.monotonic(), claim.token) is not None:
                        continue
                claims[key] = claim
                if circuit in allowed:
                    allowed[circuit] -= 1
                    if not allowed[circuit]:
                        shut.add(circuit)
            except IllegalMove:
                continue
            except Exception:  # the others are run all the same
                log.exception("letter %r cannot be claimed and is left alone", letter.task_id)
        return claims

    def _release(self, claims: Iterable[_Claim]) -> None:
        """Let other letters probe what these were to probe: they were not claimed."""
        for claim in claims:
            if claim.circuit in self._context.breakers.not_closed:
                self._context.breakers.release(claim.circuit, claim.token)

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


_MOST_AHEAD = 2000  # letters claimed before there is a place to run them
_MOST_UNWRITTEN = 20  # times the concurrency: runs whose outcomes are on their way; a kill may have them run again
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
        gate: LimitGate | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.leases = LeaseTable(context, self.counts)
        self.claimer = Claimer(context, self.leases, self.counts, shares, queues, gate or context.part(LimitGate))
        self.leases.on_renewal, self.leases.on_written = self.claimer.keep_places, self._end
        assess = assess or Assessor(context.chain).assess_attempt
        self.attempts = AttemptRunner(context, self.leases, callback, assess, self.counts, self.wake)
        self._context, self._clock = context, context.clock
        self._ready: Turns[LeasedLetter] = Turns()
        self._runs: dict[asyncio.Task[None], str] = {}  # and the adapter of each
        self._taking: dict[str, _Claim] = {}  # new letters that are being written as claimed, by key
        self._ahead = context.limits.concurrency
        self._seen = (0, 0)  # how many had succeeded, and met an open circuit, at the last claim
        self._awake, self._ended = asyncio.Event(), asyncio.Event()
        self._claiming = asyncio.Lock()
        self._home = copy_context()  # not that of the caller whose failure is run again
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
        while self._taking:
            await self._next_end()
        await asyncio.gather(*(self.leases.give_back(leased) for leased in self._ready.take_all()))
        if self._runs:
            grace = asyncio.create_task(self._clock.sleep(self._context.limits.grace_seconds))
            ended = asyncio.create_task(asyncio.wait(self._runs))
            await asyncio.wait({grace, ended}, return_when=asyncio.FIRST_COMPLETED)
            grace.cancel()
            for leased in self.leases:
                leased.stopped = not leased.by_hand
            for run in list(self._runs):
                run.cancel()
            await asyncio.gather(ended, *self._runs, return_exceptions=True)
        await self.leases.stop()  # last: what was running until now had to keep its lease
        with suppress(StoreError):  # or else the places are free when the leases end
            await self.claimer.keep_places()

    async def cycle(self) -> int:
        """Run everything that is due now and wait for it: one round, for tests and for `--once`. Returns how many."""
        until = self._clock.now()
        started: set[str] = set()  # what fails and is due again at once is for the next round
        due = self.claimer.due
        async with self.leases.renewing():
            try:
                while True:
                    taken = await self._fill(until, started)
                    if not taken and not self._is_working:
                        return len(started)
                    if due.has_more:
                        await self._next_end()
                    while self._is_working and not due.has_more:  # there is nothing to claim before these are over
                        await self._next_end()
                    if not due.has_more and not self.is_running:  # in the background it looks at other times, too
                        return len(started)
            except StoreError:
                while self._is_working and not self.is_running:  # what has begun is not left alone: its lease ends
                    await self._next_end()
                raise

    async def run_claimed(self, claimed: DeadLetter, token: str) -> RunningAttempt:
        """Run a letter that the caller has claimed, and settle it."""
        leased = self.leases.add(claimed, token, claimed.key, claimed.circuit)
        leased.by_hand = True
        try:
            async with self.leases.renewing():
                # In a task of its own, which can be cancelled: what the workflow does to that concerns no caller.
                running = asyncio.create_task(self.attempts.execute(leased))
                try:
                    return await asyncio.shield(running)
                finally:
                    leased.stopped = running.cancel()
                    await asyncio.wait({running})
        finally:
            self.leases.remove(leased)

    # --- new letters that are written as claimed

    def is_taking(self, letter: DeadLetter) -> bool:
        """Return True if a new letter need not be looked for: it is being claimed as it is stored."""
        return letter.key in self._taking

    def claim_new(self, letters: Sequence[DeadLetter]) -> dict[str, DeadLetter]:
        """Claim new letters for which there is a place now: see `Taker`."""
        loops, limits, claimed = self._loops, self._context.limits, dict[str, DeadLetter]()
        if loops is None or loops.get_loop() is not asyncio.get_running_loop() or not limits.wakes:
            return claimed
        free = limits.concurrency - len(self._runs) - len(self._taking)
        if self._stopping or self._ready or free <= 0 or self.leases.unwritten >= _MOST_UNWRITTEN * limits.concurrency:
            return claimed
        reserved, new = reserved_places(limits.concurrency, self.claimer.due.adapters), self.claimer.sort_new(letters)
        now, busy = self._clock.now(), set[str]()
        while free > 0:
            if free <= reserved:
                busy = {*self._runs.values(), *(each.circuit for each in self._taking.values())}
            if (letter := new.pop(busy)) is None:
                break
            if letter.key not in self._taking:
                claim = self._taking[letter.key] = self.claimer.claim_one(letter, now)
                claimed[letter.entry_id] = claim.letter
                free -= 1
        return claimed

    def take_new(self, claimed: Mapping[str, DeadLetter], results: Sequence[object]) -> None:
        """Run those that were stored: see `Taker`."""
        stored = {each.entry_id: each for each in results if isinstance(each, DeadLetter) and not is_uncertain(each)}
        for entry_id, letter in claimed.items():
            claim = self._taking.pop(letter.key)
            if (new := stored.get(entry_id)) is not None:
                self._ready.add(claim.circuit, self.leases.add(new, claim.token, new.key, claim.circuit))
                self.counts["claimed"] += 1
            self._go_on(claim.circuit)

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
        """Wait for a reason to look again: a wake-up, a free place, a date, the interval, news in the store."""
        limits, began = self._context.limits, self._clock.monotonic()
        while not self._awake.is_set():
            while self._dates and self._dates[0] <= looked:
                heapq.heappop(self._dates)
            waits = [max((self._dates[0] - self._clock.now()).total_seconds(), 0.0)] if self._dates else []
            if limits.wakes and (probe := self._context.breakers.next_probe(self._clock.monotonic())) is not None:
                waits.append(probe)
            if (next_try := self.claimer.gate.next_try()) is not None:
                waits.append(next_try)
            if polls:
                waits.append(began + limits.interval_seconds - self._clock.monotonic())
            seconds = min(waits, default=None)
            if not polls or not limits.wakes or (seconds is not None and seconds <= _NEWS_SECONDS):
                await wait_for(self._awake, self._clock, seconds)
                return
            await wait_for(self._awake, self._clock, _NEWS_SECONDS)
            if self._awake.is_set() or self.claimer.due.has_more:  # work for one adapter hides none for another
                return
            with suppress(StoreError):  # the next look says so
                if await self.claimer.gate.read(self._clock.now()):
                    return
                until = self._clock.now() + timedelta(seconds=_NEWS_INTERVALS * limits.interval_seconds)
                for due_at in await self.claimer.due.read_news(looked - limits.skew, until):
                    self.wake(due_at)

    # --- fill the places

    async def _fill(self, now: datetime, started: set[str] | None = None) -> int:
        """Claim as many due letters as there is room for. Returns how many of them are running or will be.

        Letters in `started` are left out; claimed ones are added to it.
        """
        started = set() if started is None else started
        await self.claimer.gate.read(now)
        for _ in range(_LOST_IN_A_ROW):
            async with self._claiming:
                claimed = await self._claim(now, started)
            if claimed.taken or not claimed.lost:
                return claimed.taken
        return 0

    async def _claim(self, now: datetime, started: set[str]) -> ClaimResult:
        """Claim letters that were found, and start those that have a place."""
        concurrency = self._context.limits.concurrency
        room, without = self._ahead - self._held, frozenset[str]()
        if self._stopping:
            return ClaimResult()
        if room <= 0 or not self._is_hungry(concurrency):  # there may be a place for an adapter that has none
            self.claimer.due.expect_more()  # perhaps: what woke us is looked for as soon as there is a place
            if self.claimer.due.adapters < 2 and not self.claimer.due.may_have_others:
                return ClaimResult()
            room = concurrency - len(self._runs)
            without = frozenset(leased.circuit for leased in self.leases)
        claimed = await self.claimer.claim(room, now, started, without)
        for letter in claimed.recovered:
            if letter.next_retry_at is not None:
                self.wake(letter.next_retry_at)
        for leased in claimed.leased:
            self._ready.add(leased.circuit, leased)
        self._start_ready(concurrency)
        # Letters that succeed faster than they can be claimed are claimed in larger portions, up to a bound.
        before, self._seen = self._seen, (self.counts["succeeded"], self.counts["circuit_skipped"])
        hungry = not self._ready and claimed.taken and self._seen[0] > before[0]
        ahead = concurrency if self._seen[1] > before[1] else self._ahead * (2 if hungry else 1)
        self._ahead = max(concurrency, min(ahead, _MOST_AHEAD))
        return claimed

    def _is_hungry(self, concurrency: int) -> bool:
        """Return whether a place is free, or half of what may be held: claims are written many at a time."""
        free = not self._ready and len(self._runs) + len(self._taking) < concurrency - reserved_places(
            concurrency, self.claimer.due.adapters
        )
        return free or self._held <= self._ahead // 2

    @property
    def _held(self) -> int:
        """Number of letters that run, or wait for a place."""
        return len(self.leases) + len(self._taking) - self.leases.unwritten

    @property
    def _is_working(self) -> bool:
        return bool(self._runs or self._taking or self.leases.unwritten)

    async def _next_end(self) -> None:
        """Return when a run has ended, or the outcome of one is written, if there is any."""
        self._ended.clear()
        if self._is_working:
            await self._ended.wait()

    def _start_ready(self, concurrency: int) -> None:
        if not self._ready:
            return
        shared = concurrency - reserved_places(concurrency, self.claimer.due.adapters)
        while self._ready and len(self._runs) < concurrency and not self._stopping:
            if self.leases.unwritten >= _MOST_UNWRITTEN * concurrency:
                return
            busy = frozenset[str]() if len(self._runs) < shared else frozenset(self._runs.values())
            if (leased := self._ready.pop(busy)) is None:
                return
            run = asyncio.create_task(self._run(leased), context=self._home.copy() if self.is_running else None)
            self._runs[run] = leased.circuit
            run.add_done_callback(self._on_run_end)

    async def _run(self, leased: LeasedLetter) -> None:
        try:
            await self.attempts.run(leased)
        finally:
            if leased.outcome is None:
                self._end(leased)

    def _end(self, leased: LeasedLetter) -> None:
        """Forget a letter that was settled or given back, and look for what waited for that."""
        self.leases.remove(leased)
        if leased.circuit in self._context.breakers.not_closed:  # it may have been a probe that was not run
            self.wake(self._clock.now() + timedelta(seconds=_PROBE_SECONDS))
        if leased.letter.recoveries or leased.circuit in self.claimer.gate.limits:  # others may have to wait for it
            self._awake.set()
        self._go_on(leased.circuit)

    def _on_run_end(self, run: asyncio.Task[None]) -> None:
        adapter = self._runs.pop(run)
        if not run.cancelled() and (problem := run.exception()):
            log.error("an attempt stumbled: its lease will run out", exc_info=problem)
        self._go_on(adapter)

    def _go_on(self, adapter: str) -> None:
        """Use the place that a run, or an outcome that was to be written, has left."""
        self._ended.set()
        concurrency = self._context.limits.concurrency
        self._start_ready(concurrency)
        if self._awake.is_set() or not self.claimer.due.has_more:
            return
        if self._is_hungry(concurrency) or self._has_place_for(adapter):
            self._awake.set()

    def _has_place_for(self, adapter: str) -> bool:
        """Return whether letters of an adapter wait that has none here now."""
        return adapter in self.claimer.due and all(adapter != each.circuit for each in self.leases)

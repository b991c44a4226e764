"""The leases that one worker holds: renewed while their letters wait and run, ended by an outcome or given back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.engine.context import QueueContext
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import wait_for
from mahavishnu.model.errors import CannotRestore, LostLease, StoreError, StoreUnavailable
from mahavishnu.model.events import EventName, letter_fields, log_event
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.base import Collection, Result, get_one, write_one
from mahavishnu.stores.lease_watch import lease_seconds, must_renew

R = TypeVar("R")
Change = Callable[[DeadLetter], DeadLetter]
log = logging.getLogger(__name__)
_PATIENCE = 8  # tries to write something while the store is away


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
    lost: bool = False  # another worker owns the letter


@dataclass(slots=True)
class PendingOutcome:
    """The change that a run makes to its letter, on its way into the store, and the future that awaits it."""

    leased: LeasedLetter
    change: Change
    announce: Callable[[DeadLetter], object]  # called with the letter as it was written
    future: asyncio.Future[DeadLetter | None]
    context: Context


class LeaseTable:
    """The leased letters, by key. Outcomes that arrive together are written together."""

    def __init__(self, context: QueueContext, counts: Counter[str]) -> None:
        self._context, self._counts = context, counts
        self._letters, self._clock = context.letters, context.clock
        self._leased: dict[str, LeasedLetter] = {}
        self._writes: set[asyncio.Task[Any]] = set()
        self._outcomes = Batcher(self._write_outcomes)
        self._renewal: asyncio.Task[None] | None = None
        self._new_limits = asyncio.Event()
        self._stopping = False

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
        """Forget the lease: it has ended."""
        self._leased.pop(leased.key, None)

    def start(self) -> None:
        """Begin to renew the leases, and to keep outcomes until the store takes them."""
        self._stopping = False
        self._renewal = asyncio.create_task(self._renew_leases(), name="mahavishnu leases")

    def hurry(self) -> None:
        """Give outcomes up after some more tries: the worker stops."""
        self._stopping = True

    async def stop(self) -> None:
        """Finish all writes, and end the renewal of leases."""
        self.hurry()
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._outcomes.finish()
        if self._renewal is not None:
            self._renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewal
            self._renewal = None

    @contextlib.asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Renew leases meanwhile, even if `start` was never called."""
        renewal = asyncio.create_task(self._renew_leases()) if self._renewal is None else None
        try:
            yield
        finally:
            if renewal is not None:
                renewal.cancel()
                await asyncio.wait({renewal})

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
        letter. None if the outcome could not be written for that reason, or because the store stays away.
        """
        outcome = PendingOutcome(leased, change, announce, asyncio.get_running_loop().create_future(), copy_context())
        self._outcomes.add(outcome)
        return await outcome.future

    async def _write_outcomes(self, outcomes: Sequence[PendingOutcome]) -> None:
        """Write outcomes that arrived together at once, and one by one where that is not enough."""
        changed: list[tuple[PendingOutcome, DeadLetter]] = []
        for outcome in outcomes:
            try:
                changed.append((outcome, outcome.change(outcome.leased.letter)))
            except LostLease:
                outcome.context.run(self._refuse, outcome)
            except Exception as problem:
                if not outcome.future.done():
                    outcome.future.set_exception(problem)
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
            resolve(outcome.future, None)
        else:
            self._finish(outcome, letter) if letter is not None else self._refuse(outcome)

    def _patience(self, leased: LeasedLetter) -> Callable[[int], bool]:
        """Return a function that tells by the number of tries whether to give up an outcome."""
        while_working = 0

        def gives_up(tries: int) -> bool:
            nonlocal while_working
            if self._renewal is not None and not self._stopping:
                if tries == _PATIENCE:
                    log.warning("the outcome of letter %r waits until the store answers", leased.key)
                while_working = tries
            return tries - while_working > _PATIENCE

        return gives_up

    def _finish(self, outcome: PendingOutcome, letter: DeadLetter) -> None:
        outcome.announce(letter)
        resolve(outcome.future, letter)

    def _refuse(self, outcome: PendingOutcome) -> None:
        self.report_stale(outcome.leased)
        resolve(outcome.future, None)

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

    async def _renew_leases(self) -> None:
        """Renew each lease at half of its life, whether its letter is running or waits for a place."""
        wake = self._new_limits.set  # leases may be shorter from now on
        self._context.on_new_limits.add(wake)
        try:
            while True:
                self._new_limits.clear()
                shortest = min([self._context.limits.lease_seconds, *(lease_seconds(each.letter) for each in self)])
                await wait_for(self._new_limits, self._clock, shortest / 6)
                now = self._clock.monotonic()
                ending = [leased for leased in self if must_renew(leased.letter, leased.written, now)]
                for problem in await asyncio.gather(*map(self.renew, ending), return_exceptions=True):
                    if isinstance(problem, Exception):
                        log.error("a lease could not be renewed", exc_info=problem)
        finally:
            self._context.on_new_limits.discard(wake)

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

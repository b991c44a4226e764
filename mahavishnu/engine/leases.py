"""The leases that one worker holds: kept while their letters wait and run, and ended by an outcome or given back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from mahavishnu.engine import attempt as steps
from mahavishnu.engine.attempt import Outcome, write_through
from mahavishnu.engine.batching import Batcher, resolve
from mahavishnu.model import lifecycle
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import LostLease, StoreError, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.stores.base import Collection, Result

R = TypeVar("R")
log = logging.getLogger(__name__)
_PATIENCE = 8  # tries to write an outcome while the store is away


@dataclass(slots=True)
class LeasedLetter:
    """A letter on which this worker holds a lease."""

    letter: DeadLetter
    token: str
    running: asyncio.Task[Outcome] | None = None
    lost: bool = False


@dataclass(slots=True)
class PendingOutcome:
    """How a run ended, on its way into the store, and who waits for that."""

    held: LeasedLetter
    outcome: Outcome
    future: asyncio.Future[DeadLetter | None]
    context: Context


class Tell(Protocol):
    """Tells the listeners of something that was written."""

    def __call__(self, name: EventName, letter: DeadLetter, **detail: object) -> None: ...


class LeaseTable:
    """The letters held, by key."""

    def __init__(
        self,
        letters: Collection[DeadLetter],
        clock: Clock,
        lease_seconds: Callable[[], float],
        backoffs: Callable[[], BackoffRegistry],
        counts: Counter[str],
        tell: Tell,
    ) -> None:
        self._letters, self._clock, self._lease_seconds = letters, clock, lease_seconds
        self._backoffs, self._counts, self._tell = backoffs, counts, tell
        self._held: dict[str, LeasedLetter] = {}
        self._writes: set[asyncio.Task[Any]] = set()
        self._endings = Batcher(self._settle)
        self._keeping: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[LeasedLetter]:
        return iter(self._held.values())

    def add(self, letter: DeadLetter, token: str) -> LeasedLetter:
        """Hold a letter that was just claimed."""
        held = self._held[letter.key] = LeasedLetter(letter, token)
        return held

    def remove(self, held: LeasedLetter) -> None:
        """It is over."""
        self._held.pop(held.letter.key, None)

    def start(self) -> None:
        """Begin to renew the leases."""
        self._keeping = asyncio.create_task(self._renew_leases(), name="mahavishnu leases")

    async def stop(self) -> None:
        """Wait for what is being written, and renew nothing any more."""
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._endings.finish()
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None

    @contextlib.asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Meanwhile leases are renewed, also if that was never started."""
        keeper = asyncio.create_task(self._renew_leases()) if self._keeping is None else None
        try:
            yield
        finally:
            if keeper is not None:
                keeper.cancel()
                await asyncio.wait({keeper})

    def lease_end(self, now: datetime) -> datetime:
        """Until when a lease lasts that begins or is renewed now."""
        return now + timedelta(seconds=self._lease_seconds())

    async def shielded(self, write: Coroutine[Any, Any, R]) -> R:
        """Have it written, even if the run is cancelled meanwhile."""
        writing = asyncio.create_task(write)
        self._writes.add(writing)
        writing.add_done_callback(self._writes.discard)
        return await asyncio.shield(writing)

    async def settle(self, held: LeasedLetter, outcome: Outcome) -> DeadLetter | None:
        """Write the outcome, whoever gives up meanwhile. None if that cannot be done, or another owns the letter."""
        ending = PendingOutcome(held, outcome, asyncio.get_running_loop().create_future(), copy_context())
        self._endings.add(ending)
        return await ending.future

    async def _settle(self, endings: Sequence[PendingOutcome]) -> None:
        """Outcomes that came together, by one write; those that need more than that are seen to one by one."""
        wanted: list[tuple[PendingOutcome, DeadLetter]] = []
        for ending in endings:
            try:
                wanted.append((ending, self._settled(ending, ending.held.letter)))
            except LostLease:
                ending.context.run(self._refused, ending)
            except Exception as problem:
                if not ending.future.done():
                    ending.future.set_exception(problem)
        results: Sequence[Result[DeadLetter]]
        try:
            results = await self._letters.write([letter for _, letter in wanted]) if wanted else ()
        except StoreError as problem:
            results = [problem] * len(wanted)
        for (ending, letter), result in zip(wanted, results, strict=True):
            if isinstance(result, DeadLetter):
                ending.context.run(self._written, ending, result)
            else:
                self._endings.spawn(self._settle_alone(ending, letter, result), [ending], ending.context)

    def _settled(self, ending: PendingOutcome, current: DeadLetter) -> DeadLetter:
        return steps.settled(current, ending.held.token, ending.outcome, self._clock.now(), self._backoffs())

    async def _settle_alone(self, ending: PendingOutcome, wanted: DeadLetter, answer: StoreError | None) -> None:
        """Somebody has changed the letter, or the store has a problem: for as long as it takes."""
        held = ending.held
        try:
            if isinstance(answer, StoreUnavailable):
                await self._pause(1)
            letter = await write_through(
                self._letters, held.letter, partial(self._settled, ending), self._pause, _PATIENCE, wanted
            )
        except StoreError as problem:
            log.error(
                "the outcome of letter %r could not be written, it will be run again: %s", held.letter.key, problem
            )
            resolve(ending.future, None)
        else:
            self._written(ending, letter) if letter is not None else self._refused(ending)

    def _written(self, ending: PendingOutcome, letter: DeadLetter) -> None:
        success = ending.outcome.success
        self._tell(EventName.RETRY_SUCCEEDED if success else EventName.RETRY_FAILED, letter)
        if letter.status is DeadLetterStatus.EXHAUSTED and not success:
            self._tell(EventName.EXHAUSTED, letter)
        self._counts["succeeded" if success else "failed"] += 1
        resolve(ending.future, letter)

    def _refused(self, ending: PendingOutcome) -> None:
        self.refused(ending.held)
        resolve(ending.future, None)

    async def give_back(self, held: LeasedLetter, wait_seconds: float = 0.0, **why: object) -> None:
        """Release the letter: the attempt is refunded."""
        due = self._clock.now() + timedelta(seconds=wait_seconds)
        try:
            letter = await write_through(
                self._letters,
                held.letter,
                lambda current: lifecycle.release(current, token=held.token, now=self._clock.now(), due_at=due),
                self._pause,
                _PATIENCE,
            )
        except StoreError as problem:
            log.warning("letter %r could not be given back, its lease will run out: %s", held.letter.key, problem)
            return
        finally:
            self.remove(held)
        if letter is not None:
            self._tell(EventName.RELEASED, letter, **why)

    def refused(self, held: LeasedLetter) -> None:
        """The run's outcome does not count: somebody else owns the letter."""
        self._counts["stale_claims"] += 1
        log.warning("stale_claim: the outcome of letter %r was refused, it has another owner", held.letter.key)
        self._tell(EventName.STALE_CLAIM, held.letter)

    async def _pause(self, tries: int) -> None:
        """Between two tries to write while the store is away."""
        await self._clock.sleep(min(0.1 * 2**tries, 5.0))

    async def _renew_leases(self) -> None:
        """Renew each lease at half of its life, whether its letter is running or waits for a place."""
        while True:
            await self._clock.sleep(self._lease_seconds() / 6)
            horizon = self._clock.now() + timedelta(seconds=self._lease_seconds() / 2)
            ending = [held for held in self if held.letter.due_at and held.letter.due_at <= horizon]
            for held in ending:
                await self._renew(held)

    async def _renew(self, held: LeasedLetter) -> None:
        until = self.lease_end(self._clock.now())
        try:
            letter = await write_through(
                self._letters,
                held.letter,
                lambda current: lifecycle.renew(current, token=held.token, until=until, now=self._clock.now()),
                lambda tries: self._clock.sleep(0.1 * tries),
                1,
            )
        except StoreError as problem:
            log.warning("the lease on letter %r could not be renewed: %s", held.letter.key, problem)
            return
        if letter is not None:
            held.letter = letter
        elif held.letter.key in self:
            held.lost = True
            if held.running is not None:
                held.running.cancel()

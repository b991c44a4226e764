"""Background work beside the processor: periodic tasks, and the registry of live workers that share the letters.

A watch over the list of workers decides which of them live, so that no clock of another machine decides alone.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256

from mahavishnu.engine.context import QueueContext
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import StoreError
from mahavishnu.model.ids import DEFAULT_NAMESPACE, new_entry_id
from mahavishnu.model.letter_parts import Version
from mahavishnu.model.query import ALL_NAMESPACES, Query, Sort, written_namespace
from mahavishnu.stores.base import Collection, get_one, write_one
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import REMOTE_LIVES_SECONDS, Share, Worker, shares_of

log = logging.getLogger(__name__)
_MOST_WORKERS = 10_000
_LATEST_FIRST = Query(sort=(Sort("seen_at", descending=True),), limit=_MOST_WORKERS)
HEARTBEAT_SECONDS = 5.0
_FORGOTTEN = timedelta(days=1)
_REMOTE_LIVES = timedelta(seconds=REMOTE_LIVES_SECONDS)
_TRIES = 5


@dataclass(frozen=True, slots=True)
class WorkerSighting:
    """A sign of life: when it was first and last seen here, by the monotonic clock, and its predecessor was last."""

    seen_at: datetime
    version: Version | None
    since: float
    last: float
    former_at: float | None = None  # the sign was given after that


def next_sighting(worker: Worker, former: WorkerSighting | None, monotonic: float) -> WorkerSighting:
    """Return the sighting after one more look at the list, with the worker like this."""
    if former is None:
        return WorkerSighting(worker.seen_at, worker.version, monotonic, monotonic)
    if (former.seen_at, former.version) == (worker.seen_at, worker.version):
        return replace(former, last=monotonic)
    return WorkerSighting(worker.seen_at, worker.version, monotonic, monotonic, former.last)


def is_alive(
    worker: Worker, sighting: WorkerSighting, now: datetime, monotonic: float, *, mark: str, skew: timedelta
) -> bool | None:
    """Return whether the worker lives; None where that is unknown. `mark` is that of this machine's clock.

    On one clock the last sign of life decides. On another clock, a new sign proves life, and a sign that stays away for
    too long proves the end. The age of a sign that was seen once may be wrong by `skew`; one that lies further in the
    future proves nothing.
    """
    if worker.ended:
        return False
    if monotonic - sighting.since > worker.lives_seconds:
        return False
    if sighting.former_at is not None and monotonic - sighting.former_at <= worker.lives_seconds:
        return True
    age, lives = now - worker.seen_at, timedelta(seconds=worker.lives_seconds)
    if mark and worker.mark == mark:
        return age <= lives
    if age > lives + skew:
        return False if sighting.former_at is None else None
    return True if age >= -skew else None


class WorkerWatch:
    """Remembers since when this process has seen each worker's last sign of life on the list."""

    @classmethod
    def for_context(cls, context: QueueContext) -> WorkerWatch:
        """Return the watch over the workers of all namespaces of a queue's store."""
        return cls(context.store.collection(WORKERS), context.clock)

    def __init__(self, workers: Collection[Worker], clock: Clock) -> None:
        """Watch `workers`, which are those of all namespaces."""
        self._workers, self._clock = workers, clock
        self._sightings: dict[str, WorkerSighting] = {}
        self._listed: Sequence[Worker] = ()
        self._looked_at: float | None = None

    async def look(self, at_most_old: float = 0.0) -> Sequence[Worker] | None:
        """Return all workers on the list, alive or not; None while the whole list cannot be read.

        A list that was read less than `at_most_old` seconds ago is not read again. Raises StoreError.
        """
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < at_most_old:
            return self._listed
        try:
            page = await self._workers.find(_LATEST_FIRST)
        except StoreError:
            self._forget()
            raise
        if page.degraded:
            self._forget()
            return None
        now = self._clock.monotonic()
        self._sightings = {
            worker.key: next_sighting(worker, self._sightings.get(worker.key), now) for worker in page.items
        }
        self._listed, self._looked_at = page.items, now
        return page.items

    def is_alive(self, worker: Worker, skew: timedelta) -> bool | None:
        """Return whether this worker of the list lives; None where that is unknown."""
        now = self._clock.monotonic()
        sighting = self._sightings.get(worker.key) or next_sighting(worker, None, now)
        return is_alive(worker, sighting, self._clock.now(), now, mark=new_entry_id.mark, skew=skew)

    def _forget(self) -> None:
        """Begin anew: others may not have been able to sign a list that could not be read here."""
        self._sightings, self._listed, self._looked_at = {}, (), None


class WorkerRegistry:
    """Signs the list of live workers, and knows which letters this one looks after.

    `adapters` returns its current adapters, or None if its callback takes any letter. Errors cost conflicts, never
    correctness: every claim is a compare-and-set.
    """

    def __init__(
        self,
        workers: Collection[Worker],
        name: str,
        clock: Clock,
        adapters: Callable[[], Iterable[str] | None] = lambda: None,
        namespace: str = DEFAULT_NAMESPACE,
        watch: WorkerWatch | None = None,
        skew: Callable[[], timedelta] = timedelta,
    ) -> None:
        self.queues: tuple[str, ...] = ()  # whose letters this worker takes; empty: all
        self.known: Sequence[Worker] = ()  # those that lived at the last heartbeat
        self._workers, self._watch, self._skew = workers, watch or WorkerWatch(workers, clock), skew
        self._name, self._clock, self._namespace = name, clock, written_namespace(namespace)
        self._adapters = adapters
        self._started_at = clock.now()
        self._shared_with: tuple[str, ...] = (name,)

    @property
    def live(self) -> tuple[str, ...]:
        """The names of the live workers that share letters with this one, its own among them."""
        names = {self._name}
        for other in self.known:
            if any(len(share.partitions) > 1 for share in shares_of(self.me, [other])):
                names.add(other.name)
        return tuple(sorted(names))

    @property
    def me(self) -> Worker:
        """The record that this worker signs, now."""
        adapters = self._adapters()
        return Worker(
            self._name,
            self._started_at,
            self._clock.now(),
            queues=self.queues or None,
            adapters=None if adapters is None else tuple(sorted(adapters)),
            takes_all=True if adapters is None else None,
            host=socket.gethostname(),
            pid=os.getpid(),
            namespace=self._namespace,
            mark=new_entry_id.mark,
        )

    def shares(self) -> list[Share]:
        """Return the letters that this worker looks after."""
        return shares_of(self.me, self.known)

    async def heartbeat(self) -> None:
        """Record that this worker lives, and read the others. If the store is away the list stays as it was."""
        try:
            await self._sign(self.me)
            self.known = await self.read_live()
            if self.live != self._shared_with:
                self._shared_with = self.live
                log.info("%d workers share the letters: %s", len(self.live), ", ".join(self.live))
            await self._remove_gone()
        except StoreError as problem:
            log.debug("the list of workers is out of reach: %s", problem)

    async def sign_end(self) -> None:
        """Record that a process ran all due letters, once, and the time since the one before it. Raises StoreError.

        All such runs of one machine, for the same letters, are one line of the list.
        """
        me = self.me
        what = repr((me.namespace, me.queues, me.adapters))
        name = f"{me.host}-once-{sha256(what.encode()).hexdigest()[:6]}"
        before = await get_one(self._workers, name)
        every = (me.seen_at - before.seen_at).total_seconds() if before is not None else None
        if every is not None and every <= 0:  # the clock was set back
            every = None
        await self._sign(replace(me, name=name, ended=True, every=every))

    async def _remove_gone(self) -> None:
        """Remove workers of all namespaces whose last sign of life is long ago: a living one signs again."""
        limit = self._clock.now() - _FORGOTTEN
        listed = await self._watch.look(HEARTBEAT_SECONDS)
        gone = [each for each in listed or () if each.seen_at < limit and self._is_alive(each) is False]
        if gone:
            await self._workers.remove(gone)

    def _is_alive(self, worker: Worker) -> bool | None:
        return self._watch.is_alive(worker, self._skew())

    async def _sign(self, worker: Worker) -> None:
        current = await get_one(self._workers, worker.name)
        await write_one(self._workers, replace(worker, version=current.version if current else None))

    async def others(self) -> list[str]:
        """Return the names of the other live workers. Raises StoreError."""
        return [worker.name for worker in await self.read_live() if worker.name != self._name]

    async def read_live(self) -> Sequence[Worker]:
        """Return the workers of this namespace that live now, as far as is known, without remote ones.

        Raises StoreError.
        """
        listed = await self._watch.look()
        if listed is None:
            return self.known
        ours = [each for each in listed if self._namespace == ALL_NAMESPACES or each.namespace == self._namespace]
        return [each for each in ours if not each.ended and not each.remote and self._is_alive(each) is not False]

    async def deregister(self) -> None:
        """Remove this worker from the list, so that the others take over its share at their next heartbeat."""
        try:
            for _ in range(_TRIES):  # a heartbeat that was cancelled may still be written
                current = await get_one(self._workers, self._name)
                if current is None or (await self._workers.remove([current]))[0] is True:
                    return
        except StoreError as problem:
            log.debug("the list of workers is out of reach: %s", problem)


class RemoteWorkers:
    """Signs the list for workers that claim letters from elsewhere, at most as often as a worker does."""

    def __init__(self, workers: Collection[Worker], clock: Clock) -> None:
        self._workers, self._clock = workers, clock
        self._signed: dict[str, float] = {}

    async def note(self, name: str, namespace: str, queue: str | None, adapters: Iterable[str] | None) -> None:
        """Record that this worker lives, and which letters it claims. If the store is away the list stays as it was."""
        now = self._clock.monotonic()
        if now - self._signed.get(name, -HEARTBEAT_SECONDS) < HEARTBEAT_SECONDS:
            return
        if len(self._signed) >= _MOST_WORKERS:
            self._signed.clear()
        self._signed[name] = now
        asked = None if adapters is None else tuple(sorted(adapters))
        try:
            current = await get_one(self._workers, name)
            if current is not None and not current.remote:
                return  # a worker of this name signs for itself
            seen = self._clock.now()
            signed = Worker(
                name,
                current.started_at if current and seen - current.seen_at <= _REMOTE_LIVES else seen,
                seen,
                queues=None if queue is None else (queue,),
                adapters=asked,
                takes_all=True if asked is None else None,
                remote=True,
                namespace=written_namespace(namespace),
                mark=new_entry_id.mark,
                version=current.version if current else None,
            )
            await write_one(self._workers, signed)
        except StoreError as problem:
            log.debug("the list of workers is out of reach: %s", problem)

"""The registry of live workers, which share the letters, and the search for the due letters of one worker's share.

A watch over the list of workers decides which of them live, so that no clock of another machine decides alone.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from msgspec.structs import replace

from mahavishnu.engine.context import QueueContext
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import StoreError
from mahavishnu.model.ids import DEFAULT_NAMESPACE, new_entry_id
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import NO_ADAPTER
from mahavishnu.model.query import (
    ALL_NAMESPACES,
    AnyOf,
    Between,
    Condition,
    Missing,
    Not,
    Query,
    Sort,
    adapter_is,
    claim_order,
    letter_query,
    written_namespace,
)
from mahavishnu.model.record import Value, Version
from mahavishnu.stores.base import Collection, Cursor, get_one, write_one
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import REMOTE_LIVES_SECONDS, Share, Turns, Worker, run_by, shares_of

log = logging.getLogger(__name__)
_MOST_WORKERS = 10_000
_LATEST_FIRST = Query(sort=(Sort("seen_at", descending=True),), limit=_MOST_WORKERS)
HEARTBEAT_SECONDS = 5.0
_FORGOTTEN = timedelta(days=1)
_REMOTE_LIVES = timedelta(seconds=REMOTE_LIVES_SECONDS)
_TRIES = 5


class WorkerSighting(Value, frozen=True):
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
        """Return all listed workers, `at_most_old` seconds old; None if the list is not whole. Raises StoreError."""
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
    """Signs the list of live workers with current `adapters` (None: any), and knows this one's share of letters."""

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
        """Record that a process ran all due letters, once, in one line for its machine. Raises StoreError."""
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
        """Return the live workers of this namespace, as far as known, without remote ones. Raises StoreError."""
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


# --- the due letters of one worker's share

_AT_ONCE = 2000  # due letters looked up at once
_OVERDUE_SECONDS = 10.0  # after which letters of other workers' shares are anybody's
_OVERDUE_AT_ONCE = 100  # of which so many are taken at once: their worker may live, and has found them too
_AT_FIRST = 500  # at a worker's first look, unless it has places for more: it begins sooner
_OF_OTHERS = 500  # letters looked up of adapters that a full page hides
_ROUNDS = 20  # of such looks
_NEWS = 50  # letters looked up to learn of new ones
_PROBES = 20  # letters looked up for the probe of a circuit: not all of them can be claimed
_OTHERS_SECONDS = 1.0  # between looks for adapters of which nothing was found, while there is work for others
_KEPT_SECONDS = 30.0  # after which what was found is looked up anew


class DueLetters:
    """Finds due letters, many at a time, and hands them out one by one, in turns by adapter.

    A look whose page is full goes on without the adapters on it, so that much work for one hides none for another.
    """

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
        self._found: Turns[DeadLetter] = Turns()
        self._barred: AbstractSet[str] = frozenset()  # adapters whose letters cannot be claimed now
        self._was_all = False
        self._lookups = 0
        self._further: list[_Look] = []  # where the last look goes on
        self._began: datetime | None = None  # when the first of what was found was looked up
        self._looked: datetime | None = None  # the last look for other adapters than those found
        self._news: frozenset[object] = frozenset()
        self.adapters = 0  # how many are known to have letters run here
        self.may_have_others = True  # whether letters of further adapters may be found

    @property
    def has_more(self) -> bool:
        """True if the last look at the queue found more than was handed out since, and it can be claimed."""
        return self._has(self._barred) or not self._was_all

    async def fetch(self, now: datetime, most: int, barred: AbstractSet[str], probes: AbstractSet[str]) -> None:
        """Look at the queue, unless something is left of the last look; now and then also for other adapters.

        Up to `most` letters are to be claimed. Those of adapters in `barred` are left out, and few are looked up of
        those in `probes`. Raises StoreError.
        """
        self._barred = barred
        if self._began is not None and abs((now - self._began).total_seconds()) > _KEPT_SECONDS:
            self.clear()
        has_some = self._has(barred)
        others = self._looked is None or abs((now - self._looked).total_seconds()) >= _OTHERS_SECONDS
        if has_some and not others:
            return
        if others:
            self._looked = now
        if not has_some:
            self._lookups += 1
            self._further.clear()
            self._was_all = True
        if not self._found:
            self._began = now
        limit = _AT_ONCE if self._lookups > 1 else min(_AT_ONCE, max(_AT_FIRST, 4 * most))
        without, probed = {*barred, *probes, *self._found.names}, [each for each in probes if each not in self]
        await self._look_up(now, limit, without, probed, _ROUNDS if others else 1)

    async def fetch_further(self, shut: AbstractSet[str]) -> bool:
        """Go on with the last look, as nothing it found can be claimed now. False at its end. Raises StoreError."""
        while not self._has(shut):
            out = {*shut, *self._found.names}
            look = next((each for each in self._further if not each.names <= out), None)
            if look is None:
                return False
            self._further.remove(look)
            self._was_all = not self._further
            await self._find(look)
        return True

    def pop(self, shut: AbstractSet[str]) -> DeadLetter | None:
        """Return one of the letters that were found, of an adapter that is not in `shut`; None if there is none."""
        letter = self._found.pop(shut)
        if letter is not None and self._further and self._found and letter.circuit not in self:
            self._looked = None  # there may be more of this adapter
        return letter

    def count(self, name: str) -> int:
        """Return how many letters of this adapter were found and not handed out."""
        return self._found.count(name)

    def takes(self, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        """Return those of these letters that may be run here, in whichever partition they are."""
        shares = self._shares()
        ours = [each for each in letters if self._queues is None or each.queue in self._queues]
        return [each for each in ours if any(s.adapters is None or each.adapter in s.adapters for s in shares)]

    def expect_more(self) -> None:
        """Note that a letter that was handed out is still due: the next look will find it."""
        self._was_all = False

    def clear(self) -> None:
        """Forget what was found, because it is no longer true: the next look begins anew."""
        self._found.take_all()
        self._began = None
        self._was_all = False
        self._further.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._found.names

    def _has(self, shut: AbstractSet[str]) -> bool:
        return any(name not in shut for name in self._found.names) if shut else bool(self._found)

    async def _look_up(self, now: datetime, limit: int, without: set[str], probes: Sequence[str], rounds: int) -> None:
        sort = claim_order(self._lookups)
        shares = self._shares()
        self.may_have_others = any(share.adapters is None for share in shares)
        self.adapters = max(self.adapters, sum(len(share.adapters or ()) for share in shares))
        for share in shares:
            await self._find_all(share, now, sort, limit, share.own, without, rounds)
            for name in probes:  # of anybody's share: each process has circuits of its own
                if share.adapters is None or name in share.adapters:
                    await self._find(self._look(share, now, sort, _PROBES, None, adapter_is((name,))))
        others = [(share, partitions) for share in shares for partitions in share.partitions[1:]]
        if not others:
            return
        # A worker that has nothing to do helps with what others have left lying: they may be gone.
        overdue = now - timedelta(seconds=_OVERDUE_SECONDS)
        while not self._has(self._barred) and others:
            share, partitions = others.pop(0)
            await self._find_all(share, overdue, sort, _OVERDUE_AT_ONCE, partitions, without, rounds)
        self._was_all = not self._has(self._barred)  # otherwise there may be more in other shares

    async def _find_all(
        self,
        share: Share,
        due: datetime,
        sort: tuple[Sort, ...],
        limit: int,
        partitions: range | None,
        without: AbstractSet[str],
        rounds: int,
    ) -> None:
        """Find letters of a share: the first ones, then in further rounds those of adapters that were on no page."""
        hidden = set(without)
        for _ in range(rounds):
            if (which := _adapter_of(share, hidden)) is None:
                return
            names = await self._find(self._look(share, due, sort, limit, partitions, *which))
            if names <= hidden:
                return
            hidden |= names
            limit = min(limit, _OF_OTHERS)

    async def read_news(self, since: datetime, until: datetime) -> set[datetime]:
        """Return new dates up to `until` of letters written `since` by people or other processes. Raises StoreError."""
        found: dict[object, datetime] = {}
        for share in self._shares():
            if (which := _adapter_of(share, self._barred)) is not None:
                where = (*which, Between("updated_at", at_least=since))
                look = self._look(share, until, (Sort("due_at"),), _NEWS, share.own, *where)
                page = await self._letters.find(look.query)
                fitting = [each for each in page.items if each not in self._misfits]
                found |= {(each.key, each.version): each.due_at for each in fitting if each.due_at is not None}
        new, self._news = found.keys() - self._news, frozenset(found)
        return {found[each] for each in new}

    def _look(
        self,
        share: Share,
        due: datetime,
        sort: tuple[Sort, ...],
        limit: int,
        partitions: range | None,
        *which: Condition,
    ) -> _Look:
        query = letter_query(due=due, queue=self._queues, sort=sort, limit=limit)
        if partitions is not None:  # what did not fit its worker is for all of them
            mine = Between("partition", at_least=partitions.start, below=partitions.stop)
            query = replace(query, where=(*query.where, AnyOf((mine, Not(Missing("unfit"))))))
        return _Look(share, replace(query, where=(*query.where, *which)))

    async def _find(self, look: _Look) -> frozenset[str]:
        """Add what a look finds. Return the adapters on its page if it was full, else nothing."""
        page = await self._letters.find(look.query, look.after)
        for problem in page.corrupt:
            log.error("a due letter cannot be read and is left alone: %s", problem)
        adapters = look.share.adapters
        for each in page.items:  # no misfits: who finds nothing else has time to help others
            if (adapters is None or each.adapter in adapters) and each not in self._misfits:
                self._found.add(each.adapter or NO_ADAPTER, each)
        self.adapters = max(self.adapters, len(self._found.names))
        if page.next is None and len(page.items) < look.query.limit:
            return frozenset()
        self._was_all = False
        names = frozenset({each.adapter or NO_ADAPTER for each in page.items})
        if page.next is not None:
            self._further.append(look._replace(after=page.next, names=names))
        return names


def _adapter_of(share: Share, hidden: AbstractSet[str]) -> tuple[Condition, ...] | None:
    """Return the conditions that a letter is of an adapter of the share that is not `hidden`; None if there is none."""
    if share.adapters is None:
        return (Not(adapter_is(sorted(hidden))),) if hidden else ()
    names = [name for name in share.adapters if name not in hidden] if hidden else share.adapters
    return run_by(names) if names else None


class _Look(NamedTuple):
    """A page of due letters that is to be read; `names` are the adapters on the page before."""

    share: Share
    query: Query
    after: Cursor | None = None
    names: frozenset[str] = frozenset()

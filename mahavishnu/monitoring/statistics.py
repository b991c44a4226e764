"""The queue in numbers, when they are a reason to worry, and numbers by hour for charts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mahavishnu.letters.ledger import Ledger
from mahavishnu.letters.reads import GROUPS, count_letters, statistics
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import InvalidInput, StoreError, StoreUnavailable
from mahavishnu.model.letter_parts import NO_ADAPTER, DeadLetterStatus, RequeueOutcome
from mahavishnu.model.query import Condition, Is, Not, Query, Sort
from mahavishnu.model.record import Value
from mahavishnu.stores.base import Buckets, Collection, Health, Histogram, finds_are_current, home_of, is_home_away
from mahavishnu.stores.kinds import LOCAL_STORES, LocalStore
from mahavishnu.workers.rules import what_fits, what_is_missing

if TYPE_CHECKING:
    from mahavishnu.engine.context import QueueContext
    from mahavishnu.workers.processor import Processor
    from mahavishnu.workers.service import Workers


FULL_PERCENT = 80
MANY_EXHAUSTED = 100
_MOST_ADAPTERS = 5  # that are named, each in a line
_BY_AGE = Query(sort=(Sort("seen_at"),), limit=1000)
LOW_SUCCESS, ENOUGH_RETRIES = 0.5, 20  # of a few retries the rate says nothing


async def queue_statistics(
    context: QueueContext, ledger: Ledger, processor: Processor | None, workers: Workers
) -> dict[str, Any]:
    """Return `get_statistics`: this process's part for its own namespace only, and a scoped reader's part."""
    tally, summed = await count_letters(context.letters.counted, ledger)
    some_unfit = any(cell.count and values[GROUPS.index("unfit")] is not None for values, cell in tally.cells.items())
    lacking = await workers.numbers(some_unfit=some_unfit)
    health, in_part = await store_health(context), not context.sees_whole_namespace
    at_home = context.is_at_home and not in_part
    max_size = context.capacities.max_size if at_home else None  # that of another app is not known here
    whole_store = context.scope is None
    stores = await local_stores(context) if whole_store else ()
    here = context.counts if at_home else dict.fromkeys(context.counts, 0)
    return {
        "namespace": context.namespace,
        **statistics(tally, max_size, None if in_part else summed, here),
        "is_processor_running": processor is not None and processor.is_running,
        "retry_interval_seconds": context.limits.interval_seconds,
        "circuit_breakers": _circuits(context) if at_home else {},
        "processor": dict(processor.counts) if processor and whole_store else {},
        "waiting": None if in_part else await context.waiting.count(),
        "storage_mode": health.status,
        "storage": {
            "detail": health.detail if whole_store else "",
            "kept_locally": health.waiting if whole_store else None,
            "oldest": health.oldest if whole_store else None,
        },
        "local_stores": [each.to_dict() for each in stores],
        "degraded": tally.degraded,
        **lacking,
    }


def _circuits(context: QueueContext) -> dict[str, Any]:
    """Return the circuits of this process, of adapters that the reader sees."""
    report, scope = context.breakers.report(context.clock.monotonic()), context.scope
    return {name: each for name, each in report.items() if scope is None or name in (scope.adapters or ())}


async def store_health(context: QueueContext) -> Health:
    """Return the store's health: degraded also while failures of this namespace are outside of it. Never raises."""
    try:
        await context.open()
    except StoreError as problem:
        health = Health("down", str(problem))
    else:
        health = await context.store.health()
    waiting, files = context.waiting, context.waiting.files
    places = (
        (len(waiting.own_in_memory()), "in this process's memory only, because the store could not take them"),
        (len(waiting.own_files()), "in files beside the store, because the store could not take them"),
        (len(files.unreadable()), f"in files in {files.folder} that cannot be read: look there"),
    )
    problems = [f"{count} failures are {where}" for count, where in places if count]
    if not problems:
        return health
    status = "degraded" if health.status == "ok" else health.status
    return replace(health, status=status, detail="; ".join(filter(None, [*problems, health.detail])))


# --- local stores of all processes, as they have registered them: see ADR 0072


class LocalStoreReport(Value, frozen=True):
    """A registered local store. Of a `stale` one the process has died, or does not reach the store.

    Its `state` is `live`; `left` if it is stale and keeps records; `unseen` if it is stale and kept none when it was
    seen last, as of a process that was killed: it may have kept some since.
    """

    store: LocalStore
    stale: bool

    @property
    def state(self) -> str:
        return "live" if not self.stale else "left" if self.store.kept else "unseen"

    @property
    def needs_look(self) -> bool:
        """True if it keeps something, or may keep more than it was able to register."""
        return self.stale or self.store.kept > 0

    def describe(self) -> str:
        """Return where it is, what it keeps, and how that comes home."""
        store = self.store
        where, drain = f"{store.host}: {store.place}", f"run `mahavishnu dlq drain {store.place}` on {store.host}"
        if not Path(store.place).is_absolute():
            drain = "they are lost if that process has ended"
        if store.kept:
            from mahavishnu.stores.fallback.store import KeptLocally  # rare, and lists start without it

            kept = KeptLocally(store.kept, store.letters).describe()
            seen = f" (last seen {instant_text(store.seen_at)}): {drain}" if self.stale else f", process {store.pid}"
            return f"{kept} still in a local store on {where}{seen}"
        last = instant_text(store.seen_at)
        return f"process {store.pid} was last seen {last}, and may have kept letters on {where}: {drain}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        store = self.store
        return {
            "name": store.key,
            "what": self.describe(),
            "needs_look": self.needs_look,
            "host": store.host,
            "pid": store.pid,
            "place": store.place,
            "seen_at": instant_text(store.seen_at),
            "state": self.state,
            "kept": store.kept,
            "letters": store.letters,
            "oldest": store.oldest and instant_text(store.oldest),
        }


class LocalStoreList(list[LocalStoreReport]):
    """Local stores of all processes; `degraded` explains why some may be missing, and is None for the whole truth."""

    degraded: str | None = None


async def local_stores(context: QueueContext) -> LocalStoreList:
    """Return the registered local stores, those that were seen longest ago first. Never raises a StoreError."""
    found, now = LocalStoreList(), context.clock.now() - context.limits.skew
    home = home_of(context.store)
    if home is context.store and finds_are_current(home):  # the file of one machine, which has no local store beside it
        return found
    try:
        if is_home_away(context.store):
            raise StoreUnavailable("the store is away")
        page = await home.collection(LOCAL_STORES).find(_BY_AGE)
    except StoreError as problem:
        found.degraded = f"which local stores there are is not known: {problem}"
    else:
        found += [LocalStoreReport(each, each.is_stale(now)) for each in page.items]
    return found


def warnings(stats: Mapping[str, Any]) -> list[str]:
    """Return what a person should look at, in the documented words, the most important first; empty if all is well."""
    found = []
    if degraded := stats.get("degraded"):
        found.append(f"WARNING: DLQ is degraded: {degraded}")
    found += [f"WARNING: {each['what']}" for each in stats.get("local_stores") or () if each["state"] == "left"]
    full = stats["utilization_percent"]
    if full is not None and full > 100:
        over = f"{stats['queue_size']:,} of {stats['max_size']:,} open letters"
        found.append(
            f"WARNING: DLQ is {full}% full: {over}. What was kept locally comes home whatever dlq_max_size says; "
            "new failures wait for room"
        )
    elif full is not None and full > FULL_PERCENT:
        found.append(f"WARNING: DLQ is {full}% full!")
    if waiting := stats.get("waiting"):
        found.append(f"WARNING: {waiting} failures wait for room in the DLQ!")
    found += _without_worker(stats.get("due_without_worker") or {}, stats.get("live_workers"))
    if doubtful := sum((stats.get("due_in_doubt") or {}).values()):
        found.append(
            f"WARNING: {_letters(doubtful)} due, and whether a worker lives that can run them cannot be told: its last "
            "sign of life is dated by another clock (mahavishnu worker list)"
        )
    for each in (stats.get("due_unfit") or ())[:_MOST_ADAPTERS]:
        adapter = None if each["adapter"] == NO_ADAPTER else each["adapter"]
        found.append(f"WARNING: {_letters(each['count'])} due and {what_fits(adapter, each['why'])}")
    exhausted = stats["status_breakdown"]["exhausted"]
    if exhausted > MANY_EXHAUSTED:
        found.append(f"WARNING: {exhausted} exhausted tasks in DLQ!")
    succeeded, failed = (stats["lifetime_stats"].get(name, 0) for name in ("retry_success", "retry_failed"))
    retries = succeeded + failed
    if retries >= ENOUGH_RETRIES and succeeded / retries < LOW_SUCCESS:
        found.append(f"WARNING: Low retry success rate: {succeeded / retries:.1%}")
    return found


def _without_worker(due: Mapping[str, int], live_workers: int | None) -> list[str]:
    """Warn of due letters that no live worker can run."""
    count = sum(due.values())
    if count and not live_workers:
        return [f"WARNING: {_letters(count)} due, and no worker lives to run them: mahavishnu worker --app MODULE:NAME"]
    lines = [
        f"WARNING: {_letters(number)} due and {what_is_missing(None if name == NO_ADAPTER else name)}"
        for name, number in due.items()
    ]
    if len(lines) > _MOST_ADAPTERS:
        more = sum(list(due.values())[_MOST_ADAPTERS:])
        lines[_MOST_ADAPTERS:] = [f"WARNING: {_letters(more)} due and waiting for workers that have other adapters"]
    return lines


def _letters(count: int) -> str:
    return "1 letter is" if count == 1 else f"{count} letters are"


# --- numbers by hour

HOURS, MOST_HOURS = 24, 72
_HOUR = timedelta(hours=1)
_KEPT = timedelta(seconds=30)  # so long the same numbers are shown again
FAILED_AGAIN: tuple[Condition, ...] = (
    Not(Is("status", (DeadLetterStatus.COMPLETED.value, DeadLetterStatus.RETRYING.value))),
    Not(Is("requeue_outcome", (RequeueOutcome.IN_FLIGHT.value,))),  # sent back: no run has ended since
)
NOT_KNOWN = (
    "a letter counts once in each column: failed again in the hour in which its latest retry began, exhausted in that "
    "in which its retries were used up last; what happened to it before that, and is not so any more, is not counted",
    "letters that have left for the archive, and those deleted so long ago that they are in sums by day only, "
    "are in no hour",
)


class HourCounts(Value, frozen=True):
    """The numbers of one hour, which begins at `start`; the last one goes on."""

    start: datetime
    arrived: int
    completed: int
    failed_again: int
    exhausted: int


class Trend(Value, frozen=True):
    """Numbers by hour, the oldest first; `not_known` says what they omit, `degraded` why some may be missing now."""

    hours: tuple[HourCounts, ...]
    counted_at: datetime
    not_known: tuple[str, ...] = NOT_KNOWN
    degraded: str | None = None


class Trends:
    """Numbers by hour of one namespace, or of all."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context
        self._latest: dict[int, Trend] = {}

    async def by_hour(self, hours: int = HOURS) -> Trend:
        """Count letters that arrived, succeeded, failed again and were exhausted, in each of the last `hours` of UTC.

        The store counts; numbers of the last half minute are shown again. Raises InvalidInput and StoreError.

        >>> (await dlq.trends.by_hour()).hours[-1].arrived  # doctest: +SKIP
        12
        """
        if type(hours) is not int or not 1 <= hours <= MOST_HOURS:
            raise InvalidInput(f"hours must be a whole number from 1 to {MOST_HOURS}, not {hours!r:.80}")
        now = self._context.clock.now()
        latest = self._latest.get(hours)
        if latest is None or not timedelta() <= now - latest.counted_at < _KEPT:
            await self._context.open()
            latest = self._latest[hours] = await self._count(now, hours)
        return latest

    async def _count(self, now: datetime, hours: int) -> Trend:
        first = now.replace(minute=0, second=0, microsecond=0) - _HOUR * (hours - 1)
        letters, history = self._context.letters, self._context.history

        async def count(kept: Collection[Any], field: str, where: tuple[Condition, ...] = ()) -> Histogram:
            return await kept.histogram(Query(where), Buckets(field, first, _HOUR, hours))

        # Tombstones too: that a letter came in stays true when it is deleted.
        arrived, former, completed, former_completed, failed_again, exhausted = counted = await asyncio.gather(
            count(letters.with_deleted, "created_at"),
            count(history, "created_at"),
            count(letters, "completed_at"),
            count(history, "completed_at"),
            count(letters, "last_retry_at", FAILED_AGAIN),
            count(letters, "exhausted_at"),
        )
        columns = (arrived.plus(former), completed.plus(former_completed), failed_again, exhausted)
        starts = [first + _HOUR * number for number in range(hours)]
        lines = zip(starts, *(each.counts for each in columns), strict=True)
        degraded = next((each.degraded for each in counted if each.degraded), None)
        return Trend(tuple(HourCounts(*line) for line in lines), now, degraded=degraded)

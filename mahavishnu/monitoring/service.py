"""The queue's numbers for monitoring: those of the store, those of this process, and their receivers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mahavishnu.archive.partitions import Partitions
from mahavishnu.archive.records import ArchivedLetter, ArchivedTask, PartitionState
from mahavishnu.engine.breaker import OTHER, CircuitState
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.event_bus import reporting_to
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.engine.telemetry import BY_COUNT, BY_LIFETIME, METRICS, ManagerTracing, MetricFamily, Reading
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.groups.records import GROUPS
from mahavishnu.groups.rules import CLOSED
from mahavishnu.model.errors import CorruptRecord, InvalidInput, StoreError
from mahavishnu.model.events import log_event
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter_parts import ErrorCategory, ResolutionStatus
from mahavishnu.model.query import Between, Is, Missing, Not, Query
from mahavishnu.model.record import Value
from mahavishnu.monitoring.statistics import LocalStoreList, local_stores
from mahavishnu.stores.base import Collection, Health, Tally, find_pages, get_one, home_of, is_home_away
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LOCAL_STORES, stored_kinds

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue

log = logging.getLogger(__name__)
_MOST = 50  # adapters or queues that have a line of their own
_STATES = ("ok", "degraded", "down")
_OPEN = Is("resolution_status", (ResolutionStatus.PENDING,))
_NEEDS_PERSON = Query((_OPEN, Missing("due_at")))
_REGRESSED = Query((Not(Missing("regressed_at")), Not(Is("state", tuple(CLOSED)))))
_NO_LETTERS: dict[str, int] = dict.fromkeys(map(str, ErrorCategory), 0)
_family = MetricFamily.of


_HEALTH_SECONDS = 300.0


class Telemetry:
    """The numbers of a queue's store and of this process; unknown numbers are left out, and no method raises."""

    @classmethod
    def for_queue(cls, queue: LetterQueue) -> Telemetry:
        """Return the numbers of a queue."""
        return cls(queue)

    def __init__(self, dlq: LetterQueue) -> None:
        self._dlq, self._context = dlq, dlq.context

    def register(self, registry: Any = None) -> Callable[[], None]:
        """Have a registry of prometheus_client tell the numbers of this process; the function returned ends that.

        Without `registry` it is the one that prometheus_client uses where none is named. Raises ImportError without
        prometheus_client (`pip install 'mahavishnu-dlq[telemetry]'`), ValueError where the names are there already.
        """
        self._context.audit.require_now("work")
        from prometheus_client import REGISTRY

        from mahavishnu.monitoring.exposition import ProcessCollector

        return ProcessCollector(self._count_here).register(REGISTRY if registry is None else registry)

    def report_to(self, manager: Any) -> None:
        """Report events and metrics to an observability manager, as far as it has the methods. Its errors are logged.

        `log_info` and `log_error` hear of each event, as `(message, attributes)`; `record_metric` of each change of a
        counter and each value of a histogram, as `(name, value, labels)`: both in a thread of their own. Around each
        attempt the context manager is entered that `start_span(name, attributes)` returns.
        """
        self._context.audit.require_now("work")
        self._context.events.listen(reporting_to(manager))
        if hasattr(manager, "start_span"):
            self._context.tracing = ManagerTracing(manager, self._context.tracing)
        if not hasattr(manager, "record_metric"):
            return
        listener = self._context.events.queue(
            lambda reading: manager.record_metric(reading.name, reading.value, dict(reading.labels))
        )

        def tell(reading: Reading) -> None:
            try:
                listener(reading)
            except Exception:
                log.exception(
                    "a change of %s was reported to nobody", reading.name, extra=log_event("telemetry.failed")
                )

        self._context.meters.on_reading = tell

    async def collect(self) -> Sequence[MetricFamily]:
        """Return all numbers: of the store as far as it answers, and of this process."""
        stored: Sequence[MetricFamily] = []
        try:
            stats = await self._dlq.get_statistics()
            stored = await self._of_store(stats)
        except StoreError as problem:  # numbers without those of the store say more than none
            log.error("the metrics are without those of the store: %s", problem, extra=log_event("telemetry.failed"))
        up = any(each.definition.name == "mahavishnu_dlq_size" for each in stored)
        return [
            _family("mahavishnu_dlq_store_up", int(up)),
            _family("mahavishnu_dlq_max_entries", self._dlq.max_size),
            *(await self._of_process() if self._context.scope is None else ()),  # which is about all letters
            *stored,
        ]

    async def collect_process(self) -> Sequence[MetricFamily]:
        """Return the numbers of this process, and how it sees the store."""
        await self._context.require("work")
        return await self._of_process()

    async def _of_process(self) -> Sequence[MetricFamily]:
        return [*self._count_here(), *self._health(await self._dlq.health())]

    def count_here(self) -> Sequence[MetricFamily]:
        """Return the numbers of this process. It reads no store, so any thread may call it."""
        self._context.audit.require_now("work")
        return self._count_here()

    def _count_here(self) -> Sequence[MetricFamily]:
        counts, by_name = self._context.counts, {each.definition.name: each for each in self._context.meters.families()}
        for key, name in BY_COUNT.items():
            by_name[name] = _family(name, counts[key])
        by_name.pop("mahavishnu_dlq_drained_total")  # there is a drain only where there are two stores
        found = [*by_name.values(), self._circuits()]
        store = self._context.store
        if isinstance(store, FallbackStore):
            found.append(_family("mahavishnu_dlq_drained_total", store.drained))
            if store.last_drain_seconds is not None:
                found.append(_family("mahavishnu_dlq_last_drain_seconds", store.last_drain_seconds))
        return found

    def _circuits(self) -> MetricFamily:
        breakers, counts = self._context.breakers, Counter[tuple[str, ...]]()
        for adapter, circuit in breakers.report(self._context.clock.monotonic()).items():
            counts.update({(breakers.label(adapter), state): int(circuit["state"] == state) for state in CircuitState})
        return MetricFamily(METRICS["mahavishnu_dlq_circuit_breaker_state"], dict(counts))

    def _health(self, health: Health) -> Iterable[MetricFamily]:
        yield _family("mahavishnu_dlq_store_state", {state: int(health.status == state) for state in _STATES})
        if health.status == "down":  # nobody can tell what is there
            return
        age = (self._context.clock.now() - health.oldest).total_seconds() if health.oldest is not None else 0.0
        yield _family("mahavishnu_dlq_kept_locally", health.waiting)
        yield _family("mahavishnu_dlq_kept_locally_seconds", max(age, 0.0))

    # --- of the store

    async def _of_store(self, stats: Mapping[str, Any]) -> Sequence[MetricFamily]:
        """Return numbers derived from records, but none of a part of the letters: it would look like a fall."""
        found = [] if stats["waiting"] is None else [_family("mahavishnu_dlq_waiting", stats["waiting"])]
        if self._context.scope is None and not is_home_away(self._context.store):
            found += _local_stores(stats["local_stores"])
        if stats["degraded"]:
            return found
        context, now = self._context, self._context.clock.now()
        due = await context.letters.tally(Query((_OPEN, Between("due_at", at_most=now))), ["queue"], spans=["due_at"])
        person = await context.letters.tally(_NEEDS_PERSON, ["error_category"])
        back = await context.own_records(GROUPS).tally(_REGRESSED)
        if due.degraded or person.degraded or back.degraded:
            return found
        since = [cell.earliest["due_at"] for cell in due.cells.values() if cell.earliest.get("due_at") is not None]
        lifetime = stats["lifetime_stats"]
        overdue = max(((now - each).total_seconds() for each in since), default=0.0)
        found += [
            _family("mahavishnu_dlq_size", stats["queue_size"]),
            _family("mahavishnu_dlq_entries", stats["status_breakdown"]),
            _family("mahavishnu_dlq_entries_by_category", _known_categories(stats["error_categories"])),
            # every category there is, so that a rule sees the first letter of one as a rise from 0
            _family("mahavishnu_dlq_needs_person", _NO_LETTERS | _known_categories(_counts(person))),
            _family("mahavishnu_dlq_due", _most_frequent({DEFAULT_QUEUE: 0, **_counts(due)})),
            _family("mahavishnu_dlq_overdue_seconds", max(overdue, 0.0)),
            _family("mahavishnu_dlq_regressed_groups", back.total.count),
            *(_family(name, lifetime.get(key, 0)) for key, name in BY_LIFETIME.items() if lifetime),
        ]
        if (live := stats["live_workers"]) is not None:
            found += [
                _family("mahavishnu_dlq_live_workers", live),
                _family("mahavishnu_dlq_waiting_for_worker", _most_frequent(stats["waiting_for_worker"])),
                _family("mahavishnu_dlq_due_without_worker", _most_frequent(stats["due_without_worker"])),
            ]
        return found


def _local_stores(stores: Sequence[Mapping[str, Any]]) -> Iterable[MetricFamily]:
    """Count registered local stores by state, and the records in them."""
    states = {state: [each for each in stores if each["state"] == state] for state in ("live", "left", "unseen")}
    yield _family("mahavishnu_dlq_local_stores", {state: len(those) for state, those in states.items()})
    kept = {state: sum(each["kept"] for each in states[state]) for state in ("live", "left")}
    yield _family("mahavishnu_dlq_local_records", kept)


def _counts(tally: Tally) -> Mapping[str, int]:
    return {str(values[0]): cell.count for values, cell in tally.cells.items() if cell.count}


def _known_categories(counts: Mapping[str, int]) -> dict[str, int]:
    """Count unknown categories, which imports may bring, as one."""
    known: Counter[str] = Counter()
    for category, count in counts.items():
        known[category if category in set(ErrorCategory) else OTHER] += count
    return known


def _most_frequent(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Keep the names that most letters have, and count the others as one: adapters and queues are unlimited."""
    names = sorted(counts, key=lambda name: -counts[name])
    kept: Counter[str] = Counter({name: counts[name] for name in names[:_MOST]})
    if len(names) > _MOST:
        kept[OTHER] += sum(counts[name] for name in names[_MOST:])
    return kept


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of monitoring."""

    async def log_warnings() -> None:
        for warning in await queue.health_warnings():
            log.warning("%s", warning, extra=log_event("health.warning"))

    return (PeriodicTask("the health warnings", log_warnings, lambda: _HEALTH_SECONDS),)


# --- finds stored records that cannot be read: each stays where it is, and hides no other


class UnreadableRecord(Value, frozen=True):
    """A record that cannot be read: its kind and key, and why."""

    kind: str
    key: str
    why: str


class UnreadableRecords(list[UnreadableRecord]):
    """Records that cannot be read; `degraded` names what was not looked at, and is None for the whole."""

    degraded: str | None = None


class Integrity:
    """Looks through everything that a store has, of all namespaces, and at what has not come into it yet."""

    def __init__(self, context: QueueContext) -> None:
        self._context = context

    async def find_unreadable(self, limit: int = 1000) -> UnreadableRecords:
        """Return the records that cannot be read, at most `limit`. It reads every record once, page by page.

        Counters of a store that differ from its records are counted again, and named, too. In the archive also copies
        whose checksum differs are found. Raises InvalidInput, and StoreError while the store
        gives no answer.

        >>> (await dlq.integrity.find_unreadable())[0].why  # doctest: +SKIP
        "it has no 'task_id'"
        """
        if type(limit) is not int or not 1 <= limit <= 100_000:
            raise InvalidInput(f"limit is a whole number from 1 to 100000, not {limit!r:.80}")
        await self._context.require("find unreadable", "store")
        await self._context.open()
        found = UnreadableRecords()
        async for name, collection in self._collections(found):
            repair = getattr(collection, "repair_counters", None)
            if repair is not None and (wrong := await repair()):
                found.append(
                    UnreadableRecord(name, "", f"{wrong} counters were not what its records are; they are now")
                )
            async for page in find_pages(collection, Query()):
                found.degraded = found.degraded or page.degraded
                found += [
                    UnreadableRecord(name, problem.key, problem.reason)
                    if isinstance(problem, CorruptRecord)
                    else UnreadableRecord(name, "", str(problem))
                    for problem in page.corrupt
                ]
                found += [
                    UnreadableRecord(name, copy.key, "its checksum differs from what was written")
                    for copy in page.items
                    if isinstance(copy, ArchivedLetter | ArchivedTask) and not copy.is_intact()
                ]
                if len(found) >= limit:
                    del found[limit:]
                    return found
        return found

    async def local_stores(self) -> LocalStoreList:
        """Return registered local stores, those unseen for longest first; `degraded`: why some may be missing."""
        await self._context.require("list local stores", "store")
        await self._context.open()
        return await local_stores(self._context)

    async def forget_local_store(self, name: str, *, by: str = DEFAULT_ACTOR, notes: str | None = None) -> None:
        """Forget a registered local store; a live one comes again. Raise InvalidInput if unknown, StoreError."""
        await self._context.open()
        async with self._context.audit.record("forget local store", f"local store:{name}", by=by, reason=notes) as act:
            records = home_of(self._context.store).collection(LOCAL_STORES)
            if (found := await get_one(records, name)) is None:
                raise InvalidInput(f"no local store {name!r:.80} is registered; `mahavishnu dlq doctor` lists them")
            act.add(host=found.host, place=found.place, kept=found.kept, letters=found.letters)
            if not (await records.remove([found]))[0]:
                raise InvalidInput(f"local store {name!r} lives: its process {found.pid} has just renewed it")

    async def _collections(self, found: UnreadableRecords) -> AsyncIterator[tuple[str, Collection[Any]]]:
        """Yield everything that can be read now, by name."""
        store = self._context.store
        for kind in (*stored_kinds(), WAITING):
            yield kind.name, store.collection(kind)
        if is_home_away(store):
            found.degraded = found.degraded or "the archive is out of reach"
            return
        places = Partitions(home_of(store), self._context.clock)
        partitions = await places.every()
        for each in partitions:
            if each.state is PartitionState.ATTACHED:
                yield f"archive {each.name}", places.letters(each.name)
                if each.has_tasks:
                    yield f"archived tasks {each.name}", places.tasks(each.name)
        if detached := [each.name for each in partitions if each.state is PartitionState.DETACHED]:
            found.degraded = found.degraded or f"detached partitions were not read: {', '.join(detached)}"

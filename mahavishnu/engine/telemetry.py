"""Traces and metrics: spans of attempts, the table of all metrics, and what a process counts (ADR 0051)."""

from __future__ import annotations

import logging
import sys
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mahavishnu.model.events import TRACEPARENT, Event, EventName, log_event
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import NO_ADAPTER, DeadLetterStatus, ErrorCategory, RequeueOutcome
from mahavishnu.model.record import Value

log = logging.getLogger(__name__)
MOST_VALUES, OTHER = 40, "other"  # each value of a label is a time series that monitoring keeps


# --- traces: a capture is an event on the caller's span, an attempt is a new trace that is linked to it

_CAPTURE_EVENTS = frozenset({EventName.CAPTURED, EventName.MERGED, EventName.REOPENED, EventName.SKIPPED})


class AttemptSpan:
    """The span of one attempt, which may be none."""

    def note_outcome(self, error: BaseException | str | None) -> None:
        """Say how the attempt went."""

    def __enter__(self) -> AttemptSpan:
        return self

    def __exit__(self, *problem: object) -> None:
        """End nothing."""


_NO_SPAN = AttemptSpan()


class Tracing:
    """No tracing: the same methods, and nothing happens."""

    names = _CAPTURE_EVENTS  #: the events that `note_event` is for

    def traceparent(self) -> str | None:
        """Return the caller's span as W3C writes it; None outside of a span."""
        return None

    def note_event(self, event: Event) -> None:
        """Put an event of the queue on the caller's span."""

    def attempt(self, letter: DeadLetter) -> AbstractContextManager[AttemptSpan]:
        """Around an attempt: a span of its own."""
        return _NO_SPAN


class OpenTelemetryTracing(Tracing):
    """Traces by OpenTelemetry, with the tracer provider that the application has set up."""

    def __init__(self, provider: Any = None) -> None:
        """Raises ImportError where opentelemetry is not installed."""
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._context, self._trace = context, trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("mahavishnu", tracer_provider=provider)
        self._has_stumbled = False

    def traceparent(self) -> str | None:
        try:
            carrier: dict[str, str] = {}
            self._propagator.inject(carrier)
            return carrier.get(TRACEPARENT)
        except Exception as problem:
            self._stumble(problem)
            return None

    def note_event(self, event: Event) -> None:
        try:
            span = self._trace.get_current_span()
            if not span.is_recording():
                return
            if event.letter is None:
                span.add_event(str(event.name), {"mahavishnu.task_id": str(event.detail.get("task_id"))})
            else:
                span.add_event(str(event.name), _attributes(event.letter))
        except Exception as problem:
            self._stumble(problem)

    @contextmanager
    def attempt(self, letter: DeadLetter) -> Iterator[AttemptSpan]:
        with ExitStack() as ends:
            span = AttemptSpan()
            try:
                current = self._tracer.start_as_current_span(
                    f"process {letter.queue}",
                    context=self._context.Context(),  # of no other trace: the caller's ended long ago
                    kind=self._trace.SpanKind.CONSUMER,
                    links=self._links(letter),
                    record_exception=False,  # an error's text may say anything
                    set_status_on_exception=False,
                    attributes={
                        "messaging.system": "mahavishnu",
                        "messaging.operation.name": "process",
                        "messaging.operation.type": "process",
                        "messaging.destination.name": letter.queue,
                        "messaging.message.id": letter.entry_id,
                        "mahavishnu.attempt": letter.total_attempts,
                        **_attributes(letter),
                    },
                )
                span = _OpenSpan(self, current.__enter__())
                ends.push(lambda *raised: self._leave(current, *raised))
            except Exception as problem:
                self._stumble(problem)
            yield span

    def _leave(self, current: AbstractContextManager[Any], *raised: Any) -> bool:
        try:
            current.__exit__(*raised)
        except BaseException as problem:
            if problem is not raised[1]:
                self._stumble(problem)
        return False

    def _links(self, letter: DeadLetter) -> list[Any]:
        given = letter.metadata.get(TRACEPARENT)
        if not isinstance(given, str):
            return []
        origin = self._trace.get_current_span(self._propagator.extract({TRACEPARENT: given})).get_span_context()
        return [self._trace.Link(origin)] if origin.is_valid else []

    def end_in_error(self, span: Any, error: BaseException | str) -> None:
        """Mark a span as failed."""
        try:
            kind = "error" if isinstance(error, str) else type(error).__qualname__
            span.set_attribute("error.type", kind)
            span.set_status(self._trace.StatusCode.ERROR, kind)
        except Exception as problem:
            self._stumble(problem)

    def _stumble(self, problem: BaseException) -> None:
        if not self._has_stumbled:
            self._has_stumbled = True
            log.error("tracing does not work, and goes on without a word: %r", problem)


class _OpenSpan(AttemptSpan):
    def __init__(self, tracing: OpenTelemetryTracing, span: Any) -> None:
        self._tracing, self._span = tracing, span

    def note_outcome(self, error: BaseException | str | None) -> None:
        if error is not None:
            self._tracing.end_in_error(self._span, error)


class ManagerTracing(Tracing):
    """Has an observability manager put a span around each attempt, inside of what another tracing does."""

    def __init__(self, manager: Any, inner: Tracing) -> None:
        self._manager, self._inner = manager, inner

    def traceparent(self) -> str | None:
        return self._inner.traceparent()

    def note_event(self, event: Event) -> None:
        self._inner.note_event(event)

    @contextmanager
    def attempt(self, letter: DeadLetter) -> Iterator[AttemptSpan]:
        with self._inner.attempt(letter) as span:
            manager_span = self._start(letter)
            try:
                yield span
            finally:
                self._end(manager_span, sys.exc_info())

    def _start(self, letter: DeadLetter) -> AbstractContextManager[Any] | None:
        try:
            started: AbstractContextManager[Any] = self._manager.start_span("dlq.attempt", dict(_attributes(letter)))
            started.__enter__()
        except Exception:
            log.exception("the observability manager could not start a span", extra=log_event("telemetry.failed"))
            return None
        return started

    def _end(self, span: AbstractContextManager[Any] | None, raised: Any) -> None:
        try:
            if span is not None:
                span.__exit__(*raised)
        except Exception:
            log.exception("the observability manager could not end a span", extra=log_event("telemetry.failed"))


def _attributes(letter: DeadLetter) -> Mapping[str, Any]:
    """Return the attributes of a span: names and numbers, nothing of the payload or of the error's text."""
    return {
        "mahavishnu.task_id": letter.task_id,
        "mahavishnu.entry_id": letter.entry_id,
        "mahavishnu.adapter": letter.adapter or NO_ADAPTER,
        "mahavishnu.category": str(letter.error_category),
        "mahavishnu.status": str(letter.status),
    }


def make_tracing(wanted: bool) -> Tracing:
    """Tracing by OpenTelemetry if it is wanted and installed. Where it is wanted only, the log says what is missing."""
    if not wanted:
        return Tracing()
    try:
        return OpenTelemetryTracing()
    except ImportError:
        log.warning("there are no traces: opentelemetry is not installed (pip install 'mahavishnu-dlq[telemetry]')")
    return Tracing()


# --- the table of metrics


class MetricKind(StrEnum):
    """The kind of a metric's numbers."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class KnownBy(StrEnum):
    """The source of a metric's numbers."""

    STORE = "store"  #: any process that reads the store; absent while it is away
    PROCESS = "process"  #: the process itself, about itself


class MetricDefinition(Value, frozen=True):
    """A metric under its one name. No label has values whose number grows with the letters."""

    name: str
    kind: MetricKind
    known_by: KnownBy
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  #: upper bounds, in seconds


_SECONDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_LONG_SECONDS: Final = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 43200.0, 86400.0, 259200.0, 604800.0)


_Row = tuple[str, str] | tuple[str, str, tuple[str, ...]]


def _define(known_by: KnownBy, kind: MetricKind, *rows: _Row) -> list[MetricDefinition]:
    return [MetricDefinition(row[0], kind, known_by, row[1], row[2] if len(row) == 3 else ()) for row in rows]


_STORE_GAUGES = _define(
    KnownBy.STORE,
    MetricKind.GAUGE,
    ("mahavishnu_dlq_size", "Open letters"),
    ("mahavishnu_dlq_entries", "Open letters", ("status",)),
    ("mahavishnu_dlq_entries_by_category", "Open letters", ("category",)),
    ("mahavishnu_dlq_needs_person", "Open letters that nothing retries by itself", ("category",)),
    ("mahavishnu_dlq_due", "Letters that are due now", ("queue",)),
    ("mahavishnu_dlq_overdue_seconds", "How long the letter has been due that has been due longest; 0 if none is"),
    ("mahavishnu_dlq_live_workers", "Workers that live now"),
    ("mahavishnu_dlq_waiting_for_worker", "Open letters that no live worker can run", ("adapter",)),
    ("mahavishnu_dlq_due_without_worker", "Letters due for a while that no live worker can run", ("adapter",)),
    ("mahavishnu_dlq_waiting", "Failures that wait for room"),
    (
        "mahavishnu_dlq_local_stores",
        "Local stores of processes: live, left with records, or unseen for 5 minutes",
        ("state",),
    ),
    ("mahavishnu_dlq_local_records", "Records in local stores of all processes, as they told last", ("state",)),
    ("mahavishnu_dlq_regressed_groups", "Groups that have new letters although they were resolved"),
)
_STORE_COUNTERS = _define(
    KnownBy.STORE,
    MetricKind.COUNTER,
    ("mahavishnu_tasks_moved_to_dlq_total", "Letters written"),
    ("mahavishnu_dlq_requeue_attempts_total", "Letters sent back"),
    ("mahavishnu_dlq_permanent_failures_total", "Letters given up"),
    ("mahavishnu_dlq_retry_success_total", "Retries that succeeded"),
    ("mahavishnu_dlq_retry_failed_total", "Retries that failed"),
    ("mahavishnu_dlq_exhausted_total", "Letters that used up their retries"),
    ("mahavishnu_dlq_manually_retried_total", "Retries by hand"),
    ("mahavishnu_dlq_manually_resolved_total", "Letters that people settled, or runs of the application"),
    ("mahavishnu_dlq_cancelled_total", "Letters that nobody wants any more"),
    ("mahavishnu_dlq_archived_total", "Open letters that were put away"),
    ("mahavishnu_dlq_reopened_total", "Closed letters that were opened again"),
    ("mahavishnu_dlq_claims_recovered_total", "Leases that ran out"),
    ("mahavishnu_dlq_deduplicated_total", "Failures that became part of an open letter"),
    ("mahavishnu_dlq_cleared_total", "Open letters that were deleted"),
)
_PROCESS_GAUGES = _define(
    KnownBy.PROCESS,
    MetricKind.GAUGE,
    ("mahavishnu_dlq_store_up", "0 while the store cannot tell its numbers"),
    ("mahavishnu_dlq_store_state", "1 for the state that the store is in, as this process sees it", ("state",)),
    ("mahavishnu_dlq_max_entries", "Room for open letters"),
    ("mahavishnu_dlq_kept_locally", "Records that are kept locally until the store is back"),
    ("mahavishnu_dlq_kept_locally_seconds", "How long the oldest of them has been there; 0 if there is none"),
    ("mahavishnu_dlq_last_drain_seconds", "How long it took this process to move them into the store the last time"),
    (
        "mahavishnu_dlq_circuit_breaker_state",
        "1 for the state that an adapter's circuit breaker is in; of 'other' ones, how many are",
        ("adapter", "state"),
    ),
)
_PROCESS_COUNTERS = _define(
    KnownBy.PROCESS,
    MetricKind.COUNTER,
    ("mahavishnu_captures_total", "Failures that this process captured", ("category", "outcome")),
    ("mahavishnu_capture_failures_total", "Failures that this process could not keep"),
    ("mahavishnu_attempts_total", "Runs of letters that ended", ("adapter", "outcome")),
    ("mahavishnu_dlq_requeue_successes_total", "First runs of letters sent back that succeeded"),
    ("mahavishnu_dlq_requeue_failures_total", "First runs of letters sent back that failed again"),
    ("mahavishnu_lease_losses_total", "Runs whose outcome did not count, because the letter had another owner"),
    ("mahavishnu_dlq_drained_total", "Records that this process moved from the local store into the store"),
    ("mahavishnu_tasks_discovered_total", "Lifecycle tasks that began here"),
    ("mahavishnu_stale_tasks_detected_total", "Stale tasks that were found"),
    ("mahavishnu_stale_tasks_transitioned_total", "Stale tasks that were moved to error"),
    ("mahavishnu_staleness_detection_errors_total", "Stale tasks that could not be moved, and looks that failed"),
    ("mahavishnu_stuck_tasks_reset_total", "Stuck tasks that were reset to waiting"),
    ("mahavishnu_tasks_archived_total", "Letters that were moved into the archive"),
    ("mahavishnu_archive_failures_total", "Letters that could not be archived, and archivings that failed"),
    ("mahavishnu_partitions_created_total", "Partitions of the archive that were made"),
    ("mahavishnu_partitions_detached_total", "Partitions of the archive that were detached"),
    ("mahavishnu_partition_creation_failures_total", "Partitions of the archive that could not be made"),
    ("mahavishnu_dlq_skipped_by_strategy_total", "Failures that were not kept, by the strategy"),
    ("mahavishnu_dlq_rejected_full_total", "Failures that found no room"),
    ("mahavishnu_dlq_events_dropped_total", "Events that listeners were too slow for"),
    ("mahavishnu_dlq_durable_events_dropped_total", "Domain events that could not be stored"),
    ("mahavishnu_dlq_events_refused_total", "Stored events that the receiver refused"),
    ("mahavishnu_dlq_alert_notices_failed_total", "Notices of alerts that a channel did not take"),
    ("mahavishnu_dlq_cancelled_ignored_total", "Runs that their callers cancelled, and that were not kept"),
    ("mahavishnu_dlq_closed_by_success_total", "Letters whose work was done in another run"),
    ("mahavishnu_dlq_successes_not_looked_up_total", "Successes of which it was not looked up what they close"),
)
_PROCESS_HISTOGRAMS = [
    MetricDefinition(name, MetricKind.HISTOGRAM, KnownBy.PROCESS, meaning, labels, buckets)
    for name, meaning, labels, buckets in (
        ("mahavishnu_attempt_duration_seconds", "How long runs of letters took", ("adapter",), _SECONDS),
        ("mahavishnu_time_until_stale_seconds", "How long stale tasks had been in their state", (), _LONG_SECONDS),
        ("mahavishnu_archive_execution_time_seconds", "How long one archiving took", (), _SECONDS),
    )
]

METRICS: Final = {
    each.name: each
    for each in (*_STORE_GAUGES, *_STORE_COUNTERS, *_PROCESS_GAUGES, *_PROCESS_COUNTERS, *_PROCESS_HISTOGRAMS)
}

# The counts of a queue's context, and what monitoring calls them.
BY_COUNT: Final = {
    "capture_failed": "mahavishnu_capture_failures_total",
    "skipped_by_strategy": "mahavishnu_dlq_skipped_by_strategy_total",
    "rejected_full": "mahavishnu_dlq_rejected_full_total",
    "events_dropped": "mahavishnu_dlq_events_dropped_total",
    "durable_events_dropped": "mahavishnu_dlq_durable_events_dropped_total",
    "events_refused": "mahavishnu_dlq_events_refused_total",
    "alert_notices_failed": "mahavishnu_dlq_alert_notices_failed_total",
    "cancelled_ignored": "mahavishnu_dlq_cancelled_ignored_total",
    "closed_by_success": "mahavishnu_dlq_closed_by_success_total",
    "successes_not_looked_up": "mahavishnu_dlq_successes_not_looked_up_total",
    "archive_failures": "mahavishnu_archive_failures_total",
    "stale_tasks_detected": "mahavishnu_stale_tasks_detected_total",
    "stale_tasks_transitioned": "mahavishnu_stale_tasks_transitioned_total",
    "stuck_tasks_reset": "mahavishnu_stuck_tasks_reset_total",
    "staleness_errors": "mahavishnu_staleness_detection_errors_total",
}
# The numbers that letters carry, and what monitoring calls them.
BY_LIFETIME: Final = {
    "enqueued_total": "mahavishnu_tasks_moved_to_dlq_total",
    "requeued": "mahavishnu_dlq_requeue_attempts_total",
    "permanently_failed": "mahavishnu_dlq_permanent_failures_total",
    **{
        name: f"mahavishnu_dlq_{name}_total"
        for name in (
            *("retry_success", "retry_failed", "exhausted", "manually_retried", "manually_resolved", "cancelled"),
            *("archived", "reopened", "claims_recovered", "deduplicated", "cleared"),
        )
    },
}


def definitions(known_by: KnownBy) -> Iterable[MetricDefinition]:
    """The metrics that these know."""
    return (each for each in METRICS.values() if each.known_by is known_by)


# --- the counters and histograms of a process, with bounded labels


class Distribution(Value, frozen=True):
    """The values that a histogram has: how many are in each bucket (the last one has no bound), and their sum."""

    counts: tuple[int, ...]
    total: float


@dataclass(slots=True)
class MetricFamily:
    """A metric with its numbers, by the values of its labels. Without numbers it is unknown, which is not 0."""

    definition: MetricDefinition
    samples: dict[tuple[str, ...], float | Distribution] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, numbers: float | Mapping[str, float]) -> MetricFamily:
        """The family of this name with its one number, or with one for each value of its one label."""
        samples = numbers.items() if isinstance(numbers, Mapping) else [(None, numbers)]
        return cls(METRICS[name], {() if value is None else (str(value),): number for value, number in samples})


class Reading(Value, frozen=True):
    """One change of a metric, as it is reported to an observability manager."""

    name: str
    value: float
    labels: Mapping[str, str]


class LabelValues:
    """The values that a label may have: the first ones that come, and OTHER for all further ones."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most, self._known = most, set[str]()

    def limit(self, value: str) -> str:
        """The value itself, or OTHER."""
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(value)
        return value


class Meters:
    """Counters and histograms of one process. Any thread may use them."""

    def __init__(self) -> None:
        self.on_reading: Callable[[Reading], object] | None = None  # called with each change
        self._lock = threading.Lock()
        self._values: defaultdict[str, LabelValues] = defaultdict(LabelValues)
        self._counters: dict[str, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[str, dict[tuple[str, ...], tuple[list[int], float]]] = {}
        for each in definitions(KnownBy.PROCESS):
            bare: tuple[str, ...] = ()
            if each.kind is MetricKind.COUNTER:
                self._counters[each.name] = {} if each.labels else {bare: 0.0}
            elif each.kind is MetricKind.HISTOGRAM:
                self._histograms[each.name] = {} if each.labels else {bare: ([0] * (len(each.buckets) + 1), 0.0)}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            series, key = self._counters[name], self._key(name, labels)
            series[key] = series.get(key, 0.0) + amount
        self._report(name, amount, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""
        buckets = METRICS[name].buckets
        with self._lock:
            series, key = self._histograms[name], self._key(name, labels)
            counts, total = series.get(key) or ([0] * (len(buckets) + 1), 0.0)
            counts[bisect_left(buckets, value)] += 1
            series[key] = (counts, total + value)
        self._report(name, value, labels)

    def families(self) -> Sequence[MetricFamily]:
        """All of them with their numbers, as they are now."""
        with self._lock:
            counters = [MetricFamily(METRICS[name], dict(series)) for name, series in self._counters.items()]
            histograms = [
                MetricFamily(
                    METRICS[name], {key: Distribution(tuple(counts), total) for key, (counts, total) in series.items()}
                )
                for name, series in self._histograms.items()
            ]
        return [*counters, *histograms]

    def _key(self, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple([self._values[label].limit(str(labels[label])) for label in METRICS[name].labels])

    def _report(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        if self.on_reading is not None:
            self.on_reading(Reading(name, value, labels))


# --- counts of events: captures, attempts, lost leases, stale tasks

_CAPTURES = {EventName.CAPTURED: "new", EventName.MERGED: "merged", EventName.REOPENED: "reopened"}
_CATEGORIES = frozenset(map(str, ErrorCategory))
_SECONDS_PER_MINUTE = 60
_MOST_SENT_BACK = 10_000


class EventMeters:
    """A listener that counts. Bulk imports announce nothing, so they count as no captures."""

    names = frozenset(
        {
            *_CAPTURES,
            *(EventName.RETRY_STARTED, EventName.RETRY_SUCCEEDED, EventName.RETRY_FAILED, EventName.STALE_CLAIM),
            EventName.SKIPPED,
            EventName.TASK_STALE,
            EventName.RELEASED,
        }
    )

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._sent_back: set[str] = set()  # entry ids of letters that run for the first time since they were requeued

    def __call__(self, event: Event) -> None:
        if event.name is EventName.TASK_STALE:
            minutes = event.detail.get("time_in_state_minutes", 0)
            self._meters.observe("mahavishnu_time_until_stale_seconds", minutes * _SECONDS_PER_MINUTE)
        elif event.name is EventName.SKIPPED:
            self._meters.count("mahavishnu_captures_total", category=OTHER, outcome="skipped")
        elif event.name is EventName.RELEASED:
            if event.letter is not None:
                self._sent_back.discard(event.letter.entry_id)
        elif (letter := event.letter) is not None:
            self._count_letter(event.name, letter)

    def _count_letter(self, name: EventName, letter: DeadLetter) -> None:
        if name in _CAPTURES:
            category = str(letter.error_category)
            known = category if category in _CATEGORIES else OTHER
            self._meters.count("mahavishnu_captures_total", category=known, outcome=_CAPTURES[name])
            return
        if name is EventName.RETRY_STARTED:
            if letter.requeue is not None and letter.requeue.outcome is RequeueOutcome.IN_FLIGHT:
                if len(self._sent_back) >= _MOST_SENT_BACK:  # of runs that ended elsewhere nothing is heard
                    self._sent_back.clear()
                self._sent_back.add(letter.entry_id)
            return
        outcome = "succeeded"
        if name is EventName.STALE_CLAIM:
            self._meters.count("mahavishnu_lease_losses_total")
            outcome = "lost"
        elif name is EventName.RETRY_FAILED:
            outcome = "exhausted" if letter.status is DeadLetterStatus.EXHAUSTED else "failed"
        self._meters.count("mahavishnu_attempts_total", adapter=adapter_label(letter), outcome=outcome)
        if letter.entry_id in self._sent_back:
            self._sent_back.discard(letter.entry_id)
            if outcome != "lost":
                came = "successes" if outcome == "succeeded" else "failures"
                self._meters.count(f"mahavishnu_dlq_requeue_{came}_total")


def adapter_label(letter: DeadLetter) -> str:
    """Return the label of a letter's adapter."""
    return letter.adapter or NO_ADAPTER

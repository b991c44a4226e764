"""Health and metrics: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.auth import Actor, OwnQueue, Role, require_role
from mahavishnu.api.responses import json_response
from mahavishnu.api.routing import Depends, Router
from mahavishnu.api.schemas import ResponseModel
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.breaker import OTHER, CircuitState
from mahavishnu.model.errors import StoreError
from mahavishnu.model.letter_parts import ErrorCategory
from mahavishnu.stores.base import Health

log = logging.getLogger(__name__)
router = Router(tag="health")
_MOST_ADAPTERS = 50  # that have a line of their own
_LIFETIME_COUNTERS = {
    "enqueued_total": "Letters written since the beginning",
    "retry_success": "Retries that succeeded",
    "retry_failed": "Retries that failed",
    "exhausted": "Letters that used up their retries",
    "manually_retried": "Retries by hand",
    "permanently_failed": "Letters given up",
    "manually_resolved": "Letters that people settled, or runs of the application",
    "cancelled": "Letters that nobody wants any more",
    "archived": "Open letters that were put away",
    "reopened": "Closed letters that were opened again",
    "claims_recovered": "Leases that ran out",
    "deduplicated": "Failures that became part of an open letter",
    "cleared": "Open letters that were deleted",
}
_PROCESS_COUNTERS = {
    "skipped_by_strategy": "Failures that this process did not keep",
    "rejected_full": "Failures that found no room in this process",
    "capture_failed": "Failures that this process could not keep",
    "events_dropped": "Events that listeners of this process were too slow for",
    "cancelled_ignored": "Runs of this process that their callers cancelled, and that were not kept",
    "closed_by_success": "Letters whose work this process has done in another run",
    "successes_not_looked_up": "Successes of which this process did not look up whether they close a letter",
    "archive_failures": "Letters that this process could not archive",
    "stale_tasks_detected": "Stale tasks that this process found",
    "stale_tasks_transitioned": "Stale tasks that this process moved to error",
    "staleness_errors": "Stale tasks that this process could not move",
    "stuck_tasks_reset": "Stuck tasks that this process reset to waiting",
}


class HealthReport(ResponseModel):
    """How the queue is."""

    status: Literal["ok", "degraded", "down"]
    detail: str
    kept_locally: int
    config_error: str | None = Field(description="Why the settings were not read again")


_DOWN: dict[int | str, dict[str, Any]] = {503: {"model": HealthReport, "description": "Nothing can be kept or read"}}


@router.get("/healthz", response_model=HealthReport, summary="Is the process alive?")
async def healthz(request: Request, dlq: OwnQueue) -> Response:
    """Always 200 while it can answer; `degraded` tells that letters are kept locally, or that the store is away."""
    return json_response(_health_json(dlq, await dlq.health(), request.scope["actor"]))


@router.get("/readyz", response_model=HealthReport, responses=_DOWN, summary="Can it work?")
async def readyz(request: Request, dlq: OwnQueue) -> Response:
    """200 for `ok` and `degraded`, in which nothing is lost; 503 for `down`."""
    health = await dlq.health()
    return json_response(_health_json(dlq, health, request.scope["actor"]), 503 if health.status == "down" else 200)


def _health_json(dlq: DeadLetterQueue, health: Health, actor: Actor) -> dict[str, Any]:
    """The health as JSON. The detail may name hosts, and the other one files: only viewers get them."""
    may_look = actor.role >= Role.VIEWER
    return {
        "status": health.status,
        "detail": health.detail if may_look else "",
        "kept_locally": health.waiting,
        "config_error": dlq.context.config_error if may_look else None,
    }


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text"}},
    summary="The numbers, for Prometheus",
)
async def metrics(
    dlq: OwnQueue, actor: Annotated[Actor, Depends(require_role(Role.VIEWER, "reading metrics"))]
) -> Response:
    """Lifetime numbers are those of the store, not of this process: they survive it. While it is away they are left
    out, and `mahavishnu_dlq_store_up` is 0.
    """
    return Response(await _scrape(dlq), 200, None, CONTENT_TYPE_LATEST)


async def _scrape(dlq: DeadLetterQueue) -> bytes:
    try:
        stored = _StoreNumbers(await dlq.get_statistics(), await dlq.requeues.outcomes())
    except StoreError as problem:  # a scrape without the numbers of the store says more than one that fails
        log.error("the metrics are without those of the store: %s", problem)
        return generate_latest(_Scrape(dlq, None, (await dlq.health()).status))
    return generate_latest(_Scrape(dlq, stored, stored.numbers["storage_mode"]))


@dataclass(frozen=True)
class _StoreNumbers:
    """The metrics that are read from the store."""

    numbers: Mapping[str, Any]
    requeues: Mapping[str, int]

    @property
    def is_whole(self) -> bool:
        """Whether they are of all letters, and not only of those that are kept locally during an outage."""
        return not self.numbers["degraded"]

    def collect(self) -> Iterator[Metric]:
        numbers, lifetime = self.numbers, self.numbers["lifetime_stats"]
        yield GaugeMetricFamily("mahavishnu_dlq_waiting", "Failures that wait for room", numbers["waiting"])
        yield GaugeMetricFamily(
            "mahavishnu_dlq_spool_entries", "Letters kept locally", numbers["storage"]["kept_locally"]
        )
        if not self.is_whole:  # those of a part would look like a fall, and the next scrape like a rise
            return
        yield GaugeMetricFamily("dlq_size", "Open letters", numbers["queue_size"])
        yield _gauge_by("mahavishnu_dlq_entries", "Open letters", "status", numbers["status_breakdown"])
        yield _gauge_by("mahavishnu_dlq_entries_by_category", "Open letters", "category", _by_category(numbers))
        if (live := numbers["live_workers"]) is not None:
            yield GaugeMetricFamily("mahavishnu_dlq_live_workers", "Workers that live now", live)
            yield _gauge_by(
                "mahavishnu_dlq_waiting_for_worker",
                "Open letters that no live worker can run",
                "adapter",
                _by_label(numbers["waiting_for_worker"]),
            )
        yield from _counters(_LIFETIME_COUNTERS, lifetime)
        yield CounterMetricFamily("tasks_moved_to_dlq", "Letters written", lifetime["enqueued_total"])
        yield CounterMetricFamily("dlq_requeue_attempts", "Letters sent back", lifetime["requeued"])
        yield CounterMetricFamily(
            "dlq_requeue_successes", "Letters sent back that then succeeded", self.requeues.get("succeeded", 0)
        )
        yield CounterMetricFamily(
            "dlq_requeue_failures", "Letters sent back that failed again", self.requeues.get("failed", 0)
        )
        yield CounterMetricFamily("dlq_permanent_failures", "Letters given up", lifetime["permanently_failed"])


@dataclass(frozen=True)
class _Scrape:
    """All metrics of one scrape; no label has values whose number grows with the letters."""

    dlq: DeadLetterQueue
    stored: _StoreNumbers | None
    mode: str

    def collect(self) -> Iterator[Metric]:
        up = int(self.stored is not None and self.stored.is_whole)
        yield GaugeMetricFamily("mahavishnu_dlq_store_up", "0 while the store cannot tell its numbers", up)
        modes = {mode: int(self.mode == mode) for mode in ("ok", "degraded", "down")}
        yield _gauge_by("mahavishnu_dlq_store_state", "1 for the state that the store is in", "state", modes)
        yield GaugeMetricFamily("mahavishnu_dlq_max_entries", "Room for open letters", self.dlq.max_size)
        breakers = self.dlq.context.breakers
        states = GaugeMetricFamily(
            "mahavishnu_dlq_circuit_breaker_state",
            "1 for the state that an adapter's circuit breaker in this process is in; of 'other' ones, how many are",
            labels=["adapter", "state"],
        )
        counts: Counter[tuple[str, str]] = Counter()
        for adapter, circuit in breakers.report(self.dlq.clock.monotonic()).items():
            counts.update({(breakers.label(adapter), state): int(circuit["state"] == state) for state in CircuitState})
        for (adapter, state), count in counts.items():
            states.add_metric([_encodable(adapter), state], count)
        yield states
        yield from _counters(_PROCESS_COUNTERS, self.dlq.context.counts)
        if self.stored is not None:
            yield from self.stored.collect()


def _by_category(numbers: Mapping[str, Any]) -> Mapping[str, int]:
    """Open letters by category: those that there are not, which imports may bring, as one."""
    counts: Counter[str] = Counter()
    for category, count in numbers["error_categories"].items():
        counts[category if category in set(ErrorCategory) else OTHER] += count
    return counts


def _by_label(waiting: Mapping[str, int]) -> Mapping[str, int]:
    """Those of the adapters that most letters wait for, and the others as one: anybody may name adapters."""
    names = list(waiting)
    counts: Counter[str] = Counter({name: waiting[name] for name in names[:_MOST_ADAPTERS]})
    if len(names) > _MOST_ADAPTERS:
        counts[OTHER] += sum(waiting[name] for name in names[_MOST_ADAPTERS:])
    return counts


def _counters(meanings: Mapping[str, str], values: Mapping[str, int]) -> Iterator[Metric]:
    for name, meaning in meanings.items():
        yield CounterMetricFamily(f"mahavishnu_dlq_{name.removesuffix('_total')}", meaning, values.get(name, 0))


def _gauge_by(name: str, meaning: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for value, count in values.items():
        family.add_metric([_encodable(value)], count)
    return family


def _encodable(name: str) -> str:
    return str(name).encode(errors="replace").decode()  # a letter may have half a character in it

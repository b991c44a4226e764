"""Is it alive, can it work, and in numbers: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import Response

from mahavishnu.console.api.access import Actor, Queue, Role, needs
from mahavishnu.console.api.problems import documented
from mahavishnu.console.api.reading import Shared, answer
from mahavishnu.console.api.shapes import HealthAnswer
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.base import Health

router = APIRouter(tags=["health"])
_LIFETIME = {
    "enqueued_total": "Letters written since the beginning",
    "retry_success": "Retries that succeeded",
    "retry_failed": "Retries that failed",
    "exhausted": "Letters that used up their retries",
    "manually_retried": "Retries by hand",
    "permanently_failed": "Letters given up",
    "manually_resolved": "Letters that people settled",
    "cancelled": "Letters that nobody wants any more",
    "archived": "Open letters that were put away",
    "reopened": "Closed letters that were opened again",
    "claims_recovered": "Leases that ran out",
    "deduplicated": "Failures that became part of an open letter",
    "cleared": "Open letters that were deleted",
    "skipped_by_strategy": "Failures that this process did not keep",
    "rejected_full": "Failures that found no room in this process",
    "capture_failed": "Failures that this process could not keep",
}


@router.get("/healthz", response_model=HealthAnswer, summary="Is the process alive?")
async def healthz(request: Request, dlq: Queue) -> Response:
    """Always 200 while it can answer; `degraded` tells that letters are kept locally, or that the store is away."""
    return answer(_shown(await dlq.health(), request.scope["actor"]))


@router.get("/readyz", response_model=HealthAnswer, responses=documented(503), summary="Can it work?")
async def readyz(request: Request, dlq: Queue) -> Response:
    """200 for `ok` and `degraded`, in which nothing is lost; 503 for `down`."""
    health = await dlq.health()
    return answer(_shown(health, request.scope["actor"]), 503 if health.status == "down" else 200)


def _shown(health: Health, actor: Actor) -> dict[str, Any]:
    """The detail may name hosts: it is for those who may look."""
    detail = health.detail if actor.role >= Role.VIEWER else ""
    return {"status": health.status, "detail": detail, "kept_locally": health.waiting}


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text"}},
    summary="The numbers, for Prometheus",
)
async def metrics(
    request: Request, dlq: Queue, actor: Annotated[Actor, Depends(needs(Role.VIEWER, "reading metrics"))]
) -> Response:
    """Lifetime numbers are those of the store, not of this process: they survive it."""
    shared: Shared[bytes] = request.app.state.numbers
    text = await shared.get("metrics", lambda: _scrape(dlq))
    return Response(text, 200, None, CONTENT_TYPE_LATEST)


async def _scrape(dlq: DeadLetterQueue) -> bytes:
    numbers, requeues = await dlq.get_statistics(), await dlq.requeue_outcomes()
    return generate_latest(_Scrape(numbers, requeues))


class _Scrape:
    """What Prometheus is told; names never carry what grows with the letters."""

    def __init__(self, numbers: Mapping[str, Any], requeues: Mapping[str, int]) -> None:
        self._numbers, self._requeues = numbers, requeues

    def collect(self) -> Iterator[Metric]:
        numbers, lifetime = self._numbers, self._numbers["lifetime_stats"]
        yield GaugeMetricFamily("dlq_size", "Open letters", numbers["queue_size"])
        yield GaugeMetricFamily("mahavishnu_dlq_max_entries", "Room for open letters", numbers["max_size"])
        yield _by("mahavishnu_dlq_entries", "Open letters", "status", numbers["status_breakdown"])
        yield _by("mahavishnu_dlq_entries_by_category", "Open letters", "category", numbers["error_categories"])
        yield GaugeMetricFamily("mahavishnu_dlq_waiting", "Failures that wait for room", numbers["waiting"])
        yield GaugeMetricFamily(
            "mahavishnu_dlq_spool_entries", "Letters kept locally", numbers["storage"]["kept_locally"]
        )
        modes = {mode: int(numbers["storage_mode"] == mode) for mode in ("ok", "degraded", "down")}
        yield _by("mahavishnu_dlq_store_state", "1 for the state that the store is in", "state", modes)
        for name, meaning in _LIFETIME.items():
            yield CounterMetricFamily(f"mahavishnu_dlq_{name.removesuffix('_total')}", meaning, lifetime.get(name, 0))
        yield CounterMetricFamily("tasks_moved_to_dlq", "Letters written", lifetime["enqueued_total"])
        yield CounterMetricFamily("dlq_requeue_attempts", "Letters sent back", lifetime["requeued"])
        yield CounterMetricFamily(
            "dlq_requeue_successes", "Letters sent back that then succeeded", self._requeues.get("succeeded", 0)
        )
        yield CounterMetricFamily(
            "dlq_requeue_failures", "Letters sent back that failed again", self._requeues.get("failed", 0)
        )
        yield CounterMetricFamily("dlq_permanent_failures", "Letters given up", lifetime["permanently_failed"])


def _by(name: str, meaning: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for value, count in values.items():
        family.add_metric([str(value).encode(errors="replace").decode()], count)  # a letter may say half a character
    return family

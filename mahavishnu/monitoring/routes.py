"""Health, metrics, the dashboard, trends and unreadable records over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import degraded_header, json_response, to_json
from mahavishnu.http.routing import Depends, Query, Router
from mahavishnu.http.schemas import ActionRequest, ReasonLine, RequestModel, ResponseModel, fields_of
from mahavishnu.monitoring import statistics as trends
from mahavishnu.monitoring.dashboard import Dashboard
from mahavishnu.monitoring.exposition import CONTENT_TYPE_LATEST, exposition
from mahavishnu.monitoring.service import Integrity, Telemetry, UnreadableRecord
from mahavishnu.monitoring.statistics import HOURS, Trends
from mahavishnu.stores.base import Health

# --- integrity

integrity_router = Router(tag="integrity", prefix="/integrity")
Admin = Annotated[Actor, Depends(require_role(Role.ADMIN, "forgetting a local store"))]


@fields_of(UnreadableRecord, "kind key why")
class UnreadableLine(ResponseModel):
    """A record that cannot be read."""


class IntegrityQuery(RequestModel):
    """The most records to list."""

    limit: Annotated[int, Field(ge=1, le=100_000)] = 1000


@integrity_router.get("", response_model=list[UnreadableLine], summary="Records that cannot be read", name="list")
async def find_unreadable(dlq: OwnQueue, actor: Viewer, params: Annotated[IntegrityQuery, Query()]) -> Response:
    """Read every record of the store once, of all namespaces: this takes time where there are many."""
    found = await dlq.service(Integrity).find_unreadable(params.limit)
    return json_response([asdict(each) for each in found], 200, degraded_header(found.degraded))


class LocalStoreLine(ResponseModel):
    """A local store that a process has registered: where it is, and what it keeps that has not come home.

    The process of one that is `left` or `unseen` was not seen for five minutes. `what` says for people what to do.
    """

    name: str
    what: str
    needs_look: bool
    host: str
    pid: int
    place: str
    seen_at: str
    state: Literal["live", "left", "unseen"]
    kept: int
    letters: int
    oldest: str | None


@integrity_router.get(
    "/local-stores", response_model=list[LocalStoreLine], summary="Local stores of all processes", name="local_stores"
)
async def list_local_stores(dlq: OwnQueue, actor: Viewer) -> Response:
    """List the local stores that processes have registered, those that were seen longest ago first."""
    found = await dlq.service(Integrity).local_stores()
    return json_response([each.to_dict() for each in found], 200, degraded_header(found.degraded))


class Forgotten(ResponseModel):
    """The name of the local store that was forgotten."""

    forgotten: str


@integrity_router.post(
    "/local-stores/{name}/forget", response_model=Forgotten, summary="Forget a local store that is gone for good"
)
async def forget_local_store(dlq: OwnQueue, actor: Admin, name: str, body: ActionRequest) -> Response:
    """Forget a local store whose host or file is gone, with the letters that were in it."""
    by = acting_name(actor, body.by)
    await dlq.service(Integrity).forget_local_store(name, by=by, notes=body.notes)
    return json_response({"forgotten": name})


# --- dashboard

dashboard_router = Router(tag="dashboard", prefix="/dashboard")


class StateLine(ResponseModel):
    """The lifecycle tasks in one state, in numbers; and those that are in it longest."""

    current_state: str
    task_count: int
    avg_minutes_in_state: float
    max_minutes_in_state: float
    stale_over_1h: int
    stale_over_1day: int
    top_stale_tasks: list[str]


class MonthLine(ResponseModel):
    """The archive of one month, in numbers; null where its partition is detached."""

    month: str
    tasks_archived: int | None
    steps_archived: int | None
    lifecycle_tasks_archived: int | None
    archive_size: int | None


@dashboard_router.get("/dlq", response_model=list[ReasonLine], summary="Letters by reason", name="dlq")
async def dlq(dlq: Queue, actor: Viewer) -> Response:
    """Count as `/dlq/stats` does, most letters first."""
    lines = await dlq.service(Dashboard).dlq()
    return json_response(to_json(lines), 200, degraded_header(lines.degraded))


@dashboard_router.get("/staleness", response_model=list[StateLine], summary="What runs now, by state", name="staleness")
async def staleness(dlq: Queue, actor: Viewer) -> Response:
    """Count the lifecycle tasks in each state, and how long they are in it; most tasks of over an hour first."""
    lines = await dlq.service(Dashboard).staleness()
    return json_response(to_json(lines), 200, degraded_header(lines.degraded))


@dashboard_router.get("/archive", response_model=list[MonthLine], summary="The archive by month", name="archive")
async def archive(dlq: Queue, actor: Viewer) -> Response:
    """Count the archived letters and lifecycle tasks of each month, and their bytes; the latest first."""
    lines = await dlq.service(Dashboard).archive()
    return json_response(to_json(lines), 200, degraded_header(lines.degraded))


# --- health

health_router = Router(tag="health")


class HealthReport(ResponseModel):
    """The state of the queue."""

    status: Literal["ok", "degraded", "down"]
    detail: str
    kept_locally: int
    config_error: str | None = Field(description="Why the settings were not read again")


_DOWN: dict[int | str, dict[str, Any]] = {503: {"model": HealthReport, "description": "Nothing can be kept or read"}}


@health_router.get("/healthz", response_model=HealthReport, summary="Is the process alive?")
async def healthz(request: Request, dlq: OwnQueue) -> Response:
    """Answer 200 while it can answer; `degraded` means letters are kept locally, or the store is away."""
    return json_response(_health_json(dlq, await dlq.health(), request.scope["actor"]))


@health_router.get("/readyz", response_model=HealthReport, responses=_DOWN, summary="Can it work?")
async def readyz(request: Request, dlq: OwnQueue) -> Response:
    """Answer 200 for `ok` and `degraded`, in which nothing is lost; 503 for `down`."""
    health = await dlq.health()
    return json_response(_health_json(dlq, health, request.scope["actor"]), 503 if health.status == "down" else 200)


def _health_json(dlq: LetterQueue, health: Health, actor: Actor) -> dict[str, Any]:
    """Return the health as JSON. Details may name hosts and files, so only viewers get them."""
    may_look = actor.role >= Role.VIEWER
    return {
        "status": health.status,
        "detail": health.detail if may_look else "",
        "kept_locally": health.waiting,
        "config_error": dlq.context.config_error if may_look else None,
    }


@health_router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text"}},
    summary="The numbers, for Prometheus",
)
async def metrics(
    dlq: OwnQueue, actor: Annotated[Actor, Depends(require_role(Role.VIEWER, "reading metrics"))]
) -> Response:
    """Return lifetime numbers of the store. While it is away, `mahavishnu_dlq_store_up` is 0, and they are left out."""
    return Response(exposition(await dlq.service(Telemetry).collect()), 200, None, CONTENT_TYPE_LATEST)


# --- trends

trends_router = Router(tag="trends", prefix="/trends")


@fields_of(trends.HourCounts, "start arrived completed failed_again exhausted")
class Hour(ResponseModel):
    """The numbers of the hour that begins at `start`; the last one goes on."""


@fields_of(trends.Trend, "counted_at not_known degraded")
class HourList(ResponseModel):
    """The oldest hour first; `not_known` says what the numbers leave out."""

    hours: list[Hour]


@trends_router.get(
    "/hours", response_model=HourList, summary="What came in, succeeded, failed again and was exhausted, by hour"
)
async def by_hour(dlq: Queue, actor: Viewer, hours: int = HOURS) -> Response:
    """Count by hours of UTC; the store counts at most twice a minute."""
    found = await dlq.service(Trends).by_hour(hours)
    return json_response(to_json(found), 200, degraded_header(found.degraded))

"""The views of the dashboard over HTTP."""

from __future__ import annotations

from starlette.responses import Response

from mahavishnu.http.auth import Queue, Viewer
from mahavishnu.http.responses import degraded_header, json_response, to_json
from mahavishnu.http.routing import Router
from mahavishnu.http.schemas import ReasonLine, ResponseModel

router = Router(tag="dashboard", prefix="/dashboard")


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
    """What was archived of one month, in numbers; null where its partition is detached."""

    month: str
    tasks_archived: int | None
    steps_archived: int | None
    lifecycle_tasks_archived: int | None
    archive_size: int | None


@router.get("/dlq", response_model=list[ReasonLine], summary="Letters by reason", name="dlq")
async def dlq(dlq: Queue, actor: Viewer) -> Response:
    """The same as `/dlq/stats`, most letters first."""
    lines = await dlq.dashboard.dlq()
    return json_response(to_json(lines), 200, degraded_header(lines.degraded))


@router.get("/staleness", response_model=list[StateLine], summary="What runs now, by state", name="staleness")
async def staleness(dlq: Queue, actor: Viewer) -> Response:
    """How many lifecycle tasks are in each state, and for how long; the state with most of over an hour first."""
    lines = await dlq.dashboard.staleness()
    return json_response(to_json(lines), 200, degraded_header(lines.degraded))


@router.get("/archive", response_model=list[MonthLine], summary="The archive by month", name="archive")
async def archive(dlq: Queue, actor: Viewer) -> Response:
    """How many letters and lifecycle tasks are archived of each month, in how many bytes; the latest first."""
    lines = await dlq.dashboard.archive()
    return json_response(to_json(lines), 200, degraded_header(lines.degraded))

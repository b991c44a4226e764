"""Numbers by hour over HTTP."""

from __future__ import annotations

from starlette.responses import Response

from mahavishnu.core.queue import trends
from mahavishnu.core.queue.trends import HOURS
from mahavishnu.http.auth import Queue, Viewer
from mahavishnu.http.responses import degraded_header, json_response, to_json
from mahavishnu.http.routing import Router
from mahavishnu.http.schemas import ResponseModel, fields_of

router = Router(tag="trends", prefix="/trends")


@fields_of(trends.HourCounts, "start arrived completed failed_again exhausted")
class Hour(ResponseModel):
    """The numbers of the hour that begins at `start`; the last one goes on."""


@fields_of(trends.Trend, "counted_at not_known degraded")
class HourList(ResponseModel):
    """The oldest hour first; `not_known` says what the numbers leave out."""

    hours: list[Hour]


@router.get(
    "/hours", response_model=HourList, summary="What came in, succeeded, failed again and was exhausted, by hour"
)
async def by_hour(dlq: Queue, actor: Viewer, hours: int = HOURS) -> Response:
    """Of UTC; counted by the store, at most twice a minute."""
    found = await dlq.trends.by_hour(hours)
    return json_response(to_json(found), 200, degraded_header(found.degraded))

"""The live workers over HTTP."""

from __future__ import annotations

from starlette.responses import Response

from mahavishnu.http.auth import Queue, Viewer
from mahavishnu.http.responses import degraded_header, json_response
from mahavishnu.http.routing import Router
from mahavishnu.http.schemas import ResponseModel

router = Router(tag="workers")


class WorkerLine(ResponseModel):
    """A worker: its last sign of life, what it can run, and what it holds. Null is what it does not say.

    `live` is null where it cannot be told; one that has `ended` ran what was due, once.
    """

    name: str
    live: bool | None
    host: str | None
    pid: int | None
    started_at: str | None
    seen_at: str | None
    queues: list[str] | None
    adapters: list[str] | None
    takes_all: bool
    remote: bool
    ended: bool
    held: int
    holds: list[str]


@router.get("/workers", response_model=list[WorkerLine], summary="Who works on letters now", name="list")
async def list_workers(dlq: Queue, actor: Viewer) -> Response:
    """The live workers, and those that hold letters and give no sign of life. `holds` names some of what they hold."""
    workers = await dlq.workers.list()
    return json_response([each.to_dict() for each in workers], 200, degraded_header(workers.degraded))

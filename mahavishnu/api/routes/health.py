"""Health and metrics: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import Actor, OwnQueue, Role, require_role
from mahavishnu.http.responses import json_response
from mahavishnu.http.routing import Depends, Router
from mahavishnu.http.schemas import ResponseModel
from mahavishnu.stores.base import Health
from mahavishnu.telemetry.exposition import CONTENT_TYPE_LATEST, exposition

router = Router(tag="health")


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
    return Response(exposition(await dlq.telemetry.collect()), 200, None, CONTENT_TYPE_LATEST)

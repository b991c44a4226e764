"""Records that cannot be read, over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from mahavishnu.http.auth import OwnQueue, Viewer
from mahavishnu.http.responses import degraded_header, json_response
from mahavishnu.http.routing import Query, Router
from mahavishnu.http.schemas import RequestModel, ResponseModel

router = Router(tag="integrity", prefix="/integrity")


class UnreadableLine(ResponseModel):
    """A record that cannot be read."""

    kind: str
    key: str
    why: str


class IntegrityQuery(RequestModel):
    """At most how many of them."""

    limit: Annotated[int, Field(ge=1, le=100_000)] = 1000


@router.get("", response_model=list[UnreadableLine], summary="Records that cannot be read", name="list")
async def find_unreadable(dlq: OwnQueue, actor: Viewer, params: Annotated[IntegrityQuery, Query()]) -> Response:
    """Every record of the store is read once, of all namespaces: this takes time where there are many."""
    found = await dlq.integrity.find_unreadable(params.limit)
    return json_response([asdict(each) for each in found], 200, degraded_header(found.degraded))

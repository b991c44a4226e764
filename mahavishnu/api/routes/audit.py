"""The audit over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.auth import Queue, Viewer
from mahavishnu.api.responses import json_response, page_headers, to_json
from mahavishnu.api.routing import Query, Router
from mahavishnu.api.schemas import Instant, PageQuery, ResponseModel, fields_of
from mahavishnu.model.events import AuditEntry

router = Router(tag="audit")
Word = Annotated[str, Field(min_length=1, max_length=1000)]


@fields_of(AuditEntry, "entry_id at actor action subject outcome")
class AuditLine(ResponseModel):
    """Who did what, or tried to."""


class AuditQuery(PageQuery):
    """Which acts."""

    actor: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    action: Word | None = None
    subject: Word | None = None
    outcome: Literal["asked", "done", "refused"] | None = None
    since: Instant | None = None
    until: Instant | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


@router.get("/audit", response_model=list[AuditLine], summary="Who did what, newest first", name="list")
async def list_audit(request: Request, dlq: Queue, actor: Viewer, params: Annotated[AuditQuery, Query()]) -> Response:
    """Acts of people and rules, and those that were refused."""
    page = await dlq.audit.list(
        actor=params.actor,
        action=params.action,
        subject=params.subject,
        outcome=params.outcome,
        since=params.since,
        until=params.until,
        limit=params.limit,
        after=params.cursor,
    )
    return json_response([to_json(entry) for entry in page.items], 200, page_headers(request, page))

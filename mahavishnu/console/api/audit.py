"""The audit over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mahavishnu.console.api.access import Queue, Viewer
from mahavishnu.console.api.reading import answer, page_headers, plain
from mahavishnu.console.api.shapes import AuditLine, Moment

router = APIRouter(tags=["audit"])
Word = Annotated[str | None, Query(min_length=1, max_length=1000)]


@router.get("/audit", response_model=list[AuditLine], summary="Who did what, newest first")
async def listed(
    request: Request,
    dlq: Queue,
    actor: Viewer,
    who: Annotated[str | None, Query(alias="actor", min_length=1, max_length=500)] = None,
    action: Word = None,
    subject: Word = None,
    outcome: Literal["asked", "done", "refused"] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=10_000)] = None,
) -> Response:
    """Acts of people and rules, and those that were refused."""
    page = await dlq.list_audit(
        actor=who,
        action=action,
        subject=subject,
        outcome=outcome,
        since=since,
        until=until,
        limit=limit,
        after=cursor,
    )
    return answer([plain(entry) for entry in page.items], 200, page_headers(request, page))

"""The audit over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from mahavishnu.api.auth import Queue, Viewer
from mahavishnu.api.responses import answer, page_headers, plain
from mahavishnu.api.schemas import AuditLine, Moment, PageAsked

router = APIRouter(tags=["audit"])
Word = Annotated[str, Field(min_length=1, max_length=1000)]


class ActsAsked(PageAsked):
    """Which acts."""

    actor: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    action: Word | None = None
    subject: Word | None = None
    outcome: Literal["asked", "done", "refused"] | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


@router.get("/audit", response_model=list[AuditLine], summary="Who did what, newest first")
async def listed(request: Request, dlq: Queue, actor: Viewer, asked: Annotated[ActsAsked, Query()]) -> Response:
    """Acts of people and rules, and those that were refused."""
    page = await dlq.list_audit(
        actor=asked.actor,
        action=asked.action,
        subject=asked.subject,
        outcome=asked.outcome,
        since=asked.since,
        until=asked.until,
        limit=asked.limit,
        after=asked.cursor,
    )
    return answer([plain(entry) for entry in page.items], 200, page_headers(request, page))

"""The audit over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.http.auth import OwnQueue, Viewer
from mahavishnu.http.responses import json_response, page_headers, to_json
from mahavishnu.http.routing import Query, Router
from mahavishnu.http.schemas import Instant, NamespacePageQuery, ResponseModel, fields_of
from mahavishnu.model.events import AuditEntry
from mahavishnu.model.ids import DEFAULT_NAMESPACE

router = Router(tag="audit")
Word = Annotated[str, Field(min_length=1, max_length=1000)]


@fields_of(AuditEntry, "entry_id at actor action subject outcome")
class AuditLine(ResponseModel):
    """An act of a person or a rule, or an attempt at one."""


class AuditQuery(NamespacePageQuery):
    """The filters of the list."""

    actor: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    action: Word | None = None
    subject: Word | None = None
    outcome: Literal["asked", "done", "refused"] | None = None
    since: Instant | None = None
    until: Instant | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


@router.get("/audit", response_model=list[AuditLine], summary="Who did what, newest first", name="list")
async def list_audit(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[AuditQuery, Query()]
) -> Response:
    """List acts of people and rules, and those that were refused."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)
    page = await dlq.audit.list(**params.model_dump(exclude={"namespace", "cursor"}), after=params.cursor)
    shown = [{**to_json(entry), "namespace": entry.namespace or DEFAULT_NAMESPACE} for entry in page.items]
    return json_response(shown, 200, page_headers(request, page))

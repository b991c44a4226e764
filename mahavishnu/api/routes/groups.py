"""Groups of letters over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import Field
from starlette.responses import Response

from mahavishnu.api.auth import Actor, Queue, Role, Viewer, by, needs
from mahavishnu.api.errors import documented
from mahavishnu.api.responses import answer, changed_since, etag, named, page_headers
from mahavishnu.api.schemas import Group, GroupEdit, PageAsked, Released, ReleaseHold

Operator = Annotated[Actor, Depends(needs(Role.OPERATOR, "changing groups"))]
router = APIRouter(tags=["groups"], prefix="/groups")


class GroupsAsked(PageAsked):
    """Which groups, and which of them first."""

    state: Literal["new", "investigating", "waiting_for_fix", "ready_to_redrive", "resolved", "wont_fix"] | None = None
    owner: Annotated[str | None, Field(max_length=500)] = None
    on_hold: bool | None = None
    quiet: Annotated[
        bool, Field(description="Also those that nobody has to look at now; with a state they are there")
    ] = False
    sort: Literal["count", "last_seen", "growth"] = "count"


@router.get("", response_model=list[Group], summary="Groups of letters with the same cause")
async def listed(request: Request, dlq: Queue, actor: Viewer, asked: Annotated[GroupsAsked, Query()]) -> Response:
    """The largest first, or those that grow, or the latest."""
    page = await dlq.groups(
        state=asked.state,
        owner=asked.owner,
        on_hold=asked.on_hold,
        quiet=asked.quiet or asked.state is not None,
        sort=asked.sort,
        limit=asked.limit,
        after=asked.cursor,
    )
    headers = {"X-Ungrouped": str(page.ungrouped), **page_headers(request, page)}
    return answer([view.to_dict() for view in page.items], 200, headers)


@router.get("/{fingerprint}", response_model=Group, responses=documented(404), summary="One group")
async def one(dlq: Queue, actor: Viewer, fingerprint: str) -> Response:
    """With its numbers by hour, a sample, and what people have said."""
    view = await dlq.group(named(fingerprint))
    return answer(view.to_dict(), 200, {"ETag": etag(view.version)})


@router.patch(
    "/{fingerprint}", response_model=Group, responses=documented(404, 409, 412), summary="Say something of it"
)
async def update(
    dlq: Queue,
    actor: Operator,
    fingerprint: str,
    asked: GroupEdit,
    if_match: Annotated[str | None, Header()] = None,
) -> Response:
    """State, owner, a note, a link, a hold. With If-Match, a group that has changed since is left as it is."""
    changes: dict[str, Any] = asked.model_dump(exclude_unset=True)
    changes.pop("by", None)
    base = None
    if if_match is not None:
        base = await dlq.group(named(fingerprint))
        if refusal := changed_since(if_match, base.version, "the group"):
            return refusal
    view = await dlq.update_group(named(fingerprint), by=by(actor, asked.by), base=base, **changes)
    return answer(view.to_dict(), 200, {"ETag": etag(view.version)})


@router.post("/releases/{release}", response_model=Released, summary="A release is out")
async def released(dlq: Queue, actor: Operator, release: str, asked: ReleaseHold | None = None) -> Response:
    """Groups that were on hold for it are not any more."""
    return answer({"released": await dlq.release_hold(named(release), by=by(actor, asked.by if asked else None))})

"""Groups of letters over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.groups.rules import GroupView
from mahavishnu.groups.service import Groups, group_document, groups_document
from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import decode_id, etag, json_response, problem_responses, refuse_if_changed, to_json
from mahavishnu.http.routing import Depends, Header, Query, Router
from mahavishnu.http.schemas import Instant, Name, NamespacePageQuery, RequestModel, ResponseModel, Text, fields_of
from mahavishnu.letters.reads import SAMPLE
from mahavishnu.letters.routes import CommonalityList

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "changing groups"))]
router = Router(tag="groups", prefix="/groups")
State = Literal["new", "investigating", "waiting_for_fix", "ready_to_redrive", "resolved", "wont_fix"]


@fields_of(GroupView, "count total first_seen last_seen last_hour last_day day_before on_hold")
class Group(ResponseModel):
    """Letters with one fingerprint."""

    fingerprint: str
    state: str
    regression: bool
    owner: str | None


class GroupEdit(RequestModel):
    """Changes of a group. Omit what stays; null removes an owner or a hold."""

    state: State | None = None
    owner: Name | None = None
    note: Text | None = None
    link: Annotated[StrictStr, Field(min_length=1, max_length=2000)] | None = None
    hold_until: Instant | None = None
    hold_release: Name | None = None
    by: Name | None = None


class ReleaseHold(RequestModel):
    """The release is out."""

    by: Name | None = None


class ReleaseResult(ResponseModel):
    """The fingerprints of the groups that waited for it."""

    released: list[str]


class GroupQuery(NamespacePageQuery):
    """Filters and order of groups."""

    state: State | None = None
    owner: Annotated[str | None, Field(max_length=500)] = None
    on_hold: bool | None = None
    quiet: Annotated[
        bool, Field(description="Also those that nobody has to look at now; with a state they are there")
    ] = False
    sort: Literal["count", "last_seen", "growth"] = "count"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Groups.list`."""
        given = self.model_dump(exclude={"namespace", "cursor"})
        return {**given, "quiet": self.quiet or self.state is not None, "after": self.cursor}


@router.get("", response_model=list[Group], summary="Groups of letters with the same cause", name="list")
async def list_groups(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[GroupQuery, Query()]
) -> Response:
    """Return groups, by count, growth, or last letter."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)
    given = params.arguments()
    return (await groups_document(dlq, cursor=given.pop("after"), **given)).response(request)


@router.get("/{fingerprint}", response_model=Group, responses=problem_responses(404), summary="One group")
async def one(request: Request, dlq: Queue, actor: Viewer, fingerprint: str) -> Response:
    """Return a group with its numbers by hour, a sample, notes and links."""
    return (await group_document(dlq, decode_id(fingerprint))).response(request)


@router.get(
    "/{fingerprint}/commonalities",
    response_model=CommonalityList,
    responses=problem_responses(404),
    summary="What the letters of a group have in common, and others do not have",
)
async def common_values(dlq: Queue, actor: Viewer, fingerprint: str, sample: int = SAMPLE) -> Response:
    """Return values of tasks and metadata, repos, workers and hours, without masked ones, the most telling first."""
    found = await dlq.service(Groups).commonalities(decode_id(fingerprint), sample=sample)
    return json_response(to_json(found))


@router.patch(
    "/{fingerprint}", response_model=Group, responses=problem_responses(404, 409, 412), summary="Say something of it"
)
async def update(
    dlq: Queue, actor: Operator, fingerprint: str, body: GroupEdit, if_match: Annotated[str | None, Header()] = None
) -> Response:
    """Set state, owner, a note, a link, a hold. With If-Match, a group that has changed since stays as it is."""
    changes: dict[str, Any] = body.model_dump(exclude_unset=True)
    changes.pop("by", None)
    base = None
    if if_match is not None:
        base = await dlq.service(Groups).get(decode_id(fingerprint))
        if refusal := refuse_if_changed(if_match, base.version, "the group"):
            return refusal
    view = await dlq.service(Groups).update(
        decode_id(fingerprint), by=acting_name(actor, body.by), base=base, **changes
    )
    return json_response(view.to_dict(), 200, {"ETag": etag(view.version)})


@router.post("/releases/{release}", response_model=ReleaseResult, summary="A release is out")
async def release_hold(dlq: Queue, actor: Operator, release: str, body: ReleaseHold | None = None) -> Response:
    """End the hold of groups that wait for this release."""
    who = acting_name(actor, body.by if body else None)
    return json_response({"released": await dlq.service(Groups).release_hold(decode_id(release), by=who)})

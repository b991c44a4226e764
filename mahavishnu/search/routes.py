"""The query language and saved views over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt, StrictStr
from starlette.responses import Response

from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import decode_id, etag, json_response, problem_responses, refuse_if_changed, to_json
from mahavishnu.http.routing import Depends, Header, Router
from mahavishnu.http.schemas import Name, RequestModel, ResponseModel, fields_of
from mahavishnu.model.query import LONGEST_TEXT
from mahavishnu.search import rules as views
from mahavishnu.search.completion import Suggestion as Completion
from mahavishnu.search.service import MOST_SUGGESTIONS, NamespaceCount, Search
from mahavishnu.search.views import Views

query_router = Router(tag="query", prefix="/query")
Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "saving views"))]
IfMatch = Annotated[str | None, Header(description="The ETag of the view as you read it, or * for any")]
IfNoneMatch = Annotated[str | None, Header(description="* has only a new view saved")]
router = Router(tag="views", prefix="/views")
_NO_VIEW = problem_responses(404)


@fields_of(Completion, "text about letters")
class Suggestion(ResponseModel):
    """One text for the place; `letters`: how many letters have the value, where that was counted."""


class SuggestionList(ResponseModel):
    """Texts for the characters from `start` to `end`, the best first."""

    start: int
    end: int
    items: list[Suggestion]


@query_router.get("/suggest", response_model=SuggestionList, summary="What can be written next in a query")
async def suggest(
    dlq: Queue, actor: Viewer, text: str = "", position: int | None = None, limit: int = MOST_SUGGESTIONS
) -> Response:
    """Suggest names, values of fixed sets, and values that letters have, which are counted at most twice a minute."""
    found = await dlq.service(Search).suggest(text, position, limit=limit)
    return json_response(to_json(found))


@fields_of(NamespaceCount, "open for_people")
class Namespace(ResponseModel):
    """A namespace that has letters: how many are open, and how many of those need a person."""

    name: str


@query_router.get("/namespaces", response_model=list[Namespace], summary="The namespaces that have letters")
async def namespaces(dlq: OwnQueue, actor: Viewer) -> Response:
    """List the namespaces that the caller may see; `/ns/<name>/` before a path means another one of them."""
    return json_response(to_json(await dlq.service(Search).namespaces()))


@fields_of(views.SavedView, "name text sort place saved_by saved_at created_at namespace")
class View(ResponseModel):
    """A query text with a name."""


class ViewEdit(RequestModel):
    """The content of a view."""

    text: Annotated[StrictStr, Field(max_length=LONGEST_TEXT)]
    sort: Literal["newest", "oldest", "updated", "due", "priority"] = "newest"
    place: StrictInt = Field(default=0, description="In the list: views come by their place, then by name")
    by: Name | None = None


class ViewDelete(RequestModel):
    """The name of the person who deletes it."""

    by: Name | None = None


@router.get("", response_model=list[View], summary="Saved views", name="list")
async def list_views(dlq: Queue, actor: Viewer) -> Response:
    """List all of them, in their order."""
    return json_response([view.to_dict() for view in await dlq.service(Views).list()])


@router.get("/{name}", response_model=View, responses=_NO_VIEW, summary="One view")
async def one(dlq: Queue, actor: Viewer, name: str) -> Response:
    """Return one view, with the ETag that saving it wants."""
    view = await dlq.service(Views).get(decode_id(name))
    return json_response(view.to_dict(), 200, {"ETag": etag(view.version)})


@router.post("/{name}", response_model=View, responses=problem_responses(404, 412), summary="Save a view")
async def save(
    dlq: Queue, actor: Operator, name: str, body: ViewEdit, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Save a view in the place of any other with the name; with If-Match only if that is as you read it."""
    base = None if if_match is None else await dlq.service(Views).get(decode_id(name))
    if base is not None and (refusal := refuse_if_changed(if_match or "", base.version, f"view {base.name!r}")):
        return refusal
    by, new, place = acting_name(actor, body.by), if_none_match == "*", body.place
    views = dlq.service(Views)
    view = await views.save(decode_id(name), body.text, by=by, sort=body.sort, place=place, base=base, new=new)
    return json_response(view.to_dict(), 200, {"ETag": etag(view.version)})


@router.delete("/{name}", response_model=View, responses=problem_responses(404, 412), summary="Delete a view")
async def delete(
    dlq: Queue, actor: Operator, name: str, body: ViewDelete | None = None, if_match: IfMatch = None
) -> Response:
    """Delete a view and return what it was."""
    base = None if if_match is None else await dlq.service(Views).get(decode_id(name))
    if base is not None and (refusal := refuse_if_changed(if_match or "", base.version, f"view {base.name!r}")):
        return refusal
    by = acting_name(actor, body.by if body else None)
    return json_response((await dlq.service(Views).delete(decode_id(name), by=by, base=base)).to_dict())

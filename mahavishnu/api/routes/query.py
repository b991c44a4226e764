"""The query language over HTTP: what can be written next."""

from __future__ import annotations

from starlette.responses import Response

from mahavishnu.core.queue.search import MOST_SUGGESTIONS, NamespaceCount
from mahavishnu.http.auth import OwnQueue, Queue, Viewer
from mahavishnu.http.responses import json_response, to_json
from mahavishnu.http.routing import Router
from mahavishnu.http.schemas import ResponseModel, fields_of
from mahavishnu.model.query_completion import Suggestion as Completion

router = Router(tag="query", prefix="/query")


@fields_of(Completion, "text about letters")
class Suggestion(ResponseModel):
    """One text that can stand there; `letters`: how many letters have the value, where that was counted."""


class SuggestionList(ResponseModel):
    """What can be put in place of the characters from `start` to `end`, the best first."""

    start: int
    end: int
    items: list[Suggestion]


@router.get("/suggest", response_model=SuggestionList, summary="What can be written next in a query")
async def suggest(
    dlq: Queue, actor: Viewer, text: str = "", position: int | None = None, limit: int = MOST_SUGGESTIONS
) -> Response:
    """Names, and values: of fixed sets, and those that letters have, which are counted twice a minute at most."""
    found = await dlq.search.suggest(text, position, limit=limit)
    return json_response(to_json(found))


@fields_of(NamespaceCount, "open for_people")
class Namespace(ResponseModel):
    """A namespace that has letters: how many are open, and how many of those nothing will run by itself."""

    name: str


@router.get("/namespaces", response_model=list[Namespace], summary="The namespaces that have letters")
async def namespaces(dlq: OwnQueue, actor: Viewer) -> Response:
    """Those that who asks may see; `/ns/<name>/` before a path means another one of them."""
    return json_response(to_json(await dlq.search.namespaces()))

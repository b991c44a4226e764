"""The query language over HTTP: what can be written next."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from mahavishnu.api.auth import Queue, Viewer
from mahavishnu.api.responses import json_response, to_json
from mahavishnu.api.routing import Query, Router
from mahavishnu.api.schemas import RequestModel, ResponseModel, fields_of
from mahavishnu.core.queue.search import MOST_SUGGESTIONS
from mahavishnu.model.query_completion import Suggestion as Completion
from mahavishnu.model.query_text import LONGEST_TEXT

router = Router(tag="query", prefix="/query")


class SuggestQuery(RequestModel):
    """An unfinished query, and where in it somebody writes."""

    text: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""
    position: Annotated[int | None, Field(ge=0, le=LONGEST_TEXT, description="Of the cursor; at the end without")] = (
        None
    )
    limit: Annotated[int, Field(ge=1, le=100)] = MOST_SUGGESTIONS


@fields_of(Completion, "text about letters")
class Suggestion(ResponseModel):
    """One text that can stand there; `letters`: how many letters have the value, where that was counted."""


class SuggestionList(ResponseModel):
    """What can be put in place of the characters from `start` to `end`, the best first."""

    start: int
    end: int
    items: list[Suggestion]


@router.get("/suggest", response_model=SuggestionList, summary="What can be written next in a query")
async def suggest(dlq: Queue, actor: Viewer, params: Annotated[SuggestQuery, Query()]) -> Response:
    """Names, and values: of fixed sets, and those that letters have, which are counted twice a minute at most."""
    found = await dlq.search.suggest(params.text, params.position, limit=params.limit)
    return json_response(to_json(found))

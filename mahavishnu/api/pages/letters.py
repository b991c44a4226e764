"""The list of letters: a query, the rows that it means, and what can be done with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.pages.overview import read_or_none
from mahavishnu.api.routes.letters import PAGE_BYTES, SORTS
from mahavishnu.console.console import console_of, show
from mahavishnu.console.forms import Form, read_form
from mahavishnu.console.frame import Link, Number, Said
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import Actor, OwnQueue, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import as_query
from mahavishnu.http.routing import Depends, Router
from mahavishnu.http.routing import Query as Parameters
from mahavishnu.http.schemas import LetterQuery
from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.letter import DeadLetter
from mahavishnu.search.rules import SavedView
from mahavishnu.search.service import LetterCount
from mahavishnu.stores.base import Cursor, Page

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "saving views"))]
OPEN = "is:open"
VIEWS = (
    ("Open", OPEN),
    ("Wait for a person", "is:open -has:due"),
    ("Retried by themselves", "status:pending has:due"),
    ("Running", "status:retrying"),
    ("Closed", "is:closed"),
    ("All", ""),
)
router = Router(tag="letters", documented=False)


async def count_open(dlq: DeadLetterQueue) -> Number:
    """How many letters are open."""
    counted = await dlq.search.count(dlq.search.query(OPEN))
    return Number(counted.number, least=counted.degraded is not None)


LINK = Link("letters", "Letters", "Now", first=True, key="l", number=count_open)


@dataclass(frozen=True, slots=True)
class LettersView:
    """One page of letters; `problem` says what is wrong with the query, and nothing is listed then."""

    q: str
    params: LetterQuery
    page: Page[DeadLetter] | None = None
    count: LetterCount | None = None
    problem: str | None = None
    saved: Sequence[SavedView] = ()

    @property
    def headline(self) -> str:
        """What is listed."""
        return next((name for name, text in VIEWS if text == self.q), "Letters") if self.is_view else "Letters"

    @property
    def is_view(self) -> bool:
        """Whether this is one of the views above the list, and no query of somebody's own."""
        return self.q in [text for _, text in VIEWS] and not self.others

    @property
    def others(self) -> Mapping[str, Any]:
        """The filters beside the text of the query."""
        given = self.params.model_dump(mode="json", exclude_defaults=True)
        return {name: value for name, value in given.items() if name not in ("q", "cursor", "limit", "sort", "offset")}

    def url(self, **changes: Any) -> str:
        """This list with other parameters; None leaves one out."""
        wanted = {"q": self.q, **self.others, "sort": self.params.sort, "limit": self.params.limit, **changes}
        if wanted["sort"] == "newest":
            del wanted["sort"]
        if wanted["limit"] == LetterQuery.model_fields["limit"].default:
            del wanted["limit"]
        return f"letters?{urlencode({name: value for name, value in wanted.items() if value is not None}, doseq=True)}"

    def without(self, name: str) -> str:
        """This list without one of the filters beside the text."""
        return self.url(**{name: None})


@router.get("/letters")
async def letters_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[LetterQuery, Parameters()]
) -> Response:
    """Letters that a query means; the open ones if there is none."""
    named = params.model_dump(exclude_defaults=True)
    only_paging = not {*named} - {"cursor", "limit", "sort", "offset"}
    q = params.q if params.q is not None else (OPEN if only_paging and "q" not in request.query_params else "")
    try:
        query = as_query(
            params.model_copy(update={"q": q}), dlq.clock.now(), limit=params.limit, sort=SORTS[params.sort]
        )
        after = None if params.cursor is None else Cursor.parse(params.cursor)

        async def read() -> LettersView:
            page, count, saved = await asyncio.gather(
                dlq.letters.find(query, after, most_bytes=PAGE_BYTES, payloads=False),
                dlq.search.count(query),
                read_or_none(dlq.views.list()),
            )
            return LettersView(q, params, page, count, None, saved or ())

        found = await console_of(request).share(request, dlq, "letters", read, q, params.model_dump_json())
    except InvalidQuery as problem:
        saved = await read_or_none(dlq.views.list()) or ()
        return await show(request, "letters.html", LettersView(q, params, None, None, str(problem), saved), status=422)
    return await show(request, "letters.html", found.value, recent=found)


@router.post("/letters/views")
async def save_view(
    request: Request, dlq: OwnQueue, actor: Operator, form: Annotated[Form, Depends(read_form)]
) -> Response:
    """Save a query under a name, for everybody; or delete the view of that name."""
    name, text, by = form.text("name").strip(), form.text("q"), acting_name(actor, None)
    if form.text("act") == "delete":
        await dlq.views.delete(name, by=by)
        said = f"The view {name} is deleted."
    else:
        await dlq.views.save(name, text, by=by, sort=form.text("sort") or "newest")
        said = f"Saved as {name}, for everybody."
    return console_of(request).go(request, f"letters?{urlencode({'q': text})}", Said(said))

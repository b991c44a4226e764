"""What would happen to the letters of a selection, and the button that has it done."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.bulk.routes import Operator
from mahavishnu.bulk.service import BulkRuns, RunPreview
from mahavishnu.console.console import console_of, show
from mahavishnu.console.forms import Form, FormFields, patch_of
from mahavishnu.console.frame import Said
from mahavishnu.console.words import plural
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import OwnQueue, Viewer, acting_name
from mahavishnu.http.routing import Query, Router
from mahavishnu.http.schemas import Filter
from mahavishnu.letters.verbs import MOVES_OF_MANY
from mahavishnu.letters.verbs import Verb as LetterVerb
from mahavishnu.model import query as queries
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.record import Value
from mahavishnu.search.rules import as_query

VERBS: Mapping[str, LetterVerb] = {verb.name: verb for verb in MOVES_OF_MANY}
if TYPE_CHECKING:
    Verb: TypeAlias = str
else:
    Verb = Literal[tuple(VERBS)]
STOP_PERCENT = 20
router = Router(tag="selection", documented=False)


class SelectionQuery(Filter):
    """A verb, and the letters that it is for: some that were marked, or all that a filter means."""

    verb: Verb = "redrive"
    entry_id: Annotated[list[str], Field(max_length=1000, default_factory=list)]


class SelectionView(Value, frozen=True):
    """A selection, and what the verb would do to it now."""

    params: SelectionQuery
    fields: Sequence[tuple[str, str]]
    preview: RunPreview
    idempotency_key: str
    problem: str | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """The name of the verb."""
        return VERBS[self.params.verb].title

    @property
    def meaning(self) -> str:
        """The effect on the letters."""
        return VERBS[self.params.verb].effect

    @property
    def is_grave(self) -> bool:
        return VERBS[self.params.verb].is_grave

    @property
    def waves(self) -> str:
        """The sizes of the waves, as text."""
        first = [plural(size, "letter") if place == 0 else str(size) for place, size in enumerate(self.preview.ramp)]
        rest = self.preview.eligible - sum(self.preview.ramp)
        return ", then ".join([*first, f"the other {rest:,}"]) if rest > 0 else ", then ".join(first)


def query_of(params: SelectionQuery, dlq: LetterQueue) -> queries.Query:
    """Return the query of the selection. Raise InvalidQuery."""
    query = as_query(vars(params), dlq.clock.now())
    if not params.entry_id:
        return query
    return queries.Query((*query.where, queries.Is("entry_id", tuple(params.entry_id))), query.sort, query.limit)


@router.get("/selection")
async def selection_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[SelectionQuery, Query()]
) -> Response:
    """Show what the verb would do to these letters; nothing is changed."""
    return await _show(request, dlq, params)


@router.post("/selection")
async def act(request: Request, dlq: OwnQueue, actor: Operator, form: FormFields) -> Response:
    """Begin a bulk run over the selection."""
    own = {"form_token", "idempotency_key", "typed", "matched", "reason", "ramp", "stop_percent", "max_per_second"}
    given: dict[str, Any] = {
        name: list(values) if name == "entry_id" or len(values) > 1 else values[-1]
        for name, values in form.fields.items()
        if name not in own
    }
    try:
        params = SelectionQuery.model_validate(given)
    except ValidationError as invalid:
        raise InvalidInput(f"this is no selection: {invalid.error_count()} of its fields are wrong") from None
    reason = form.optional("reason")
    if VERBS[params.verb].is_grave and form.text("typed").replace(",", "").strip() != form.text("matched"):
        return await _show(request, dlq, params, "The number is not the one above. Nothing was done.", reason or "")
    try:
        ramp, stop, pace = read_pace(form)
        run = await dlq.service(BulkRuns).start(
            params.verb,
            query_of(params, dlq),
            by=acting_name(actor, None),
            reason=reason,
            ramp=ramp if params.verb == "redrive" else None,
            stop_percent=stop if params.verb == "redrive" else None,
            max_per_second=pace,
            everything=True,
        )
    except InvalidInput as problem:
        return await _show(request, dlq, params, f"{problem}", reason or "")
    said = Said(f"{VERBS[params.verb].title} of {plural(int(form.text('matched') or 0), 'letter')} has begun.")
    namespace = run.namespace or DEFAULT_NAMESPACE  # the query may name another one
    where = "" if namespace == console_of(request).namespace_of(request) else f"?{urlencode({'namespace': namespace})}"
    return console_of(request).go(request, f"runs/{run.run_id}{where}", said)


async def _show(
    request: Request, dlq: LetterQueue, params: SelectionQuery, problem: str | None = None, reason: str = ""
) -> Response:
    stop = STOP_PERCENT if params.verb == "redrive" else None
    preview = await dlq.service(BulkRuns).preview(
        params.verb, query_of(params, dlq), stop_percent=stop, everything=True
    )
    given = params.model_dump(mode="json", exclude_unset=True)
    fields = [
        (name, str(each))
        for name, value in given.items()
        if value is not None
        for each in (value if isinstance(value, list) else [value])
    ]
    view = SelectionView(params, fields, preview, secrets.token_urlsafe(16), problem, reason)
    return await show(request, "selection.html", view, status=422 if problem else 200)


def read_fix(form: Form) -> dict[str, Any]:
    """Return the options of a redrive with a patch that a form has. Raise InvalidInput."""
    patch, (ramp, stop, pace) = (
        patch_of(list(zip(form.texts("path"), form.texts("value"), strict=False))),
        read_pace(form),
    )
    options = {"ramp": ramp, "stop_percent": stop, "max_per_second": pace}
    return {**options, "patch": patch or None, "create": bool(form.text("create"))}


def read_pace(form: Form) -> tuple[Sequence[int] | None, float | None, float | None]:
    """Return first waves, percent and pace of a form. Raise InvalidInput for invalid numbers."""
    try:
        waves = [int(part) for part in form.text("ramp").replace(",", " ").split()]
        stop = form.optional("stop_percent")
        pace = form.optional("max_per_second")
        return waves or None, None if stop is None else float(stop), None if pace is None else float(pace)
    except ValueError:
        raise InvalidInput("waves are whole numbers with commas between them; percent and pace are numbers") from None


class Fix(Value, frozen=True):
    """A fix as somebody has written it so far, and what it would do."""

    rows: Sequence[tuple[str, str]] = ()
    create: bool = False
    ramp: str = "1, 5"
    stop_percent: str = str(STOP_PERCENT)
    max_per_second: str = ""
    reason: str = ""
    before: str = ""  #: letters that were written later are not meant
    preview: RunPreview | None = None
    problem: str | None = None

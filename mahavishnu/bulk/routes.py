"""Bulk runs over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

from pydantic import Field, StrictBool, StrictFloat, StrictInt
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.bulk import run as bulk_run
from mahavishnu.bulk.members import VERBS
from mahavishnu.bulk.run import BulkRun
from mahavishnu.bulk.service import BulkRuns
from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, Viewer, acting_name, get_service, require_role
from mahavishnu.http.responses import json_response, letter_json, next_link, page_headers, problem_responses, to_json
from mahavishnu.http.routing import Depends, Query, Router
from mahavishnu.http.schemas import (
    Difference,
    Filter,
    Name,
    NamespacePageQuery,
    RequestModel,
    ResponseModel,
    Text,
    fields_of,
)
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter_parts import UNCHANGED, Unchanged
from mahavishnu.search.rules import as_query

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "handling bulk runs"))]
Runs = Annotated[BulkRuns, Depends(get_service(BulkRuns))]
_NO_RUN = problem_responses(404)
router = Router(tag="runs", prefix="/runs")
if TYPE_CHECKING:
    Verb: TypeAlias = str
else:
    Verb = Literal[tuple(VERBS)]
Percent = Annotated[StrictFloat | StrictInt, Field(ge=0, le=100)]


class NewRun(RequestModel):
    """A bulk run: which letters, and what is to become of them. A preview takes it as it is."""

    verb: Verb
    filter: Filter = Field(default_factory=Filter)
    everything: StrictBool = Field(default=False, description="Every letter is meant: needed where there is no filter")
    patch: dict[str, Any] | None = Field(default=None, description="A merge patch (RFC 7386) on each letter's task")
    create: StrictBool = Field(default=False, description="The patch may make places that none of the letters has")
    redrive: StrictBool = Field(default=False, description="After an edit, run again")
    ramp: Annotated[list[Annotated[StrictInt, Field(ge=1, le=1_000_000)]], Field(max_length=20)] | None = Field(
        default=None,
        description="Sizes of the first waves, then all the rest; where there is a stop rule 1, 5, 25; []: all at once",
    )
    max_per_second: Annotated[StrictFloat | StrictInt, Field(gt=0, le=1_000_000)] | None = None
    stop_percent: Percent | None = Field(
        default=None, description="Halt when more than so many percent fail again; for redrives"
    )
    reason: Text | None = None
    by: Name | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of the run."""
        return self.model_dump(exclude={"verb", "filter", "reason", "by"})


class RunAction(RequestModel):
    """Why a run is paused, resumed or cancelled."""

    reason: Text | None = None
    by: Name | None = None


class ResumeRequest(RunAction):
    """Continuing a run: with its own stop rule, another one, or none (null)."""

    stop_percent: Percent | None = None


@fields_of(
    BulkRun,
    "run_id verb state by reason created_at updated_at finished_at halted_because ramp max_per_second stop_percent",
)
class Run(ResponseModel):
    """A bulk run as it stands."""

    namespace: str
    counts: dict[str, int]


@fields_of(bulk_run.RunItem, "key entry_id state why outcome")
class RunItem(ResponseModel):
    """One member of a run and what became of it."""


class SampleChange(ResponseModel):
    """The changes of a patch in the task of one letter."""

    key: str
    diff: list[Difference]


class RunPreview(ResponseModel):
    """The preview of a run."""

    matched: int
    eligible: int
    ineligible: dict[str, int]
    ramp: list[int]
    changes: list[SampleChange] = Field(description="What a patch would do to some of the letters")
    unknown_paths: list[str] = Field(description="Places of the patch that none of the letters has")
    refused: str | None = Field(description="Why the run would not be started")


class RunQuery(NamespacePageQuery):
    """Filters of runs."""

    state: Literal["planning", "running", "paused", "halted", "cancelled", "done"] | None = None


class RunItemQuery(NamespacePageQuery):
    """Filters of a run's members."""

    state: Literal["waiting", "moved", "refused", "gone"] | None = None
    outcome: Literal["succeeded", "failed_again", "closed"] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


@router.post("/preview", response_model=RunPreview, summary="What a run would do")
async def preview(dlq: Queue, actor: Viewer, body: NewRun) -> Response:
    """Return the letters of a run, how many of them cannot be moved and why, and its waves. Nothing is changed."""
    seen = await dlq.service(BulkRuns).preview(
        body.verb, as_query(vars(body.filter), dlq.context.clock.now()), **body.options
    )
    return json_response({**to_json(seen), "samples": [letter_json(letter) for letter in seen.samples]})


@router.post("", status_code=202, response_model=Run, summary="Begin a run")
async def begin(request: Request, dlq: Queue, actor: Operator, body: NewRun) -> Response:
    """Start a run. The workers carry it out, even if this server stops; its Location shows the progress."""
    query, by = as_query(vars(body.filter), dlq.context.clock.now()), acting_name(actor, body.by)
    run = await dlq.service(BulkRuns).start(body.verb, query, by=by, reason=body.reason, **body.options)
    shown, own = run_json(run), request.app.state.dlq.namespace
    there = "" if shown["namespace"] == own else f"?{urlencode({'namespace': shown['namespace']})}"
    return json_response(shown, 202, {"Location": f"{request.url.path.rstrip('/')}/{run.run_id}{there}"})


@router.get("", response_model=list[Run], summary="Runs, newest first", name="list")
async def list_runs(request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[RunQuery, Query()]) -> Response:
    """Return a page of runs."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)
    page = await dlq.service(BulkRuns).list(params.state, limit=params.limit, after=params.cursor)
    return json_response([run_json(run) for run in page.items], 200, page_headers(request, page))


@router.get("/{run_id}", response_model=Run, responses=_NO_RUN, summary="One run")
async def one(runs: Runs, actor: Viewer, run_id: str) -> Response:
    """Return the present state of a run."""
    return json_response(run_json(await runs.get(run_id)))


@router.get("/{run_id}/items", response_model=list[RunItem], responses=_NO_RUN, summary="The members of a run")
async def items(
    request: Request, dlq: OwnQueue, actor: Viewer, run_id: str, params: Annotated[RunItemQuery, Query()]
) -> Response:
    """Return each letter of the run, with its state and outcome."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)
    page = await dlq.service(BulkRuns).items(
        run_id, state=params.state, outcome=params.outcome, limit=params.limit, after=params.cursor
    )
    headers = {"Link": next_link(request, str(page.next))} if page.next is not None else {}
    return json_response([to_json(item) for item in page.items], 200, headers)


@router.post("/{run_id}/pause", response_model=Run, responses=problem_responses(404, 409), summary="Pause a run")
async def pause(runs: Runs, actor: Operator, run_id: str, body: RunAction | None = None) -> Response:
    """Pause the run: nothing more is moved until it is resumed."""
    body = body or RunAction()
    return json_response(run_json(await runs.pause(run_id, by=acting_name(actor, body.by), reason=body.reason)))


@router.post("/{run_id}/resume", response_model=Run, responses=problem_responses(404, 409), summary="Go on with a run")
async def resume(runs: Runs, actor: Operator, run_id: str, body: ResumeRequest | None = None) -> Response:
    """Resume a paused or halted run. If its stop rule would halt it again at once, a 409 says which one to give."""
    body = body or ResumeRequest()
    stop: float | Unchanged | None = body.stop_percent if "stop_percent" in body.model_fields_set else UNCHANGED
    run = await runs.resume(run_id, by=acting_name(actor, body.by), reason=body.reason, stop_percent=stop)
    return json_response(run_json(run))


@router.post("/{run_id}/cancel", response_model=Run, responses=problem_responses(404, 409), summary="End a run")
async def cancel(runs: Runs, actor: Operator, run_id: str, body: RunAction | None = None) -> Response:
    """Cancel the run. Moved letters stay moved; the others are left alone."""
    body = body or RunAction()
    return json_response(run_json(await runs.cancel(run_id, by=acting_name(actor, body.by), reason=body.reason)))


def run_json(run: BulkRun) -> dict[str, Any]:
    """Return a run as HTTP and the command line show it: without the lease of its worker."""
    shown: dict[str, Any] = to_json(run)
    shown.pop("lease", None)
    return {**shown, "namespace": run.namespace or DEFAULT_NAMESPACE}

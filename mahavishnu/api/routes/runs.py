"""Bulk runs over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field
from starlette.responses import Response

from mahavishnu.api.auth import Actor, Queue, Role, Viewer, by, needs
from mahavishnu.api.errors import documented
from mahavishnu.api.responses import answer, as_query, letter_json, next_page, page_headers, plain
from mahavishnu.api.schemas import NewRun, PageAsked, Resume, Run, RunAct, RunItem, RunPreview
from mahavishnu.model.bulk_run import BulkRun, Same

Operator = Annotated[Actor, Depends(needs(Role.OPERATOR, "handling bulk runs"))]
_NO_RUN = documented(404)
router = APIRouter(tags=["runs"], prefix="/runs")


class RunsAsked(PageAsked):
    """Which runs."""

    state: Literal["planning", "running", "paused", "halted", "cancelled", "done"] | None = None


class ItemsAsked(PageAsked):
    """Which members of a run."""

    state: Literal["waiting", "moved", "refused", "gone"] | None = None
    outcome: Literal["succeeded", "failed_again", "closed"] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


@router.post("/preview", response_model=RunPreview, summary="What a run would do")
async def preview(dlq: Queue, actor: Viewer, asked: NewRun) -> Response:
    """Which letters are meant, how many of them cannot be moved and why, and in which waves. Nothing is changed."""
    seen = await dlq.preview_run(
        asked.verb,
        as_query(asked.filter),
        ramp=asked.ramp,
        max_per_second=asked.max_per_second,
        stop_percent=asked.stop_percent,
        patch=asked.patch,
        redrive=asked.redrive,
        everything=asked.everything,
    )
    return answer({**plain(seen), "samples": [letter_json(letter) for letter in seen.samples]})


@router.post("", status_code=202, response_model=Run, summary="Begin a run")
async def begin(request: Request, dlq: Queue, actor: Operator, asked: NewRun) -> Response:
    """It is carried out by the workers, whatever becomes of this server; look at it under its Location."""
    run = await dlq.start_run(
        asked.verb,
        as_query(asked.filter),
        by=by(actor, asked.by),
        reason=asked.reason,
        ramp=asked.ramp,
        max_per_second=asked.max_per_second,
        stop_percent=asked.stop_percent,
        patch=asked.patch,
        redrive=asked.redrive,
        everything=asked.everything,
    )
    return answer(run_json(run), 202, {"Location": f"{request.url.path.rstrip('/')}/{run.run_id}"})


@router.get("", response_model=list[Run], summary="Runs, newest first")
async def listed(request: Request, dlq: Queue, actor: Viewer, asked: Annotated[RunsAsked, Query()]) -> Response:
    """A page of runs."""
    page = await dlq.list_runs(asked.state, limit=asked.limit, after=asked.cursor)
    return answer([run_json(run) for run in page.items], 200, page_headers(request, page))


@router.get("/{run_id}", response_model=Run, responses=_NO_RUN, summary="One run")
async def one(dlq: Queue, actor: Viewer, run_id: str) -> Response:
    """How it stands."""
    return answer(run_json(await dlq.get_run(run_id)))


@router.get("/{run_id}/items", response_model=list[RunItem], responses=_NO_RUN, summary="The members of a run")
async def items(
    request: Request, dlq: Queue, actor: Viewer, run_id: str, asked: Annotated[ItemsAsked, Query()]
) -> Response:
    """Each letter that was meant when the run began, and what became of it."""
    page = await dlq.run_items(run_id, state=asked.state, outcome=asked.outcome, limit=asked.limit, after=asked.cursor)
    headers = {"Link": next_page(request, str(page.next))} if page.next is not None else {}
    return answer([plain(item) for item in page.items], 200, headers)


@router.post("/{run_id}/pause", response_model=Run, responses=documented(404, 409), summary="Pause a run")
async def pause(dlq: Queue, actor: Operator, run_id: str, asked: RunAct | None = None) -> Response:
    """Nothing more is moved until it is resumed."""
    asked = asked or RunAct()
    return answer(run_json(await dlq.pause_run(run_id, by=by(actor, asked.by), reason=asked.reason)))


@router.post("/{run_id}/resume", response_model=Run, responses=documented(404, 409), summary="Go on with a run")
async def resume(dlq: Queue, actor: Operator, run_id: str, asked: Resume | None = None) -> Response:
    """Also with one that has halted; where its stop rule would halt it again at once, a 409 says which one to give."""
    asked = asked or Resume()
    stop: float | Same | None = asked.stop_percent if "stop_percent" in asked.model_fields_set else Same.SAME
    run = await dlq.resume_run(run_id, by=by(actor, asked.by), reason=asked.reason, stop_percent=stop)
    return answer(run_json(run))


@router.post("/{run_id}/cancel", response_model=Run, responses=documented(404, 409), summary="End a run")
async def cancel(dlq: Queue, actor: Operator, run_id: str, asked: RunAct | None = None) -> Response:
    """What it has moved stays moved; the others are left alone."""
    asked = asked or RunAct()
    return answer(run_json(await dlq.cancel_run(run_id, by=by(actor, asked.by), reason=asked.reason)))


def run_json(run: BulkRun) -> dict[str, Any]:
    """A run as every surface shows it; who carries it on is nobody's business."""
    shown: dict[str, Any] = plain(run)
    shown.pop("lease", None)
    return shown

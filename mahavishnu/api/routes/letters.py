"""Letters over HTTP: lists, one letter, and what a person does with it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from mahavishnu.api.auth import Actor, Queue, Role, Viewer, by, needs
from mahavishnu.api.errors import documented, problem
from mahavishnu.api.responses import (
    JSON,
    Where,
    answer,
    as_query,
    changed_since,
    degraded_header,
    etag,
    is_known,
    letter_json,
    letters_json,
    named,
    page_headers,
    plain,
)
from mahavishnu.api.schemas import (
    Act,
    Clear,
    Cleared,
    Edit,
    EditPreview,
    Filter,
    Imported,
    Letter,
    NewLetter,
    PageAsked,
    ReasonLine,
    RequeueAsked,
    Requeued,
    Retried,
    Revision,
    WholeLetter,
)
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.errors import InvalidInput, MahavishnuError, NoSuchLetter, StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import NEWEST_FIRST, Sort
from mahavishnu.stores.base import Cursor

Operator = Annotated[Actor, Depends(needs(Role.OPERATOR, "changing letters"))]
Admin = Annotated[Actor, Depends(needs(Role.ADMIN, "deleting letters"))]
IfMatch = Annotated[str | None, Header(description="The ETag of the letter as you read it")]
SORTS = {
    "newest": NEWEST_FIRST,
    "oldest": (Sort("created_at"),),
    "updated": (Sort("updated_at", descending=True),),
    "due": (Sort("due_at"),),
    "priority": (Sort("priority", descending=True), Sort("due_at")),
}
_NO_LETTER = documented(404)
NDJSON = "application/x-ndjson"
CHUNK = 64 * 1024  # characters that are written at once
PAGE_BYTES = 16 * 1024 * 1024  # about; a page ends early where its letters have more
log = logging.getLogger(__name__)
router = APIRouter(tags=["letters"])


class ListAsked(Filter, PageAsked):
    """Which letters, how many, from where, and in which order."""

    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    sort: Literal["newest", "oldest", "updated", "due", "priority"] = "newest"
    whole: Annotated[bool, Field(description="With failures and tracebacks, as a single letter has them")] = False


@router.get("/dlq", response_model=list[Letter], summary="Letters, newest first")
async def listed(request: Request, dlq: Queue, actor: Viewer, asked: Annotated[ListAsked, Query()]) -> Response:
    """A page of letters; the Link header leads to the next one, X-Degraded says why some may be missing."""
    query = as_query(asked, limit=asked.limit, sort=SORTS[asked.sort])
    after = None if asked.cursor is None else Cursor.parse(asked.cursor)
    page = await dlq.find(query, after, offset=asked.offset, most_bytes=PAGE_BYTES)
    headers = page_headers(request, page)
    if page.corrupt:
        headers["X-Corrupt"] = str(len(page.corrupt))
    return Response(letters_json(page.items, whole=asked.whole), 200, headers, JSON)


@router.post("/dlq", status_code=201, response_model=WholeLetter, responses=documented(409), summary="Keep a failure")
async def enqueue(dlq: Queue, actor: Operator, asked: NewLetter) -> Response:
    """The letter is durable when this answers. A failure of a task with an open letter is merged into that."""
    letter = await dlq.enqueue(**{"repos": [], "task": None, **asked.model_dump(exclude_unset=True)})
    return answer(letter_json(letter, whole=True), 201, {"ETag": etag(letter.version)})


@router.get("/dlq/stats", response_model=list[ReasonLine], summary="The letters by reason, in numbers")
async def by_reason(dlq: Queue, actor: Viewer) -> Response:
    """One line for each reason that letters were written for."""
    lines = await dlq.get_statistics_by_reason()
    return answer(plain(lines), 200, degraded_header(lines.degraded))


@router.get("/dlq/statistics", response_model=dict[str, Any], summary="The queue in numbers")
async def statistics(dlq: Queue, actor: Viewer) -> Response:
    """Size, breakdowns, lifetime numbers, processor, breakers, storage, and what a person should look at."""
    numbers = await dlq.get_statistics()
    told = {**plain(numbers), "warnings": await dlq.health_warnings(numbers)}
    return answer(told, 200, degraded_header(numbers["degraded"]))


@router.post("/dlq/clear", response_model=Cleared, summary="Delete every open letter")
async def clear(dlq: Queue, actor: Admin, asked: Clear) -> Response:
    """Nothing brings them back; the statistics remember how many there were."""
    return answer({"cleared": await dlq.clear_all(by=by(actor, asked.by), notes=asked.notes)})


@router.post("/dlq/import", response_model=Imported, summary="Take in letters that were exported")
async def take_in(dlq: Queue, actor: Operator, letters: list[dict[str, Any]]) -> Response:
    """Letters as `export` gives them, one JSON document each. One that is here already stays as it is."""
    result = await dlq.take_in_many(letters, by=actor.name)
    return answer({"taken": result.taken, "refused": {name: _why(why) for name, why in result.refused.items()}})


def _why(problem: MahavishnuError) -> str:
    if not isinstance(problem, StoreError):
        return str(problem)
    log.error("a letter cannot be taken in: %s", problem)  # what a store says is not for everybody
    return "the store does not take this letter; the server's log says more"


@router.get(
    "/dlq/export",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}}, "description": "Lines"}},
    summary="Letters as lines of JSON, which import takes",
)
async def export(dlq: Queue, actor: Viewer, asked: Annotated[Filter, Query()]) -> Response:
    """Whole, as they are stored. An answer that ends early, without the end that HTTP gives it, is not complete."""
    lines = dlq.export(as_query(asked))
    first = await anext(lines, None)  # a store that is away is told by the status

    return StreamingResponse(_together(first, lines), media_type=NDJSON)


async def _together(first: str | None, lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Many lines at once; after each time others have their turn, so that it is noticed if nobody reads on."""
    parts = [] if first is None else [f"{first}\n"]
    size = 0
    try:
        async for line in lines:
            parts.append(f"{line}\n")
            size += len(line)
            if size >= CHUNK:
                yield "".join(parts)
                parts, size = [], 0
                await SystemClock().sleep(0)
    except StoreError:
        yield "".join(parts)  # what could be read; then the answer breaks off
        raise
    yield "".join(parts)


@router.get(
    "/dlq/{task_id}/letter",
    response_model=WholeLetter,
    responses=_NO_LETTER,
    summary="One letter, whatever its task is called",
    name="letter",
)
@router.get("/dlq/{task_id}", response_model=WholeLetter, responses=_NO_LETTER, summary="One letter")
async def one(
    dlq: Queue, actor: Viewer, where: Where, task_id: str, if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """With all that is known; its ETag is wanted by an edit."""
    letter = await _letter(dlq, task_id, where)
    mark = etag(letter.version)
    if is_known(if_none_match, letter.version):
        return Response(None, 304, {"ETag": mark})
    return answer(letter_json(letter, whole=True), 200, {"ETag": mark})


@router.patch(
    "/dlq/{task_id}", response_model=WholeLetter, responses=documented(404, 409, 412), summary="Edit a letter"
)
async def edit(
    dlq: Queue, actor: Operator, where: Where, task_id: str, asked: Edit, if_match: IfMatch = None
) -> Response:
    """What it was before is kept as a revision. With If-Match, a letter that has changed since is not edited."""
    changes = _changes(asked)
    base = None
    if if_match is not None:
        base = await _letter(dlq, task_id, where)
        if refusal := changed_since(if_match, base.version, f"letter {base.key!r}"):
            return refusal
    edited = await dlq.edit(
        named(task_id),
        by=by(actor, asked.by),
        notes=asked.notes,
        base=base,
        redrive=asked.redrive,
        **changes,
        **where.arguments,
    )
    return answer(letter_json(edited, whole=True), 200, {"ETag": etag(edited.version)})


@router.post(
    "/dlq/{task_id}/preview", response_model=EditPreview, responses=_NO_LETTER, summary="What an edit would do"
)
async def preview(dlq: Queue, actor: Viewer, where: Where, task_id: str, asked: Edit) -> Response:
    """Nothing is changed."""
    wanted: dict[str, Any] = {**_changes(asked), **where.arguments}
    return answer(plain(await dlq.preview_edit(named(task_id), redrive=asked.redrive, **wanted)))


@router.get(
    "/dlq/{task_id}/revisions", response_model=list[Revision], responses=_NO_LETTER, summary="What a letter was before"
)
async def revisions(dlq: Queue, actor: Viewer, where: Where, task_id: str) -> Response:
    """Oldest first."""
    return answer(plain(await dlq.revisions(named(task_id), **where.arguments)))


@router.post("/dlq/{task_id}/requeue", response_model=Requeued, responses=documented(400, 500), summary="Send back")
async def requeue(
    dlq: Queue, actor: Operator, where: Where, task_id: str, asked: RequeueAsked | None = None
) -> Response:
    """With a higher priority and fresh attempts; once, until a run has ended."""
    asked = asked or RequeueAsked()
    try:
        done = await dlq.requeue_from_dlq(
            named(task_id),
            asked.max_retries,
            asked.priority_boost,
            by(actor, asked.resolved_by),
            namespace=where.namespace,
            queue=where.queue,
        )
    except StoreError:
        return problem(500, "store-error", "the store failed; nothing else is known: look again before you repeat this")
    shown = {
        "success": done["success"],
        "message": done["message"] or "Requeue failed",
        "new_state": done["new_task_state"],
        "retry_count": done["dlq_retry_count"],
    }
    return answer(shown) if done["success"] else problem(400, "requeue-failed", shown["message"], **shown)


@router.post("/dlq/{task_id}/retry", response_model=Retried, responses=documented(404, 409), summary="Run it now")
async def retry(
    dlq: Queue, actor: Operator, where: Where, task_id: str, asked: Act | None = None, force: bool = False
) -> Response:
    """Here and at once, without using up its automatic retries; the server needs the app for that."""
    await _letter(dlq, task_id, where)
    ran = await dlq.retry_task(
        named(task_id), force=force, by=by(actor, asked.by if asked else None), **where.arguments
    )
    if "status" not in ran:
        return problem(409, "not-run", str(ran["error"]))
    return answer(plain({"error": None, **ran}))


_ACTS = {
    "redrive": "Fresh attempts, the first one due now; an archived letter is taken out for them",
    "resolve": "A person settled it otherwise: the case is closed",
    "fail": "It will never work: the case is closed, and kept for analysis",
    "cancel": "Nobody wants the work any more: the case is closed",
    "archive": "Put it away",
}


def _act(name: str, summary: str) -> None:
    async def act(dlq: Queue, actor: Operator, where: Where, task_id: str, asked: Act | None = None) -> Response:
        who, notes = by(actor, asked.by if asked else None), asked.notes if asked else None
        verb = getattr(dlq, name)
        return answer(letter_json(await verb(named(task_id), by=who, notes=notes, **where.arguments), whole=True))

    router.post(
        f"/dlq/{{task_id}}/{name}",
        response_model=WholeLetter,
        responses=documented(404, 409),
        summary=summary,
        name=name,
    )(act)


for _name, _summary in _ACTS.items():
    _act(_name, _summary)


def _changes(asked: Edit) -> dict[str, Any]:
    """What is to be changed: only what was said."""
    said = asked.model_dump(exclude_unset=True)
    changes = {name: value for name, value in said.items() if name not in ("by", "notes", "redrive")}
    if "task" in changes and "patch" in changes:
        raise InvalidInput("give a task or a patch of it, not both")
    return changes


async def _letter(dlq: DeadLetterQueue, task_id: str, where: Where) -> DeadLetter:
    letter = await dlq.get_task(named(task_id), include_archived=True, **where.arguments)
    if letter is None:
        raise NoSuchLetter(named(task_id))
    return letter

"""Letters over HTTP: lists, one letter, actions on it, and how it differs from letters that succeeded."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, ScopeQuery, Viewer, act_of, acting_name, require_role
from mahavishnu.http.responses import (
    JSON,
    NDJSON,
    decode_id,
    etag,
    etag_matches,
    json_response,
    letter_json,
    letters_json,
    problem,
    problem_responses,
    refuse_if_changed,
    stream_lines,
    to_json,
)
from mahavishnu.http.routing import Depends, Header, Query, Router
from mahavishnu.http.schemas import (
    ActionRequest,
    ClearRequest,
    ClearResult,
    Deleted,
    EditPreview,
    Filter,
    ImportSummary,
    Letter,
    LetterDetail,
    LetterEdit,
    LetterQuery,
    NamespaceName,
    NewLetter,
    ReasonLine,
    RequeueRequest,
    RequeueResult,
    ResponseModel,
    RestoreRequest,
    RetryResult,
    Revision,
    fields_of,
)
from mahavishnu.letters import commonalities, documents
from mahavishnu.letters.reads import SAMPLE
from mahavishnu.letters.service import LetterOperations
from mahavishnu.model.errors import InvalidInput, MahavishnuError, StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.search.rules import as_query
from mahavishnu.values.payload import redact

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "changing letters"))]
Admin = Annotated[Actor, Depends(require_role(Role.ADMIN, "deleting letters"))]
IfMatch = Annotated[str | None, Header(description="The ETag of the letter as you read it")]
_NO_LETTER = problem_responses(404)
_OBJECTS = {"type": "array", "items": {"type": "object"}}
NO_APP = "this server runs no letters: start it with --app MODULE:NAME, or redrive the letter, for a worker to run it"
log = logging.getLogger(__name__)
router, contrasts_router = Router(tag="letters"), Router(tag="letters")


@fields_of(commonalities.Commonality, "kind name letters others query")
class Commonality(ResponseModel):
    """Something that so many `letters` of the sample have, and so many `others` of those beside them."""

    value: Any


@fields_of(commonalities.GroupCommonalities, "fingerprint letters sampled others others_sampled too_large degraded")
class CommonalityList(ResponseModel):
    """The commonalities of a group, found in the newest `sampled` letters and `others_sampled` others."""

    adapters: list[str]
    items: list[Commonality]


@fields_of(commonalities.Contrast, "name is_missing succeeded")
class Contrast(ResponseModel):
    """A value that the letter lacks, or that none of those that succeeded has."""

    value: Any
    usual: list[Any] = Field(description="The most frequent values of those that succeeded, and how many have each")


@fields_of(commonalities.LetterContrasts, "task_id adapter succeeded sampled too_large degraded")
class ContrastList(ResponseModel):
    """The contrasts of a letter with the newest `sampled` letters that succeeded."""

    items: list[Contrast]


@router.get("/dlq", response_model=list[Letter], summary="Letters, newest first", name="list")
async def list_letters(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[LetterQuery, Query()]
) -> Response:
    """Return a page of letters; the Link header leads to the next one, X-Degraded says why some may be missing."""
    return (await documents.letters(dlq, **vars(params))).response(request, letters_json)


@router.post(
    "/dlq", status_code=201, response_model=LetterDetail, responses=problem_responses(409), summary="Keep a failure"
)
async def enqueue(dlq: Queue, actor: Operator, body: NewLetter) -> Response:
    """Record a failure, durably when this answers. An open letter of the same task absorbs the failure."""
    letter = await dlq.enqueue(**{"repos": [], "task": None, **body.model_dump(exclude_unset=True)})
    return json_response(letter_json(letter, whole=True), 201, {"ETag": etag(letter.version)})


@router.get("/dlq/stats", response_model=list[ReasonLine], summary="The letters by reason, in numbers")
async def by_reason(request: Request, dlq: Queue, actor: Viewer) -> Response:
    """Return one line for each reason that letters were written for."""
    return (await documents.by_reason(dlq)).response(request)


@router.get("/dlq/statistics", response_model=dict[str, Any], summary="The queue in numbers")
async def statistics(request: Request, dlq: Queue, actor: Viewer) -> Response:
    """Return size, breakdowns, lifetime totals, processor, breakers, storage, and warnings."""
    return (await documents.statistics(dlq)).response(request)


@router.post("/dlq/clear", response_model=ClearResult, summary="Delete every open letter")
async def clear(dlq: Queue, actor: Admin, body: ClearRequest) -> Response:
    """Delete every open letter for good; the statistics keep their number."""
    return json_response({"cleared": await dlq.clear_all(by=acting_name(actor, body.by), notes=body.notes)})


@router.post(
    "/dlq/import",
    response_model=ImportSummary,
    summary="Take in letters that were exported",
    name="import",
    responses=problem_responses(422),
    openapi_extra={"requestBody": {"required": True, "content": {JSON: {"schema": _OBJECTS}}}},
)
async def import_letters(
    request: Request, dlq: OwnQueue, actor: Operator, even_deleted: bool = False, namespace: NamespaceName | None = None
) -> Response:
    """Import letters as `export` gives them, one JSON document each. Existing letters stay as they are.

    A letter that was deleted here is refused, unless `even_deleted`. Each stays in its namespace, unless one is named.
    """
    from mahavishnu.letters.transfer import Transfer, documents_in  # what lists letters does not wait for it

    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.endswith("json"):
        raise InvalidInput("the body is not read as JSON: send it with the header Content-Type: application/json")
    letters = documents_in(await request.body())
    result = await dlq.service(Transfer).import_letters(
        letters, by=actor.name, even_deleted=even_deleted, namespace=namespace
    )
    return json_response(
        {"taken": result.taken, "refused": {name: _import_problem(why) for name, why in result.refused.items()}}
    )


def _import_problem(problem: MahavishnuError) -> str:
    if not isinstance(problem, StoreError):
        return str(problem)
    log.error("a letter cannot be imported: %s", problem)  # a response does not quote the store
    return "the store does not take this letter; the server's log says more"


@router.get(
    "/dlq/export",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}}, "description": "Lines"}},
    summary="Letters as lines of JSON, which import takes",
)
async def export(dlq: OwnQueue, actor: Viewer, params: Annotated[Filter, Query()]) -> Response:
    """Stream whole letters as they are stored. An answer without HTTP's proper end is not complete."""
    from mahavishnu.letters.transfer import Transfer  # what lists letters does not wait for it

    return await stream_lines(dlq.service(Transfer).export(as_query(vars(params), dlq.context.clock.now())), NDJSON)


@router.get(
    "/dlq/{task_id}/letter",
    response_model=LetterDetail,
    responses=_NO_LETTER,
    summary="One letter, whatever its task is called",
    name="letter",
)
@router.get("/dlq/{task_id}", response_model=LetterDetail, responses=_NO_LETTER, summary="One letter")
async def one(
    request: Request,
    dlq: Queue,
    actor: Viewer,
    where: ScopeQuery,
    task_id: str,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Return the whole letter; an edit needs its ETag. A 304 says nothing about workers."""
    letter = await _get_letter(dlq, task_id, where)
    if etag_matches(if_none_match, letter.version):
        return Response(None, 304, {"ETag": etag(letter.version)})
    return (await documents.whole_letter(dlq, task_id, letter=letter)).response(request)


@router.patch(
    "/dlq/{task_id}", response_model=LetterDetail, responses=problem_responses(404, 409, 412), summary="Edit a letter"
)
async def edit(
    dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, body: LetterEdit, if_match: IfMatch = None
) -> Response:
    """Edit the letter and keep its old state as a revision. With If-Match, a changed letter is not edited."""
    wanted: dict[str, Any] = {**_changes(body), **where.arguments}
    base = None
    if if_match is not None:
        base = await _get_letter(dlq, task_id, where)
        if refusal := refuse_if_changed(if_match, base.version, f"letter {base.key!r}"):
            return refusal
    edited = await dlq.service(LetterOperations).edit(
        decode_id(task_id), by=acting_name(actor, body.by), notes=body.notes, base=base, redrive=body.redrive, **wanted
    )
    return json_response(letter_json(edited, whole=True), 200, {"ETag": etag(edited.version)})


@router.post(
    "/dlq/{task_id}/preview", response_model=EditPreview, responses=_NO_LETTER, summary="What an edit would do"
)
async def preview(dlq: Queue, actor: Viewer, where: ScopeQuery, task_id: str, body: LetterEdit) -> Response:
    """Return the changes that an edit would make. Nothing is changed."""
    wanted: dict[str, Any] = {**_changes(body), **where.arguments}
    return json_response(
        to_json(await dlq.service(LetterOperations).preview_edit(decode_id(task_id), redrive=body.redrive, **wanted))
    )


@router.get(
    "/dlq/{task_id}/revisions", response_model=list[Revision], responses=_NO_LETTER, summary="What a letter was before"
)
async def revisions(dlq: Queue, actor: Viewer, where: ScopeQuery, task_id: str) -> Response:
    """Return the states before edits, oldest first."""
    return json_response(to_json(await dlq.service(LetterOperations).revisions(decode_id(task_id), **where.arguments)))


@router.post(
    "/dlq/{task_id}/restore",
    response_model=LetterDetail,
    responses=problem_responses(404, 409, 412),
    summary="Go back to a revision",
)
async def restore(
    dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, body: RestoreRequest | None = None
) -> Response:
    """Restore a revision by an edit: the present state becomes a revision too."""
    body = body or RestoreRequest()
    act = _act(actor, body, where)
    letters = dlq.service(LetterOperations)
    restored = await letters.restore(decode_id(task_id), body.revision, redrive=body.redrive, **act)
    return json_response(letter_json(restored, whole=True), 200, {"ETag": etag(restored.version)})


@router.post(
    "/dlq/{task_id}/requeue", response_model=RequeueResult, responses=problem_responses(400, 500), summary="Send back"
)
async def requeue(
    dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, body: RequeueRequest | None = None
) -> Response:
    """Requeue with a higher priority and fresh attempts; once, until an attempt has ended."""
    body = body or RequeueRequest()
    try:
        done = await dlq.requeue_from_dlq(
            decode_id(task_id),
            body.max_retries,
            body.priority_boost,
            acting_name(actor, body.resolved_by),
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
    if done["success"]:
        return json_response(shown)
    why = {"why": done["why"]} if "why" in done else {}
    return problem(400, "requeue-failed", shown["message"], **shown, **why)


@router.post(
    "/dlq/{task_id}/retry", response_model=RetryResult, responses=problem_responses(404, 409), summary="Run it now"
)
async def retry(
    dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, body: ActionRequest | None = None, force: bool = False
) -> Response:
    """Run the letter here and now, without using up its automatic retries. The server needs the app for that."""
    from mahavishnu.workers.processing import processing_of  # what lists letters does not wait for it

    await _get_letter(dlq, task_id, where)
    ran = await dlq.retry_task(decode_id(task_id), force=force, **_act(actor, body, where))
    if "status" not in ran:
        return problem(409, "not-run", NO_APP if processing_of(dlq).callback is None else str(ran["error"]))
    if "result" in ran:  # is kept for an idempotency key
        ran["result"] = redact(to_json(ran["result"]), dlq.context.letter_factory.secret_keys)
    return json_response(to_json({"error": None, **ran}))


_ACTIONS = {
    "redrive": "Fresh attempts, the first one due now; an archived letter is taken out for them",
    "resurrect": "Fresh attempts for an exhausted letter; an archived one is taken out for them",
    "resolve": "A person settled it otherwise: the case is closed",
    "fail": "It will never work: the case is closed, and kept for analysis",
    "cancel": "Nobody wants the work any more: the case is closed",
    "archive": "Put it away",
}


def _add_action(name: str, summary: str) -> None:
    async def move(
        dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, body: ActionRequest | None = None
    ) -> Response:
        act, task_id = _act(actor, body, where), decode_id(task_id)
        letter = await getattr(dlq.service(LetterOperations), name)(task_id, **act)
        return json_response(letter_json(letter, whole=True))

    router.post(
        f"/dlq/{{task_id}}/{name}",
        response_model=LetterDetail,
        responses=problem_responses(404, 409),
        summary=summary,
        name=name,
    )(move)


for _name, _summary in _ACTIONS.items():
    _add_action(_name, _summary)


def _changes(body: LetterEdit) -> dict[str, Any]:
    """Return the fields that the body names: only these are changed."""
    named = body.model_dump(exclude_unset=True)
    changes = {name: value for name, value in named.items() if name not in ("by", "notes", "redrive")}
    if "task" in changes and "patch" in changes:
        raise InvalidInput("give a task or a patch of it, not both")
    return changes


@router.delete("/dlq/{task_id}", response_model=Deleted, responses=_NO_LETTER, summary="Delete a letter for good")
async def delete(
    dlq: Queue, actor: Admin, where: ScopeQuery, task_id: str, body: ActionRequest | None = None
) -> Response:
    """Delete the letter with all that belongs to it, also in the archive. Statistics and audit keep that it existed."""
    return json_response(to_json(await dlq.deletion.delete_task(decode_id(task_id), **_act(actor, body, where))))


def _act(actor: Actor, body: ActionRequest | None, where: ScopeQuery) -> Any:
    """Return the arguments that name who acts, why, and on which letter."""
    return {**act_of(actor, body), **where.arguments}


async def _get_letter(dlq: LetterQueue, task_id: str, where: ScopeQuery) -> DeadLetter:
    return await documents.get_letter(dlq, decode_id(task_id), **where.arguments)


@contrasts_router.get(
    "/dlq/{task_id}/contrasts",
    response_model=ContrastList,
    responses=problem_responses(404),
    summary="What a letter lacks that letters had that succeeded",
)
async def contrasts(
    request: Request, dlq: Queue, actor: Viewer, where: ScopeQuery, task_id: str, sample: int = SAMPLE
) -> Response:
    """Compare the letter with letters of its adapter whose work succeeded on a retry."""
    found = await documents.contrasts(dlq, decode_id(task_id), sample, **where.arguments)
    return found.response(request)

"""The archive over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mahavishnu.archive.partitions import ArchivedCase, ArchivePage
from mahavishnu.archive.records import ArchivedLetter, ArchivedTask, ArchivePartition
from mahavishnu.archive.rules import ArchiveResult
from mahavishnu.archive.service import Archive
from mahavishnu.archive.tasks import ArchivedTaskPage
from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import (
    CSV,
    NDJSON,
    decode_id,
    json_response,
    letter_json,
    page_headers,
    problem_responses,
    stream_lines,
    to_json,
)
from mahavishnu.http.routing import Depends, Query, Router
from mahavishnu.http.schemas import (
    ActionRequest,
    Instant,
    LetterDetail,
    Name,
    NamespacePageQuery,
    RequestModel,
    ResponseModel,
    fields_of,
)
from mahavishnu.model.clock import MOST_DAYS
from mahavishnu.stores.base import Page
from mahavishnu.tasks.routes import TaskWithMoves, task_json
from mahavishnu.tasks.task import TaskState

router = Router(tag="archive", prefix="/archive")
Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "archiving letters"))]
Admin = Annotated[Actor, Depends(require_role(Role.ADMIN, "taking months of the archive away"))]
Word = Annotated[str, Field(min_length=1, max_length=1000)]
_REFUSED = problem_responses(404, 409)


@fields_of(ArchivedLetter, " ".join(ArchivedLetter.listed))
class ArchivedLine(ResponseModel):
    """An archived letter in a list."""

    partition: str


@fields_of(ArchivedTask, " ".join(ArchivedTask.listed))
class ArchivedTaskLine(ResponseModel):
    """An archived lifecycle task of a letter."""


@fields_of(ArchivedTask, " ".join(ArchivedTask.listed))
class ArchivedTaskFound(ResponseModel):
    """An archived lifecycle task in a list."""

    partition: str


class ArchivedDetail(ResponseModel):
    """An archived letter with all that went to the archive with it."""

    partition: str
    archived_at: str
    letter: LetterDetail
    former: list[LetterDetail]
    revisions: list[dict[str, Any]]
    tasks: list[ArchivedTaskLine]


class ArchivedTaskDetail(ResponseModel):
    """An archived lifecycle task with every move of it, and the letter that it had."""

    partition: str
    archived_at: str
    task: TaskWithMoves
    letter: LetterDetail | None


@fields_of(ArchivePartition, "name month state made_at detached_at kept")
class Partition(ResponseModel):
    """A month of the archive."""

    letters: int | None


@fields_of(
    ArchiveResult,
    "tasks_archived steps_archived transitions_archived lifecycle_tasks_archived execution_time_ms dry_run failed",
)
class RunResult(ResponseModel):
    """The numbers of archived records, or with a dry run of those to archive."""


class DetachResult(ResponseModel):
    """The place of a detached partition."""

    place: str


class ArchiveQuery(NamespacePageQuery):
    """Filters of archived letters; the times are those of the end of the case."""

    task_id: Word | None = None
    category: Word | None = None
    resolution: Word | None = None
    fingerprint: Word | None = None
    since: Instant | None = None
    until: Instant | None = None


class ArchivedTasksQuery(NamespacePageQuery):
    """Filters of archived lifecycle tasks; the times are those of their end."""

    task_id: Word | None = None
    name: Word | None = None
    state: TaskState | None = None
    since: Instant | None = None
    until: Instant | None = None


class ExportQuery(RequestModel):
    """The steps to export: those after `after` up to `upto`."""

    after: Annotated[int, Field(ge=0, le=2**31)] = 0
    upto: Annotated[int, Field(ge=0, le=2**31)]
    format: Literal["jsonl", "csv"] = "jsonl"


class ExportStep(ResponseModel):
    """The number of a step: up to there it can be exported, and after it the next export goes on."""

    watermark: int


class RunRequest(RequestModel):
    """A request to archive by the settings, or, with `retention_days`, letters completed that long ago."""

    dry_run: StrictBool = True
    retention_days: Annotated[StrictInt, Field(ge=0, le=MOST_DAYS)] | None = None
    by: Name | None = None


@router.get("", response_model=list[ArchivedLine], summary="Archived letters, the latest end first", name="list")
async def list_archived(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[ArchiveQuery, Query()]
) -> Response:
    """Return archived letters. Only the months of the requested time are read."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)
    return _page_of_lines(request, await dlq.service(Archive).search(**_arguments(params)))


def _arguments(params: NamespacePageQuery) -> dict[str, Any]:
    return {**params.model_dump(exclude={"namespace", "cursor"}), "after": params.cursor}


def _page_of_lines(request: Request, page: ArchivePage | ArchivedTaskPage) -> Response:
    paging: Page[Any] = Page(page.items, page.next)
    headers = page_headers(request, paging)
    if page.corrupt:
        headers["X-Corrupt"] = str(len(page.corrupt))
    return json_response(to_json([line.to_dict() for line in page.items]), 200, headers)


@router.post("/run", response_model=RunResult, summary="Archive what is to leave")
async def run(dlq: Queue, actor: Operator, body: RunRequest | None = None) -> Response:
    """Archive letters and tasks; unless `dry_run` is false, only report their numbers."""
    body = body or RunRequest()
    how: dict[str, Any] = {"dry_run": body.dry_run, "by": acting_name(actor, body.by)}
    if body.retention_days is None:
        return json_response(to_json(await dlq.service(Archive).run(**how)))
    return json_response(to_json(await dlq.service(Archive).archive_completed_tasks(body.retention_days, **how)))


@router.get("/partitions", response_model=list[Partition], summary="The months of the archive")
async def partitions(dlq: Queue, actor: Viewer) -> Response:
    """Return all months, including detached ones, with the letters of all namespaces."""
    return json_response(to_json([view.to_dict() for view in await dlq.service(Archive).partitions()]))


@router.post(
    "/partitions/{partition}/detach", response_model=DetachResult, responses=_REFUSED, summary="Use a month no more"
)
async def detach(dlq: Queue, actor: Admin, partition: str, body: ActionRequest | None = None) -> Response:
    """Detach a month without losing anything: its file may be moved away, or its index is closed."""
    who = acting_name(actor, body.by if body else None)
    return json_response({"place": await dlq.service(Archive).detach(decode_id(partition), by=who)})


@router.post(
    "/partitions/{partition}/attach", response_model=list[Partition], responses=_REFUSED, summary="Use a month again"
)
async def attach(dlq: Queue, actor: Admin, partition: str, body: ActionRequest | None = None) -> Response:
    """Attach a month whose file is back where it was. Age does not detach it any more."""
    await dlq.service(Archive).attach(decode_id(partition), by=acting_name(actor, body.by if body else None))
    return await partitions(dlq, actor)


@router.delete(
    "/partitions/{partition}",
    response_model=list[Partition],
    responses=_REFUSED,
    summary="Remove a detached month for good",
)
async def drop(dlq: Queue, actor: Admin, partition: str, body: ActionRequest | None = None) -> Response:
    """Remove a detached month with all its contents."""
    await dlq.service(Archive).drop(decode_id(partition), by=acting_name(actor, body.by if body else None))
    return await partitions(dlq, actor)


@router.post("/exports", response_model=ExportStep, summary="Begin a step of the exports for analysis", name="begin")
async def begin_export(dlq: OwnQueue, actor: Operator, body: ActionRequest | None = None) -> Response:
    """Mark all that was archived since the last step. Requires the setting `retention.analytics_export`."""
    step = await dlq.service(Archive).begin_export(by=acting_name(actor, body.by if body else None))
    return json_response({"watermark": step})


@router.get(
    "/exports",
    response_class=StreamingResponse,
    responses={
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in (NDJSON, CSV)}, "description": "Lines"}
    },
    summary="Archived letters of some steps, as lines of JSON or CSV",
)
async def export(dlq: OwnQueue, actor: Viewer, params: Annotated[ExportQuery, Query()]) -> Response:
    """Stream the steps; asking again gives the same. An answer without HTTP's proper end is not complete."""
    return await stream_lines(
        dlq.service(Archive).export(params.after, params.upto, params.format), CSV if params.format == "csv" else NDJSON
    )


@router.get("/tasks", response_model=list[ArchivedTaskFound], summary="Archived lifecycle tasks", name="tasks")
async def list_tasks(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[ArchivedTasksQuery, Query()]
) -> Response:
    """Return archived tasks, the latest end first. Only the months of the requested time are read."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)
    return _page_of_lines(request, await dlq.service(Archive).search_tasks(**_arguments(params)))


@router.get(
    "/tasks/{task_id}", response_model=ArchivedTaskDetail, responses=_REFUSED, summary="One archived lifecycle task"
)
async def task(dlq: Queue, actor: Viewer, task_id: str) -> Response:
    """Return the task with its steps and transitions, and its letter, wherever that is."""
    case = await dlq.service(Archive).show_task(decode_id(task_id))
    return json_response(
        {
            "partition": case.partition,
            "archived_at": to_json(case.copy.archived_at),
            "task": task_json(case.task, case.transitions),
            "letter": case.letter and letter_json(case.letter, whole=True),
        }
    )


@router.get("/{name}", response_model=ArchivedDetail, responses=_REFUSED, summary="One archived letter")
async def one(dlq: Queue, actor: Viewer, name: str) -> Response:
    """Return the letter with this entry id, or the latest of this task, with former letters and revisions."""
    return json_response(case_json(await dlq.service(Archive).show(decode_id(name))))


@router.post("/{name}/restore", response_model=LetterDetail, responses=_REFUSED, summary="Put it back")
async def restore(dlq: Queue, actor: Operator, name: str, body: ActionRequest | None = None) -> Response:
    """Put the letter back into the queue as it was. Refused if its task has failed again since."""
    who, notes = acting_name(actor, body.by if body else None), body.notes if body else None
    letter = await dlq.service(Archive).restore(decode_id(name), by=who, notes=notes)
    return json_response(letter_json(letter, whole=True))


def case_json(case: ArchivedCase) -> dict[str, Any]:
    """Return an archived letter as HTTP and the command line show it."""
    return {
        "partition": case.line.partition,
        "archived_at": to_json(case.line.copy.archived_at),
        "letter": letter_json(case.letter, whole=True),
        "former": [letter_json(each, whole=True) for each in case.former],
        "revisions": [
            {"entry_id": each.entry_id, "number": each.number, "updated_at": to_json(each.updated_at), **each.content()}
            for each in case.revisions
        ],
        "tasks": [{name: to_json(getattr(each, name)) for name in each.listed} for each in case.tasks],
    }

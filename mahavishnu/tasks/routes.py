"""Lifecycle tasks over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import json_response, page_headers, problem_responses, to_json
from mahavishnu.http.routing import Depends, Query, Router
from mahavishnu.http.schemas import ActionRequest, Name, NamespacePageQuery, RequestModel, ResponseModel, fields_of
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.staleness_rules import StaleRow
from mahavishnu.tasks.task import OldTransition, TaskRecord

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "moving lifecycle tasks"))]
router = Router(tag="tasks", prefix="/tasks")
_KEPT_BACK = ("transitions", "context_types", "run", "handed_back", "asked", "version")


@fields_of(
    TaskRecord,
    "task_id namespace name state created_at state_entered_at terminal_at priority template processor work_id adapter "
    "recovery_count last_error",
)
class Task(ResponseModel):
    """A lifecycle task, running or ended."""

    steps: list[Any]
    context: Any


class TaskWithMoves(Task):
    """A task with its moves, the oldest first; exactly one is the `most_recent`."""

    transitions: list[Any]


class TaskDetail(TaskWithMoves):
    """A task with its moves, and what of it can be run."""

    readiness: dict[str, str | None] = Field(description="Why a step cannot be run now; null if it can")


class TaskQuery(NamespacePageQuery):
    """Filters of the list: open tasks, unless states are named; `all` means every state."""

    state: Annotated[list[str] | None, Field(max_length=20)] = None
    name: Annotated[str | None, Field(max_length=1000)] = None
    template: Annotated[str | None, Field(max_length=1000)] = None


class MovedTask(ResponseModel):
    """The task's letter, and whether it was made just now; `original_state` is the state that the task was in."""

    task_id: str
    original_state: str | None
    created: bool


class DetectRequest(RequestModel):
    """A search for stale tasks: only a list by default, at most `batch_size` of them."""

    dry_run: StrictBool = Field(default=True, description="List them, and change nothing")
    batch_size: Annotated[StrictInt, Field(ge=1, le=10_000)] = 100
    by: Name | None = None


@fields_of(StaleRow, " ".join(StaleRow.__annotations__))
class StaleTask(ResponseModel):
    """A stale task with the action that was taken, or with `dry_run` would be."""


def task_json(task: TaskRecord, moves: Sequence[OldTransition], payloads: bool = True) -> dict[str, Any]:
    """Return a task with all its moves, as HTTP and the command line show it."""
    listed = [
        {
            **{name: value for name, value in to_json(each).items() if name not in ("key", "task_id", "namespace")},
            "most_recent": each.number == task.transition_count,
        }
        for each in moves
    ]
    return {**_public_json(task, payloads), "transitions": listed}


def _public_json(task: TaskRecord, payloads: bool = True) -> dict[str, Any]:
    document: dict[str, Any] = to_json(task)
    if not payloads:  # for who may not see what was to be done and what came of it
        document["context"] = None
        document["steps"] = [{**each, "result": None} for each in document["steps"]]
    return {name: value for name, value in document.items() if name not in _KEPT_BACK}


@router.get("", response_model=list[Task], summary="What runs now, newest first", name="list")
async def list_tasks(request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[TaskQuery, Query()]) -> Response:
    """List lifecycle tasks that have not ended, or those of some states."""
    context = dlq.in_namespace(params.namespace or dlq.namespace).context
    lifecycle = Lifecycle(context)
    state = "all" if params.state == ["all"] else params.state
    page = await lifecycle.list(
        state, name=params.name, template=params.template, limit=params.limit, after=params.cursor
    )
    if page.items:
        await context.note_read("read", "tasks", count=len(page.items))
    shown = [_public_json(task, dlq.context.sees_payloads) for task in page.items]
    return json_response(shown, 200, page_headers(request, page))


@router.get("/{task_id}", response_model=TaskDetail, responses=problem_responses(404), summary="One task")
async def one(dlq: Queue, actor: Viewer, task_id: str) -> Response:
    """Return the task with its steps, and every move of it and of them."""
    lifecycle = Lifecycle(dlq.context)
    task = await lifecycle.get(task_id)
    await dlq.context.note_read("read", f"task:{task_id}", task.namespace)
    shown = task_json(task, await lifecycle.transitions(task_id), dlq.context.sees_payloads)
    return json_response({**shown, "readiness": await lifecycle.step_readiness(task_id)}, 200)


@router.post(
    "/{task_id}/move",
    response_model=MovedTask,
    responses=problem_responses(404, 409),
    summary="Move a task to the dead-letter queue",
)
async def move(dlq: Queue, actor: Operator, task_id: str, body: ActionRequest | None = None) -> Response:
    """Put the task in `error`, with a letter that says why. A second time, return the letter that exists."""
    body = body or ActionRequest()
    lifecycle = Lifecycle(dlq.context)
    done = await lifecycle.move_to_dlq(task_id, body.notes, by=acting_name(actor, body.by))
    letter = done.letter
    answer = {"task_id": letter.task_id, "original_state": letter.source.state, "created": done.created}
    return json_response(answer, 200)


@router.post("/detect", response_model=list[StaleTask], summary="Find tasks that hang, and hand them over")
async def detect(dlq: OwnQueue, actor: Operator, body: DetectRequest | None = None) -> Response:
    """List the most overdue first; nothing is changed unless `dry_run` is false."""
    body = body or DetectRequest()
    rows = await Lifecycle(dlq.context).detect_and_transition_stale_tasks(
        body.dry_run, body.batch_size, by=acting_name(actor, body.by)
    )
    return json_response(list(rows), 200)

"""The pages of lifecycle tasks: running and stale tasks, and moving stale ones after a preview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, urlencode

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import PageQueue, console_of, show
from mahavishnu.console.forms import FormFields
from mahavishnu.console.frame import Link, Number, NumberIn, Said
from mahavishnu.console.recent_reads import Recent, read_or_none
from mahavishnu.console.words import plural
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import OwnQueue, Viewer, acting_name
from mahavishnu.http.responses import decode_id
from mahavishnu.http.routing import Query, Router
from mahavishnu.http.schemas import NamespacePageQuery
from mahavishnu.stores.base import Page
from mahavishnu.tasks.routes import Operator
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.staleness_rules import StaleRow
from mahavishnu.tasks.task import OldTransition, StepState, TaskRecord, TaskState

router = Router(tag="task_pages", documented=False)


def count_stale(stale: Recent[Sequence[StaleRow] | None]) -> Number | None:
    """Count the stale tasks."""
    found = stale.value
    return Number(len(found), wanted=True, least=len(found) >= MOST_STALE_READ) if found else None


class TaskPageQuery(NamespacePageQuery):
    """The filters of the list; empty fields mean open tasks."""

    state: Annotated[str, Field(max_length=1000)] = ""
    name: Annotated[str, Field(max_length=1000)] = ""


@dataclass(frozen=True, slots=True)
class TasksView:
    """A page of tasks, and the stale ones; None for what is not known now."""

    page: Page[TaskRecord]
    params: TaskPageQuery
    stale: Sequence[StaleRow] | None
    states: Sequence[str]

    @property
    def next(self) -> str:
        """The link to the next page."""
        given = {"state": self.params.state, "name": self.params.name, "limit": self.params.limit}
        return f"tasks?{urlencode({**given, 'cursor': str(self.page.next)})}"


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task with its moves, the readiness of its steps, and its staleness; None for what is not known now."""

    task: TaskRecord
    moves: Sequence[OldTransition] | None
    readiness: dict[str, str | None]
    stale: StaleRow | None

    @property
    def done_steps(self) -> int:
        return sum(step.state is StepState.COMPLETE for step in self.task.steps)

    @property
    def may_move(self) -> bool:
        """True if it can be moved to the dead-letter queue."""
        return self.task.is_open or self.task.state is TaskState.ERROR


@router.get("/tasks")
async def tasks_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[TaskPageQuery, Query()]
) -> Response:
    """Show lifecycle tasks, newest first, with the stale ones above them."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)
    lifecycle = Lifecycle(dlq.context)

    async def read() -> TasksView:
        page = await lifecycle.list(
            params.state or None, name=params.name.strip() or None, limit=params.limit, after=params.cursor
        )
        return TasksView(page, params, await read_stale(dlq), [*TaskState])

    found = await console_of(request).share(request, dlq, "tasks", read, params.model_dump_json())
    return await show(request, "tasks.html", found.value, recent=found)


@router.get("/tasks/{task_id}")
async def task_page(request: Request, dlq: PageQueue, actor: Viewer, task_id: str) -> Response:
    """Show one task with its steps and all its moves."""
    lifecycle = Lifecycle(dlq.context)
    task = await lifecycle.get(decode_id(task_id))
    await dlq.context.note_read("read", f"task:{task.task_id}", task.namespace)
    stale = await read_stale(dlq) if task.is_open else None
    view = TaskView(
        task,
        await read_or_none(lifecycle.transitions(task.task_id)),
        dict(await read_or_none(lifecycle.step_readiness(task.task_id)) or {}),
        next((row for row in stale or () if row["task_uuid"] == task.task_id), None),
    )
    return await show(request, "task.html", view)


@router.post("/tasks/detect")
async def detect(request: Request, dlq: OwnQueue, actor: Operator, form: FormFields) -> Response:
    """Hand over the stale tasks, as their template or the settings say; the page has shown them before."""
    rows = await Lifecycle(dlq.context).detect_and_transition_stale_tasks(
        False, MOST_STALE_READ, by=acting_name(actor, None)
    )
    moved = sum(row["moved_to_dlq"] for row in rows)
    left = len(rows) - moved
    text = f"{plural(moved, 'task')} {'has' if moved == 1 else 'have'} a letter now."
    if left:
        text += f" {plural(left, 'other')} got none: what was done is in the list of their moves."
    return console_of(request).go(request, "tasks", Said(text if rows else "No task hangs any more: nothing was done."))


@router.post("/tasks/{task_id}/move")
async def move(request: Request, dlq: PageQueue, actor: Operator, task_id: str, form: FormFields) -> Response:
    """Make a letter of a task, which is in `error` then."""
    done = await Lifecycle(dlq.context).move_to_dlq(
        decode_id(task_id), form.optional("reason"), by=acting_name(actor, None)
    )
    letter = done.letter
    path = f"../../letters/{quote(letter.task_id, safe='')}?{urlencode({'queue': letter.queue})}"
    text = "It is in error, and has a letter now." if done.created else "It has a letter already."
    return console_of(request).go(
        request, f"tasks/{quote(decode_id(task_id), safe='')}", Said(text, path=path, path_name="See the letter")
    )


MOST_STALE_READ, MOST_RUNS_READ = 100, 200  # for the navigation, which counts them


async def read_stale(dlq: LetterQueue) -> Sequence[StaleRow] | None:
    """Read the tasks that hang for the start page and the navigation."""
    return await read_or_none(Lifecycle(dlq.context).detect_and_transition_stale_tasks(True, MOST_STALE_READ))


LINKS = (Link("tasks", "Tasks", "Where", 7, key="t", number=NumberIn(read_stale, count_stale)),)

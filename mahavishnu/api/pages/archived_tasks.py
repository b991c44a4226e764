"""Archived lifecycle tasks: the list, searched, and one task with all that happened to it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import PageQueue, console_of, show
from mahavishnu.console.forms import read_day
from mahavishnu.core.queue.archived_task_reads import ArchivedTaskCase, ArchivedTaskPage
from mahavishnu.http.auth import OwnQueue, Viewer
from mahavishnu.http.responses import decode_id
from mahavishnu.http.routing import Query, Router
from mahavishnu.http.schemas import NamespacePageQuery
from mahavishnu.tasks.task import OPEN, TaskState

Text = Annotated[str, Field(max_length=1000)]
NAMES = ("task_id", "name", "state", "since", "until")
router = Router(tag="archived_task_pages", documented=False)


class ArchivedTaskQuery(NamespacePageQuery):
    """Which archived tasks; empty is as if it was not there, since a form sends all its fields."""

    task_id: Text = ""
    name: Text = ""
    state: Text = ""
    since: Text = ""
    until: Text = ""


@dataclass(frozen=True, slots=True)
class ArchivedTasksView:
    """One page of archived tasks, as it was asked for."""

    page: ArchivedTaskPage
    params: ArchivedTaskQuery
    states: Sequence[str]

    @property
    def given(self) -> dict[str, str]:
        """The filters that are set."""
        return {name: value for name in NAMES if (value := getattr(self.params, name).strip())}

    @property
    def next(self) -> str:
        """Where the next page is."""
        return f"archive/tasks?{urlencode({**self.given, 'limit': self.params.limit, 'cursor': str(self.page.next)})}"

    @property
    def command(self) -> str:
        """The same for the command line."""
        options = {f"--{name}": value for name, value in self.given.items() if name != "task_id"}
        named = filter(None, [self.params.task_id.strip()])
        return shlex.join(["mahavishnu", "archive", "tasks", *named, *chain(*options.items())])


@router.get("/archive/tasks")
async def archived_tasks_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[ArchivedTaskQuery, Query()]
) -> Response:
    """Archived tasks, the latest end first."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)

    async def read() -> ArchivedTasksView:
        page = await dlq.archive.search_tasks(
            task_id=params.task_id.strip() or None,
            name=params.name.strip() or None,
            state=params.state.strip() or None,
            since=read_day(params.since),
            until=read_day(params.until),
            limit=params.limit,
            after=params.cursor,
        )
        return ArchivedTasksView(page, params, [each for each in TaskState if each not in OPEN])

    found = await console_of(request).share(request, dlq, "archived tasks", read, params.model_dump_json())
    return await show(request, "archived_tasks.html", found.value, recent=found)


@router.get("/archive/tasks/{task_id}")
async def archived_task_page(request: Request, dlq: PageQueue, actor: Viewer, task_id: str) -> Response:
    """The latest archived task of this id, with every move of it."""
    case: ArchivedTaskCase = await dlq.archive.show_task(decode_id(task_id))
    return await show(request, "archived_task.html", case)

"""The archive: closed letters are searched, shown and put back, and its months are detached and attached."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated
from urllib.parse import quote, urlencode

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.archive.partitions import ArchivedCase, ArchivePage
from mahavishnu.archive.routes import Admin, Operator
from mahavishnu.archive.service import Archive
from mahavishnu.archive.tasks import ArchivedTaskPage
from mahavishnu.classify.fingerprint import is_own_code
from mahavishnu.classify.tracebacks import TracebackParts, split_traceback
from mahavishnu.console.console import PageQueue, console_of, show
from mahavishnu.console.forms import FilterQuery, FormFields
from mahavishnu.console.frame import Link, Said
from mahavishnu.console.recent_reads import read_or_none
from mahavishnu.http.auth import OwnQueue, Viewer, acting_name
from mahavishnu.http.responses import decode_id
from mahavishnu.http.routing import Query, Router
from mahavishnu.letters.timeline import Step, steps_of
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter_parts import ErrorCategory, ResolutionStatus
from mahavishnu.model.record import Value
from mahavishnu.tasks.task import OPEN, TaskState

Text = Annotated[str, Field(max_length=1000)]
LINKS = (Link("archive", "Archive", "Record", 9, key="a"),)
router = Router(tag="archive_pages", documented=False)


class ArchivePageQuery(FilterQuery):
    """The filters of the list of archived letters."""

    filters = ("task_id", "category", "resolution", "fingerprint", "since", "until")
    task_id: Text = ""
    category: Text = ""
    resolution: Text = ""
    fingerprint: Text = ""
    since: Text = ""
    until: Text = ""


class ArchivedTaskQuery(FilterQuery):
    """The filters of the list of archived tasks."""

    filters = ("task_id", "name", "state", "since", "until")
    task_id: Text = ""
    name: Text = ""
    state: Text = ""
    since: Text = ""
    until: Text = ""


class ArchiveListView(Value, frozen=True):
    """One page of archived letters or tasks, at `path`, and the values of the filters to choose from."""

    page: ArchivePage | ArchivedTaskPage
    params: FilterQuery
    path: str
    verb: str  #: of the command that lists the same
    choices: Mapping[str, Sequence[str]]

    @property
    def given(self) -> dict[str, str]:
        """The filters that are set."""
        return self.params.given

    @property
    def next(self) -> str:
        """The address of the next page."""
        return f"{self.path}?{urlencode({**self.given, 'limit': self.params.limit, 'cursor': str(self.page.next)})}"

    @property
    def command(self) -> str:
        """The command that lists the same."""
        given = {"group" if name == "fingerprint" else name: value for name, value in self.given.items()}
        named = [given.pop("task_id")] if "task_id" in given else []
        options = chain.from_iterable((f"--{name}", value) for name, value in given.items())
        return shlex.join(["mahavishnu", "archive", self.verb, *named, *options])


class ArchivedView(Value, frozen=True):
    """An archived letter with all that went to the archive with it."""

    case: ArchivedCase
    trace: TracebackParts
    steps: Sequence[Step]


@router.get("/archive")
async def archive_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[ArchivePageQuery, Query()]
) -> Response:
    """Show archived letters, the latest end first."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)
    ended = [each for each in ResolutionStatus if each is not ResolutionStatus.PENDING]
    choices: dict[str, Sequence[str]] = {"category": [*ErrorCategory], "resolution": ended}

    async def read() -> ArchiveListView:
        page = await dlq.service(Archive).search(**params.arguments)
        return ArchiveListView(page, params, "archive", "search", choices)

    found = await console_of(request).share(request, dlq, "archive", read, params.model_dump_json())
    return await show(request, "archive.html", found.value, recent=found)


@router.get("/archive/months")
async def months_page(request: Request, dlq: PageQueue, actor: Viewer) -> Response:
    """Show the months of the archive, including detached ones."""
    return await show(request, "months.html", await read_or_none(dlq.service(Archive).partitions()))


@router.post("/archive/months/{month}/{act}")
async def change_month(
    request: Request, dlq: PageQueue, actor: Admin, month: str, act: str, form: FormFields
) -> Response:
    """Use a month no more, or again."""
    name, by = decode_id(month), acting_name(actor, None)
    if act == "attach":
        await dlq.service(Archive).attach(name, by=by)
        text = f"Month {name} is used again."
    elif act != "detach":
        raise InvalidInput(f"a month is attached or detached, not {act!r:.80}")
    else:
        place = await dlq.service(Archive).detach(name, by=by)
        text = f"Month {name} is detached. It is at {place}, and can be moved away."
    return console_of(request).go(request, "archive/months", Said(text))


@router.get("/archive/letters/{name}")
async def archived_page(request: Request, dlq: PageQueue, actor: Viewer, name: str) -> Response:
    """Show one archived letter, with former letters, revisions and tasks."""
    case = await dlq.service(Archive).show(decode_id(name))
    audit = await read_or_none(dlq.audit.list(subject=f"letter:{case.letter.key}", limit=50))
    failures = case.letter.failures
    trace = split_traceback((failures[-1].traceback if failures else None) or "", is_own_code)
    view = ArchivedView(case, trace, steps_of(case.letter, audit.items if audit else ()))
    return await show(request, "archived.html", view)


@router.post("/archive/letters/{name}/restore")
async def restore(request: Request, dlq: PageQueue, actor: Operator, name: str, form: FormFields) -> Response:
    """Put it back into the queue, as it was."""
    letter = await dlq.service(Archive).restore(
        decode_id(name), by=acting_name(actor, None), notes=form.optional("reason")
    )
    where = "" if letter.queue == DEFAULT_QUEUE else f"?{urlencode({'queue': letter.queue})}"
    said = Said("It is back in the queue, closed as it was. Redrive it to have it run.")
    return console_of(request).go(request, f"letters/{quote(letter.task_id, safe='')}{where}", said)


@router.get("/archive/tasks")
async def archived_tasks_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[ArchivedTaskQuery, Query()]
) -> Response:
    """Show archived tasks, the latest end first."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)

    async def read() -> ArchiveListView:
        page = await dlq.service(Archive).search_tasks(**params.arguments)
        choices: dict[str, Sequence[str]] = {"state": [each for each in TaskState if each not in OPEN]}
        return ArchiveListView(page, params, "archive/tasks", "tasks", choices)

    found = await console_of(request).share(request, dlq, "archived tasks", read, params.model_dump_json())
    return await show(request, "archived_tasks.html", found.value, recent=found)


@router.get("/archive/tasks/{task_id}")
async def archived_task_page(request: Request, dlq: PageQueue, actor: Viewer, task_id: str) -> Response:
    """Show the latest archived task with this id, with all its transitions."""
    return await show(request, "archived_task.html", await dlq.service(Archive).show_task(decode_id(task_id)))

"""Pages of bulk runs: the list, and one run with its progress, the causes of new failures, and the next fix."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.bulk.routes import Operator, RunItemQuery, RunQuery
from mahavishnu.bulk.rules import (
    FixScope,
    Wave,
    failed_again_query,
    fix_query,
    members_needed,
    named_groups,
    percent_to_resume_with,
    waves_of,
)
from mahavishnu.bulk.run import ACTIVE, ENDED, BulkRun, RunItem, RunState
from mahavishnu.bulk.selection import STOP_PERCENT, Fix, read_fix
from mahavishnu.bulk.service import BulkRuns, RunItems
from mahavishnu.classify.fingerprint import fingerprint_of, is_own_code
from mahavishnu.classify.tracebacks import TraceFrame, split_traceback
from mahavishnu.console.console import PageQueue, console_of, show
from mahavishnu.console.forms import Form, FormFields, changes_of
from mahavishnu.console.frame import Link, Number, NumberIn, Said
from mahavishnu.console.recent_reads import Recent, read_or_none
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import OwnQueue, Viewer, acting_name
from mahavishnu.http.responses import decode_id
from mahavishnu.http.routing import Query, Router
from mahavishnu.letters.service import LetterOperations
from mahavishnu.model.errors import InvalidInput, InvalidQuery, MahavishnuError, PermissionDenied, StoreError
from mahavishnu.model.events import AuditEntry
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import UNCHANGED
from mahavishnu.model.query import NEWEST_FIRST, Is, query_from_json
from mahavishnu.model.query import Query as LetterQuery
from mahavishnu.model.record import Value
from mahavishnu.model.work import ItemOutcome
from mahavishnu.search.completion import query_text
from mahavishnu.stores.base import Page
from mahavishnu.tasks.page import MOST_RUNS_READ

MOST_READ = 1000  # members that are read for the waves
MOST_FAILED = 200  # letters whose failures are compared
MOST_LISTED = 25
MOST_GROUPS = 3
MOST_ENTRIES = 30
Part = Literal["failed_again", "succeeded", "closed", "moved", "waiting", "refused", "gone"]
router = Router(tag="run_page", documented=False)


class Cause(Value, frozen=True):
    """Letters whose last failures have one cause. `first` are those of them that failed like that at first too."""

    letters: Sequence[DeadLetter]
    frame: TraceFrame | None
    first: int
    by_themselves: int  #: of them have a date at which they are run again
    next_at: datetime | None

    @property
    def sample(self) -> DeadLetter:
        """The one that changed last."""
        return self.letters[0]

    @property
    def type(self) -> str | None:
        return self.sample.failures[-1].type

    @property
    def message(self) -> str:
        return self.sample.failures[-1].message


class Listed(Value, frozen=True):
    """One member of the list: what the run says of it, and its letter if that can be read."""

    item: RunItem
    letter: DeadLetter | None


class RunView(Value, frozen=True):
    """A run with its letters and its audit; None for what cannot be told now."""

    run: BulkRun
    waves: Sequence[Wave] | None
    causes: Sequence[Cause] | None
    failed_read: int
    part: Part
    listed: Sequence[Listed] | None
    next: str | None
    entries: Sequence[AuditEntry] | None
    fix: Fix
    scope: FixScope
    idempotency_key: str

    @property
    def name(self) -> str:
        """The action of the run, as its headline says it."""
        verb = self.run.verb
        if self.run.patch is not None and verb == "redrive":
            return "Edit and redrive"
        return verb.replace("_", " ").capitalize()

    @property
    def filter_text(self) -> str | None:
        """The letters that it is for, as a query; None for what no text can say."""
        try:
            return query_text(query_from_json(self.run.query.value)) or "all letters"
        except InvalidQuery:
            return None

    @property
    def groups(self) -> Sequence[str]:
        """The groups that it is for: those that its filter names, or else those of the letters that are listed."""
        named = named_groups(query_from_json(self.run.query.value))
        listed = (each.letter.fingerprint for each in self.listed or () if each.letter and each.letter.fingerprint)
        return list(dict.fromkeys(named or listed))[:MOST_GROUPS]

    @property
    def changes(self) -> Sequence[tuple[str, Any]]:
        """The values that its patch sets in each task."""
        patch = self.run.patch.value if self.run.patch is not None else None
        return [*changes_of(patch)] if isinstance(patch, dict) else []

    @property
    def rows(self) -> Sequence[tuple[str, str]]:
        """Paths and values of the form; one row is always free."""
        return [*[row for row in self.fix.rows if any(row)], ("", "")]

    @property
    def percent(self) -> int:
        """A stop rule with which it would go on."""
        return percent_to_resume_with(self.run.counts)

    @property
    def is_active(self) -> bool:
        return self.run.state in ACTIVE

    @property
    def is_over(self) -> bool:
        return self.run.state in ENDED

    @property
    def tabs(self) -> Sequence[tuple[Part, str, int]]:
        """The lists of its letters, each with its number."""
        counts = self.run.counts
        whole: list[tuple[Part, str, int]] = [
            ("failed_again", "Failed again", counts.failed_again),
            ("succeeded", "Succeeded", counts.succeeded),
            ("closed", "Closed by people", counts.closed),
        ]
        if not self.run.awaits_outcomes:
            whole = [("moved", "Moved", counts.moved)]
        whole += [
            ("waiting", "Not touched", counts.waiting),
            ("refused", "Refused", counts.refused),
            ("gone", "Gone", counts.gone),
        ]
        return whole


class RunPageQuery(RunItemQuery):
    """The filter of the listed letters."""

    part: Part | None = None


@router.get("/runs/{run_id}")
async def run_page(
    request: Request, dlq: PageQueue, actor: Viewer, run_id: str, params: Annotated[RunPageQuery, Query()]
) -> Response:
    """Show a run: its state, and what to do next."""
    return await _show(request, dlq, await dlq.service(BulkRuns).get(decode_id(run_id)), params)


@router.post("/runs/{run_id}/{act}")
async def act(request: Request, dlq: PageQueue, actor: Operator, run_id: str, act: str, form: FormFields) -> Response:
    """Pause it, go on with it, end it, or try another fix on its letters."""
    run = await dlq.service(BulkRuns).get(decode_id(run_id))
    by, reason = acting_name(actor, None), form.optional("reason")
    match act:
        case "pause":
            await dlq.service(BulkRuns).pause(run.run_id, by=by, reason=reason)
            said = Said("It is paused. Letters that were moved are still run.", "act")
        case "resume":
            percent = form.optional("stop_percent")
            stop = UNCHANGED if percent is None else _number(percent)
            await dlq.service(BulkRuns).resume(run.run_id, by=by, reason=reason, stop_percent=stop)
            said = Said("It goes on.")
        case "cancel":
            await dlq.service(BulkRuns).cancel(run.run_id, by=by, reason=reason)
            said = Said("It is cancelled. What it moved stays moved; the others are as they were.", "act")
        case "fix":
            return await _fix(request, dlq, run, by, form)
        case _:
            raise InvalidInput(f"a run cannot be told to {act!r:.80}; there are pause, resume, cancel and fix")
    return console_of(request).go(request, f"runs/{run.run_id}", said)


async def _fix(request: Request, dlq: LetterQueue, run: BulkRun, by: str, form: Form) -> Response:
    rows = list(zip(form.texts("path"), form.texts("value"), strict=False))
    written = Fix(
        rows, bool(form.text("create")), form.text("ramp"), form.text("stop_percent"), reason=form.text("reason")
    )
    scope = FixScope.FAILED
    try:
        if run.state in ACTIVE:
            raise InvalidInput("the run is still under way: pause or cancel it, then try another fix")
        if form.text("scope") not in (*FixScope,):
            raise InvalidInput(f"another fix is for one of {', '.join(FixScope)}, not {form.text('scope')!r:.80}")
        scope = FixScope(form.text("scope"))
        options = read_fix(form)
        query = fix_query(run, scope)
        if form.text("act") == "preview":
            preview = await dlq.service(BulkRuns).preview("redrive", query, **options)
            shown = replace(written, preview=preview, problem=preview.refused)
            return await _show(request, dlq, run, RunPageQuery(), shown, scope)
        begun = await dlq.service(BulkRuns).start("redrive", query, by=by, reason=form.optional("reason"), **options)
    except (StoreError, PermissionDenied):
        raise
    except MahavishnuError as refused:
        shown = replace(written, problem=str(refused))
        return await _show(request, dlq, run, RunPageQuery(), shown, scope, status=422)
    if run.state not in ENDED:  # after the new one has begun: if that is refused, this one can still go on
        await dlq.service(BulkRuns).cancel(run.run_id, by=by, reason=f"another fix is tried by run {begun.run_id}")
    said = Said("Another fix is tried.", path=f"../runs/{run.run_id}", path_name="The run before")
    return console_of(request).go(request, f"runs/{begun.run_id}", said)


async def _show(
    request: Request,
    dlq: LetterQueue,
    run: BulkRun,
    params: RunPageQuery,
    fix: Fix | None = None,
    scope: FixScope | None = None,
    *,
    status: int = 200,
) -> Response:
    part = params.part or _first_part(run)
    waves, failed, (listed, after), audit = await asyncio.gather(
        read_or_none(_waves(dlq, run)),
        read_or_none(dlq.service(LetterOperations).find(failed_again_query(run.run_id, MOST_FAILED), payloads=False)),
        _read_members(dlq, run, part, params.cursor),
        read_or_none(dlq.audit.list(subject=f"run:{run.run_id}", limit=MOST_ENTRIES)),
    )
    failed_items = () if failed is None else failed.items
    view = RunView(
        run,
        waves,
        None if failed is None else causes_of(failed_items),
        len(failed_items),
        part,
        listed,
        after,
        None if audit is None else audit.items[::-1],
        fix
        or Fix(ramp=", ".join(map(str, run.ramp[:2])) or "1, 5", stop_percent=f"{run.stop_percent or STOP_PERCENT:g}"),
        scope or (FixScope.FAILED if run.counts.failed_again else FixScope.REST),
        secrets.token_urlsafe(16),
    )
    return await show(request, "run.html", view, status=status)


async def _waves(dlq: LetterQueue, run: BulkRun) -> Sequence[Wave]:
    needed = members_needed(run, MOST_READ)
    first = (await dlq.service(BulkRuns).items(run.run_id, limit=needed)).items if needed else ()
    return waves_of(run, first)


async def _read_members(
    dlq: LetterQueue, run: BulkRun, part: Part, cursor: str | None
) -> tuple[Sequence[Listed] | None, str | None]:
    asked: dict[str, Any] = {"outcome": part} if part in [*ItemOutcome] else {"state": part}
    found: RunItems | None = await read_or_none(
        dlq.service(BulkRuns).items(run.run_id, limit=MOST_LISTED, after=cursor, **asked)
    )
    if found is None:
        return None, None
    ids = tuple(item.entry_id for item in found.items if item.entry_id)
    page: Page[DeadLetter] | None = None
    if ids:
        query = LetterQuery((Is("entry_id", ids),), NEWEST_FIRST, len(ids))
        page = await read_or_none(dlq.service(LetterOperations).find(query, payloads=False))
    letters = {letter.entry_id: letter for letter in page.items} if page else {}
    listed = [Listed(item, letters.get(item.entry_id)) for item in found.items]
    return listed, None if found.next is None else str(found.next)


def _first_part(run: BulkRun) -> Part:
    """Return the list that is shown first."""
    if not run.awaits_outcomes:
        return "moved" if run.counts.moved or not run.counts.refused else "refused"
    if run.counts.failed_again:
        return "failed_again"
    return "succeeded" if run.counts.succeeded else "waiting"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{text!r:.80} is no number of percent") from None


def causes_of(letters: Iterable[DeadLetter]) -> Sequence[Cause]:
    """Return the causes, largest first. Letters without a failure have none."""
    by_cause: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        if letter.failures:
            by_cause.setdefault(fingerprint_of(letter.failures[-1]), []).append(letter)
    causes = [_cause(name, each) for name, each in by_cause.items()]
    return sorted(causes, key=lambda cause: len(cause.letters), reverse=True)


def _cause(name: str, letters: Sequence[DeadLetter]) -> Cause:
    own = split_traceback(letters[0].failures[-1].traceback or "", is_own_code).own
    dates = [letter.due_at for letter in letters if letter.is_open and letter.due_at is not None]
    first = sum(len(each.failures) > 1 and fingerprint_of(each.failures[0]) == name for each in letters)
    return Cause(letters, own[0] if own else None, first, len(dates), min(dates, default=None))


def count_runs(runs: Recent[Page[BulkRun] | None]) -> Number | None:
    """Count the runs that have halted or are paused, which need attention; or else those under way."""
    if (page := runs.value) is None or not page.items:
        return None
    under_way, least = sum(run.state in ACTIVE for run in page.items), page.next is not None
    stopped = len(page.items) - under_way
    return Number(stopped, wanted=True, least=least) if stopped else Number(under_way, least=least)


class RunsView(Value, frozen=True):
    """One page of runs, as they were asked for."""

    page: Page[BulkRun]
    params: RunQuery

    @property
    def next(self) -> str:
        """The address of the next page."""
        given = {"state": self.params.state, "limit": self.params.limit, "cursor": self.page.next}
        return f"runs?{urlencode({name: value for name, value in given.items() if value is not None})}"


@router.get("/runs")
async def runs_page(request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[RunQuery, Query()]) -> Response:
    """Show bulk runs, newest first."""
    chosen = dlq.in_namespace(params.namespace or dlq.namespace)

    async def read() -> RunsView:
        return RunsView(
            await chosen.service(BulkRuns).list(params.state, limit=params.limit, after=params.cursor), params
        )

    found = await console_of(request).share(request, chosen, "runs", read, params.model_dump_json())
    return await show(request, "runs.html", found.value, recent=found)


_UNDER_WAY = (*ACTIVE, RunState.PAUSED, RunState.HALTED)


async def read_runs(dlq: LetterQueue) -> Page[BulkRun] | None:
    """Read the bulk runs that are not over for the start page and the navigation."""
    return await read_or_none(dlq.service(BulkRuns).list(_UNDER_WAY, limit=MOST_RUNS_READ))


LINKS = (Link("runs", "Runs", "Now", 4, first=True, key="r", number=NumberIn(read_runs, count_runs)),)

"""One bulk run: how far it is, what failed again and why, what to do next, and in the end the proof."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.pages.causes import Cause, causes_of
from mahavishnu.api.pages.overview import read_or_none
from mahavishnu.api.pages.selection import STOP_PERCENT, read_pace
from mahavishnu.api.routes.runs import RunItemQuery
from mahavishnu.bulk.service import RunItems
from mahavishnu.console.console import PageQueue, console_of, show
from mahavishnu.console.forms import Form, changes_of, patch_of, read_form
from mahavishnu.console.frame import Said
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.groups.page import Fix
from mahavishnu.http.auth import Actor, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import decode_id
from mahavishnu.http.routing import Depends, Query, Router
from mahavishnu.model.bulk_rules import percent_to_resume_with
from mahavishnu.model.bulk_run import ACTIVE, ENDED, BulkRun, ItemOutcome, RunItem
from mahavishnu.model.errors import InvalidInput, InvalidQuery, MahavishnuError, PermissionDenied, StoreError
from mahavishnu.model.events import AuditEntry
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import UNCHANGED
from mahavishnu.model.query import NEWEST_FIRST, Is, query_from_json
from mahavishnu.model.query import Query as LetterQuery
from mahavishnu.model.run_progress import (
    FixScope,
    Wave,
    failed_again_query,
    fix_query,
    members_needed,
    named_groups,
    waves_of,
)
from mahavishnu.search.spelling import query_text
from mahavishnu.stores.base import Page

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "handling bulk runs"))]
FormFields = Annotated[Form, Depends(read_form)]
MOST_READ = 1000  # members that are read for the waves
MOST_FAILED = 200  # letters whose failures are compared
MOST_LISTED = 25
MOST_GROUPS = 3
MOST_ENTRIES = 30
Part = Literal["failed_again", "succeeded", "closed", "moved", "waiting", "refused", "gone"]
router = Router(tag="run_page", documented=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """One member of the list: what the run says of it, and its letter if that can be read."""

    item: RunItem
    letter: DeadLetter | None


@dataclass(frozen=True, slots=True)
class RunView:
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
        """What the run does, as its headline says it."""
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
        """What its patch sets in each task."""
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
    """Which of its letters are listed."""

    part: Part | None = None


@router.get("/runs/{run_id}")
async def run_page(
    request: Request, dlq: PageQueue, actor: Viewer, run_id: str, params: Annotated[RunPageQuery, Query()]
) -> Response:
    """How it stands, and what to do next."""
    return await _show(request, dlq, await dlq.runs.get(decode_id(run_id)), params)


@router.post("/runs/{run_id}/{act}")
async def act(request: Request, dlq: PageQueue, actor: Operator, run_id: str, act: str, form: FormFields) -> Response:
    """Pause it, go on with it, end it, or try another fix on its letters."""
    run, by, reason = await dlq.runs.get(decode_id(run_id)), acting_name(actor, None), form.optional("reason")
    match act:
        case "pause":
            await dlq.runs.pause(run.run_id, by=by, reason=reason)
            said = Said("It is paused. Letters that were moved are still run.", "act")
        case "resume":
            percent = form.optional("stop_percent")
            stop = UNCHANGED if percent is None else _number(percent)
            await dlq.runs.resume(run.run_id, by=by, reason=reason, stop_percent=stop)
            said = Said("It goes on.")
        case "cancel":
            await dlq.runs.cancel(run.run_id, by=by, reason=reason)
            said = Said("It is cancelled. What it moved stays moved; the others are as they were.", "act")
        case "fix":
            return await _fix(request, dlq, run, by, form)
        case _:
            raise InvalidInput(f"a run cannot be told to {act!r:.80}; there are pause, resume, cancel and fix")
    return console_of(request).go(request, f"runs/{run.run_id}", said)


async def _fix(request: Request, dlq: DeadLetterQueue, run: BulkRun, by: str, form: Form) -> Response:
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
        patch, (ramp, stop, pace) = patch_of(rows), read_pace(form)
        options: dict[str, Any] = {"ramp": ramp, "stop_percent": stop, "max_per_second": pace}
        options |= {"patch": patch or None, "create": written.create}
        query = fix_query(run, scope)
        if form.text("act") == "preview":
            preview = await dlq.runs.preview("redrive", query, **options)
            shown = replace(written, preview=preview, problem=preview.refused)
            return await _show(request, dlq, run, RunPageQuery(), shown, scope)
        begun = await dlq.runs.start("redrive", query, by=by, reason=form.optional("reason"), **options)
    except (StoreError, PermissionDenied):
        raise
    except MahavishnuError as refused:
        shown = replace(written, problem=str(refused))
        return await _show(request, dlq, run, RunPageQuery(), shown, scope, status=422)
    if run.state not in ENDED:  # after the new one has begun: if that is refused, this one can still go on
        await dlq.runs.cancel(run.run_id, by=by, reason=f"another fix is tried by run {begun.run_id}")
    said = Said("Another fix is tried.", path=f"../runs/{run.run_id}", path_name="The run before")
    return console_of(request).go(request, f"runs/{begun.run_id}", said)


async def _show(
    request: Request,
    dlq: DeadLetterQueue,
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
        read_or_none(dlq.letters.find(failed_again_query(run.run_id, MOST_FAILED), payloads=False)),
        _listed(dlq, run, part, params.cursor),
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


def _usual_fix(run: BulkRun) -> Fix:
    """The form as it is shown first: with the waves and the stop rule of the run."""
    stop = STOP_PERCENT if run.stop_percent is None else run.stop_percent
    return Fix(ramp=", ".join(map(str, run.ramp[:2])) or "1, 5", stop_percent=f"{stop:g}")


async def _waves(dlq: DeadLetterQueue, run: BulkRun) -> Sequence[Wave]:
    needed = members_needed(run, MOST_READ)
    first = (await dlq.runs.items(run.run_id, limit=needed)).items if needed else ()
    return waves_of(run, first)


async def _listed(
    dlq: DeadLetterQueue, run: BulkRun, part: Part, cursor: str | None
) -> tuple[Sequence[Listed] | None, str | None]:
    asked: dict[str, Any] = {"outcome": part} if part in [*ItemOutcome] else {"state": part}
    found: RunItems | None = await read_or_none(dlq.runs.items(run.run_id, limit=MOST_LISTED, after=cursor, **asked))
    if found is None:
        return None, None
    ids = tuple(item.entry_id for item in found.items if item.entry_id)
    page: Page[DeadLetter] | None = None
    if ids:
        query = LetterQuery((Is("entry_id", ids),), NEWEST_FIRST, len(ids))
        page = await read_or_none(dlq.letters.find(query, payloads=False))
    letters = {letter.entry_id: letter for letter in page.items} if page else {}
    listed = [Listed(item, letters.get(item.entry_id)) for item in found.items]
    return listed, None if found.next is None else str(found.next)


def _first_part(run: BulkRun) -> Part:
    """What somebody wants to see first."""
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

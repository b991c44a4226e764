"""Pages of groups: the list, and one group with its cause, owner and fix, which is tried on one letter first."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.bulk.selection import Fix, read_fix
from mahavishnu.bulk.service import BulkRuns
from mahavishnu.classify.fingerprint import is_own_code
from mahavishnu.classify.tracebacks import TracebackParts, split_traceback
from mahavishnu.console.console import KEY_MARK, PageQueue, console_of, show
from mahavishnu.console.forms import Form, FormFields, read_day
from mahavishnu.console.frame import Link, Number, NumberIn, Said
from mahavishnu.console.recent_reads import Recent, read_or_none
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.groups.routes import GroupQuery, Operator
from mahavishnu.groups.rules import (
    RULE,
    Attention,
    GroupPage,
    GroupPriority,
    GroupState,
    GroupView,
    attention_of,
    rank_groups,
)
from mahavishnu.groups.service import Groups
from mahavishnu.http.auth import OwnQueue, Viewer, acting_name
from mahavishnu.http.responses import decode_id, etag
from mahavishnu.http.routing import Query as Parameters
from mahavishnu.http.routing import Router
from mahavishnu.letters.commonalities import GroupCommonalities
from mahavishnu.letters.service import LetterOperations
from mahavishnu.model.clock import instant
from mahavishnu.model.errors import ChangedMeanwhile, InvalidInput, MahavishnuError, PermissionDenied, StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Failure, ResolutionStatus
from mahavishnu.model.query import Between, Is, Query, Sort
from mahavishnu.model.record import Value

MOST_SAMPLES = 5
STALE = "Somebody changed the group since this page was shown: nothing was saved. What stands here now is new."
ENDINGS: Mapping[ResolutionStatus, str] = {
    ResolutionStatus.REQUEUED: "ran again and succeeded",
    ResolutionStatus.MANUALLY_RESOLVED: "resolved by people",
    ResolutionStatus.PERMANENTLY_FAILED: "given up",
    ResolutionStatus.CANCELLED: "cancelled",
    ResolutionStatus.MOVED: "moved to another queue",
}
router = Router(tag="group", documented=False)


class GroupPageView(Value, frozen=True):
    """A group with its samples, newest first; None for what cannot be told now."""

    group: GroupView
    samples: Sequence[DeadLetter] | None
    failure: Failure | None  #: of the newest sample, with the cause of this group
    trace: TracebackParts
    common: GroupCommonalities | None
    fix: Fix
    idempotency_key: str
    endings: Mapping[str, int] | None = None  #: how the letters of a closed group ended, and how many of them so
    problem: str | None = None  #: why what somebody said of the group was not recorded

    @property
    def by_itself(self) -> bool:
        """True if the group closed with its last letter, not by a person."""
        return self.group.group.resolved_by == RULE

    @property
    def version(self) -> str:
        """The version that a change names, so that it changes nothing unseen."""
        return etag(self.group.version)

    @property
    def newest(self) -> DeadLetter | None:
        return self.samples[0] if self.samples else None

    @property
    def rows(self) -> Sequence[tuple[str, str]]:
        """Paths and values of the form; one row is always free."""
        given = [row for row in self.fix.rows if any(row)]
        return [*given, ("", "")]

    @property
    def busiest_hour(self) -> int:
        return max(self.group.hours, default=0)


@router.get("/groups/{fingerprint}")
async def group_page(request: Request, dlq: PageQueue, actor: Viewer, fingerprint: str) -> Response:
    """Show a group: its cause and what to do about it."""
    name = decode_id(fingerprint)

    async def read() -> GroupPageView:
        before = dlq.clock.now().isoformat()
        group, common = await asyncio.gather(dlq.service(Groups).get(name), _commonalities(dlq, name))
        return await _view(dlq, group, Fix(before=before), common, KEY_MARK)

    found = await console_of(request).share(request, dlq, "group", read, name)
    return await show(request, "group.html", found.value, recent=found)


@router.post("/groups/{fingerprint}")
async def update(request: Request, dlq: PageQueue, actor: Operator, fingerprint: str, form: FormFields) -> Response:
    """Record who is at it, how far they are, a note, a link, a hold: what the form names."""
    name, by = decode_id(fingerprint), acting_name(actor, None)
    group, act = await dlq.service(Groups).get(name), form.text("act")
    try:
        if act == "note":
            await dlq.service(Groups).update(name, by=by, **_note_of(form))
        else:
            if not _is_as_shown(group, act, by, form.text("version")):
                raise ChangedMeanwhile(name, "update", str(group.state), "changed meanwhile", what="group")
            await dlq.service(Groups).update(name, by=by, base=group, **_changes_of(group, act, by, form))
    except ChangedMeanwhile:
        return await _show(request, dlq, await dlq.service(Groups).get(name), Fix(), problem=STALE, status=412)
    said = {
        "take": f"{by} is at it.",
        "note": "The note is added.",
        "resolved": "It is resolved. A new failure of this cause is a regression.",
        "wont_fix": "It is not going to be fixed. New letters of this cause are expected.",
    }.get(act, "Saved.")
    return console_of(request).go(request, f"groups/{quote(name, safe='')}", Said(said))


def _note_of(form: Form) -> dict[str, Any]:
    """Return the note and the link of a form. Raise InvalidInput where there is neither."""
    given = {"note": form.optional("note"), "link": form.optional("link")}
    if not any(given.values()):
        raise InvalidInput("a note or a link is a text that says something")
    return given


def _is_as_shown(group: GroupView, act: str, by: str, version: str) -> bool:
    """Return whether the form overwrites only what its page showed. Taking a group overwrites its owner only."""
    return version == etag(group.version) or (act == "take" and group.owner in (None, by))


def _changes_of(group: GroupView, act: str, by: str, form: Form) -> dict[str, Any]:
    if act == "take":
        return {"owner": by} | ({"state": GroupState.INVESTIGATING} if group.state is GroupState.NEW else {})
    if act in ("resolved", "wont_fix"):
        return {"state": act, "note": form.optional("note")}
    return {
        "state": form.optional("state"),
        "owner": form.optional("owner"),
        "hold_until": read_day(form.optional("hold_until") or ""),
        "hold_release": form.optional("hold_release"),
    }


@router.post("/groups/{fingerprint}/fix")
async def fix(request: Request, dlq: PageQueue, actor: Operator, fingerprint: str, form: FormFields) -> Response:
    """Show what a fix would do, or begin with its first letter."""
    group = await dlq.service(Groups).get(decode_id(fingerprint))
    rows = list(zip(form.texts("path"), form.texts("value"), strict=False))
    texts = ("ramp", "stop_percent", "max_per_second", "reason", "before")
    given: dict[str, Any] = {name: form.text(name) for name in texts}
    written = Fix(rows, bool(form.text("create")), **given)
    try:
        options = read_fix(form)
        query = _letters_of(group, written.before)
        if form.text("act") == "preview":
            preview = await dlq.service(BulkRuns).preview("redrive", query, **options)
            return await _show(request, dlq, group, replace(written, preview=preview, problem=preview.refused))
        run = await dlq.service(BulkRuns).start(
            "redrive", query, by=acting_name(actor, None), reason=form.optional("reason"), **options
        )
    except (StoreError, PermissionDenied):
        raise
    except MahavishnuError as refused:
        return await _show(request, dlq, group, replace(written, problem=str(refused)), status=422)
    first = f"It begins with {run.ramp[0]}; " if run.ramp else ""
    said = Said(f"The redrive has begun. {first}what fails again stands here.")
    return console_of(request).go(request, f"runs/{run.run_id}", said)


async def _show(
    request: Request, dlq: LetterQueue, group: GroupView, fix: Fix, *, problem: str | None = None, status: int = 200
) -> Response:
    """Show the group with a fix as it is written so far."""
    if not fix.before:
        fix = replace(fix, before=dlq.clock.now().isoformat())
    name = group.fingerprint
    common = await console_of(request).share(request, dlq, "common", lambda: _commonalities(dlq, name), name)
    view = replace(await _view(dlq, group, fix, common.value, secrets.token_urlsafe(16)), problem=problem)
    return await show(request, "group.html", view, status=status)


async def _view(
    dlq: LetterQueue, group: GroupView, fix: Fix, common: GroupCommonalities | None, key: str
) -> GroupPageView:
    samples, endings = await asyncio.gather(read_or_none(_samples(dlq, group)), read_or_none(_endings(dlq, group)))
    failure = next(reversed(samples[0].told), None) if samples else None
    trace = split_traceback((failure and failure.traceback) or "", is_own_code)
    return GroupPageView(group, samples, failure, trace, common, fix, key, endings)


async def _commonalities(dlq: LetterQueue, name: str) -> GroupCommonalities | None:
    return await read_or_none(dlq.service(Groups).commonalities(name))


async def _endings(dlq: LetterQueue, group: GroupView) -> Mapping[str, int]:
    """Return the number of stored letters of a closed group by their ending; nothing for an open group."""
    if not group.group.is_closed:
        return {}
    here = Query((Is("fingerprint", (group.fingerprint,)),))
    ended = (await dlq.context.letters.tally(here, ["resolution_status"])).by(0)
    return {words: ended[status].count for status, words in ENDINGS.items() if status in ended}


async def _samples(dlq: LetterQueue, group: GroupView) -> Sequence[DeadLetter]:
    where: tuple[Any, ...] = (Is("fingerprint", (group.fingerprint,)),)
    if group.count:
        where += (Is("resolution_status", (ResolutionStatus.PENDING,)),)
    return (
        await dlq.service(LetterOperations).find(Query(where, (Sort("created_at", descending=True),), MOST_SAMPLES))
    ).items


def _letters_of(group: GroupView, before: str) -> Query:
    """Return the query for the group's open letters that existed when the page was shown. Raise InvalidInput."""
    try:
        moment = instant(datetime.fromisoformat(before))
    except ValueError:
        raise InvalidInput("the form does not say when it was shown: load the page again") from None
    here = Is("fingerprint", (group.fingerprint,))
    is_open = Is("resolution_status", (ResolutionStatus.PENDING,))
    return Query((here, is_open, Between("created_at", at_most=moment)), (Sort("created_at", descending=True),))


def count_needs(groups: Recent[GroupPage | None]) -> Number | None:
    """Return the number of groups that need attention; if none does, the number of groups."""
    page = groups.value
    if page is None:
        return None
    needed = sum(need.attention is Attention.NEEDED for need in groups.derive(needs_of))
    if needed:
        return Number(needed, wanted=True, least=page.degraded is not None)
    return Number(page.total, least=page.degraded is not None)


class GroupsView(Value, frozen=True):
    """One page of groups, as they were asked for."""

    page: GroupPage
    params: GroupQuery

    def is_wanted(self, place: int) -> bool:
        """Return whether the group at this place needs attention."""
        return attention_of(self.page.items[place]) is Attention.NEEDED


@router.get("/groups")
async def groups_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[GroupQuery, Parameters()]
) -> Response:
    """Show groups of letters with one cause each."""
    here = dlq.in_namespace(params.namespace or dlq.namespace)
    found = await console_of(request).share(
        request, here, "groups", lambda: here.service(Groups).list(**params.arguments()), params.model_dump_json()
    )
    return await show(request, "groups.html", GroupsView(found.value, params), recent=found)


MOST_RANKED = 200  # groups that are looked at, those with most letters


async def read_groups(dlq: LetterQueue) -> GroupPage | None:
    """Return the groups with most letters, for the start page and the navigation."""
    return await read_or_none(dlq.service(Groups).list(limit=MOST_RANKED))


def needs_of(groups: Recent[GroupPage | None]) -> Sequence[GroupPriority]:
    """Return the groups that are not done, as they were when they were read, those that need attention first."""
    return rank_groups(groups.value.items, groups.at) if groups.value else ()


LINKS = (Link("groups", "Groups", "Now", 2, first=True, key="g", number=NumberIn(read_groups, count_needs)),)

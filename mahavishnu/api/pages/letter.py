"""One letter: what happened, where it broke, its task with an edit and its difference, and what can be done."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.pages.history import Step, state_now, steps_of
from mahavishnu.api.pages.overview import read_or_none
from mahavishnu.classify.fingerprint import is_own_code
from mahavishnu.classify.tracebacks import TracebackParts, split_traceback
from mahavishnu.console.console import KEY_MARK, console_of, show
from mahavishnu.console.forms import Form, patch_of, read_form, read_json
from mahavishnu.console.frame import Said, letter_path, letter_query
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.queue.commonalities import LetterContrasts
from mahavishnu.core.queue.restoring import EditPreview
from mahavishnu.http.auth import Actor, Queue, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import ScopeQuery, decode_id, etag
from mahavishnu.http.routing import Depends, Router
from mahavishnu.model.errors import InvalidInput, MahavishnuError, NoSuchLetter, PermissionDenied, StoreError
from mahavishnu.model.events import AuditEntry
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Failure
from mahavishnu.model.query import Is, Not, Query, Sort
from mahavishnu.stores.retained import Revision

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "changing letters"))]
Admin = Annotated[Actor, Depends(require_role(Role.ADMIN, "deleting letters"))]
VERBS: Mapping[str, str] = {
    "redrive": "It gets fresh attempts; the first one is due now.",
    "resolve": "It is closed as settled otherwise.",
    "fail": "It is closed as permanently failed.",
    "cancel": "It is closed as work that nobody wants any more.",
    "archive": "It is put away.",
}
MOST_SIBLINGS, MOST_ENTRIES, ROWS = 5, 50, 3
LARGEST_FORM = 100_000  # characters of JSON that are edited as a whole
router = Router(tag="letter", documented=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """An edit as somebody has written it so far, and what it would do."""

    rows: Sequence[tuple[str, str]] = ()
    task: str | None = None
    reason: str = ""
    preview: EditPreview | None = None
    problem: str | None = None
    create: bool = False


@dataclass(frozen=True, slots=True)
class LetterView:
    """A letter with all that is known of it; None for what cannot be told now."""

    letter: DeadLetter
    namespace: str
    now_sentence: str
    failure: Failure | None
    trace: TracebackParts
    steps: Sequence[Step]
    entries: Sequence[AuditEntry] | None
    revisions: Sequence[Revision] | None
    siblings: Sequence[DeadLetter] | None
    contrasts: LetterContrasts | None
    idempotency_key: str
    draft: Draft

    @property
    def version(self) -> str:
        """What an edit names, so that it changes nothing that nobody has seen."""
        return etag(self.letter.version)

    @property
    def path(self) -> str:
        """The part after the task id that says which letter is meant."""
        return "" if self.letter.queue == DEFAULT_QUEUE else f"queue={self.letter.queue}"

    @property
    def rows(self) -> Sequence[tuple[str, str]]:
        """Paths and values of the form; one row is always free."""
        given = [row for row in self.draft.rows if any(row)]
        return [*given, *[("", "")] * max(1, ROWS - 1 - len(given))]

    @property
    def is_large(self) -> bool:
        """Whether the task is too much for a form: a page of megabytes is no use on a phone at night."""
        return len(self.task_text) > LARGEST_FORM

    @property
    def task_text(self) -> str:
        """The task as JSON, to be edited."""
        if self.draft.task is not None:
            return self.draft.task
        return json.dumps(self.letter.task, indent=2, ensure_ascii=False)


@router.get("/letters/{task_id}")
async def letter_page(request: Request, dlq: Queue, actor: Viewer, where: ScopeQuery, task_id: str) -> Response:
    """All that is known of a letter."""

    async def read() -> LetterView:
        return await _view(request, dlq, await _get(dlq, task_id, where), Draft(), KEY_MARK)

    if dlq.context.options.audit_payload_reads:  # each time that somebody looks is written down
        return await show(request, "letter.html", await read())
    failure = request.query_params.get("failure", "")
    found = await console_of(request).share(request, dlq, "letter", read, task_id, where.queue, failure)
    return await show(request, "letter.html", found.value, recent=found)


@router.post("/letters/{task_id}/edit")
async def edit(
    request: Request,
    dlq: Queue,
    actor: Operator,
    where: ScopeQuery,
    task_id: str,
    form: Annotated[Form, Depends(read_form)],
) -> Response:
    """Show what an edit would do, or do it; the form says which by its button."""
    letter = await _get(dlq, task_id, where)
    rows = list(zip(form.texts("path"), form.texts("value"), strict=False))
    given_task = form.text("task")
    whole = given_task if given_task.strip() and given_task.split() != form.text("task_before").split() else None
    act, reason = form.text("act", "preview"), form.optional("reason")
    scope: Any = where.arguments
    draft = Draft(rows, whole, reason or "", create=bool(form.text("create")))
    try:
        changes = _changes(rows, whole, create=bool(form.text("create")))
    except InvalidInput as wrong:
        return await _show(request, dlq, letter, replace(draft, problem=str(wrong)), status=422)
    if act == "preview":
        preview = await dlq.letters.preview_edit(letter.task_id, **changes, **scope)
        return await _show(request, dlq, letter, replace(draft, preview=preview, problem=preview.refused))
    if form.text("version") != etag(letter.version):
        why = "Somebody changed the letter since this page was shown. What stands here now is new: look at it again."
        return await _show(request, dlq, letter, replace(draft, problem=why), status=412)
    try:
        await dlq.letters.edit(
            letter.task_id,
            by=acting_name(actor, None),
            notes=reason,
            base=letter,
            redrive=act == "redrive",
            **changes,
            **scope,
        )
    except (StoreError, PermissionDenied):
        raise
    except MahavishnuError as refused:
        return await _show(request, dlq, letter, replace(draft, problem=str(refused)), status=422)
    done = "Edited, and it gets fresh attempts; the first one is due now." if act == "redrive" else "Edited."
    return console_of(request).go(request, _address(request, letter), Said(done))


@router.post("/letters/{task_id}/restore")
async def restore(
    request: Request,
    dlq: Queue,
    actor: Operator,
    where: ScopeQuery,
    task_id: str,
    form: Annotated[Form, Depends(read_form)],
) -> Response:
    """Make the letter what it was as a revision."""
    letter = await _get(dlq, task_id, where)
    try:
        number = int(form.text("revision"))
    except ValueError:
        raise InvalidInput("a revision is a number") from None
    await dlq.letters.restore(letter.task_id, number, by=acting_name(actor, None), **_scope(where))
    return console_of(request).go(request, _address(request, letter), Said(f"It is what it was as revision {number}."))


@router.post("/letters/{task_id}/retry")
async def retry(
    request: Request,
    dlq: Queue,
    actor: Operator,
    where: ScopeQuery,
    task_id: str,
    form: Annotated[Form, Depends(read_form)],
) -> Response:
    """Run it now, in this process."""
    letter = await _get(dlq, task_id, where)
    ran = await dlq.retry_task(
        letter.task_id, by=acting_name(actor, None), notes=form.optional("reason"), **_scope(where)
    )
    if ran["success"]:
        return console_of(request).go(request, _address(request, letter), Said("It was run, and succeeded."))
    said = Said(f"It was not run to its end: {ran['error']}"[:500], "bad")
    return console_of(request).go(request, _address(request, letter), said)


@router.post("/letters/{task_id}/delete")
async def delete(
    request: Request,
    dlq: Queue,
    actor: Admin,
    where: ScopeQuery,
    task_id: str,
    form: Annotated[Form, Depends(read_form)],
) -> Response:
    """Delete the letter for good; its id has to be typed."""
    letter = await _get(dlq, task_id, where)
    if form.text("typed").strip() != letter.task_id:
        said = Said("The id that was typed is not that of the letter. Nothing was deleted.", "bad")
        return console_of(request).go(request, _address(request, letter), said)
    await dlq.deletion.delete_task(
        letter.task_id, by=acting_name(actor, None), notes=form.optional("reason"), **_scope(where)
    )
    return console_of(request).go(request, "letters", Said(f"{letter.task_id} is deleted for good."))


def _add_verb(verb: str, sentence: str) -> None:
    async def act(
        request: Request,
        dlq: Queue,
        actor: Operator,
        where: ScopeQuery,
        task_id: str,
        form: Annotated[Form, Depends(read_form)],
    ) -> Response:
        letter = await _get(dlq, task_id, where)
        move = getattr(dlq.letters, verb)
        await move(letter.task_id, by=acting_name(actor, None), notes=form.optional("reason"), **where.arguments)
        return console_of(request).go(request, _address(request, letter), Said(sentence))

    act.__name__ = verb
    router.post(f"/letters/{{task_id}}/{verb}")(act)


for _verb, _sentence in VERBS.items():
    _add_verb(_verb, _sentence)


async def _get(dlq: DeadLetterQueue, task_id: str, where: ScopeQuery) -> DeadLetter:
    letter = await dlq.get_task(decode_id(task_id), include_archived=True, **where.arguments)
    if letter is None:
        raise NoSuchLetter(decode_id(task_id))
    return letter


async def _show(
    request: Request, dlq: DeadLetterQueue, letter: DeadLetter, draft: Draft, *, status: int = 200
) -> Response:
    view = await _view(request, dlq, letter, draft, secrets.token_urlsafe(16))
    return await show(request, "letter.html", view, status=status)


async def _view(request: Request, dlq: DeadLetterQueue, letter: DeadLetter, draft: Draft, key: str) -> LetterView:
    place = request.query_params.get("failure", "")
    failures = letter.failures
    failure = failures[int(place)] if place.isdecimal() and int(place) < len(failures) else None
    failure = failure or (failures[-1] if failures else None)
    waiting, page, revisions, beside = await asyncio.gather(
        read_or_none(dlq.workers.why_each_waits([letter])),
        read_or_none(dlq.audit.list(subject=f"letter:{letter.key}", limit=MOST_ENTRIES)),
        read_or_none(dlq.letters.revisions(letter.task_id, queue=letter.queue, namespace=letter.namespace)),
        console_of(request).share(request, dlq, "beside", partial(_beside, dlq, letter), letter.key),
    )
    entries, now = None if page is None else page.items, dlq.clock.now()
    return LetterView(
        letter,
        dlq.namespace,
        state_now(letter, waiting[0] if waiting else None, now),
        failure,
        split_traceback(failure.traceback if failure and failure.traceback else "", is_own_code),
        steps_of(letter, entries or ()),
        entries,
        revisions,
        *beside.value,
        key,
        draft,
    )


async def _beside(
    dlq: DeadLetterQueue, letter: DeadLetter
) -> tuple[Sequence[DeadLetter] | None, LetterContrasts | None]:
    """What other letters say of this one: many are read for it, and they hardly change."""
    return await asyncio.gather(
        read_or_none(_siblings(dlq, letter)),
        read_or_none(dlq.letters.contrasts(letter.task_id, namespace=letter.namespace, queue=letter.queue)),
    )


async def _siblings(dlq: DeadLetterQueue, letter: DeadLetter) -> Sequence[DeadLetter]:
    if letter.fingerprint is None:
        return ()
    where = (Is("fingerprint", (letter.fingerprint,)), Not(Is("entry_id", (letter.entry_id,))))
    newest = Query(where, (Sort("created_at", descending=True),), MOST_SIBLINGS)
    page = await dlq.letters.find(newest, payloads=False)
    return page.items


def _changes(rows: Sequence[tuple[str, str]], task: str | None, *, create: bool) -> dict[str, Any]:
    """What the form asks for. Raises InvalidInput for what is no JSON, and where nothing was written."""
    patch = patch_of(rows)
    if task is not None and patch:
        raise InvalidInput("change single values, or the whole task, not both")
    if task is not None:
        return {"task": read_json(task, "the task")}
    if not patch:
        raise InvalidInput("nothing was changed: write a path and a value, or change the JSON")
    return {"patch": patch, "create": create}


def _address(request: Request, letter: DeadLetter) -> str:
    return letter_path(letter.task_id, letter_query(letter, console_of(request).namespace_of(request)))


def _scope(where: ScopeQuery) -> Any:
    return {**where.arguments}

"""Pages of letters: one letter with its history, edit and actions; the list by query; and the namespaces."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.classify.fingerprint import is_own_code
from mahavishnu.classify.tracebacks import TracebackParts, split_traceback
from mahavishnu.console.console import KEY_MARK, console_of, show
from mahavishnu.console.forms import Form, FormFields, patch_of, read_json
from mahavishnu.console.frame import Link, Number, Said, letter_path, letter_query
from mahavishnu.console.recent_reads import read_or_none
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import Actor, OwnQueue, Queue, ScopeQuery, Viewer, acting_name
from mahavishnu.http.middleware import namespace_prefix
from mahavishnu.http.responses import decode_id, etag
from mahavishnu.http.routing import Query as Parameters
from mahavishnu.http.routing import Router
from mahavishnu.http.schemas import LetterQuery
from mahavishnu.letters.commonalities import LetterContrasts
from mahavishnu.letters.documents import PAGE_BYTES, SORTS, get_letter
from mahavishnu.letters.routes import Admin, Operator
from mahavishnu.letters.service import EditPreview, LetterOperations
from mahavishnu.letters.timeline import Step, state_now, steps_of
from mahavishnu.model.errors import InvalidInput, InvalidQuery, MahavishnuError, PermissionDenied, StoreError
from mahavishnu.model.events import AuditEntry
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Failure
from mahavishnu.model.query import Is, Not, Query, Sort
from mahavishnu.model.record import Value
from mahavishnu.search.routes import Operator as ViewSaver
from mahavishnu.search.rules import SavedView, as_query
from mahavishnu.search.service import LetterCount, NamespaceCount, Search
from mahavishnu.search.views import Views
from mahavishnu.stores.base import Cursor, Page
from mahavishnu.stores.retained import Revision
from mahavishnu.workers.service import Workers

VERBS: Mapping[str, str] = {
    "redrive": "It gets fresh attempts; the first one is due now.",
    "resolve": "It is closed as settled otherwise.",
    "fail": "It is closed as permanently failed.",
    "cancel": "It is closed as work that nobody wants any more.",
    "archive": "It is put away.",
}
MOST_SIBLINGS, MOST_ENTRIES, ROWS = 5, 50, 3
LARGEST_FORM = 100_000  # characters of JSON that are edited as a whole
OPEN = "is:open"
VIEWS = (
    ("Open", OPEN),
    ("Wait for a person", "is:open -has:due"),
    ("Retried by themselves", "status:pending has:due"),
    ("Running", "status:retrying"),
    ("Closed", "is:closed"),
    ("All", ""),
)
router = Router(tag="namespace_pages", documented=False)


class Draft(Value, frozen=True):
    """An edit as somebody has written it so far, and what it would do."""

    rows: Sequence[tuple[str, str]] = ()
    task: str | None = None
    reason: str = ""
    preview: EditPreview | None = None
    problem: str | None = None
    create: bool = False


class LetterView(Value, frozen=True):
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
        """The version that an edit names, so that it changes nothing unseen."""
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
        """True if the task is too large for a form."""
        return len(self.task_text) > LARGEST_FORM

    @property
    def task_text(self) -> str:
        """The task as JSON, to be edited."""
        if self.draft.task is not None:
            return self.draft.task
        return json.dumps(self.letter.task, indent=2, ensure_ascii=False)


@router.get("/letters/{task_id}")
async def letter_page(request: Request, dlq: Queue, actor: Viewer, where: ScopeQuery, task_id: str) -> Response:
    """Show a letter with all that is known of it."""

    async def read() -> LetterView:
        return await _view(request, dlq, await _get(dlq, task_id, where), Draft(), KEY_MARK)

    if dlq.context.options.audit_payload_reads:  # each time that somebody looks is written down
        return await show(request, "letter.html", await read())
    failure = request.query_params.get("failure", "")
    found = await console_of(request).share(request, dlq, "letter", read, task_id, where.queue, failure)
    return await show(request, "letter.html", found.value, recent=found)


@router.post("/letters/{task_id}/edit")
async def edit(
    request: Request, dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, form: FormFields
) -> Response:
    """Show what an edit would do, or do it; the form says which by its button."""
    letter = await _get(dlq, task_id, where)
    rows = list(zip(form.texts("path"), form.texts("value"), strict=False))
    given_task, create = form.text("task"), bool(form.text("create"))
    whole = given_task if given_task.strip() and given_task.split() != form.text("task_before").split() else None
    act, reason = form.text("act", "preview"), form.optional("reason")
    draft = Draft(rows, whole, reason or "", create=create)
    try:
        changes = {**_changes(rows, whole, create=create), **where.arguments}
    except InvalidInput as wrong:
        return await _show(request, dlq, letter, replace(draft, problem=str(wrong)), status=422)
    if act == "preview":
        preview = await dlq.service(LetterOperations).preview_edit(letter.task_id, **changes)
        return await _show(request, dlq, letter, replace(draft, preview=preview, problem=preview.refused))
    if form.text("version") != etag(letter.version):
        why = "Somebody changed the letter since this page was shown. What stands here now is new: look at it again."
        return await _show(request, dlq, letter, replace(draft, problem=why), status=412)
    try:
        how: dict[str, Any] = {"by": acting_name(actor, None), "notes": reason, "redrive": act == "redrive"}
        await dlq.service(LetterOperations).edit(letter.task_id, base=letter, **how, **changes)
    except (StoreError, PermissionDenied):
        raise
    except MahavishnuError as refused:
        return await _show(request, dlq, letter, replace(draft, problem=str(refused)), status=422)
    done = "Edited, and it gets fresh attempts; the first one is due now." if act == "redrive" else "Edited."
    return _go(request, letter, done)


@router.post("/letters/{task_id}/restore")
async def restore(
    request: Request, dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, form: FormFields
) -> Response:
    """Make the letter what it was as a revision."""
    letter = await _get(dlq, task_id, where)
    try:
        number = int(form.text("revision"))
    except ValueError:
        raise InvalidInput("a revision is a number") from None
    scope: Any = where.arguments
    await dlq.service(LetterOperations).restore(letter.task_id, number, by=acting_name(actor, None), **scope)
    return _go(request, letter, f"It is what it was as revision {number}.")


@router.post("/letters/{task_id}/retry")
async def retry(
    request: Request, dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, form: FormFields
) -> Response:
    """Run it now, in this process."""
    letter = await _get(dlq, task_id, where)
    ran = await dlq.retry_task(letter.task_id, **_act(actor, form, where))
    if ran["success"]:
        return _go(request, letter, "It was run, and succeeded.")
    return _go(request, letter, f"It was not run to its end: {ran['error']}"[:500], "bad")


@router.post("/letters/{task_id}/delete")
async def delete(
    request: Request, dlq: Queue, actor: Admin, where: ScopeQuery, task_id: str, form: FormFields
) -> Response:
    """Delete the letter for good; its id has to be typed."""
    letter = await _get(dlq, task_id, where)
    if form.text("typed").strip() != letter.task_id:
        return _go(request, letter, "The id that was typed is not that of the letter. Nothing was deleted.", "bad")
    await dlq.deletion.delete_task(letter.task_id, **_act(actor, form, where))
    return console_of(request).go(request, "letters", Said(f"{letter.task_id} is deleted for good."))


def _add_verb(verb: str, sentence: str) -> None:
    async def act(
        request: Request, dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, form: FormFields
    ) -> Response:
        letter = await _get(dlq, task_id, where)
        await getattr(dlq.service(LetterOperations), verb)(letter.task_id, **_act(actor, form, where))
        return _go(request, letter, sentence)

    act.__name__ = verb
    router.post(f"/letters/{{task_id}}/{verb}")(act)


for _verb, _sentence in VERBS.items():
    _add_verb(_verb, _sentence)


async def _get(dlq: LetterQueue, task_id: str, where: ScopeQuery) -> DeadLetter:
    return await get_letter(dlq, decode_id(task_id), **where.arguments)


async def _show(request: Request, dlq: LetterQueue, letter: DeadLetter, draft: Draft, *, status: int = 200) -> Response:
    view = await _view(request, dlq, letter, draft, secrets.token_urlsafe(16))
    return await show(request, "letter.html", view, status=status)


async def _view(request: Request, dlq: LetterQueue, letter: DeadLetter, draft: Draft, key: str) -> LetterView:
    place = request.query_params.get("failure", "")
    failures = letter.failures
    failure = failures[int(place)] if place.isdecimal() and int(place) < len(failures) else None
    failure = failure or (failures[-1] if failures else None)
    waiting, page, revisions, beside = await asyncio.gather(
        read_or_none(dlq.service(Workers).why_each_waits([letter])),
        read_or_none(dlq.audit.list(subject=f"letter:{letter.key}", limit=MOST_ENTRIES)),
        read_or_none(
            dlq.service(LetterOperations).revisions(letter.task_id, queue=letter.queue, namespace=letter.namespace)
        ),
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


async def _beside(dlq: LetterQueue, letter: DeadLetter) -> tuple[Sequence[DeadLetter] | None, LetterContrasts | None]:
    """Return siblings and contrasts of a letter: many letters are read for these, and they hardly change."""
    return await asyncio.gather(
        read_or_none(_siblings(dlq, letter)),
        read_or_none(
            dlq.service(LetterOperations).contrasts(letter.task_id, namespace=letter.namespace, queue=letter.queue)
        ),
    )


async def _siblings(dlq: LetterQueue, letter: DeadLetter) -> Sequence[DeadLetter]:
    if letter.fingerprint is None:
        return ()
    where = (Is("fingerprint", (letter.fingerprint,)), Not(Is("entry_id", (letter.entry_id,))))
    newest = Query(where, (Sort("created_at", descending=True),), MOST_SIBLINGS)
    page = await dlq.service(LetterOperations).find(newest, payloads=False)
    return page.items


def _changes(rows: Sequence[tuple[str, str]], task: str | None, *, create: bool) -> dict[str, Any]:
    """Return the changes of the form. Raise InvalidInput for invalid JSON, and for no change."""
    patch = patch_of(rows)
    if task is not None and patch:
        raise InvalidInput("change single values, or the whole task, not both")
    if task is not None:
        return {"task": read_json(task, "the task")}
    if not patch:
        raise InvalidInput("nothing was changed: write a path and a value, or change the JSON")
    return {"patch": patch, "create": create}


def _go(request: Request, letter: DeadLetter, text: str, tone: str = "good") -> Response:
    """Return to the page of the letter with a message."""
    path = letter_path(letter.task_id, letter_query(letter, console_of(request).namespace_of(request)))
    return console_of(request).go(request, path, Said(text, tone))


def _act(actor: Actor, form: Form, where: ScopeQuery) -> Any:
    return {**form.act(actor), **where.arguments}


async def count_open(dlq: LetterQueue) -> Number:
    """Return the number of open letters."""
    counted = await dlq.service(Search).count(dlq.service(Search).query(OPEN))
    return Number(counted.number, least=counted.degraded is not None)


LINKS = (Link("letters", "Letters", "Now", 3, first=True, key="l", number=count_open),)


class LettersView(Value, frozen=True):
    """One page of letters; `problem` says what is wrong with the query, and nothing is listed then."""

    q: str
    params: LetterQuery
    page: Page[DeadLetter] | None = None
    count: LetterCount | None = None
    problem: str | None = None
    saved: Sequence[SavedView] = ()

    @property
    def headline(self) -> str:
        """The name of the view, or `Letters`."""
        return next((name for name, text in VIEWS if text == self.q), "Letters") if self.is_view else "Letters"

    @property
    def is_view(self) -> bool:
        """True for one of the views above the list, False for any other query."""
        return self.q in [text for _, text in VIEWS] and not self.others

    @property
    def others(self) -> Mapping[str, Any]:
        """The filters beside the text of the query."""
        given = self.params.model_dump(mode="json", exclude_defaults=True)
        return {name: value for name, value in given.items() if name not in ("q", "cursor", "limit", "sort", "offset")}

    def url(self, **changes: Any) -> str:
        """Return the address of this list with other parameters; None leaves one out."""
        wanted = {"q": self.q, **self.others, "sort": self.params.sort, "limit": self.params.limit, **changes}
        if wanted["sort"] == "newest":
            del wanted["sort"]
        if wanted["limit"] == LetterQuery.model_fields["limit"].default:
            del wanted["limit"]
        return f"letters?{urlencode({name: value for name, value in wanted.items() if value is not None}, doseq=True)}"

    def without(self, name: str) -> str:
        """Return the address of this list without one of the filters beside the text."""
        return self.url(**{name: None})


@router.get("/letters")
async def letters_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[LetterQuery, Parameters()]
) -> Response:
    """Show the letters of a query; without one, the open letters."""
    named = params.model_dump(exclude_defaults=True)
    only_paging = not {*named} - {"cursor", "limit", "sort", "offset"}
    q = params.q if params.q is not None else (OPEN if only_paging and "q" not in request.query_params else "")
    try:
        query = as_query(vars(params) | {"q": q}, dlq.clock.now(), limit=params.limit, sort=SORTS[params.sort])
        after = None if params.cursor is None else Cursor.parse(params.cursor)

        async def read() -> LettersView:
            page, count, saved = await asyncio.gather(
                dlq.service(LetterOperations).find(query, after, most_bytes=PAGE_BYTES, payloads=False),
                dlq.service(Search).count(query),
                read_or_none(dlq.service(Views).list()),
            )
            return LettersView(q, params, page, count, None, saved or ())

        found = await console_of(request).share(request, dlq, "letters", read, q, params.model_dump_json())
    except InvalidQuery as problem:
        saved = await read_or_none(dlq.service(Views).list()) or ()
        return await show(request, "letters.html", LettersView(q, params, None, None, str(problem), saved), status=422)
    return await show(request, "letters.html", found.value, recent=found)


@router.post("/letters/views")
async def save_view(request: Request, dlq: OwnQueue, actor: ViewSaver, form: FormFields) -> Response:
    """Save a query under a name, for everybody; or delete the view of that name."""
    name, text, by = form.text("name").strip(), form.text("q"), acting_name(actor, None)
    if form.text("act") == "delete":
        await dlq.service(Views).delete(name, by=by)
        said = f"The view {name} is deleted."
    else:
        await dlq.service(Views).save(name, text, by=by, sort=form.text("sort") or "newest")
        said = f"Saved as {name}, for everybody."
    return console_of(request).go(request, f"letters?{urlencode({'q': text})}", Said(said))


class NamespacesView(Value, frozen=True):
    """The namespaces; `home` is the one that the server is for."""

    namespaces: Sequence[NamespaceCount]
    home: str

    def place(self, name: str) -> str | None:
        """Return the path of its pages, from those of the server's own; None where no address can name it."""
        prefix = namespace_prefix(name)
        return "" if name == self.home else prefix and f"{prefix}/"


@router.get("/namespaces")
async def namespaces_page(request: Request, dlq: OwnQueue, actor: Viewer) -> Response:
    """Show the visible namespaces, with their open letters."""
    console = console_of(request)
    found = await console.read(request, dlq, lambda own: own.service(Search).namespaces())
    return await show(request, "namespaces.html", NamespacesView(found.value, console.namespace), recent=found)

"""Named queues: the list, and one queue with its items, what is said of it, and sending dead items back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import PageQueue, console_of, get_page_queue, show
from mahavishnu.console.forms import Form, FormFields
from mahavishnu.console.frame import Link, Number, Said
from mahavishnu.console.recent_reads import read_or_none
from mahavishnu.console.words import plural
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.http.auth import Viewer, acting_name, get_service
from mahavishnu.http.responses import decode_id
from mahavishnu.http.routing import Depends, Query, Router
from mahavishnu.http.schemas import PageQuery
from mahavishnu.model.errors import InvalidInput, InvalidOption
from mahavishnu.model.record import Value
from mahavishnu.queues.items import ItemStatus, QueueItem
from mahavishnu.queues.routes import Admin, Operator
from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.queues.service import NamedQueues
from mahavishnu.stores.base import Page

MOST_COUNTED = 100  # queues whose items are counted for the list
TEXTS = ("dead_queue", "expire_timeout")  # options that are taken away where nothing is filled in
CHOICES = ("kind", "attempts_rule", "lease_timeout", "on_dead")
router = Router(tag="queue_pages", documented=False)


async def count_queues(dlq: LetterQueue) -> Number | None:
    """Return the number of defined queues."""
    found = await dlq.service(NamedQueues).list()
    return Number(len(found)) if found else None


LINKS = (Link("queues", "Queues", "Where", 6, key="q", number=count_queues),)
Numbers = Mapping[str, Any]
Queues = Annotated[NamedQueues, Depends(get_service(NamedQueues, get_page_queue))]


class QueueForm(Value, frozen=True):
    """The form of a queue as it was filled in, with the problem if it was refused."""

    values: Mapping[str, str]
    problem: str | None = None

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")


class QueuesView(Value, frozen=True):
    """The queues with their numbers; None for what cannot be told now."""

    queues: Sequence[tuple[QueueDefinition, Numbers | None]]
    form: QueueForm


class QueueView(Value, frozen=True):
    """A queue with a page of its items."""

    queue: QueueDefinition
    others: Sequence[QueueDefinition]
    numbers: Numbers | None
    page: Page[QueueItem] | None
    status: ItemStatus | None
    form: QueueForm

    @property
    def sources(self) -> Sequence[str]:
        """The queues whose dead items come here."""
        return [each.name for each in self.others if each.dead_queue == self.queue.name]

    @property
    def takes_dead(self) -> bool:
        """True if items came here from other queues, and can be sent back."""
        return bool(self.sources) or any(item.source_queue for item in (self.page.items if self.page else ()))

    @property
    def next(self) -> str:
        """The parameters of the next page of items."""
        given = {"status": self.status, "cursor": self.page and self.page.next}
        return urlencode({name: str(value) for name, value in given.items() if value is not None})


class ItemPageQuery(PageQuery):
    """Filters of items; without a status, those that have not ended."""

    status: Literal["pending", "active", "failed", "dead", "completed", "closed"] | None = None


@router.get("/queues")
async def queues_page(request: Request, dlq: PageQueue, actor: Viewer) -> Response:
    """Show all queues, by name."""
    found = await console_of(request).read(request, dlq, _read_all)
    view = QueuesView(found.value, QueueForm({"lease_timeout": "60s"}))
    return await show(request, "queues.html", view, recent=found)


@router.post("/queues")
async def create(request: Request, dlq: PageQueue, actor: Operator, form: FormFields) -> Response:
    """Define a queue."""
    name = form.text("name").strip()
    try:
        made = await dlq.service(NamedQueues).create(name, by=acting_name(actor, None), **_options(form))
    except (InvalidOption, InvalidInput) as wrong:
        return await show(request, "queues.html", QueuesView(await _read_all(dlq), _refill(form, wrong)), status=422)
    return console_of(request).go(request, _path(made.name), Said(f"Queue {made.name} is defined."))


@router.get("/queues/{queue}")
async def queue_page(
    request: Request, dlq: PageQueue, actor: Viewer, queue: str, params: Annotated[ItemPageQuery, Query()]
) -> Response:
    """Show one queue with its items, oldest first."""
    name = decode_id(queue)

    async def read() -> QueueView:
        definition = await dlq.service(NamedQueues).get(name)
        return await _view(dlq, definition, params, QueueForm(_values_of(definition)))

    found = await console_of(request).share(request, dlq, "queue", read, name, params.model_dump_json())
    return await show(request, "queue.html", found.value, recent=found)


@router.post("/queues/{queue}")
async def update(request: Request, dlq: PageQueue, actor: Operator, queue: str, form: FormFields) -> Response:
    """Change what is said of a queue."""
    name = decode_id(queue)
    try:
        await dlq.service(NamedQueues).update(name, by=acting_name(actor, None), **_options(form))
    except (InvalidOption, InvalidInput) as wrong:
        view = await _view(dlq, await dlq.service(NamedQueues).get(name), ItemPageQuery(), _refill(form, wrong))
        return await show(request, "queue.html", view, status=422)
    return console_of(request).go(request, _path(name), Said("Saved. It counts for what is decided from now on."))


@router.post("/queues/{queue}/redrive")
async def redrive(request: Request, queues: Queues, actor: Operator, queue: str, form: FormFields) -> Response:
    """Send items back to where they came from: those that are marked, or all."""
    name, ids = decode_id(queue), [*form.texts("id")]
    if not ids and form.text("everything") != "yes":
        raise InvalidInput("no item was marked: mark some, or say that you mean all")
    result = await queues.redrive(name, ids=ids or None, to=form.optional("to"), **form.act(actor))
    text = f"{plural(result['redriven'], 'item')} sent back."
    if result["skipped"]:
        text += f" {plural(result['skipped'], 'other')} left: leased, or on their way."
    if result["refused"]:
        why = next(iter(result["refused"].values()))
        text += f" {plural(len(result['refused']), 'item')} could not be sent: {why}."
    if result["degraded"]:
        text += f" Some could not be seen: {result['degraded']}."
    return console_of(request).go(request, _path(name), Said(text, "good" if result["redriven"] else "act"))


@router.post("/queues/{queue}/delete")
async def delete(request: Request, queues: Queues, actor: Admin, queue: str, form: FormFields) -> Response:
    """Delete the definition; its name has to be typed. Items stay where they are."""
    name = decode_id(queue)
    if form.text("typed").strip() != name:
        said = Said("The name that was typed is not that of the queue. Nothing was deleted.", "bad")
        return console_of(request).go(request, _path(name), said)
    await queues.delete(name, force=bool(form.text("force")), **form.act(actor))
    return console_of(request).go(request, "queues", Said(f"Queue {name} is deleted. Its items stay where they are."))


@router.post("/queues/{queue}/items/{id}/retry")
async def retry(request: Request, queues: Queues, actor: Operator, queue: str, id: str, form: FormFields) -> Response:
    """Have a dead or failed item leased again."""
    name = decode_id(queue)
    await queues.resurrect(name, decode_id(id), **form.act(actor))
    return console_of(request).go(request, _path(name), Said("It can be leased again, with no failure counted."))


@router.post("/queues/{queue}/items/{id}/drop")
async def drop(request: Request, queues: Queues, actor: Admin, queue: str, id: str, form: FormFields) -> Response:
    """Delete an item."""
    name = decode_id(queue)
    await queues.drop(name, decode_id(id), **form.act(actor))
    return console_of(request).go(request, _path(name), Said("The item is deleted. Its number stays."))


async def _read_all(dlq: LetterQueue) -> Sequence[tuple[QueueDefinition, Numbers | None]]:
    queues = await dlq.service(NamedQueues).list()
    counted = await asyncio.gather(
        *(read_or_none(dlq.service(NamedQueues).numbers(each.name)) for each in queues[:MOST_COUNTED])
    )
    numbers = [*counted, *[None] * (len(queues) - len(counted))]
    return [*zip(queues, numbers, strict=True)]


async def _view(dlq: LetterQueue, definition: QueueDefinition, params: ItemPageQuery, form: QueueForm) -> QueueView:
    others, numbers, page = await asyncio.gather(
        read_or_none(dlq.service(NamedQueues).list()),
        read_or_none(dlq.service(NamedQueues).numbers(definition.name)),
        read_or_none(
            dlq.service(NamedQueues).items(
                definition.name, status=params.status, limit=params.limit, after=params.cursor
            )
        ),
    )
    wanted = None if params.status is None else ItemStatus(params.status)
    return QueueView(definition, others or (), numbers, page, wanted, form)


def _options(form: Form) -> dict[str, Any]:
    """Return the options of a form, as the service takes them. Raise InvalidInput for invalid numbers."""
    options: dict[str, Any] = {name: form.optional(name) for name in TEXTS}
    options |= {name: value for name in CHOICES if (value := form.optional(name)) is not None}
    attempts, cooldown = form.optional("attempts"), form.optional("cooldown")
    options["retry"] = None
    if attempts is not None or cooldown is not None:
        options["retry"] = {"attempts": _whole(attempts or "0", "attempts"), "cooldown": cooldown or "0s"}
    most = form.optional("max_attempts")
    options["max_attempts"] = None if most is None else _whole(most, "max attempts")
    return options


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{what}: {text!r:.80} is no whole number") from None


def _values_of(definition: QueueDefinition) -> dict[str, str]:
    """Return a definition as its form shows it."""
    known = definition.to_dict()
    values = {name: "" if known[name] is None else str(known[name]) for name in (*TEXTS, *CHOICES, "max_attempts")}
    if definition.retry is not None:
        values |= {"attempts": str(definition.retry.attempts), "cooldown": definition.retry.cooldown}
    return values


def _refill(form: Form, wrong: Exception) -> QueueForm:
    return QueueForm({name: form.text(name) for name in form.fields}, str(wrong))


def _path(queue: str) -> str:
    return f"queues/{quote(queue, safe='')}"

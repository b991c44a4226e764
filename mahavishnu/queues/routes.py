"""Named queues and their items over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.http.auth import Actor, Queue, Role, Viewer, act_of, acting_name, get_service, require_role
from mahavishnu.http.responses import (
    clear_headers,
    decode_id,
    degraded_header,
    json_response,
    page_headers,
    problem_responses,
    to_json,
)
from mahavishnu.http.routing import Depends, Query, Router
from mahavishnu.http.schemas import (
    ActionRequest,
    Filter,
    Name,
    PageQuery,
    RequestModel,
    ResponseModel,
    Seconds,
    Text,
    fields_of,
)
from mahavishnu.model.clock import instant_text
from mahavishnu.queues.items import ImportResult as Imported
from mahavishnu.queues.items import QueueItem
from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.queues.service import NamedQueues
from mahavishnu.search.rules import as_query

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "changing queues"))]
Worker = Annotated[Actor, Depends(require_role(Role.OPERATOR, "working on items"))]
Admin = Annotated[Actor, Depends(require_role(Role.ADMIN, "deleting queues and items"))]
Queues = Annotated[NamedQueues, Depends(get_service(NamedQueues))]
LeaseSeconds = Annotated[StrictFloat | StrictInt, Field(ge=0.001, le=86400)]
Shortcut = Annotated[StrictStr, Field(max_length=200)]
Status = Literal["pending", "active", "failed", "dead", "completed", "closed"]
_UNKNOWN, _INVALID, _REFUSED = problem_responses(404), problem_responses(400, 404), problem_responses(404, 409)
router = Router(tag="queues", prefix="/queues")


class RetryRule(RequestModel):
    """The failures an item may have, and the wait in between."""

    attempts: StrictInt = 0
    cooldown: Shortcut = "0s"


class QueueOptions(RequestModel):
    """The options of a queue. Omit those that stay."""

    kind: Literal["persisted", "external"] | None = None
    dead_queue: Shortcut | None = None
    retry: RetryRule | None = None
    max_attempts: StrictInt | None = None
    attempts_rule: Literal["exceed", "inclusive"] | None = None
    expire_timeout: Shortcut | None = None
    lease_timeout: Shortcut | None = None
    on_dead: Literal["retain", "delete"] | None = None
    by: Name | None = None


class NewQueue(QueueOptions):
    """A queue that there is not yet."""

    name: Shortcut


@fields_of(
    QueueDefinition, "name namespace kind dead_queue max_attempts attempts_rule expire_timeout lease_timeout on_dead"
)
class Definition(ResponseModel):
    """A queue's definition."""

    retry: dict[str, Any]


class DeleteQueue(RequestModel):
    """The deletion of a queue; with `force` also if it is the dead queue of others."""

    force: StrictBool = False
    by: Name | None = None


class NewItem(RequestModel):
    """Work for a queue."""

    payload: Any
    metadata: dict[str, Any] | None = None


@fields_of(
    QueueItem,
    "id queue payload status failure_count source_id source_queue metadata created_at next_retry_at lease_deadline "
    "expire_deadline worker_name reason last_error",
)
class Item(ResponseModel):
    """A queue item."""

    attempts: int
    is_leased: bool


class ItemQuery(PageQuery):
    """Filters of items; without a status, those that have not ended."""

    status: Status | None = None


class ImportItems(RequestModel):
    """Items that may be there already."""

    items: Annotated[list[dict[str, Any]], Field(max_length=10_000)]


@fields_of(Imported, "created duplicates")
class ImportResult(ResponseModel):
    """The numbers of new and of existing items."""


class LeaseRequest(RequestModel):
    """A worker asks for items."""

    worker: Name
    limit: Annotated[StrictInt, Field(ge=1, le=500)] = 1
    lease_seconds: LeaseSeconds | None = None


class Lease(ResponseModel):
    """The right to work on an item until `lease_until`. Send the token with whatever you say of it."""

    token: str
    lease_until: str
    item: dict[str, Any]


class Token(RequestModel):
    """The proof of a lease."""

    token: Name


class RenewItem(Token):
    """The work goes on."""

    lease_seconds: LeaseSeconds | None = None


class RenewItemResult(ResponseModel):
    """The new end of a lease."""

    lease_until: str


class FailItem(Token):
    """The item could not be done; `dead`: it is not to be tried again."""

    error: Text = "the worker gave it back"
    dead: StrictBool = False
    retry_in: Seconds | None = None


class QueueRetried(ResponseModel):
    """An item that can be leased again."""

    queue_name: str
    item_id: str
    status: str


class QueueRedrive(ActionRequest):
    """The items to send back, and their target; without either, all items to where they came from."""

    ids: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    filter: Filter | None = None
    to: Shortcut | None = None


class RedriveResult(ResponseModel):
    """The numbers of items sent and left, the refused ones, and why some may have been missed."""

    redriven: int
    skipped: int
    refused: dict[str, str]
    degraded: str | None


@router.get("", response_model=list[Definition], summary="The queues", name="list")
async def list_queues(queues: Queues, actor: Viewer) -> Response:
    """Return the definitions, by name."""
    return json_response([each.to_dict() for each in await queues.list()])


@router.post("", response_model=Definition, responses=problem_responses(400), summary="Define a queue", status_code=201)
async def create(queues: Queues, actor: Operator, body: NewQueue) -> Response:
    """Define a queue. Invalid options are refused with 400."""
    given = body.model_dump(exclude_unset=True, exclude={"by", "name"})
    made = await queues.create(body.name, by=acting_name(actor, body.by), **_without_empty(given))
    return json_response(made.to_dict(), 201)


@router.get("/{queue}", response_model=Definition, responses=_UNKNOWN, summary="One queue")
async def show(queues: Queues, actor: Viewer, queue: str) -> Response:
    """Return a queue's definition with its numbers."""
    definition = await queues.get(decode_id(queue))
    numbers = await queues.numbers(definition.name)
    numbers.pop("queue")
    return json_response(definition.to_dict() | numbers)


@router.patch("/{queue}", response_model=Definition, responses=_INVALID, summary="Change a queue")
async def update(queues: Queues, actor: Operator, queue: str, body: QueueOptions) -> Response:
    """Change options for all later decisions. Null removes a dead queue, a limit or an expiry."""
    given = body.model_dump(exclude_unset=True, exclude={"by"})
    changed = await queues.update(decode_id(queue), by=acting_name(actor, body.by), **_without_empty(given))
    return json_response(changed.to_dict())


@router.post("/{queue}/delete", response_model=Definition, responses=_INVALID, summary="Delete a queue")
async def delete(queues: Queues, actor: Admin, queue: str, body: DeleteQueue | None = None) -> Response:
    """Delete the definition. Its items stay where they are."""
    wanted = body or DeleteQueue()
    gone = await queues.delete(decode_id(queue), force=wanted.force, by=acting_name(actor, wanted.by))
    return json_response(gone.to_dict())


@router.get("/{queue}/items", response_model=list[Item], responses=_UNKNOWN, summary="Items in their order")
async def items(
    request: Request, queues: Queues, actor: Viewer, queue: str, params: Annotated[ItemQuery, Query()]
) -> Response:
    """Return items, oldest first."""
    page = await queues.items(decode_id(queue), status=params.status, limit=params.limit, after=params.cursor)
    return json_response([each.to_dict() for each in page.items], 200, page_headers(request, page))


@router.post("/{queue}/items", response_model=Item, responses=_UNKNOWN, summary="Put work in", status_code=201)
async def produce(queues: Queues, actor: Worker, queue: str, body: NewItem) -> Response:
    """Add an item. It is durable when this answers."""
    made = await queues.produce(decode_id(queue), body.payload, metadata=body.metadata)
    return json_response(made.to_dict(), 201)


@router.post("/{queue}/import", response_model=ImportResult, responses=_UNKNOWN, summary="Put items in once")
async def import_items(queues: Queues, actor: Worker, queue: str, body: ImportItems) -> Response:
    """Add items, except those that exist already; these are counted."""
    result = await queues.import_items(decode_id(queue), body.items)
    return json_response(to_json(result))


@router.post("/{queue}/lease", response_model=list[Lease], responses=_UNKNOWN, summary="Take the next items")
async def lease(dlq: Queue, actor: Worker, queue: str, body: LeaseRequest) -> Response:
    """Lease items until `lease_until`. The list is empty when no item is ready."""
    leases = await dlq.service(NamedQueues).lease(
        decode_id(queue), body.worker, limit=body.limit, lease_seconds=body.lease_seconds
    )
    shown = [
        {"token": each.token, "lease_until": instant_text(each.until), "item": each.item.to_dict()} for each in leases
    ]
    return json_response(shown, 200, clear_headers(dlq))


@router.get("/{queue}/items/{id}", response_model=Item, responses=_UNKNOWN, summary="One item")
async def one_item(queues: Queues, actor: Viewer, queue: str, id: str) -> Response:
    """Return the current item."""
    return json_response((await queues.item(decode_id(queue), decode_id(id))).to_dict())


@router.post("/{queue}/items/{id}/complete", response_model=Item, responses=_REFUSED, summary="It is done")
async def complete(queues: Queues, actor: Worker, queue: str, id: str, body: Token) -> Response:
    """Complete the item. Repeating it changes nothing."""
    return json_response((await queues.complete(decode_id(queue), decode_id(id), body.token)).to_dict())


@router.post("/{queue}/items/{id}/fail", response_model=Item, responses=_REFUSED, summary="It failed")
async def fail(queues: Queues, actor: Worker, queue: str, id: str, body: FailItem) -> Response:
    """Start the item's cooldown, or let it die, by the present definition."""
    failed = await queues.retry(
        decode_id(queue), decode_id(id), body.token, error=body.error, dead=body.dead, retry_in=body.retry_in
    )
    return json_response(failed.to_dict())


@router.post(
    "/{queue}/items/{id}/renew", response_model=RenewItemResult, responses=_REFUSED, summary="The work goes on"
)
async def renew(queues: Queues, actor: Worker, queue: str, id: str, body: RenewItem) -> Response:
    """Extend the lease."""
    until = await queues.renew(decode_id(queue), decode_id(id), body.token, lease_seconds=body.lease_seconds)
    return json_response({"lease_until": instant_text(until)})


@router.post(
    "/{queue}/items/{id}/retry",
    response_model=QueueRetried,
    responses=_REFUSED,
    summary="Have a dead or failed item leased again",
)
async def retry(queues: Queues, actor: Operator, queue: str, id: str, body: ActionRequest | None = None) -> Response:
    """Have the item leased again, with no failure counted."""
    item = await queues.resurrect(decode_id(queue), decode_id(id), **act_of(actor, body))
    return json_response({"queue_name": item.queue, "item_id": item.id, "status": str(item.status)})


@router.post("/{queue}/items/{id}/drop", response_model=Item, responses=_REFUSED, summary="Delete an item")
async def drop(queues: Queues, actor: Admin, queue: str, id: str, body: ActionRequest | None = None) -> Response:
    """Delete the item. Its number stays, and the audit names who deleted it."""
    gone = await queues.drop(decode_id(queue), decode_id(id), **act_of(actor, body))
    return json_response(gone.to_dict())


@router.post(
    "/{queue}/redrive",
    response_model=RedriveResult,
    responses=_REFUSED,
    summary="Send items back to where they came from",
)
async def redrive(dlq: Queue, actor: Operator, queue: str, body: QueueRedrive | None = None) -> Response:
    """Send items back, each once, with no failure counted."""
    wanted = body or QueueRedrive()
    result = await dlq.service(NamedQueues).redrive(
        decode_id(queue),
        ids=wanted.ids,
        to=wanted.to,
        query=None if wanted.filter is None else as_query(vars(wanted.filter), dlq.context.clock.now()),
        **act_of(actor, body),
    )
    return json_response(result, 200, degraded_header(result["degraded"]))


def _without_empty(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options without null for those that always have a value."""
    return {
        name: value
        for name, value in given.items()
        if value is not None or name in ("dead_queue", "retry", "max_attempts", "expire_timeout")
    }

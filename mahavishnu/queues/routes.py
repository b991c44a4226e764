"""Named queues and their items over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.http.auth import Actor, Queue, Role, Viewer, acting_name, require_role
from mahavishnu.http.errors import problem_responses
from mahavishnu.http.responses import clear_headers, decode_id, degraded_header, json_response, page_headers
from mahavishnu.http.routing import Depends, Query, Router
from mahavishnu.http.schemas import Filter, Name, PageQuery, RequestModel, ResponseModel, Seconds, Text
from mahavishnu.model.clock import instant_text
from mahavishnu.queues.service import NamedQueues
from mahavishnu.search.requests import as_query

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "changing queues"))]
Worker = Annotated[Actor, Depends(require_role(Role.OPERATOR, "working on items"))]
Admin = Annotated[Actor, Depends(require_role(Role.ADMIN, "deleting queues and items"))]
LeaseSeconds = Annotated[StrictFloat | StrictInt, Field(ge=0.001, le=86400)]
Shortcut = Annotated[StrictStr, Field(max_length=200)]
Status = Literal["pending", "active", "failed", "dead", "completed", "closed"]
router = Router(tag="queues", prefix="/queues")


class RetryRule(RequestModel):
    """How often an item may fail, and how long it waits in between."""

    attempts: StrictInt = 0
    cooldown: Shortcut = "0s"


class QueueOptions(RequestModel):
    """What is said of a queue. Leave out what stays."""

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


class Definition(ResponseModel):
    """A queue's definition."""

    name: str
    namespace: str
    kind: str
    dead_queue: str | None
    retry: dict[str, Any]
    max_attempts: int | None
    attempts_rule: str
    expire_timeout: str | None
    lease_timeout: str
    on_dead: str


class DeleteQueue(RequestModel):
    """With `force` also if it is the dead queue of others."""

    force: StrictBool = False
    by: Name | None = None


class NewItem(RequestModel):
    """Work for a queue."""

    payload: Any
    metadata: dict[str, Any] | None = None


class Item(ResponseModel):
    """A queue item."""

    id: str
    queue: str
    payload: Any
    status: str
    failure_count: int
    attempts: int
    is_leased: bool
    source_id: str | None
    source_queue: str | None
    metadata: dict[str, Any]
    created_at: str | None
    next_retry_at: str | None
    lease_deadline: str | None
    expire_deadline: str | None
    worker_name: str | None
    reason: str | None
    last_error: str | None


class ItemQuery(PageQuery):
    """Which items; those that are not over, unless a status is asked for."""

    status: Status | None = None


class ImportItems(RequestModel):
    """Items that may be there already."""

    items: Annotated[list[dict[str, Any]], Field(max_length=10_000)]


class ImportResult(ResponseModel):
    """How many were new, and how many were there."""

    created: int
    duplicates: int


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
    """Who holds the lease."""

    token: Name


class RenewItem(Token):
    """The work goes on."""

    lease_seconds: LeaseSeconds | None = None


class RenewItemResult(ResponseModel):
    """When the lease ends now."""

    lease_until: str


class FailItem(Token):
    """The item could not be done; `dead`: it is not to be tried again."""

    error: Text = "the worker gave it back"
    dead: StrictBool = False
    retry_in: Seconds | None = None


class PersonActs(RequestModel):
    """Who does it, and why."""

    by: Name | None = None
    notes: Text | None = None


class QueueRetried(ResponseModel):
    """Which item is leased again."""

    queue_name: str
    item_id: str
    status: str


class QueueRedrive(PersonActs):
    """Which items go back, and where to; without either all of them, to where they came from."""

    ids: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    filter: Filter | None = None
    to: Shortcut | None = None


class RedriveResult(ResponseModel):
    """How many went, how many were left, and why not all could be seen."""

    redriven: int
    skipped: int
    refused: dict[str, str]
    degraded: str | None


@router.get("", response_model=list[Definition], summary="The queues", name="list")
async def list_queues(dlq: Queue, actor: Viewer) -> Response:
    """By name, with what is said of each."""
    return json_response([each.to_dict() for each in await dlq.service(NamedQueues).list()])


@router.post("", response_model=Definition, responses=problem_responses(400), summary="Define a queue", status_code=201)
async def create(dlq: Queue, actor: Operator, body: NewQueue) -> Response:
    """Refused, by 400, for what cannot be."""
    given = body.model_dump(exclude_unset=True, exclude={"by", "name"})
    made = await dlq.service(NamedQueues).create(body.name, by=acting_name(actor, body.by), **_without_empty(given))
    return json_response(made.to_dict(), 201)


@router.get("/{queue}", response_model=Definition, responses=problem_responses(404), summary="One queue")
async def show(dlq: Queue, actor: Viewer, queue: str) -> Response:
    """With its numbers."""
    definition = await dlq.service(NamedQueues).get(decode_id(queue))
    numbers = await dlq.service(NamedQueues).numbers(definition.name)
    numbers.pop("queue")
    return json_response(definition.to_dict() | numbers)


@router.patch("/{queue}", response_model=Definition, responses=problem_responses(400, 404), summary="Change a queue")
async def update(dlq: Queue, actor: Operator, queue: str, body: QueueOptions) -> Response:
    """What is decided from now on is decided by it. Null takes a dead queue, a limit or an expiry away."""
    given = body.model_dump(exclude_unset=True, exclude={"by"})
    changed = await dlq.service(NamedQueues).update(
        decode_id(queue), by=acting_name(actor, body.by), **_without_empty(given)
    )
    return json_response(changed.to_dict())


@router.post(
    "/{queue}/delete", response_model=Definition, responses=problem_responses(400, 404), summary="Delete a queue"
)
async def delete(dlq: Queue, actor: Admin, queue: str, body: DeleteQueue | None = None) -> Response:
    """Its items stay where they are."""
    wanted = body or DeleteQueue()
    gone = await dlq.service(NamedQueues).delete(decode_id(queue), force=wanted.force, by=acting_name(actor, wanted.by))
    return json_response(gone.to_dict())


@router.get(
    "/{queue}/items", response_model=list[Item], responses=problem_responses(404), summary="Items in their order"
)
async def items(
    request: Request, dlq: Queue, actor: Viewer, queue: str, params: Annotated[ItemQuery, Query()]
) -> Response:
    """Those that came first stand first."""
    page = await dlq.service(NamedQueues).items(
        decode_id(queue), status=params.status, limit=params.limit, after=params.cursor
    )
    return json_response([each.to_dict() for each in page.items], 200, page_headers(request, page))


@router.post(
    "/{queue}/items", response_model=Item, responses=problem_responses(404), summary="Put work in", status_code=201
)
async def produce(dlq: Queue, actor: Worker, queue: str, body: NewItem) -> Response:
    """It is durable when this is answered."""
    made = await dlq.service(NamedQueues).produce(decode_id(queue), body.payload, metadata=body.metadata)
    return json_response(made.to_dict(), 201)


@router.post(
    "/{queue}/import", response_model=ImportResult, responses=problem_responses(404), summary="Put items in once"
)
async def import_items(dlq: Queue, actor: Worker, queue: str, body: ImportItems) -> Response:
    """One that is there already is left alone and counted."""
    result = await dlq.service(NamedQueues).import_items(decode_id(queue), body.items)
    return json_response({"created": result.created, "duplicates": result.duplicates})


@router.post(
    "/{queue}/lease", response_model=list[Lease], responses=problem_responses(404), summary="Take the next items"
)
async def lease(dlq: Queue, actor: Worker, queue: str, body: LeaseRequest) -> Response:
    """Nobody else gets them until `lease_until`. An empty list: there is nothing to do."""
    leases = await dlq.service(NamedQueues).lease(
        decode_id(queue), body.worker, limit=body.limit, lease_seconds=body.lease_seconds
    )
    shown = [
        {"token": each.token, "lease_until": instant_text(each.until), "item": each.item.to_dict()} for each in leases
    ]
    return json_response(shown, 200, clear_headers(dlq))


@router.get("/{queue}/items/{id}", response_model=Item, responses=problem_responses(404), summary="One item")
async def one_item(dlq: Queue, actor: Viewer, queue: str, id: str) -> Response:
    """As it is now."""
    return json_response((await dlq.service(NamedQueues).item(decode_id(queue), decode_id(id))).to_dict())


@router.post(
    "/{queue}/items/{id}/complete", response_model=Item, responses=problem_responses(404, 409), summary="It is done"
)
async def complete(dlq: Queue, actor: Worker, queue: str, id: str, body: Token) -> Response:
    """Saying it again changes nothing."""
    return json_response(
        (await dlq.service(NamedQueues).complete(decode_id(queue), decode_id(id), body.token)).to_dict()
    )


@router.post(
    "/{queue}/items/{id}/fail", response_model=Item, responses=problem_responses(404, 409), summary="It failed"
)
async def fail(dlq: Queue, actor: Worker, queue: str, id: str, body: FailItem) -> Response:
    """Its cooldown begins, or it dies, as the queue says now."""
    failed = await dlq.service(NamedQueues).retry(
        decode_id(queue), decode_id(id), body.token, error=body.error, dead=body.dead, retry_in=body.retry_in
    )
    return json_response(failed.to_dict())


@router.post(
    "/{queue}/items/{id}/renew",
    response_model=RenewItemResult,
    responses=problem_responses(404, 409),
    summary="The work goes on",
)
async def renew(dlq: Queue, actor: Worker, queue: str, id: str, body: RenewItem) -> Response:
    """The lease ends later."""
    until = await dlq.service(NamedQueues).renew(
        decode_id(queue), decode_id(id), body.token, lease_seconds=body.lease_seconds
    )
    return json_response({"lease_until": instant_text(until)})


@router.post(
    "/{queue}/items/{id}/retry",
    response_model=QueueRetried,
    responses=problem_responses(404, 409),
    summary="Have a dead or failed item leased again",
)
async def retry(dlq: Queue, actor: Operator, queue: str, id: str, body: PersonActs | None = None) -> Response:
    """With no failure counted."""
    wanted = body or PersonActs()
    item = await dlq.service(NamedQueues).resurrect(
        decode_id(queue), decode_id(id), by=acting_name(actor, wanted.by), notes=wanted.notes
    )
    return json_response({"queue_name": item.queue, "item_id": item.id, "status": str(item.status)})


@router.post(
    "/{queue}/items/{id}/drop", response_model=Item, responses=problem_responses(404, 409), summary="Delete an item"
)
async def drop(dlq: Queue, actor: Admin, queue: str, id: str, body: PersonActs | None = None) -> Response:
    """Its number stays, and the audit says who did it."""
    wanted = body or PersonActs()
    gone = await dlq.service(NamedQueues).drop(
        decode_id(queue), decode_id(id), by=acting_name(actor, wanted.by), notes=wanted.notes
    )
    return json_response(gone.to_dict())


@router.post(
    "/{queue}/redrive",
    response_model=RedriveResult,
    responses=problem_responses(404, 409),
    summary="Send items back to where they came from",
)
async def redrive(dlq: Queue, actor: Operator, queue: str, body: QueueRedrive | None = None) -> Response:
    """Each once, with no failure counted."""
    wanted = body or QueueRedrive()
    result = await dlq.service(NamedQueues).redrive(
        decode_id(queue),
        ids=wanted.ids,
        to=wanted.to,
        query=None if wanted.filter is None else as_query(wanted.filter, dlq.context.clock.now()),
        by=acting_name(actor, wanted.by),
        notes=wanted.notes,
    )
    return json_response(result, 200, degraded_header(result["degraded"]))


def _without_empty(given: dict[str, Any]) -> dict[str, Any]:
    """Without null for options that always have a value."""
    return {
        name: value
        for name, value in given.items()
        if value is not None or name in ("dead_queue", "retry", "max_attempts", "expire_timeout")
    }

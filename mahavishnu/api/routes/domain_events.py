"""Stored domain events over HTTP: a consumer reads them, and acknowledges what it has dealt with."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictInt
from starlette.responses import Response

from mahavishnu.http.auth import Actor, OwnQueue, Queue, Role, Viewer, require_role
from mahavishnu.http.responses import json_response
from mahavishnu.http.routing import Depends, Router
from mahavishnu.http.routing import Query as Parameters
from mahavishnu.http.schemas import Name, NamespaceName, RequestModel, ResponseModel, fields_of
from mahavishnu.model.domain_events import DomainEvent, EventPosition

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "acknowledging events"))]
router = Router(tag="domain_events", prefix="/domain-events")
_HIGHEST = 10**15 - 1  # the digits of a number in a key
Consumer = Annotated[str, Field(min_length=1, max_length=100)]


@fields_of(DomainEvent, "event_id name namespace created_at task_id step condition delivery_mode number")
class StoredEvent(ResponseModel):
    """A stored domain event. One that comes twice has the same `event_id`."""

    payload: Any


class StoredEvents(ResponseModel):
    """Events in their order. `next` is what to read after, and to acknowledge when all were dealt with."""

    events: list[StoredEvent]
    next: int
    has_more: bool


@fields_of(EventPosition, "consumer namespace number at")
class Position(ResponseModel):
    """Up to which number a consumer has acknowledged events."""


class EventsQuery(RequestModel):
    """Which events: those after a number, or without one after what the consumer has acknowledged."""

    consumer: Consumer | None = None
    after: Annotated[int, Field(ge=0, le=_HIGHEST)] | None = None
    name: Annotated[list[str] | None, Field(max_length=20)] = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    namespace: NamespaceName | None = None


class Acknowledgement(RequestModel):
    """The consumer has dealt with all events up to this number."""

    consumer: Name
    number: Annotated[StrictInt, Field(ge=0, le=_HIGHEST)]


@router.get("", response_model=StoredEvents, summary="Stored domain events, in their order", name="list")
async def list_events(dlq: OwnQueue, actor: Viewer, params: Annotated[EventsQuery, Parameters()]) -> Response:
    """Nothing is acknowledged by it: who reads again gets the same."""
    events = dlq.in_namespace(params.namespace or dlq.namespace).domain_events
    page = await events.read(params.after, params.limit, consumer=params.consumer, names=params.name or "*")
    shown = [event.to_dict() for event in page.events]
    return json_response({"events": shown, "next": page.next, "has_more": page.has_more}, 200)


@router.post("/acknowledge", response_model=Position, summary="A consumer has dealt with events", name="acknowledge")
async def acknowledge(dlq: Queue, actor: Operator, body: Acknowledgement) -> Response:
    """A position never goes back: a lower number than that of before changes nothing."""
    position = await dlq.domain_events.acknowledge(body.consumer, body.number)
    answer = {name: getattr(position, name) for name in ("consumer", "namespace", "number")}
    return json_response(answer | {"at": position.at.isoformat()}, 200)

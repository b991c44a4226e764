"""Workers over HTTP: claim letters, renew and settle, in any language; and the list of live workers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictFloat, StrictInt
from starlette.responses import Response

from mahavishnu.http.auth import Actor, Queue, Role, Viewer, acting_name, require_role
from mahavishnu.http.responses import (
    clear_headers,
    decode_id,
    degraded_header,
    json_response,
    letter_json,
    problem_responses,
)
from mahavishnu.http.routing import Depends, Router
from mahavishnu.http.schemas import (
    ActionRequest,
    ClaimedLetter,
    LetterDetail,
    Name,
    RequestModel,
    ResponseModel,
    Seconds,
    TaskId,
    Text,
)
from mahavishnu.model.clock import instant_text
from mahavishnu.model.letter_parts import ErrorCategory
from mahavishnu.workers.claims import Claims
from mahavishnu.workers.service import AdapterLimits, Workers

Worker = Annotated[Actor, Depends(require_role(Role.OPERATOR, "working on letters"))]
Limiter = Annotated[Actor, Depends(require_role(Role.OPERATOR, "limiting adapters"))]
claims_router = Router(tag="claims", prefix="/claims")


LeaseSeconds = Annotated[StrictFloat | StrictInt, Field(ge=1, le=86400)]
router = Router(tag="workers")
limits_router = Router(tag="adapters", prefix="/adapters")


class ClaimRequest(RequestModel):
    """A worker asks for letters."""

    worker: Name
    limit: Annotated[StrictInt, Field(ge=1, le=500)] = 1
    lease_seconds: LeaseSeconds | None = None
    namespace: Name | None = None
    queue: Name | None = None
    adapters: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None


class Claim(ResponseModel):
    """The right to run a letter until `lease_until`. Send the token with whatever you say of it."""

    token: str
    attempt_id: str
    idempotency_key: str
    lease_until: str
    letter: ClaimedLetter


class RenewRequest(RequestModel):
    """The run goes on."""

    task_id: TaskId
    token: Name
    lease_seconds: LeaseSeconds | None = None
    namespace: Name | None = None
    queue: Name = "default"


class RenewResult(ResponseModel):
    """The new end of the lease."""

    lease_until: str


class SettleRequest(RequestModel):
    """The outcome of a run."""

    task_id: TaskId
    token: Name
    outcome: Literal["succeeded", "failed", "released"]
    error: Text | None = None
    error_type: Name | None = None
    category: ErrorCategory | None = None
    retry_in: Seconds | None = None
    namespace: Name | None = None
    queue: Name = "default"


@claims_router.post("", response_model=list[Claim], summary="Take due letters")
async def claim(dlq: Queue, actor: Worker, body: ClaimRequest) -> Response:
    """Take due letters: no other worker gets them until `lease_until`. An empty list: nothing is due."""
    claims = await dlq.service(Claims).claim(body.worker, **body.model_dump(exclude={"worker"}))
    return json_response(
        [
            {
                "token": each.token,
                "attempt_id": each.attempt_id,
                "idempotency_key": each.idempotency_key,
                "lease_until": instant_text(each.lease_until),
                "letter": {**letter_json(each.letter), "payload_types": each.letter.payload_types.value},
            }
            for each in claims
        ],
        200,
        clear_headers(dlq),
    )


@claims_router.post(
    "/renew", response_model=RenewResult, responses=problem_responses(404, 409), summary="The run goes on"
)
async def renew(dlq: Queue, actor: Worker, body: RenewRequest) -> Response:
    """Renew a lease. One that ran out, and was taken by another worker, is refused with 409: stop the run."""
    return json_response({"lease_until": instant_text(await dlq.service(Claims).renew(**body.model_dump()))})


@claims_router.post(
    "/settle", response_model=LetterDetail, responses=problem_responses(404, 409), summary="Say how the run went"
)
async def settle(dlq: Queue, actor: Worker, body: SettleRequest) -> Response:
    """Settle a run; `released` gives the letter back unrun. A lost lease is refused with 409, without a change."""
    return json_response(letter_json(await dlq.service(Claims).settle(**body.model_dump()), whole=True))


class WorkerLine(ResponseModel):
    """A worker: its last sign of life, what it can run, and what it holds. Null is what it does not say.

    `live` is null where that is unknown; one that has `ended` ran all due letters, once.
    """

    name: str
    live: bool | None
    host: str | None
    pid: int | None
    started_at: str | None
    seen_at: str | None
    queues: list[str] | None
    adapters: list[str] | None
    takes_all: bool
    remote: bool
    ended: bool
    held: int
    holds: list[str]


@router.get("/workers", response_model=list[WorkerLine], summary="Who works on letters now", name="list")
async def list_workers(dlq: Queue, actor: Viewer) -> Response:
    """List the live workers, and lost ones that hold letters. `holds` names some of these letters."""
    workers = await dlq.service(Workers).list()
    return json_response([each.to_dict() for each in workers], 200, degraded_header(workers.degraded))


class LimitRequest(ActionRequest):
    """Parts of a limit that change. Null takes one away, and what is not given stays."""

    concurrency: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    rate: Name | None = None


class LimitLine(ResponseModel):
    """The limit of an adapter: letters that run at once, and their rate; null: no limit. `held` are running now."""

    adapter: str
    concurrency: int | None
    rate: str | None
    set_by: str | None
    set_at: str | None
    held: int


@limits_router.get("", response_model=list[LimitLine], summary="Adapters with a limit", name="list")
async def list_limits(dlq: Queue, actor: Viewer) -> Response:
    """List the adapters that have a limit, by name."""
    return json_response([each.to_dict(dlq.clock.now()) for each in await dlq.service(AdapterLimits).list()])


@limits_router.patch(
    "/{adapter}/limit", response_model=LimitLine, responses=problem_responses(400), summary="Limit an adapter"
)
async def limit(dlq: Queue, actor: Limiter, adapter: str, body: LimitRequest) -> Response:
    """Set how many letters run at once in all workers, and how many start per second, minute or hour: `100/min`."""
    changes: Any = body.model_dump(exclude_unset=True, exclude={"by", "notes"})
    by = acting_name(actor, body.by)
    made = await dlq.service(AdapterLimits).limit(decode_id(adapter), by=by, notes=body.notes, **changes)
    return json_response(made.to_dict(dlq.clock.now()))


@limits_router.post(
    "/{adapter}/reset", response_model=LimitLine, responses=problem_responses(400), summary="Undo a limit"
)
async def reset(dlq: Queue, actor: Limiter, adapter: str, body: ActionRequest | None = None) -> Response:
    """Return to the limit that the application declares, or to none."""
    given = body or ActionRequest()
    by = acting_name(actor, given.by)
    made = await dlq.service(AdapterLimits).reset(decode_id(adapter), by=by, notes=given.notes)
    return json_response(made.to_dict(dlq.clock.now()))

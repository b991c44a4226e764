"""Workers in any language: claim letters, renew, settle."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from mahavishnu.api.auth import Actor, Queue, Role, require_role
from mahavishnu.api.errors import problem_responses
from mahavishnu.api.responses import json_response, letter_json
from mahavishnu.api.routing import Depends, Router
from mahavishnu.api.schemas import Claim, ClaimRequest, LetterDetail, RenewRequest, RenewResult, SettleRequest
from mahavishnu.model.clock import instant_text

Worker = Annotated[Actor, Depends(require_role(Role.OPERATOR, "working on letters"))]
router = Router(tag="claims", prefix="/claims")


@router.post("", response_model=list[Claim], summary="Take due letters")
async def claim(dlq: Queue, actor: Worker, body: ClaimRequest) -> Response:
    """Nobody else gets them until `lease_until`. An empty list: nothing is due."""
    claims = await dlq.claim_letters(
        body.worker,
        limit=body.limit,
        lease_seconds=body.lease_seconds,
        queue=body.queue,
        namespace=body.namespace,
    )
    return json_response(
        [
            {
                "token": each.token,
                "attempt_id": each.attempt_id,
                "idempotency_key": each.idempotency_key,
                "lease_until": instant_text(each.lease_until),
                "letter": letter_json(each.letter),
            }
            for each in claims
        ]
    )


@router.post("/renew", response_model=RenewResult, responses=problem_responses(404, 409), summary="The run goes on")
async def renew(dlq: Queue, actor: Worker, body: RenewRequest) -> Response:
    """A lease that ran out, and was taken by somebody else, is refused with 409: stop the run."""
    until = await dlq.renew_claim(
        body.task_id,
        body.token,
        lease_seconds=body.lease_seconds,
        namespace=body.namespace,
        queue=body.queue,
    )
    return json_response({"lease_until": instant_text(until)})


@router.post(
    "/settle", response_model=LetterDetail, responses=problem_responses(404, 409), summary="Say how the run went"
)
async def settle(dlq: Queue, actor: Worker, body: SettleRequest) -> Response:
    """`released` gives the letter back unrun. A lease that is lost is refused with 409, and nothing is changed."""
    settled = await dlq.settle_claim(
        body.task_id,
        body.token,
        body.outcome,
        error=body.error,
        error_type=body.error_type,
        category=body.category,
        retry_in=body.retry_in,
        namespace=body.namespace,
        queue=body.queue,
    )
    return json_response(letter_json(settled, whole=True))

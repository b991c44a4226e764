"""Workers in any language: claim letters, renew, settle."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from mahavishnu.api.auth import Actor, Queue, Role, needs
from mahavishnu.api.errors import documented
from mahavishnu.api.responses import answer, letter_json
from mahavishnu.api.schemas import Claim, ClaimAsked, Renewal, Renewed, Settlement, WholeLetter
from mahavishnu.model.clock import instant_text

Worker = Annotated[Actor, Depends(needs(Role.OPERATOR, "working on letters"))]
router = APIRouter(tags=["claims"], prefix="/claims")


@router.post("", response_model=list[Claim], summary="Take due letters")
async def claim(dlq: Queue, actor: Worker, asked: ClaimAsked) -> Response:
    """Nobody else gets them until `lease_until`. An empty list: nothing is due."""
    claims = await dlq.claim_letters(
        asked.worker,
        limit=asked.limit,
        lease_seconds=asked.lease_seconds,
        queue=asked.queue,
        namespace=asked.namespace,
    )
    return answer(
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


@router.post("/renew", response_model=Renewed, responses=documented(404, 409), summary="The run goes on")
async def renew(dlq: Queue, actor: Worker, asked: Renewal) -> Response:
    """A lease that ran out, and was taken by somebody else, is refused with 409: stop the run."""
    until = await dlq.renew_claim(
        asked.task_id,
        asked.token,
        lease_seconds=asked.lease_seconds,
        namespace=asked.namespace,
        queue=asked.queue,
    )
    return answer({"lease_until": instant_text(until)})


@router.post("/settle", response_model=WholeLetter, responses=documented(404, 409), summary="Say how the run went")
async def settle(dlq: Queue, actor: Worker, asked: Settlement) -> Response:
    """`released` gives the letter back unrun. A lease that is lost is refused with 409, and nothing is changed."""
    settled = await dlq.settle_claim(
        asked.task_id,
        asked.token,
        asked.outcome,
        error=asked.error,
        error_type=asked.error_type,
        category=asked.category,
        retry_in=asked.retry_in,
        namespace=asked.namespace,
        queue=asked.queue,
    )
    return answer(letter_json(settled, whole=True))

"""Encrypted values of a letter over HTTP, for those who may see them."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.responses import Response

from mahavishnu.api.auth import Actor, Queue, Role, acting_name, require_role
from mahavishnu.api.errors import problem_responses
from mahavishnu.api.responses import ScopeQuery, decode_id, json_response
from mahavishnu.api.routing import Depends, Router
from mahavishnu.api.schemas import ActionRequest, ResponseModel

Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "revealing encrypted values"))]
router = Router(tag="letters")


class Revealed(ResponseModel):
    """What a letter has encrypted, in clear."""

    task: Any = None
    metadata: dict[str, Any]


@router.post(
    "/dlq/{task_id}/reveal",
    response_model=Revealed,
    responses=problem_responses(404, 409),
    summary="Show encrypted values in clear",
)
async def reveal(
    dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, body: ActionRequest | None = None
) -> Response:
    """The audit says who looked, and why. Not kept for an idempotency key."""
    who, notes = acting_name(actor, body.by if body else None), body.notes if body else None
    revealed = await dlq.letters.reveal(decode_id(task_id), by=who, notes=notes, **where.arguments)
    return json_response(revealed, 200, {"Cache-Control": "no-store"})

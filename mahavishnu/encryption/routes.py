"""Encrypted values over HTTP: revealing those of a letter, and renewing the keys of stored ones."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictBool
from starlette.responses import Response

from mahavishnu.encryption.service import EncryptionRenewal
from mahavishnu.http.auth import Actor, Queue, Role, ScopeQuery, acting_name, require_role
from mahavishnu.http.responses import decode_id, json_response, problem_responses, to_json
from mahavishnu.http.routing import Depends, Router
from mahavishnu.http.schemas import ActionRequest, Name, RequestModel, ResponseModel
from mahavishnu.letters.service import LetterOperations

Admin = Annotated[Actor, Depends(require_role(Role.ADMIN, "encrypting what is stored"))]
Operator = Annotated[Actor, Depends(require_role(Role.OPERATOR, "revealing encrypted values"))]
router = Router(tag="letters")


class Revealed(ResponseModel):
    """The encrypted values of a letter, in clear."""

    task: Any = None
    metadata: dict[str, Any]


class EncryptRequest(RequestModel):
    """The lot to encrypt; nothing is changed unless `dry_run` is false."""

    dry_run: StrictBool = True
    scrub: StrictBool = Field(default=False, description="Mask what audit entries and published events quote, too")
    limit: Annotated[int, Field(ge=1, le=5000)] = 500
    after: str | None = Field(default=None, description="The `next` of the lot before")
    by: Name | None = None


class EncryptResult(ResponseModel):
    """The result of a lot."""

    looked_at: int
    changed: int = Field(description="Or would be")
    failed: dict[str, str] = Field(description="Why records could not be, by their keys")
    next: str | None = Field(description="Where the next lot begins; null after the last one")
    out_of_reach: list[str] = Field(description="What no lot looks at: it keeps the keys that it was encrypted with")


@router.post("/dlq/encrypt", response_model=EncryptResult, summary="Encrypt what is stored by the newest key")
async def encrypt(dlq: Queue, actor: Admin, body: EncryptRequest | None = None) -> Response:
    """Encrypt one lot; ask again with `next`. It can be begun again at any time: what is encrypted so is left alone."""
    body = body or EncryptRequest()
    lot = await dlq.service(EncryptionRenewal).renew(
        dry_run=body.dry_run, scrub=body.scrub, limit=body.limit, after=body.after, by=acting_name(actor, body.by)
    )
    return json_response(to_json(lot))


@router.post(
    "/dlq/{task_id}/reveal",
    response_model=Revealed,
    responses=problem_responses(404, 409),
    summary="Show encrypted values in clear",
)
async def reveal(
    dlq: Queue, actor: Operator, where: ScopeQuery, task_id: str, body: ActionRequest | None = None
) -> Response:
    """Show encrypted values; the audit says who looked, and why. Not kept for an idempotency key."""
    who, notes = acting_name(actor, body.by if body else None), body.notes if body else None
    revealed = await dlq.service(LetterOperations).reveal(decode_id(task_id), by=who, notes=notes, **where.arguments)
    return json_response(revealed, 200, {"Cache-Control": "no-store"})

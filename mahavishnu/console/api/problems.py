"""Errors as answers: RFC 9457 problem documents, one table from our exceptions to a status.

A problem says what happened, to which letter, and what to do; it never says anything about the inside of the server.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mahavishnu.model.errors import (
    AlreadyResolved,
    ChangedMeanwhile,
    CorruptRecord,
    IllegalMove,
    IllegalRunMove,
    InvalidInput,
    InvalidPayload,
    InvalidQuery,
    LostLease,
    MahavishnuError,
    NoSuchLetter,
    NotDue,
    QueueFull,
    StoreError,
    StoreUnavailable,
)

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
URN = "urn:mahavishnu:problem:"
RETRY_AFTER_SECONDS = 5


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=[f"{URN}no-such-letter"])
    title: str
    status: int
    detail: str = Field(description="What happened, and what can be done.")


# The first that fits counts.
_STATUSES: tuple[tuple[type[BaseException], int, str], ...] = (
    (NoSuchLetter, 404, "no-such-letter"),
    (LookupError, 404, "not-found"),
    (ChangedMeanwhile, 412, "changed-meanwhile"),
    (LostLease, 409, "lost-lease"),
    (AlreadyResolved, 409, "already-resolved"),
    (NotDue, 409, "not-due"),
    (IllegalMove, 409, "illegal-move"),
    (IllegalRunMove, 409, "illegal-run-move"),
    (QueueFull, 409, "queue-full"),
    (InvalidPayload, 422, "invalid-payload"),
    (InvalidQuery, 422, "invalid-query"),
    (InvalidInput, 422, "invalid-input"),
    (StoreUnavailable, 503, "store-unavailable"),
    (CorruptRecord, 503, "corrupt-record"),
    (StoreError, 503, "store-error"),
    (MahavishnuError, 409, "refused"),
)


def problem(status: int, name: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """An answer that says what went wrong.

    >>> problem(404, "not-found", "there is no run 'x'").status_code
    404
    """
    document = {"type": URN + name, "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return Response(json.dumps(document), status, dict(headers or {}), MEDIA_TYPE)


def answer_to(error: Exception) -> Response:
    """The problem that an error of ours is. What a store says of its own inside goes to the log only."""
    status, name = next((status, name) for kind, status, name in _STATUSES if isinstance(error, kind))
    if isinstance(error, StoreError):
        log.error("the store failed: %s", error)
        detail = "the store cannot answer now; nothing else is known: look again before you repeat what changes things"
        return problem(status, name, detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
    if isinstance(error, NoSuchLetter | IllegalMove):
        return problem(status, name, str(error), key=error.key)
    return problem(status, name, str(error))


def handle_errors(api: FastAPI) -> None:
    """Have every error of this API answered with a problem."""

    async def ours(request: Request, error: Exception) -> Response:
        if getattr(error, "maybe_written", False):
            request.state.maybe_done = True
        return answer_to(error)

    async def malformed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        problems = [{"where": ".".join(map(str, each["loc"])), "problem": each["msg"]} for each in error.errors()[:20]]
        detail = "; ".join(f"{each['where']}: {each['problem']}" for each in problems)
        is_text = any(each["type"] == "json_invalid" for each in error.errors())
        return problem(400 if is_text else 422, "invalid-request", detail, problems=problems)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        name = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        return problem(error.status_code, name, str(error.detail), headers=error.headers)

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "internal-error", "this should not have happened; the server's log says more")

    api.add_exception_handler(MahavishnuError, ours)
    api.add_exception_handler(RequestValidationError, malformed)
    api.add_exception_handler(HTTPException, http)
    api.add_exception_handler(Exception, unexpected)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: these statuses are answered with a problem."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }

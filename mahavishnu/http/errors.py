"""Errors as problem documents (RFC 9457); one table maps our exceptions to statuses.

A problem says what happened, to which letter, and what to do. It never reveals anything about the inside of the server.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.model.errors import (
    AlreadyResolved,
    ChangedMeanwhile,
    CorruptRecord,
    IllegalMove,
    IllegalRunMove,
    InvalidInput,
    InvalidOption,
    InvalidPayload,
    InvalidQuery,
    InvalidQueryText,
    LostLease,
    MahavishnuError,
    NoSuchLetter,
    NotDue,
    PermissionDenied,
    QueueFull,
    ReadTimeout,
    StoreError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
URN = "urn:mahavishnu:problem:"
RETRY_AFTER_SECONDS = 5


class Problem(BaseModel):
    """Problem document (RFC 9457)."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    type: str = Field(examples=[f"{URN}no-such-letter"])
    title: str
    status: int
    detail: str = Field(description="What happened, and what can be done.")


# The first class that fits decides.
_STATUSES: tuple[tuple[type[BaseException], int, str], ...] = (
    (PermissionDenied, 403, "forbidden"),
    (NoSuchLetter, 404, "no-such-letter"),
    (LookupError, 404, "not-found"),
    (ChangedMeanwhile, 412, "changed-meanwhile"),
    (LostLease, 409, "lost-lease"),
    (AlreadyResolved, 409, "already-resolved"),
    (NotDue, 409, "not-due"),
    (IllegalMove, 409, "illegal-move"),
    (IllegalRunMove, 409, "illegal-run-move"),
    (QueueFull, 409, "queue-full"),
    (InvalidOption, 400, "invalid-option"),
    (InvalidPayload, 422, "invalid-payload"),
    (InvalidQuery, 422, "invalid-query"),
    (InvalidInput, 422, "invalid-input"),
    (StoreUnavailable, 503, "store-unavailable"),
    (ReadTimeout, 503, "read-timeout"),
    (CorruptRecord, 503, "corrupt-record"),
    (StoreError, 503, "store-error"),
    (MahavishnuError, 409, "refused"),
)


def problem(status: int, name: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """Return a response that describes a problem.

    >>> problem(404, "not-found", "there is no run 'x'").status_code
    404
    """
    document = {"type": URN + name, "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return Response(json.dumps(document) + "\n", status, dict(headers or {}), MEDIA_TYPE)


def problem_for(error: Exception) -> Response:
    """The response to an error of ours. What a store says about itself goes to the log only."""
    status, name = next((status, name) for kind, status, name in _STATUSES if isinstance(error, kind))
    if isinstance(error, StoreError) and not isinstance(error, ReadTimeout):
        log.error("the store failed: %s", error)
        detail = "the store cannot answer now; nothing else is known: look again before you repeat what changes things"
        return problem(status, name, detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
    if isinstance(error, NoSuchLetter | IllegalMove):
        return problem(status, name, str(error), key=error.key)
    if isinstance(error, InvalidQueryText):
        return problem(status, name, str(error), start=error.start, end=error.end, near=list(error.near))
    return problem(status, name, str(error))


def problem_for_request(errors: Sequence[Mapping[str, Any]]) -> Response:
    """The response to a request whose fields or parameters have these errors."""
    problems = [{"where": ".".join(map(str, each["loc"])), "problem": _field_problem(each)} for each in errors[:20]]
    detail = "; ".join(f"{each['where']}: {each['problem']}" for each in problems)
    is_text = any(each["type"] == "json_invalid" for each in errors)
    return problem(400 if is_text else 422, "invalid-request", detail, problems=problems)


async def on_own_error(request: Request, error: Exception) -> Response:
    """The response to an error of ours; it is noted on the request if the change may have been made all the same."""
    if getattr(error, "maybe_written", False):
        request.state.maybe_done = True
    return problem_for(error)


def handle_errors(api: FastAPI, at: str) -> None:
    """Answer every error of this API, whose paths begin with `at`, with a problem document."""
    from fastapi.exceptions import RequestValidationError

    async def on_invalid_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_for_request(error.errors())

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        name, detail, headers = HTTPStatus(error.status_code).phrase, str(error.detail), error.headers
        if error.status_code == 404:
            detail = _unknown_path(request, at)
        elif error.status_code == 405:
            allowed = ", ".join(_allowed_methods(request))
            detail, headers = f"this path knows {allowed}, and not {request.method}", {"Allow": allowed}
        elif error.status_code == 400 and error.__cause__ is not None:
            detail = _body_problem(error.__cause__)
        return problem(error.status_code, name.lower().replace(" ", "-"), detail, headers=headers)

    async def on_unexpected_error(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(500, "internal-error", "this should not have happened; the server's log says more")

    api.add_exception_handler(MahavishnuError, on_own_error)
    api.add_exception_handler(RequestValidationError, on_invalid_request)
    api.add_exception_handler(HTTPException, on_http_error)
    api.add_exception_handler(Exception, on_unexpected_error)


def _field_problem(error: Mapping[str, Any]) -> str:
    """Describe the problem of one field or parameter, and what was probably meant."""
    kind, given, message = error["type"], error["input"], str(error["msg"])
    if error["loc"] == ("body",) and isinstance(given, bytes):
        return "it is not read as JSON: send it with the header Content-Type: application/json"
    if kind.startswith("datetime_"):
        return f"{message}; write an instant as 2026-01-31T12:00:00Z"
    if kind in ("enum", "literal_error") and isinstance(given, str) and len(given) < 100:
        near = get_close_matches(given, re.findall("'([^']+)'", error["ctx"]["expected"]), 1)
        return f"{message} (did you mean '{near[0]}'?)" if near else message
    return message


def _unknown_path(request: Request, at: str) -> str:
    where = request.scope.get("root_path", "") + at
    return (
        f"there is no {request.scope['request_path']:.200}: the paths are in {where}/openapi.json, "
        f"and a / inside of a name is sent as %2F: {where}/dlq/orders%2F7"
    )


def _allowed_methods(request: Request) -> list[str]:
    """The methods of this path, over all its routes; Starlette names those of the first route only."""
    from starlette.routing import Match

    def fits(method: str) -> bool:
        return any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)

    return [method for method in ("GET", "POST", "PATCH", "PUT", "DELETE") if fits(method)]


def _body_problem(why: BaseException) -> str:
    """Describe why a body could not be read, if not because it is no JSON."""
    if isinstance(why, UnicodeError):
        return "the body is not UTF-8"
    if isinstance(why, RecursionError):
        return "the body is nested too deeply"
    return f"the body cannot be read: {why!s:.200}"


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: responses with these statuses are problem documents."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }

"""Responses: JSON, entity tags, links and headers; answers that stream their lines; errors as problem documents.

A problem says what happened, to which letter, and what to do. It never reveals anything about the inside of the server.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from difflib import get_close_matches
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

from mahavishnu.model.clock import SystemClock, instant_text
from mahavishnu.model.errors import (
    AlreadyResolved,
    ChangedMeanwhile,
    CorruptRecord,
    IllegalMove,
    IllegalRunMove,
    ImportStopped,
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
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, without_payload
from mahavishnu.model.letter_parts import Failure
from mahavishnu.model.record import Value, Version

if TYPE_CHECKING:  # what the command line reads in its own process needs no framework
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse

    from mahavishnu.engine.queue import LetterQueue


# --- errors as problem documents (RFC 9457); one table maps our exceptions to statuses

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
URN = "urn:mahavishnu:problem:"
RETRY_AFTER_SECONDS = 5


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
    (ImportStopped, 503, "import-stopped"),
    (StoreUnavailable, 503, "store-unavailable"),
    (ReadTimeout, 503, "read-timeout"),
    (CorruptRecord, 503, "corrupt-record"),
    (StoreError, 503, "store-error"),
    (MahavishnuError, 409, "refused"),
)


def respond(body: str | bytes | None, status: int, headers: Mapping[str, str] | None, kind: str | None) -> Response:
    """Return a response."""
    from starlette.responses import Response

    return Response(body, status, dict(headers or {}), kind)


def problem(status: int, name: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """Return a response that describes a problem.

    >>> problem(404, "not-found", "there is no run 'x'").status_code
    404
    """
    document = {"type": URN + name, "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return respond(json.dumps(document) + "\n", status, headers, MEDIA_TYPE)


def problem_for(error: Exception) -> Response:
    """The response to an error of ours. What a store says about itself goes to the log only."""
    status, name = next((status, name) for kind, status, name in _STATUSES if isinstance(error, kind))
    if isinstance(error, StoreError) and not isinstance(error, ReadTimeout):
        log.error("the store failed: %s", error.__cause__ if isinstance(error, ImportStopped) else error)
        headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
        if isinstance(error, ImportStopped):
            more = {"taken": error.taken, "letters": error.letters, "maybe_written": error.maybe_written}
            return problem(status, name, str(error), headers=headers, **more)
        detail = "the store cannot answer now; nothing else is known: look again before you repeat what changes things"
        return problem(status, name, detail, headers=headers)
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
    from starlette.exceptions import HTTPException

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


# --- answers

JSON, NDJSON, CSV = "application/json", "application/x-ndjson", "text/csv"
CHUNK = 64 * 1024  # characters that are sent at once
MARK = "\ue000"  # begins the stand-in for a slash inside a part of the path, and for itself
ESCAPED_SLASH, ESCAPED_MARK = f"{MARK}s", f"{MARK}m"  # a task id may contain both
_FAILURE = Failure.__struct_fields__


class Document(Value, frozen=True):
    """The answer to a read, by HTTP or in this process (see `Room.reads`); `next` is the cursor of the next page."""

    value: Any
    headers: Mapping[str, str] = {}
    next: object = None

    def response(self, request: Request, encode: Callable[[Any], bytes] | None = None) -> Response:
        """Return the response to a request."""
        link = {} if self.next is None else {"Link": next_link(request, str(self.next))}
        return respond((encode or _json_line)(self.value), 200, {**self.headers, **link}, JSON)


async def stream_lines(lines: AsyncGenerator[str, None], media_type: str) -> StreamingResponse:
    """The answer that has these lines."""
    from starlette.responses import StreamingResponse

    first = await anext(lines, None)  # if the store is away, the status can still say so
    return StreamingResponse(_join_lines(first, lines), media_type=media_type)


async def _join_lines(first: str | None, lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Join lines into chunks. After each chunk other tasks run, so that a client that is gone is noticed."""
    parts = [] if first is None else [f"{first}\n"]
    size = 0
    try:
        async for line in lines:
            parts.append(f"{line}\n")
            size += len(line)
            if size >= CHUNK:
                yield "".join(parts)
                parts, size = [], 0
                await SystemClock().sleep(0)
    except StoreError:
        yield "".join(parts)  # what could be read; then the response breaks off
        raise
    yield "".join(parts)


def escape_part(part: str) -> str:
    """Return a part of a path without the slashes in it, which would part it again: `decode_id` brings them back."""
    return part.replace(MARK, ESCAPED_MARK).replace("/", ESCAPED_SLASH)


def decode_id(task_id: str) -> str:
    """The id in a path, with the slashes that the middleware has escaped."""
    return task_id.replace(ESCAPED_SLASH, "/").replace(ESCAPED_MARK, MARK)


def letter_json(letter: DeadLetter, *, whole: bool = False) -> dict[str, Any]:
    """A letter as HTTP and the command line show it; `whole` with its failures, verdict and lease."""
    return {
        **_letter_fields(letter, whole),
        "task": letter.task,
        "metadata": letter.metadata,
        "task_snapshot": letter.task_snapshot,
    }


def letters_shown(
    letters: Sequence[DeadLetter], *, whole: bool = False, waiting_for: Sequence[str | None] | None = None
) -> list[dict[str, Any]]:
    """Return letters as `letter_json` does, with shared payloads; `waiting_for` says what each of them waits for."""
    return [
        {
            **_letter_fields(letter, whole),
            **({"waiting_for": waits} if waits else {}),
            "task": (task := letter.payload.shared_value),
            "metadata": letter.labels.shared_value,
            "task_snapshot": task if letter.captured_task is None else letter.captured_task.shared_value,
        }
        for letter, waits in zip(letters, waiting_for or [None] * len(letters), strict=True)
    ]


def letters_json(shown: Sequence[Mapping[str, Any]]) -> bytes:
    """Return letters as compact JSON, by the quickest encoder."""
    import pydantic_core

    try:
        return pydantic_core.to_json(shown) + b"\n"
    except pydantic_core.PydanticSerializationError:  # half a character, or nesting that is too deep for it
        return json.dumps(shown).encode() + b"\n"


def _letter_fields(letter: DeadLetter, whole: bool) -> dict[str, Any]:
    """All fields but the payload and the metadata."""
    shown = without_payload(letter)
    shown |= {
        "dlq_entry_uuid": letter.entry_id,
        "task_uuid": letter.task_id,
        "original_state": letter.source.state,
        "dlq_reason": str(letter.reason),
        "dlq_timestamp": instant_text(letter.created_at),
        "requeue_outcome": letter.requeue and str(letter.requeue.outcome),
        "runs": list(letter.runs),
    }
    if whole:
        shown |= {
            "failures": [
                {name: getattr(failure, name) for name in _FAILURE} | {"at": instant_text(failure.at)}
                for failure in letter.failures
            ],
            "verdict_reason": letter.verdict.reason,
            "verdict_author": letter.verdict.author,
            "claim_owner": letter.lease and letter.lease.owner,
            "due_at": letter.due_at and instant_text(letter.due_at),
            "requeue": letter.requeue and to_json(letter.requeue),
            "source_kind": str(letter.source.kind),
            "source_queue": letter.source.queue,
            "source_id": letter.source.id,
            "recoveries": letter.recoveries,
            "payload_types": letter.payload_types.value,
            "policy_by_verdict": letter.policy_by_verdict,
            "former_fingerprints": list(letter.former_fingerprints),
        }
    return shown


def to_json(value: Any) -> Any:
    """Any value of ours as JSON values, without the versions of the store.

    >>> from datetime import UTC
    >>> to_json({"at": datetime(2030, 1, 1, tzinfo=UTC)})
    {'at': '2030-01-01T00:00:00.000Z'}
    """
    match value:
        case Json() | Enum():
            return value.value
        case datetime():
            return instant_text(value)
        case DeadLetter():
            return letter_json(value)
        case Mapping():
            return {str(name): to_json(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_json(getattr(value, name)) for name in value.__dataclass_fields__ if name != "version"}
    return str(value)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response. The tests check it against its model; requests do not do so again."""
    return respond(_json_line(value), status, headers, JSON)


def _json_line(value: Any) -> bytes:
    return json_bytes(value) + b"\n"


def clear_headers(dlq: LetterQueue) -> dict[str, str]:
    """Headers of a response that has in clear what letters have encrypted, if this queue encrypts: keep it nowhere."""
    return {"Cache-Control": "no-store"} if dlq.context.letter_factory.encryption.keys else {}


def json_bytes(value: Any) -> bytes:
    """`value` as JSON; half a character, which a payload may contain, is written as an escape."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def etag(version: Version | None) -> str:
    """The entity tag of one version of a record, to be sent back as If-Match.

    >>> etag((7, 1))
    '"7.1"'
    """
    return f'"{".".join(map(str, version or ()))}"'


def etag_matches(if_none_match: str | None, version: Version | None) -> bool:
    """Return True if an If-None-Match header names this version.

    A weak tag will do: a proxy that compresses makes one of ours.

    >>> etag_matches('W/"7.1"', (7, 1)), etag_matches('"7"', (7, 1))
    (True, False)
    """
    return _lists_mark(if_none_match, lambda mark: mark.removeprefix("W/") == etag(version))


def refuse_if_changed(if_match: str, version: Version | None, what: str) -> Response | None:
    """The response that refuses a change, unless If-Match names this version; a weak tag never does (RFC 9110)."""
    if _lists_mark(if_match, lambda mark: mark == etag(version)):
        return None
    why = f"{what} has changed since you read it: look again"
    if _lists_mark(if_match, lambda mark: mark.removeprefix("W/") == etag(version)):
        why = 'a weak mark (W/"…") does not allow a change: send the ETag of the answer without W/, or no If-Match'
    return problem(412, "changed-meanwhile", why)


def _lists_mark(header: str | None, fits: Callable[[str], bool]) -> bool:
    marks = [] if header is None else [each.strip() for each in header.split(",")]
    return any(mark == "*" or fits(mark) for mark in marks)


def header_text(text: str) -> str:
    """Any text as one line of the characters that a header may have.

    >>> header_text("away:\\n10 \u00b5s")
    'away: 10 ?s'
    """
    line = "".join(char if char.isprintable() else " " for char in text)
    return line.encode("ascii", "replace").decode()


def next_link(request: Request, cursor: str) -> str:
    """A Link header to the next page of the same list."""
    return link_to(request.url.path, request.query_params.multi_items(), cursor)


def link_to(path: str, asked: Sequence[tuple[str, str]], cursor: str) -> str:
    """Return a Link header to the next page of the list that was asked for."""
    others = [pair for pair in asked if pair[0] not in ("cursor", "offset")]
    return f'<{path}?{urlencode([*others, ("cursor", cursor)])}>; rel="next"'


class AnyPage(Protocol):
    """A page of a list."""

    @property
    def next(self) -> object: ...
    @property
    def degraded(self) -> str | None: ...


def page_headers(request: Request, page: AnyPage) -> dict[str, str]:
    """The headers that lead to the next page, and that say why something may be missing from this one."""
    headers = {} if page.next is None else {"Link": next_link(request, str(page.next))}
    return headers | degraded_header(page.degraded)


def degraded_header(why: str | None) -> dict[str, str]:
    """The header that says why something may be missing; none if nothing is."""
    return {"X-Degraded": header_text(why)} if why else {}

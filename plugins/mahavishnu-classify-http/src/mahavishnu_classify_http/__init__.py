"""What errors of httpx, requests and aiohttp tell beyond their type and status.

Two questions matter to somebody who wants to repeat a request. When does the rate limit reset? Many services say so in
headers other than Retry-After, and some answer 403 instead of 429. And: was the request carried out already? One that
was never sent can safely be repeated; one whose answer was lost may have been. The tags say which.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeAlias

from mahavishnu import ErrorCategory, Verdict, hookimpl

__version__ = "0.1.0"

NOT_SENT = "http:not-sent"
MAYBE_CARRIED_OUT = "http:maybe-carried-out"
RATE_LIMITED = "http:rate-limited"

# By name, so that no library is imported that the application does not use.
_NEVER_SENT = frozenset(
    {
        "httpx.ConnectError",
        "httpx.ConnectTimeout",
        "httpx.PoolTimeout",
        "requests.exceptions.ConnectTimeout",
        "urllib3.exceptions.NewConnectionError",
        "urllib3.exceptions.ConnectTimeoutError",
        "aiohttp.client_exceptions.ClientConnectorError",
        "aiohttp.client_exceptions.ConnectionTimeoutError",
    }
)
_ANSWER_LOST = frozenset(
    {
        "httpx.NetworkError",
        "httpx.TimeoutException",
        "httpx.RemoteProtocolError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.ReadTimeout",
        "requests.exceptions.ChunkedEncodingError",
        "aiohttp.client_exceptions.ServerDisconnectedError",
        "aiohttp.client_exceptions.ClientOSError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "aiohttp.client_exceptions.ServerTimeoutError",
    }
)
_REMAINING = ("x-ratelimit-remaining", "ratelimit-remaining", "x-rate-limit-remaining")
_RESET = ("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset", "x-ratelimit-reset-after")
_IS_AN_INSTANT = 1_000_000_000  # larger numbers are seconds since 1970, smaller ones seconds from now

Headers: TypeAlias = "Mapping[str, str]"


class _Answer(NamedTuple):
    status: int
    headers: Headers


@hookimpl
def classify_error(error: BaseException | str, context: Any) -> Verdict | None:
    """A rate limit with its reset, or a lost connection with what became of the request; else no opinion."""
    if isinstance(error, str):
        return None
    answer = _answer(error)
    if answer is not None:
        return _of_answer(answer, context.now)
    names = {f"{kind.__module__}.{kind.__qualname__}" for each in _behind(error) for kind in type(each).__mro__}
    if names & _NEVER_SENT:
        return Verdict(ErrorCategory.NETWORK, "no connection came about, so nothing was sent", tags=(NOT_SENT,))
    if names & _ANSWER_LOST:
        return Verdict(ErrorCategory.NETWORK, "the answer was lost", tags=(MAYBE_CARRIED_OUT,))
    return None


def _of_answer(answer: _Answer, now: datetime | None) -> Verdict | None:
    is_used_up = any(answer.headers.get(name, "").strip() == "0" for name in _REMAINING)
    if answer.status != 429 and not (is_used_up and answer.status in (403, 503)):
        return None
    retry_in = _reset(answer.headers, now)
    when = f", it resets in {retry_in.total_seconds():.0f} s" if retry_in is not None else ""
    reason = f"HTTP {answer.status}: the rate limit is used up{when}"
    return Verdict(ErrorCategory.TRANSIENT, reason, retry_in=retry_in, tags=(RATE_LIMITED,))


def _reset(headers: Headers, now: datetime | None) -> timedelta | None:
    """When the limit resets: Retry-After, or one of the headers that say it in seconds or as an instant."""
    now = _date(headers.get("date", "")) or now  # the server's own clock, where it tells us
    for name in ("retry-after", *_RESET):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value)
        except ValueError:
            moment = _date(value)
        else:
            if 0 <= seconds < _IS_AN_INSTANT:
                return timedelta(seconds=seconds)
            moment = datetime.fromtimestamp(seconds, UTC) if 0 <= seconds < 2**33 else None
        if moment is not None and now is not None:
            return max(moment - now, timedelta(0))
    return None


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _answer(error: BaseException) -> _Answer | None:
    """Status and headers of the answer that the error carries: `response` in httpx and requests, itself in aiohttp."""
    for holder in (getattr(error, "response", None), error):
        status = getattr(holder, "status_code", getattr(holder, "status", None))
        headers = getattr(holder, "headers", None)
        if isinstance(status, int) and headers is not None:
            return _Answer(status, {str(name).lower(): str(text) for name, text in headers.items()})
    return None


def _behind(error: BaseException) -> list[BaseException]:
    """The error, and what requests puts into it: urllib3's own error, with the reason why it gave up."""
    found = [error]
    for each in found:
        inner = [*each.args, getattr(each, "reason", None)]
        found += [one for one in inner if isinstance(one, BaseException) and one not in found][:8]
        if len(found) > 16:
            break
    return found

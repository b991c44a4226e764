"""The built-in rules: what counts before what, and that nothing an error does can stop them."""

from __future__ import annotations

import asyncio
import errno
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from mahavishnu.classify.builtin.rules import classify
from mahavishnu.classify.verdict import Verdict
from tests.support.real_exceptions import REQUEST, by_httpx, exception_class, with_cause

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def verdict_of(error: BaseException | str) -> Verdict:
    verdict = classify(error, NOW)
    assert verdict is not None, error
    return verdict


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (with_cause(RuntimeError("failed"), ConnectionResetError()), "network"),
        (PermissionError("Connection refused by policy"), "permission"),
        (asyncio.TimeoutError(), "network"),  # noqa: UP041
        (TimeoutError(), "network"),
        (OSError(errno.ENOSPC, "x"), "resource"),
        (OSError(errno.EACCES, "x"), "permission"),
        (ValueError("Connection timeout"), "validation"),
        (MemoryError(), "resource"),
        ("Connection timeout", "network"),
        *[(by_httpx(status), "transient") for status in (429, 503, 500, 502)],
        *[(by_httpx(status), "permission") for status in (401, 403)],
        *[(by_httpx(status), "validation") for status in (400, 422)],
        (by_httpx(507), "resource"),
        (by_httpx(504), "network"),
        (by_httpx(404), "permanent"),
    ],
)
def test_the_documented_examples_have_their_categories(error: BaseException | str, category: str) -> None:
    assert verdict_of(error).category == category


@pytest.mark.parametrize(
    "error", ["", "   ", "boom", Exception(), Exception("boom"), RuntimeError("no idea"), "…", "\0"]
)
def test_an_unknown_error_has_no_verdict(error: BaseException | str) -> None:
    assert classify(error) is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (by_httpx(429), "HTTP 429 from response.status_code"),
        (OSError(errno.ENOSPC, "x"), "ENOSPC"),
        (Exception("connection reset by peer"), "text: 'connection reset'"),
        (with_cause(RuntimeError("x"), ConnectionResetError()), "ConnectionResetError, behind RuntimeError"),
        (
            with_cause(RuntimeError("x"), context=ConnectionResetError()),
            "ConnectionResetError, being handled at RuntimeError",
        ),
        (exception_class("psycopg.errors.New", sqlstate="40P01")(), "SQLSTATE 40P01"),
        (exception_class("acme.ReadTimeout")(), "acme.ReadTimeout"),
        ("requests.exceptions.ReadTimeout: x", "requests.exceptions.ReadTimeout"),
        ("HTTP 503", "text: HTTP 503"),
        ("[Errno 28] No space left on device", "text: ENOSPC"),
    ],
)
def test_the_reason_names_what_decided(error: BaseException | str, reason: str) -> None:
    assert verdict_of(error).reason == reason


def test_the_outermost_error_that_says_anything_counts() -> None:
    assert verdict_of(with_cause(ValueError("x"), ConnectionResetError())).category == "validation"
    assert (
        verdict_of(with_cause(RuntimeError("x"), with_cause(ValueError("x"), ConnectionResetError()))).category
        == "validation"
    )


def test_a_cause_counts_before_words_and_words_before_a_context() -> None:
    assert verdict_of(with_cause(RuntimeError("rate limit exceeded"), PermissionError())).category == "permission"
    assert (
        verdict_of(with_cause(RuntimeError("rate limit exceeded"), context=PermissionError())).category == "transient"
    )


def test_a_context_that_was_suppressed_does_not_count() -> None:
    error = RuntimeError("x")
    error.__context__, error.__suppress_context__ = ConnectionResetError(), True
    assert classify(error) is None


def test_a_cyclic_chain_of_causes_ends() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first) is None
    first.args = (second, first)
    assert classify(first) is None


def test_huge_chains_and_groups_are_read_in_part() -> None:
    error: BaseException = ConnectionResetError()
    for _ in range(10_000):
        error = with_cause(RuntimeError("x"), error)
    assert classify(error) is None  # too far behind
    many = ExceptionGroup("many", [RuntimeError("x") for _ in range(100_000)])
    assert classify(many) is None
    assert verdict_of(ExceptionGroup("many", [TimeoutError(), *many.exceptions])).category == "network"


def test_the_message_of_a_bug_says_nothing_and_its_context_does() -> None:
    assert classify(AttributeError("'NoneType' object has no attribute 'timeout' error")) is None
    assert verdict_of(with_cause(AttributeError("x"), context=TimeoutError())).category == "network"


def test_a_type_counts_before_its_base_classes() -> None:
    assert verdict_of(exception_class("acme.QuotaExceeded", ValueError)()).category == "resource"
    assert verdict_of(exception_class("acme.Odd", ValueError)()).category == "validation"
    assert verdict_of(exception_class("acme.Odd", ValueError, status_code=503)()).category == "transient"


def test_a_403_may_be_a_rate_limit_or_a_quota() -> None:
    def http_error(text: str) -> BaseException:
        return httpx.HTTPStatusError(text, request=REQUEST, response=httpx.Response(403, request=REQUEST))

    assert verdict_of(http_error("API rate limit exceeded for user 7")).category == "transient"
    assert verdict_of(http_error("Quota exceeded for table x")).category == "resource"
    assert verdict_of(http_error("Forbidden")).category == "permission"
    assert verdict_of("googleapi: Error 403: Quota exceeded").category == "resource"


class Hostile(Exception):
    """Everything about it raises."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class NoText(Exception):
    """Its text is none."""

    def __str__(self) -> str:
        return 42  # type: ignore[return-value]


def test_an_error_whose_attributes_raise_is_classified() -> None:
    assert classify(Hostile()) is None
    assert classify(NoText()) is None
    assert verdict_of(with_cause(Hostile(), ConnectionResetError())).category == "network"
    assert (
        classify(exception_class("acme.Odd", code=lambda: 1 / 0, response={"Error": 3}, errno="x", status="teapot")())
        is None
    )


def test_of_a_huge_text_the_beginning_and_the_end_are_read() -> None:
    assert verdict_of("connection refused " + "x" * 10_000_000).category == "network"
    assert verdict_of("x" * 10_000_000 + " connection refused").category == "network"
    assert verdict_of(Exception("y " * 5_000_000 + "no space left on device")).category == "resource"


def http_error(status: int, **headers: str) -> BaseException:
    response = httpx.Response(
        status, request=REQUEST, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )
    return httpx.HTTPStatusError("x", request=REQUEST, response=response)


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ("120", timedelta(minutes=2)),
        ("0", timedelta(0)),
        ("1.5", timedelta(seconds=1.5)),
        (format_datetime(NOW + timedelta(hours=1), usegmt=True), timedelta(hours=1)),
        (format_datetime(NOW - timedelta(hours=1), usegmt=True), timedelta(0)),
        ("99999999999999999999", timedelta(days=7)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", timedelta(days=7)),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
    ],
)
def test_the_delay_is_read_from_a_retry_after_header(value: str, delay: timedelta | None) -> None:
    assert verdict_of(http_error(429, retry_after=value)).retry_in == delay


def test_a_retry_after_date_is_ignored_if_the_time_is_unknown() -> None:
    late = format_datetime(NOW + timedelta(hours=1), usegmt=True)
    verdict = classify(http_error(503, retry_after=late))
    assert verdict is not None and verdict.retry_in is None


def test_a_category_that_is_not_retried_has_no_delay() -> None:
    assert verdict_of(http_error(400, retry_after="120")).retry_in is None


@pytest.mark.parametrize("value", [30, 30.0, "30", timedelta(seconds=30)])
def test_the_delay_is_read_from_a_retry_after_attribute(value: object) -> None:
    assert verdict_of(exception_class("acme.RateLimited", retry_after=value)()).retry_in == timedelta(seconds=30)


@pytest.mark.parametrize("value", [True, -1, "soon", float("nan"), 10**400, object(), [], timedelta(seconds=-1)])
def test_a_delay_that_makes_no_sense_is_ignored_or_bounded(value: object) -> None:
    assert verdict_of(exception_class("acme.RateLimited", retry_after=value)()).retry_in in (None, timedelta(days=7))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Rate limit reached. Please try again in 20s.", 20),
        ("Too many requests, retry after 5 minutes", 300),
        ("429 Too Many Requests; Retry-After: 7", 7),
        ("rate limited, try again in 250ms", 0.25),
        ("Too many requests, try again later", None),
    ],
)
def test_the_delay_is_read_from_a_text(text: str, seconds: float | None) -> None:
    assert verdict_of(text).retry_in == (None if seconds is None else timedelta(seconds=seconds))
    assert verdict_of(RuntimeError(text)).retry_in == (None if seconds is None else timedelta(seconds=seconds))


TRACEBACK = """Traceback (most recent call last):
  File "/srv/app/timeout_error.py", line 3, in raise_permission_denied
    raise ConnectionResetError("peer")
ConnectionResetError: peer

{between}

Traceback (most recent call last):
  File "/srv/app/main.py", line 9, in main
    sweep(timeout_error)
{last}
"""
CAUSE = "The above exception was the direct cause of the following exception:"
CONTEXT = "During handling of the above exception, another exception occurred:"


@pytest.mark.parametrize(
    ("between", "last", "category"),
    [
        (CAUSE, "RuntimeError: sweep failed", "network"),
        (CONTEXT, "RuntimeError: sweep failed", "network"),
        (CAUSE, "ValueError: bad", "validation"),
        (CONTEXT, "RuntimeError: rate limit exceeded", "transient"),
        (CAUSE, "acme.errors.QuotaExceeded", "resource"),
        (CAUSE, "acme.errors.Odd: disk full", "network"),
        (CONTEXT, "acme.errors.Odd: disk full", "resource"),
    ],
)
def test_a_printed_traceback_is_read_like_its_exceptions(between: str, last: str, category: str) -> None:
    assert verdict_of(TRACEBACK.format(between=between, last=last)).category == category


def test_the_source_lines_of_a_traceback_say_nothing() -> None:
    frame = 'File "x.py", line 1, in timeout_error\n    raise timeout("connection refused")'
    text = f"Traceback (most recent call last):\n  {frame}\nOdd: x"
    assert classify(text) is None

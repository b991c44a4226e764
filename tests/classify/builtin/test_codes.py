"""Codes in error texts, and the names of errors."""

from __future__ import annotations

import pytest

from mahavishnu.classify.builtin.codes import match_name, statuses_in
from mahavishnu.classify.builtin.rules import match_text


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ("HTTP 503", (503,)),
        ("HTTP/1.1 404 Not Found", (404,)),
        ("status code: 429", (429,)),
        ("failed with 502", (502,)),
        ("got 500 from upstream", (500,)),
        ("rows (503)", ()),
        ("[503]", (503,)),
        ("503: come back", (503,)),
        ("401 Unauthorized", (401,)),
        ("404 items processed", ()),
        ("took 503 ms", ()),
        ("status: 200", ()),
        ("HTTP 503 and then HTTP 504", (503, 504)),
        ("no HTTP 500 was seen", ()),
        ("id=429", ()),
        ("500.5 points", ()),
    ],
)
def test_http_statuses_are_found_in_a_text(text: str, statuses: tuple[int, ...]) -> None:
    assert statuses_in(text) == statuses


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("[Errno 104] x", "network"),
        ("[WinError 10054] x", "network"),
        ("[WinError 5] x", "permission"),
        ("SQLSTATE[40001]: x", "transient"),
        ("SQLSTATE 23505", "validation"),
        ("StatusCode.DEADLINE_EXCEEDED", "network"),
        ("rpc error: code = Unauthenticated desc = x", "permission"),
        ("550 5.7.1 x", "permission"),
        ("452 4.2.2 x", "resource"),
        ("451 4.7.1 x", "transient"),
        ("450 4.4.1 x", "network"),
        ("553 5.1.3 x", "validation"),
        ("409 Conflict: it exists already", "validation"),
        ("409 Conflict", "transient"),
    ],
)
def test_a_code_in_a_text_has_a_category(text: str, category: str) -> None:
    finding = match_text(text)
    assert finding is not None and finding.category == category


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("ReadTimeout", "network"),
        ("RateLimitError", "transient"),
        ("InvalidApiKey", "permission"),
        ("InvalidParameterValue", "validation"),
        ("ThrottlingException", "transient"),
        ("insufficient_quota", "resource"),
        ("NoSuchKey", "permanent"),
        ("LockTimeout", "transient"),
        ("APIError", None),
        ("OperationalError", None),
        ("", None),
        ("Error", None),
    ],
)
def test_the_name_of_an_error_has_a_category(name: str, category: str | None) -> None:
    assert match_name(name) == category

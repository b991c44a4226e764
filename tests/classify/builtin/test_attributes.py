"""What errors carry, in all the shapes that libraries have for it."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.classify.builtin.attributes import headers_of, status_of
from mahavishnu.classify.builtin.rules import classify
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.fingerprint import fingerprint, normalize
from tests.support.real_exceptions import exception_class, with_cause


def carrying(name: str = "acme.Odd", *args: Any, **attributes: Any) -> BaseException:
    return exception_class(name, **attributes)(*args)


@pytest.mark.parametrize(
    ("attributes", "path"),
    [
        ({"status_code": 503}, "status_code"),
        ({"status": 503}, "status"),
        ({"status": "503 Service Unavailable"}, "status"),
        ({"http_status": 503}, "http_status"),
        ({"http_code": 503}, "http_code"),
        ({"code": 503}, "code"),
        ({"response": SimpleNamespace(status_code=503)}, "response.status_code"),
        ({"response": SimpleNamespace(status=503)}, "response.status"),
        ({"resp": SimpleNamespace(status=503)}, "resp.status"),
        ({"response": {"ResponseMetadata": {"HTTPStatusCode": 503}}}, "response['ResponseMetadata']"),
    ],
)
def test_a_status_is_found_under_every_usual_name(attributes: dict[str, Any], path: str) -> None:
    assert status_of(carrying(**attributes)) == (503, path)


@pytest.mark.parametrize(
    "attributes",
    [
        {"status_code": 200},
        {"status_code": True},
        {"status_code": "N/A"},
        {"status": "50301"},
        {"code": 1006},
        {"response": {}},
    ],
)
def test_a_value_that_is_no_failing_status_is_ignored(attributes: dict[str, Any]) -> None:
    assert status_of(carrying(**attributes)) is None


@pytest.mark.parametrize("error", [SystemExit(500), carrying("pymongo.errors.OperationFailure", code=403)])
def test_a_code_that_is_no_http_status_is_ignored(error: BaseException) -> None:
    assert status_of(error) is None


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (carrying(sqlstate="40001"), "transient"),
        (carrying(sqlstate="28P01"), "permission"),
        (carrying(pgcode="53300"), "resource"),
        (carrying(pgcode="ZZZZZ"), None),
        (carrying("pyodbc.Error", "08S01", "x"), "network"),
        (carrying("pyodbc.Error", "x"), None),
        (carrying("mysql.connector.errors.Odd", 1205, "x"), "transient"),
        (carrying("mysql.connector.errors.Odd", 99999, "x"), None),
        (carrying(smtp_code=452), "resource"),
        (carrying(connection_invalidated=True), "network"),
        (carrying(errno=28), "resource"),
        (carrying(errno=99999), None),
        (carrying(code="rate_limit_exceeded"), "transient"),
        (carrying(error_code="AuthorizationFailed"), "permission"),
        (carrying(code="42"), None),
        (carrying(code=SimpleNamespace(name="UNAVAILABLE")), "transient"),
        (carrying(code=lambda self: SimpleNamespace(name="NOT_FOUND")), "permanent"),
        (carrying(code=lambda self: "sometimes"), None),
        (carrying(code=lambda: 1 / 0), None),
        (carrying("pymongo.errors.Odd", code=50), "network"),
        (carrying("pymongo.errors.Odd", code=424242), None),
        (carrying("pymongo.errors.Odd", code=65, details={"writeErrors": [{"code": 11000}]}), "validation"),
        (carrying("pymongo.errors.Odd", code=65, details={"writeErrors": [{"code": "?"}]}), None),
        (carrying("pymongo.errors.Odd", code=65, details={"writeErrors": []}), None),
        (carrying("pika.exceptions.Odd", reply_code=530), "permission"),
        (carrying("pika.exceptions.Odd", reply_code=320), None),
        (carrying("acme.Odd", errcode=503), "transient"),
        (carrying(response={"Error": {"Code": "503"}}), "transient"),
        (carrying(response={"Error": {"Code": "Odd"}}), None),
        (carrying(response={"Error": "x"}), None),
        (carrying(error="index_not_found_exception"), "permanent"),
        (carrying(error="cluster_block_exception", info={"error": {"reason": "state not recovered"}}), "transient"),
        (carrying(error="cluster_block_exception", info={"error": {"reason": "index read-only (api)"}}), "permission"),
        (carrying(error="odd_exception"), None),
        (carrying(status_code=409), "transient"),
        (carrying("acme.Odd", "it exists already", status_code=409), "validation"),
        (carrying(status_code=599), "network"),
        (carrying(status_code=589), "transient"),
        (carrying(status_code=499), "network"),
        (carrying(status_code=498), "validation"),
        (carrying(retriable=True), "transient"),
        (carrying(should_retry=False), None),
        (carrying("ssl.Odd", errno=1), None),
        (sqlite3.OperationalError("x"), "transient"),
    ],
)
def test_an_attribute_has_a_category(error: BaseException, category: str | None) -> None:
    verdict = classify(error)
    assert (verdict.category if verdict else None) == category


@pytest.mark.parametrize(
    "attributes",
    [
        {"headers": {"Retry-After": "7"}},
        {"response": SimpleNamespace(headers={"retry-after": "7"})},
        {"response": {"ResponseMetadata": {"HTTPHeaders": {"retry-after": "7"}}}},
        {"headers": {"retry-after-ms": "7000"}},
    ],
)
def test_headers_are_found_under_every_usual_name(attributes: dict[str, Any]) -> None:
    verdict = classify(carrying(status_code=429, **attributes))
    assert verdict is not None and verdict.retry_in is not None and verdict.retry_in.total_seconds() == 7


@pytest.mark.parametrize("headers", [None, 3, "Retry-After: 7", SimpleNamespace(get=lambda name: 1 / 0)])
def test_headers_that_are_none_are_ignored(headers: object) -> None:
    verdict = classify(carrying(status_code=429, headers=headers, response={"ResponseMetadata": 3}))
    assert verdict is not None and verdict.retry_in is None
    assert headers_of(carrying(headers=None)) is None


def test_a_wrapped_error_is_classified_by_the_one_inside() -> None:
    for name in ("orig", "reason", "original_error", "os_error", "inner"):
        attributes: dict[str, Any] = {name: ConnectionResetError()}
        verdict = classify(carrying(**attributes))
        assert verdict is not None and verdict.category == "network"
    given_up = carrying(last_attempt=SimpleNamespace(exception=lambda: TimeoutError()))
    assert Chain().classify(given_up).category == "network"
    pending = carrying(last_attempt=SimpleNamespace(done=lambda: False, exception=lambda: 1 / 0))
    broken = carrying(last_attempt=SimpleNamespace(exception=lambda: 1 / 0))
    assert classify(pending) is classify(broken) is None


FRAGMENTS = (
    "connection refused no not timeout: 0 limit exceeded 503 HTTP [Errno 28] 'x' \" | - ; \n ValueError: Traceback "
    '(most recent call last): File "x", line 1, in f During handling of the above exception 4.7.1 550'
)
WORDS = st.sampled_from(FRAGMENTS.split(" "))


@given(st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=40).map(" ".join)))
def test_any_text_can_be_classified_and_always_with_the_same_result(text: str) -> None:
    first, again = classify(text), classify(text)
    assert first == again
    assert fingerprint(text) == fingerprint(text) and normalize(text) == normalize(text)
    assert Chain().classify(with_cause(RuntimeError(text), ValueError(text))).category

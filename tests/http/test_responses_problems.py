"""Errors as problem documents: paths, methods, bodies, values, and a store that fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mahavishnu.model.errors import ReadTimeout, StoreUnavailable
from tests.support.api import ApiHarness

NEW = {"task_id": "wf", "error": "connection reset"}


async def test_an_unavailable_store_is_503_and_500_for_a_requeue(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("no route to 10.1.2.3:9200 with user admin")

    for name in ("get", "find", "write", "tally"):
        monkeypatch.setattr(type(api.dlq.context.letters), name, away)
    for answer in (
        await api.get("/dlq"),
        await api.get("/dlq/wf"),
        await api.get("/dlq/stats"),
        await api.post("/dlq", NEW),
        await api.post("/dlq", NEW, headers={"Idempotency-Key": "k"}),
    ):
        assert (answer.status_code, answer.headers.get("retry-after")) == (503, "5")
        assert "10.1.2.3" not in answer.text
    requeued = await api.post("/dlq/wf/requeue")
    assert (requeued.status_code, "10.1.2.3" in requeued.text) == (500, False)


async def test_a_read_that_takes_too_long_says_what_to_do(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*_: object, **__: object) -> None:
        raise ReadTimeout("letters", 30.0)

    monkeypatch.setattr(type(api.dlq.context.letters), "find", slow)
    answer = await api.get("/dlq")
    assert (answer.status_code, answer.headers.get("retry-after")) == (503, None)
    assert answer.json()["type"].endswith(":read-timeout")
    assert answer.json()["detail"].startswith("reading letters took longer than 30 s and was broken off")


async def test_unknown_paths_and_methods(api: ApiHarness) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/api/v1/dlq", 405),
        ("GET", "/api/v1/dlq/%ff", 400),
        ("GET", "/api/v1/runs/x", 404),
        ("GET", "/api/v1/runs/x/items", 404),
        ("POST", "/api/v1/runs/x/pause", 404),
    ):
        answer = await api.client.request(method, path)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), path


@pytest.mark.parametrize("path", ["/dlq", "/dlq/import", "/dlq/wf/redrive", "/runs/preview"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", None])
async def test_a_body_that_is_not_marked_as_json_is_refused(api: ApiHarness, path: str, kind: str | None) -> None:
    content = json.dumps({"task_id": "wf", "error": "reset"}).encode()
    headers = {"Content-Type": kind} if kind else {}
    answer = await api.client.post(f"/api/v1{path}", content=content, headers=headers)
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["detail"]
    assert "valid" not in answer.json()["detail"]
    said = await api.client.post("/api/v1/dlq/import", content=content, headers={"Content-Type": "application/json"})
    assert (said.status_code, "Content-Type" in said.text) == (422, False)


async def test_an_unknown_path_is_answered_with_where_the_paths_are(api: ApiHarness) -> None:
    for path in ("/api/v1/dlq/order/119", "/dlq", "/api/v2/dlq"):
        answer = await api.client.get(path)
        detail = answer.json()["detail"]
        assert answer.status_code == 404
        for part in (f"no {path}:", "%2F", "/api/v1/openapi.json"):
            assert part in detail


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/dlq?category=netwrok", ["'transient', 'network', 'resource'", "did you mean 'network'?"]),
        ("/dlq?status=Pending", ["'pending', 'retrying'", "did you mean 'pending'?"]),
        ("/runs?state=runing", ["'running', 'paused'", "did you mean 'running'?"]),
        ("/groups?sort=name", ["'count', 'last_seen' or 'growth'"]),
        ("/audit?since=1h", ["2026-01-31T12:00:00Z"]),
        ("/dlq?created_from=yesterday", ["2026-01-31T12:00:00Z"]),
    ],
)
async def test_an_unknown_value_is_answered_with_the_known_ones(api: ApiHarness, path: str, parts: list[str]) -> None:
    answer = await api.get(path)
    detail = answer.json()["detail"]
    assert answer.status_code == 422
    assert all(part in detail for part in parts), detail
    assert answer.json()["problems"][0]["problem"] in detail
    assert ("did you mean" in detail) is ("did you mean" in str(parts))


@pytest.mark.parametrize("path", ["/dlq", "/dlq/export", "/runs", "/runs/x/items", "/groups", "/audit"])
async def test_an_unknown_parameter_of_a_list_is_refused(api: ApiHarness, path: str) -> None:
    answer = await api.get(path, params={"stauts": "pending"})
    assert (answer.status_code, answer.json()["problems"][0]["where"]) == (422, "query.stauts")


async def test_a_very_long_value_is_not_compared_with_the_known_ones(api: ApiHarness) -> None:
    verb: Any = "archive" * 2000
    answer = await api.post("/runs/preview", {"verb": verb})
    assert (answer.status_code, "did you mean" in answer.text) == (422, False)


async def test_a_body_that_is_no_json_or_not_utf_8_is_refused(api: ApiHarness) -> None:
    await api.keep("wf")
    for body in (
        b"{",
        b'{"priority_boost": 1',
        b"\xff\xfe{}",
        b"[1]",
        b'"x"',
        b'{"priority_boost": "ten"}',
        b"[" * 9000,
    ):
        answer = await api.client.post(
            "/api/v1/dlq/wf/requeue", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code in (400, 422), body[:20]
        assert answer.json()["detail"], body[:20]
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.requeue is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"task_id": "\xff"}', "not UTF-8"),
        (b'{"task": ' + b"[" * 9_000 + b"]" * 9_000 + b"}", "nested too deeply"),
        (b'{"task": ' + b"9" * 5_000 + b"}", "digits"),
    ],
    ids=["encoding", "depth", "number"],
)
async def test_a_body_that_cannot_be_read_is_refused_with_the_reason(api: ApiHarness, body: bytes, why: str) -> None:
    answer = await api.client.post("/api/v1/dlq", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (400, "bad-request")
    assert why in answer.json()["detail"]


async def test_a_wrong_method_is_answered_with_the_allowed_ones(api: ApiHarness) -> None:
    for method, path, allowed in (
        ("PUT", "/dlq/wf", "GET, PATCH, DELETE"),
        ("PUT", "/dlq", "GET, POST"),
        ("GET", "/claims", "POST"),
        ("HEAD", "/events", "GET"),
    ):
        answer = await api.client.request(method, f"/api/v1{path}")
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert method == "HEAD" or answer.json()["detail"] == f"this path knows {allowed}, and not {method}"

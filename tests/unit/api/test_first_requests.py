"""What people send who have read little: it is taken where it is clear, else they are told what to send."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from mahavishnu import __version__
from mahavishnu.api import create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from tests.unit.api.conftest import URL, Desk, bearer

ONE = {
    "status": "pending",
    "resolution_status": "pending",
    "category": "network",
    "policy": "exponential",
    "reason": "workflow_failed",
    "namespace": "default",
    "queue": "mail",
    "task_id": "wf",
    "repo": "shop",
    "metadata": "team=web",
}


async def test_a_filter_takes_one_value_as_it_is_or_a_list(desk: Desk) -> None:
    asked = {"error": "connection reset", "queue": "mail", "repos": ["shop"], "metadata": {"team": "web"}}
    kept = (await desk.post("/dlq", {"task_id": "wf", "retry_policy": "exponential", **asked})).json()
    await desk.post("/dlq", {"task_id": "other", "error": "KeyError: 'x'"})
    for name, value in {**ONE, "fingerprint": kept["fingerprint"]}.items():
        told = [
            await desk.post("/runs/preview", {"verb": "archive", "filter": {name: each}}) for each in (value, [value])
        ]
        assert [each.status_code for each in told] == [200, 200], told[0].text
        assert told[0].json() == told[1].json()
        assert "wf" in [letter["task_id"] for letter in told[0].json()["samples"]]
    both = await desk.post("/runs/preview", {"verb": "archive", "filter": {"task_id": ["wf", "other"]}})
    assert both.json()["matched"] == 2
    wrong = await desk.post("/runs/preview", {"verb": "archive", "filter": {"queue": {"is": "mail"}}})
    assert (wrong.status_code, wrong.json()["problems"][0]["where"]) == (422, "body.filter.queue.0")


def test_the_document_says_that_one_value_will_do() -> None:
    document = create_app(DeadLetterQueue()).openapi()
    one = {"type": "string", "minLength": 1, "maxLength": 500}
    in_query = {each["name"]: each["schema"] for each in document["paths"]["/api/v1/dlq"]["get"]["parameters"]}
    for schema in (document["components"]["schemas"]["Filter"]["properties"]["queue"], in_query["queue"]):
        assert schema["anyOf"] == [{"type": "array", "items": one, "maxItems": 10_000}, one, {"type": "null"}]


async def test_what_begins_a_run_can_be_previewed_as_it_is(desk: Desk) -> None:
    await desk.keep("wf")
    body = {"verb": "edit", "filter": {"task_id": "wf"}, "patch": {"a": 1}, "redrive": True, "ramp": [1]}
    body |= {"max_per_second": 5, "stop_percent": 20, "reason": "the shop forgot it", "by": "ann"}
    told = await desk.post("/runs/preview", body)
    assert (told.status_code, told.json()["eligible"]) == (200, 1)
    assert (await desk.post("/runs", body)).status_code == 202
    assert (await desk.post("/runs/preview", {**body, "notes": "x"})).status_code == 422


@pytest.mark.parametrize("path", ["/dlq", "/dlq/import", "/dlq/wf/redrive", "/runs/preview"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", None])
async def test_a_body_that_does_not_say_it_is_json_is_told_how(desk: Desk, path: str, kind: str | None) -> None:
    content = json.dumps({"task_id": "wf", "error": "reset"}).encode()
    headers = {"Content-Type": kind} if kind else {}
    answer = await desk.client.post(f"/api/v1{path}", content=content, headers=headers)
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["detail"]
    assert "valid" not in answer.json()["detail"]
    said = await desk.client.post("/api/v1/dlq/import", content=content, headers={"Content-Type": "application/json"})
    assert (said.status_code, "Content-Type" in said.text) == (422, False)


async def test_a_path_that_there_is_not_tells_where_the_paths_are(desk: Desk) -> None:
    for path in ("/api/v1/dlq/order/119", "/dlq", "/api/v2/dlq"):
        answer = await desk.client.get(path)
        detail = answer.json()["detail"]
        assert answer.status_code == 404
        for part in (f"no {path}:", "%2F", "/api/v1/openapi.json"):
            assert part in detail


async def test_the_address_alone_tells_where_to_go_on(desk: Desk) -> None:
    for path in ("/", "/api/v1"):
        told = (await desk.client.get(path)).json()
        assert (told["name"], told["version"], told["api"]) == ("mahavishnu", __version__, "/api/v1")
        for link in (told["api"], told["openapi"], told["health"]):
            assert (await desk.client.get(link)).status_code == 200


async def test_strangers_are_not_told_the_version(guarded: Desk) -> None:
    for path in ("/", "/api/v1"):
        assert (await guarded.client.get(path)).status_code == 401
        assert (await guarded.client.get(path, headers=bearer("viewer"))).status_code == 200


async def test_where_it_is_mounted_paths_are_told_as_they_are_asked_for() -> None:
    outer = FastAPI()
    outer.mount("/letters", create_app(DeadLetterQueue()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=URL) as client:
        told = (await client.get("/letters/api/v1")).json()
        for link in (told["api"], told["openapi"], told["health"]):
            assert (await client.get(link)).status_code == 200
        assert "/letters/api/v1/openapi.json" in (await client.get("/letters/nothing")).json()["detail"]


async def test_answers_end_with_their_line(desk: Desk) -> None:
    await desk.keep("wf")
    for path in ("/dlq", "/dlq/wf", "/dlq/stats", "/groups", "/runs/nothing", "/dlq?limit=x", "/dlq/export"):
        content = (await desk.get(path)).content
        assert content.endswith(b"\n") and not content.endswith(b"\n\n"), path
    key = {"Idempotency-Key": "k"}
    first, again = [await desk.post("/dlq/wf/redrive", headers=key) for _ in range(2)]
    assert first.content == again.content and first.content.endswith(b"}\n")


async def test_a_state_that_is_asked_for_is_shown_also_if_it_is_quiet(desk: Desk) -> None:
    group = (await desk.post("/dlq", {"task_id": "wf", "error": "connection reset"})).json()["fingerprint"]
    await desk.post("/dlq/wf/resolve")
    await desk.patch(f"/groups/{group}", {"state": "resolved"})
    for asked, shown in (
        ({}, []),
        ({"state": "resolved"}, [group]),
        ({"state": "resolved", "quiet": "false"}, [group]),
        ({"state": "new"}, []),
        ({"quiet": "true"}, [group]),
    ):
        found = (await desk.get("/groups", params=asked)).json()
        assert [each["fingerprint"] for each in found] == shown, asked


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
async def test_a_value_that_there_is_not_is_answered_with_those_that_there_are(
    desk: Desk, path: str, parts: list[str]
) -> None:
    answer = await desk.get(path)
    detail = answer.json()["detail"]
    assert answer.status_code == 422
    assert all(part in detail for part in parts), detail
    assert answer.json()["problems"][0]["problem"] in detail
    assert ("did you mean" in detail) is ("did you mean" in str(parts))


@pytest.mark.parametrize("path", ["/dlq", "/dlq/export", "/runs", "/runs/x/items", "/groups", "/audit"])
async def test_a_parameter_that_a_list_does_not_have_is_not_passed_over(desk: Desk, path: str) -> None:
    answer = await desk.get(path, params={"stauts": "pending"})
    assert (answer.status_code, answer.json()["problems"][0]["where"]) == (422, "query.stauts")


async def test_a_value_without_end_is_not_compared_with_others(desk: Desk) -> None:
    verb: Any = "archive" * 2000
    answer = await desk.post("/runs/preview", {"verb": verb})
    assert (answer.status_code, "did you mean" in answer.text) == (422, False)


async def test_a_denial_says_once_what_was_wanted_and_which_role_it_needs(guarded: Desk) -> None:
    answer = await guarded.post("/dlq/wf/resolve", headers=bearer("viewer"))
    assert answer.json()["detail"] == "changing letters needs the role operator, and vic has the role viewer"
    (entry,) = (await guarded.dlq.audit.list(action="denied")).items
    assert entry.why == "changing letters: needs the role operator, and vic has the role viewer"
    await guarded.post("/runs", {"verb": "archive", "everything": True}, headers=bearer("viewer"))
    answer = await guarded.post("/dlq/clear", {"confirm": "delete every open letter"}, headers=bearer("operator"))
    assert answer.json()["detail"] == "deleting letters needs the role admin, and olga has the role operator"

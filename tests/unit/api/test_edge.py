"""What every request passes: who asks, how much is sent, whether it was sent before, what is said of errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

import pytest

from mahavishnu.api import Access, create_app, middleware
from mahavishnu.api.auth import Role
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import InvalidInput, StoreUnavailable
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import FaultyStore
from tests.unit.api.conftest import TOKENS, Desk, bearer

NEW = {"task_id": "wf", "error": "connection reset"}
VIEW, ACT, OWN = Role.VIEWER, Role.OPERATOR, Role.ADMIN
# The least role for each route; a route that is missing here fails the test.
ROUTES = {
    ("GET", "/"): VIEW,
    ("GET", "/api/v1"): VIEW,
    ("GET", "/api/v1/dlq"): VIEW,
    ("POST", "/api/v1/dlq"): ACT,
    ("GET", "/api/v1/dlq/stats"): VIEW,
    ("GET", "/api/v1/dlq/statistics"): VIEW,
    ("GET", "/api/v1/dlq/export"): VIEW,
    ("POST", "/api/v1/dlq/clear"): OWN,
    ("POST", "/api/v1/dlq/import"): ACT,
    ("GET", "/api/v1/dlq/{task_id}"): VIEW,
    ("GET", "/api/v1/dlq/{task_id}/letter"): VIEW,
    ("PATCH", "/api/v1/dlq/{task_id}"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/preview"): VIEW,
    ("GET", "/api/v1/dlq/{task_id}/revisions"): VIEW,
    ("POST", "/api/v1/dlq/{task_id}/requeue"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/retry"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/redrive"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/resolve"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/fail"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/cancel"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/archive"): ACT,
    ("POST", "/api/v1/runs/preview"): VIEW,
    ("POST", "/api/v1/runs"): ACT,
    ("GET", "/api/v1/runs"): VIEW,
    ("GET", "/api/v1/runs/{run_id}"): VIEW,
    ("GET", "/api/v1/runs/{run_id}/items"): VIEW,
    ("POST", "/api/v1/runs/{run_id}/pause"): ACT,
    ("POST", "/api/v1/runs/{run_id}/resume"): ACT,
    ("POST", "/api/v1/runs/{run_id}/cancel"): ACT,
    ("GET", "/api/v1/groups"): VIEW,
    ("GET", "/api/v1/groups/{fingerprint}"): VIEW,
    ("PATCH", "/api/v1/groups/{fingerprint}"): ACT,
    ("POST", "/api/v1/groups/releases/{release}"): ACT,
    ("POST", "/api/v1/claims"): ACT,
    ("POST", "/api/v1/claims/renew"): ACT,
    ("POST", "/api/v1/claims/settle"): ACT,
    ("GET", "/api/v1/audit"): VIEW,
    ("GET", "/metrics"): VIEW,
}
BODIES = {
    "/api/v1/dlq": NEW,
    "/api/v1/dlq/clear": {"confirm": "delete every open letter"},
    "/api/v1/dlq/import": [],
    "/api/v1/dlq/{task_id}": {"priority": 1},
    "/api/v1/dlq/{task_id}/preview": {"priority": 1},
    "/api/v1/runs/preview": {"verb": "archive", "filter": {"queue": ["none"]}},
    "/api/v1/runs": {"verb": "archive", "filter": {"queue": ["none"]}},
    "/api/v1/groups/{fingerprint}": {"note": "seen"},
    "/api/v1/claims": {"worker": "w"},
    "/api/v1/claims/renew": {"task_id": "x", "token": "t"},
    "/api/v1/claims/settle": {"task_id": "x", "token": "t", "outcome": "succeeded"},
}
UNGUARDED = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/api/v1/events")}  # the last one never ends: see below


def routes() -> Iterator[tuple[str, str]]:
    for path, operations in create_app(DeadLetterQueue()).openapi()["paths"].items():
        yield from ((method.upper(), path) for method in operations)


def test_every_route_has_its_role() -> None:
    assert set(routes()) == ROUTES.keys() | UNGUARDED


@pytest.mark.parametrize("role", [VIEW, ACT, OWN], ids=lambda role: role.name)
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=" ".join)
async def test_a_role_may_what_it_may_and_denials_are_noted(guarded: Desk, method: str, path: str, role: Role) -> None:
    name = role.name.lower()
    real = path.format(task_id="x", run_id="x", fingerprint="x", release="x") if "{" in path else path
    answer = await guarded.client.request(method, real, json=BODIES.get(path), headers=bearer(name))
    denials = (await guarded.dlq.audit.list(action="denied")).items
    if role >= ROUTES[method, path]:
        assert answer.status_code not in (401, 403), answer.text
        assert answer.status_code < 500
        assert not denials
    else:
        assert answer.status_code == 403
        assert name in answer.json()["detail"]
        assert [(each.actor, each.role, each.subject) for each in denials] == [
            ({VIEW: "vic", ACT: "olga", OWN: "ada"}[role], name, real)
        ]
        assert (await guarded.client.request(method, real, json=BODIES.get(path))).status_code == 401


async def test_live_events_need_a_token_too(guarded: Desk) -> None:
    assert (await guarded.get("/events")).status_code == 401


async def test_who_may_not_look_is_told_nothing_but_health_is_for_all(guarded: Desk) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKENS['admin']}"}):
        answer = await guarded.get("/dlq", headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert (await guarded.client.get("/healthz")).status_code == 200
    assert (await guarded.client.get("/readyz")).status_code == 200


async def test_acts_go_under_the_name_of_the_token(guarded: Desk) -> None:
    await guarded.keep("wf")
    resolved = await guarded.post("/dlq/wf/resolve", {"by": "bob"}, headers=bearer("operator"))
    assert resolved.json()["resolved_by"] == "bob (token of olga)"
    (entry,) = (await guarded.dlq.audit.list(action="resolve")).items
    assert (entry.actor, entry.role, entry.via) == ("bob (token of olga)", "operator", "http")


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "10.0.0.1:8080"}],
)
async def test_without_tokens_no_other_site_gets_in_through_a_browser(desk: Desk, headers: dict[str, str]) -> None:
    await desk.keep("wf")
    answer = await desk.post("/dlq/wf/resolve", headers=headers)
    assert answer.status_code == 403
    letter = await desk.dlq.get_task("wf")
    assert letter is not None and letter.is_open
    assert (await desk.get("/dlq", headers={"Origin": "http://localhost"})).status_code == 200


def test_off_loopback_without_tokens_does_not_start() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.com"):
        with pytest.raises(InvalidInput, match="loopback"):
            Access().check_address(host)
        Access.of({"vic": "t"}, {}, {}).check_address(host)
    for host in ("127.0.0.1", "::1", "localhost"):
        Access().check_address(host)


def test_tokens_are_one_persons() -> None:
    with pytest.raises(InvalidInput, match="ada"):
        Access.of({"vic": "same"}, {}, {"ada": "same"})
    with pytest.raises(InvalidInput, match="api_user"):
        Access.of({}, {"api_user": "acts as whoever it says"}, {})
    with pytest.raises(InvalidInput, match="empty"):
        Access.of({"vic": ""}, {}, {})


async def test_large_bodies_are_refused_with_and_without_their_length(desk: Desk) -> None:
    large = b'{"error": "' + b"x" * 30_000 + b'"}'

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 1000):
            yield large[start : start + 1000]

    for content in (large, parts()):
        answer = await desk.client.post("/api/v1/dlq", content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, "20000" in answer.json()["detail"]) == (413, True)


async def test_a_body_without_an_end_is_not_waited_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.01)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    answer = await desk.client.post("/api/v1/dlq", content=endless(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (408, "urn:mahavishnu:problem:request-timeout")
    assert "nothing was done" in answer.json()["detail"]


async def test_an_idempotency_key_gives_the_first_answer_and_one_effect(desk: Desk) -> None:
    key = {"Idempotency-Key": "abc"}
    first = await desk.post("/dlq", NEW, headers=key)
    again = await desk.post("/dlq", NEW, headers=key)
    assert (again.status_code, again.content) == (first.status_code, first.content) and first.status_code == 201
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["etag"] == first.headers["etag"]
    letter = await desk.dlq.get_task("wf")
    assert letter is not None and letter.occurrences == 1
    other = await desk.post("/dlq", {**NEW, "error": "another"}, headers=key)
    assert (other.status_code, other.json()["type"].rpartition(":")[2]) == (422, "idempotency-key-reused")
    assert (await desk.post("/dlq", NEW, headers={"Idempotency-Key": "k" * 201})).status_code == 400
    desk.clock.advance(hours=48)
    await desk.post("/dlq", NEW, headers=key)
    letter = await desk.dlq.get_task("wf")
    assert letter is not None and letter.occurrences == 2


async def test_refusals_are_repeated_too(desk: Desk) -> None:
    first = await desk.post("/dlq/wf/requeue", headers={"Idempotency-Key": "k"})
    await desk.keep("wf")
    again = await desk.post("/dlq/wf/requeue", headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code, again.content) == (400, 400, first.content)


async def test_of_twenty_at_once_with_one_key_one_has_an_effect(desk: Desk) -> None:
    answers = await asyncio.gather(*(desk.post("/dlq", NEW, headers={"Idempotency-Key": "k"}) for _ in range(20)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert 201 in {answer.status_code for answer in answers}
    letter = await desk.dlq.get_task("wf")
    assert letter is not None and letter.occurrences == 1


async def test_people_do_not_get_each_others_answers(guarded: Desk) -> None:
    key = {"Idempotency-Key": "k"}
    await guarded.post("/dlq", NEW, headers=bearer("operator") | key)
    other = await guarded.post("/dlq", {**NEW, "task_id": "b"}, headers=bearer("admin") | key)
    assert other.status_code == 201


async def test_a_store_that_is_away_is_503_without_its_inside_and_500_for_a_requeue(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("no route to 10.1.2.3:9200 with user admin")

    for name in ("get", "find", "write", "tally"):
        monkeypatch.setattr(type(desk.dlq.context.letters), name, away)
    for answer in (
        await desk.get("/dlq"),
        await desk.get("/dlq/wf"),
        await desk.get("/dlq/stats"),
        await desk.post("/dlq", NEW),
        await desk.post("/dlq", NEW, headers={"Idempotency-Key": "k"}),
    ):
        assert (answer.status_code, answer.headers.get("retry-after")) == (503, "5")
        assert "10.1.2.3" not in answer.text
    requeued = await desk.post("/dlq/wf/requeue")
    assert (requeued.status_code, "10.1.2.3" in requeued.text) == (500, False)


async def test_paths_and_methods_that_there_are_not(desk: Desk) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/api/v1/dlq", 405),
        ("GET", "/api/v1/dlq/%ff", 400),
        ("GET", "/api/v1/runs/x", 404),
        ("GET", "/api/v1/runs/x/items", 404),
        ("POST", "/api/v1/runs/x/pause", 404),
    ):
        answer = await desk.client.request(method, path)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), path


async def test_metrics_after_one_of_each(desk: Desk) -> None:
    await desk.post("/dlq", NEW)
    await desk.post("/dlq/wf/requeue")
    await desk.post("/dlq/wf/fail")
    text = (await desk.client.get("/metrics")).text
    for line in (
        "dlq_size 0.0",
        "tasks_moved_to_dlq_total 2.0",
        "dlq_requeue_attempts_total 1.0",
        "dlq_requeue_successes_total 0.0",
        "dlq_requeue_failures_total 0.0",
        "dlq_permanent_failures_total 1.0",
        'mahavishnu_dlq_entries{status="pending"} 0.0',
        'mahavishnu_dlq_store_state{state="ok"} 1.0',
        "mahavishnu_dlq_enqueued_total 2.0",
    ):
        assert line in text.splitlines(), line


async def test_a_scrape_without_the_store_tells_what_this_process_knows(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk.dlq.context.counts["rejected_full"] += 3
    for _ in range(5):
        desk.dlq.context.breakers.record_failure("shop", None, desk.clock.monotonic())
    store = FaultyStore(desk.dlq.store)
    monkeypatch.setattr(desk.dlq.context, "store", store)
    monkeypatch.setattr(desk.dlq.context, "letters", store.collection(LETTERS))
    whole = await desk.client.get("/metrics")
    store.faults.unavailable()
    without = await desk.client.get("/metrics")
    assert (whole.status_code, without.status_code) == (200, 200)
    own = {
        "mahavishnu_dlq_max_entries 10000.0",
        "mahavishnu_dlq_rejected_full_total 3.0",
        'mahavishnu_dlq_circuit_breaker_state{adapter="shop",state="open"} 1.0',
        'mahavishnu_dlq_circuit_breaker_state{adapter="shop",state="closed"} 0.0',
    }
    assert own | {"mahavishnu_dlq_store_up 1.0", "dlq_size 0.0"} <= set(whole.text.splitlines())
    down = {"mahavishnu_dlq_store_up 0.0", 'mahavishnu_dlq_store_state{state="down"} 1.0'}
    assert own | down <= set(without.text.splitlines())
    assert not re.search("^dlq_size|enqueued_total", without.text, re.MULTILINE)  # a 0 would be a lie
    assert "the metrics are without those of the store" in caplog.text


async def test_a_store_that_is_down_is_said_as_documented(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultyStore(desk.dlq.store)
    monkeypatch.setattr(desk.dlq.context, "store", store)
    store.faults.unavailable()
    document = (await desk.get("/openapi.json")).json()
    for path, status in (("/healthz", 200), ("/readyz", 503)):
        answer = await desk.client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (status, "down")
        told = document["paths"][path]["get"]["responses"][str(status)]["content"]
        shape = document["components"]["schemas"][told[answer.headers["content-type"]]["schema"]["$ref"].split("/")[-1]]
        assert shape["properties"].keys() == set(shape["required"]) == answer.json().keys()

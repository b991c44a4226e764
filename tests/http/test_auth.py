"""Who may do what: roles, tokens, and requests of other machines and other sites."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import Role
from mahavishnu.http.replies import REPLIES
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.query import Query
from tests.support.api import TOKENS, URL, ApiHarness, bearer

NEW = {"task_id": "wf", "error": "connection reset"}
VIEW, ACT, OWN = Role.VIEWER, Role.OPERATOR, Role.ADMIN
# The least role for each route; a route that is missing here fails the test.
ROUTES = {
    ("GET", "/"): VIEW,
    ("GET", "/api/v1"): VIEW,
    ("GET", "/api/v1/dlq"): VIEW,
    ("GET", "/api/v1/query/suggest"): VIEW,
    ("GET", "/api/v1/views"): VIEW,
    ("GET", "/api/v1/views/{name}"): VIEW,
    ("POST", "/api/v1/views/{name}"): ACT,
    ("DELETE", "/api/v1/views/{name}"): ACT,
    ("GET", "/api/v1/trends/hours"): VIEW,
    ("GET", "/api/v1/query/namespaces"): VIEW,
    ("GET", "/api/v1/alerts"): VIEW,
    ("GET", "/api/v1/alerts/rules"): VIEW,
    ("POST", "/api/v1/alerts/test"): ACT,
    ("GET", "/api/v1/groups/{fingerprint}/commonalities"): VIEW,
    ("GET", "/api/v1/dlq/{task_id}/contrasts"): VIEW,
    ("POST", "/api/v1/dlq"): ACT,
    ("GET", "/api/v1/dlq/stats"): VIEW,
    ("GET", "/api/v1/dlq/statistics"): VIEW,
    ("GET", "/api/v1/dlq/export"): VIEW,
    ("POST", "/api/v1/dlq/encrypt"): OWN,
    ("POST", "/api/v1/dlq/clear"): OWN,
    ("POST", "/api/v1/dlq/import"): ACT,
    ("GET", "/api/v1/dlq/{task_id}"): VIEW,
    ("GET", "/api/v1/dlq/{task_id}/letter"): VIEW,
    ("PATCH", "/api/v1/dlq/{task_id}"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/preview"): VIEW,
    ("GET", "/api/v1/dlq/{task_id}/revisions"): VIEW,
    ("POST", "/api/v1/dlq/{task_id}/restore"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/reveal"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/requeue"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/retry"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/redrive"): ACT,
    ("POST", "/api/v1/dlq/{task_id}/resurrect"): ACT,
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
    ("GET", "/api/v1/queues"): VIEW,
    ("POST", "/api/v1/queues"): ACT,
    ("GET", "/api/v1/queues/{queue}"): VIEW,
    ("PATCH", "/api/v1/queues/{queue}"): ACT,
    ("POST", "/api/v1/queues/{queue}/delete"): OWN,
    ("GET", "/api/v1/queues/{queue}/items"): VIEW,
    ("POST", "/api/v1/queues/{queue}/items"): ACT,
    ("POST", "/api/v1/queues/{queue}/import"): ACT,
    ("POST", "/api/v1/queues/{queue}/lease"): ACT,
    ("POST", "/api/v1/queues/{queue}/redrive"): ACT,
    ("GET", "/api/v1/queues/{queue}/items/{id}"): VIEW,
    ("POST", "/api/v1/queues/{queue}/items/{id}/complete"): ACT,
    ("POST", "/api/v1/queues/{queue}/items/{id}/fail"): ACT,
    ("POST", "/api/v1/queues/{queue}/items/{id}/renew"): ACT,
    ("POST", "/api/v1/queues/{queue}/items/{id}/retry"): ACT,
    ("POST", "/api/v1/queues/{queue}/items/{id}/drop"): OWN,
    ("GET", "/api/v1/workers"): VIEW,
    ("GET", "/api/v1/adapters"): VIEW,
    ("PATCH", "/api/v1/adapters/{adapter}/limit"): ACT,
    ("POST", "/api/v1/adapters/{adapter}/reset"): ACT,
    ("GET", "/api/v1/tasks"): VIEW,
    ("GET", "/api/v1/tasks/{task_id}"): VIEW,
    ("POST", "/api/v1/tasks/{task_id}/move"): ACT,
    ("POST", "/api/v1/tasks/detect"): ACT,
    ("GET", "/api/v1/domain-events"): VIEW,
    ("POST", "/api/v1/domain-events/acknowledge"): ACT,
    ("GET", "/api/v1/audit"): VIEW,
    ("DELETE", "/api/v1/dlq/{task_id}"): OWN,
    ("GET", "/api/v1/archive"): VIEW,
    ("GET", "/api/v1/dashboard/dlq"): VIEW,
    ("GET", "/api/v1/integrity"): VIEW,
    ("GET", "/api/v1/integrity/local-stores"): VIEW,
    ("POST", "/api/v1/integrity/local-stores/{name}/forget"): OWN,
    ("GET", "/api/v1/dashboard/staleness"): VIEW,
    ("GET", "/api/v1/dashboard/archive"): VIEW,
    ("POST", "/api/v1/archive/run"): ACT,
    ("GET", "/api/v1/archive/partitions"): VIEW,
    ("POST", "/api/v1/archive/partitions/{partition}/detach"): OWN,
    ("POST", "/api/v1/archive/partitions/{partition}/attach"): OWN,
    ("DELETE", "/api/v1/archive/partitions/{partition}"): OWN,
    ("POST", "/api/v1/archive/exports"): ACT,
    ("GET", "/api/v1/archive/exports"): VIEW,
    ("GET", "/api/v1/archive/tasks"): VIEW,
    ("GET", "/api/v1/archive/tasks/{task_id}"): VIEW,
    ("GET", "/api/v1/archive/{name}"): VIEW,
    ("POST", "/api/v1/archive/{name}/restore"): ACT,
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
    "/api/v1/adapters/{adapter}/limit": {"rate": "1/s"},
    "/api/v1/queues": {"name": "q"},
    "/api/v1/queues/{queue}": {"max_attempts": 2},
    "/api/v1/queues/{queue}/items": {"payload": 1},
    "/api/v1/queues/{queue}/import": {"items": []},
    "/api/v1/queues/{queue}/lease": {"worker": "w"},
    "/api/v1/queues/{queue}/items/{id}/complete": {"token": "t"},
    "/api/v1/queues/{queue}/items/{id}/fail": {"token": "t"},
    "/api/v1/queues/{queue}/items/{id}/renew": {"token": "t"},
    "/api/v1/domain-events/acknowledge": {"consumer": "billing", "number": 0},
    "/api/v1/claims": {"worker": "w"},
    "/api/v1/claims/renew": {"task_id": "x", "token": "t"},
    "/api/v1/claims/settle": {"task_id": "x", "token": "t", "outcome": "succeeded"},
}
UNGUARDED = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/api/v1/events")}  # the last one never ends: see below
KEY = {"Idempotency-Key": "k"}


def routes() -> Iterator[tuple[str, str]]:
    for path, operations in create_app(DeadLetterQueue()).openapi()["paths"].items():
        yield from ((method.upper(), path) for method in operations)


def test_every_route_has_its_role() -> None:
    assert set(routes()) == ROUTES.keys() | UNGUARDED


@pytest.mark.parametrize("role", [VIEW, ACT, OWN], ids=lambda role: role.name)
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=" ".join)
async def test_a_denial_of_a_role_is_audited(guarded_api: ApiHarness, method: str, path: str, role: Role) -> None:
    name = role.name.lower()
    real = re.sub(r"\{\w+\}", "x", path)
    answer = await guarded_api.client.request(method, real, json=BODIES.get(path), headers=bearer(name))
    denials = (await guarded_api.dlq.audit.list(action="denied")).items
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
        assert (await guarded_api.client.request(method, real, json=BODIES.get(path))).status_code == 401


async def test_live_events_need_a_token(guarded_api: ApiHarness) -> None:
    assert (await guarded_api.get("/events")).status_code == 401


async def test_without_a_role_only_health_is_answered(guarded_api: ApiHarness) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKENS['admin']}"}):
        answer = await guarded_api.get("/dlq", headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert (await guarded_api.client.get("/healthz")).status_code == 200
    assert (await guarded_api.client.get("/readyz")).status_code == 200


async def test_an_act_is_recorded_under_the_name_of_the_token(guarded_api: ApiHarness) -> None:
    await guarded_api.keep("wf")
    resolved = await guarded_api.post("/dlq/wf/resolve", {"by": "bob"}, headers=bearer("operator"))
    assert resolved.json()["resolved_by"] == "bob (token of olga)"
    (entry,) = (await guarded_api.dlq.audit.list(action="resolve")).items
    assert (entry.actor, entry.role, entry.via) == ("bob (token of olga)", "operator", "http")


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "10.0.0.1:8080"}],
)
async def test_without_tokens_requests_of_other_sites_are_refused(api: ApiHarness, headers: dict[str, str]) -> None:
    await api.keep("wf")
    answer = await api.post("/dlq/wf/resolve", headers=headers)
    assert answer.status_code == 403
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.is_open
    assert (await api.get("/dlq", headers={"Origin": "http://localhost"})).status_code == 200
    own_form = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}  # what Chromium says of our pages
    assert (await api.get("/dlq", headers=own_form)).status_code == 200
    other = {"Origin": "null", "Sec-Fetch-Site": "cross-site"}
    assert (await api.get("/dlq", headers=other)).status_code == 403


def test_an_address_that_others_reach_is_refused_without_tokens() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.com"):
        with pytest.raises(InvalidInput, match="loopback"):
            Access().check_address(host)
        Access.of({"vic": "t"}, {}, {}).check_address(host)
    for host in ("127.0.0.1", "::1", "localhost"):
        Access().check_address(host)


def test_a_token_means_one_person() -> None:
    with pytest.raises(InvalidInput, match="ada"):
        Access.of({"vic": "same"}, {}, {"ada": "same"})
    with pytest.raises(InvalidInput, match="api_user"):
        Access.of({}, {"api_user": "acts as whoever it says"}, {})
    with pytest.raises(InvalidInput, match="empty"):
        Access.of({"vic": ""}, {}, {})


async def test_a_denial_names_the_act_and_the_role_that_it_needs(guarded_api: ApiHarness) -> None:
    answer = await guarded_api.post("/dlq/wf/resolve", headers=bearer("viewer"))
    assert answer.json()["detail"] == "changing letters needs the role operator, and vic has the role viewer"
    (entry,) = (await guarded_api.dlq.audit.list(action="denied")).items
    assert entry.why == "changing letters: needs the role operator, and vic has the role viewer"
    await guarded_api.post("/runs", {"verb": "archive", "everything": True}, headers=bearer("viewer"))
    answer = await guarded_api.post("/dlq/clear", {"confirm": "delete every open letter"}, headers=bearer("operator"))
    assert answer.json()["detail"] == "deleting letters needs the role admin, and olga has the role operator"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/dlq/healthz"),
        ("POST", "/api/v1/dlq/x/readyz"),
        ("POST", "/nothing/healthz"),
        ("POST", "/healthz"),
        ("GET", "//healthz"),
        ("GET", "/api/v1/openapi.json"),
    ],
)
async def test_a_request_without_a_token_writes_nothing(guarded_api: ApiHarness, method: str, path: str) -> None:
    answer = await guarded_api.client.request(method, path, headers=KEY)
    assert answer.status_code == 401
    assert not (await guarded_api.dlq.audit.list()).items
    assert not (await guarded_api.dlq.store.collection(REPLIES).find(Query())).items


async def test_without_tokens_other_machines_are_refused_whatever_host_they_name() -> None:
    for client, status in (("203.0.113.9", 403), ("127.0.0.1", 200), ("::1", 200)):
        transport = httpx.ASGITransport(create_app(DeadLetterQueue()), client=(client, 4711))
        async with httpx.AsyncClient(transport=transport, base_url=URL) as asker:
            assert (await asker.get("/api/v1/dlq")).status_code == status

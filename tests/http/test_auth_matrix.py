"""Every route and page, asked for by six principals: what they are told, and what they change, is theirs."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mahavishnu.core.api import create_app
from mahavishnu.core.rooms import pages
from tests.http.test_auth import ROUTES
from tests.support.api import URL
from tests.support.permission_matrix import (
    EDIT,
    METHODS,
    PRINCIPALS,
    VIEW,
    About,
    Outcome,
    Row,
    World,
    changes,
    expect,
    filled,
    make_access,
    records_of,
    shared_world,
    sides_of,
    surface_row,
    target_of,
)

LETTER, RUN, GROUP, QUEUE, ITEM = (
    "/dlq/{id}",
    "/runs/{run}",
    "/groups/{fingerprint}",
    "/queues/{named}",
    "/items/{item}",
)
LEASED = "/queues/{named}/items/{leased_item}"
TOKEN = {"token": "{leased_token}"}
OUTCOME = {403: Outcome.DENIED, 404: Outcome.ABSENT}
SEEN, TASK = surface_row(VIEW, About.SEEN), surface_row(VIEW, About.LETTER)
# For each route the method that it calls, or what it needs; the path with what there is; and a body.
CALLS: dict[tuple[str, str], tuple[str | Row, str, Any]] = {
    ("GET", "/"): (SEEN, "/", None),
    ("GET", ""): (SEEN, "", None),
    ("GET", "/dlq"): ("letters.find", "/dlq", None),
    ("GET", "/query/suggest"): ("search.suggest", "/query/suggest?text=adapter:", None),
    ("GET", "/views"): ("views.list", "/views", None),
    ("GET", "/views/{name}"): ("views.get", "/views/own", None),
    ("POST", "/views/{name}"): ("views.save", "/views/new", {"text": "status:pending"}),
    ("DELETE", "/views/{name}"): ("views.delete", "/views/own", None),
    ("GET", "/trends/hours"): ("trends.by_hour", "/trends/hours", None),
    ("GET", "/query/namespaces"): ("search.namespaces", "/query/namespaces", None),
    ("GET", "/alerts"): ("alerts.list", "/alerts", None),
    ("GET", "/alerts/rules"): ("alerts.rules", "/alerts/rules", None),
    ("POST", "/alerts/test"): ("alerts.test", "/alerts/test", {}),
    ("GET", "/groups/{fingerprint}/commonalities"): ("groups.commonalities", f"{GROUP}/commonalities", None),
    ("GET", "/dlq/{task_id}/contrasts"): ("letters.contrasts", f"{LETTER}/contrasts", None),
    ("POST", "/dlq"): ("dlq.enqueue", "/dlq", {
        "task_id": "{id}", "error": "boom", "queue": "{queue}", "adapter": "{adapter}", "task": {"n": 2}}),
    ("GET", "/dlq/stats"): ("dlq.get_statistics_by_reason", "/dlq/stats", None),
    ("GET", "/dlq/statistics"): ("dlq.get_statistics", "/dlq/statistics", None),
    ("GET", "/dlq/export"): ("transfer.export", "/dlq/export", None),
    ("POST", "/dlq/encrypt"): ("encryption.renew", "/dlq/encrypt", {}),
    ("POST", "/dlq/clear"): ("dlq.clear_all", "/dlq/clear", {"confirm": "delete every open letter"}),
    ("POST", "/dlq/import"): ("transfer.import_letters", "/dlq/import", "{line}"),
    ("GET", "/dlq/{task_id}"): ("dlq.get_task", LETTER, None),
    ("GET", "/dlq/{task_id}/letter"): ("dlq.get_task", f"{LETTER}/letter", None),
    ("PATCH", "/dlq/{task_id}"): ("letters.edit", LETTER, {"priority": 7}),
    ("POST", "/dlq/{task_id}/preview"): ("letters.preview_edit", f"{LETTER}/preview", {"priority": 7}),
    ("GET", "/dlq/{task_id}/revisions"): ("letters.revisions", f"{LETTER}/revisions", None),
    **{("POST", f"/dlq/{{task_id}}/{verb}"): (method, f"{LETTER}/{verb}", {}) for verb, method in {
        "restore": "letters.restore", "reveal": "letters.reveal", "requeue": "requeues.requeue",
        "retry": "dlq.retry_task", **{each: f"letters.{each}" for each in (
            "redrive", "resurrect", "resolve", "fail", "cancel", "archive")}}.items()},
    ("POST", "/runs/preview"): ("runs.preview", "/runs/preview", {"verb": "redrive", "everything": True}),
    ("POST", "/runs"): ("runs.start", "/runs", {"verb": "redrive", "everything": True}),
    ("GET", "/runs"): ("runs.list", "/runs", None),
    ("GET", "/runs/{run_id}"): ("runs.get", RUN, None),
    ("GET", "/runs/{run_id}/items"): ("runs.items", f"{RUN}/items", None),
    **{("POST", f"/runs/{{run_id}}/{verb}"): (f"runs.{verb}", f"{RUN}/{verb}", {})
       for verb in ("pause", "resume", "cancel")},
    ("GET", "/groups"): ("groups.list", "/groups", None),
    ("GET", "/groups/{fingerprint}"): ("groups.get", GROUP, None),
    ("PATCH", "/groups/{fingerprint}"): ("groups.update", GROUP, {"note": "seen"}),
    ("POST", "/groups/releases/{release}"): ("groups.release_hold", "/groups/releases/1.0", {}),
    ("POST", "/claims"): ("claims.claim", "/claims", {"worker": "me"}),
    ("POST", "/claims/renew"): ("claims.renew", "/claims/renew", {
        "task_id": "{id}-leased", "token": "{token}", "queue": "{queue}"}),
    ("POST", "/claims/settle"): ("claims.settle", "/claims/settle", {
        "task_id": "{id}-leased", "token": "{token}", "queue": "{queue}", "outcome": "failed", "error": "again"}),
    ("GET", "/queues"): ("queues.list", "/queues", None),
    ("POST", "/queues"): ("queues.create", "/queues", {"name": "fresh"}),
    ("GET", "/queues/{queue}"): ("queues.get", QUEUE, None),
    ("PATCH", "/queues/{queue}"): ("queues.update", QUEUE, {"max_attempts": 5}),
    ("POST", "/queues/{queue}/delete"): ("queues.delete", f"{QUEUE}/delete?force=true", {"force": True}),
    ("GET", "/queues/{queue}/items"): ("queues.items", f"{QUEUE}/items", None),
    ("POST", "/queues/{queue}/items"): ("queues.produce", f"{QUEUE}/items", {"payload": 1}),
    ("POST", "/queues/{queue}/import"): ("queues.import_items", f"{QUEUE}/import", {
        "items": [{"id": "i-1", "payload": {}}]}),
    ("POST", "/queues/{queue}/lease"): ("queues.lease", f"{QUEUE}/lease", {"worker": "me"}),
    ("POST", "/queues/{queue}/redrive"): ("queues.redrive", f"{QUEUE}/redrive", {"to": "{named}-dead"}),
    ("GET", "/queues/{queue}/items/{id}"): ("queues.item", QUEUE + ITEM, None),
    ("POST", "/queues/{queue}/items/{id}/complete"): ("queues.complete", f"{LEASED}/complete", TOKEN),
    ("POST", "/queues/{queue}/items/{id}/fail"): ("queues.retry", f"{LEASED}/fail", TOKEN),
    ("POST", "/queues/{queue}/items/{id}/renew"): ("queues.renew", f"{LEASED}/renew", TOKEN),
    ("POST", "/queues/{queue}/items/{id}/retry"): ("queues.resurrect", f"{QUEUE}{ITEM}/retry", {}),
    ("POST", "/queues/{queue}/items/{id}/drop"): ("queues.drop", f"{QUEUE}{ITEM}/drop", {}),
    ("GET", "/adapters"): ("adapter_limits.list", "/adapters", None),
    ("PATCH", "/adapters/{adapter}/limit"): ("adapter_limits.limit", "/adapters/billing/limit", {"concurrency": 3}),
    ("POST", "/adapters/{adapter}/reset"): ("adapter_limits.reset", "/adapters/billing/reset", {}),
    ("GET", "/workers"): ("workers.list", "/workers", None),
    ("GET", "/tasks"): (SEEN, "/tasks?state=all", None),
    ("GET", "/tasks/{task_id}"): (TASK, "/tasks/{task}", None),
    ("POST", "/tasks/{task_id}/move"): (surface_row(EDIT, About.LETTER), "/tasks/{task}/move", {}),
    ("POST", "/tasks/detect"): (surface_row(EDIT, About.NAMESPACE), "/tasks/detect", {"dry_run": False}),
    ("GET", "/domain-events"): ("domain_events.read", "/domain-events", None),
    ("POST", "/domain-events/acknowledge"): ("domain_events.acknowledge", "/domain-events/acknowledge", {
        "consumer": "c", "number": 1}),
    ("GET", "/audit"): ("audit.list", "/audit?limit=1000", None),
    ("DELETE", "/dlq/{task_id}"): ("deletion.delete_task", LETTER, None),
    ("GET", "/archive"): ("archive.list", "/archive", None),
    ("GET", "/dashboard/dlq"): ("dashboard.dlq", "/dashboard/dlq", None),
    ("GET", "/integrity"): ("integrity.find_unreadable", "/integrity", None),
    ("GET", "/integrity/local-stores"): ("integrity.local_stores", "/integrity/local-stores", None),
    ("POST", "/integrity/local-stores/{name}/forget"): (
        "integrity.forget_local_store", "/integrity/local-stores/gone/forget", {}),
    ("GET", "/dashboard/staleness"): ("dashboard.staleness", "/dashboard/staleness", None),
    ("GET", "/dashboard/archive"): ("dashboard.archive", "/dashboard/archive", None),
    ("POST", "/archive/run"): ("archive.run", "/archive/run", {"dry_run": False}),
    ("GET", "/archive/partitions"): ("archive.partitions", "/archive/partitions", None),
    ("POST", "/archive/partitions/{partition}/detach"): (
        "archive.detach", "/archive/partitions/{partition}/detach", {}),
    ("POST", "/archive/partitions/{partition}/attach"): (
        "archive.attach", "/archive/partitions/{partition}/attach", {}),
    ("DELETE", "/archive/partitions/{partition}"): ("archive.drop", "/archive/partitions/{partition}", None),
    ("POST", "/archive/exports"): ("archive.begin_export", "/archive/exports", {}),
    ("GET", "/archive/exports"): ("archive.export", "/archive/exports?after=0&upto=0", None),
    ("GET", "/archive/tasks"): ("archive.search_tasks", "/archive/tasks", None),
    ("GET", "/archive/tasks/{task_id}"): ("archive.show_task", "/archive/tasks/{archived_task}", None),
    ("GET", "/archive/{name}"): ("archive.show", "/archive/{archived}", None),
    ("POST", "/archive/{name}/restore"): ("archive.restore", "/archive/{archived}/restore", {}),
    ("GET", "/metrics"): ("telemetry.collect", "/metrics", None),
}  # fmt: skip
IN_QUEUE = ("/dlq/{id}", "/archive/{archived}")  # these name a queue beside their path
# Pages about one thing: the method whose answer they show, and their path. All others show what is seen. What forms do
# is in tests/console/test_forms_permissions.py.
PAGES: dict[str, tuple[str | Row, str]] = {
    "/groups/{fingerprint}": ("groups.get", GROUP),
    "/letters/{task_id}": ("dlq.get_task", "/letters/{id}?queue={queue}"),
    "/runs/{run_id}": ("runs.get", RUN),
    "/queues/{queue}": ("queues.get", QUEUE),
    "/tasks/{task_id}": (TASK, "/tasks/{task}"),
    "/archive/letters/{name}": ("archive.show", "/archive/letters/{archived}?queue={queue}"),
    "/archive/tasks/{task_id}": ("archive.show_task", "/archive/tasks/{archived_task}"),
}
# For browsers before a login and after it, and files.
OPEN = {"/login", "/login/provider", "/login/callback", "/logout/provider", "/static/{name}"}
ACCESS = make_access()


@pytest.fixture
async def world() -> World:
    """Everything that there is; each request gets a copy."""
    return await shared_world()


async def ask(
    world: World, name: str, method: str, path: str, body: Any, row: Row, *, inside: bool, accept: str = "*/*"
) -> list[str]:
    """Send a request as this principal. Return what is wrong with the answer, and with what it changed."""
    home, who, it = world.copy(), PRINCIPALS[name], target_of(world, name, inside=inside)
    before = records_of(home)
    headers = {"Authorization": f"Bearer token-of-{name}", "Accept": accept}
    transport = httpx.ASGITransport(create_app(home, access=ACCESS))
    async with home, httpx.AsyncClient(transport=transport, base_url=URL, headers=headers) as http:
        answer = await http.request(method, filled(path, it, world), json=filled(body, it, world))
    absent = answer.status_code == 400 and "there is no letter" in answer.text
    outcome = Outcome.ABSENT if absent else OUTCOME.get(answer.status_code, Outcome.DONE)
    found = [*changes(world, name, before, records_of(home), outcome)]
    if answer.status_code >= 500 or (answer.status_code in (400, 422) and not row.unfit and not absent):
        found.append(f"is answered with {answer.status_code}: {answer.text:.300}")
    words = ["hush zebra", "the zebra failed", "zebra-leased"] if it.id != "zebra" else ["hush zebra"]
    found += [f"tells of {each}" for each in words if each in answer.text and not who.scope.is_everything]
    if "hush" in answer.text and not who.sees_payloads and not row.takes_work:
        found.append("tells a payload")
    if outcome not in (expected := expect(row, who, inside=inside)):
        found.append(f"is {answer.status_code}, not {' or '.join(sorted(expected))}")
    return [f"{name}, {'inside' if inside else 'outside'}: {each}" for each in found]


def short(path: str) -> str:
    """The path of a route as CALLS has it."""
    return path.removeprefix("/api/v1")


def test_every_route_is_declared() -> None:
    assert {(method, short(path)) for method, path in ROUTES} == set(CALLS)


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[" ".join(each) for each in ROUTES])
async def test_a_route_does_what_the_matrix_says(world: World, method: str, path: str) -> None:
    called, real, body = CALLS[method, short(path)]
    row = METHODS[called] if isinstance(called, str) else called
    if real.startswith(IN_QUEUE):
        real += "?queue={queue}"
    full = real if path in ("/", "/metrics") else f"/api/v1{real}"
    wrong = []
    for name in PRINCIPALS:
        actor = ACCESS.holder(f"token-of-{name}")
        if actor is None or actor.role < ROUTES[method, path]:
            continue  # see test_a_denial_of_a_role_is_audited
        for inside in sides_of(PRINCIPALS[name]):
            wrong += await ask(world, name, method, full, body, row, inside=inside)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", sorted({route.path for page in pages() for route in page.router.routes} - OPEN))
async def test_a_page_shows_what_the_matrix_says(world: World, path: str) -> None:
    if not any(path == each.path and each.method == "GET" for page in pages() for each in page.router.routes):
        return  # it only takes forms
    shown, real = PAGES.get(path, (SEEN, path))
    row, wrong = METHODS[shown] if isinstance(shown, str) else shown, []
    for name in PRINCIPALS:
        for inside in sides_of(PRINCIPALS[name]):
            wrong += await ask(world, name, "GET", real, None, row, inside=inside, accept="text/html")
    assert not wrong, "\n".join(wrong)

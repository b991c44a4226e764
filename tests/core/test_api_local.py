"""The API inside of one process gives the responses that the one for servers gives."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mahavishnu.core.api import create_app
from mahavishnu.core.api_local import LocalApi
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.rooms import rooms
from mahavishnu.http.middleware import App
from mahavishnu.testing import ManualClock, make_letter
from tests.support.api import URL

REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "/dlq", None),
    ("GET", "/dlq?status=pending&status=exhausted&limit=1&whole=true", None),
    ("GET", "/dlq?queue=none", None),
    ("GET", "/dlq?limit=0", None),
    ("GET", "/dlq?limit=many&offset=-1", None),
    ("GET", "/dlq?status=pendin", None),
    ("GET", "/dlq?failed_from=yesterday", None),
    ("GET", "/dlq?cursor=junk", None),
    ("GET", "/dlq?nonsense=1", None),
    ("GET", "/dlq/wf", None),
    ("GET", "/dlq/a%2Fb", None),
    ("GET", "/dlq/wf?queue=other", None),
    ("GET", "/dlq/wf?queue=", None),
    ("GET", "/dlq/stats", None),
    ("GET", "/dlq/stats/letter", None),
    ("GET", "/dlq/statistics", None),
    ("GET", "/dlq/wf/revisions", None),
    ("GET", "/dlq/export", None),
    ("POST", "/dlq", {"task_id": "", "error": 1, "nonsense": 2}),
    ("POST", "/dlq", [1]),
    ("POST", "/dlq", None),
    ("POST", "/dlq/clear", {"confirm": "yes"}),
    ("POST", "/dlq/import", {"a": 1}),
    ("POST", "/dlq/import", [{"a": 1}]),
    ("PATCH", "/dlq/wf", {"task": 1, "patch": {}}),
    ("PATCH", "/dlq/wf", {"max_retries": True}),
    ("POST", "/dlq/wf/preview", {"patch": {"a": 1}}),
    ("POST", "/dlq/nobody/redrive", None),
    ("POST", "/dlq/nobody/redrive", {"by": ""}),
    ("POST", "/dlq/wf/redrive", {"notes": 7}),
    ("POST", "/dlq/wf/retry?force=perhaps", None),
    ("POST", "/runs/preview", {"verb": "archive", "filter": {"task_id": "wf"}}),
    ("POST", "/runs/preview", {"verb": "archiv"}),
    ("POST", "/runs", {"verb": "archive", "filter": {"failed_from": 20260101}}),
    ("GET", "/runs?state=done", None),
    ("GET", "/runs/nothing", None),
    ("GET", "/groups?sort=size", None),
    ("GET", "/groups", None),
    ("PATCH", "/groups/x", {"state": "open"}),
    ("GET", "/audit?outcome=done&limit=5", None),
    ("GET", "/audit?limit=5000", None),
]
HEADERS = ("content-type", "etag", "link", "x-degraded")


async def send(app: App, method: str, path: str, json: Any) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
        return await client.request(method, f"/api/v1{path}", json=json)


@pytest.mark.parametrize(("method", "path", "json"), REQUESTS, ids=lambda value: str(value)[:60])
async def test_both_apps_give_the_same_response(method: str, path: str, json: Any) -> None:
    """Also of refusals: FastAPI and our own reading of requests name the same places in the same words."""
    async with DeadLetterQueue(clock=ManualClock()) as dlq:
        letters = [make_letter(task_id=task_id) for task_id in ("wf", "a/b", "stats")]
        assert None not in await dlq.context.letters.write(letters)
        served = await send(create_app(dlq), method, path, json)
        local = await send(LocalApi(dlq, via="cli", max_body_bytes=10_000), method, path, json)

    assert (local.status_code, local.text) == (served.status_code, served.text)
    assert [local.headers.get(name) for name in HEADERS] == [served.headers.get(name) for name in HEADERS]


def test_every_route_stands_below_the_resource_that_the_table_says() -> None:
    for routes in (each for room in rooms() for each in room.routes):
        for route in routes.router.routes:
            assert route.path.split("/")[1] == routes.resource, route

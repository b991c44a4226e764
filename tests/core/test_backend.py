"""Commands in their own process: reads without a web framework, and a queue without the settings."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mahavishnu.cli.local_transport import LocalTransport
from mahavishnu.core.api_local import LocalApi
from mahavishnu.core.backend import ProcessBackend
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue, all_kinds
from mahavishnu.core.rooms import rooms
from mahavishnu.core.wiring import queue_from
from mahavishnu.engine.context import QueueContext
from mahavishnu.testing import ManualClock, make_letter
from tests.core.test_api_local import REQUESTS

API = "/api/v1"
# What the functions answer, and what they leave to the routes.
ANSWERED = [
    "/dlq?limit=2&sort=oldest&whole=true",
    "/dlq?limit=1&status=pending&status=exhausted&q=age%3C2h",
    "/dlq?namespace=*&queue=default&category=network",
    "/dlq/stats",
    "/dlq/statistics?namespace=eu",
    "/dlq/a%2Fb/letter",
    "/dlq/wf/letter?queue=default&namespace=default",
    "/dlq/wf/contrasts",
    "/groups?limit=1&sort=growth&quiet=true&owner=ann",
    "/groups?namespace=eu",
    "/groups/f1",
]
LEFT = [
    "/dlq?since=1",
    "/dlq?limit=2&limit=3",
    "/dlq?sort=upwards",
    "/dlq?q=",
    "/dlq?q=nonsense%3A",
    "/dlq?cursor=junk",
    "/dlq/wf/letter?queue=other",
    "/dlq/wf/revisions",
    "/groups/unknown",
    "/groups?limit=0",
    f"/dlq?adapter={'x' * 2000}",
]
GETS = [path for method, path, _ in REQUESTS if method == "GET" and not path.endswith("export")]


async def test_reads_answer_as_their_routes() -> None:
    """Value by value, with the same headers; what a function does not read, it leaves to the route."""
    answered = set()
    async with DeadLetterQueue(clock=ManualClock()) as dlq:
        letters = [make_letter(task_id=name, fingerprint="f1", adapter="orders") for name in ("wf", "a/b", "stats")]
        assert None not in await dlq.context.letters.write(letters)
        read = ProcessBackend().read
        api = LocalApi(dlq, via="cli", max_body_bytes=10_000)

        async def leave(path: str, query: str) -> None:
            """Leave each read to its route."""

        async def read_here(path: str, query: str) -> object:
            return await read(dlq, path, query)

        by_route = LocalTransport(lambda: api, "here", leave)
        by_function = LocalTransport(lambda: api, "here", read_here)  # type: ignore[arg-type]
        for path in (*ANSWERED, *LEFT, *GETS):
            url = f"http://localhost{API}{path}"
            parts = urlsplit(path)
            if await read(dlq, parts.path, parts.query) is not None:
                answered.add(path)
            expected, found = [await each.request("GET", url, {}, None) for each in (by_route, by_function)]
            assert (found.status, json.loads(found.body)) == (expected.status, json.loads(expected.body)), path
            headers = ("etag", "link", "x-degraded", "x-ungrouped", "x-corrupt")
            assert [found.headers.get(name) for name in headers] == [expected.headers.get(name) for name in headers]
    assert answered.issuperset(ANSWERED) and answered.isdisjoint(LEFT)


def test_each_read_has_a_route_of_the_same_path() -> None:
    routes = {
        route.path: {"{}" if part.startswith("{") else part for part in route.path.split("/")}
        for room in rooms()
        for each in room.routes
        for route in each.router.routes
        if route.method == "GET"
    }
    for read in (read for room in rooms() for read in room.reads):
        assert set(read.path.split("/")) in routes.values(), read.path


def test_a_plain_queue_is_the_queue_of_default_settings(elsewhere: Path) -> None:
    """It is made without reading the settings, so their defaults and those of a queue must be the same."""
    url = f"sqlite:///{elsewhere / 'letters.db'}"
    settings = MahavishnuSettings(dlq_store_url=url)
    plain = ProcessBackend().make_plain_queue(url, None, lambda: settings).context
    whole = queue_from(settings).context

    def seen(context: QueueContext) -> dict[str, object]:
        kinds = {type(rules) for rules in whole.options.rules}
        return {
            "rules": {kind: context.rules(kind) for kind in kinds},
            "letters": context.letter_factory,
            "limits": context.limits,
            "breakers": vars(context.breakers),
            "backoffs": context.backoffs,
            "namespace": context.namespace,
            "size": context.capacities.max_size,
            "tracing": vars(context.tracing),
            "reads": context.options.audit_payload_reads,
            "store": (type(context.store), context.store.path),  # type: ignore[attr-defined]
        }

    assert seen(plain) == seen(whole)
    assert plain.open_beside is not None and whole.open_beside is not None
    assert ProcessBackend().make_plain_queue(url, "eu", lambda: settings).namespace == "eu"
    assert all_kinds() and plain.options.chain is not None


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path

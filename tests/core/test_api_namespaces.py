"""The parameter `namespace`: another one, or all; and servers of several apps on one store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from mahavishnu.core.api import create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.events.routes import LiveFeed
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import ManualClock
from tests.support.api import URL, ApiHarness


@asynccontextmanager
async def serve(store: MemoryStore, namespace: str) -> AsyncIterator[ApiHarness]:
    clock = ManualClock()
    dlq = DeadLetterQueue(store=store, clock=clock, options=QueueOptions(namespace=namespace))
    api = create_app(dlq)
    async with dlq, httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url=URL) as client:
        yield ApiHarness(dlq, client, clock)


@pytest.fixture
async def apis() -> AsyncIterator[tuple[ApiHarness, ApiHarness]]:
    """The servers of two apps, red and blue, each with a letter of the same task."""
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        red, blue = [await stack.enter_async_context(serve(store, name)) for name in ("red", "blue")]
        for each in (red, blue):
            kept = await each.post("/dlq", {"task_id": "same", "error": "timed out", "retry_policy": "immediate"})
            assert (kept.status_code, kept.json()["namespace"]) == (201, each.dlq.namespace)
        yield red, blue


async def namespaces(api: ApiHarness, path: str, **params: Any) -> list[str]:
    answer = await api.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return sorted(each["namespace"] for each in answer.json())


async def test_a_server_is_about_one_namespace(apis: tuple[ApiHarness, ApiHarness]) -> None:
    red, _ = apis
    assert (await red.get("")).json()["namespace"] == "red"
    await red.post("/dlq/same/archive", {"by": "ann"})
    await red.post("/runs", {"verb": "archive", "everything": True})
    for path in ("/dlq", "/groups", "/audit", "/runs"):
        params = {"quiet": "true"} if path == "/groups" else {}
        assert set(await namespaces(red, path, **params)) == {"red"}, path
    assert (await red.get("/dlq/statistics")).json()["namespace"] == "red"


async def test_another_namespace_or_all_can_be_named(apis: tuple[ApiHarness, ApiHarness]) -> None:
    red, _ = apis
    assert await namespaces(red, "/dlq", namespace="blue") == ["blue"]
    assert await namespaces(red, "/dlq", namespace=["blue", "red"]) == ["blue", "red"]
    assert await namespaces(red, "/dlq", namespace="*") == ["blue", "red"]
    assert await namespaces(red, "/groups", namespace="*") == ["blue", "red"]
    await red.dlq.queues.create("jobs")
    await red.dlq.queues.produce("jobs", 1)
    assert await namespaces(red, "/dlq", namespace="*") == ["blue", "red"], "what waits in a queue is no letter"
    assert await namespaces(red, "/dlq", namespace="red@jobs") == ["red@jobs"]
    assert (await red.get("/dlq/statistics?namespace=*")).json()["queue_size"] == 2
    statistics = (await red.get("/dlq/statistics", params={"namespace": "*"})).json()
    assert (statistics["queue_size"], statistics["max_size"]) == (2, None)
    assert (await red.get("/dlq/same", params={"namespace": "blue"})).json()["namespace"] == "blue"
    edited = await red.patch("/dlq/same?namespace=blue", {"priority": 7, "by": "ann"})
    assert (edited.json()["namespace"], edited.json()["priority"]) == ("blue", 7)
    assert (await red.get("/dlq/same")).json()["priority"] == 0
    assert await namespaces(red, "/audit", namespace="blue") == ["blue"]
    begun = await red.post("/runs?namespace=blue", {"verb": "archive", "everything": True})
    assert begun.headers["location"].endswith("?namespace=blue")
    assert (await red.client.get(begun.headers["location"])).json()["namespace"] == "blue"
    assert (await red.get(f"/runs/{begun.json()['run_id']}")).status_code == 404
    claimed = (await red.post("/claims", {"worker": "w", "limit": 9})).json()
    assert [each["letter"]["namespace"] for each in claimed] == ["red"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/dlq/clear?namespace=*", {"confirm": "delete every open letter"}),
        ("/dlq/same/resolve?namespace=*", {}),
        ("/runs?namespace=*", {"verb": "archive", "everything": True}),
        ("/runs", {"verb": "archive", "filter": {"namespace": ["red", "blue"]}}),
        ("/dlq?namespace=*", {"task_id": "t", "error": "e"}),
        ("/dlq/same/resolve?namespace=red&namespace=blue", {}),
        ("/dlq/same/retry?namespace=blue", {}),
    ],
)
async def test_what_changes_letters_names_one(
    apis: tuple[ApiHarness, ApiHarness], path: str, body: dict[str, Any]
) -> None:
    red, blue = apis
    refused = await red.post(path, body)
    assert refused.status_code == 422, refused.text
    assert "namespace" in refused.json()["detail"]
    for api in (red, blue):
        assert [letter.is_open for letter in await api.dlq.list_tasks()] == [True]


async def test_clearing_is_about_one(apis: tuple[ApiHarness, ApiHarness]) -> None:
    red, blue = apis
    body = {"confirm": "delete every open letter"}
    assert (await red.post("/dlq/clear", body, headers={"Idempotency-Key": "k"})).json() == {"cleared": 1}
    assert len(await blue.dlq.list_tasks()) == 1
    again = await blue.post("/dlq/clear", body, headers={"Idempotency-Key": "k"})
    assert again.json() == {"cleared": 1}
    assert "idempotent-replayed" not in again.headers, "the key was used at the server of another app"


async def test_letters_are_imported_into_a_named_one(apis: tuple[ApiHarness, ApiHarness]) -> None:
    red, blue = apis
    exported = [line async for line in blue.dlq.transfer.export()]
    body = f"[{','.join(exported)}]"
    headers = {"Content-Type": "application/json"}
    await red.client.post("/api/v1/dlq/import?namespace=green", content=body, headers=headers)
    assert await namespaces(red, "/dlq", namespace="*") == ["blue", "green", "red"]


async def test_what_changes_is_told_of_one(apis: tuple[ApiHarness, ApiHarness]) -> None:
    red, _ = apis
    feed = LiveFeed(red.dlq, red.clock)
    assert feed.within(red.dlq) is feed
    for namespace, told in (("red", ["red"]), ("blue", ["blue"]), ("*", ["blue", "red"])):
        there = feed.within(red.dlq.in_namespace(namespace))
        changes, _ = await there._changes(red.clock.now())
        assert sorted(event.data["namespace"] for event in changes if event.name == "letter") == told
    await feed.close()

"""Health and metrics over HTTP."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from mahavishnu.core.api import create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.breaker import MOST_CIRCUITS, MOST_LABELS
from mahavishnu.letters.transfer import letter_as_line
from mahavishnu.stores.base import Health
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.scoped import VisibleLetters
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.testing.letters import make_letter
from tests.support.api import ApiHarness, bearer, harness_for
from tests.support.pages import read

NEW = {"task_id": "wf", "error": "connection reset"}


async def test_metrics_after_one_of_each(api: ApiHarness) -> None:
    await api.post("/dlq", NEW)
    await api.post("/dlq/wf/requeue")
    await api.post("/dlq/wf/fail")
    text = (await api.client.get("/metrics")).text
    for line in (
        "mahavishnu_dlq_size 0.0",
        "mahavishnu_tasks_moved_to_dlq_total 2.0",
        "mahavishnu_dlq_requeue_attempts_total 1.0",
        "mahavishnu_dlq_requeue_successes_total 0.0",
        "mahavishnu_dlq_requeue_failures_total 0.0",
        "mahavishnu_dlq_permanent_failures_total 1.0",
        'mahavishnu_dlq_entries{status="pending"} 0.0',
        'mahavishnu_dlq_store_state{state="ok"} 1.0',
    ):
        assert line in text.splitlines(), line


async def test_a_scrape_without_the_store_has_the_numbers_of_this_process(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api.dlq.context.counts["rejected_full"] += 3
    for _ in range(5):
        api.dlq.context.breakers.record_failure("shop", None, api.clock.monotonic())
    store = FaultyStore(api.dlq.store)
    monkeypatch.setattr(api.dlq.context, "store", store)
    monkeypatch.setattr(api.dlq.context, "letters", VisibleLetters(store.collection(LETTERS)))
    whole = await api.client.get("/metrics")
    store.faults.unavailable()
    without = await api.client.get("/metrics")
    assert (whole.status_code, without.status_code) == (200, 200)
    own = {
        "mahavishnu_dlq_max_entries 10000.0",
        "mahavishnu_dlq_rejected_full_total 3.0",
        'mahavishnu_dlq_circuit_breaker_state{adapter="shop",state="open"} 1.0',
        'mahavishnu_dlq_circuit_breaker_state{adapter="shop",state="closed"} 0.0',
    }
    assert own | {"mahavishnu_dlq_store_up 1.0", "mahavishnu_dlq_size 0.0"} <= set(whole.text.splitlines())
    down = {"mahavishnu_dlq_store_up 0.0", 'mahavishnu_dlq_store_state{state="down"} 1.0'}
    assert own | down <= set(without.text.splitlines())
    assert not re.search("^mahavishnu_dlq_size|moved_to_dlq_total", without.text, re.MULTILINE)  # a 0 would be a lie
    assert "the metrics are without those of the store" in caplog.text


async def test_a_scrape_during_an_outage_does_not_count_what_is_kept_locally() -> None:
    clock = ManualClock()
    primary = FaultyStore(MemoryStore())
    async with DeadLetterQueue(store=FallbackStore(primary, MemoryStore(), clock=clock), clock=clock) as dlq:
        await dlq.enqueue("before", {}, ["api"], "boom")
        api = httpx.AsyncClient(transport=httpx.ASGITransport(create_app(dlq)), base_url="http://localhost")
        async with api:
            whole = (await api.get("/metrics")).text.splitlines()
            primary.faults.unavailable()
            await dlq.enqueue("during", {}, ["api"], "boom")
            away = (await api.get("/metrics")).text
    assert {"mahavishnu_dlq_store_up 1.0", "mahavishnu_dlq_size 1.0", "mahavishnu_tasks_moved_to_dlq_total 1.0"} <= set(
        whole
    )
    assert {"mahavishnu_dlq_store_up 0.0", "mahavishnu_dlq_kept_locally 1.0"} <= set(away.splitlines())
    assert not re.search(
        "^mahavishnu_dlq_size|^mahavishnu_dlq_entries|moved_to_dlq_total|requeue_attempts", away, re.MULTILINE
    )


async def test_a_store_that_is_down_is_reported_as_documented(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultyStore(api.dlq.store)
    monkeypatch.setattr(api.dlq.context, "store", store)
    store.faults.unavailable()
    document = (await api.get("/openapi.json")).json()
    for path, status in (("/healthz", 200), ("/readyz", 503)):
        answer = await api.client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (status, "down")
        told = document["paths"][path]["get"]["responses"][str(status)]["content"]
        shape = document["components"]["schemas"][told[answer.headers["content-type"]]["schema"]["$ref"].split("/")[-1]]
        assert shape["properties"].keys() == set(shape["required"]) == answer.json().keys()


async def test_only_viewers_see_the_detail_of_the_health(
    guarded_api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def health() -> Health:
        return Health("down", "no route to 10.1.2.3:9200")

    monkeypatch.setattr(guarded_api.dlq.store, "health", health)
    for path in ("/healthz", "/readyz"):
        stranger, viewer = (
            await guarded_api.client.get(path),
            await guarded_api.client.get(path, headers=bearer("viewer")),
        )
        assert (stranger.json()["status"], "10.1.2.3" in stranger.text) == ("down", False)
        assert "10.1.2.3" in viewer.json()["detail"]


async def test_adapters_that_tasks_invent_are_no_series_of_their_own(api: ApiHarness) -> None:
    breakers = api.dlq.context.breakers
    for _ in range(5):
        breakers.record_failure("shop", None, api.clock.monotonic())
    await api.client.get("/metrics")
    for number in range(MOST_CIRCUITS + 50):
        breakers.record_failure(f"invented-{number}", None, api.clock.monotonic())
        if number == 2:
            breakers.record_failure("shop", None, api.clock.monotonic())
        if number % 500 == 0:
            await api.client.get("/metrics")
    lines = [line for line in (await api.client.get("/metrics")).text.splitlines() if "circuit_breaker_state{" in line]
    assert len(lines) <= 3 * (MOST_LABELS + 1)
    others = sum(float(line.rpartition(" ")[2]) for line in lines if 'adapter="other"' in line)
    assert others + sum('adapter="other"' not in line and line.endswith(" 1.0") for line in lines) == MOST_CIRCUITS


async def test_a_category_that_there_is_not_is_no_series_of_its_own(api: ApiHarness) -> None:
    lines = [json.loads(letter_as_line(make_letter(error_category=f"invented-{number}"))) for number in range(3)]
    lines.append(json.loads(letter_as_line(make_letter(error_category="network"))))
    assert (await api.post("/dlq/import", lines)).json()["refused"] == {}
    told = [line for line in (await api.client.get("/metrics")).text.splitlines() if "by_category{" in line]
    assert [line.partition("{")[2] for line in told] == ['category="other"} 3.0', 'category="network"} 1.0']


async def test_a_category_that_is_half_a_character_leaves_the_metrics_readable(api: ApiHarness) -> None:
    line = json.loads(letter_as_line(make_letter(task_id="odd")))
    text = json.dumps([{**line, "error_category": "x\ud800"}])
    taken = await api.client.post("/api/v1/dlq/import", content=text, headers={"Content-Type": "application/json"})
    assert taken.json()["refused"] == {}
    answer = await api.client.get("/metrics")
    assert (answer.status_code, 'category="other"' in answer.text) == (200, True)


async def test_pages_name_what_keeps_letters_local_and_why_there_are_more_than_fit() -> None:
    clock, home = ManualClock(), FaultyStore(MemoryStore())
    dlq = DeadLetterQueue(store=FallbackStore(home, MemoryStore(), clock=clock), clock=clock, max_size=1)
    async for api in harness_for(dlq, clock):
        await dlq.enqueue("before", {}, [], "boom")
        outage = home.faults.unavailable("write", kind=LETTERS)
        clock.advance(6)
        await dlq.context.letters.records.write([make_letter(task_id="during")])
        page = await read(api, "/workers")
        assert "1 letter is still in the memory of process" in page and "until that answers again" in page
        assert "1 record kept locally will come home" in " ".join(page.split())
        outage.stop()
        assert (await dlq.store.drain()).waiting == 0  # type: ignore[attr-defined]
        clock.advance(60)
        page = " ".join((await read(api, "/")).split())
        assert "2 of 1" in page and "Over the limit: what was kept locally comes home" in page
        assert "The store is degraded" not in page

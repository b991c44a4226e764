"""Letters over HTTP, with the responses of R320 to R327."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.json_value import Json
from mahavishnu.model.query import Query
from mahavishnu.stores.base import get_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock
from tests.support.api import ApiHarness, harness_for

R320 = "dlq_entry_uuid task_uuid original_state dlq_reason dlq_timestamp retry_count resolution_status task_snapshot"
NEW = {"task_id": "wf", "error": "connection reset"}


async def test_a_list_has_the_documented_fields_newest_first_fifty_at_once(api: ApiHarness) -> None:
    for number in range(60):
        api.clock.advance(1)
        await api.keep(f"wf_{number:02}", created_at=api.clock.now())
    answer = await api.get("/dlq")
    letters = answer.json()
    assert answer.status_code == 200, answer.text
    assert answer.status_code == 200
    assert [letter["task_uuid"] for letter in letters] == [f"wf_{number:02}" for number in range(59, 9, -1)]
    assert set(R320.split()) <= letters[0].keys()
    assert letters[0]["task_snapshot"] == letters[0]["task"] == {"type": "code_sweep"}
    rest = await api.client.get(answer.links["next"]["url"])
    assert [letter["task_id"] for letter in rest.json()] == [f"wf_{number:02}" for number in range(9, -1, -1)]
    assert "next" not in rest.links


async def test_offset_and_limit(api: ApiHarness) -> None:
    for number in range(30):
        api.clock.advance(1)
        await api.keep(f"wf_{number:02}", created_at=api.clock.now())
    page = await api.get("/dlq", params={"limit": 5, "offset": 20})
    assert [letter["task_id"] for letter in page.json()] == ["wf_09", "wf_08", "wf_07", "wf_06", "wf_05"]
    assert (await api.get("/dlq", params={"offset": 1000})).json() == []


async def test_a_page_neither_repeats_nor_omits_while_letters_come_in(api: ApiHarness) -> None:
    for number in range(20):
        api.clock.advance(1)
        await api.keep(f"wf_{number:02}", created_at=api.clock.now())
    page = await api.get("/dlq", params={"limit": 7})
    seen = [letter["task_id"] for letter in page.json()]
    while "next" in page.links:
        api.clock.advance(1)
        await api.keep(f"new_{len(seen)}", created_at=api.clock.now())
        page = await api.client.get(page.links["next"]["url"])
        seen += [letter["task_id"] for letter in page.json()]
    assert seen == [f"wf_{number:02}" for number in range(19, -1, -1)]


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": 0},
        {"limit": -1},
        {"limit": 100000},
        {"limit": "many"},
        {"offset": -1},
        {"resolution_status": "lost"},
        {"status": "gone"},
        {"cursor": "rubbish"},
        {"created_from": "yesterday"},
        {"metadata": "team"},
        {"text": "…"},
        {"colour": "red"},
    ],
)
async def test_a_list_that_cannot_be_asked_for_is_refused_with_a_reason(
    api: ApiHarness, parameters: dict[str, Any]
) -> None:
    answer = await api.get("/dlq", params=parameters)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == 422 and (
        next(iter(parameters)) in told["detail"] or str(parameters.popitem()[1]) in told["detail"]
    )


async def test_filters(api: ApiHarness) -> None:
    await api.keep("a", status="exhausted", error_category="network", metadata={"team": "web"})
    await api.keep("b", status="completed", error="disk is full", queue="nightly")
    await api.keep("c", repos=("api",))

    async def found(**parameters: Any) -> set[str]:
        answer = await api.get("/dlq", params=parameters)
        assert answer.status_code == 200, answer.text
        return {letter["task_id"] for letter in answer.json()}

    assert await found(resolution_status="pending") == {"a", "c"}
    assert await found(status=["exhausted", "completed"]) == {"a", "b"}
    assert await found(category="network") == {"a"}
    assert await found(metadata="team=web") == {"a"}
    assert await found(text="disk FULL") == {"b"}
    assert await found(queue="nightly") == {"b"}
    assert await found(repo="api") == {"c"}
    assert await found(created_before="2001-01-01T00:00:00") == set()


@pytest.mark.parametrize(
    "task_id", ["a/b", "what?", "100%", "ümläut", "a b", "a%2Fb", "#1", "x/requeue", "..", "stats/"]
)
async def test_task_ids_that_need_escaping(api: ApiHarness, task_id: str) -> None:
    made = await api.post("/dlq", {"task_id": task_id, "error": "connection reset"})
    assert made.status_code == 201
    path = "/dlq/" + quote(task_id, safe="").replace(".", "%2E")
    assert (await api.get(path)).json()["task_id"] == task_id
    done = await api.post(f"{path}/requeue")
    assert (done.status_code, done.json()["success"]) == (200, True)
    assert (await api.post(f"{path}/resolve", {"notes": "by hand"})).json()["resolution_status"] == "manually_resolved"


async def test_a_letter_called_stats_is_not_the_statistics(api: ApiHarness) -> None:
    await api.keep("stats")
    assert isinstance((await api.get("/dlq/stats")).json(), list)
    assert [letter["task_id"] for letter in (await api.get("/dlq", params={"task_id": "stats"})).json()] == ["stats"]


async def test_the_adapter_and_the_task_as_captured(api: ApiHarness) -> None:
    """The one can be named, later too, and searched for; the other stays whatever people make of the task."""
    made = await api.post("/dlq", {**NEW, "task": {"n": 1}, "adapter": "invoice"})
    assert (made.status_code, made.json()["adapter"], made.json()["tags"]) == (201, "invoice", [])
    edited = await api.patch("/dlq/wf", {"patch": {"n": 2}, "adapter": "billing"})
    assert edited.status_code == 200, edited.text
    shown = edited.json()
    assert (shown["adapter"], shown["task"], shown["task_snapshot"]) == ("billing", {"n": 2}, {"n": 1})
    (listed,) = (await api.get("/dlq", params={"adapter": "billing"})).json()
    assert (listed["task"], listed["task_snapshot"]) == ({"n": 2}, {"n": 1})
    assert (await api.get("/dlq", params={"adapter": "invoice"})).json() == []
    assert (await api.get("/dlq", params={"tags": "eu"})).json() == []
    assert (await api.patch("/dlq/wf", {"adapter": ""})).status_code == 422


async def test_stats_are_one_line_for_each_reason(api: ApiHarness) -> None:
    await api.keep("a")
    await api.keep("b", status="completed")
    await api.keep("c", reason="manual")
    answer = await api.get("/dlq/stats")
    lines = {line["dlq_reason"]: line for line in answer.json()}
    assert lines.keys() == {"workflow_failed", "manual"}
    assert lines["workflow_failed"] == {
        **{"dlq_reason": "workflow_failed", "total_entries": 2, "pending": 1, "requeued": 1, "permanent_failures": 0},
        **{"manually_resolved": 0, "cancelled": 0, "avg_retries": 0.0},
        **{"oldest_entry": "2026-01-01T00:00:00.000Z", "newest_entry": "2026-01-01T00:00:00.000Z"},
    }


async def test_requeue_answers_as_documented(api: ApiHarness) -> None:
    await api.keep("wf", status="exhausted", priority=5)
    first = await api.post("/dlq/wf/requeue")
    assert first.status_code == 200
    assert first.json() == {
        "success": True,
        "message": "Task requeued successfully",
        "new_state": "pending",
        "retry_count": 1,
    }
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.requeue is not None
    assert (letter.priority, letter.requeue.by) == (15, "api_user")
    second = await api.post("/dlq/wf/requeue", {"max_retries": 3, "priority_boost": 1, "resolved_by": "ann"})
    assert second.status_code == 400
    assert second.json()["detail"] == "Task not found in DLQ or already resolved"
    assert second.json() | {"success": False, "new_state": None, "retry_count": 0} == second.json()
    assert second.json()["why"].endswith("sent back by api_user already: cannot requeue it, no run has ended since")
    unknown = await api.post("/dlq/unknown/requeue")
    assert (unknown.status_code, unknown.json()["why"]) == (400, "there is no letter 'unknown'")
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.priority == 15


async def test_the_limit_of_requeues_gives_the_letter_up(api: ApiHarness) -> None:
    await api.keep("wf", status="exhausted", dlq_retry_count=3)
    answer = await api.post("/dlq/wf/requeue", {"max_retries": 3})
    assert (answer.status_code, answer.json()["detail"]) == (400, "Max DLQ retries exceeded")
    letter = await api.dlq.get_task("wf")
    assert letter is not None
    assert (letter.resolution.notes, letter.resolution.by) == ("Max DLQ retries (3) exceeded", "system_max_retries")


async def test_an_edit_needs_the_etag_that_was_read(api: ApiHarness) -> None:
    await api.keep("wf", task={"url": "a", "n": 1})
    read = await api.get("/dlq/wf")
    mark = {"If-Match": read.headers["etag"]}
    assert (await api.get("/dlq/wf", headers={"If-None-Match": read.headers["etag"]})).status_code == 304
    edited = await api.patch("/dlq/wf", {"patch": {"url": "b", "n": None}, "by": "ann"}, headers=mark)
    assert (edited.status_code, edited.json()["task"], edited.json()["revision"]) == (200, {"url": "b"}, 1)
    stale = await api.patch("/dlq/wf", {"priority": 9}, headers=mark)
    assert (stale.status_code, stale.json()["type"]) == (412, "urn:mahavishnu:problem:changed-meanwhile")
    again = await api.patch("/dlq/wf", {"priority": 9}, headers={"If-Match": edited.headers["etag"]})
    assert again.json()["priority"] == 9
    before = (await api.get("/dlq/wf/revisions")).json()
    assert [each["task"] for each in before] == [{"url": "a", "n": 1}, {"url": "b"}]


async def test_a_preview_of_an_edit_changes_nothing(api: ApiHarness) -> None:
    await api.keep("wf", task={"url": "a"})
    answer = await api.post("/dlq/wf/preview", {"patch": {"url": "b"}})
    assert answer.json()["diff"] == [{"path": "/task/url", "before": "a", "after": "b"}]
    assert answer.json()["refused"] is None
    for made in ({}, {"create": True}):
        refused = (await api.post("/dlq/wf/preview", {"patch": {"ulr": "b"}, **made})).json()["refused"]
        assert (refused is None) is bool(made)
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.task == {"url": "a"}


async def test_locked_and_unknown_fields_cannot_be_edited(api: ApiHarness) -> None:
    await api.keep("wf")
    for change in ({"task_id": "other"}, {"status": "completed"}, {}, {"max_retries": -1}, {"task": 1, "patch": {}}):
        assert (await api.patch("/dlq/wf", change)).status_code == 422, change
    refused = await api.patch("/dlq/wf", {"patch": {"x": 1}})
    assert (refused.status_code, "create" in refused.json()["detail"]) == (422, True)
    assert (await api.patch("/dlq/wf", {"patch": {"x": 1}, "create": True})).status_code == 200


async def test_acts_of_a_person(api: ApiHarness) -> None:
    for act, status in {
        "resolve": "completed",
        "fail": "exhausted",
        "cancel": "archived",
        "archive": "archived",
    }.items():
        await api.keep(act)
        answer = await api.post(f"/dlq/{act}/{act}", {"by": "ann", "notes": "because"})
        assert (answer.status_code, answer.json()["status"], answer.json()["resolved_by"]) == (200, status, "ann"), act
        again = await api.post(f"/dlq/{act}/{act}")
        assert (again.status_code, again.json()["type"].rpartition(":")[2]) in [
            (409, "already-resolved"),
            (409, "illegal-move"),
        ], act
        assert (await api.post(f"/dlq/nobody/{act}")).status_code == 404
    await api.keep("wf", status="exhausted")
    redriven = await api.post("/dlq/wf/redrive")
    assert (redriven.json()["status"], redriven.json()["retry_count"]) == ("pending", 0)


async def test_a_retry_runs_the_letter_here(api: ApiHarness) -> None:
    await api.keep("wf")
    without = await api.post("/dlq/wf/retry", {"notes": "it is mended"})
    assert (without.status_code, "start it with --app" in without.json()["detail"]) == (409, True)
    assert (await api.dlq.audit.list(action="retry")).items[0].reason == "it is mended"
    api.dlq.processing.callback = lambda task, repos: "fine"
    assert (await api.post("/dlq/wf/retry")).json()["status"] == "completed"
    assert (await api.post("/dlq/nobody/retry")).status_code == 404


async def test_clear_wants_a_confirmation(api: ApiHarness) -> None:
    await api.keep("wf")
    assert (await api.post("/dlq/clear")).status_code == 422
    assert (await api.post("/dlq/clear", {"confirm": "yes"})).status_code == 422
    assert await get_one(api.dlq.context.letters, "wf") is not None
    assert (await api.post("/dlq/clear", {"confirm": "delete every open letter"})).json() == {"cleared": 1}
    assert await get_one(api.dlq.context.letters, "wf") is None


async def test_a_full_queue_refuses_a_new_letter(api: ApiHarness) -> None:
    api.dlq.max_size = 1
    assert (await api.post("/dlq", {"task_id": "a", "error": "x"})).status_code == 201
    full = await api.post("/dlq", {"task_id": "b", "error": "x"})
    assert (full.status_code, full.json()["type"]) == (409, "urn:mahavishnu:problem:queue-full")


async def test_half_characters_in_a_payload_come_back(api: ApiHarness) -> None:
    made = await api.client.post(
        "/api/v1/dlq",
        content=b'{"task_id": "wf", "error": "x", "task": {"a": "\\ud83d"}}',
        headers={"Content-Type": "application/json"},
    )
    assert made.status_code in (201, 422)
    if made.status_code == 201:
        assert (await api.get("/dlq")).json()[0]["task"] == {"a": "\ud83d"}


async def test_statistics_without_the_primary_store_are_marked_degraded() -> None:
    primary, clock = FaultyStore(MemoryStore()), ManualClock()
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS, clock=clock)
    async for api in harness_for(DeadLetterQueue(store=store, clock=clock), clock):
        await api.post("/dlq", {"task_id": "far", "error": "connection reset"})
        run = await api.post("/runs", {"verb": "archive", "everything": True})
        items = f"/runs/{run.json()['run_id']}/items"
        for path in ("/dlq/stats", "/dlq/statistics", items):
            answer = await api.get(path)
            assert (answer.status_code, answer.headers.get("x-degraded")) == (200, None), path
        primary.faults.unavailable()
        await api.post("/dlq", {"task_id": "near", "error": "connection reset"})
        for path in ("/dlq/stats", "/dlq/statistics"):
            answer = await api.get(path)
            assert answer.status_code == 200, path
            assert answer.headers["x-degraded"].startswith("only what is kept locally is shown"), path
        assert (await api.get(items)).status_code == 503  # a run is known whole, or not at all


async def test_a_page_of_large_letters_ends_early_and_leads_on(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahavishnu.letters.documents.PAGE_BYTES", 50_000)
    sizes = [10] * 60 + [4_000] * 30 + [60_000] * 2 + [10] * 400
    for number, size in enumerate(sizes):
        api.clock.advance(1)
        await api.keep(f"wf_{number:03}", created_at=api.clock.now(), payload=Json.of("x" * size))
    real, read = type(api.dlq.context.letters).find, list[int]()

    async def find(self: Any, query: Query, after: Any = None) -> Any:
        page = await real(self, query, after)
        read.append(len(page.items))
        return page

    monkeypatch.setattr(type(api.dlq.context.letters), "find", find)
    pages = list[list[str]]()
    url: str | None = "/api/v1/dlq?limit=1000&sort=oldest"
    while url:
        answer = await api.client.get(url)
        pages.append([letter["task_id"] for letter in answer.json()])
        url = answer.links.get("next", {}).get("url")
        assert len(answer.content) < 50_000 * 2 + 2_000 * len(pages[-1]) or len(pages[-1]) == 1
    assert [name for page in pages for name in page] == [f"wf_{number:03}" for number in range(len(sizes))]
    assert [len(page) for page in pages][:1] == [65]  # 60 small ones, and what fits of the larger ones
    assert sum(len(page) == 1 for page in pages) >= 2
    assert max(read) == 250
    read.clear()
    assert len((await api.get("/dlq", params={"limit": 40, "sort": "oldest"})).json()) == 40
    assert read == [40]


async def test_an_edit_of_the_deepest_task_is_done_and_answered(api: ApiHarness) -> None:
    for depth in (100, 199, 200):
        deep: Any = 1
        for _ in range(depth):
            deep = [deep]
        await api.post("/dlq", {**NEW, "task_id": f"deep{depth}", "task": deep})
        edited = await api.patch(f"/dlq/deep{depth}", {"task": {"flat": 1}})
        assert (edited.status_code, edited.json()["task"]) == (200, {"flat": 1})
        (entry,) = (await api.dlq.audit.list(subject=f"letter:deep{depth}")).items
        assert (entry.outcome, entry.changes.value["task"]["after"]) == ("done", {"flat": 1})


@pytest.mark.parametrize("name", ["stats", "statistics", "export", "clear", "import", "letter"])
async def test_a_task_that_is_called_like_a_route_can_be_read_and_worked_on(api: ApiHarness, name: str) -> None:
    await api.keep(name)
    read = await api.get(f"/dlq/{name}/letter")
    assert (read.json()["task_id"], bool(read.headers["etag"])) == (name, True)
    edited = await api.patch(f"/dlq/{name}", {"priority": 3}, headers={"If-Match": read.headers["etag"]})
    assert (edited.status_code, edited.json()["priority"]) == (200, 3)
    again = await api.get(f"/dlq/{name}/letter", headers={"If-None-Match": edited.headers["etag"]})
    assert again.status_code == 304
    assert (await api.post(f"/dlq/{name}/resolve")).json()["task_id"] == name


async def test_a_failure_with_another_payload_is_answered_with_the_id_of_its_own_letter(api: ApiHarness) -> None:
    first, other, again = [(await api.post("/dlq", {**NEW, "task": {"n": n}})).json() for n in (1, 2, 2)]
    assert (first["task_id"], other["task_id"]) == ("wf", f"wf@{Json.of({'n': 2}).digest}")
    assert (again["entry_id"], again["occurrences"], again["source_id"]) == (other["entry_id"], 2, "wf")
    found = (await api.get("/dlq", params={"source_id": "wf"})).json()
    assert [letter["task"] for letter in found] == [{"n": 2}]
    assert (await api.get(f"/dlq/{other['task_id']}")).json()["task"] == {"n": 2}

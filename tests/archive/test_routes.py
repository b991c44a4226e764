"""The archive over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from mahavishnu.model.rules import RetentionRules
from mahavishnu.tasks.service import Lifecycle
from tests.support.api import ApiHarness


@pytest.fixture
async def archived(api: ApiHarness) -> ApiHarness:
    """Three letters in the archive, the last of which has a former one and a revision."""
    for number in range(3):
        await api.dlq.enqueue(f"wf_{number}", {"n": number}, [], "connection refused")
        await api.dlq.letters.resolve(f"wf_{number}")
        api.clock.advance(1)
    await api.dlq.enqueue("wf_2", {"n": 2}, [], "connection refused")
    await api.dlq.letters.edit("wf_2", priority=3)
    await api.dlq.letters.resolve("wf_2")
    api.clock.advance(timedelta(days=31))
    return api


async def test_it_is_run_dry_unless_told_otherwise(archived: ApiHarness) -> None:
    told = (await archived.post("/archive/run")).json()
    assert (told["tasks_archived"], told["dry_run"]) == (3, True)
    assert (await archived.get("/archive")).json() == []
    assert (await archived.post("/archive/run", {"retention_days": 40})).json()["tasks_archived"] == 0
    done = (await archived.post("/archive/run", {"dry_run": False, "by": "ann"})).json()
    assert (done["tasks_archived"], done["steps_archived"], done["transitions_archived"]) == (3, 1, 1)
    assert (await archived.post("/archive/run", {"dry_run": "no"})).status_code == 422


async def test_pages_and_filters(archived: ApiHarness) -> None:
    await archived.post("/archive/run", {"dry_run": False})
    first = await archived.get("/archive", params={"limit": 2})
    assert [each["task_id"] for each in first.json()] == ["wf_2", "wf_1"]
    rest = await archived.client.get(first.links["next"]["url"])
    assert [each["task_id"] for each in rest.json()] == ["wf_0"]
    assert "link" not in rest.headers
    (line,) = (await archived.get("/archive", params={"task_id": "wf_1"})).json()
    assert line["partition"] == "2026_01"
    assert (await archived.get("/archive", params={"until": "2026-01-01T00:00:00Z"})).json() == []
    assert (await archived.get("/archive", params={"cursor": "x"})).status_code == 422


async def test_one_is_shown_and_put_back(archived: ApiHarness) -> None:
    await archived.post("/archive/run", {"dry_run": False})
    case = (await archived.get("/archive/wf_2")).json()
    assert (case["letter"]["generation"], len(case["former"]), len(case["revisions"])) == (2, 1, 1)
    restored = await archived.post("/archive/wf_2/restore", {"by": "ann", "notes": "why not"})
    assert (restored.status_code, restored.json()["task_id"]) == (200, "wf_2")
    assert (await archived.get("/archive/wf_2")).status_code == 404
    await archived.dlq.enqueue("wf_1", {"n": 1}, [], "connection refused")
    refused = await archived.post("/archive/wf_1/restore")
    assert (refused.status_code, "failed again" in refused.json()["detail"]) == (409, True)


async def test_months(archived: ApiHarness) -> None:
    await archived.post("/archive/run", {"dry_run": False})
    (month,) = (await archived.get("/archive/partitions")).json()
    assert (month["name"], month["state"], month["letters"]) == ("2026_01", "attached", 3)
    assert (await archived.post("/archive/partitions/2026_01/detach")).json() == {"place": "in memory"}
    assert (await archived.get("/archive")).json() == []
    (month,) = (await archived.post("/archive/partitions/2026_01/attach")).json()
    assert (month["state"], month["kept"]) == ("attached", True)
    path = "/api/v1/archive/partitions/2026_01"
    assert (await archived.client.delete(path)).status_code == 409
    await archived.post("/archive/partitions/2026_01/detach")
    assert (await archived.client.delete(path)).json() == []
    assert (await archived.client.delete(path)).status_code == 404


async def test_a_letter_is_deleted(archived: ApiHarness) -> None:
    await archived.post("/archive/run", {"dry_run": False})
    path = "/api/v1/dlq/wf_2"
    gone = await archived.client.request("DELETE", path, json={"by": "ann", "notes": "erasure"})
    assert gone.json() == {"letters": 0, "former": 0, "copies": 1, "waiting": 0, "detached": []}
    assert (await archived.get("/archive/wf_2")).status_code == 404
    assert (await archived.client.delete("/api/v1/dlq/nothing")).status_code == 404
    (entry,) = (await archived.dlq.audit.list(action="delete", outcome="done")).items
    assert (entry.actor, entry.reason) == ("ann", "erasure")


async def test_steps_for_analysis_are_begun_and_read(archived: ApiHarness) -> None:
    await archived.post("/archive/run", {"dry_run": False})
    assert (await archived.post("/archive/exports")).status_code == 422
    rules = archived.dlq.context.rules(RetentionRules)
    archived.dlq.context.set_rules(replace(rules, analytics_export=True))
    assert (await archived.post("/archive/exports")).json() == {"watermark": 1}
    answer = await archived.get("/archive/exports?upto=1")
    assert {json.loads(line)["task_id"] for line in answer.text.splitlines()} == {"wf_0", "wf_1", "wf_2"}
    assert (await archived.get("/archive/exports?after=1&upto=1")).text == ""
    assert len((await archived.get("/archive/exports?upto=1&format=csv")).text.splitlines()) == 4
    assert (await archived.get("/archive/exports?upto=2")).status_code == 422


async def test_an_archived_lifecycle_task_is_shown_with_its_letter(archived: ApiHarness) -> None:
    lifecycle = Lifecycle(archived.dlq.context)
    task_id = (await lifecycle.create("pay")).task_id
    await lifecycle.move_to_dlq(task_id, by="ann")
    await archived.dlq.letters.resolve(task_id)
    archived.clock.advance(timedelta(days=31))
    assert (await archived.post("/archive/run", {"dry_run": False})).json()["lifecycle_tasks_archived"] == 1
    shown = (await archived.get(f"/archive/tasks/{task_id}")).json()
    assert (shown["task"]["task_id"], shown["letter"]["task_id"]) == (task_id, task_id)
    assert [each["to_state"] for each in shown["task"]["transitions"]] == ["error"]
    (line,) = (await archived.get(f"/archive/{task_id}")).json()["tasks"]
    assert (line["task_id"], line["state"]) == (task_id, "error")
    assert (await archived.get("/archive/tasks/nothing")).status_code == 404
    (line,) = (await archived.get("/archive/tasks?state=error&name=pay")).json()
    assert (line["task_id"], line["partition"], "task" in line) == (task_id, shown["partition"], False)
    assert (await archived.get("/archive/tasks?since=2030-01-01T00:00:00Z")).json() == []
    for wrong in ("state=odd", "limit=0", "cursor=x", "unknown=1"):
        assert (await archived.get(f"/archive/tasks?{wrong}")).status_code == 422, wrong

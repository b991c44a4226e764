"""The views of the dashboard over HTTP."""

from __future__ import annotations

from datetime import timedelta

from mahavishnu.tasks.service import Lifecycle
from tests.support.api import ApiHarness


async def test_the_views_are_what_the_queue_says(api: ApiHarness) -> None:
    await Lifecycle(api.dlq.context).create("import")
    for name in ("one", "other"):
        await api.dlq.enqueue(name, {}, [], "boom")
    await api.dlq.letters.resolve("other")
    api.clock.advance(timedelta(days=31))
    await api.dlq.archive.archive_completed_tasks(dry_run=False)

    (reason,) = (await api.get("/dashboard/dlq")).json()
    assert (reason["dlq_reason"], reason["total_entries"], reason["pending"]) == ("workflow_failed", 1, 1)
    (state,) = (await api.get("/dashboard/staleness")).json()
    (task,) = (await Lifecycle(api.dlq.context).list()).items
    assert state == {
        "current_state": "pending", "task_count": 1, "avg_minutes_in_state": 44640.0, "max_minutes_in_state": 44640.0,
        "stale_over_1h": 1, "stale_over_1day": 1, "top_stale_tasks": [task.task_id],
    }  # fmt: skip
    (month,) = (await api.get("/dashboard/archive")).json()
    assert month == {
        **month,
        "month": "2026_01",
        "tasks_archived": 1,
        "steps_archived": 0,
        "lifecycle_tasks_archived": 0,
    }
    assert month["archive_size"] > 500


async def test_another_namespace_has_its_own(api: ApiHarness) -> None:
    await api.dlq.enqueue("one", {}, [], "boom", namespace="eu")
    assert (await api.get("/dashboard/dlq")).json() == []
    for name in ("eu", "*"):
        (line,) = (await api.get("/dashboard/dlq", params={"namespace": name})).json()
        assert line["total_entries"] == 1


async def test_numbers_that_are_not_the_whole_truth_say_so(api: ApiHarness) -> None:
    await api.dlq.enqueue("one", {}, [], "boom")
    await api.dlq.letters.resolve("one")
    api.clock.advance(timedelta(days=31))
    await api.dlq.archive.archive_completed_tasks(dry_run=False)
    (partition,) = (await api.get("/archive/partitions")).json()
    await api.post(f"/archive/partitions/{partition['name']}/detach")
    answer = await api.get("/dashboard/archive")
    assert answer.headers["x-degraded"] == "what is in detached partitions is not counted: 2026_01"
    assert answer.json()[0]["tasks_archived"] is None

"""Lifecycle tasks over HTTP."""

from __future__ import annotations

from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import StepRecord
from tests.support.api import ApiHarness


async def test_tasks_are_listed_shown_and_moved(api: ApiHarness) -> None:
    lifecycle = Lifecycle(api.dlq.context)
    done = await lifecycle.create("pay", {"n": 1})
    await lifecycle.finalize(done.task_id)
    task = await lifecycle.create("pay", {"n": 2}, steps=[StepRecord("a"), StepRecord("b", ("a",))])
    await lifecycle.transition(task.task_id, "initializing")

    (listed,) = (await api.get("/tasks")).json()
    assert (listed["task_id"], listed["state"], listed["context"]) == (task.task_id, "initializing", {"n": 2})
    assert "run" not in listed
    assert len((await api.get("/tasks?state=all&limit=1")).json()) == 1
    first = await api.get("/tasks?state=all&limit=1")
    assert "next" in first.headers["Link"]
    assert [each["task_id"] for each in (await api.get("/tasks?state=complete&name=pay")).json()] == [done.task_id]
    shown = (await api.get(f"/tasks/{task.task_id}")).json()
    assert [each["most_recent"] for each in shown["transitions"]] == [True]
    assert shown["readiness"] == {"a": None, "b": "it waits for a"}

    moved = (await api.post(f"/tasks/{task.task_id}/move", {"notes": "it hangs", "by": "ann"})).json()
    assert moved == {"task_id": task.task_id, "original_state": "initializing", "created": True}
    assert (await api.post(f"/tasks/{task.task_id}/move")).json()["created"] is False
    assert "it hangs" in (await api.get(f"/dlq/{task.task_id}")).json()["error"]


async def test_what_is_not_there_and_what_has_ended(api: ApiHarness) -> None:
    lifecycle = Lifecycle(api.dlq.context)
    task = await lifecycle.create("pay")
    await lifecycle.finalize(task.task_id)
    assert (await api.get("/tasks/x")).status_code == 404
    assert (await api.post("/tasks/x/move")).status_code == 404
    assert (await api.post(f"/tasks/{task.task_id}/move")).status_code == 409
    refused = await api.get("/tasks?state=done")
    assert refused.status_code == 422
    assert "steps_in_process" in refused.text
    other = await api.get(f"/tasks/{task.task_id}?namespace=eu")
    assert other.status_code == 404

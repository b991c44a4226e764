"""The pages of lifecycle tasks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import StepRecord, TaskState
from tests.console.test_forms import post
from tests.support.api import ApiHarness
from tests.support.pages import EVIL, away, read, require_inert


async def stuck_task(api: ApiHarness, name: str = "import") -> str:
    lifecycle = Lifecycle(api.dlq.context)
    task = await lifecycle.create(name, {name: name}, steps=[StepRecord("fetch"), StepRecord("price", ("fetch",))])
    await lifecycle.transition(task.task_id, "initializing")
    await lifecycle.transition(task.task_id, "steps_in_process")
    api.clock.advance(timedelta(hours=3))
    return task.task_id


async def test_nothing_is_tracked(api: ApiHarness) -> None:
    shown = await read(api, "/tasks")
    assert "No task hangs" in shown and "Nothing is tracked that has not ended" in shown
    await read(api, "/tasks/none", status=404)
    await read(api, "/tasks?state=nonsense", status=422)


async def test_what_hangs_is_shown_and_then_handed_over(api: ApiHarness) -> None:
    task_id = await stuck_task(api)
    shown = await read(api, "/tasks")
    assert "1 task hangs" in shown and "a letter is made, and it ends in error" in shown
    assert (await Lifecycle(api.dlq.context).get(task_id)).state is TaskState.STEPS_IN_PROCESS
    one = await read(api, f"/tasks/{task_id}")
    assert "hangs: 30 min are allowed" in one and "it waits for fetch" in one and "it can be run now" in one
    assert (await post(api, "/tasks/detect")).status_code == 303
    assert "1 task has a letter now." in await read(api, "/tasks")
    assert (await Lifecycle(api.dlq.context).get(task_id)).state is TaskState.ERROR
    await post(api, "/tasks/detect")
    assert "nothing was done" in await read(api, "/tasks")


async def test_one_is_moved_by_hand(api: ApiHarness) -> None:
    task_id = await stuck_task(api)
    for said in ("It is in error, and has a letter now", "It has a letter already"):
        moved = await post(api, f"/tasks/{task_id}/move", reason="OPS-3")
        assert moved.status_code == 303
        assert said in await read(api, f"/tasks/{task_id}")
    letters = await api.dlq.list_tasks()
    assert len(letters) == 1 and "OPS-3" in letters[0].error


async def test_one_that_ended_cannot_be_moved(api: ApiHarness) -> None:
    lifecycle = Lifecycle(api.dlq.context)
    task = await lifecycle.create("pay")
    await lifecycle.finalize(task.task_id)
    assert "there is nothing to be done" in await read(api, f"/tasks/{task.task_id}")
    assert (await post(api, f"/tasks/{task.task_id}/move")).status_code == 409
    assert "pay" in await read(api, "/tasks?state=complete") and "No such task" in await read(api, "/tasks?name=pay")


async def test_viewers_look_and_operators_act(guarded_api: ApiHarness) -> None:
    task_id = await stuck_task(guarded_api)
    for path in ("/tasks", f"/tasks/{task_id}"):
        assert 'disabled title="operators may"' in await read(guarded_api, path, "viewer")
    for act in ("/tasks/detect", f"/tasks/{task_id}/move"):
        assert (await post(guarded_api, act, "viewer")).status_code == 403
    assert (await post(guarded_api, "/tasks/detect", "operator")).status_code == 303


async def test_what_cannot_be_read_is_said(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = await stuck_task(api)
    monkeypatch.setattr(Lifecycle, "detect_and_transition_stale_tasks", away)
    monkeypatch.setattr(Lifecycle, "transitions", away)
    assert "Whether tasks hang is not known now" in await read(api, "/tasks")
    assert "Its moves cannot be read now" in await read(api, f"/tasks/{task_id}")


async def test_what_strangers_wrote_is_text(api: ApiHarness) -> None:
    task_id = await stuck_task(api, EVIL)
    for path in ("/tasks", f"/tasks/{task_id}"):
        require_inert(await read(api, path))

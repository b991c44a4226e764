"""Tracked workflows of code without an event loop."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.errors import InvalidInput
from mahavishnu.tasks.task import TaskState


def shop_on(path: Path, effects: Counter[str], fails: list[bool]) -> tuple[MahavishnuApp, Any]:
    app = MahavishnuApp(
        MahavishnuSettings(
            dlq_store_url=f"sqlite:///{path}/letters.db",
            dlq_default_retry_policy="immediate",
            dlq_automatic_policy="default",
        )
    )

    def charge(order: int) -> tuple[int, str]:
        effects["charge"] += 1
        return order, threading.current_thread().name

    def send(name: str) -> None:
        if fails:
            raise ConnectionError("no van")
        effects["send"] += 1

    @app.workflow(name="ship", track=True)
    def ship(order: int) -> str:
        number, name = app.sync.lifecycle.step("charge", charge, order)
        app.sync.lifecycle.step("send", send, name=name)
        assert number == order
        return name

    return app, ship


def test_a_sync_workflow_is_tracked_and_goes_on_elsewhere(tmp_path: Path) -> None:
    """Steps run in the thread of their caller; a worker gets what they returned."""
    effects, fails = Counter[str](), [True]
    here, ship = shop_on(tmp_path, effects, fails)
    with here.sync as sync:
        with pytest.raises(ConnectionError):
            ship(7)
        (task,) = sync.lifecycle.list("all").items
        assert (task.state, task.context.value) == (TaskState.ERROR, {"order": 7})
        assert [str(step.state) for step in task.steps] == ["complete", "waiting_for_retry"]
        assert task.steps[0].result is not None
        assert task.steps[0].result.value == [7, threading.current_thread().name]
    fails.clear()
    there, again = shop_on(tmp_path, effects, fails)
    with there.sync as sync:
        sync.start_dlq_processor()
        sync.dlq.run_due()
        sync.stop_dlq_processor()
        assert effects == {"charge": 1, "send": 1}
        assert [each.state for each in sync.lifecycle.list("all").items] == [TaskState.COMPLETE]
        assert again(8) == threading.current_thread().name
        assert len(sync.lifecycle.list("complete").items) == 2
        assert sync.lifecycle.step("plain", max, 1, 2) == 2


async def test_where_an_event_loop_runs_a_sync_workflow_runs_untracked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody could wait for the store there; the work is done all the same."""
    app, ship = shop_on(tmp_path, Counter(), [])
    assert ship(7)
    assert "is not tracked: it is called where an event loop is running" in caplog.text
    await app.shutdown()


def test_an_app_without_a_queue_runs_what_is_tracked(tmp_path: Path) -> None:
    """It keeps no letters, and no tasks."""
    app = MahavishnuApp(MahavishnuSettings(dlq_enabled=False))

    @app.workflow(track=True)
    def work() -> int:
        return app.sync.lifecycle.step("one", int, "1")

    assert work() == 1


def test_an_async_step_of_a_sync_workflow_is_refused(tmp_path: Path) -> None:
    """It would not be run, and nobody would be told: whether it says that it is async, or only returns a coroutine."""
    app, _ = shop_on(tmp_path, Counter(), [])

    async def send() -> None: ...

    def hidden() -> Any:
        return send()

    @app.workflow(name="mail", track=True, retry_policy="never")
    def mail(step: Any) -> None:
        app.sync.lifecycle.step("send", step)

    with app.sync as sync:
        for step in (send, hidden):
            with pytest.raises(InvalidInput, match="step 'send' is an async function"):
                mail(step)
        states = [step.state for task in sync.lifecycle.list("all").items for step in task.steps]
        assert "complete" not in states

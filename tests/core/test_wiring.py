"""Adapters and backoffs that plugins offer."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.testing import ManualClock
from tests.support.queues import House, queue_of

PLUGIN = """
from mahavishnu import hookimpl

@hookimpl
def adapters():
    return {"echo": lambda task, repos: task, "broken": 7}

@hookimpl
def backoffs():
    return {"steady": lambda failed: 90}
"""
OTHER = "from mahavishnu import hookimpl\n@hookimpl\ndef adapters():\n    raise OSError('no disk')\n"


@pytest.fixture
def app(tmp_path: Path) -> MahavishnuApp:
    (tmp_path / "house.py").write_text(PLUGIN)
    (tmp_path / "other.py").write_text(OTHER)
    return MahavishnuApp(
        MahavishnuSettings(dlq_store_url="memory:", plugin_directory=tmp_path, dlq_strategy="automatic"),
        clock=ManualClock(),
    )


async def test_an_adapter_of_a_plugin_runs_workflows(app: MahavishnuApp) -> None:
    result = await app.execute_workflow({"say": "hello"}, "echo")
    assert (result["status"], result["result"]) == ("completed", {"say": "hello"})


async def test_an_adapter_registered_by_the_app_counts_more(app: MahavishnuApp) -> None:
    app.register_adapter("echo", lambda task, repos: "mine")
    assert (await app.execute_workflow({}, "echo"))["result"] == "mine"


async def test_a_backoff_of_a_plugin_is_used(app: MahavishnuApp) -> None:
    letter = await app.dlq.enqueue("wf_1", {}, [], "reset", retry_policy="custom:steady")
    assert letter.next_retry_at == app.dlq.clock.now() + timedelta(seconds=90)


async def test_an_unusable_offer_is_logged_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "house.py").write_text(PLUGIN)
    (tmp_path / "other.py").write_text(OTHER)
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:", plugin_directory=tmp_path))
    assert sorted(app.adapters.known) == ["echo"]
    assert "plugin other was passed over at adapters" in caplog.text
    assert "what plugin house offers as 'broken' cannot be used" in caplog.text


async def test_an_app_with_a_name_of_its_own_captures_runs_and_closes_in_its_namespace(any_house: House) -> None:
    red, blue = any_house.app(dlq_namespace="red"), any_house.app(dlq_namespace="blue")
    works: dict[str, bool] = {"red": False, "blue": False}
    ran: list[str] = []

    def run_as(name: str) -> Any:
        def run(task: Any, repos: list[str]) -> None:
            ran.append(name)
            if not works[name]:
                raise ConnectionError("connection refused")

        return run

    for name, app in (("red", red), ("blue", blue)):
        app.register_adapter("flaky", run_as(name))
        await app.execute_workflow({"id": "same"}, "flaky")
    assert [letter.namespace for letter in await queue_of(red).list_tasks()] == ["red"]
    works["red"] = True
    await red.execute_workflow({"id": "same"}, "flaky")
    await queue_of(red).closing.flush()
    assert await queue_of(red).list_tasks() == []
    assert [letter.namespace for letter in await queue_of(blue).list_tasks()] == ["blue"]
    ran.clear()
    any_house.clock.advance(3600)
    assert await queue_of(red).run_due() == 0
    assert await queue_of(blue).run_due() == 1
    assert ran == ["blue"]

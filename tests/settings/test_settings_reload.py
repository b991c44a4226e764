"""Settings that change while the app runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from mahavishnu.core.api import create_app
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.engine.context import Limits
from mahavishnu.letters.rules import RequeueRules
from tests.support.queues import House, Runs, fill, letter_of, pass_time, queue_of, settle

Write = Callable[[str], None]


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    path = tmp_path / "mahavishnu.yaml"
    monkeypatch.setenv("MAHAVISHNU_SETTINGS", str(path))

    def write(text: str) -> None:
        path.write_text(f"dlq_store_url: 'memory:'\n{text}\n")

    write("")
    return write


async def health_of(app: MahavishnuApp) -> dict[str, Any]:
    """What the API of this process says."""
    transport = httpx.ASGITransport(create_app(app.dlq), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        found: dict[str, Any] = (await client.get("/healthz")).json()
    return found


def app_of(house: House) -> MahavishnuApp:
    return MahavishnuApp(MahavishnuSettings(), store=house.store(), clock=house.clock)


async def test_another_interval_counts_from_the_next_tick(house: House, settings_file: Write) -> None:
    app = app_of(house)
    app.register_adapter("llamaindex", runs := Runs())
    await app.start_dlq_processor()
    await house.clock.sleeping(4)
    settings_file("dlq_retry_interval_seconds: 10")
    assert app.reload().changed == ("dlq_retry_interval_seconds",)
    await settle()
    await fill(house.queue(), 1, adapter="llamaindex")
    await pass_time(house.clock, 10, sleepers=4)
    assert len(runs.calls) == 1
    assert (await queue_of(app).get_statistics())["retry_interval_seconds"] == 10
    await app.shutdown()


async def test_what_is_wrong_changes_nothing_and_is_said(house: House, settings_file: Write) -> None:
    settings_file("dlq_max_size: 200")
    app = app_of(house)
    for broken in ("dlq_max_size: 5", "dlq_max_size: [", "dlq_max_sise: 300"):
        settings_file(broken)
        assert app.reload().error is not None
        assert app.config_error is not None
        assert "mahavishnu.yaml" in app.config_error
        assert (queue_of(app).max_size, app.config.dlq_max_size) == (200, 200)
        assert app.config_error in (await health_of(app))["config_error"]
    await queue_of(app).enqueue("wf_1", {}, [], "boom")
    settings_file("dlq_max_size: 300")
    assert app.reload().changed == ("dlq_max_size",)
    assert (queue_of(app).max_size, app.config_error) == (300, None)
    assert (await health_of(app))["config_error"] is None
    await app.shutdown()


async def test_everything_that_can_change_does(house: House, settings_file: Write) -> None:
    app = app_of(house)
    queue_of(app).register_backoff("mine", lambda failed: 7)
    settings_file("""
dlq_strategy: manual
dlq_default_max_retries: 8
dlq_automatic_policy: default
dlq_retry_concurrency: 4
retry_jitter: true
circuit: {failure_threshold: 2, cooloff_seconds: 3}
""")
    assert app.reload().error is None
    queue, integration = queue_of(app), app.dlq_integration
    assert integration is not None
    assert (integration.get_strategy(), queue.context.letter_factory.by_category) == ("manual", False)
    assert (queue.context.letter_factory.max_retries, queue.context.limits.concurrency) == (8, 4)
    assert (queue.context.breakers.threshold, queue.context.breakers.cooloff_seconds) == (2, 3)
    assert queue.context.backoffs.random is not None
    assert "mine" in queue.context.backoffs.custom


async def test_another_namespace_counts_from_the_next_start(
    house: House, settings_file: Write, caplog: pytest.LogCaptureFixture
) -> None:
    settings_file("dlq_namespace: red")
    app = house.app()
    settings_file("dlq_namespace: blue")
    assert app.reload().changed == ("dlq_namespace",)
    assert "these settings count from the next start: dlq_namespace" in caplog.text
    assert (await queue_of(app).enqueue("wf_1", {}, [], "boom")).namespace == "red"
    settings_file("dlq_namespace: 'a/b'")
    assert "dlq_namespace cannot be that" in str(app.reload().error)


async def test_plugins_and_rules_are_read_again(house: House, settings_file: Write, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    rules = tmp_path / "rules.yaml"
    rules.write_text("[{text: odd flaw, category: network}]")
    settings_file(f"plugin_directory: {tmp_path / 'plugins'}\nclassifier_rules: {rules}")
    app = app_of(house)
    app.chain.plugins.register(lambda error: "resource" if "mine" in str(error) else None, "mine")
    (tmp_path / "plugins" / "late.py").write_text(
        "from mahavishnu import hookimpl\n\n@hookimpl\ndef classify_error(error):\n"
        "    return 'transient' if 'late' in str(error) else None\n"
    )
    rules.write_text("[{text: odd flaw, category: validation}]")
    app.reload()
    texts = ("odd flaw", "late", "mine")
    said: list[Any] = [await app.error_recovery_manager.classify_error(text) for text in texts]
    assert said == ["validation", "transient", "resource"]
    assert (await queue_of(app).enqueue("wf_1", {}, [], "late")).error_category == "transient"
    settings_file(f"dlq_max_size: 300\nplugin_directory: {tmp_path / 'plugins'}\nclassifier_rules: {rules}")
    rules.write_text("[{text: odd flaw, category: flaky}]")
    assert app.reload().error is not None
    assert "flaky" in str(app.config_error)
    assert (queue_of(app).max_size, app.config.dlq_max_size) == (10_000, 10_000)
    rules.write_text("[{text: odd flaw, category: network}]")
    assert (app.reload().changed, app.config_error) == (("dlq_max_size",), None)


async def test_what_needs_a_new_start_is_named(
    house: House, settings_file: Write, caplog: pytest.LogCaptureFixture
) -> None:
    app = app_of(house)
    settings_file("dlq_max_size: 300\ndlq_enabled: false")
    app.reload()
    assert "count from the next start: dlq_enabled" in caplog.text
    assert queue_of(app).max_size == 300


async def test_a_strategy_that_was_switched_by_hand_stays(house: House, settings_file: Write) -> None:
    app = app_of(house)
    assert app.dlq_integration is not None
    app.dlq_integration.set_strategy("manual")
    settings_file("dlq_max_size: 300")
    app.reload()
    assert app.dlq_integration.get_strategy() == "manual"


async def test_a_run_under_way_goes_on(house: House, settings_file: Write) -> None:
    app = app_of(house)

    async def run(task: Any, repos: list[str]) -> None:
        settings_file("dlq_retry_concurrency: 1")
        app.reload()

    app.register_adapter("llamaindex", run)
    await fill(queue_of(app), 3, adapter="llamaindex")
    assert await queue_of(app).run_due() == 3
    assert (await letter_of(queue_of(app), "wf_00002")).status == "completed"


async def test_an_interval_that_the_processor_was_given_stays(house: House, settings_file: Write) -> None:
    """Who gave it meant it; everything else follows the settings."""
    app = app_of(house)
    queue = queue_of(app)
    await queue.start_retry_processor(Runs(), check_interval_seconds=7)
    settings_file("dlq_retry_interval_seconds: 20\ndlq_retry_concurrency: 4\nauto_requeue: {enabled: true}")
    assert app.reload().error is None
    assert (queue.context.limits.interval_seconds, queue.context.limits.concurrency) == (7, 4)
    assert queue.context.rules(RequeueRules).enabled
    queue.configure(limits=Limits(interval_seconds=9))
    assert queue.context.limits.interval_seconds == 9, "who configures it means that"
    await app.shutdown()

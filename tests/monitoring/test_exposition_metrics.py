"""After one of each action every metric of the catalogue is told under its name, with the number that is right."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from mahavishnu.archive.partitions import Partitions
from mahavishnu.core.api import create_app
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.engine.telemetry import METRICS
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.tasks.stuck import StalenessCycle
from mahavishnu.testing import FaultyStore, ManualClock

DAY = 86_400


async def scrape(app: MahavishnuApp) -> str:
    transport = httpx.ASGITransport(create_app(app.dlq))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get("/metrics")).text


async def test_every_metric_after_one_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, primary = ManualClock(), FaultyStore(SQLiteStore(tmp_path / "letters.db"))
    store = FallbackStore(primary, MemoryStore(), clock=clock)
    settings = MahavishnuSettings(dlq_store_url="memory:", dlq_default_max_retries=1, dlq_strategy="automatic")
    failing = {"now": True}

    def flaky(task: object, repos: object) -> str:
        if failing["now"]:
            raise ConnectionError("connection reset")
        return "done"

    async with MahavishnuApp(settings, store=store, clock=clock) as app:
        app.register_adapter("flaky", flaky)
        await app.execute_workflow({"id": "wf_1"}, "flaky", ["api"])  # a letter
        await app.execute_workflow({"id": "wf_1"}, "flaky", ["api"])  # into the same
        app.dlq_integration.set_strategy("disabled")  # type: ignore[union-attr]
        await app.execute_workflow({"id": "wf_2"}, "flaky", ["api"])  # skipped
        app.dlq_integration.set_strategy("automatic")  # type: ignore[union-attr]
        await app.dlq.enqueue("wf_3", {}, ["api"], "boom", "never")  # of the callback, and for a person
        clock.advance(3600)
        due = await scrape(app)
        await app.dlq.run_due()  # wf_1 is exhausted
        await app.dlq.requeue_from_dlq("wf_1")
        await app.dlq.run_due()  # and fails again
        failing["now"] = False
        await app.dlq.requeue_from_dlq("wf_1")
        await app.dlq.run_due()
        await app.dlq.letters.fail("wf_3", by="ann")

        primary.faults.unavailable()  # an outage, and its end
        await app.dlq.enqueue("wf_4", {}, ["api"], "boom", "never")
        clock.advance(30)
        away = await scrape(app)
        primary.faults.clear()
        await store.drain()

        task = await app.lifecycle.create("pay")  # a task that hangs
        await app.lifecycle.transition(task.task_id, "initializing")
        await app.lifecycle.transition(task.task_id, "waiting_for_dependencies")
        cycle = StalenessCycle(app.dlq.context)
        for _ in range(13):
            await cycle.run()
            clock.advance(300)
        await cycle.run()

        clock.advance(40 * DAY)
        with monkeypatch.context() as broken:

            async def refuse(self: Partitions, month: str) -> str:
                raise StoreUnavailable("no space left")

            broken.setattr(Partitions, "_provide", refuse)
            with pytest.raises(StoreUnavailable):
                await app.dlq.archive.run(dry_run=False)
        await app.dlq.archive.run(dry_run=False)
        partition = (await app.dlq.archive.partitions())[0]
        await app.dlq.archive.detach(partition.partition.name)
        text = await scrape(app)
    names = set(re.findall(r"^# TYPE (\w+) ", text + due, re.MULTILINE))
    assert names == {*METRICS}
    lines = text.splitlines()
    for line in (
        'mahavishnu_captures_total{category="network",outcome="new"} 1.0',
        'mahavishnu_captures_total{category="network",outcome="merged"} 1.0',
        'mahavishnu_captures_total{category="other",outcome="skipped"} 1.0',
        'mahavishnu_attempts_total{adapter="flaky",outcome="exhausted"} 2.0',
        'mahavishnu_attempts_total{adapter="flaky",outcome="succeeded"} 1.0',
        'mahavishnu_attempt_duration_seconds_count{adapter="flaky"} 3.0',
        "mahavishnu_capture_failures_total 0.0",
        "mahavishnu_dlq_requeue_attempts_total 2.0",
        "mahavishnu_dlq_requeue_successes_total 1.0",
        "mahavishnu_dlq_requeue_failures_total 1.0",
        "mahavishnu_dlq_permanent_failures_total 1.0",
        "mahavishnu_dlq_drained_total 1.0",
        "mahavishnu_dlq_kept_locally 0.0",
        "mahavishnu_tasks_discovered_total 1.0",
        "mahavishnu_stale_tasks_detected_total 1.0",
        "mahavishnu_stale_tasks_transitioned_total 1.0",
        "mahavishnu_staleness_detection_errors_total 0.0",
        "mahavishnu_time_until_stale_seconds_count 1.0",
        "mahavishnu_archive_failures_total 1.0",
        "mahavishnu_partition_creation_failures_total 1.0",
        "mahavishnu_partitions_created_total 1.0",
        "mahavishnu_partitions_detached_total 1.0",
        "mahavishnu_tasks_archived_total 1.0",
        "mahavishnu_archive_execution_time_seconds_count 1.0",
        "mahavishnu_dlq_store_up 1.0",
    ):
        assert line in lines, (line, [each for each in lines if each.startswith(line.partition("{")[0].split()[0])])
    assert 'mahavishnu_dlq_due{queue="default"} 1.0' in due.splitlines()
    overdue = re.search(r"^mahavishnu_dlq_overdue_seconds (\S+)$", due, re.MULTILINE)
    assert overdue is not None
    assert 0 < float(overdue[1]) < 3600
    assert "mahavishnu_dlq_kept_locally 1.0" in away.splitlines()
    assert "mahavishnu_dlq_kept_locally_seconds 30.0" in away.splitlines()
    assert not re.search(r"^mahavishnu_dlq_(size|due|needs_person|overdue)", away, re.MULTILINE)


async def test_what_letters_carry_goes_on_in_another_process(tmp_path: Path) -> None:
    settings = MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path}/letters.db")
    for number in range(2):
        async with MahavishnuApp(settings) as app:
            await app.dlq.enqueue(f"wf_{number}", {}, ["api"], "connection reset")
            text = await scrape(app)
        assert f"mahavishnu_tasks_moved_to_dlq_total {number + 1}.0" in text.splitlines()
        assert 'mahavishnu_captures_total{category="network",outcome="new"} 1.0' in text.splitlines()

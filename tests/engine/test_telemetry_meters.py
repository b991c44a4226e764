"""Counters and histograms of one process: their labels are bounded, and who reads them disturbs nobody."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue, QueueOptions
from mahavishnu.engine.context import Limits
from mahavishnu.engine.telemetry import METRICS, MOST_VALUES, Distribution, EventMeters, Meters, MetricFamily
from mahavishnu.model.events import Event, EventName
from mahavishnu.monitoring.exposition import exposition
from mahavishnu.testing import ManualClock
from mahavishnu.testing.letters import make_letter

DURATION = "mahavishnu_attempt_duration_seconds"


def samples(meters: Meters, name: str) -> dict[tuple[str, ...], float | Distribution]:
    return next(each.samples for each in meters.families() if each.definition.name == name)


def test_ten_thousand_letters_of_as_many_adapters_are_a_few_series() -> None:
    meters = Meters()
    listener = EventMeters(meters)
    for number in range(10_000):
        letter = make_letter(task_id=f"t-{number}", adapter=f"adapter-{number}", error_category=f"invented-{number}")
        for name in (EventName.CAPTURED, EventName.RETRY_FAILED):
            listener(Event(name, letter.created_at, letter))
        meters.observe(DURATION, 1.0, adapter=letter.adapter or "")
    attempts = samples(meters, "mahavishnu_attempts_total")
    assert len(attempts) == len(samples(meters, DURATION)) == MOST_VALUES + 1
    assert sum(each for each in attempts.values() if isinstance(each, float)) == 10_000
    assert samples(meters, "mahavishnu_captures_total") == {("other", "new"): 10_000}


def test_a_histogram_is_told_cumulatively_with_its_sum() -> None:
    meters = Meters()
    for seconds in (0.01, 0.02, 7200.0):
        meters.observe(DURATION, seconds, adapter="shop")
    text = exposition(meters.families()).decode()
    lines = dict(re.findall(rf"^({DURATION}_\S+) (\S+)$", text, re.MULTILINE))
    shop = f'{DURATION}_bucket{{adapter="shop",le='
    told = {le: lines[f'{shop}"{le}"}}'] for le in ("0.01", "0.05", "3600.0", "+Inf")}
    assert told == {"0.01": "1.0", "0.05": "2.0", "3600.0": "2.0", "+Inf": "3.0"}
    assert float(lines[f'{DURATION}_sum{{adapter="shop"}}']) == pytest.approx(7200.03)


def test_what_is_unknown_is_absent() -> None:
    assert exposition([MetricFamily(METRICS["mahavishnu_dlq_size"])]) == b""
    assert b"mahavishnu_dlq_size 0.0" in exposition([MetricFamily.of("mahavishnu_dlq_size", 0)])


async def test_a_registry_of_the_app_tells_what_this_process_counts() -> None:
    registry = CollectorRegistry()
    async with DeadLetterQueue() as dlq:
        leave = dlq.telemetry.register(registry)
        await dlq.enqueue("wf", {}, [], "connection reset")
        with pytest.raises(ValueError, match="Duplicated"):
            DeadLetterQueue().telemetry.register(registry)
        told = generate_latest(registry).decode()
        leave()
    assert 'mahavishnu_captures_total{category="network",outcome="new"} 1.0' in told
    assert "mahavishnu_dlq_size" not in told  # the store's numbers are told by servers
    assert generate_latest(registry) == b""


async def test_a_registry_hears_no_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    async with DeadLetterQueue() as dlq:
        dlq.telemetry.register(registry)
        monkeypatch.setattr(dlq.context, "breakers", None)
        assert generate_latest(registry) == b""
    assert "the numbers of the queue could not be told" in caplog.text


class Manager:
    """An observability manager that raises at every call."""

    def __init__(self, raises_at_start: bool) -> None:
        self.heard: list[str] = []
        self.raises_at_start = raises_at_start

    def record_metric(self, name: str, value: float, labels: dict[str, str]) -> None:
        self.heard.append(name)
        raise RuntimeError("no connection")

    def log_info(self, message: str, attributes: dict[str, object]) -> None:
        self.heard.append(f"{attributes['event']} {attributes['task_id']}")
        raise RuntimeError("no connection")

    log_error = log_info

    @contextmanager
    def start_span(self, name: str, attributes: dict[str, object]) -> Iterator[None]:
        self.heard.append(f"{name} {attributes['mahavishnu.task_id']}")
        if self.raises_at_start:
            raise RuntimeError("no connection")
        yield
        raise RuntimeError("no connection")


@pytest.mark.parametrize("raises_at_start", [True, False])
async def test_an_observability_manager_that_raises_disturbs_nobody(raises_at_start: bool) -> None:
    manager, clock = Manager(raises_at_start), ManualClock()

    async def callback(task: object, repos: list[str]) -> str:
        return "done"

    options = QueueOptions(callback=callback, limits=Limits(concurrency=1))
    async with DeadLetterQueue(observability_manager=manager, clock=clock, options=options) as dlq:
        await dlq.enqueue("wf", {}, [], "connection reset")
        clock.advance(3600)
        assert await dlq.run_due() == 1
        letter = await dlq.get_task("wf")
    assert letter is not None
    assert str(letter.status) == "completed"
    assert {"mahavishnu_captures_total", "mahavishnu_attempts_total", DURATION} <= set(manager.heard)
    assert {"dlq.captured wf", "dlq.retry.succeeded wf", "dlq.attempt wf"} <= set(manager.heard)


def test_the_core_counts_without_prometheus_client_and_opentelemetry() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = sys.modules['opentelemetry'] = None\n"
        "import asyncio\n"
        "from mahavishnu.core.app import MahavishnuApp\n"
        "from mahavishnu.core.config import MahavishnuSettings\n"
        "settings = MahavishnuSettings(dlq_store_url='memory:', telemetry={'tracing': True})\n"
        "async def main():\n"
        "    async with MahavishnuApp(settings) as app:\n"
        "        app.register_adapter('flaky', lambda task, repos: 1 / 0)\n"
        "        assert (await app.execute_workflow({'id': 'wf'}, 'flaky', []))['dlq_enqueued']\n"
        "        assert await app.telemetry.collect()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "opentelemetry is not installed" in done.stderr

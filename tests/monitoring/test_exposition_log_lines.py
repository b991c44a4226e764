"""JSON logs: every line is an object with a stable name, and no payload is in any of them."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.events import LOG_EVENTS, log_event
from mahavishnu.monitoring.exposition import JsonLines
from mahavishnu.testing import ManualClock

PACKAGE = Path(__file__).parents[2] / "mahavishnu"
CANARY = "canary-4711"


class Lines(logging.Handler):
    """Keeps each record as the formatter writes it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(JsonLines())
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@pytest.fixture
def lines() -> object:
    logger, handler = logging.getLogger("mahavishnu"), Lines()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


async def test_the_life_of_a_letter_in_lines_without_its_payload(lines: Lines) -> None:
    clock = ManualClock()
    settings = MahavishnuSettings(dlq_store_url="memory:", dlq_default_max_retries=1)
    async with MahavishnuApp(settings, clock=clock) as app:

        @app.workflow("charge")
        async def charge(customer: str, card: str) -> None:
            raise ConnectionError("connection reset")

        with pytest.raises(ConnectionError):
            await charge("ann", card=CANARY)
        clock.advance(3600)
        await app.dlq.run_due()
        await app.dlq.clear_all()
    told = [json.loads(text) for text in lines.texts]
    assert {"capture.kept", "dlq.captured", "dlq.retry.failed", "dlq.exhausted"} <= {each["event"] for each in told}
    failed = next(each for each in told if each["event"] == "dlq.retry.failed")
    assert (failed["adapter"], failed["category"], failed["level"]) == ("charge", "network", "debug")
    assert {"time", "message", "logger", "task_id", "entry_id", "fingerprint", "attempt"} <= failed.keys()
    assert not [text for text in lines.texts if CANARY in text]


def test_a_line_with_an_exception_and_things_that_json_has_not() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    try:
        raise ValueError("boom")
    except ValueError as problem:
        info = (ValueError, problem, problem.__traceback__)
    record = logging.LogRecord("mahavishnu.workers.leases", logging.ERROR, "", 0, "it\nfailed", (), info)
    record.fields = {"at": Path("x"), "odd": Odd()}
    line = JsonLines().format(record)
    told = json.loads(line)
    assert "\n" not in line
    assert (told["event"], told["error_type"], told["message"]) == ("workers.leases", "ValueError", "it\nfailed")
    assert "boom" in told["traceback"]


def test_each_name_of_the_catalogue_is_used_and_no_other() -> None:
    used = set()
    for path in PACKAGE.rglob("*.py"):
        used |= set(re.findall(r'log_event\(\s*"([\w.]+)"', path.read_text(encoding="utf-8")))
    assert used == set(LOG_EVENTS)
    with pytest.raises(AssertionError):
        log_event("no.such")


def test_importing_configures_no_logging() -> None:
    code = (
        "import logging, mahavishnu.core.app, mahavishnu.core.api, mahavishnu.monitoring.exposition\n"
        "assert not logging.getLogger('mahavishnu').handlers and not logging.getLogger().handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

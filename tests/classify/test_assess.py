"""Assessing failures: the verdict, the record and the fingerprint; long ones away from the event loop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from mahavishnu.classify.assess import Assessor
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugin_guard import call_in_thread
from mahavishnu.testing import make_letter

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Watched(Exception):
    """Remembers which threads printed it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.threads: set[int] = set()

    def __str__(self) -> str:
        self.threads.add(threading.get_ident())
        return str(self.args[0])


SHORT, LONG = "HTTP 503", "HTTP 503 " + "x" * 5000


@pytest.mark.parametrize(("text", "is_here"), [(SHORT, True), (LONG, False)])
@pytest.mark.parametrize("way", ["first run", "retry", "reported"])
async def test_long_failures_are_assessed_in_a_thread(way: str, text: str, is_here: bool) -> None:
    error, assessor = Watched(text), Assessor(Chain())
    match way:
        case "first run":
            assessment = await assessor.assess(error, NOW)
        case "retry":
            assessment = await assessor.assess_attempt(error, NOW, make_letter())
        case _:
            assessment = await assessor.assess_reported(error, NOW, make_letter())
    assert (assessment.verdict.reason, assessment.failure.message) == ("text: HTTP 503", text)
    assert (threading.get_ident() in error.threads) is is_here


@pytest.mark.parametrize("text", [SHORT, LONG])
async def test_both_ways_assess_alike(text: str) -> None:
    assessor = Assessor(Chain())
    assert await assessor.assess(ValueError(text), NOW) == assessor.assess_sync(ValueError(text), NOW)


@pytest.mark.parametrize("text", [SHORT, LONG])
async def test_the_callers_category_counts(text: str) -> None:
    assessment = await Assessor(Chain()).assess(text, NOW, named="validation")
    assert (assessment.category, assessment.failure.category) == ("validation", "validation")
    assert assessment.verdict.author == "caller"


async def test_where_no_thread_can_be_started_long_failures_are_assessed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = ThreadPoolExecutor()
    ended.shutdown()
    monkeypatch.setattr("mahavishnu.classify.plugin_guard._thread_pool", lambda process: ended)
    assert (await Assessor(Chain()).assess(LONG, NOW)).verdict.reason == "text: HTTP 503"


async def test_work_that_raises_in_its_thread_is_not_done_again_in_the_event_loop() -> None:
    threads: list[int] = []

    def work() -> None:
        threads.append(threading.get_ident())
        raise RuntimeError("of its own")

    with pytest.raises(RuntimeError, match="of its own"):
        await call_in_thread(work)
    assert len(threads) == 1
    assert threading.get_ident() not in threads

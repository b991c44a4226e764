"""Numbers by hour."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import InvalidInput
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import ManualClock
from tests.support.letters import NOON

HOUR = timedelta(hours=1)


async def test_what_happened_in_which_hour() -> None:
    clock = ManualClock(NOON - 3 * HOUR + timedelta(minutes=5))
    async with DeadLetterQueue(clock=clock) as dlq:
        for number in range(4):
            await dlq.enqueue(f"wf_{number}", {}, [], "connection refused", "immediate", 1)
        clock.advance(3600)
        runs = iter([True, False, False])

        async def work(task: Any, repos: list[str]) -> None:
            if not next(runs):
                raise ConnectionError("connection refused")

        dlq.processing.callback = work
        assert (await dlq.retry_task("wf_0"))["success"]
        assert not (await dlq.retry_task("wf_1"))["success"]
        assert not (await dlq.retry_task("wf_2"))["success"]
        clock.advance(3600)
        await dlq.enqueue("wf_9", {}, [], "boom", max_retries=0)
        await dlq.deletion.delete_task("wf_3", by="ann")
        trend = await dlq.trends.by_hour(4)
        told = [(each.start, each.arrived, each.completed, each.failed_again) for each in trend.hours]
        assert told == [
            (NOON - 4 * HOUR, 0, 0, 0),
            (NOON - 3 * HOUR, 4, 0, 0),
            (NOON - 2 * HOUR, 0, 1, 2),
            (NOON - HOUR, 1, 0, 0),
        ]
        assert [each.exhausted for each in trend.hours][-1] == 1
        assert trend.not_known
        assert trend.degraded is None
        assert len((await dlq.trends.by_hour()).hours) == 24
        await dlq.enqueue("later", {}, [], "boom")
        assert await dlq.trends.by_hour(4) is trend, "it was counted a moment ago"
        clock.advance(31)
        assert (await dlq.trends.by_hour(4)).hours[-1].arrived == 2
        with pytest.raises(InvalidInput, match="1 to 72"):
            await dlq.trends.by_hour(0)


@pytest.mark.parametrize("field", ["completed_at", "exhausted_at", "last_retry_at", "created_at"])
async def test_what_is_counted_is_declared(tmp_path: Path, field: str) -> None:
    """A chart must not read the whole file again and again."""
    assert any(counted.at == field for counted in LETTERS.counted)
    async with DeadLetterQueue(store=SQLiteStore(tmp_path / "trends.db", kinds=KINDS), clock=ManualClock()) as dlq:
        await dlq.enqueue("wf", {}, [], "boom")
        assert sum(each.arrived for each in (await dlq.trends.by_hour()).hours) == 1


async def test_why_some_may_be_missing_is_said() -> None:
    async with DeadLetterQueue(store=MemoryStore(), clock=ManualClock()) as dlq:
        assert "archive" in " ".join((await dlq.trends.by_hour()).not_known)

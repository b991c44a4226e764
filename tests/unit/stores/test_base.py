"""The one loop that repeats a lost compare-and-set."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mahavishnu.model.errors import InvalidQuery, StoreUnavailable
from mahavishnu.model.worker import Worker
from mahavishnu.stores.base import MOST_BUCKETS, Buckets, get_one, write_one, write_with_retry
from mahavishnu.stores.kinds import WORKERS
from mahavishnu.stores.memory import MemoryCollection, MemoryStore

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def workers() -> MemoryCollection[Worker]:
    return MemoryStore().collection(WORKERS)


def started(worker: Worker | None) -> Worker:
    return replace(worker or Worker("w", NOON, NOON), seen_at=NOON.replace(hour=13))


async def test_a_record_that_is_not_there_is_created(workers: MemoryCollection[Worker]) -> None:
    before, after = await write_with_retry(workers, "w", started, what="worker")

    assert before is None
    assert after is not None
    assert await get_one(workers, "w") == after == started(None)


async def test_a_lost_race_is_run_again_with_what_won(workers: MemoryCollection[Worker]) -> None:
    first = await write_one(workers, Worker("w", NOON, NOON))
    assert first is not None
    seen: list[Worker | None] = []

    async def change(worker: Worker | None) -> Worker | None:
        seen.append(worker)
        if len(seen) < 3:  # somebody else is quicker, twice
            current = await get_one(workers, "w")
            assert current is not None
            await write_one(workers, replace(current, started_at=current.started_at.replace(minute=len(seen))))
        return started(worker)

    before, after = await write_with_retry(workers, "w", change, what="worker", known=first)

    assert [worker and worker.started_at.minute for worker in seen] == [0, 1, 2]
    assert before == seen[2]
    assert after == replace(started(before))
    assert await get_one(workers, "w") == after


async def test_nothing_is_written_where_there_is_nothing_to_change(workers: MemoryCollection[Worker]) -> None:
    stored = await write_one(workers, Worker("w", NOON, NOON))

    assert await write_with_retry(workers, "w", lambda worker: None, what="worker") == (stored, None)
    (current,) = await workers.get(["w"])
    assert current is stored


async def test_a_known_record_is_not_read(workers: MemoryCollection[Worker]) -> None:
    asked: list[str] = []

    class Counting(MemoryCollection[Worker]):
        async def get(self, keys):  # type: ignore[no-untyped-def]
            asked.extend(keys)
            return await super().get(keys)

    counting = Counting(WORKERS, lambda: (1,))
    await write_with_retry(counting, "w", started, what="worker", known=None)
    assert asked == []
    await write_with_retry(counting, "w", started, what="worker", known=None)  # it is there already
    assert asked == ["w"]


async def test_races_that_are_lost_all_the_time_are_an_outage(workers: MemoryCollection[Worker]) -> None:
    async def change(worker: Worker | None) -> Worker | None:
        current = await get_one(workers, "w")
        await write_one(workers, started(current))
        return started(worker)

    with pytest.raises(StoreUnavailable, match="worker 'w' was changed by others 7 times in a row"):
        await write_with_retry(workers, "w", change, what="worker", tries=7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0},
        {"count": MOST_BUCKETS + 1},
        {"count": True},
        {"interval": timedelta()},
        {"interval": timedelta(hours=-1)},
        {"interval": timedelta(microseconds=1500)},
        {"start": NOON.replace(tzinfo=None)},
        {"start": datetime.max.replace(tzinfo=UTC)},
    ],
)
def test_buckets_that_no_store_can_fill_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidQuery):
        Buckets(**{"field": "started_at", "start": NOON, "interval": timedelta(hours=1), "count": 2, **wrong})

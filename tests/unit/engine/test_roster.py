"""How several workers share the due letters."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mahavishnu.engine.background import LIVES_SECONDS, WorkerRegistry
from mahavishnu.model.ids import PARTITIONS
from mahavishnu.stores.kinds import WORKERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock
from tests.unit.queues import House, Runs, fill


def rosters(count: int) -> tuple[ManualClock, FaultyStore, list[WorkerRegistry]]:
    clock, store = ManualClock(), FaultyStore(MemoryStore())
    return (
        clock,
        store,
        [WorkerRegistry(store.collection(WORKERS), f"worker-{number}", clock) for number in range(count)],
    )


def shares(workers: list[WorkerRegistry]) -> list[int]:
    return sorted(partition for worker in workers for partition in worker.partitions()[0])


async def test_the_shares_are_disjoint_and_whole() -> None:
    _, _, workers = rosters(5)
    assert list(workers[0].partitions()[0]) == list(range(PARTITIONS))  # it knows of nobody else yet
    for _ in range(2):
        for worker in workers:
            await worker.heartbeat()
    assert shares(workers) == list(range(PARTITIONS))
    assert {len(worker.partitions()[0]) for worker in workers} == {PARTITIONS // 5, PARTITIONS // 5 + 1}


async def test_who_misses_three_beats_is_gone_and_its_share_is_taken_over() -> None:
    clock, _, workers = rosters(3)
    for _ in range(2):
        for worker in workers:
            await worker.heartbeat()
    clock.advance(LIVES_SECONDS)
    for worker in workers[1:]:
        await worker.heartbeat()
    assert len(workers[1].live) == 3  # not yet
    clock.advance(1)
    for worker in workers[1:]:
        await worker.heartbeat()
    assert list(workers[1].live) == ["worker-1", "worker-2"]
    assert shares(workers[1:]) == list(range(PARTITIONS))


async def test_who_leaves_is_gone_at_once_and_the_forgotten_are_removed() -> None:
    clock, store, (one, other, gone) = rosters(3)
    for worker in (one, other, gone):
        await worker.heartbeat()
    await other.deregister()
    await other.deregister()
    await one.heartbeat()
    assert list(one.live) == ["worker-0", "worker-2"]
    clock.advance(timedelta(days=2))
    await one.heartbeat()
    assert await store.collection(WORKERS).get(["worker-2"]) == [None]


async def test_an_outage_changes_nothing() -> None:
    _, store, (one, other) = rosters(2)
    for worker in (one, other, one):
        await worker.heartbeat()
    with store.faults.unavailable():
        await one.heartbeat()
        await one.deregister()
    assert len(one.live) == 2


async def test_four_workers_each_get_some_and_none_waits_for_another(any_house: House) -> None:
    done: list[list[str]] = [[] for _ in range(4)]
    queues = [any_house.queue(Runs(), concurrency=10) for _ in range(4)]
    await fill(queues[0], 1000)

    def note(number: int) -> None:
        queues[number].listen(lambda event: done[number].append(event.letter.key) if event.letter else None)

    for number, queue in enumerate(queues):
        await (await queue.open()).processing.workers.heartbeat()
        note(number)
    for queue in queues:
        await queue.processing.workers.heartbeat()
    counts = await asyncio.gather(*(queue.run_due() for queue in queues))
    assert sum(counts) == 1000
    assert min(counts) > 0
    assert (await queues[0].get_statistics())["lifetime_stats"]["retry_success"] == 1000

"""What runs beside the processor: periodic tasks, and the registry of the workers that share the letters."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial

import pytest

from mahavishnu.engine.periodic import PeriodicTask, PeriodicTasks
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.ids import PARTITIONS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.workers.background import WorkerRegistry
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import LIVES_SECONDS
from tests.support.queues import House, Runs, fill, settle


async def test_tasks_run_at_once_and_then_each_at_its_own_interval() -> None:
    clock, done = ManualClock(), []

    async def note(name: str) -> None:
        done.append((name, clock.monotonic()))

    seconds = {"quick": 5.0, "slow": 20.0}
    keeping = PeriodicTasks(
        clock,
        PeriodicTask("quick", lambda: note("quick"), lambda: seconds["quick"]),
        PeriodicTask("slow", lambda: note("slow"), lambda: seconds["slow"]),
    )
    keeping.start()
    keeping.start()
    for _ in range(4):
        await clock.sleeping(2)
        clock.advance(5)
    await clock.sleeping(2)
    assert [at for name, at in done if name == "quick"] == [0, 5, 10, 15, 20]
    assert [at for name, at in done if name == "slow"] == [0, 20]
    seconds["quick"] = 100.0  # asked each time
    clock.advance(5)
    await settle()
    clock.advance(50)
    await settle()
    assert [at for name, at in done if name == "quick"][-1] == 25
    await keeping.stop()
    assert clock.sleepers == 0


async def test_a_woken_task_runs_at_once() -> None:
    clock, count = ManualClock(), []

    async def do() -> None:
        count.append(1)

    task = PeriodicTask("one", do, lambda: 1000.0)
    keeping = PeriodicTasks(clock, task)
    keeping.start()
    await clock.sleeping()
    task.wake()
    await settle()
    assert len(count) == 2
    await keeping.stop()
    task.wake()
    await settle()
    assert len(count) == 2


async def test_a_task_that_hangs_or_fails_disturbs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    clock, count = ManualClock(), []
    never = asyncio.Event()

    async def well() -> None:
        count.append(1)

    async def badly() -> None:
        raise RuntimeError("oops") if len(count) < 3 else StoreUnavailable("away")

    keeping = PeriodicTasks(
        clock,
        PeriodicTask("hangs", never.wait, lambda: 1.0),
        PeriodicTask("fails", badly, lambda: 1.0),
        PeriodicTask("works", well, lambda: 1.0),
    )
    with caplog.at_level(logging.WARNING):
        keeping.start()
        for _ in range(5):
            await clock.sleeping(2)
            clock.advance(1)
        await clock.sleeping(2)
    assert len(count) == 6
    assert 0 < sum("fails went wrong" in message for message in caplog.messages) <= 3  # an outage is no news
    await keeping.stop()


def test_a_task_runs_again_in_another_event_loop() -> None:
    count: list[int] = []

    async def do() -> None:
        count.append(1)

    task = PeriodicTask("one", do, lambda: 1000.0)

    async def live() -> None:
        keeping = PeriodicTasks(clock := ManualClock(), task)
        keeping.start()
        await clock.sleeping()
        await settle()
        await keeping.stop()

    asyncio.run(live())
    asyncio.run(live())
    assert len(count) == 2


def registries(count: int) -> tuple[ManualClock, FaultyStore, list[WorkerRegistry]]:
    clock, store = ManualClock(), FaultyStore(MemoryStore())
    return (
        clock,
        store,
        [WorkerRegistry(store.collection(WORKERS), f"worker-{number}", clock) for number in range(count)],
    )


def shares(workers: list[WorkerRegistry]) -> list[int]:
    return sorted(partition for worker in workers for share in worker.shares() for partition in share.partitions[0])


async def test_the_shares_are_disjoint_and_cover_everything() -> None:
    _, _, workers = registries(5)
    assert list(workers[0].shares()[0].partitions[0]) == list(range(PARTITIONS))  # it knows of nobody else yet
    for _ in range(2):
        for worker in workers:
            await worker.heartbeat()
    assert shares(workers) == list(range(PARTITIONS))
    assert {len(worker.shares()[0].partitions[0]) for worker in workers} == {PARTITIONS // 5, PARTITIONS // 5 + 1}


async def test_a_worker_that_misses_three_heartbeats_loses_its_share() -> None:
    clock, _, workers = registries(3)
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


async def test_a_deregistered_worker_is_gone_at_once_and_old_entries_are_removed() -> None:
    clock, store, (one, other, gone) = registries(3)
    for worker in (one, other, gone):
        await worker.heartbeat()
    await other.deregister()
    await other.deregister()
    await one.heartbeat()
    assert list(one.live) == ["worker-0", "worker-2"]
    clock.advance(timedelta(days=2))
    await one.heartbeat()
    assert await store.collection(WORKERS).get(["worker-2"]) == [None]


async def test_an_outage_leaves_the_shares_as_they_were() -> None:
    _, store, (one, other) = registries(2)
    for worker in (one, other, one):
        await worker.heartbeat()
    with store.faults.unavailable():
        await one.heartbeat()
        await one.deregister()
    assert len(one.live) == 2


async def test_each_of_four_workers_gets_letters_and_none_waits_for_another(any_house: House) -> None:
    done: list[list[str]] = [[] for _ in range(4)]
    queues = [any_house.queue(Runs(), concurrency=10) for _ in range(4)]
    await fill(queues[0], 1000)

    def note(number: int) -> None:
        queues[number].context.events.subscribe(
            lambda event: done[number].append(event.letter.key) if event.letter else None
        )

    for number, queue in enumerate(queues):
        await (await queue.open()).processing.workers.heartbeat()
        note(number)
    for queue in queues:
        await queue.processing.workers.heartbeat()
    counts = await asyncio.gather(*(queue.run_due() for queue in queues))
    assert sum(counts) == 1000
    assert min(counts) > 0
    assert (await queues[0].get_statistics())["lifetime_stats"]["retry_success"] == 1000


async def test_workers_with_different_adapters_leave_no_partition_unattended() -> None:
    clock, store = ManualClock(), MemoryStore()
    known = {"a": {"invoice", "mail"}, "b": {"invoice"}, "c": {"mail"}}
    workers = [WorkerRegistry(store.collection(WORKERS), name, clock, partial(known.get, name)) for name in known]
    for _ in range(2):
        for worker in workers:
            await worker.heartbeat()
    for adapter in ("invoice", "mail"):
        mine = [share for worker in workers for share in worker.shares() if adapter in (share.adapters or ())]
        assert sorted(partition for share in mine for partition in share.partitions[0]) == list(range(PARTITIONS))
    assert [worker.live for worker in workers] == [("a", "b", "c"), ("a", "b"), ("a", "c")]

    known["b"].add("mail")  # registered later: it counts at once here, and for the others after a heartbeat
    assert [share.adapters for share in workers[1].shares()] == [("invoice",), ("mail",)]

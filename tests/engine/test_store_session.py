"""Queues that are opened, closed, and used by one event loop after the other."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.model.errors import InvalidInput, MahavishnuError, StoreError, StoreMisconfigured
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import FaultyStore, ManualClock, turn
from tests.support.queues import NETWORK, Gate, House, Runs, fill, letter_of, sound


@pytest.fixture(params=["memory", "sqlite"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> DeadLetterQueue:
    store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "letters.db", kinds=KINDS)
    return DeadLetterQueue(store=store, options=QueueOptions(callback=Runs()))


@pytest.mark.parametrize("closes", [True, False])
def test_one_event_loop_after_the_other(queue: DeadLetterQueue, closes: bool) -> None:
    async def use(number: int) -> None:
        # Many at once: what waits for another one is what belongs to an event loop.
        await asyncio.gather(*(queue.enqueue(f"{number}-{n}", {}, [], "boom", "immediate") for n in range(20)))
        await asyncio.gather(*(queue.enqueue(f"{number}-same", {}, [], "boom", "never") for _ in range(10)))
        assert len(await queue.list_tasks()) == 21
        assert await queue.run_due() == 20
        assert (await queue.retry_task(f"{number}-same"))["success"] is True
        await queue.enqueue(f"left-{number}", {}, [], "boom", "never")
        await queue.archive_task(f"left-{number}")  # from now on nobody knows how much room there is
        await sound(queue)
        if closes:
            await queue.shutdown()

    for number in (1, 2, 3):
        asyncio.run(use(number))
    asyncio.run(queue.shutdown())


@pytest.mark.parametrize("stops", [True, False])
def test_a_processor_in_each_of_several_event_loops(queue: DeadLetterQueue, stops: bool) -> None:
    async def use(number: int) -> None:
        await queue.start_retry_processor()
        await queue.enqueue(f"wf_{number}", {}, [], "boom", "immediate")
        async with asyncio.timeout(10):
            while (await letter_of(queue, f"wf_{number}")).status != "completed":
                await turn()
        assert (await queue.get_statistics())["is_processor_running"] is True
        if stops:
            await queue.shutdown()

    for number in (1, 2, 3):
        asyncio.run(use(number))
    asyncio.run(queue.shutdown())


async def test_two_event_loops_at_once_are_refused_not_stuck(house: House) -> None:
    queue = house.queue(Runs())
    await queue.enqueue("wf_1", {}, [], "boom")

    def elsewhere() -> None:
        asyncio.run(queue.enqueue("wf_2", {}, [], "boom"))

    with pytest.raises(MahavishnuError, match="another event loop that is running"):
        await asyncio.to_thread(elsewhere)
    await queue.enqueue("wf_3", {}, [], "boom")
    assert (await sound(queue))["queue_size"] == 2


def test_an_app_in_one_event_loop_after_the_other(tmp_path: Path) -> None:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path / 'letters.db'}"))
    app.register_adapter("sweep", Runs(NETWORK))
    for number in (1, 2):
        assert asyncio.run(app.execute_workflow({"id": number}, "sweep", ["api"]))["dlq_task_id"] == str(number)
    asyncio.run(app.shutdown())


async def test_memory_is_lost_and_says_so_a_file_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with DeadLetterQueue() as queue:
        await queue.enqueue("wf_1", {}, [], "boom")
    assert [record.levelname for record in caplog.records if "in this process's memory" in record.message] == [
        "WARNING"
    ]
    async with DeadLetterQueue() as queue:
        assert await queue.list_tasks() == []
    caplog.clear()
    for _ in range(2):
        store = SQLiteStore(tmp_path / "letters.db", kinds=KINDS)
        async with DeadLetterQueue(store=store) as queue:
            await queue.enqueue("wf_1", {}, [], "boom")
    assert (await _occurrences(tmp_path)) == 2
    assert "in this process's memory" not in caplog.text


async def _occurrences(folder: Path) -> int:
    async with DeadLetterQueue(store=SQLiteStore(folder / "letters.db", kinds=KINDS)) as queue:
        return (await letter_of(queue, "wf_1")).occurrences


async def test_closing_and_opening_again(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue, 2)
    await queue.shutdown()
    await queue.shutdown()
    assert len(await queue.list_tasks()) == 2
    assert await queue.open() is queue


async def test_opened_by_many_at_once_it_is_opened_once(house: House) -> None:
    queue = house.queue()
    await asyncio.gather(*(queue.open() for _ in range(10)))
    assert house.faults.calls["open"] == 1


async def test_a_store_that_cannot_be_opened_is_tried_again(house: House, caplog: pytest.LogCaptureFixture) -> None:
    queue = house.queue()
    with house.faults.unavailable("open"):
        with pytest.raises(StoreError):
            await queue.list_tasks()
        assert (await queue.health()).status == "down"
    assert await queue.list_tasks() == []


def test_a_store_and_a_client_are_one_too_many(house: House) -> None:
    with pytest.raises(InvalidInput, match="not both"):
        DeadLetterQueue(store=MemoryStore(), opensearch_client=object())


async def test_the_log_of_a_quiet_queue_is_quiet(any_house: House, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        queue = any_house.queue(Runs())
        await fill(queue, 1)
        await queue.run_due()
    assert caplog.messages == []


async def test_who_closes_the_queue_in_the_middle_of_a_cycle_gives_back_what_it_runs(any_house: House) -> None:
    queue = any_house.queue(gate := Gate(), grace_seconds=0, concurrency=2)
    names = await fill(queue, 3)
    running = asyncio.create_task(queue.run_due())
    await gate.reached(2)
    await queue.shutdown()
    assert await asyncio.wait_for(running, 10) == 2
    letters = [await letter_of(queue, name) for name in names]
    assert {(letter.status, letter.total_attempts, letter.lease) for letter in letters} == {("pending", 0, None)}


async def test_what_a_cycle_is_claiming_while_the_queue_is_closed_is_given_back_too(any_house: House) -> None:
    queue = any_house.queue(runs := Runs(), grace_seconds=0)
    await fill(queue, 3)
    claiming = any_house.faults.hold("write", after=True, kind=LETTERS)
    running = asyncio.create_task(queue.run_due())
    await claiming.wait_for_call()
    closing = asyncio.create_task(queue.shutdown())
    await turn()
    claiming.release()
    await asyncio.wait_for(asyncio.gather(closing, running), 10)
    letters = await queue.list_tasks()
    assert {(letter.status, letter.total_attempts) for letter in letters} == {("pending", 0)}
    assert runs.calls == []


@pytest.mark.parametrize("broken", ["primary", "local"])
async def test_what_fails_although_one_store_cannot_be_opened_from_the_start_is_kept_in_the_other(
    tmp_path: Path, broken: str
) -> None:
    primary, local = FaultyStore(MemoryStore()), FaultyStore(SQLiteStore(tmp_path / "local.db", kinds=KINDS))

    def app() -> MahavishnuApp:
        store = FallbackStore(primary, local, kinds=KINDS, clock=ManualClock())
        return MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=store)

    (primary if broken == "primary" else local).faults.misconfigured("open")
    first, second = app(), app()
    for name in "ab":
        with pytest.raises(StoreMisconfigured):
            await first.dlq.open()
        result = await first.execute_workflow({"id": name}, "nobody")
        assert not result["dlq_enqueued"]
        assert "; it waits to be let in" in result["dlq_error"]
    await first.shutdown()
    primary.faults.clear()
    local.faults.clear()
    async with second:
        await second.dlq.store.drain()  # type: ignore[attr-defined]
        assert await second.dlq.intake.admit_waiting() == 2
        assert {letter.task_id for letter in await second.dlq.list_tasks()} == {"a", "b"}

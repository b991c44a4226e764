"""Captures from other event loops and threads than the one that uses the store, and from event loops that end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mahavishnu import hookimpl
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.engine import store_session
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.model.events import Event
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from tests.support.queues import NETWORK, House, Runs, fails, letter_of, queue_of, sound, until


@pytest.fixture
async def app(any_house: House) -> AsyncIterator[MahavishnuApp]:
    app = any_house.app()
    app.register_adapter("sweep", Runs(NETWORK))
    await queue_of(app).open()
    yield app


def capture(app: MahavishnuApp, *names: str) -> list[dict[str, Any]]:
    """In an event loop of its own; all at once."""

    async def run() -> list[dict[str, Any]]:
        return await asyncio.gather(*(app.execute_workflow({"id": name}, "sweep", ["api"]) for name in names))

    return asyncio.run(run())


async def test_another_event_loop_captures_in_the_one_that_uses_the_store(app: MahavishnuApp) -> None:
    heard = list[Event]()
    queue_of(app).listen(heard.append)
    names = [f"wf_{number}" for number in range(5)]
    results = await asyncio.gather(*(asyncio.to_thread(capture, app, *names) for _ in range(4)))
    assert {result["dlq_task_id"] for one in results for result in one} == set(names)
    letters = await queue_of(app).list_tasks()
    assert {letter.task_id: letter.occurrences for letter in letters} == dict.fromkeys(names, 4)
    await until(lambda: len(heard) == 20)
    await sound(queue_of(app))


async def test_what_waits_because_the_queue_is_full_waits_in_the_store(app: MahavishnuApp) -> None:
    queue_of(app).max_size = 1
    (result,) = await asyncio.to_thread(capture, app, "wf_0")
    (late,) = await asyncio.to_thread(capture, app, "wf_1")
    assert result["dlq_enqueued"] is True
    assert "1 of 1" in late["dlq_error"] and "memory" not in late["dlq_error"]
    assert (await queue_of(app).get_statistics())["waiting"] == 1


async def test_a_blocked_event_loop_is_not_waited_for_for_ever(
    app: MahavishnuApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_session, "_PATIENCE_SECONDS", 0.01)
    results = list[dict[str, Any]]()
    other = threading.Thread(target=lambda: results.extend(capture(app, "wf_0", "wf_1")))
    other.start()
    other.join(30)  # what uses the store is blocked by this, and waits for the other one
    assert [result["dlq_enqueued"] for result in results] == [False, False]
    assert all("does not answer; it waits in this process's memory" in result["dlq_error"] for result in results)
    assert await queue_of(app).intake.admit_waiting() == 2
    assert {letter.occurrences for letter in await queue_of(app).list_tasks()} == {1}


def test_many_threads_that_each_run_one_event_loop_after_the_other(tmp_path: Path) -> None:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path / 'letters.db'}"))
    app.register_adapter("sweep", Runs(NETWORK))

    def work(thread: int) -> None:
        for number in range(5):
            capture(app, f"wf_{thread}_{number}")

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    async def look() -> None:
        await queue_of(app).intake.admit_waiting()
        assert {letter.task_id: letter.occurrences for letter in await queue_of(app).list_tasks()} == {
            f"wf_{thread}_{number}": 1 for thread in range(6) for number in range(5)
        }
        assert await queue_of(app).context.waiting.count() == 0
        await app.shutdown()

    asyncio.run(look())


async def test_an_event_loop_that_ends_meanwhile_makes_way_for_another_one(
    any_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = any_house.app()
    app.register_adapter("sweep", Runs(NETWORK))
    opened, ended = threading.Event(), threading.Event()

    async def home() -> None:
        await queue_of(app).open()
        held = any_house.faults.hold("write", after=True, kind=LETTERS)
        opened.set()
        await held.wait_for_call()  # written, and the answer is not there yet
        held.release()

    def short() -> None:
        asyncio.run(home())
        ended.set()

    other = threading.Thread(target=short)
    other.start()
    await asyncio.to_thread(opened.wait, 10)
    result = await app.execute_workflow({"id": "wf_0"}, "sweep", ["api"])
    await asyncio.to_thread(other.join, 10)
    assert ended.is_set()
    await queue_of(app).intake.admit_waiting()
    assert (await letter_of(queue_of(app), "wf_0")).occurrences == 1
    assert result["status"] == "failed"
    await sound(queue_of(app))


@pytest.mark.parametrize("files", [True, False], ids=["in a file", "in memory"])
@pytest.mark.parametrize("slow", [True, False], ids=["a plugin is asked", "it is being written"])
def test_what_an_ending_event_loop_was_capturing_is_kept(tmp_path: Path, files: bool, slow: bool) -> None:
    house = House("sqlite", tmp_path)
    store = house.store()
    if files:
        store.path = tmp_path / "letters.db"  # type: ignore[attr-defined]  # what is disturbed has none
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=store, clock=house.clock)
    app.register_adapter("sweep", Runs(NETWORK))
    left = list[asyncio.Task[Any]]()

    async def main() -> None:
        await queue_of(app).open()
        if slow:
            app.chain.plugins.register(Slow(), "slow")
        held = house.faults.hold("write", kind=LETTERS)
        left.extend(asyncio.create_task(app.execute_workflow({"id": f"wf_{n}"}, "sweep")) for n in range(3))
        if slow:
            await asyncio.to_thread(asked.wait, 10)
        else:
            await held.wait_for_call()

    asked, done = threading.Event(), threading.Event()

    class Slow:
        @hookimpl
        def classify_error(self, error: Any, context: Any) -> None:
            asked.set()
            done.wait(10)

    asyncio.run(main())
    done.set()
    assert all(task.cancelled() for task in left)
    house.faults.clear()
    room = queue_of(app).context.waiting
    assert len(room.files.names() if files else room.in_memory) == 3

    async def look() -> None:
        await queue_of(app).intake.admit_waiting()
        letters = await queue_of(app).list_tasks()
        assert {(letter.task_id, letter.error_category) for letter in letters} == {
            (f"wf_{n}", "network") for n in range(3)
        }
        await app.shutdown()

    asyncio.run(look())


async def test_a_given_up_call_is_kept_when_its_event_loop_ends(house: House) -> None:
    app = house.app()
    await queue_of(app).open()
    house.faults.hold("write", kind=LETTERS)
    before = asyncio.all_tasks()
    caller = asyncio.create_task(fails(app, NETWORK, "wf_0"))
    await until(lambda: house.faults.calls["write"])
    caller.cancel()
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)
    house.faults.clear()
    assert await queue_of(app).intake.admit_waiting() == 1
    assert (await letter_of(queue_of(app), "wf_0")).error == "connection refused"


async def test_memory_is_shared_by_event_loops_too() -> None:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=MemoryStore())
    app.register_adapter("sweep", Runs(NETWORK))
    async with app:
        results = await asyncio.to_thread(capture, app, "wf_0")
        assert [result["dlq_task_id"] for result in results] == ["wf_0"]
        assert len(await queue_of(app).list_tasks()) == 1
        with pytest.raises(MahavishnuError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, queue_of(app).list_tasks())

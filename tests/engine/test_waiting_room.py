"""Failures for which there is no room, or no store, wait until they can become letters."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.stores.base import get_one, scan
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Call, FaultyStore, ManualClock, make_letter
from tests.support.queues import NETWORK, House, Runs, fails, fill, letter_of, queue_of, sound, until


class TestWaiting:
    """Failures for which there is no room wait until there is some."""

    async def full(self, house: House, **settings: Any) -> MahavishnuApp:
        app = house.app(dlq_max_size=100, **settings)
        queue_of(app).processing.callback = Runs()
        await fill(queue_of(app), 100, retry_policy="never")
        return app

    async def test_a_full_queue_keeps_the_workflows_error_and_lets_the_failure_in_later(self, any_house: House) -> None:
        app = await self.full(any_house)
        result = await fails(app, NETWORK, "late")
        assert (result["status"], result["error"], result["dlq_enqueued"]) == ("failed", "connection refused", False)
        assert "100 of 100" in result["dlq_error"]
        assert (await queue_of(app).get_statistics())["waiting"] == 1
        assert "1 failures wait" in "".join(await queue_of(app).health_warnings())
        await queue_of(app).run_due()
        assert (await queue_of(app).get_statistics())["waiting"] == 1
        await queue_of(app).archive_task("wf_00000")
        await queue_of(app).run_due()
        stats = await sound(queue_of(app))
        assert (stats["waiting"], stats["queue_size"]) == (0, 100)
        assert (await letter_of(queue_of(app), "late")).is_open

    async def test_another_process_lets_it_in(self, any_house: House) -> None:
        app = await self.full(any_house)
        await fails(app, NETWORK, "late")
        other = any_house.queue(Runs(), max_size=101)
        assert (await other.intake.admit_waiting(), await other.intake.admit_waiting()) == (1, 0)
        assert (await letter_of(other, "late")).error == "connection refused"

    @pytest.mark.parametrize("then", ["is open", "has succeeded", "has begun anew", "is deleted"])
    async def test_what_was_counted_although_no_answer_came_is_not_let_in_again(self, house: House, then: str) -> None:
        runs = Runs()
        app = house.app()
        queue = queue_of(app)
        queue.processing.callback = runs
        await fails(app, NETWORK, "wf")

        async def lose_the_answer(call: Call) -> None:
            if call.given[0].version is not None:
                raise StoreUnavailable("the answer was lost", maybe_written=True)

        with house.faults.after("write", lose_the_answer, kind=LETTERS):
            assert "it waits to be let in" in (await fails(app, NETWORK, "wf"))["dlq_error"]
        before = await letter_of(queue, "wf")
        assert (before.occurrences, len(before.failures), await queue.context.waiting.count()) == (2, 2, 1)
        if then in ("has succeeded", "has begun anew"):
            assert (await queue.retry_task("wf"))["success"]
        if then == "has begun anew":
            await fails(app, NETWORK, "wf")
        before = await letter_of(queue, "wf")
        if then == "is deleted":
            waiting = [each async for each in scan(queue.context.waiting.collection, Query())]
            await queue.context.waiting.collection.remove(waiting)  # as if it were still on its way
            await queue.clear_all()
            await queue.context.waiting.collection.write([replace(each, version=None) for each in waiting])
        assert await queue.intake.admit_waiting() == 0
        assert await queue.context.waiting.count() == 0
        assert await queue.get_task("wf") == (None if then == "is deleted" else before)
        assert len(runs.calls) == (then in ("has succeeded", "has begun anew"))

    async def test_clearing_the_queue_clears_what_waits_too(self, any_house: House) -> None:
        app = await self.full(any_house)
        await fails(app, NETWORK, "late")
        with any_house.faults.unavailable("write"):
            await fails(app, NETWORK, "later")
        assert await queue_of(app).context.waiting.count() == 2
        assert await queue_of(app).clear_all() == 100
        assert (await queue_of(app).context.waiting.count(), await queue_of(app).intake.admit_waiting()) == (0, 0)

    async def test_what_comes_into_memory_while_the_queue_is_cleared_is_not_forgotten(self, house: House) -> None:
        queue = await house.queue().open()
        room = queue.context.waiting
        room.in_memory.append(make_letter(task_id="before"))
        hold = house.faults.hold("write", kind=WAITING)
        clearing = asyncio.create_task(queue.clear_all())
        await hold.wait_for_call()
        room.in_memory.append(make_letter(task_id="meanwhile"))
        hold.release()
        await clearing
        known = await get_one(queue.context.letters.records, "meanwhile")
        assert known is not None or [letter.task_id for letter in room.in_memory] == ["meanwhile"]

    async def test_it_is_let_in_where_all_processes_meet(self) -> None:
        """A local store would have a second letter of it, taken for a copy when it comes home, with all it has."""
        clock, shared = ManualClock(), FaultyStore(MemoryStore())
        pair = FallbackStore(shared, MemoryStore(), kinds=KINDS, clock=clock)
        async with DeadLetterQueue(10, store=pair, clock=clock) as queue:
            await clock.sleeping()
            waiting = make_letter(task_id="late")
            await queue.context.waiting.keep(waiting)
            shared.faults.unavailable()
            local = await queue.enqueue("late", {}, [], NETWORK)
            await queue.letters.resolve("late")
            assert await queue.intake.admit_waiting() == 0, "the shared store is away"
            shared.faults.clear()
            with shared.faults.item_unavailable("write", kind=LETTERS):
                await pair.drain()
            assert (pair.away, await queue.intake.admit_waiting()) == (None, 1)
            letter = await get_one(shared.inner.collection(LETTERS), "late")
            assert letter is not None and (letter.entry_id, letter.absorbed) == (waiting.entry_id, ())
            await pair.drain()
            letter = await get_one(shared.inner.collection(LETTERS), "late")
            assert letter is not None and letter.knows(waiting.entry_id) and letter.knows(local.entry_id)
            assert letter.generation + letter.tallies.deduplicated == 2

    async def test_it_is_let_in_as_soon_as_there_is_room(self, house: House) -> None:
        app = await self.full(house)
        await fails(app, NETWORK, "late")
        await app.start_dlq_processor()
        await queue_of(app).letters.cancel("wf_00000")
        while await queue_of(app).get_task("late") is None:
            await house.clock.sleeping()
        assert (await queue_of(app).get_statistics())["waiting"] == 0

    async def test_a_disabled_strategy_keeps_what_waits_where_it_is(self, any_house: House) -> None:
        app = await self.full(any_house)
        await fails(app, NETWORK, "late")
        assert app.dlq_integration is not None
        app.dlq_integration.set_strategy("disabled")
        await queue_of(app).archive_task("wf_00000")
        await queue_of(app).run_due()
        assert (await queue_of(app).get_statistics())["waiting"] == 1
        app.dlq_integration.set_strategy("selective")
        await queue_of(app).run_due()
        assert (await queue_of(app).get_statistics())["waiting"] == 0

    async def test_no_letter_of_a_closed_case_is_let_in_over_the_limit(self, any_house: House) -> None:
        app = await self.full(any_house)
        await queue_of(app).letters.resolve("wf_00000")
        await fill(queue_of(app), 1)  # opened again: full
        await queue_of(app).letters.resolve("wf_00001")
        await queue_of(app).enqueue("other", {}, [], "boom", "never")
        assert (await fails(app, NETWORK, "wf_00001"))["dlq_enqueued"] is False
        assert await queue_of(app).intake.admit_waiting() == 0
        assert (await sound(queue_of(app)))["queue_size"] == 100
        await queue_of(app).letters.resolve("other")
        assert await queue_of(app).intake.admit_waiting() == 1
        assert (await letter_of(queue_of(app), "wf_00001")).generation == 2

    async def test_a_payload_over_the_limit_waits_for_another_limit(self, any_house: House) -> None:
        app = any_house.app(dlq_max_task_bytes=1024)
        app.register_adapter("sweep", Runs(NETWORK))
        result = await app.execute_workflow({"id": "big", "blob": "x" * 2000}, "sweep", [])
        assert "dlq_max_task_bytes" in result["dlq_error"]
        assert (await queue_of(app).intake.admit_waiting(), await queue_of(app).context.waiting.count()) == (0, 1)
        assert await any_house.queue().intake.admit_waiting() == 1
        assert (await letter_of(queue_of(app), "big")).task["blob"] == "x" * 2000

    async def test_one_that_the_store_refuses_does_not_hold_up_the_others(self, any_house: House) -> None:
        app = await self.full(any_house)
        for name in ("refused", "fine"):
            await fails(app, NETWORK, name)
            any_house.clock.advance(1)
        await queue_of(app).letters.archive_many(category="network")
        with any_house.faults.item_failed("write", kind=LETTERS, keys=["refused"]):
            assert await queue_of(app).intake.admit_waiting() == 1
        assert await queue_of(app).intake.admit_waiting() == 1

    async def test_two_that_let_in_at_once_do_not_stumble(self, any_house: House) -> None:
        app = any_house.app()
        with any_house.faults.unavailable("write"):
            for number in range(5):
                await fails(app, NETWORK, f"wf_{number}")
        counts = await asyncio.gather(*(queue_of(app).intake.admit_waiting() for _ in range(3)))
        assert (sum(counts), await queue_of(app).context.waiting.count()) == (5, 0)
        assert (await sound(queue_of(app)))["lifetime_stats"]["enqueued_total"] == 5


class TestOutsideOfTheStore:
    """Failures that the store cannot take wait in files beside it, or in memory, until it can."""

    def app(self, house: House, *, files: bool) -> MahavishnuApp:
        store = house.store()
        if files:
            store.path = house.folder / "letters.db"  # type: ignore[attr-defined]  # what is disturbed has none
        app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=store, clock=house.clock)
        house.look_after(queue_of(app))
        return app

    @pytest.mark.parametrize("files", [True, False], ids=["in files", "in memory"])
    @pytest.mark.parametrize("fault", ["unavailable", "misconfigured"])
    async def test_a_process_that_only_captures_writes_them_down(
        self, any_house: House, files: bool, fault: str
    ) -> None:
        app = self.app(any_house, files=files)
        await queue_of(app).open()
        room = queue_of(app).context.waiting
        with getattr(any_house.faults, fault)():
            results = [await fails(app, NETWORK, name) for name in ("first", "second")]
            assert all(("in a file beside" if files else "memory") in result["dlq_error"] for result in results)
            for _ in range(3):  # tried again and again
                await any_house.clock.sleeping()
                any_house.clock.advance(60)
            await any_house.clock.sleeping()
            assert (room.has_outside, len(room.in_memory)) == (True, 0 if files else 2)
        any_house.clock.advance(60)
        await until(lambda: not room.has_outside)
        assert (await room.collection.tally(Query())).total.count == 2
        assert await any_house.queue().intake.admit_waiting() == 2

    async def test_what_is_in_memory_goes_to_a_file_when_there_can_be_one(self, any_house: House) -> None:
        app = self.app(any_house, files=True)
        room = queue_of(app).context.waiting
        folder = any_house.folder / "letters.db-waiting"
        folder.write_text("in the way")
        with any_house.faults.unavailable():
            assert "memory" in (await fails(app, NETWORK, "first"))["dlq_error"]
            folder.unlink()
            await any_house.clock.sleeping()
            any_house.clock.advance(1)
            await until(lambda: not room.in_memory)
            assert len(room.files.names()) == 1

    async def test_the_payload_of_what_is_only_in_memory_is_in_the_log(
        self, any_house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = self.app(any_house, files=False)
        app.register_adapter("sweep", Runs(NETWORK))
        with any_house.faults.unavailable():
            await app.execute_workflow({"id": "wf_1", "text": "x" * 9000 + "the end"}, "sweep")
        assert "the end" in caplog.text

    @pytest.mark.parametrize(("files", "where"), [(True, "in files beside the store"), (False, "memory only")])
    async def test_health_tells_of_them(self, any_house: House, files: bool, where: str) -> None:
        dlq = queue_of(app := self.app(any_house, files=files))
        with any_house.faults.unavailable("write"):  # the store itself says that all is well
            assert (await dlq.health()).status == "ok"
            await fails(app, NETWORK, "first")
            health = await dlq.health()
            assert (health.status, (await dlq.get_statistics())["storage_mode"]) == ("degraded", "degraded")
            assert health.detail.startswith("1 failures are ")
            assert where in health.detail
        await dlq.context.waiting.write_down()
        assert (await dlq.health()).status == "ok"

    async def test_health_tells_of_a_file_that_cannot_be_read(self, any_house: House) -> None:
        dlq = queue_of(app := self.app(any_house, files=True))
        with any_house.faults.unavailable("write"):
            await fails(app, NETWORK, "first")
        files = dlq.context.waiting.files
        assert files.folder is not None
        (waiting,) = files.folder.iterdir()
        waiting.write_text(waiting.read_text()[:-20])
        await dlq.context.waiting.write_down()
        health = await dlq.health()
        assert health.status == "degraded"
        assert health.detail.startswith(f"1 failures are in files in {files.folder} that cannot be read")

    async def test_the_next_process_finds_the_files(self, any_house: House) -> None:
        app = self.app(any_house, files=True)
        with any_house.faults.unavailable():
            await fails(app, NETWORK, "first")
        any_house.kill(queue_of(app))
        other = self.app(any_house, files=True)
        assert (await queue_of(other).get_statistics())["waiting"] == 1
        await any_house.clock.sleeping()
        any_house.clock.advance(1)
        room = queue_of(other).context.waiting
        await until(lambda: not room.has_outside)
        assert await queue_of(other).intake.admit_waiting() == 1
        assert (await letter_of(queue_of(other), "first")).error == "connection refused"

    async def test_clearing_the_queue_removes_the_files(self, any_house: House) -> None:
        app = self.app(any_house, files=True)
        with any_house.faults.unavailable():
            await fails(app, NETWORK, "first")
        await queue_of(app).clear_all()
        room = queue_of(app).context.waiting
        assert (await room.count(), room.files.names()) == (0, [])

    @pytest.mark.parametrize("files", [True, False], ids=["in files", "in memory"])
    async def test_clearing_the_queue_clears_what_the_store_refuses(self, any_house: House, files: bool) -> None:
        queue = queue_of(self.app(any_house, files=files))
        room = (await queue.open()).context.waiting
        waiting = make_letter(task_id="refused")
        with any_house.faults.item_failed("write", kind=WAITING):
            room.keep_outside(waiting)
            await queue.clear_all()
            assert await room.count() == 0
        tombstone = await get_one(queue.context.letters.records, "refused")
        assert tombstone is not None and tombstone.is_deleted and tombstone.knows(waiting.entry_id)
        assert (await queue.intake.admit_waiting(), await queue.get_task("refused")) == (0, None)

    async def test_a_processor_lets_in_what_was_written_down(self, house: House) -> None:
        app = self.app(house, files=True)
        queue_of(app).processing.callback = Runs()
        await app.start_dlq_processor()
        with house.faults.unavailable():
            await fails(app, NETWORK, "first", metadata={"n": 1})
        while await queue_of(app).get_task("first") is None:
            await house.clock.sleeping()
            house.clock.advance(1)

    async def test_a_closed_queue_leaves_nothing_outside(self, any_house: House) -> None:
        app = self.app(any_house, files=True)
        with any_house.faults.unavailable():
            await fails(app, NETWORK, "first")
        await app.shutdown()
        assert queue_of(app).context.waiting.files.names() == []
        assert await any_house.queue().intake.admit_waiting() == 1

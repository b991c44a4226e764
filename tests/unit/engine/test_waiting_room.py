"""Failures for which there is no room, or no store, wait until they can become letters."""

from __future__ import annotations

import asyncio
from typing import Any

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.stores.kinds import LETTERS
from tests.unit.queues import NETWORK, House, Runs, fails, fill, letter_of, queue_of, sound


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

    async def test_clearing_the_queue_clears_what_waits_too(self, any_house: House) -> None:
        app = await self.full(any_house)
        await fails(app, NETWORK, "late")
        with any_house.faults.unavailable("write"):
            await fails(app, NETWORK, "later")
        assert await queue_of(app).context.waiting.count() == 2
        assert await queue_of(app).clear_all() == 100
        assert (await queue_of(app).context.waiting.count(), await queue_of(app).intake.admit_waiting()) == (0, 0)

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

"""The strategies: which failures become letters."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mahavishnu import hookimpl
from mahavishnu.core.dlq_integration import DLQIntegrationStrategy
from mahavishnu.core.strategies import Decision, Occurrence
from mahavishnu.stores.kinds import LETTERS
from tests.support.queues import NETWORK, House, fails, letter_of, queue_of, sound

OF_EACH = {
    "transient": "HTTP 429 Too Many Requests",
    "network": ConnectionResetError("peer went away"),
    "resource": MemoryError(),
    "permission": PermissionError("denied"),
    "validation": ValueError("no such field"),
    "permanent": "something nobody has ever seen",
}
RETRYABLE = {"transient": "exponential", "network": "exponential", "resource": "linear"}


class TestStrategies:
    """Which failures become letters."""

    async def test_automatic_keeps_everything(self, any_house: House) -> None:
        app = any_house.app()
        for category, error in OF_EACH.items():
            result = await fails(app, error, category)
            assert (result["dlq_enqueued"], result["error_category"]) == (True, category)
        letters = await queue_of(app).list_tasks()
        policies = {letter.error_category: letter.retry_policy for letter in letters}
        assert policies == {**dict.fromkeys(OF_EACH, "never"), **RETRYABLE}

    async def test_selective_keeps_failures_that_a_retry_may_help(
        self, any_house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = any_house.app(dlq_strategy="selective")
        with caplog.at_level(logging.INFO):
            results = {category: await fails(app, error, category) for category, error in OF_EACH.items()}
        letters = await queue_of(app).list_tasks()
        assert {letter.error_category: letter.retry_policy for letter in letters} == RETRYABLE
        for category in OF_EACH.keys() - RETRYABLE.keys():
            assert results[category]["dlq_enqueued"] is False
            assert "selective" in results[category]["dlq_skip_reason"]
            assert f"the failure of task {category!r} is not kept" in caplog.text
        assert (await sound(queue_of(app)))["lifetime_stats"]["skipped_by_strategy"] == 3

    async def test_manual_keeps_requested_failures_only(self, house: House) -> None:
        app = house.app(dlq_strategy="manual")
        assert (await fails(app, NETWORK))["dlq_skip_reason"].startswith("the strategy is manual")
        assert (await fails(app, NETWORK, "asked", enqueue=True))["dlq_task_id"] == "asked"
        await queue_of(app).enqueue("direct", {}, [], "boom")
        assert len(await queue_of(app).list_tasks()) == 2

    async def test_disabled_keeps_only_direct_enqueues(self, house: House) -> None:
        app = house.app(dlq_strategy="disabled")
        for wish in (None, True):
            assert (await fails(app, NETWORK, enqueue=wish))["dlq_enqueued"] is False
        await queue_of(app).enqueue("direct", {}, [], "boom")
        assert [letter.task_id for letter in await queue_of(app).list_tasks()] == ["direct"]

    async def test_a_strategy_can_be_switched_between_two_failures(self, house: House) -> None:
        app = house.app()
        assert app.dlq_integration is not None
        hold = house.faults.hold("write", kind=LETTERS)
        first = asyncio.create_task(fails(app, NETWORK, "before"))
        await hold.wait_for_call()
        app.dlq_integration.set_strategy("disabled")
        hold.release()
        assert (await first)["dlq_enqueued"] is True  # it had begun under the other one
        assert (await fails(app, NETWORK, "after"))["dlq_enqueued"] is False
        app.dlq_integration.set_strategy(DLQIntegrationStrategy.AUTOMATIC)
        assert app.dlq_integration.get_strategy() is DLQIntegrationStrategy.AUTOMATIC
        with pytest.raises(ValueError, match="automatic, selective, manual, disabled"):
            app.dlq_integration.set_strategy("sometimes")
        assert app.dlq_integration.get_strategy() is DLQIntegrationStrategy.AUTOMATIC

    async def test_a_callable_can_be_the_strategy(self, house: House) -> None:
        app = house.app()
        assert app.dlq_integration is not None

        def mine(occurrence: Occurrence) -> Decision | bool:
            match occurrence.task_id:
                case "kept":
                    return Decision(True, "I want it", "linear", 7)
                case "dropped":
                    return False
            raise RuntimeError("oops")

        app.dlq_integration.set_strategy(mine)
        assert (await fails(app, NETWORK, "kept"))["max_retries"] == 7
        assert (await fails(app, NETWORK, "dropped"))["dlq_skip_reason"] == "strategy mine says so"
        assert (await fails(app, NETWORK, "other"))["dlq_enqueued"] is True  # one that stumbles loses nothing
        assert (await letter_of(queue_of(app), "kept")).retry_policy == "linear"

    async def test_the_classifier_is_asked_once_and_before_the_strategy(self, house: House) -> None:
        app, order = house.app(dlq_strategy="disabled"), []

        class Spy:
            @hookimpl(tryfirst=True)
            def classify_error(self, error: Any, context: Any) -> None:
                order.append("classifier")

        def strategy(occurrence: Occurrence) -> bool:
            order.append("strategy")
            return False

        app.chain.plugins.register(Spy(), "spy")
        await fails(app, NETWORK)
        assert order == ["classifier"]
        assert app.dlq_integration is not None
        app.dlq_integration.set_strategy(strategy)
        await fails(app, NETWORK)
        assert order == ["classifier", "classifier", "strategy"]

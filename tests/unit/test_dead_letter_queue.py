"""The dead-letter queue in ten areas, as its documentation lists them. The tests of the rooms go into each."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import (
    KINDS,
    DeadLetterQueue,
    DeadLetterStatus,
    DLQFullError,
    FailedTask,
    RetryPolicy,
)
from mahavishnu.core.resilience import ErrorCategory
from mahavishnu.engine.breaker import Breakers
from mahavishnu.model.backoff import FailedRetry
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.urls import open_store
from tests.support.queues import NETWORK, House, Runs, letter_of, queue_of, sound


class TestFailedTask:
    """The record, made by hand as users of the earlier orchestrator did."""

    NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def test_defaults(self) -> None:
        task = FailedTask("wf_1", {"type": "sweep"}, ["api"], "boom", self.NOON)
        assert (task.retry_policy, task.max_retries, task.retry_count) == (RetryPolicy.EXPONENTIAL, 3, 0)
        assert (task.status, task.last_error, task.total_attempts) == (DeadLetterStatus.PENDING, "boom", 0)
        assert (task.task, task.metadata, task.updated_at) == ({"type": "sweep"}, {}, self.NOON)

    def test_a_dict_and_back(self) -> None:
        task = FailedTask(
            "wf_1", {"n": 1}, ["api"], "boom", self.NOON, retry_count=1, retry_policy="linear",
            next_retry_at=self.NOON + timedelta(minutes=5), metadata={"team": "blue"}, error_category="network",
        )  # fmt: skip
        document = task.to_dict()
        again = FailedTask.from_dict(document)
        assert again.to_dict() == document
        assert (again.retry_policy, again.next_retry_at) == (RetryPolicy.LINEAR, self.NOON + timedelta(minutes=5))
        assert (document["next_retry_at"], document["metadata"]) == ("2026-01-01T12:05:00.000Z", {"team": "blue"})

    def test_copies_are_the_same_task(self) -> None:
        task = FailedTask("wf_1", {"n": 1}, ["api"], "boom", self.NOON, max_retries=5)
        for same in (pickle.loads(pickle.dumps(task)), copy.deepcopy(task), replace(task)):
            assert (type(same), same) == (FailedTask, task)
        assert isinstance(task, DeadLetter)
        assert replace(task, priority=7).priority == 7

    def test_a_naive_date_and_a_document_of_something_else_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="time zone"):
            FailedTask("wf_1", {}, [], "boom", datetime(2026, 1, 1))  # noqa: DTZ001 - on purpose
        strangers: tuple[Any, ...] = ({"error": "boom"}, [], "wf_1")
        for stranger in strangers:
            with pytest.raises(InvalidInput, match="no failed task"):
                FailedTask.from_dict(stranger)

    async def test_a_closed_letter_is_closed_when_it_comes_back(self, house: House) -> None:
        queue = house.queue()
        await queue.enqueue("wf_1", {}, [], "boom")
        document = (await queue.letters.resolve("wf_1", by="ann", notes="by hand")).to_dict()
        again = FailedTask.from_dict(document)
        assert (again.is_open, again.to_dict()) == (False, document)


class TestRetryPolicyCalculations:
    """When the next retry is, by the number of retries that failed."""

    @pytest.mark.parametrize(
        ("policy", "minutes"),
        [
            ("linear", [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]),
            ("exponential", [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]),
            ("immediate", [0] * 10),
        ],
    )
    async def test_delays(self, house: House, policy: str, minutes: list[float]) -> None:
        queue = house.queue(Runs(NETWORK), breakers=Breakers(1000))  # none that gets in the way
        await queue.enqueue("wf_1", {}, [], "connection refused", policy, max_retries=11)
        for delay in minutes:
            due = (await letter_of(queue, "wf_1")).next_retry_at
            assert due == house.clock.now() + timedelta(minutes=delay)
            house.clock.set(due)
            assert await queue.run_due() == 1

    async def test_never(self, house: House) -> None:
        queue = house.queue(runs := Runs())
        await queue.enqueue("wf_1", {}, [], "denied", RetryPolicy.NEVER)
        house.clock.advance(timedelta(days=365))
        assert (await queue.run_due(), runs.calls) == (0, [])
        assert (await letter_of(queue, "wf_1")).next_retry_at is None

    async def test_ten_thousand_retries_are_computed_at_once(self, house: House) -> None:
        queue = house.queue()
        letter = await queue.enqueue("wf_1", {}, [], "down", max_retries=10**6)
        assert letter.next_retry_at == house.clock.now() + timedelta(minutes=1)
        assert queue.context.backoffs.delay_for("exponential", FailedRetry(10_000)).duration == timedelta(minutes=60)


class TestDeadLetterQueue:
    """One test for each area."""

    async def test_enqueue_task(self, any_house: House) -> None:
        queue = any_house.queue()
        kept = await queue.enqueue(
            task_id="wf_abc123",
            task={"type": "code_sweep"},
            repos=["/path/to/repo"],
            error="Connection timeout",
            retry_policy=RetryPolicy.EXPONENTIAL,
            max_retries=5,
            metadata={"priority": "high"},
        )
        found = await queue.get_task("wf_abc123")
        assert found == kept
        assert (found.status, found.retry_count, found.max_retries) == (DeadLetterStatus.PENDING, 0, 5)
        assert (found.task, found.repos) == ({"type": "code_sweep"}, ("/path/to/repo",))
        assert (found.error_category, found.metadata) == (ErrorCategory.NETWORK, {"priority": "high"})
        assert found.next_retry_at == any_house.clock.now() + timedelta(minutes=1)
        assert [letter.task_id for letter in await queue.list_tasks()] == ["wf_abc123"]
        assert await queue.get_task("wf_other") is None

    async def test_automatic_retry(self, any_house: House) -> None:
        queue = any_house.queue(runs := Runs({"status": "failed", "error": "boom"}, {"status": "completed"}))
        await queue.enqueue("wf_1", {"n": 1}, ["api"], "connection refused")
        any_house.clock.advance(minutes=1)
        assert await queue.run_due() == 1
        failed = await letter_of(queue, "wf_1")
        assert (failed.status, failed.retry_count, failed.last_error) == ("pending", 1, "boom")
        any_house.clock.advance(minutes=2)
        assert await queue.run_due() == 1
        assert runs.calls == [({"n": 1}, ["api"])] * 2
        assert (await letter_of(queue, "wf_1")).status is DeadLetterStatus.COMPLETED
        assert (await sound(queue))["lifetime_stats"]["retry_success"] == 1

    async def test_manual_retry(self, any_house: House) -> None:
        queue = any_house.queue(Runs({"status": "completed", "swept": 3}))
        await queue.enqueue("wf_1", {}, [], "denied", RetryPolicy.NEVER, max_retries=0)
        answer = await queue.retry_task("wf_1")
        assert (answer["success"], answer["result"]["swept"]) == (True, 3)
        assert (await sound(queue))["lifetime_stats"]["manually_retried"] == 1

    async def test_archive(self, any_house: House) -> None:
        queue = any_house.queue()
        await queue.enqueue("wf_1", {}, [], "boom")
        assert await queue.archive_task("wf_1") is True
        assert (await queue.list_tasks(), await queue.get_task("wf_1")) == ([], None)
        assert [letter.task_id for letter in await queue.list_tasks(DeadLetterStatus.ARCHIVED)] == ["wf_1"]
        assert await queue.archive_task("wf_1") is False

    async def test_statistics(self, any_house: House) -> None:
        queue = any_house.queue()
        for number in range(15):
            await queue.enqueue(f"wf_{number}", {}, [], "connection refused")
        stats = await sound(queue)
        assert (stats["queue_size"], stats["max_size"], stats["utilization_percent"]) == (15, 10_000, 0.15)
        assert stats["status_breakdown"] == {"pending": 15, "retrying": 0, "exhausted": 0}
        assert (stats["error_categories"], stats["retry_policies"]) == ({"network": 15}, {"exponential": 15})
        assert stats["lifetime_stats"]["enqueued_total"] == 15

    async def test_queue_full(self, any_house: House) -> None:
        queue = any_house.queue(max_size=2)
        await queue.enqueue("wf_1", {}, [], "boom")
        await queue.enqueue("wf_2", {}, [], "boom")
        with pytest.raises(DLQFullError, match="2 of 2"):
            await queue.enqueue("wf_3", {}, [], "boom")
        assert (await queue.enqueue("wf_1", {}, [], "again")).occurrences == 2
        stats = await sound(queue)
        assert (stats["queue_size"], stats["lifetime_stats"]["rejected_full"]) == (2, 1)
        await queue.archive_task("wf_1")
        await queue.enqueue("wf_3", {}, [], "boom")

    async def test_exhausted(self, any_house: House) -> None:
        queue = any_house.queue(runs := Runs(NETWORK))
        await queue.enqueue("wf_1", {}, [], "connection refused", max_retries=2)
        for _ in range(10):
            any_house.clock.advance(hours=1)
            await queue.run_due()
        letter = await letter_of(queue, "wf_1")
        assert (letter.status, letter.retry_count, len(runs.calls)) == (DeadLetterStatus.EXHAUSTED, 2, 2)
        assert (letter.next_retry_at, letter.is_open) == (None, True)
        assert (await sound(queue))["lifetime_stats"]["exhausted"] == 1

    @pytest.mark.opensearch
    async def test_opensearch_persistence(self, house: House, opensearch_url: str, opensearch_prefix: str) -> None:
        url = f"{opensearch_url.replace('http', 'opensearch', 1)}/{opensearch_prefix}"
        for number in range(2):  # two processes, one after the other
            async with DeadLetterQueue(store=open_store(url, kinds=KINDS), clock=house.clock) as queue:
                await queue.enqueue(f"wf_{number}", {"n": number}, ["api"], "boom")
                assert len(await queue.list_tasks()) == number + 1
                assert (await letter_of(queue, "wf_0")).task == {"n": 0}
                assert (await sound(queue))["lifetime_stats"]["enqueued_total"] == number + 1

    async def test_workflow_integration(self, any_house: House) -> None:
        app = any_house.app()
        app.register_adapter("sweep", Runs(NETWORK, {"status": "completed"}))
        result = await app.execute_workflow({"id": "wf_1", "n": 1}, "sweep", ["api"])
        assert (result["status"], result["dlq_enqueued"], result["dlq_task_id"]) == ("failed", True, "wf_1")
        letter = await letter_of(queue_of(app), "wf_1")
        assert (letter.task, letter.repos) == ({"id": "wf_1", "n": 1}, ("api",))
        any_house.clock.advance(minutes=1)
        assert await queue_of(app).run_due() == 1
        assert (await letter_of(queue_of(app), "wf_1")).status is DeadLetterStatus.COMPLETED

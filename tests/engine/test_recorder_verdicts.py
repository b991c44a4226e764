"""A letter goes with its latest failure: what is said about that is said about the letter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.fingerprint import fingerprint_of
from mahavishnu.classify.plugins import Plugins
from mahavishnu.classify.verdict import Verdict
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ErrorCategory
from tests.support.queues import House, Runs, letter_of, queue_of

TASK = {"n": 1}
NETWORK, DENIED, MEMORY = "connection refused", PermissionError("access denied"), MemoryError("too large")


def app_queue(house: House, *answers: Any, **settings: Any) -> DeadLetterQueue:
    """The queue of an app whose workflow `sweep` answers so."""
    app = house.app(**settings)
    app.register_adapter("sweep", Runs(*answers))
    return queue_of(app)


async def fails(queue: DeadLetterQueue, error: Any, **options: Any) -> DeadLetter:
    return await queue.enqueue("wf_1", TASK, [], error, adapter="sweep", **options)


def shop_chain() -> Chain:
    """A classifier that reads its verdict off the error."""
    plugins = Plugins()
    plugins.register(lambda error: getattr(error, "verdict", None), "shop")
    return Chain(plugins)


class Told(Exception):
    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class TestMerged:
    async def test_the_latest_failure_says_what_the_letter_is(self, any_house: House) -> None:
        queue = app_queue(any_house)
        first = await fails(queue, NETWORK)
        assert (first.error_category, first.retry_policy, first.due_at is None) == ("network", "exponential", False)
        merged = await fails(queue, DENIED)
        assert (merged.error_category, merged.verdict.reason) == ("permission", "PermissionError")
        assert (merged.retry_policy, merged.due_at, merged.occurrences) == ("never", None, 2)
        assert merged.fingerprint == fingerprint_of(merged.failures[-1]) != first.fingerprint
        assert (merged.former_fingerprints, merged.grouped_at) == ((first.fingerprint,), any_house.clock.now())
        any_house.clock.advance(1)
        again = await fails(queue, NETWORK)
        assert (again.error_category, again.retry_policy) == ("network", "exponential")
        assert again.due_at == any_house.clock.now() + timedelta(minutes=1), "there was no date, so it gets one"
        assert (again.fingerprint, again.former_fingerprints) == (first.fingerprint, (merged.fingerprint,))
        assert await letter_of(queue, "wf_1") == again

    async def test_the_schedule_stays_where_the_failure_asks_for_nothing(self, any_house: House) -> None:
        """Otherwise a task that fails every half minute would never be retried."""
        queue = app_queue(any_house)
        first = await fails(queue, NETWORK)
        any_house.clock.advance(30)
        merged = await fails(queue, MEMORY)
        assert (merged.retry_policy, merged.due_at) == ("linear", first.due_at)

    async def test_a_wait_that_was_asked_for_counts(self, any_house: House) -> None:
        queue = any_house.queue(chain=shop_chain())
        await fails(queue, NETWORK)
        merged = await fails(
            queue, Told(Verdict(ErrorCategory.TRANSIENT, "busy", retry_in=timedelta(minutes=17), tags=("eu",)))
        )
        assert merged.due_at == any_house.clock.now() + timedelta(minutes=17)
        assert (merged.verdict.author, merged.tags, merged.failures[-1].retry_in_seconds) == ("shop", ("eu",), 1020)
        assert [each.task_id for each in await queue.list_tasks(tags="eu")] == ["wf_1"]
        assert not (await fails(queue, NETWORK)).tags, "those of the latest failure"

    async def test_while_it_is_run_the_date_after_the_run_is_meant(self, any_house: House) -> None:
        queue = app_queue(any_house)
        await fails(queue, NETWORK)
        any_house.clock.advance(60)
        (claim,) = await queue.claims.claim("w")
        merged = await fails(queue, DENIED)
        assert merged.due_at == claim.lease_until
        released = await queue.claims.settle("wf_1", claim.token, "released")
        assert (released.retry_policy, released.due_at) == ("never", None)

    async def test_a_policy_that_somebody_chose_stays(self, any_house: House) -> None:
        queue = app_queue(any_house)
        await fails(queue, NETWORK, retry_policy="linear")
        assert (await fails(queue, DENIED)).retry_policy == "linear"
        await queue.enqueue("wf_2", TASK, [], NETWORK)
        await queue.letters.edit("wf_2", retry_policy="immediate")
        merged = await queue.enqueue("wf_2", TASK, [], DENIED)
        assert (merged.retry_policy, merged.error_category) == ("immediate", "permission")

    async def test_one_chosen_later_counts(self, any_house: House) -> None:
        queue = app_queue(any_house)
        await fails(queue, NETWORK)
        await fails(queue, NETWORK, retry_policy="linear")
        assert (await fails(queue, DENIED)).retry_policy == "linear"


class TestRetried:
    async def test_the_retry_brings_its_own_verdict(self, any_house: House) -> None:
        queue = app_queue(any_house, MEMORY, DENIED)
        first = await fails(queue, NETWORK)
        any_house.clock.advance(60)
        await queue.run_due()
        letter = await letter_of(queue, "wf_1")
        assert (letter.error_category, letter.retry_policy, letter.status) == ("resource", "linear", "pending")
        assert letter.former_fingerprints == (first.fingerprint,)
        any_house.clock.advance(3600)
        await queue.run_due()
        letter = await letter_of(queue, "wf_1")
        assert (letter.error_category, letter.retry_policy, letter.status) == ("permission", "never", "exhausted")

    async def test_the_same_error_leaves_it_in_its_group(self, any_house: House) -> None:
        """Also where it was captured by the app, and is retried by the processor: the traceback is another one."""
        app = any_house.app()

        async def sweep(task: Any, repos: list[str]) -> None:
            raise ConnectionError("connection refused")

        app.register_adapter("sweep", sweep)
        await app.execute_workflow(TASK, "sweep", ["api"], task_id="wf_1")
        first = await letter_of(app.dlq, "wf_1")
        any_house.clock.advance(60)
        await app.dlq.run_due()
        letter = await letter_of(app.dlq, "wf_1")
        assert (letter.retry_count, letter.fingerprint, letter.former_fingerprints) == (1, first.fingerprint, ())
        any_house.clock.advance(3600)
        (claim,) = await app.dlq.claims.claim("elsewhere")
        reported = await app.dlq.claims.settle(
            "wf_1", claim.token, "failed", error="connection refused", error_type="ConnectionError"
        )
        assert (reported.retry_count, reported.fingerprint) == (2, first.fingerprint), "a text has no traceback"

    async def test_what_a_worker_elsewhere_reports_counts_alike(self, any_house: House) -> None:
        queue = app_queue(any_house)
        await fails(queue, NETWORK)
        any_house.clock.advance(60)
        (claim,) = await queue.claims.claim("elsewhere")
        letter = await queue.claims.settle("wf_1", claim.token, "failed", error="out of memory", retry_in=90)
        assert (letter.error_category, letter.retry_policy) == ("resource", "linear")
        assert letter.due_at == any_house.clock.now() + timedelta(seconds=90)

    async def test_a_policy_that_somebody_chose_stays(self, any_house: House) -> None:
        queue = app_queue(any_house, DENIED)
        await fails(queue, NETWORK, retry_policy="immediate")
        await queue.run_due()
        letter = await letter_of(queue, "wf_1")
        assert (letter.error_category, letter.retry_policy, letter.status) == ("permission", "immediate", "pending")

    async def test_a_run_by_hand_that_fails_for_good_leaves_no_date(self, any_house: House) -> None:
        queue = app_queue(any_house, DENIED)
        await fails(queue, NETWORK)
        await queue.retry_task("wf_1")
        letter = await letter_of(queue, "wf_1")
        assert (letter.status, letter.retry_policy, letter.due_at) == ("pending", "never", None)


@pytest.mark.parametrize("automatic", ["category", "default"])
@pytest.mark.parametrize("error", [NETWORK, DENIED, MEMORY, "no idea", ValueError("bad input")], ids=str)
async def test_the_queue_and_the_app_decide_alike(house: House, error: Any, automatic: str) -> None:
    settings = {"dlq_automatic_policy": automatic, "dlq_default_retry_policy": "linear"}
    app = house.app(**settings)
    app.register_adapter("sweep", Runs(error if isinstance(error, Exception) else {"success": False, "error": error}))
    await app.execute_workflow(TASK, "sweep", [], task_id="captured")
    assert app.dlq_integration is not None
    await app.dlq_integration.enqueue_failed_workflow("handed over", TASK, [], error, adapter="sweep")
    await app.dlq.enqueue("enqueued", TASK, [], error, adapter="sweep")
    one, *others = [await letter_of(app.dlq, name) for name in ("captured", "handed over", "enqueued")]

    def verdict(letter: DeadLetter) -> Any:
        return letter.error_category, letter.retry_policy, letter.max_retries, letter.status, letter.due_at

    assert [verdict(each) for each in others] == [verdict(one)] * 2
    assert {each.adapter for each in others} == {one.adapter} == {"sweep"}


async def test_the_task_as_it_was_captured_stays(any_house: House) -> None:
    queue = any_house.queue()
    await fails(queue, NETWORK)
    assert (await letter_of(queue, "wf_1")).task_snapshot == TASK
    await queue.letters.edit("wf_1", patch={"n": 2})
    await queue.letters.edit("wf_1", patch={"n": 3})
    letter = await letter_of(queue, "wf_1")
    assert (letter.task, letter.task_snapshot) == ({"n": 3}, TASK)
    line = [each async for each in queue.transfer.export()]
    assert len(line) == 1

"""Sending work back: on somebody's behalf, and by the rule."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.rules import BY_RULE, RequeueRules
from mahavishnu.model.errors import InvalidInput, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ResolutionStatus, Source, SourceKind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import Faults
from tests.support.queues import Gate, House, Runs, fill, heard, letter_of, pass_time, settle, sound, until

MESSAGE = "Task not found in DLQ or already resolved"
CLOSED = {
    "resolve": "completed, resolved otherwise",
    "cancel": "archived, cancelled",
    "fail": "exhausted, given up as permanently failed",
    "archive": "archived, given up as permanently failed",
}
BEYOND = {
    "success": False, "message": "Max DLQ retries exceeded", "new_task_state": "error", "dlq_retry_count": 3,
}  # fmt: skip
AUTOMATIC = RequeueRules(enabled=True)
FAILS = ConnectionError("connection refused")


def not_open(why: str) -> dict[str, Any]:
    return {"success": False, "message": MESSAGE, "new_task_state": None, "dlq_retry_count": 0, "why": why}


def sent_back(by: str = "system_auto_requeue") -> dict[str, Any]:
    return not_open(f"letter 'wf_1' is sent back by {by} already: cannot requeue it, no run has ended since")


def requeued(count: int) -> dict[str, Any]:
    return {
        "success": True, "message": "Task requeued successfully", "new_task_state": "pending", "dlq_retry_count": count,
    }  # fmt: skip


async def exhausted(queue: DeadLetterQueue, task_id: str = "wf_1", **options: Any) -> DeadLetter:
    """A letter for which no automatic retry is left."""
    await queue.enqueue(task_id, {"n": 1}, [], "connection refused", max_retries=0, **options)
    return await letter_of(queue, task_id)


async def outcome_of(queue: DeadLetterQueue, task_id: str = "wf_1") -> str | None:
    requeue = (await letter_of(queue, task_id)).requeue
    return str(requeue.outcome) if requeue else None


class TestByHand:
    async def test_it_goes_back(self, any_house: House) -> None:
        """R280, R284."""
        queue = any_house.queue()
        before = await exhausted(queue, priority=5)
        events = heard(queue)
        any_house.clock.advance(60)

        assert await queue.requeue_from_dlq("wf_1", resolved_by="ann", notes="try now") == requeued(1)

        letter = await letter_of(queue, "wf_1")
        assert (letter.status, letter.priority, letter.due_at) == ("pending", 15, any_house.clock.now())
        assert (letter.last_retry_at, letter.entry_id) == (any_house.clock.now(), before.entry_id)
        assert letter.requeue is not None
        assert (letter.requeue.by, letter.requeue.boost, letter.requeue.notes) == ("ann", 10, "try now")
        (event,) = events
        assert (event.name, event.detail) == (
            EventName.REQUEUED,
            {
                "reason": "dlq_requeue",
                "dlq_entry_uuid": before.entry_id,
                "retry_count": 1,
                "priority_boost": 10,
                "resolved_by": "ann",
            },
        )
        await sound(queue)

    async def test_unknown_and_twice(self, any_house: House) -> None:
        """R281: the second one changes nothing."""
        queue = any_house.queue()
        assert await queue.requeue_from_dlq("nobody") == not_open("there is no letter 'nobody'")
        await exhausted(queue)
        assert await queue.requeue_from_dlq("wf_1") == requeued(1)
        once = await letter_of(queue, "wf_1")
        assert await queue.requeue_from_dlq("wf_1") == sent_back()
        assert await letter_of(queue, "wf_1") == once

    @pytest.mark.parametrize("close", ["resolve", "cancel", "fail", "archive"])
    async def test_what_a_person_closed_meanwhile_stays_closed(self, house: House, close: str) -> None:
        """R291."""
        queue = house.queue()
        await exhausted(queue, priority=5)
        await getattr(queue.letters, close)("wf_1")
        before = await letter_of(queue, "wf_1")
        assert await queue.requeue_from_dlq("wf_1") == not_open(f"letter 'wf_1' is {CLOSED[close]}: cannot requeue it")
        assert await letter_of(queue, "wf_1") == before

    async def test_what_is_being_run_stays_with_its_run(self, house: House) -> None:
        """R291: it says what is the case, and lifts nothing."""
        queue = house.queue(gate := Gate())
        await fill(queue, 1, priority=5)
        run = asyncio.create_task(queue.run_due())
        await gate.reached()
        assert await queue.requeue_from_dlq("wf_00000") == {
            "success": False,
            "message": "Task is being retried right now",
            "new_task_state": "retrying",
            "dlq_retry_count": 0,
        }
        assert (await letter_of(queue, "wf_00000")).priority == 5
        gate.open()
        await run
        assert (await letter_of(queue, "wf_00000")).requeue is None

    async def test_the_limit_binds_over_every_failure_of_the_task(self, any_house: House) -> None:
        """A36, R282, R283: also over its generations."""
        queue = any_house.queue(runs := Runs(None))
        for count in (1, 2):
            await exhausted(queue, priority=5)
            any_house.clock.advance(1)
            assert await queue.requeue_from_dlq("wf_1") == requeued(count)
            any_house.clock.advance(1)
        assert await queue.run_due() == 1
        assert len(runs.calls) == 1
        assert await outcome_of(queue) == "succeeded"
        await exhausted(queue, priority=5)
        assert await queue.requeue_from_dlq("wf_1") == requeued(3)
        any_house.clock.advance(1)
        await exhausted(queue, priority=5)
        before = await letter_of(queue, "wf_1")

        assert await queue.requeue_from_dlq("wf_1") == BEYOND

        letter = await letter_of(queue, "wf_1")
        assert letter.resolution.status is ResolutionStatus.PERMANENTLY_FAILED
        assert (letter.resolution.by, letter.resolution.notes) == ("system_max_retries", "Max DLQ retries (3) exceeded")
        assert letter.priority == before.priority
        assert await queue.requeue_from_dlq("wf_1") == not_open(
            "letter 'wf_1' is exhausted, given up as permanently failed: cannot requeue it"
        )
        lifetime = (await sound(queue))["lifetime_stats"]
        assert (lifetime["requeued"], lifetime["permanently_failed"]) == (3, 1)

    async def test_numbers_come_from_the_rules_unless_given(self, house: House) -> None:
        queue = house.queue(rules=[RequeueRules(max_dlq_retries=1, dlq_priority_boost=7)])
        await exhausted(queue)
        assert await queue.requeue_from_dlq("wf_1") == requeued(1)
        assert (await letter_of(queue, "wf_1")).priority == 7
        house.clock.advance(1)
        await exhausted(queue)
        assert await queue.requeue_from_dlq("wf_1", 2, 20) == requeued(2)
        assert (await letter_of(queue, "wf_1")).priority == 27

    @pytest.mark.parametrize("given", [{"max_dlq_retries": -1}, {"priority_boost": "x"}, {"priority_boost": True}])
    async def test_numbers_that_cannot_be(self, house: House, given: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=f"{next(iter(given))} must be a whole number from 0"):
            await house.queue().requeue_from_dlq("wf_1", **given)

    @pytest.mark.parametrize("kind", SourceKind)
    async def test_every_kind_of_work(self, house: House, kind: SourceKind) -> None:
        """R287."""
        queue = house.queue()
        await exhausted(queue, source=Source(kind, "orders", "7", "error"))
        assert await queue.requeue_from_dlq("wf_1") == requeued(1)

    async def test_other_namespaces_are_other_tasks(self, house: House) -> None:
        queue = house.queue()
        await queue.enqueue("wf_1", {}, [], "boom", namespace="blue", queue="mail")
        assert await queue.requeue_from_dlq("wf_1") == not_open("there is no letter 'wf_1'")
        assert await queue.requeue_from_dlq("wf_1", namespace="blue", queue="mail") == requeued(1)

    async def test_it_is_audited(self, house: House) -> None:
        queue = house.queue()
        await exhausted(queue)
        for _ in range(2):
            await queue.requeue_from_dlq("wf_1", resolved_by="ann", notes="again")
        refused, done = (await queue.audit.list(action="requeue")).items
        assert (done.actor, done.subject, done.outcome, done.reason) == ("ann", "letter:wf_1", "done", "again")
        assert done.changes.value["priority"] == {"before": 0, "after": 10}
        assert (refused.outcome, refused.why) == ("refused", f"{MESSAGE}: {sent_back('ann')['why']}")


class TestRaces:
    async def test_twenty_at_once_are_one(self, any_house: House) -> None:
        """R285: one success, one boost, wherever they are."""
        await exhausted(any_house.queue(), priority=5)
        queues = [any_house.queue() for _ in range(20)]
        events = [heard(queue) for queue in queues]

        answers = await asyncio.gather(*(queue.requeue_from_dlq("wf_1") for queue in queues))

        assert sorted(answers, key=lambda answer: -answer["dlq_retry_count"]) == [requeued(1), *[sent_back()] * 19]
        letter = await letter_of(queues[0], "wf_1")
        assert (letter.priority, letter.dlq_retry_count) == (15, 1)
        assert [event.name for told in events for event in told] == [EventName.REQUEUED]

    @pytest.mark.parametrize("step", range(8))
    @pytest.mark.parametrize("fault", ["request_lost", "answer_lost"])
    async def test_whoever_dies_on_the_way(self, any_house: House, fault: str, step: int) -> None:
        """A37, R286: then it is fully done or untouched, and never lifted twice."""
        before = await exhausted(any_house.queue(), priority=5)
        victim = any_house.queue()
        await victim.open()
        dies_at(victim.store.faults, step, getattr(Faults, fault))  # type: ignore[attr-defined]
        with contextlib.suppress(StoreUnavailable):
            await victim.requeue_from_dlq("wf_1")
        any_house.kill(victim)

        heir = any_house.queue()
        letter = await letter_of(heir, "wf_1")
        if letter != before:
            assert (letter.status, letter.priority, letter.dlq_retry_count) == ("pending", 15, 1)
        await heir.requeue_from_dlq("wf_1")
        letter = await letter_of(heir, "wf_1")
        assert (letter.status, letter.priority, letter.dlq_retry_count) == ("pending", 15, 1)
        assert (await sound(heir))["lifetime_stats"]["requeued"] == 1


def dies_at(faults: Faults, step: int, fault: Callable[..., Any]) -> None:
    """From its so many-th call on, nothing answers; that call itself may still be done."""
    calls = 0

    async def count(call: Any) -> None:
        nonlocal calls
        if calls == step:
            fault(faults, call.operation)
        elif calls > step:
            raise StoreUnavailable("dead (a test's fault)")
        calls += 1

    for operation in ("get", "write"):
        faults.before(operation, count)


class TestByRule:
    async def test_off_unless_asked_for(self, house: House) -> None:
        """R288."""
        queue = house.queue()
        await exhausted(queue)
        house.clock.advance(10 * 86400)
        assert await queue.requeues.requeue_exhausted() == 0
        assert (await letter_of(queue, "wf_1")).status == "exhausted"

    async def test_after_60_minutes_then_120_then_never(self, any_house: House) -> None:
        """R288: and then it is left for people, not given up."""
        queue = any_house.queue(runs := Runs(FAILS), rules=[AUTOMATIC])
        await exhausted(queue)
        minutes = []
        for minute in range(0, 600, 10):
            if await queue.requeues.requeue_exhausted():
                minutes.append(minute)
                assert await queue.run_due() == 1
            any_house.clock.advance(600)
        assert minutes == [60, 60 + 120]
        letter = await letter_of(queue, "wf_1")
        assert (len(runs.calls), letter.status, letter.is_open, letter.dlq_retry_count) == (2, "exhausted", True, 2)

    async def test_the_processor_does_it(self, house: House) -> None:
        queue = house.queue(runs := Runs(None), rules=[AUTOMATIC])
        await exhausted(queue)
        await queue.start_retry_processor()
        await pass_time(house.clock, 3600, step=60, sleepers=4)
        await until(lambda: runs.calls)
        await settle()
        assert await outcome_of(queue) == "succeeded"
        letter = await letter_of(queue, "wf_1")
        assert letter.requeue is not None
        assert (letter.requeue.by, letter.status) == (BY_RULE, "completed")

    @pytest.mark.parametrize("category", ["validation", "permission"])
    async def test_what_only_people_can_mend_is_left_for_them(self, any_house: House, category: str) -> None:
        """R289."""
        queue = any_house.queue(rules=[AUTOMATIC])
        await exhausted(queue, error_category=category)
        any_house.clock.advance(86400)
        assert await queue.requeues.requeue_exhausted() == 0

    async def test_what_no_classifier_knows_is_tried(self, any_house: House) -> None:
        queue = any_house.queue(rules=[AUTOMATIC])
        await queue.enqueue("wf_1", {}, [], "an odd thing", max_retries=0)
        any_house.clock.advance(3600)
        assert await queue.requeues.requeue_exhausted() == 1

    async def test_a_letter_that_cannot_be_read_keeps_no_other_one(self, any_house: House) -> None:
        """Also one that is requeued for the second time, which is looked for after those of the first time."""
        queue = any_house.queue(Runs(FAILS), rules=[AUTOMATIC])
        await exhausted(queue, "good")
        any_house.clock.advance(3600)
        assert (await queue.requeues.requeue_exhausted(), await queue.run_due()) == (1, 1)
        await queue.enqueue("bad", {}, [], "an odd thing", max_retries=0)
        any_house.clock.advance(3 * 3600)
        with any_house.faults.corrupt(kind=LETTERS, keys=["bad"]):
            assert await queue.requeues.requeue_exhausted() == 1
        assert await queue.requeues.requeue_exhausted() == 1

    async def test_what_is_never_to_be_retried_is_left(self, any_house: House) -> None:
        queue = any_house.queue(Runs(FAILS), rules=[AUTOMATIC])
        await queue.enqueue("wf_1", {}, [], "connection refused", "never")
        await queue.letters.retry_many(task_id="wf_1")
        assert await queue.run_due() == 1
        assert (await letter_of(queue, "wf_1")).status == "exhausted"
        any_house.clock.advance(86400)
        assert await queue.requeues.requeue_exhausted() == 0

    async def test_a_target_that_is_down_is_waited_for(self, house: House) -> None:
        """R289: and that is no act that would be audited."""
        queue = house.queue(rules=[AUTOMATIC])
        await exhausted(queue, source=Source(queue="sweep"))
        house.clock.advance(3600)
        for _ in range(5):
            queue.context.breakers.record_failure("sweep", "network", house.clock.monotonic())
        assert await queue.requeues.requeue_exhausted() == 0
        assert (await queue.audit.list()).items == []
        house.clock.advance(60)
        assert await queue.requeues.requeue_exhausted() == 1

    async def test_the_limit_of_the_task_is_kept(self, any_house: House) -> None:
        """What people have sent back often enough is theirs; the rule gives nothing up."""
        queue = any_house.queue(rules=[RequeueRules(enabled=True, max_dlq_retries=1)])
        await exhausted(queue)
        assert await queue.requeue_from_dlq("wf_1") == requeued(1)
        await queue.archive_task("wf_1")
        await exhausted(queue)
        any_house.clock.advance(86400)
        assert await queue.requeues.requeue_exhausted() == 0
        assert (await letter_of(queue, "wf_1")).is_open

    async def test_two_that_sweep_at_once_send_it_back_once(self, any_house: House) -> None:
        queues = [any_house.queue(rules=[AUTOMATIC]) for _ in range(4)]
        for number in range(30):
            await exhausted(queues[0], f"wf_{number}")
        any_house.clock.advance(3600)
        assert sum(await asyncio.gather(*(queue.requeues.requeue_exhausted() for queue in queues))) == 30
        assert {(await letter_of(queues[0], f"wf_{number}")).priority for number in range(30)} == {10}
        entries = (await queues[0].audit.list(action="requeue")).items
        assert {(entry.actor, entry.via, entry.subject) for entry in entries} == {(BY_RULE, "rule", "queue")}
        assert sum(entry.changes.value["requeued"]["after"] for entry in entries) == 30
        await sound(queues[0])

    def test_the_wait_grows_within_reason(self) -> None:
        assert RequeueRules(requeue_backoff_multiplier=100, max_auto_requeue_attempts=10).waiting_time(
            10**6
        ) == timedelta(days=3650)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"requeue_backoff_multiplier": 0.5},
            {"requeue_backoff_multiplier": float("nan")},
            {"requeue_interval_minutes": 0},
            {"max_auto_requeue_attempts": -1},
        ],
        ids=str,
    )
    def test_rules_that_make_no_sense(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            RequeueRules(**wrong)


async def test_from_a_failure_to_a_requeue_that_succeeds(house: House) -> None:
    """R292 with an ordinary workflow: it fails, is exhausted, goes back by the rule with a higher priority, works."""
    queue = house.queue(runs := Runs(FAILS, FAILS, None), rules=[AUTOMATIC])
    await queue.enqueue("wf_1", {"n": 1}, ["api"], FAILS, "immediate", max_retries=2, priority=5)
    await queue.start_retry_processor()
    await pass_time(house.clock, 60, sleepers=4)
    letter = await letter_of(queue, "wf_1")
    assert (letter.status, letter.priority, len(runs.calls)) == ("exhausted", 5, 2)
    events = heard(queue)
    await pass_time(house.clock, 3660, step=60, sleepers=4)
    await until(lambda: len(runs.calls) == 3)
    await settle()
    letter = await letter_of(queue, "wf_1")
    assert (letter.status, letter.priority, await outcome_of(queue)) == ("completed", 15, "succeeded")
    names = [event.name for event in events]
    assert names == [EventName.REQUEUED, EventName.RETRY_STARTED, EventName.RETRY_SUCCEEDED]
    assert await queue.requeues.outcomes() == {"succeeded": 1}
    await sound(queue)

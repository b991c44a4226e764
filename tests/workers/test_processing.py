"""The processor behind the queue: what is run, when, how often, and what happens to runs that do not end well."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.capture.adapters import current_attempt
from mahavishnu.classify.fingerprint import fingerprint_of
from mahavishnu.core.dead_letter_queue import DeadLetterStatus
from mahavishnu.letters.rules import RequeueRules
from mahavishnu.model.errors import InvalidInput, QueueFull, StoreUnavailable
from mahavishnu.model.events import EventName
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.permissions import Permission, Principal
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.workers.records import WORKERS
from tests.support.queues import (
    NETWORK,
    Gate,
    House,
    Runs,
    fill,
    heard,
    letter_of,
    pass_time,
    queue_of,
    settle,
    sound,
    until,
)  # fmt: skip


async def test_an_always_failing_task_is_one_letter_that_runs_after_1_2_and_4_minutes(house: House) -> None:
    app = house.app(dlq_retry_interval_seconds=10)
    runs, start = [], house.clock.now()

    async def fail(task: Any, repos: list[str]) -> None:
        runs.append((house.clock.now() - start) / timedelta(minutes=1))
        raise ConnectionError("connection refused")  # a new one: what is raised often has a long traceback

    app.register_adapter("sweep", fail)
    await app.execute_workflow({"id": "wf_1"}, "sweep", ["api"])
    await app.start_dlq_processor()
    for _ in range(180):
        await house.clock.sleeping(11)  # all that sleep between two looks
        await settle()
        assert len(await app.dlq.list_tasks()) == 1
        house.clock.advance(10)
    await settle()
    assert runs == [0, 1, 3, 7]
    letter = await letter_of(app.dlq, "wf_1")
    assert (letter.status, letter.retry_count, letter.total_attempts) == (DeadLetterStatus.EXHAUSTED, 3, 3)
    assert (letter.next_retry_at, letter.occurrences) == (None, 1)
    lifetime = (await sound(app.dlq))["lifetime_stats"]
    counted = {name: lifetime[name] for name in ("enqueued_total", "retry_failed", "exhausted", "retry_success")}
    assert counted == {"enqueued_total": 1, "retry_failed": 3, "exhausted": 1, "retry_success": 0}


async def test_starting_twice_is_starting_once(any_house: House) -> None:
    queue = any_house.queue(runs := Runs())
    await queue.start_retry_processor()
    await queue.start_retry_processor(callback=runs, check_interval_seconds=20)
    await fill(queue, 10)
    await until(lambda: len(runs.calls) >= 10)
    assert (await queue.get_statistics())["retry_interval_seconds"] == 20
    assert (await queue.get_statistics())["is_processor_running"] is True
    await queue.stop_retry_processor()
    await queue.stop_retry_processor()
    assert (await queue.get_statistics())["is_processor_running"] is False
    assert sorted(task["name"] for task in runs.tasks) == sorted({task["name"] for task in runs.tasks})
    assert (await sound(queue))["lifetime_stats"]["retry_success"] == 10


async def test_without_a_callback_there_is_nothing_to_start(house: House) -> None:
    queue = house.queue()
    with pytest.raises(InvalidInput, match="no callback"):
        await queue.start_retry_processor()
    assert (await queue.get_statistics())["is_processor_running"] is False


@pytest.mark.parametrize("mode", ["hybrid", "polling_only"])
async def test_a_letter_that_is_due_at_once_waits_for_the_poll_only_if_it_is_not_woken(house: House, mode: str) -> None:
    queue = house.queue(runs := Runs(), wakes=mode == "hybrid")
    await queue.start_retry_processor()
    await house.clock.sleeping(4)
    await fill(queue, 1)
    assert runs.calls == []  # never inline
    await settle()
    assert len(runs.calls) == (1 if mode == "hybrid" else 0)
    house.clock.advance(10)
    await settle()
    assert len(runs.calls) == 1


async def test_a_lost_wake_up_is_made_good_by_the_next_poll(house: House) -> None:
    queue = house.queue(runs := Runs())
    await queue.start_retry_processor()
    await fill(house.queue(), 1)  # another process, whose wake-ups do not come here
    await settle()
    assert runs.calls == []
    await pass_time(house.clock, 10, sleepers=4)
    assert len(runs.calls) == 1


async def test_one_that_hangs_and_one_that_fails_hold_up_nobody(house: House) -> None:
    gate = Gate()

    async def run(task: Any, repos: list[str]) -> None:
        if task["name"] == "wf_00000":
            await gate(task, repos)
        if task["name"] == "wf_00001":
            raise NETWORK

    queue = house.queue(run, concurrency=5)
    await fill(queue, 200, retry_policy="immediate", max_retries=1)
    await queue.start_retry_processor()
    await until(lambda: queue.context.counts is not None and _done(queue) == 199)
    await fill(queue, 1, metadata={"late": True})  # merged or new: the next cycle is not held up either
    await queue.enqueue("late", {"name": "late"}, [], "connection refused", "immediate")
    await until(lambda: _done(queue) == 200)
    assert len(gate.under_way) == 1
    gate.open()
    await until(lambda: _done(queue) == 201)


async def test_new_letters_start_on_time_while_an_old_run_lasts_longer_than_the_interval(house: House) -> None:
    gate, started = Gate(), []

    async def run(task: Any, repos: list[str]) -> None:
        started.append((task["name"], house.clock.monotonic()))
        if task["name"] == "long":
            await gate(task, repos)

    queue = house.queue(run, interval_seconds=60)
    await queue.enqueue("long", {"name": "long"}, [], "boom", "immediate")
    for minutes in (1, 2):
        await queue.enqueue(f"after-{minutes}", {"name": minutes}, [], "boom", "exponential")
        await queue.letters.edit(f"after-{minutes}", next_retry_at=house.clock.now() + timedelta(seconds=70 * minutes))
    await queue.start_retry_processor()
    await pass_time(house.clock, 190, sleepers=5)
    assert started == [("long", 0.0), (1, 70.0), (2, 140.0)]
    gate.open()


async def test_the_interval_can_be_changed_while_it_runs(house: House) -> None:
    queue = house.queue(runs := Runs(), interval_seconds=60)
    await queue.start_retry_processor()
    await house.clock.sleeping(4)
    await queue.start_retry_processor(check_interval_seconds=10)
    await settle()
    await fill(house.queue(), 1)
    await pass_time(house.clock, 10, sleepers=4)
    assert len(runs.calls) == 1


async def test_an_outage_is_survived_and_said_once(house: House, caplog: pytest.LogCaptureFixture) -> None:
    queue = house.queue(runs := Runs())
    await fill(queue, 3)
    house.faults.unavailable()
    with pytest.raises(Exception, match="away"):
        await queue.get_task("wf_00000")
    with caplog.at_level(logging.WARNING):
        await queue.start_retry_processor()
        await pass_time(house.clock, 100, sleepers=4)
    assert [record.message for record in caplog.records if "cannot reach" in record.message] == [
        "the processor cannot reach the letters and tries again: the store is away (a test's fault)"
    ]
    house.faults.clear()
    await pass_time(house.clock, 10, sleepers=4)
    assert len(runs.calls) == 3


async def test_an_outage_is_survived_by_a_processor_that_never_polls(house: House) -> None:
    queue = house.queue(runs := Runs(), polls=False)
    await fill(queue, 1)
    fault = house.faults.unavailable("find", kind=LETTERS)
    await queue.start_retry_processor()
    await until(lambda: fault.hits)
    fault.stop()
    await pass_time(house.clock, 10, sleepers=4)
    assert len(runs.calls) == 1


async def test_a_claim_that_cannot_be_written_is_not_run(any_house: House) -> None:
    queue = any_house.queue(runs := Runs())
    await fill(queue, 2)
    with any_house.faults.item_failed("write", kind=LETTERS, keys=["wf_00000"]):
        assert await queue.run_due() == 1
    assert runs.tasks == [{"name": "wf_00001"}]
    with any_house.faults.conflict("write", kind=LETTERS):
        assert await queue.run_due() == 0
    assert (await letter_of(queue, "wf_00000")).total_attempts == 0


async def test_a_success_whose_recording_dies_is_repeated_with_the_same_key(any_house: House) -> None:
    keys = []

    async def run(task: Any, repos: list[str]) -> None:
        attempt = current_attempt.get()
        assert attempt is not None
        keys.append((attempt.idempotency_key, attempt.number))
        if len(keys) == 1:
            any_house.faults.unavailable("write", kind=LETTERS)

    queue = any_house.queue(run, lease_seconds=300)
    await fill(queue, 1)
    running = asyncio.create_task(queue.run_due())
    while not running.done():
        any_house.clock.advance(1)
        await settle(5)
    any_house.faults.clear()
    assert (await letter_of(queue, "wf_00000")).status is DeadLetterStatus.RETRYING
    any_house.clock.advance(minutes=10)
    assert await queue.run_due() == 1
    assert (await letter_of(queue, "wf_00000")).status is DeadLetterStatus.COMPLETED
    assert [key for key, _ in keys] == [keys[0][0]] * 2
    assert [number for _, number in keys] == [1, 2]
    lifetime = (await sound(queue))["lifetime_stats"]
    assert (lifetime["retry_success"], lifetime["claims_recovered"]) == (1, 1)


async def test_a_job_that_kills_its_process_is_put_aside_after_three_recoveries(any_house: House) -> None:
    await any_house.queue().enqueue("killer", {"name": "killer"}, [], "boom", "immediate", max_retries=1)
    await any_house.queue().enqueue("other", {"name": "other"}, [], "boom", "never")
    dead = []
    for _ in range(3):
        doomed = any_house.queue(gate := Gate())
        dead.append(asyncio.create_task(doomed.run_due()))
        await gate.reached()
        any_house.kill(doomed)
        any_house.clock.advance(hours=2)
    queue = any_house.queue(runs := Runs())
    await queue.letters.edit("other", retry_policy="immediate")
    await queue.run_due()
    letter = await letter_of(queue, "killer")
    assert (letter.status, letter.retry_count, letter.recoveries) == (DeadLetterStatus.EXHAUSTED, 1, 0)
    assert "it may kill its process" in letter.last_error
    assert runs.tasks == [{"name": "other"}]
    assert (await sound(queue))["lifetime_stats"]["claims_recovered"] == 3


@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_long_run_keeps_its_lease_whoever_started_it(house: House, by_hand: bool) -> None:
    queue = house.queue(gate := Gate(), lease_seconds=60)
    await fill(queue, 1)
    running = asyncio.create_task(queue.retry_task("wf_00000") if by_hand else queue.run_due())
    await gate.reached()
    other = house.queue(runs := Runs())
    for _ in range(30):
        house.clock.advance(10)
        await settle()
        assert await other.run_due() == 0
    gate.open()
    await running
    assert (await letter_of(queue, "wf_00000")).status is DeadLetterStatus.COMPLETED
    assert (runs.calls, house.clock.sleepers) == ([], 0)


async def test_a_late_outcome_is_refused(any_house: House, caplog: pytest.LogCaptureFixture) -> None:
    slow = any_house.queue(gate := Gate(), lease_seconds=60, run_seconds=None)
    await fill(slow, 1)
    running = asyncio.create_task(slow.run_due())
    await gate.reached()
    with any_house.faults.unavailable("write", kind=LETTERS):  # it is as good as stopped: no renewal gets through
        any_house.clock.advance(hours=2)
        await settle()
    assert await any_house.queue(Runs()).run_due() == 1
    done = await letter_of(slow, "wf_00000")
    events = heard(slow)
    gate.open()
    await running
    assert await letter_of(slow, "wf_00000") == done
    assert done.status is DeadLetterStatus.COMPLETED
    assert [event.name for event in events] == [EventName.STALE_CLAIM]
    assert "stale_claim" in caplog.text


async def test_a_late_outcome_is_refused_while_the_next_owner_is_still_at_it(any_house: House) -> None:
    slow = any_house.queue(gate := Gate(), lease_seconds=60, run_seconds=None)
    await fill(slow, 1)
    late = asyncio.create_task(slow.run_due())
    await gate.reached()
    other = any_house.queue(second := Gate())
    with any_house.faults.unavailable("write", kind=LETTERS):
        any_house.clock.advance(hours=2)
        await settle()
    running = asyncio.create_task(other.run_due())
    await second.reached()
    gate.open()
    await late
    letter = await letter_of(slow, "wf_00000")
    assert (letter.status, letter.lease and letter.lease.owner) == (DeadLetterStatus.RETRYING, other.context.owner)
    second.open()
    await running
    assert (await sound(other))["lifetime_stats"]["retry_success"] == 1


async def test_stopping_waits_then_gives_back_without_using_a_retry(house: House) -> None:
    queue = house.queue(gate := Gate(), grace_seconds=30)
    await fill(queue, 1)
    await queue.start_retry_processor()
    await gate.reached()
    stopping = asyncio.create_task(queue.stop_retry_processor())
    await settle()
    house.clock.advance(29)
    await settle()
    assert not stopping.done()
    house.clock.advance(1)
    await stopping
    letter = await letter_of(queue, "wf_00000")
    assert (letter.status, letter.retry_count, letter.total_attempts) == (DeadLetterStatus.PENDING, 0, 0)


async def test_one_that_has_to_wait_for_a_place_gets_the_next_one(house: House) -> None:
    await house.queue().enqueue("suspect", {"name": "suspect"}, [], "boom", "immediate")
    doomed = house.queue(gate := Gate())
    dead = asyncio.create_task(doomed.run_due())
    await gate.reached()
    house.kill(doomed)
    queue = house.queue(gate := Gate(), concurrency=2, polls=False)
    await queue.enqueue("slow", {"name": "slow"}, [], "boom", "immediate", priority=10)
    await queue.enqueue("too", {"name": "too"}, [], "boom", "immediate", priority=10)
    await queue.start_retry_processor()
    await gate.reached(2)
    house.clock.advance(minutes=10)
    await queue.enqueue("waker", {"name": "waker"}, [], "boom", "immediate", priority=10)
    await settle()
    gate.open()
    await settle()
    assert (await letter_of(queue, "suspect")).status is DeadLetterStatus.COMPLETED
    dead.cancel()


async def test_a_run_that_ends_as_it_is_cancelled_has_ended(house: House) -> None:
    ended: list[bool] = []
    for turns in range(8):
        gate, done = Gate(), asyncio.Event()

        async def run(task: Any, repos: list[str], gate: Gate = gate, done: asyncio.Event = done) -> None:
            await gate(task, repos)
            done.set()

        queue = house.queue(run)
        await queue.enqueue(f"wf_{turns}", {}, [], "boom", "immediate")
        running = asyncio.create_task(queue.retry_task(f"wf_{turns}"))
        await gate.reached()
        if turns:
            gate.open()
        for _ in range(turns):
            await asyncio.sleep(0)  # noqa: TID251 - the steps of the loop are what this is about
        running.cancel()
        await settle()
        ended.append(done.is_set())
        assert (await letter_of(queue, f"wf_{turns}")).status == ("completed" if done.is_set() else "pending")
    assert ended == [False] + 7 * [True]


@pytest.mark.parametrize("given_up", [True, False])
async def test_a_start_that_is_disturbed_can_be_repeated(house: House, given_up: bool) -> None:
    queue = house.queue(Runs())
    await queue.open()
    hold = house.faults.hold("write", kind=WORKERS)
    starting = asyncio.create_task(queue.start_retry_processor())
    await hold.wait_for_call()
    if given_up:
        starting.cancel()
        hold.release()
        with pytest.raises(asyncio.CancelledError):
            await starting
    else:
        await queue.stop_retry_processor()
        hold.release()
        await starting
    assert (await queue.get_statistics())["is_processor_running"] is False
    await queue.start_retry_processor()
    assert (await queue.get_statistics())["is_processor_running"] is True


async def test_a_stop_that_is_given_up_is_gone_on_with_by_the_next_one(any_house: House) -> None:
    queue = any_house.queue(gate := Gate(), grace_seconds=30)
    await fill(queue, 1)
    await queue.start_retry_processor()
    await gate.reached()
    stopping = asyncio.create_task(queue.shutdown())
    await settle()
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    stopping = asyncio.create_task(queue.shutdown())
    await settle()
    gate.open()
    await stopping
    assert (await letter_of(queue, "wf_00000")).status is DeadLetterStatus.COMPLETED


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf"), "60", True])
async def test_what_cannot_be_an_interval_or_a_callback_is_refused(house: House, interval: Any) -> None:
    queue = house.queue(Runs())
    with pytest.raises(InvalidInput, match="check_interval_seconds must be a number above 0"):
        await queue.start_retry_processor(check_interval_seconds=interval)
    with pytest.raises(InvalidInput, match="a callback is a function"):
        await queue.start_retry_processor(interval)
    assert (await queue.get_statistics())["is_processor_running"] is False


async def test_an_outage_while_a_letter_is_looked_at_is_not_held_against_it(house: House) -> None:
    queue = house.queue(runs := Runs())
    await queue.enqueue("wf_1", {}, [], "boom", "immediate", depends_on=["nobody"])
    for _ in range(3):
        with house.faults.unavailable("get"):
            assert await queue.run_due() == 1
        house.clock.advance(minutes=10)
    letter = await letter_of(queue, "wf_1")
    assert (letter.status, letter.total_attempts, runs.calls) == (DeadLetterStatus.PENDING, 0, [])
    assert await queue.run_due() == 1
    assert (await letter_of(queue, "wf_1")).status is DeadLetterStatus.COMPLETED


async def test_what_has_begun_ends_before_a_cycle_says_that_the_store_is_away(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahavishnu.workers.background._AT_ONCE", 2)  # there may be more: the cycle looks again
    gate = Gate()

    async def run(task: Any, repos: list[str]) -> None:
        if task["name"] == "wf_00000":
            await gate(task, repos)
        else:
            house.faults.unavailable("find")

    queue = house.queue(run)
    await fill(queue, 2)
    running = asyncio.create_task(queue.run_due())
    await settle()
    assert not running.done()
    gate.open()
    with pytest.raises(StoreUnavailable):
        await running
    house.faults.clear()
    assert (await letter_of(queue, "wf_00000")).status is DeadLetterStatus.COMPLETED


async def test_runs_for_one_repo_each_have_keys_of_their_own(house: House) -> None:
    app = house.app()
    keys: list[str | None] = []

    async def sweep(task: Any, repos: list[str]) -> None:
        attempt = current_attempt.get()
        keys.append(attempt.idempotency_key if attempt else None)
        raise NETWORK

    app.register_adapter("sweep", sweep)
    await app.execute_workflow_parallel({"id": "wf_1"}, "sweep", ["api", "wéb", "\ud800"])
    letter = await letter_of(queue_of(app), "wf_1")
    house.clock.advance(minutes=2)
    await queue_of(app).run_due()
    assert keys[:3] == [None] * 3
    assert len(set(keys[3:])) == 3
    assert all(key is not None and key.isascii() and key.startswith(f"{letter.entry_id}-0-") for key in keys[3:])


async def test_a_run_that_cancels_itself_has_failed(house: House) -> None:
    queue = house.queue(runs := Runs(asyncio.CancelledError()))
    await queue.enqueue("wf_1", {}, [], "boom", "immediate")
    assert await queue.run_due() == 1
    letter = await letter_of(queue, "wf_1")
    assert (letter.status, letter.retry_count, len(runs.calls)) == (DeadLetterStatus.PENDING, 1, 1)
    assert "CancelledError" in letter.last_error


async def test_urgent_letters_run_first_and_the_others_are_not_starved(house: House) -> None:
    names: list[str] = []

    async def run(task: Any, repos: list[str]) -> None:
        names.append(task)
        if len(names) < 40:  # a constant stream of urgent work
            await queue.enqueue(f"urgent-{len(names)}", f"urgent-{len(names)}", [], "boom", "immediate", priority=10)

    queue = house.queue(run, concurrency=1)
    await queue.enqueue("low", "low", [], "boom", "immediate", metadata={"priority": "low"})
    house.clock.advance(1)
    await queue.enqueue("b", "b", [], "boom", "immediate")
    await queue.enqueue("a", "a", [], "boom", "immediate")
    await queue.enqueue("high", "high", [], "boom", "immediate", metadata={"priority": "high"})
    await queue.run_due()
    assert names[0] == "high"
    assert names.index("low") < 39
    assert names.index("b") < 39


def _done(queue: Any) -> int:
    counts = queue.processing.processor.counts
    return int(counts["succeeded"] + counts["failed"])


async def test_a_failure_for_more_repos_during_a_run_is_not_lost_with_its_success(any_house: House) -> None:
    """The letter is open again for those, and takes its place in the queue as before."""
    queue = any_house.queue(gate := Gate(), max_size=1)
    await queue.enqueue("wf_1", {"n": 1}, ["api"], "connection refused", "immediate")
    run = asyncio.create_task(queue.run_due())
    await gate.reached()
    await queue.enqueue("wf_1", {"n": 1}, ["web"], "connection refused", "immediate")
    gate.open()
    await run
    letter = await letter_of(queue, "wf_1")
    assert (letter.status, letter.repos, letter.tallies.retry_success) == ("pending", ("web",), 1)
    with pytest.raises(QueueFull):
        await queue.enqueue("wf_2", {}, [], "connection refused")
    assert await queue.run_due() == 1
    assert (await letter_of(queue, "wf_1")).status == "completed"
    await queue.enqueue("wf_2", {}, [], "connection refused")
    await sound(queue)


async def test_a_failure_during_a_run_is_run_again_although_that_run_succeeds(any_house: House) -> None:
    queue = any_house.queue(gate := Gate())
    await queue.enqueue("wf_1", {"n": 1}, ["api"], "connection refused", "immediate")
    run = asyncio.create_task(queue.retry_task("wf_1"))
    await gate.reached()
    merged = await queue.enqueue("wf_1", {"n": 1}, ["api"], "connection refused", "immediate")
    gate.open()
    assert (await run)["success"]
    letter = await letter_of(queue, "wf_1")
    assert (letter.entry_id, letter.status, letter.repos, letter.occurrences) == (
        merged.entry_id,
        "pending",
        ("api",),
        2,
    )
    assert await queue.run_due() == 1
    assert (await letter_of(queue, "wf_1")).status == "completed"
    await sound(queue)


async def test_a_letter_says_why_of_its_latest_failure_and_goes_to_its_group(any_house: House) -> None:
    """After an edit it fails otherwise: cause, category, the reason for that and the group belong together."""
    queue = any_house.queue(Runs(TypeError("age is a text"), MemoryError("too large"), PermissionError("denied")))
    first = await queue.enqueue("wf_1", {}, [], KeyError("age"), max_retries=2)
    assert first.verdict.reason == "KeyError"
    seen = []
    await queue.letters.redrive("wf_1")
    for _ in range(2):  # the second one exhausts it
        await queue.run_due()
        letter = await letter_of(queue, "wf_1")
        seen.append((letter.failures[-1].type, letter.error_category, letter.verdict.reason, letter.verdict.author))
        assert letter.fingerprint == fingerprint_of(letter.failures[-1])
        any_house.clock.advance(3600)
    assert seen == [
        ("TypeError", "validation", "TypeError", "built-in"),
        ("MemoryError", "resource", "MemoryError", "built-in"),
    ]
    await queue.retry_task("wf_1")
    letter = await letter_of(queue, "wf_1")
    assert (letter.error_category, letter.verdict.reason) == ("permission", "PermissionError")
    assert letter.former_fingerprints == (first.fingerprint, *map(fingerprint_of, letter.failures[1:3]))
    (group,) = (await queue.groups.list(quiet=True)).items
    assert (group.fingerprint, group.count) == (letter.fingerprint, 1)


async def test_who_retries_by_hand_hears_that_the_letter_was_taken_away_in_the_middle(any_house: House) -> None:
    queue = any_house.queue(gate := Gate())
    await fill(queue, 1)
    running = asyncio.create_task(queue.retry_task("wf_00000"))
    await gate.reached(1)
    assert await any_house.queue().clear_all() == 1
    while not running.done():
        await any_house.clock.sleeping()
        any_house.clock.advance(50)
        await until(lambda: running.done() or any_house.clock.sleepers)
    answer = await running
    assert (answer["success"], "lease was lost" in answer["error"]) == (False, True)


class TestQueues:
    """A worker may be limited to some; the letters of the others are left alone."""

    async def test_a_processor_takes_only_letters_of_its_queue(self, any_house: House) -> None:
        queue = any_house.queue(runs := Runs())
        for name in ("mail", "default", "print"):
            await queue.enqueue(name, name, [], "boom", "immediate", queue=name)
        await queue.start_retry_processor(queue="mail")
        await until(lambda: runs.tasks == ["mail"])
        await queue.stop_retry_processor()
        assert await queue.run_due() == 0  # what it was limited to holds on
        assert await queue.run_due(queue=["print", "mail"]) == 1
        assert runs.tasks == ["mail", "print"]
        assert (await letter_of(queue, "default")).total_attempts == 0

    async def test_workers_share_letters_with_those_that_take_the_same(self, any_house: House) -> None:
        """Otherwise letters in the share of somebody who never takes them would wait."""
        queues = [any_house.queue(Runs()) for _ in range(3)]
        for queue, name in zip(queues, (None, None, "mail"), strict=True):
            await queue.start_retry_processor(queue=name)
        for queue in queues:
            await queue.processing.workers.heartbeat()
        assert [len(queue.processing.workers.live) for queue in queues] == [2, 2, 1]
        assert len(await queues[2].processing.workers.others()) == 2

    @pytest.mark.parametrize("odd", ["", 5, ["mail", ""], [None]])
    async def test_what_names_no_queue_is_refused(self, house: House, odd: Any) -> None:
        queue = house.queue(Runs())
        with pytest.raises(InvalidInput, match="queue"):
            await queue.start_retry_processor(queue=odd)
        with pytest.raises(InvalidInput, match="queue"):
            await queue.run_due(queue=odd)


async def test_what_died_in_another_queue_is_never_run_by_itself(any_house: House) -> None:
    """R200: neither at once, nor after a person's retry has failed, nor by the rule; a person decides each time."""
    rules = RequeueRules(enabled=True, requeue_interval_minutes=1)
    queue = any_house.queue(runs := Runs(NETWORK), rules=[rules])
    await queue.enqueue("dead", {}, [], "boom", "immediate", reason=DlqReason.QUEUE_ITEM_DEAD)
    for _ in range(3):
        any_house.clock.advance(hours=24)
        assert await queue.run_due() == 0
        assert await queue.requeues.requeue_exhausted() == 0
    assert (await queue.retry_task("dead"))["success"] is False
    await queue.letters.redrive("dead")
    for _ in range(3):
        await queue.run_due()
        any_house.clock.advance(hours=24)
        assert await queue.requeues.requeue_exhausted() == 0
    assert len(runs.calls) == 2  # one that a person ran, and one that a person sent back
    assert (await letter_of(queue, "dead")).status is DeadLetterStatus.EXHAUSTED
    await queue.letters.redrive("dead")
    await queue.letters.edit("dead", retry_policy="linear")
    any_house.clock.advance(hours=24)
    assert await queue.run_due() == 0


async def test_a_result_is_hidden_from_who_may_not_see_payloads(house: House) -> None:
    async def answer(task: Any, repos: list[str]) -> Any:
        return {"status": "completed", "card": "4111"}

    queue = house.queue(answer)
    await queue.enqueue("a", {}, [], "connection reset")
    await queue.enqueue("b", {}, [], "connection reset")
    worker = Principal("w", frozenset({Permission.VIEW, Permission.RETRY}))
    hidden = await queue.for_actor(worker).retry_task("a")
    assert hidden["success"] and hidden["result"] == {"hidden": "needs the permission view-payload"}
    shown = await queue.for_actor(Principal.of_role("ann", "operator")).retry_task("b")
    assert shown["result"]["card"] == "4111"

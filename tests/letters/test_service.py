"""What people do with letters, one at a time."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue, DeadLetterStatus
from mahavishnu.model.errors import (
    AlreadyResolved,
    ChangedMeanwhile,
    IllegalMove,
    InvalidInput,
    MahavishnuError,
    NoSuchLetter,
)
from mahavishnu.stores.kinds import LETTERS
from tests.support.queues import NETWORK, Gate, House, Runs, fill, heard, letter_of, sound, until


async def exhausted(queue: DeadLetterQueue, task_id: str = "wf_1", **options: Any) -> None:
    await queue.enqueue(task_id, {}, [], "connection refused", max_retries=0, **options)


class TestRetry:
    """`retry_task`: one run, now."""

    async def test_it_says_why_it_did_not_run(self, any_house: House) -> None:
        queue = any_house.queue()
        errors = [(await queue.retry_task("unknown"))["error"]]
        await queue.enqueue("wf_1", {}, [], "boom")
        errors.append((await queue.retry_task("wf_1"))["error"])
        queue.processing.callback = gate = Gate({"status": "failed", "error": "still broken"})
        running = asyncio.create_task(queue.retry_task("wf_1"))
        await gate.reached()
        errors.append((await queue.retry_task("wf_1"))["error"])
        gate.open()
        answer = await running
        errors.append(answer["error"])
        assert answer == {"success": False, "task_id": "wf_1", "status": "pending", "error": "still broken"}
        await queue.letters.resolve("wf_1")
        errors.append((await queue.retry_task("wf_1"))["error"])
        words = ["no letter", "no callback", "already being retried", "still broken", "completed, resolved otherwise"]
        assert [word in error for word, error in zip(words, errors, strict=True)] == [True] * 5

    async def test_it_costs_nothing_of_the_automatic_budget(self, any_house: House) -> None:
        queue = any_house.queue(Runs(NETWORK))
        before = await queue.enqueue("wf_1", {}, [], "connection refused")
        for _ in range(5):
            assert (await queue.retry_task("wf_1", force=True))["success"] is False
        after = await letter_of(queue, "wf_1")
        assert (after.status, after.retry_count, after.next_retry_at) == ("pending", 0, before.next_retry_at)
        assert (after.total_attempts, after.last_error) == (5, "connection refused")
        lifetime = (await sound(queue))["lifetime_stats"]
        assert (lifetime["manually_retried"], lifetime["retry_failed"]) == (5, 5)

    async def test_an_exhausted_letter_stays_exhausted_or_is_completed(self, any_house: House) -> None:
        queue = any_house.queue(Runs(NETWORK, None))
        await exhausted(queue)
        assert (await queue.retry_task("wf_1"))["status"] == "exhausted"
        assert (await queue.retry_task("wf_1"))["status"] == "completed"
        lifetime = (await sound(queue))["lifetime_stats"]
        assert (lifetime["manually_retried"], lifetime["retry_success"], lifetime["exhausted"]) == (2, 1, 1)

    async def test_never_with_no_budget_can_be_run_by_hand(self, house: House) -> None:
        queue = house.queue(runs := Runs())
        await queue.enqueue("wf_1", {}, [], "denied", "never", max_retries=0)
        house.clock.advance(timedelta(days=365))
        assert await queue.run_due() == 0
        assert (await queue.retry_task("wf_1"))["success"] is True
        assert len(runs.calls) == 1

    async def test_a_person_and_the_processor_at_once_run_it_once(self, any_house: House) -> None:
        queue = any_house.queue(gate := Gate())
        await fill(queue, 1)
        by_hand = [asyncio.create_task(any_house.queue(gate).retry_task("wf_00000")) for _ in range(5)]
        by_itself = asyncio.create_task(queue.run_due())
        await gate.reached()
        await until(lambda: sum(task.done() for task in [*by_hand, by_itself]) == 5)
        gate.open()
        await by_itself
        answers = [await task for task in by_hand]
        assert len(gate.under_way) == 1
        errors = {answer["error"] for answer in answers if not answer["success"]}
        assert all("already being retried" in error for error in errors)

    @pytest.mark.parametrize("force", [False, True])
    async def test_the_owner_of_a_lease_may_have_a_slow_clock(self, house: House, force: bool) -> None:
        queue = house.queue(gate := Gate(), lease_seconds=60, skew_seconds=30)
        await fill(queue, 1)
        running = asyncio.create_task(queue.run_due())
        await gate.reached()
        house.kill(queue)
        house.clock.set(house.clock.now() + timedelta(seconds=80))
        other = house.queue(runs := Runs())
        refused = (await other.retry_task("wf_00000"))["error"]
        assert re.search(r"cannot claim it, the lease of \S+ ends at \S+Z; if that process is gone", refused)
        house.clock.set(house.clock.now() + timedelta(seconds=20))
        if not force:
            assert "if that process is gone" in (await other.retry_task("wf_00000"))["error"]
            house.clock.advance(60)
        assert (await other.retry_task("wf_00000", force=force))["success"] is True
        assert len(runs.calls) == 1
        running.cancel()

    async def test_an_outcome_that_cannot_be_written_is_not_called_a_success(self, house: House) -> None:
        async def run(task: Any, repos: list[str]) -> None:
            house.faults.unavailable("write", kind=LETTERS)

        queue = house.queue(run)
        await fill(queue, 1)
        trying = asyncio.create_task(queue.retry_task("wf_00000"))
        while not trying.done():
            house.clock.advance(1)
            await until(lambda: trying.done() or house.clock.sleepers)
        assert "the outcome is not recorded" in (await trying)["error"]


class TestArchive:
    """`archive_task` and `archive_exhausted`."""

    async def test_archived_is_out_of_the_way_and_counted_once(self, any_house: House) -> None:
        queue = any_house.queue(Runs())
        await fill(queue, 3)
        assert await queue.archive_task("wf_00000", by="ada", notes="known") is True
        assert await queue.archive_task("wf_00000") is False
        assert await queue.archive_task("unknown") is False
        await queue.retry_task("wf_00001")
        assert await queue.archive_task("wf_00001") is True  # its case was closed before
        letter = await letter_of(queue, "wf_00000")
        assert (letter.resolution.by, letter.resolution.notes) == ("ada", "known")
        assert [each.task_id for each in await queue.list_tasks()] == ["wf_00002"]
        assert len(await queue.list_tasks("archived")) == 2
        assert (await sound(queue))["lifetime_stats"]["archived"] == 1

    async def test_what_is_being_run_cannot_be_archived(self, any_house: House) -> None:
        queue = any_house.queue(gate := Gate())
        await fill(queue, 1)
        running = asyncio.create_task(queue.run_due())
        await gate.reached()
        with pytest.raises(IllegalMove, match="retrying"):
            await queue.archive_task("wf_00000")
        gate.open()
        await running
        assert await queue.archive_task("wf_00000") is True

    @pytest.mark.parametrize("first", ["archive", "claim"])
    async def test_against_a_claim_exactly_one_wins(self, any_house: House, first: str) -> None:
        queue, person = any_house.queue(gate := Gate()), any_house.queue()
        await fill(queue, 1)
        hold = any_house.faults.hold("write", kind=LETTERS)
        first_one: asyncio.Task[Any] = asyncio.create_task(
            person.archive_task("wf_00000") if first == "claim" else queue.run_due()
        )
        await hold.wait_for_call()  # it has read the letter and is about to write
        second: asyncio.Task[Any] = asyncio.create_task(
            queue.run_due() if first == "claim" else person.archive_task("wf_00000")
        )
        if first == "claim":
            await gate.reached()
        else:
            assert await second is True
        hold.release()
        if first == "claim":
            with pytest.raises(IllegalMove):
                await first_one
            gate.open()
            assert await second == 1
        else:
            assert await first_one == 0
        letter = await letter_of(queue, "wf_00000")
        assert (letter.status, len(gate.under_way)) == (("completed", 1) if first == "claim" else ("archived", 0))
        await sound(queue)

    async def test_old_exhausted_letters_by_when_they_were_exhausted(self, any_house: House) -> None:
        queue = any_house.queue(Runs(NETWORK))
        await exhausted(queue, "8 days ago")
        await queue.enqueue("failed 8 days ago, exhausted now", {}, [], "connection refused", max_retries=1)
        any_house.clock.advance(timedelta(days=2))
        await exhausted(queue, "6 days ago")
        any_house.clock.advance(timedelta(days=6))
        await queue.run_due()
        dry = await queue.archive_exhausted(older_than_days=7, dry_run=True)
        assert (dry.done, len(await queue.list_tasks("exhausted"))) == (["8 days ago"], 3)
        assert (await queue.archive_exhausted(older_than_days=7)).done == ["8 days ago"]
        assert [letter.task_id for letter in await queue.list_tasks("archived")] == ["8 days ago"]
        for letter in await queue.list_tasks(status=DeadLetterStatus.EXHAUSTED):  # the loop of the documentation
            if letter.failed_at < any_house.clock.now() - timedelta(days=7):
                await queue.archive_task(letter.task_id)
        assert [letter.task_id for letter in await queue.list_tasks("exhausted")] == ["6 days ago"]

    async def test_a_letter_of_another_process_can_be_archived(self, any_house: House) -> None:
        one, other = any_house.queue(runs := Runs()), any_house.queue()
        await fill(one, 2)
        assert await other.archive_task("wf_00000") is True
        assert await one.run_due() == 1
        assert runs.tasks == [{"name": "wf_00001"}]


class TestMarks:
    """Cases that people open and close."""

    async def test_resurrected_is_due_now_with_a_fresh_budget(self, any_house: House) -> None:
        queue = any_house.queue(runs := Runs(NETWORK, NETWORK, None))
        await queue.enqueue("wf_1", {}, [], "connection refused", max_retries=1)
        any_house.clock.advance(minutes=1)
        await queue.run_due()
        assert (await letter_of(queue, "wf_1")).status is DeadLetterStatus.EXHAUSTED
        letter = await queue.letters.resurrect("wf_1")
        assert (letter.status, letter.retry_count, letter.next_retry_at) == ("pending", 0, any_house.clock.now())
        with pytest.raises(IllegalMove, match="only an exhausted or archived letter"):
            await queue.letters.resurrect("wf_1")
        await queue.run_due()
        assert len(runs.calls) == 2
        assert (await sound(queue))["lifetime_stats"]["enqueued_total"] == 1

    async def test_a_resurrected_letter_wakes_the_processor(self, house: House) -> None:
        queue = house.queue(runs := Runs())
        await exhausted(queue)
        await queue.start_retry_processor()
        await house.clock.sleeping(4)
        await queue.letters.resurrect("wf_1")
        await until(lambda: runs.calls)

    @pytest.mark.parametrize(
        ("verb", "ended", "status", "counted"),
        [
            ("resolve", "manually_resolved", "completed", "manually_resolved"),
            ("fail", "permanently_failed", "exhausted", "permanently_failed"),
            ("cancel", "cancelled", "archived", "cancelled"),
        ],
    )
    async def test_a_case_is_closed_once(
        self, any_house: House, verb: str, ended: str, status: str, counted: str
    ) -> None:
        queue = any_house.queue(Runs())
        events = heard(queue)
        await fill(queue, 1)
        letter = await getattr(queue.letters, verb)("wf_00000", by="ada", notes="seen")
        assert (letter.resolution_status, letter.status) == (ended, status)
        assert (letter.resolution.by, letter.resolution.notes, letter.resolution.at) == (
            "ada",
            "seen",
            any_house.clock.now(),
        )
        for again in ("resolve", "fail", "cancel"):
            with pytest.raises(AlreadyResolved, match=f"is {status}, .*: cannot"):
                await getattr(queue.letters, again)("wf_00000")
        assert await queue.run_due() == 0
        stats = await sound(queue)
        assert (stats["queue_size"], stats["lifetime_stats"][counted]) == (0, 1)
        assert events[-1].detail["by"] == "ada"

    async def test_an_archived_or_given_up_letter_can_be_taken_out_again(self, any_house: House) -> None:
        queue = any_house.queue(Runs())
        await fill(queue, 2)
        await queue.archive_task("wf_00000")
        await queue.letters.fail("wf_00001")
        for name in ("wf_00000", "wf_00001"):
            assert (await queue.letters.resurrect(name)).is_open
        assert (await sound(queue))["lifetime_stats"]["enqueued_total"] == 4
        assert await queue.run_due() == 2

    @pytest.mark.parametrize("verb", ["resurrect", "resolve", "fail", "cancel"])
    async def test_there_has_to_be_a_letter(self, house: House, verb: str) -> None:
        with pytest.raises(NoSuchLetter):
            await getattr(house.queue().letters, verb)("wf_1")


class TestEdit:
    """Changes before the next run."""

    async def test_what_is_changed_is_what_is_run(self, any_house: House) -> None:
        queue = any_house.queue(runs := Runs())
        events = heard(queue)
        await queue.enqueue("wf_1", {"branch": "mian"}, ["api"], "boom", "never")
        letter = await queue.letters.edit(
            "wf_1", task={"branch": "main"}, repos=["api", "web"], retry_policy="immediate", max_retries=5, priority=3,
            metadata={"fixed": True}, by="ada",
        )  # fmt: skip
        assert (letter.max_retries, letter.priority, letter.metadata) == (5, 3, {"fixed": True})
        assert await queue.run_due() == 1
        assert runs.calls == [({"branch": "main"}, ["api", "web"])]
        edited = next(event for event in events if event.name == "dlq.edited")
        assert (edited.detail["by"], edited.detail["changed"]) == (
            "ada",
            ["max_retries", "metadata", "priority", "repos", "retry_policy", "task"],
        )

    async def test_a_stale_edit_is_refused(self, any_house: House) -> None:
        queue = any_house.queue()
        seen = await queue.enqueue("wf_1", {}, [], "boom")
        changed = await queue.letters.edit("wf_1", priority=1, base=seen)
        with pytest.raises(ChangedMeanwhile):
            await queue.letters.edit("wf_1", priority=2, base=seen)
        assert (await queue.letters.edit("wf_1", priority=3, base=changed)).priority == 3

    @pytest.mark.parametrize(
        "changes",
        [
            {}, {"status": "completed"}, {"retry_count": 0}, {"max_retries": -1}, {"max_retries": "5"},
            {"repos": "api"}, {"repos": [1]}, {"retry_policy": "Linear"}, {"retry_policy": 5},
            {"next_retry_at": "soon"}, {"priority": 1.5}, {"task": {"x": object()}},
        ],
    )  # fmt: skip
    async def test_what_cannot_be_is_refused(self, house: House, changes: dict[str, Any]) -> None:
        queue = house.queue()
        before = await queue.enqueue("wf_1", {}, [], "boom")
        with pytest.raises(InvalidInput):
            await queue.letters.edit("wf_1", **changes)
        assert await letter_of(queue, "wf_1") == before

    async def test_closed_and_running_letters_are_left_alone(self, house: House) -> None:
        queue = house.queue(gate := Gate())
        with pytest.raises(NoSuchLetter):
            await queue.letters.edit("wf_00000", priority=1)
        await fill(queue, 1)
        running = asyncio.create_task(queue.run_due())
        await gate.reached()
        for problem in (IllegalMove, AlreadyResolved):
            with pytest.raises(problem):
                await queue.letters.edit("wf_00000", priority=1)
            gate.open()
            await running


async def test_every_refusal_is_one_of_ours(house: House) -> None:
    queue = house.queue()
    for verb in ("resolve", "cancel", "fail", "resurrect"):
        with pytest.raises(MahavishnuError):
            await getattr(queue.letters, verb)("nobody")


class TestWhatCannotBeMeant:
    """Refused at the door: later it would stumble where nobody looks."""

    @pytest.mark.parametrize("listener", [None, 5, "print"])
    async def test_no_listener(self, house: House, listener: Any) -> None:
        with pytest.raises(InvalidInput, match="a listener is a function of an event, not"):
            house.queue().listen(listener)

    @pytest.mark.parametrize("function", [None, 5])
    async def test_no_backoff(self, house: House, function: Any) -> None:
        with pytest.raises(InvalidInput, match="a backoff is a function of a failed retry, not"):
            house.queue().register_backoff("a", function)

    async def test_no_name_of_a_backoff(self, house: House) -> None:
        name: Any = 5
        with pytest.raises(InvalidInput, match="a backoff needs a name"):
            house.queue().register_backoff(name, lambda failed: 1)

    @pytest.mark.parametrize("base", ["x", {}, 5, True])
    async def test_no_base(self, house: House, base: Any) -> None:
        queue = house.queue()
        await fill(queue, 1)
        with pytest.raises(InvalidInput, match="base is the letter as it was read, not"):
            await queue.letters.edit("wf_00000", priority=1, base=base)

    @pytest.mark.parametrize("filters", [{"category": "odd"}, {"resolution": "odd"}, {"reason": ["odd"]}], ids=str)
    async def test_no_filter(self, house: House, filters: dict[str, Any]) -> None:
        queue = house.queue()
        for ask in (queue.list_tasks, queue.letters.archive_many, queue.letters.reclassify):
            with pytest.raises(InvalidInput, match=r"there is no .* 'odd'; there are"):
                await ask(**filters)

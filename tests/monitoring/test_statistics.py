"""The queue in numbers, what they warn of, and lists."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import EventName
from mahavishnu.monitoring import statistics as numbers
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS, LOCAL_STORES, LocalStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import START, FaultyStore, ManualClock
from tests.support.queues import NETWORK, Gate, House, Runs, fill, heard, letter_of, pass_time, sound

DOCUMENTED = {
    "queue_size", "max_size", "utilization_percent", "status_breakdown", "error_categories", "retry_policies",
    "lifetime_stats", "is_processor_running", "retry_interval_seconds",
}  # fmt: skip
WORKERS = {"live_workers", "waiting_for_worker", "due_without_worker", "due_in_doubt", "due_unfit"}
LIFETIME = {"enqueued_total", "retry_success", "retry_failed", "exhausted", "manually_retried", "archived"}


async def test_an_empty_queue_has_all_numbers_and_no_warning(any_house: House) -> None:
    stats = await sound(any_house.queue())
    assert stats.keys() >= DOCUMENTED | WORKERS
    assert stats["lifetime_stats"].keys() >= LIFETIME
    assert stats["status_breakdown"] == {"pending": 0, "retrying": 0, "exhausted": 0}
    assert (stats["error_categories"], stats["retry_policies"], stats["utilization_percent"]) == ({}, {}, 0)
    total = stats["lifetime_stats"]["retry_success"] + stats["lifetime_stats"]["retry_failed"]
    assert (total, stats["status_breakdown"]["exhausted"]) == (0, 0)
    assert await any_house.queue().health_warnings() == []


async def test_breakdowns_are_of_open_letters(any_house: House) -> None:
    queue = any_house.queue(gate := Gate())
    await queue.enqueue("running", {}, [], "connection refused", "immediate")
    running = asyncio.create_task(queue.run_due())
    await gate.reached()
    await queue.enqueue("pending", {}, [], ValueError("x"), "linear")
    await queue.enqueue("exhausted", {}, [], ValueError("x"), "linear", max_retries=0)
    await queue.enqueue("closed", {}, [], MemoryError())
    await queue.letters.resolve("closed")
    stats = await sound(queue)
    assert stats["status_breakdown"] == {"pending": 1, "retrying": 1, "exhausted": 1}
    assert stats["error_categories"] == {"network": 1, "validation": 2}
    assert stats["retry_policies"] == {"immediate": 1, "linear": 2}
    gate.open()
    await running


async def test_lifetime_numbers_survive_a_restart_and_are_shared(tmp_path: Any) -> None:
    house = House("sqlite", tmp_path)
    one, other = house.queue(Runs(NETWORK, None)), house.queue()
    await asyncio.gather(
        *(
            queue.enqueue(f"{name}-{n}", {}, [], "boom", "never")
            for n in range(500)
            for name, queue in (("a", one), ("b", other))
        )
    )
    await one.retry_task("a-0")
    await one.retry_task("a-1")
    await other.archive_task("b-0")
    before = (await sound(one))["lifetime_stats"]
    assert (before["enqueued_total"], before["retry_success"], before["retry_failed"], before["archived"]) == (
        1000,
        1,
        1,
        1,
    )
    await one.shutdown()
    await other.shutdown()
    assert (await sound(house.queue()))["lifetime_stats"] == before
    await house.close()


async def test_by_reason_equals_a_recount(any_house: House) -> None:
    queue = any_house.queue(Runs())
    start = any_house.clock.now()
    for number in range(6):
        await queue.enqueue(f"wf_{number}", {}, [], "boom", "never")
        any_house.clock.advance(1)
    await queue.enqueue("stale", {}, [], "boom", "never", reason="staleness_timeout")
    await queue.retry_task("wf_0")
    await queue.letters.fail("wf_1")
    await queue.letters.resolve("wf_2")
    await queue.letters.cancel("wf_3")
    first, second = await queue.get_statistics_by_reason()
    assert first == {
        "dlq_reason": "workflow_failed", "total_entries": 6, "pending": 2, "requeued": 1, "permanent_failures": 1,
        "manually_resolved": 1, "cancelled": 1, "avg_retries": 0.0, "oldest_entry": start,
        "newest_entry": start.replace(second=5),
    }  # fmt: skip
    assert (second["dlq_reason"], second["total_entries"], second["pending"]) == ("staleness_timeout", 1, 1)


def stats_with(**changes: Any) -> dict[str, Any]:
    lifetime = {"retry_success": changes.pop("succeeded", 0), "retry_failed": changes.pop("failed", 0)}
    breakdown = {"exhausted": changes.pop("exhausted", 0)}
    return {"utilization_percent": 0.0, "status_breakdown": breakdown, "lifetime_stats": lifetime, **changes}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"utilization_percent": 80.0}, None),
        ({"utilization_percent": 80.01}, "WARNING: DLQ is 80.01% full!"),
        ({"exhausted": 100}, None),
        ({"exhausted": 101}, "WARNING: 101 exhausted tasks in DLQ!"),
        ({"succeeded": 10, "failed": 10}, None),
        ({"succeeded": 10, "failed": 20}, "WARNING: Low retry success rate: 33.3%"),
        ({"succeeded": 0, "failed": 19}, None),
        ({"succeeded": 0, "failed": 20}, "WARNING: Low retry success rate: 0.0%"),
        ({"succeeded": 0, "failed": 0}, None),
        ({"waiting": 2}, "WARNING: 2 failures wait for room in the DLQ!"),
        ({"degraded": "it is away"}, "WARNING: DLQ is degraded: it is away"),
    ],
)
def test_thresholds_are_strict(changes: dict[str, Any], warning: str | None) -> None:
    assert numbers.warnings(stats_with(**changes)) == ([warning] if warning else [])


async def test_what_matters_most_is_warned_of_first(house: House) -> None:
    """Groups that grow and those that are back, then the store, and the rate of success last."""
    queue = house.queue(Runs(NETWORK))
    await queue.enqueue("back", {}, [], ValueError("is back"), max_retries=0)
    view = (await queue.groups.list()).items[0]
    await queue.groups.update(view.fingerprint, by="ann", state="resolved")
    house.clock.advance(1)
    await queue.enqueue("again", {}, [], ValueError("is back"), max_retries=0)
    await fill(queue, 20)
    stats = stats_with(failed=20, exhausted=101, utilization_percent=90.0, waiting=1, degraded="it is away")

    told = [warning.removeprefix("WARNING: ") for warning in await queue.health_warnings(stats)]

    first = [
        "Group v2:",
        "Resolved group v2:",
        "DLQ is degraded",
        "DLQ is 90",
        "1 failures wait",
        "101 ex",
        "Low retry",
    ]
    assert [warning.startswith(start) for warning, start in zip(told, first, strict=True)] == [True] * len(first)


async def test_warnings_are_logged_every_five_minutes(house: House, caplog: pytest.LogCaptureFixture) -> None:
    queue = house.queue(Runs(), max_size=100)
    await fill(queue, 81, retry_policy="never")
    with caplog.at_level(logging.WARNING):
        await queue.start_retry_processor()
        await pass_time(house.clock, 900, sleepers=4)
    assert [record.message for record in caplog.records].count("WARNING: DLQ is 81.0% full!") == 4  # at once, 5, 10, 15


class TestClearing:
    """`clear_all` and what is left in the ledger."""

    async def test_open_letters_are_deleted_and_stay_counted(self, any_house: House) -> None:
        queue = any_house.queue(Runs())
        events = heard(queue)
        await fill(queue, 10)
        await queue.retry_task("wf_00000")
        await queue.enqueue("wf_00000", {}, [], "boom")  # the second generation
        await queue.retry_task("wf_00001")
        assert await queue.clear_all(by="ada") == 9
        assert events[-1].name is EventName.CLEARED
        assert events[-1].detail == {"by": "ada", "count": 9, "namespace": "default"}
        stats = await sound(any_house.queue())
        assert (stats["queue_size"], stats["lifetime_stats"]["cleared"]) == (0, 9)
        assert (stats["lifetime_stats"]["enqueued_total"], stats["lifetime_stats"]["retry_success"]) == (11, 2)
        assert await queue.clear_all() == 0

    async def test_a_late_result_does_not_bring_a_letter_back(self, any_house: House) -> None:
        queue = any_house.queue(gate := Gate())
        await fill(queue, 1)
        running = asyncio.create_task(queue.run_due())
        await gate.reached()
        assert await queue.clear_all() == 1
        gate.open()
        await running
        assert await queue.get_task("wf_00000", include_archived=True) is None
        assert (await sound(queue))["lifetime_stats"]["cleared"] == 1

    async def test_while_letters_come_in_and_run(self, any_house: House) -> None:
        queue, other = any_house.queue(Runs(None)), any_house.queue(Runs(NETWORK))
        await fill(queue, 50)

        async def enqueue_more() -> None:
            for number in range(50):
                await other.enqueue(f"wf_{number:05}", {}, [], "boom", "immediate")

        await asyncio.gather(queue.clear_all(), enqueue_more(), queue.run_due(), other.run_due(), other.clear_all())
        await sound(queue)
        left = {letter.task_id for letter in await queue.list_tasks()}
        cleared = (await queue.get_statistics())["lifetime_stats"]["cleared"]
        assert await queue.clear_all() == len(left)
        assert (await sound(queue))["lifetime_stats"]["cleared"] == cleared + len(left)

    @pytest.mark.parametrize("lost", ["unavailable", "answer_lost"])
    async def test_wherever_it_is_killed_the_numbers_hold(self, any_house: House, lost: str) -> None:
        """Each letter is deleted by one write: it is, or it is not."""
        queue = any_house.queue(Runs())
        await fill(queue, 4)
        getattr(any_house.faults, lost)("write", kind=LETTERS, times=1)
        with pytest.raises(Exception, match=r"away|lost"):
            await queue.clear_all()
        stats = await sound(queue)
        gone = 0 if lost == "unavailable" else 4
        assert (stats["queue_size"], stats["lifetime_stats"]["cleared"]) == (4 - gone, gone)
        assert stats["lifetime_stats"]["enqueued_total"] == 4
        assert await queue.clear_all() == 4 - gone
        assert (await sound(queue))["lifetime_stats"]["cleared"] == 4

    async def test_what_fails_again_is_the_next_generation_of_what_was_deleted(self, any_house: House) -> None:
        queue = any_house.queue(Runs())
        await fill(queue, 1)
        deleted = await letter_of(queue, "wf_00000")
        assert await queue.clear_all() == 1
        events = heard(queue)
        fresh = await queue.enqueue("wf_00000", {}, [], "boom")
        assert (fresh.generation, fresh.previous_entry_id, fresh.absorbed) == (2, None, (deleted.entry_id,))
        assert [event.name for event in events] == [EventName.CAPTURED]
        lifetime = (await sound(queue))["lifetime_stats"]
        assert (lifetime["cleared"], lifetime["enqueued_total"]) == (1, 2)
        assert await queue.clear_all() == 1
        lifetime = (await sound(queue))["lifetime_stats"]
        assert (lifetime["cleared"], lifetime["enqueued_total"]) == (2, 2)

    async def test_a_store_that_is_away_is_not_said_to_be_cleared(self, any_house: House) -> None:
        queue = any_house.queue()
        await fill(queue, 2)
        with any_house.faults.unavailable(), pytest.raises(Exception, match="away"):
            await queue.clear_all()
        assert (await sound(queue))["queue_size"] == 2


class TestLists:
    """`list_tasks` and `get_task`."""

    async def test_newest_first_with_a_limit_and_all_pages(self, any_house: House) -> None:
        queue = any_house.queue()
        for number in range(5):
            await queue.enqueue(f"wf_{number}", {}, [], "boom")
            any_house.clock.advance(1)
        assert [letter.task_id for letter in await queue.list_tasks()] == [f"wf_{number}" for number in (4, 3, 2, 1, 0)]
        assert [letter.task_id for letter in await queue.list_tasks(limit=2)] == ["wf_4", "wf_3"]
        assert await queue.list_tasks(limit=0) == []
        await fill(queue, 1200)
        assert (len(await queue.list_tasks()), len(await queue.list_tasks(limit=700))) == (1205, 700)

    async def test_filters(self, any_house: House) -> None:
        queue = any_house.queue(Runs())
        noon = any_house.clock.now()
        await queue.enqueue("net", {}, ["api"], "connection refused by peer", metadata={"team": "blue"})
        any_house.clock.advance(60)
        await queue.enqueue("bad", {}, ["web"], ValueError("no such field"), "linear", reason="manual", queue="builds")
        await queue.enqueue("done", {}, [], "boom")
        await queue.letters.resolve("done")
        later = any_house.clock.now()
        for filters, expected in (
            ({"category": "network"}, ["net"]), ({"policy": "linear"}, ["bad"]), ({"reason": "manual"}, ["bad"]),
            ({"queue": "builds"}, ["bad"]), ({"repo": "api"}, ["net"]), ({"text": "refused peer"}, ["net"]),
            ({"metadata": {"team": "blue"}}, ["net"]), ({"created": (None, later)}, ["net"]),
            ({"failed": (later, None)}, ["bad"]), ({"created": (noon, None)}, ["bad", "net"]),
            ({"status": "completed"}, ["done"]), ({"resolution": "manually_resolved"}, ["done"]),
            ({"namespace": "other"}, []), ({"namespace": "*", "repo": "api"}, ["net"]),
            ({"task_id": ["net", "bad"], "limit": 1}, ["bad"]),
        ):  # fmt: skip
            assert [letter.task_id for letter in await queue.list_tasks(**filters)] == expected, filters

    @pytest.mark.parametrize("wrong", [{"status": "dead"}, {"colour": "red"}, {"limit": -1}, {"text": "!!"}])
    async def test_what_cannot_be_asked_for(self, house: House, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            await house.queue().list_tasks(**wrong)

    async def test_one_that_cannot_be_read_does_not_hide_the_others(
        self, house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue = house.queue(runs := Runs())
        await fill(queue, 3)
        with house.faults.corrupt("find", kind=LETTERS, keys=["wf_00001"]):
            assert len(await queue.list_tasks()) == 2
            assert await queue.run_due() == 2
        assert "wf_00001" in caplog.text
        assert len(runs.calls) == 2


async def test_listeners_and_a_manager_hear_what_was_written(house: House, caplog: pytest.LogCaptureFixture) -> None:
    class Manager:
        def __init__(self) -> None:
            self.said: list[tuple[str, Any]] = []

        def log_info(self, message: str, attributes: dict[str, Any]) -> None:
            self.said.append(("info", attributes["event"]))

        def log_error(self, message: str, attributes: dict[str, Any]) -> None:
            self.said.append(("error", attributes["event"]))

    manager = Manager()
    queue = house.queue(Runs(NETWORK), observability_manager=manager)
    seen: list[str] = []

    def listener(event: Any) -> None:
        seen.append(event.name)
        raise RuntimeError("a listener's own problem")

    end = queue.listen(listener)
    await queue.enqueue("wf_1", {}, [], "connection refused", "immediate", max_retries=1)
    await queue.run_due()
    await queue.context.events.flush()
    story = ["dlq.captured", "dlq.retry.started", "dlq.retry.failed", "dlq.exhausted"]
    assert seen == story
    assert manager.said == [("info", name) for name in story[:3]] + [("error", "dlq.exhausted")]
    assert "a listener stumbled" in caplog.text
    end()
    await queue.letters.resolve("wf_1")
    await queue.context.events.flush()
    assert seen == story


async def test_the_limit_is_exact_under_concurrency(any_house: House) -> None:
    queue = any_house.queue(max_size=100)
    results = await asyncio.gather(
        *(queue.enqueue(f"wf_{n}", {}, [], "boom") for n in range(500)), return_exceptions=True
    )
    assert sum(not isinstance(result, BaseException) for result in results) == 100
    stats = await sound(queue)
    assert (stats["queue_size"], stats["lifetime_stats"]["rejected_full"]) == (100, 400)


async def test_fifty_failures_of_one_task_in_each_of_two_processes_are_one_letter(any_house: House) -> None:
    one, other = any_house.queue(), any_house.queue()
    await asyncio.gather(*(queue.enqueue("wf_1", {}, [], "boom") for _ in range(50) for queue in (one, other)))
    assert (await letter_of(one, "wf_1")).occurrences == 100
    lifetime = (await sound(other))["lifetime_stats"]
    assert (lifetime["enqueued_total"], lifetime["deduplicated"]) == (1, 99)


async def test_a_failure_at_the_moment_of_its_retrys_success_opens_the_case_again(any_house: House) -> None:
    async def run(task: Any, repos: list[str]) -> None: ...

    queue: DeadLetterQueue = any_house.queue(run)
    await fill(queue, 1)
    hold = any_house.faults.hold("write", kind=LETTERS, after=True, keys=["wf_00000"])  # the claim
    running = asyncio.create_task(queue.run_due())
    await hold.wait_for_call()
    success = any_house.faults.hold("write", kind=LETTERS)
    hold.release()
    await success.wait_for_call()
    task = (await letter_of(queue, "wf_00000")).task
    fresh = asyncio.create_task(any_house.queue().enqueue("wf_00000", task, [], "again"))
    merged = await fresh
    success.release()
    await running
    assert merged.occurrences == 2  # it was still open
    again = await letter_of(queue, "wf_00000")
    assert (again.generation, again.status, again.tallies.reopened) == (1, "pending", 1)
    assert (await sound(queue))["lifetime_stats"]["retry_success"] == 1


# --- local stores of other processes


def report(**changes: Any) -> numbers.LocalStoreReport:
    known = {"key": "k", "host": "web-1", "pid": 7, "place": "/var/local.db", "seen_at": START, **changes}
    store = LocalStore(**known)
    return numbers.LocalStoreReport(store, store.is_stale(START + timedelta(minutes=5, seconds=1)))


@pytest.mark.parametrize(
    ("changes", "needs_look", "said"),
    [
        (
            {"kept": 1000, "letters": 1000},
            True,
            "1,000 letters are still in a local store on web-1: /var/local.db (last seen 2026-01-01T00:00:00.000Z): "
            "run `mahavishnu dlq drain /var/local.db` on web-1",
        ),
        (
            {"kept": 2, "letters": 1, "seen_at": START + timedelta(minutes=2)},
            True,
            "1 letter and 1 other record are still in a local store on web-1: /var/local.db, process 7",
        ),
        (
            {},
            True,
            "process 7 was last seen 2026-01-01T00:00:00.000Z, and may have kept letters on web-1: /var/local.db: run "
            "`mahavishnu dlq drain /var/local.db` on web-1",
        ),
        ({"seen_at": START + timedelta(minutes=2)}, False, ""),
        (
            {"kept": 1, "letters": 1, "place": "the memory of process 7"},
            True,
            "1 letter is still in a local store on web-1: the memory of process 7 (last seen "
            "2026-01-01T00:00:00.000Z): they are lost if that process has ended",
        ),
    ],
)
def test_a_local_store_is_described_with_what_to_do(changes: dict[str, Any], needs_look: bool, said: str) -> None:
    found = report(**changes)
    assert found.needs_look is needs_look
    if said:
        assert found.describe() == said


async def test_what_a_process_has_left_behind_is_warned_of(house: House) -> None:
    queue = house.queue()
    live, stale = report(key="live", kept=1, seen_at=START), report(key="stale", kept=3, letters=3)
    unseen = report(key="unseen", seen_at=START + timedelta(seconds=1))
    await queue.open()
    house.clock.advance(minutes=6)
    fresh = replace(live.store, seen_at=house.clock.now())
    await queue.store.collection(LOCAL_STORES).write([fresh, stale.store, unseen.store])
    stats = await queue.get_statistics()
    assert [(each["name"], each["state"]) for each in stats["local_stores"]] == [
        ("stale", "left"), ("unseen", "unseen"), ("live", "live"),
    ]  # fmt: skip
    (warning,) = await queue.health_warnings()
    assert warning == f"WARNING: {stale.describe()}"


async def test_more_letters_than_there_is_room_for_are_told_as_what_they_are() -> None:
    clock, home = ManualClock(), FaultyStore(MemoryStore())
    store = FallbackStore(home, MemoryStore(), clock=clock)
    async with DeadLetterQueue(store=store, clock=clock, max_size=2) as queue:
        for n in range(2):
            await queue.enqueue(f"before-{n}", {}, [], "boom")
        with home.faults.unavailable():
            clock.advance(6)
            for n in range(2):
                await queue.enqueue(f"during-{n}", {}, [], "boom")
        await store.drain()
        stats = await queue.get_statistics()
        assert (stats["queue_size"], stats["max_size"], stats["utilization_percent"]) == (4, 2, 200.0)
        (warning,) = await queue.health_warnings()
        assert "200.0% full: 4 of 2 open letters. What was kept locally comes home whatever dlq_max_size" in warning

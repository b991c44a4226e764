"""A failure that is to be retried at once is written as claimed, and nobody sees a difference but in speed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.stores.kind import LOCAL
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import ManualClock, make_letter
from mahavishnu.testing.faults import Call
from mahavishnu.workers.rules import Share
from tests.support.queues import NETWORK, Gate, House, Runs, heard, letter_of, queue_of, settle, until


class Jobs:
    """An app whose worker runs `sweep`, which fails the first time; `writes` are those of its letters from now on."""

    def __init__(self, house: House, again: Callable[..., Any] | None = None, **settings: Any) -> None:
        settings = {"dlq_automatic_policy": "default", "dlq_default_retry_policy": "immediate", **settings}
        self.house, self.app = house, house.app(**settings)
        self.dlq, self._again = queue_of(self.app), again or Runs()
        self.ran: list[str] = []
        self.writes: list[list[DeadLetter]] = []
        self.finds = 0
        self.app.register_adapter("sweep", self._run)

    async def _run(self, task: Any, repos: list[str]) -> Any:
        if task["id"] in self.ran:
            await self._again(task, repos)
        self.ran.append(task["id"])
        if self.ran.count(task["id"]) == 1:
            raise NETWORK

    async def start(self) -> Jobs:
        await self.app.start_dlq_processor()
        await self.house.clock.sleeping(2)
        await settle()
        self.dlq.store.faults.before("write", self._note_write, kind=LETTERS)  # type: ignore[attr-defined]
        self.dlq.store.faults.before("find", self._note_find, kind=LETTERS)  # type: ignore[attr-defined]
        return self

    async def _note_write(self, call: Call) -> None:
        self.writes.append(list(call.given))

    async def _note_find(self, call: Call) -> None:
        self.finds += 1

    async def fail(self, name: str = "wf_1", adapter: str = "sweep", **options: Any) -> dict[str, Any]:
        return await self.app.execute_workflow({"id": name}, adapter, ["api"], task_id=name, **options)

    @property
    def processor(self) -> Any:
        assert self.dlq.processing.processor is not None
        return self.dlq.processing.processor

    @property
    def was_claimed(self) -> bool:
        """Whether the first letter was written as claimed."""
        return self.writes[0][0].lease is not None


def story(events: list[Event]) -> list[tuple[Any, ...]]:
    letters = [(event.name, event.letter) for event in events if event.letter is not None]
    return [
        (name, str(each.status), each.total_attempts, each.retry_count, each.next_retry_at, each.tallies)
        for name, each in letters
    ]


async def test_a_job_that_fails_once_costs_two_writes_and_no_search(house: House) -> None:
    jobs = await Jobs(house).start()
    events = heard(jobs.dlq)
    await jobs.fail()
    await until(lambda: events[-1].name is EventName.RETRY_SUCCEEDED)
    await settle()
    assert [[letter.status for letter in write] for write in jobs.writes] == [["retrying"], ["completed"]]
    assert jobs.finds == 0
    assert jobs.processor.counts["claimed"] == 1


async def test_nothing_else_is_seen_than_of_a_letter_that_is_claimed_later(house: House) -> None:
    seen = []
    for takes in (True, False):
        jobs = await Jobs(house, Runs(NETWORK, None)).start()
        if not takes:
            jobs.dlq.context.taker = None
        events, name = heard(jobs.dlq), f"wf_{takes}"
        result = await jobs.fail(name)
        await until(lambda events=events: events[-1].name is EventName.RETRY_SUCCEEDED)  # type: ignore[misc]
        assert jobs.was_claimed is takes
        letter = await letter_of(jobs.dlq, name)
        parts = (letter.status, letter.total_attempts, letter.retry_count, letter.tallies, letter.last_retry_at)
        result.pop("workflow_id"), result.pop("dlq_task_id")
        seen.append((story(events), parts, result, {**jobs.processor.counts}, {**jobs.dlq.context.counts}))
        await jobs.app.stop_dlq_processor()
    assert seen[0] == seen[1]
    assert [each[:2] for each in seen[0][0]][:2] == [("dlq.captured", "pending"), ("dlq.retry.started", "retrying")]


async def test_a_letter_that_fails_again_at_once_is_run_again(house: House) -> None:
    jobs = await Jobs(house, Runs(NETWORK, NETWORK, None)).start()
    events = heard(jobs.dlq)
    await jobs.fail()
    await until(lambda: events[-1].name is EventName.RETRY_SUCCEEDED)
    assert (await letter_of(jobs.dlq, "wf_1")).total_attempts == 3


@pytest.mark.parametrize("why", ["later", "circuit", "limit", "others wait", "queue", "adapter", "stale", "poll"])
async def test_what_has_to_be_looked_at_first_is_claimed_later(house: House, why: str) -> None:
    all_settings: dict[str, dict[str, Any]] = {
        "limit": {"adapter_limits": {"sweep": {"concurrency": 1}}},
        "later": {"dlq_default_retry_policy": "exponential"},
        "poll": {"deployment_mode": "polling_only"},
    }
    jobs, adapter = Jobs(house, **all_settings.get(why, {})), "sweep"
    if why == "queue":
        jobs.dlq.processing.take_only("other")
    await jobs.start()
    if why == "circuit":
        for _ in range(5):
            jobs.dlq.context.breakers.record_failure("sweep", "network", house.clock.monotonic())
    elif why == "others wait":
        jobs.processor.claimer.due.expect_more()
    elif why == "adapter":
        jobs.app.register_adapter(adapter := "away", Runs(NETWORK))
        jobs.processor.claimer.due._shares = lambda: [Share(("sweep",))]
    elif why == "stale":
        house.clock.set(house.clock.now() + timedelta(seconds=5))
    await jobs.fail("wf_1", adapter)
    assert not jobs.was_claimed


async def test_letters_that_wait_for_others_or_are_of_another_namespace_are_claimed_later(house: House) -> None:
    jobs = await Jobs(house).start()
    now = house.clock.now()
    cases: list[tuple[bool, dict[str, Any]]] = [
        (True, {}),
        (False, {"depends_on": ("a",)}),
        (False, {"namespace": "eu"}),
    ]
    for taken, parts in cases:
        letter = make_letter(task_id=f"{taken}{parts}", due_at=now, adapter="sweep", **parts)
        claimed = jobs.processor.claim_new([letter])
        assert bool(claimed) is taken
        jobs.processor.take_new(claimed, [])
    assert not jobs.processor.is_busy


async def test_a_letter_that_may_have_a_twin_in_the_shared_store_is_not_run(house: House) -> None:
    """Nobody could renew its lease before that is known, so that another worker may run the twin."""
    jobs = await Jobs(house).start()
    claimed = jobs.processor.claim_new([make_letter(task_id="a", due_at=house.clock.now(), adapter="sweep")])
    jobs.processor.take_new(claimed, [evolve(each, version=(LOCAL, 1, 1)) for each in claimed.values()])
    assert not jobs.processor.is_busy


async def test_there_are_as_many_as_places_and_the_others_are_claimed_when_one_is_free(house: House) -> None:
    jobs = await Jobs(house, gate := Gate(), dlq_retry_concurrency=3).start()
    await asyncio.gather(*(jobs.fail(f"wf_{number}") for number in range(8)))
    await gate.reached(3)
    new = [letter.lease is not None for write in jobs.writes for letter in write if letter.version is None]
    assert (new.count(True), new.count(False)) == (3, 5)
    await settle()
    assert len(gate.under_way) == 3
    events = heard(jobs.dlq)
    gate.open()
    await until(lambda: [event.name for event in events].count(EventName.RETRY_SUCCEEDED) == 8)


@pytest.mark.parametrize("adapter", ["sweep", "quick"])
async def test_places_are_kept_for_adapters_with_nothing_running(house: House, adapter: str) -> None:
    jobs = Jobs(house, gate := Gate(), dlq_retry_concurrency=2)
    jobs.app.register_adapter("quick", Runs(NETWORK, None))
    await jobs.start()
    await jobs.fail("wf_1")
    await gate.reached()
    jobs.writes.clear()
    await jobs.fail("wf_2", adapter)
    assert jobs.was_claimed is (adapter == "quick")
    gate.open()


async def test_a_failure_that_joins_an_open_letter_takes_no_place(house: House) -> None:
    jobs = await Jobs(house, gate := Gate(), dlq_retry_concurrency=1).start()
    jobs.dlq.context.taker, taker = None, jobs.dlq.context.taker
    await jobs.dlq.enqueue("wf_1", {"id": "wf_1"}, ["api"], "refused", "exponential")
    jobs.dlq.context.taker = taker
    await asyncio.gather(jobs.fail("wf_1"), jobs.fail("wf_2"))
    letter = await letter_of(jobs.dlq, "wf_1")
    assert (letter.status, letter.occurrences, letter.lease) == ("pending", 2, None)
    gate.open()
    jobs.writes.clear()
    await settle()
    await jobs.fail("wf_3")
    assert any(letter.lease is not None for write in jobs.writes for letter in write)
    events = heard(jobs.dlq)
    await until(lambda: jobs.ran.count("wf_3") == 2)
    assert [event.name for event in events].count(EventName.STALE_CLAIM) == 0


async def test_two_failures_of_one_task_in_one_moment_are_one_letter_and_one_claim(house: House) -> None:
    jobs = await Jobs(house, gate := Gate()).start()
    jobs.app.register_adapter("sweep", Runs(NETWORK, NETWORK, None))
    await asyncio.gather(jobs.fail(), jobs.fail())
    leased = [letter.lease is not None for letter in jobs.writes[0]]
    assert leased in ([True, False], [True]), "a busy machine may write one after the other"
    gate.open()
    events = heard(jobs.dlq)
    await until(lambda: any(event.name is EventName.RETRY_SUCCEEDED for event in events))
    assert (await letter_of(jobs.dlq, "wf_1")).occurrences == 2


async def test_a_stop_gives_back_what_was_being_written_as_claimed(house: House) -> None:
    jobs = await Jobs(house).start()
    hold = jobs.dlq.store.faults.hold("write", kind=LETTERS)  # type: ignore[attr-defined]
    failing = asyncio.create_task(jobs.fail())
    await hold.wait_for_call()
    stopping = asyncio.create_task(jobs.app.stop_dlq_processor())
    await settle()
    assert not stopping.done()
    hold.release()
    await stopping
    await failing
    letter = await letter_of(jobs.dlq, "wf_1")
    assert (letter.status, letter.total_attempts, letter.lease) == ("pending", 0, None)
    assert jobs.ran == ["wf_1"]


@pytest.mark.parametrize("lost", ["answer", "request"])
async def test_a_lost_answer_to_the_capture_loses_nothing_and_runs_nothing_twice(house: House, lost: str) -> None:
    jobs = await Jobs(house, dlq_claim_lease_seconds=60, dlq_retry_interval_seconds=20).start()
    getattr(jobs.dlq.store.faults, f"{lost}_lost")("write", kind=LETTERS, times=1)  # type: ignore[attr-defined]
    await jobs.fail()
    for _ in range(40):
        await house.clock.sleeping(2)
        await settle()
        house.clock.advance(5)
    await settle()
    letter = await letter_of(jobs.dlq, "wf_1")
    assert (letter.status, letter.occurrences, letter.tallies.retry_success) == ("completed", 1, 1)
    assert jobs.ran == ["wf_1", "wf_1"]
    assert not jobs.processor.is_busy


async def test_a_write_that_fails_frees_its_places(house: House) -> None:
    jobs = await Jobs(house, dlq_retry_concurrency=1).start()
    with jobs.dlq.store.faults.item_failed("write", kind=LETTERS, times=1):  # type: ignore[attr-defined]
        await jobs.fail("wf_1")
    jobs.writes.clear()
    await jobs.fail("wf_2")
    await until(lambda: jobs.ran.count("wf_2") == 2)
    assert jobs.was_claimed


_CHILD = """
import asyncio, os, signal, sys
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
url, when = sys.argv[1:]
app = MahavishnuApp(MahavishnuSettings(dlq_store_url=url, dlq_local_url="none", dlq_automatic_policy="default",
    dlq_default_retry_policy="immediate"))
def die():
    os.kill(os.getpid(), signal.SIGKILL)
async def sweep(task, repos):
    if not sweep.runs:
        sweep.runs = 1
        raise ConnectionError("refused")
    os.write(1, b"again ")
    if when == "after the run":
        asyncio.get_running_loop().call_soon(die)
sweep.runs = 0
async def main():
    async with app:
        app.register_adapter("sweep", sweep)
        if when == "before the run":
            app.dlq.context.events.subscribe(lambda event: die(), {"dlq.captured"})
        await app.start_dlq_processor()
        for _ in range(100):
            await asyncio.sleep(0.01)
        await app.execute_workflow({"id": "wf_1"}, "sweep", task_id="wf_1")
        await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize(("when", "said"), [("before the run", ""), ("after the run", "again ")])
async def test_a_kill_delays_the_letter_to_the_end_of_its_lease(tmp_path: Path, when: str, said: str) -> None:
    url = f"sqlite:///{tmp_path}/letters.db"
    command = [sys.executable, "-c", _CHILD, url, when]
    killed = await asyncio.to_thread(
        subprocess.run, command, stdout=subprocess.PIPE, text=True, timeout=50, check=False
    )
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, said)

    ran = Runs()
    for hours, runs in ((0, 0), (2, 1)):  # who looks for the first time trusts no clock before an hour is over
        clock = ManualClock(datetime.now(UTC) + timedelta(hours=hours))  # noqa: TID251 - that of the child
        async with MahavishnuApp(settings_on(url), clock=clock) as app:
            app.register_adapter("sweep", ran)
            await app.start_dlq_processor()
            await app.stop_dlq_processor()
            assert await app.dlq.run_due() == runs
            letter = await letter_of(queue_of(app), "wf_1")
            assert letter.status == ("completed" if runs else "retrying")
    assert len(ran.calls) == 1
    assert (letter.occurrences, letter.recoveries, letter.tallies.retry_success) == (1, 0, 1)


def settings_on(url: str) -> Any:
    from mahavishnu.core.config import MahavishnuSettings

    return MahavishnuSettings(dlq_store_url=url, dlq_local_url="none", dlq_default_retry_policy="immediate")

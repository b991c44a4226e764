"""Tasks that hang, from what their users meet to what the queue makes of it, on real stores; time is moved by hand."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.errors import IllegalMove
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DlqReason, RequeueOutcome
from mahavishnu.stores.kinds import stored_kinds
from mahavishnu.stores.urls import open_store
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.stuck import StalenessCycle
from mahavishnu.tasks.task import TaskRecord, TaskState, new_task
from mahavishnu.testing import ManualClock

TEMPLATES = {
    "payment": {"lifecycle": {"max_waiting_for_dependencies_minutes": 10}},
    "sync": {"lifecycle": {"max_duration_minutes": 10080}},
}


class Place:
    """A store that several processes share, and their clock."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url, self.clock, self._stack = url, ManualClock(), stack

    async def app(self, **settings: Any) -> MahavishnuApp:
        """As one process has it."""
        given = {"dlq_store_url": "memory:", "dlq_default_retry_policy": "never", "templates": TEMPLATES, **settings}
        store = open_store(self.url, local=None, kinds=stored_kinds())
        app = MahavishnuApp(MahavishnuSettings(**given), store=store, clock=self.clock)
        return await self._stack.enter_async_context(app)


@pytest.fixture
async def place(store_url: str) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        yield Place(store_url, stack)


async def waiting(app: MahavishnuApp, name: str, template: str | None = None, priority: int = 0) -> TaskRecord:
    """A task that waits for its dependencies from now on."""
    task = await app.lifecycle.create(name, template=template, priority=priority)
    await app.lifecycle.transition(task.task_id, "initializing")
    return await app.lifecycle.transition(task.task_id, "waiting_for_dependencies")


async def letter_of(app: MahavishnuApp, task_id: str) -> DeadLetter:
    letter = await app.dlq.get_task(task_id, include_archived=True)
    assert letter is not None
    return letter


async def everything(app: MahavishnuApp) -> dict[str, Any]:
    """Every record there is of tasks and letters, with its version."""
    tasks = (await app.lifecycle.list("all", limit=1000)).items
    letters = await app.dlq.list_tasks()
    return {record.key: (record, record.version) for record in (*tasks, *letters)}


async def test_templates_have_limits_of_their_own(place: Place) -> None:
    """After 11 minutes the payment is found; the sync not after three days, but after a week (A32)."""
    app = await place.app()
    payment, sync = await waiting(app, "pay", "payment"), await waiting(app, "sync", "sync")

    async def found() -> set[str]:
        return {row["task_uuid"] for row in await app.lifecycle.detect_and_transition_stale_tasks()}

    place.clock.advance(minutes=11)
    assert await found() == {payment.task_id}
    place.clock.advance(hours=72)
    assert await found() == {payment.task_id}
    place.clock.advance(hours=96)
    assert await found() == {payment.task_id, sync.task_id}


async def test_five_stale_tasks_are_told_of_and_then_moved(place: Place) -> None:
    """A look with the default arguments changes nothing; with `dry_run=False` all five have letters (A33)."""
    app = await place.app()
    tasks = [await waiting(app, f"job-{number}") for number in range(5)]
    place.clock.advance(minutes=61)
    before = await everything(app)
    rows = await app.lifecycle.detect_and_transition_stale_tasks()
    assert [row["action_taken"] for row in rows] == ["would_transition_to_dlq_and_error"] * 5
    assert await everything(app) == before and len(before) == 5

    rows = await app.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
    assert [row["action_taken"] for row in rows] == ["transitioned_to_dlq_and_error"] * 5
    assert {(await app.lifecycle.get(task.task_id)).state for task in tasks} == {TaskState.ERROR}
    letters = await app.dlq.list_tasks()
    assert sorted(letter.task_id for letter in letters) == sorted(task.task_id for task in tasks)
    assert {letter.reason for letter in letters} == {DlqReason.STALENESS_TIMEOUT}
    assert len({letter.fingerprint for letter in letters}) == 1


async def test_ten_detectors_and_one_who_finishes_the_tasks(place: Place) -> None:
    """Each task is complete and has no letter, or is in error and has one; one detector has moved it (A34)."""
    apps = [await place.app() for _ in range(5)]
    tasks = [await waiting(apps[0], f"job-{number}") for number in range(30)]
    place.clock.advance(minutes=61)

    async def finish() -> Counter[str]:
        done: Counter[str] = Counter()
        for task in tasks:
            try:
                await apps[4].lifecycle.finalize(task.task_id)
                done["complete"] += 1
            except IllegalMove as problem:
                done[problem.state] += 1
        return done

    looks = [apps[number % 5].lifecycle.detect_and_transition_stale_tasks(dry_run=False) for number in range(10)]
    done, *all_rows = await asyncio.gather(finish(), *looks)
    assert isinstance(done, Counter)
    moved = Counter(row["task_uuid"] for rows in all_rows for row in rows if row["transition_success"])  # type: ignore[index]
    letters = {letter.task_id: letter for letter in await apps[0].dlq.list_tasks(limit=100)}
    for task in tasks:
        ended = await apps[0].lifecycle.get(task.task_id)
        assert ended.state in (TaskState.COMPLETE, TaskState.ERROR)
        is_error = ended.state is TaskState.ERROR
        assert (task.task_id in letters, moved[task.task_id]) == (is_error, int(is_error))
    assert (done["complete"], done["error"]) == (30 - len(letters), len(letters))
    assert {letter.occurrences for letter in letters.values()} <= {1}


async def test_nobody_is_blamed_for_downtime(place: Place) -> None:
    """A thousand tasks wait for five minutes when everything stops for two hours: the first look moves none (A35)."""
    app = await place.app()
    now = place.clock.now()
    made = []
    for number in range(1000):
        task = task_moves.move(new_task(f"job-{number}", now=now), TaskState.INITIALIZING, now=now)
        made.append(task_moves.move(task, TaskState.WAITING_FOR_DEPENDENCIES, now=now))
    assert all(await app.lifecycle.tasks.write(made))
    place.clock.advance(minutes=5)
    assert await StalenessCycle(app.dlq.context).run() == 0
    place.clock.advance(hours=2)

    fresh = StalenessCycle((await place.app()).dlq.context)
    assert await fresh.run() == 0
    place.clock.advance(minutes=5)
    assert await fresh.run() == 0


async def test_a_task_that_always_hangs_is_given_up_after_three_requeues(place: Place) -> None:
    """Each requeue says how many there were; beyond three it is over, and the answer is no (A36)."""
    app = await place.app()
    task = await waiting(app, "pay", priority=5)
    for count in (1, 2, 3):
        place.clock.advance(minutes=61)
        (row,) = await app.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
        assert row["action_taken"] == "transitioned_to_dlq_and_error"
        assert await app.dlq.requeue_from_dlq(task.task_id) == {
            "success": True, "message": "Task requeued successfully", "new_task_state": "pending",
            "dlq_retry_count": count,
        }  # fmt: skip
        back = await app.lifecycle.get(task.task_id)
        assert (back.state, back.priority) == (TaskState.PENDING, 5 + 10 * count)
        await app.lifecycle.transition(task.task_id, "initializing")
        await app.lifecycle.transition(task.task_id, "waiting_for_dependencies")
    place.clock.advance(minutes=61)
    await app.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
    beyond = await app.dlq.requeue_from_dlq(task.task_id)
    assert (beyond["success"], beyond["message"], beyond["new_task_state"]) == (
        False, "Max DLQ retries exceeded", "error",
    )  # fmt: skip
    letter = await letter_of(app, task.task_id)
    assert letter.resolution.status == "permanently_failed"
    assert letter.resolution.notes == "Max DLQ retries (3) exceeded"
    assert letter.resolution.by == "system_max_retries"
    assert (await app.lifecycle.get(task.task_id)).state is TaskState.ERROR
    again = await app.dlq.requeue_from_dlq(task.task_id)
    assert (again["message"], again["new_task_state"], again["dlq_retry_count"]) == (
        "Task not found in DLQ or already resolved", None, 0,
    )  # fmt: skip


def told(app: MahavishnuApp, wanted: Callable[[Event], bool]) -> asyncio.Event:
    """Set once somebody says so."""
    heard = asyncio.Event()

    def listen(event: Event) -> None:
        if wanted(event):
            heard.set()

    app.dlq.context.events.subscribe(listen)
    return heard


async def test_what_hangs_is_found_by_a_worker_and_done_after_its_requeue(place: Place) -> None:
    """Of a limit of a minute and a look every five, after 400 seconds; the requeue has succeeded in the end (R292)."""
    app = await place.app(staleness={"waiting_for_dependencies_minutes": 1})
    task = await waiting(app, "pay", priority=5)
    found = told(app, lambda event: event.name is EventName.TASK_STALE)
    await app.start_dlq_processor()
    at_rest = len(app.dlq.processing._periodic_tasks) + 5  # and the processor, its leases, admission, watch, heartbeat
    async with asyncio.timeout(60):
        while place.clock.monotonic() < 400:
            await place.clock.sleeping(at_rest)
            place.clock.advance(10)
        await found.wait()
    letter = await letter_of(app, task.task_id)
    assert (letter.reason, letter.priority) == (DlqReason.STALENESS_TIMEOUT, 5)

    assert (await app.dlq.requeue_from_dlq(task.task_id))["success"]
    (ready,) = await app.lifecycle.next_ready_tasks()
    assert (ready.task_id, ready.state, ready.priority) == (task.task_id, TaskState.PENDING, 15)
    assert await app.lifecycle.finalize(task.task_id)

    done = await letter_of(app, task.task_id)
    assert done.requeue is not None and done.requeue.outcome is RequeueOutcome.SUCCEEDED
    assert not done.is_open
    assert await app.dlq.requeues.outcomes() == {"succeeded": 1}


async def test_a_workflow_whose_process_hung_is_done_after_its_requeue(place: Place) -> None:
    """Elsewhere, and the steps that had ended are not run again."""
    effects: list[str] = []
    goes_on, reached = asyncio.Event(), asyncio.Event()

    def define(app: MahavishnuApp, *, hangs: bool) -> Callable[[int], Any]:
        async def charge() -> int:
            effects.append("charge")
            return 7

        async def ship(paid: int) -> None:
            if hangs:
                reached.set()
                await goes_on.wait()
            effects.append(f"ship {paid}")

        @app.workflow(name="order", track=True)
        async def order(number: int) -> None:
            await app.lifecycle.step("ship", ship, await app.lifecycle.step("charge", charge))

        return order

    here, there = await place.app(), await place.app()
    order = define(here, hangs=True)
    define(there, hangs=False)
    hung = asyncio.create_task(order(1))
    await reached.wait()
    place.clock.advance(minutes=31)
    (row,) = await there.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
    (letter,) = await there.dlq.list_tasks()
    assert (await there.dlq.requeue_from_dlq(letter.task_id))["success"]
    task = await there.lifecycle.get(row["task_uuid"])
    assert (task.state, task.priority) == (TaskState.PENDING, 10)

    assert await there.dlq.run_due() == 1
    assert effects == ["charge", "ship 7"]
    done = await letter_of(there, letter.task_id)
    assert done.requeue is not None and done.requeue.outcome is RequeueOutcome.SUCCEEDED
    assert (await there.lifecycle.get(row["task_uuid"])).state is TaskState.COMPLETE
    hung.cancel()
    await asyncio.gather(hung, return_exceptions=True)
    assert (await there.lifecycle.get(row["task_uuid"])).state is TaskState.COMPLETE


SWITCHES: dict[str, dict[str, Any]] = {
    "staleness": {"staleness": {"enabled": False}},
    "retention": {"retention": {"enabled": False}},
    "dlq": {"dlq_enabled": False},
}


@pytest.mark.parametrize("off", [None, *SWITCHES])
async def test_each_phase_can_be_switched_off_alone(place: Place, off: str | None) -> None:
    """Failures are kept, what hangs is found, what is over goes to the archive: each without the others (R346)."""
    app = await place.app(**SWITCHES.get(off or "", {}))
    app.register_adapter("sweep", lambda task, repos: 1 / 0)
    result = await app.execute_workflow({"n": 1}, "sweep", [], task_id="wf_1")
    assert result["status"] == "failed" and bool(result.get("dlq_enqueued")) == (off != "dlq")
    if off == "dlq":
        return
    await waiting(app, "pay")
    await app.dlq.letters.resolve("wf_1", by="ann")
    place.clock.advance(minutes=61)
    assert await StalenessCycle(app.dlq.context).run() == (off != "staleness")
    place.clock.advance(hours=31 * 24)
    await app.dlq.archive.maintain()
    assert len((await app.dlq.archive.list()).items) == (off != "retention")

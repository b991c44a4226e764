"""A success of the application closes the open letter of its work: looked up in batches, off the path of the run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.capture import closing as closing_module
from mahavishnu.capture.adapters import current_attempt
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import new_entry_id
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import turn
from mahavishnu.values.payload import LetterRequest
from tests.support.queues import NETWORK, Gate, House, Runs, fill, heard, letter_of, queue_of, settle, sound

TASK = {"n": 1}


async def fail_once(app: MahavishnuApp, task: Any = TASK, repos: list[str] | None = None, name: str = "wf_1") -> None:
    app.register_adapter("sweep", Runs(NETWORK))
    assert (await app.execute_workflow(task, "sweep", repos, task_id=name))["dlq_enqueued"]
    app.register_adapter("sweep", Runs("done"))


def work(task: Any = TASK) -> Callable[[], LetterRequest]:
    return lambda: LetterRequest("any", task, (), adapter="sweep")


async def succeed(app: MahavishnuApp, task: Any = TASK, repos: list[str] | None = None, name: str = "wf_1") -> None:
    assert (await app.execute_workflow(task, "sweep", repos, task_id=name))["status"] == "completed"


async def flushed(app: MahavishnuApp, name: str = "wf_1") -> DeadLetter:
    await queue_of(app).closing.flush()
    return await letter_of(queue_of(app), name)


def counted(app: MahavishnuApp) -> tuple[int, int]:
    counts = queue_of(app).context.counts
    return counts["closed_by_success"], counts["successes_not_looked_up"]


async def test_a_success_closes_the_letter(any_house: House) -> None:
    app = any_house.app()
    await fail_once(app)
    events = heard(queue_of(app))
    any_house.clock.advance(1)
    await succeed(app)
    letter = await flushed(app)
    assert (letter.status, letter.resolution.status, letter.resolution.by) == (
        "completed",
        "manually_resolved",
        "application",
    )
    assert letter.resolution.notes == "a run of the application that began at 2026-01-01T00:00:01.000Z succeeded"
    (told,) = events
    assert (told.name, told.letter) == (EventName.RESOLVED, letter)
    assert told.detail == {"by": "application", "notes": letter.resolution.notes, "was_open": True}
    assert counted(app) == (1, 0)
    stats = await sound(queue_of(app))
    assert stats["lifetime_stats"]["closed_by_success"] == stats["lifetime_stats"]["manually_resolved"] == 1
    any_house.clock.advance(hours=1)
    assert await queue_of(app).run_due() == 0, "the worker does not run it"


async def test_it_is_looked_up_by_itself_and_delays_nobody(house: House) -> None:
    app = house.app()
    await fail_once(app)
    held = house.faults.hold("get")
    await succeed(app)
    await held.wait_for_call()
    assert (await letter_of_without_hold(app)).is_open
    held.release()
    await settle()
    assert not (await letter_of(queue_of(app), "wf_1")).is_open


async def letter_of_without_hold(app: MahavishnuApp) -> DeadLetter:
    (letter,) = await queue_of(app).list_tasks()
    return letter


async def test_a_decorated_function_with_an_id(any_house: House) -> None:
    app = any_house.app()
    answers = Runs(NETWORK, "done")

    @app.workflow("sweep")
    async def sweep(task: Any, repos: list[str]) -> Any:
        return await answers(task, repos)

    with pytest.raises(ConnectionError):
        await sweep({"id": "wf_1"}, ["api"])
    any_house.clock.advance(1)
    await sweep({"id": "wf_1"}, ["api"])
    assert (await flushed(app)).resolution.by == "application"


async def test_arguments_that_are_no_json(any_house: House) -> None:
    """They are compared as a letter keeps them."""
    app, answers = any_house.app(), Runs(NETWORK, NETWORK, "done", "done")

    @app.workflow("charge", key="{customer}", queue="money")
    async def charge(customer: str, amount: Decimal, *days: date) -> Any:
        return await answers({}, [])

    for day in (date(2026, 1, 1), date(2026, 1, 2)):
        with pytest.raises(ConnectionError):
            await charge("ann", Decimal("12.50"), day)
    any_house.clock.advance(1)
    await charge("ann", Decimal("12.50"), date(2026, 1, 2))
    await queue_of(app).closing.flush()
    (left,) = await queue_of(app).list_tasks()
    assert left.task["days"] == ["2026-01-01"]
    await charge("ann", Decimal("12.50"), date(2026, 1, 1))
    await queue_of(app).closing.flush()
    assert await queue_of(app).list_tasks() == []


async def test_a_block_inside_of_its_own_retry_is_no_success_of_the_application(house: House) -> None:
    """The run goes on after it, and may fail."""
    app = house.app()

    @app.workflow("sweep", key="number")
    async def sweep(number: int) -> None:
        async with app.capture("sweep", number=number):
            pass
        raise NETWORK

    with pytest.raises(ConnectionError):
        await sweep(1)
    house.clock.advance(hours=1)
    assert await queue_of(app).run_due() == 1
    letter = await flushed(app, "sweep:1")
    assert (letter.is_open, letter.retry_count) == (True, 1)


async def test_a_sync_function_in_an_event_loop(any_house: House) -> None:
    """Its failure waits in a file, or in memory, until the loop has its turn: only then can it be looked up."""
    app, answers = any_house.app(), iter([NETWORK, None])

    @app.workflow("sweep", key="number")
    def sweep(number: int) -> None:
        if (problem := next(answers)) is not None:
            raise problem

    await queue_of(app).open()
    held = any_house.faults.hold("write", kind=LETTERS)
    with pytest.raises(ConnectionError):
        sweep(1)
    any_house.clock.advance(1)
    sweep(1)
    await queue_of(app).closing.flush()
    await held.wait_for_call()
    held.release()
    async with asyncio.timeout(10):
        while (letter := await queue_of(app).get_task("sweep:1")) is None or letter.is_open:
            any_house.clock.advance(1)
            await turn()
    assert letter.resolution.by == "application"


async def test_a_failure_on_its_way_into_the_store_among_many_successes(tmp_path: Path) -> None:
    """That nothing is open yet does not say that nothing was captured: it waits in a file."""
    async with MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path}/letters.db")) as app:

        @app.workflow("sweep", key="number")
        def sweep(number: int) -> None:
            raise NETWORK

        await queue_of(app).open()
        with pytest.raises(ConnectionError):
            sweep(1)
        began = queue_of(app).clock.now()
        for number in range(1, 100):
            queue_of(app).closing.note_success(f"sweep:{number}", work({"number": number}), began=began)
        async with asyncio.timeout(10):
            while (letter := await queue_of(app).get_task("sweep:1")) is None or letter.is_open:
                await queue_of(app).closing.flush()
        assert letter.resolution.by == "application"


@dataclass
class Cat:
    name: str


@dataclass
class Dog:
    name: str


async def test_arguments_of_another_type_that_are_written_alike_are_other_work(any_house: House) -> None:
    app, answers = any_house.app(), iter([NETWORK, NETWORK, None])

    @app.workflow("feed", key="name")
    async def feed(name: str, pet: Cat | Dog) -> None:
        if (problem := next(answers)) is not None:
            raise problem

    for pet in (Cat("Ann"), Dog("Ann")):
        with pytest.raises(ConnectionError):
            await feed("Ann", pet)
    any_house.clock.advance(1)
    await feed("Ann", Dog("Ann"))
    await queue_of(app).closing.flush()
    (left,) = await queue_of(app).list_tasks()
    assert "Cat" in left.payload_types.text


async def test_each_repo_by_itself(any_house: House) -> None:
    app = any_house.app()
    await fail_once(app, repos=["api", "web"])
    events = heard(queue_of(app))
    any_house.clock.advance(1)
    await succeed(app, repos=["api"])
    letter = await flushed(app)
    assert (letter.status, letter.repos) == ("pending", ("web",))
    assert [(event.name, event.detail) for event in events] == [
        (EventName.EDITED, {"by": "application", "changed": ["repos"]})
    ]
    await app.execute_workflow_parallel(TASK, "sweep", ["web"], task_id="wf_1")
    assert not (await flushed(app)).is_open
    assert counted(app) == (1, 0)
    await sound(queue_of(app))


async def test_repos_that_have_to_be_done_together(house: House) -> None:
    app = house.app(retry_only_failed_repos=False)
    await fail_once(app, repos=["api", "web"])
    await succeed(app, repos=["api"])
    assert (await flushed(app)).repos == ("api", "web")
    await succeed(app, repos=["web", "api"])
    assert not (await flushed(app)).is_open


async def test_what_is_not_the_same_work_stays_open(any_house: House) -> None:
    app = any_house.app()
    await fail_once(app)
    app.register_adapter("other", Runs("done"))
    any_house.clock.advance(1)
    await succeed(app, {"n": 2})
    await succeed(app, name="wf_2")
    await app.execute_workflow(TASK, "other", task_id="wf_1")
    await app.execute_workflow(TASK, "sweep")
    await app.execute_workflow({**TASK, "object": object()}, "sweep", task_id="wf_1")
    assert (await flushed(app)).is_open
    assert counted(app) == (0, 0)


async def test_other_work_under_the_same_id_is_closed_by_itself(any_house: House) -> None:
    app = any_house.app()
    await fail_once(app)
    await fail_once(app, {"n": 2})
    (other,) = await queue_of(app).list_tasks(source_id="wf_1")
    any_house.clock.advance(1)
    await succeed(app, {"n": 2})
    assert (await flushed(app)).is_open
    assert not (await letter_of(queue_of(app), other.task_id)).is_open
    await succeed(app)
    assert not (await flushed(app)).is_open
    await fail_once(app, {"n": 2})
    await fail_once(app)
    await queue_of(app).clear_all()
    await succeed(app, {"n": 2})
    await queue_of(app).closing.flush()
    await sound(queue_of(app))


async def test_what_was_captured_after_the_run_began_stays(any_house: House) -> None:
    app = any_house.app()
    gate = Gate()
    app.register_adapter("sweep", gate)
    running = asyncio.create_task(app.execute_workflow(TASK, "sweep", task_id="wf_1"))
    await gate.reached()
    any_house.clock.advance(1)
    await fail_once(app)
    gate.open()
    assert (await running)["status"] == "completed"
    assert (await flushed(app)).is_open
    any_house.clock.advance(1)
    await succeed(app)
    assert not (await flushed(app)).is_open
    await fail_once(app)  # of the next generation
    assert (await flushed(app)).generation == 2
    any_house.clock.advance(1)
    await succeed(app)
    assert not (await flushed(app)).is_open
    await sound(queue_of(app))


@pytest.mark.parametrize("seconds", [-20, 20])
async def test_a_failure_on_another_machine_may_be_later_than_its_clock_says(
    any_house: House, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    here, there = any_house.app(), any_house.app()
    gate = Gate()
    here.register_adapter("sweep", gate)
    running = asyncio.create_task(here.execute_workflow(TASK, "sweep", task_id="wf_1"))
    await gate.reached()
    with monkeypatch.context() as other_machine:
        other_machine.setattr(new_entry_id, "mark", "0000c10c")
        any_house.clock.set(any_house.clock.now() + timedelta(seconds=seconds))
        await fail_once(there)  # after the run began, whatever this clock says
        any_house.clock.set(any_house.clock.now() - timedelta(seconds=seconds))
    gate.open()
    assert (await running)["status"] == "completed"
    assert (await flushed(here)).is_open
    here.register_adapter("sweep", Runs("done"))
    for advance, closed in ((29 + min(seconds, 0), False), (1 + max(seconds, 0) - min(seconds, 0), True)):
        any_house.clock.advance(advance)
        await succeed(here)
        assert (await flushed(here)).is_open is not closed
    await sound(queue_of(here))


async def test_a_clock_that_was_set_back_closes_nothing_later(any_house: House) -> None:
    app = any_house.app()
    gate = Gate()
    app.register_adapter("sweep", gate)
    any_house.clock.set(any_house.clock.now() + timedelta(hours=1))
    running = asyncio.create_task(app.execute_workflow(TASK, "sweep", task_id="wf_1"))
    await gate.reached()
    any_house.clock.set(any_house.clock.now() - timedelta(hours=1))
    await fail_once(app)
    gate.open()
    assert (await running)["status"] == "completed"
    assert (await flushed(app)).is_open


async def test_a_masked_payload_is_compared_as_it_is_kept(house: House) -> None:
    app = house.app(redact_keys=("*token*",))
    await fail_once(app, {"token": "a", "n": 1})
    await succeed(app, {"token": "b", "n": 2})
    assert (await flushed(app)).is_open
    await succeed(app, {"token": "b", "n": 1})
    assert not (await flushed(app)).is_open


@pytest.mark.parametrize("name", ["a/b/c", "x" * 9000, "\ud800"])
async def test_odd_ids(house: House, name: str) -> None:
    app = house.app()
    await fail_once(app, name=name)
    await succeed(app, name=name)
    await queue_of(app).closing.flush()
    assert counted(app) == (1, 0)


async def test_a_retry_is_no_success_of_the_application(house: House) -> None:
    app = house.app()
    await fail_once(app, {"id": "wf_1"})
    await fail_once(app, {"id": "wf_2"}, name="wf_2")

    async def run(task: Any, repos: list[str]) -> Any:
        assert current_attempt.get() is not None
        await app.execute_workflow({"id": "wf_2"}, "sweep", task_id="wf_2")  # that is another one
        return await app.execute_workflow(task, "sweep", repos)

    queue_of(app).processing.callback = run
    house.clock.advance(1)
    assert (await queue_of(app).retry_task("wf_1"))["success"]
    assert (await flushed(app)).resolution.status == "requeued"
    assert (await flushed(app, "wf_2")).resolution.by == "application"
    assert (await sound(queue_of(app)))["lifetime_stats"]["retry_success"] == 1


async def test_it_can_be_turned_off(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = house.app(dlq_close_on_success=False)
    await fail_once(app)
    await succeed(app)
    assert "closing" not in vars(queue_of(app))
    assert not MahavishnuSettings(dlq_close_on_success=False).dlq_close_on_success


async def test_an_app_without_a_queue_succeeds(house: House) -> None:
    app = house.app(dlq_enabled=False)
    app.register_adapter("sweep", Runs("done"))
    await succeed(app)


async def test_bulk_runs_requeues_and_groups_count_it(any_house: House) -> None:
    app = any_house.app()
    queue = queue_of(app)
    for number in range(3):
        await fail_once(app, name=f"wf_{number}")
    any_house.clock.advance(1)
    run = await queue.runs.start("redrive", everything=True, by="ann")
    while await queue.runs.advance():
        any_house.clock.advance(1)
    await queue.requeue_from_dlq("wf_1")
    any_house.clock.advance(1)
    for number in range(3):
        await succeed(app, name=f"wf_{number}")
    await queue.closing.flush()
    while await queue.runs.advance():
        any_house.clock.advance(60)
    counts = (await queue.runs.get(run.run_id)).counts
    assert (counts.moved, counts.closed, counts.succeeded, counts.awaited) == (3, 3, 0, 0)
    assert await queue.requeues.outcomes() == {"abandoned": 1}
    any_house.clock.advance(60)
    await queue.groups.refresh()
    assert (await queue.groups.list()).items == [], "it is quiet"
    assert (await sound(queue))["lifetime_stats"]["manually_resolved"] == 3


# --- the worker at the same time


@pytest.mark.parametrize("answer", [NETWORK, "done"])
async def test_the_run_of_a_worker_does_not_count_any_more(any_house: House, answer: Any) -> None:
    """Neither does its failure open the letter again, nor is its success counted as a second one."""
    app = any_house.app()
    await fail_once(app)
    gate = Gate(answer if isinstance(answer, str) else {"status": "failed", "error": "again"})
    worker = any_house.queue(gate)
    any_house.clock.advance(hours=1)
    cycle = asyncio.create_task(worker.run_due())
    await gate.reached()
    events = heard(worker)
    await succeed(app)
    closed = await flushed(app)
    assert closed.status == "completed"
    gate.open()
    await cycle
    assert await letter_of(worker, "wf_1") == closed
    assert [event.name for event in events] == [EventName.STALE_CLAIM]
    lifetime = (await sound(worker))["lifetime_stats"]
    assert (lifetime["manually_resolved"], lifetime["retry_success"], lifetime["retry_failed"]) == (1, 0, 0)


async def test_a_remote_worker_is_told_why(house: House) -> None:
    app = house.app()
    await fail_once(app)
    house.clock.advance(hours=1)
    (claim,) = await queue_of(app).claims.claim("remote")
    await succeed(app)
    await flushed(app)
    with pytest.raises(Exception, match="a run of the application did its work meanwhile"):
        await queue_of(app).claims.settle("wf_1", claim.token, "succeeded")


# --- what is bounded


async def test_more_than_can_be_looked_up_are_counted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing_module, "MOST_NOTED", 3)
    app = house.app()
    await fail_once(app)
    closing = queue_of(app).closing
    for number in range(5):
        closing.note_success(f"other-{number}", work(), began=house.clock.now())
    assert counted(app) == (0, 2)
    await closing.flush()
    await succeed(app)
    assert not (await flushed(app)).is_open


async def test_one_look_after_the_other(house: House) -> None:
    """The first at once; then each waits for a part of a second, and takes all that came meanwhile."""
    app = house.app()
    app.register_adapter("sweep", Runs("done"))
    await queue_of(app).open()
    for number in range(100):
        await succeed(app, name=f"wf_{number}")
        await turn()
        await settle(3)
    assert house.faults.calls["get"] == 1
    house.clock.advance(1)
    await settle()
    assert house.faults.calls["get"] == 2
    assert house.clock.sleepers == 0


async def test_nothing_is_looked_up_where_nothing_is_open(tmp_path: Path) -> None:
    """A SQLite file says so at once for all processes."""
    settings = MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path}/letters.db")
    async with MahavishnuApp(settings) as app, MahavishnuApp(settings) as another:
        await fail_once(app)
        await queue_of(app).letters.resolve("wf_1")
        found: list[Any] = []
        closing, letters = queue_of(app).closing, queue_of(app).context.letters.records
        get = letters.get
        queue_of(app).context.letters.records.get = lambda keys: found.append(keys) or get(keys)  # type: ignore[method-assign,func-returns-value]
        began = queue_of(app).clock.now()
        for number in range(200):
            closing.note_success(f"wf_{number}", work(), began=began)
        await closing.flush()
        assert found == []
        await fail_once(another)
        for number in range(200):
            closing.note_success(f"wf_{number}", work(), began=queue_of(app).clock.now())
        await closing.flush()
        assert len(found[0]) == 200
        assert not (await letter_of(queue_of(app), "wf_1")).is_open


async def test_many_at_once(any_house: House) -> None:
    app = any_house.app()
    for number in range(30):
        await fail_once(app, name=f"wf_{number}")
    any_house.clock.advance(1)
    await asyncio.gather(*(succeed(app, name=f"wf_{number}") for number in range(1200)))
    await queue_of(app).closing.flush()
    assert counted(app) == (30, 0)
    await sound(queue_of(app))


# --- a store that is away, a process that ends


async def test_while_the_store_is_away_it_is_tried_later(house: House) -> None:
    app = house.app()
    await fail_once(app)
    house.clock.advance(1)
    with house.faults.unavailable():
        await succeed(app)
        await queue_of(app).closing.flush()
        await settle()
        assert counted(app) == (0, 0)
    await house.clock.sleeping()
    house.clock.advance(61)
    await settle()
    assert not (await letter_of(queue_of(app), "wf_1")).is_open
    assert counted(app) == (1, 0)


async def test_of_those_that_are_put_off_the_last_ones_are_kept(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing_module, "MOST_PUT_OFF", 3)
    app = house.app()
    await fail_once(app, name="wf_4")
    with house.faults.unavailable():
        for number in range(5):
            await succeed(app, name=f"wf_{number}")
        await queue_of(app).closing.flush()
    assert counted(app) == (0, 2)
    assert not (await flushed(app, "wf_4")).is_open


async def test_a_write_that_fails_is_tried_later(house: House) -> None:
    app = house.app()
    await fail_once(app)
    await succeed(app)
    house.faults.unavailable("write", times=1)
    assert (await flushed(app)).is_open
    assert not (await flushed(app)).is_open
    assert counted(app) == (1, 0)


async def test_closing_the_queue_looks_up_what_was_noted(any_house: House) -> None:
    app = any_house.app()
    await fail_once(app)
    await succeed(app)
    await app.shutdown()
    queue = any_house.queue()
    assert not (await letter_of(queue, "wf_1")).is_open


async def test_what_cannot_be_looked_up_in_the_end_is_counted(house: House, caplog: pytest.LogCaptureFixture) -> None:
    app = house.app()
    await fail_once(app)
    with house.faults.unavailable():
        await succeed(app)
        await queue_of(app).closing.finish()
    assert counted(app) == (0, 1)
    assert "1 successes could not be looked up: if they have open letters, those are retried" in caplog.text
    await queue_of(app).closing.finish()
    assert (await letter_of(queue_of(app), "wf_1")).is_open


async def test_a_mistake_of_ours_is_counted_and_ends_nothing(house: House) -> None:
    app = house.app()
    await fail_once(app)
    closing = queue_of(app).closing
    closing.note_success("wf_1", raises, began=house.clock.now())
    closing.note_success("wf_1", work(float("nan")), began=house.clock.now())
    await closing.flush()
    await succeed(app)
    assert not (await flushed(app)).is_open


def raises() -> LetterRequest:
    raise RuntimeError("what was it?")


async def test_a_fork_forgets_what_its_parent_looks_up(house: House) -> None:
    closing = house.queue().closing
    closing.note_success("wf_1", work(), began=house.clock.now())
    child = os.fork()
    if not child:
        os._exit(len(closing._noted))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222 - it ends at once
    assert len(closing._noted) == 1


SCRIPT = """
import sys
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings

app = MahavishnuApp(MahavishnuSettings(dlq_store_url=sys.argv[1]))

@app.workflow(key="number")
def sweep(number):
    if sys.argv[2] == "fail":
        raise ConnectionError("connection refused")

sweep(1)
"""


def test_a_script_without_an_event_loop(tmp_path: Path) -> None:
    """It fails in one night, and succeeds in the next one: what it noted is looked up before it ends."""
    url = f"sqlite:///{tmp_path}/letters.db"
    assert subprocess.run(
        [sys.executable, "-c", SCRIPT, url, "fail"], stderr=subprocess.DEVNULL, check=False
    ).returncode
    subprocess.run([sys.executable, "-c", SCRIPT, url, "succeed"], check=True)

    async def look() -> DeadLetter:
        async with MahavishnuApp(MahavishnuSettings(dlq_store_url=url)) as app:
            return await letter_of(queue_of(app), "sweep:1")

    assert asyncio.run(look()).resolution.by == "application"


def test_one_event_loop_after_the_other(tmp_path: Path) -> None:
    """What one has not looked up before it ended, the next one does."""
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path}/letters.db"))
    asyncio.run(fail_once(app))
    asyncio.run(succeed(app))
    asyncio.run(succeed(app, name="wf_2"))
    assert not asyncio.run(flushed(app)).is_open
    asyncio.run(app.shutdown())


def test_an_event_loop_that_stands_still_keeps_the_store(tmp_path: Path) -> None:
    """Between two runs of it something without an event loop succeeds: it is looked up when the loop goes on."""
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path}/letters.db"))
    answers = iter([NETWORK, None])

    @app.workflow("sweep", key="number")
    def sweep(number: int) -> None:
        if (problem := next(answers)) is not None:
            raise problem

    async def fail() -> None:
        await queue_of(app).open()
        with pytest.raises(ConnectionError):
            sweep(1)
        async with asyncio.timeout(10):
            while await queue_of(app).get_task("sweep:1") is None:
                await turn()

    async def look() -> DeadLetter:
        assert queue_of(app).context.session.is_open_in(asyncio.get_running_loop())
        return await flushed(app, "sweep:1")

    with asyncio.Runner() as runner:
        runner.run(fail())
        sweep(1)
        assert not runner.run(look()).is_open
        runner.run(app.shutdown())


def test_a_thread_without_an_event_loop_has_the_one_that_uses_the_store_do_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path}/letters.db")) as app:
            await fail_once(app)
            closing, began = queue_of(app).closing, queue_of(app).clock.now()
            await asyncio.to_thread(closing.note_success, "wf_1", work(), began=began)
            closed = asyncio.Event()
            queue_of(app).context.events.subscribe(lambda event: closed.set(), {EventName.RESOLVED})
            async with asyncio.timeout(10):
                await closed.wait()

    asyncio.run(go())


class TestWaiting:
    """A failure that waits for room is closed where it is."""

    async def full(self, house: House) -> MahavishnuApp:
        app = house.app(dlq_max_size=100)
        queue_of(app).processing.callback = Runs()
        await fill(queue_of(app), 100, retry_policy="never")
        app.register_adapter("sweep", Runs(NETWORK))
        assert not (await app.execute_workflow(TASK, "sweep", task_id="wf_1"))["dlq_enqueued"]
        assert (await queue_of(app).get_statistics())["waiting"] == 1
        app.register_adapter("sweep", Runs("done"))
        house.clock.advance(1)
        return app

    @pytest.mark.parametrize("many", [0, 100])
    async def test_it_becomes_a_completed_letter_without_a_run(self, any_house: House, many: int) -> None:
        app = await self.full(any_house)
        await succeed(app)
        for number in range(many):
            queue_of(app).closing.note_success(f"other_{number}", work(), began=any_house.clock.now())
        letter = await flushed(app)
        assert (letter.status, letter.resolution.by, letter.tallies.manually_resolved) == (
            "completed",
            "application",
            1,
        )
        assert counted(app) == (1, 0)
        stats = await sound(queue_of(app))
        assert (stats["waiting"], stats["queue_size"]) == (0, 100)
        await queue_of(app).archive_task("wf_00000")
        assert await queue_of(app).intake.admit_waiting() == 0
        assert await flushed(app) == letter

    async def test_other_work_and_what_was_captured_later_goes_on_waiting(self, any_house: House) -> None:
        app = await self.full(any_house)
        began = any_house.clock.now()
        await succeed(app, {"n": 2})
        queue_of(app).closing.note_success("wf_1", work(), began=began - timedelta(seconds=2))
        await queue_of(app).closing.flush()
        assert (await queue_of(app).get_statistics())["waiting"] == 1
        assert counted(app) == (0, 0)

    async def test_while_the_room_cannot_be_read_it_is_tried_later(self, house: House) -> None:
        app = await self.full(house)
        house.faults.unavailable("find", kind=WAITING)
        await succeed(app)
        await queue_of(app).closing.flush()
        assert counted(app) == (0, 0)
        house.faults.clear()
        assert (await flushed(app)).status == "completed"

    async def test_of_an_outage_of_the_store(self, house: House) -> None:
        """The failure waits in memory or in a file until the store is back; the success waits for it."""
        app = house.app()
        queue_of(app).processing.callback = Runs()
        await queue_of(app).open()
        house.faults.unavailable()
        app.register_adapter("sweep", Runs(NETWORK))
        assert not (await app.execute_workflow(TASK, "sweep", task_id="wf_1"))["dlq_enqueued"]
        house.clock.advance(1)
        app.register_adapter("sweep", Runs("done"))
        await succeed(app)
        await queue_of(app).closing.flush()
        house.faults.clear()
        for _ in range(3):
            await queue_of(app).intake.admit_waiting()
            await queue_of(app).closing.flush()
        letter = await flushed(app)
        assert (letter.status, letter.resolution.by) == ("completed", "application")

"""Tracked workflows: seen while they run, and retried from the step that failed, by whichever process."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.model.errors import InvalidInput, LostLease
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.run import current_run
from mahavishnu.tasks.task import StepRecord, TaskRecord, TaskState
from mahavishnu.testing.faults import Call
from mahavishnu.values.encryption import new_key
from mahavishnu.values.payload import LetterRequest
from tests.support.queues import House


@dataclass
class Order:
    number: int
    total: Decimal
    due: date


@dataclass
class Receipt:
    order: Order
    tags: set[str] = field(default_factory=set)


@dataclass
class Card:
    number: str
    until: date


class Shop:
    """An app of one process with a workflow of five steps. What they do outside is in `effects`, which all share."""

    def __init__(self, house: House, effects: Counter[str], fails_at: str = "", key: str | None = None) -> None:
        self.app, self.effects, self.fails_at = house.app(), effects, fails_at
        self.seen: list[Any] = []
        app = self.app

        async def charge(order: Order) -> Receipt:
            self.do("charge")
            return Receipt(order, {"paid", "eu"})

        def book(receipt: Receipt) -> tuple[date, Decimal]:
            self.do("book")
            return receipt.order.due, receipt.order.total

        async def plain(name: str) -> None:
            self.do(name)

        @app.workflow(name="ship", key=key, track=True)
        async def ship(order: Order, note: str = "") -> str:
            receipt = await app.lifecycle.step("charge", charge, order)
            booked = await app.lifecycle.step("book", book, receipt)
            self.seen += [receipt, booked]
            for name in ("pack", "send", "mail"):
                await app.lifecycle.step(name, plain, name)
            return "done"

        self.ship = ship

    def do(self, name: str) -> None:
        if name == self.fails_at:
            self.fails_at = ""
            raise ConnectionError(f"no {name}")
        self.effects[name] += 1


ORDER = Order(7, Decimal("13.00"), date(2026, 11, 19))
STEPS = ["charge", "book", "pack", "send", "mail"]


async def tasks_of(app: MahavishnuApp) -> list[TaskRecord]:
    return list((await app.lifecycle.list("all")).items)


async def retry(shop: Shop) -> None:
    """As the processor of that process does it."""
    await shop.app.dlq.run_due()


@pytest.mark.parametrize("fails_at", STEPS)
async def test_a_retry_elsewhere_goes_on_at_the_step_that_failed(any_house: House, fails_at: str) -> None:
    """Each effect happens once, and values are what they were."""
    effects: Counter[str] = Counter()
    here, there = Shop(any_house, effects, fails_at), Shop(any_house, effects)
    with pytest.raises(ConnectionError):
        await here.ship(ORDER, note="fast")
    (failed,) = await tasks_of(here.app)
    (letter,) = await there.app.dlq.list_tasks()

    any_house.clock.advance(3600)
    await retry(there)

    assert effects == dict.fromkeys(STEPS, 1)
    assert there.seen == [Receipt(ORDER, {"paid", "eu"}), (ORDER.due, ORDER.total)]
    assert type(there.seen[1][1]) is Decimal
    (done,) = await tasks_of(there.app)
    assert (failed.state, done.state, done.task_id) == (TaskState.ERROR, TaskState.COMPLETE, failed.task_id)
    assert [step.attempts for step in done.steps] == [2 if name == fails_at else 1 for name in STEPS]
    assert failed.last_error == f"no {fails_at}"
    assert await there.app.dlq.get_task(letter.task_id) is not None
    assert not (await there.app.dlq.get_task(letter.task_id)).is_open  # type: ignore[union-attr]
    snapshot = letter.labels.value["lifecycle"]
    assert (snapshot["task_id"], letter.source.state) == (failed.task_id, "steps_in_process")
    assert [step["name"] for step in snapshot["steps"]] == STEPS[: STEPS.index(fails_at) + 1]


@pytest.mark.parametrize("kth", range(1, 9))
async def test_a_process_that_dies_at_any_write_is_followed_by_another(any_house: House, kth: int) -> None:
    """What had ended by then is not run again; what ran at that moment may be, and nothing else."""
    effects: Counter[str] = Counter()
    here, there = Shop(any_house, effects), Shop(any_house, effects)
    gone, writes = asyncio.Event(), 0

    async def die(call: object) -> None:
        nonlocal writes
        writes += 1
        if writes == kth:
            gone.set()
            await end.wait()

    end = asyncio.Event()
    here.app.dlq.store.faults.before("write", die, kind=TASKS)  # type: ignore[attr-defined]
    running = asyncio.create_task(here.ship(ORDER))
    await gone.wait()
    any_house.kill(here.app.dlq)
    before = effects.copy()
    left = next(iter(await tasks_of(there.app)), None)
    if left is None:  # it was never there, and nothing was done
        assert (kth, before) == (1, Counter())
    else:
        assert left.state is TaskState.STEPS_IN_PROCESS
        kept = [step.name for step in left.steps if step.state == "complete"]
        moved = await there.app.lifecycle.move_to_dlq(left.task_id, "its process has died", by="ann")
        assert (await there.app.dlq.requeue_from_dlq(moved.letter.task_id))["success"]
        await retry(there)

        (done,) = await tasks_of(there.app)
        assert (done.task_id, done.state) == (left.task_id, TaskState.COMPLETE)
        at_that_moment = [name for name in before if name not in kept]
        assert effects == {name: 2 if name in at_that_moment else 1 for name in STEPS}
        assert len(at_that_moment) <= 1
    end.set()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_success_is_two_writes_and_every_step_two_more(house: House) -> None:
    """An untracked workflow has none."""
    app = house.app()

    @app.workflow(name="quick", track=True)
    async def quick() -> None: ...

    @app.workflow(name="untracked")
    async def untracked() -> None:
        assert current_run.get() is None
        assert await app.lifecycle.step("two", lambda: 2) == 2

    await app.dlq.open()
    for workflow, writes in ((quick, 2), (untracked, 0)):
        before = house.faults.calls["write"]
        await workflow()
        assert house.faults.calls["write"] - before == writes
    shop = Shop(house, Counter())
    before = house.faults.calls["write"]
    await shop.ship(ORDER)
    assert house.faults.calls["write"] - before == 12


async def test_a_workflow_is_seen_while_it_runs(house: House) -> None:
    """With the step that it is at, and who runs it."""
    app, other = house.app(), house.app()
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        at_work.set()
        await go_on.wait()

    async def wait(task: Any, repos: list[str]) -> None:
        await app.lifecycle.step("slow", slow)

    app.register_adapter("wait", wait)
    running = asyncio.create_task(app.execute_workflow({"id": "wf_1", "a": 1}, "wait", ["api"], track=True))
    await at_work.wait()

    (seen,) = (await other.lifecycle.list()).items
    assert (seen.name, seen.work_id, seen.repos, seen.context.value) == (
        "wait",
        "wf_1",
        ("api",),
        {"id": "wf_1", "a": 1},
    )
    assert (seen.state, seen.processor) == (TaskState.STEPS_IN_PROCESS, app.dlq.context.owner)
    assert [(step.name, step.state) for step in seen.steps] == [("slow", "in_progress")]
    go_on.set()
    assert (await running)["status"] == "completed"
    assert (await other.lifecycle.get(seen.task_id)).state is TaskState.COMPLETE


async def test_a_named_workflow_is_tracked_and_resumed_too(house: House) -> None:
    """Its result says what became of the failure, as without tracking."""
    app, effects = house.app(), Counter[str]()
    fails = [True]

    def count(name: str) -> int:
        effects[name] += 1
        return effects[name]

    async def sweep(task: Any, repos: list[str]) -> None:
        await app.lifecycle.step("one", count, "one")
        if fails:
            raise ConnectionError("refused")
        await app.lifecycle.step("two", count, "two")

    app.register_adapter("sweep", sweep)
    result = await app.execute_workflow({"id": "wf_1"}, "sweep", ["api", "web"], track=True)
    assert (result["status"], result["dlq_enqueued"], result["workflow_id"]) == ("failed", True, "wf_1")
    fails.clear()
    house.clock.advance(3600)
    await app.dlq.run_due()

    assert effects == {"one": 1, "two": 1}
    assert [task.state for task in await tasks_of(app)] == [TaskState.COMPLETE]


async def test_a_run_that_was_done_is_not_run_again(house: House) -> None:
    """Killed between the end of the work and that of its letter: only the letter is left to be closed."""
    effects: Counter[str] = Counter()
    here, there = Shop(house, effects, "pack"), Shop(house, effects)
    with pytest.raises(ConnectionError):
        await here.ship(ORDER)
    house.clock.advance(3600)
    hold = here.app.dlq.store.faults.hold("write", kind=LETTERS)  # type: ignore[attr-defined]
    running = asyncio.create_task(retry(here))
    await hold.wait_for_call()  # the claim
    outcome = here.app.dlq.store.faults.hold("write", kind=LETTERS)  # type: ignore[attr-defined]
    hold.release()
    await outcome.wait_for_call()
    house.kill(here.app.dlq)
    assert [task.state for task in await tasks_of(there.app)] == [TaskState.COMPLETE]

    house.clock.advance(7200)
    await retry(there)
    house.clock.advance(7200)
    await retry(there)

    assert effects == dict.fromkeys(STEPS, 1)
    assert await there.app.dlq.list_tasks() == []
    outcome.release()
    running.cancel()


async def test_two_steps_of_one_name_are_refused(house: House) -> None:
    """A retry could not tell them apart."""
    app = house.app()

    @app.workflow(name="twice", track=True)
    async def twice() -> None:
        for _ in range(2):
            await app.lifecycle.step("send", print, end="")

    with pytest.raises(InvalidInput, match="step 'send' is there twice"):
        await twice()


async def test_a_step_that_may_be_run_twice_is_not_run_a_third_time(house: House) -> None:
    """Its letter waits for a person, and a requeue gives fresh attempts."""
    app, runs = house.app(), []

    async def fetch() -> None:
        runs.append(1)
        raise ConnectionError("refused")

    @app.workflow(name="fetch_all", key=lambda: "all", track=True, max_retries=9)
    async def fetch_all() -> None:
        await app.lifecycle.with_options(max_attempts=2).step("fetch", fetch)

    with pytest.raises(ConnectionError):
        await fetch_all()
    for _ in range(3):
        house.clock.advance(36000)
        await app.dlq.run_due()
    (letter,) = await app.dlq.list_tasks()
    assert (len(runs), letter.status, letter.failures[-1].type) == (
        2, "exhausted", "mahavishnu.model.errors.StepExhausted",
    )  # fmt: skip

    assert (await app.dlq.requeue_from_dlq(letter.task_id, resolved_by="ann"))["success"]
    await app.dlq.run_due()
    assert len(runs) == 3


async def test_a_step_that_takes_too_long_has_failed(house: House) -> None:
    """It waits for its retry like any other."""
    app = house.app()

    @app.workflow(name="hang", track=True)
    async def hang() -> None:
        await app.lifecycle.with_options(seconds=0.01).step("forever", asyncio.Event().wait)

    with pytest.raises(TimeoutError):
        await hang()
    (task,) = await tasks_of(app)
    assert task.steps[0].state == "waiting_for_retry"


async def test_what_cannot_be_kept_is_run_again_and_said(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """A class that the hints do not name; a masked value; both are no results for a retry."""
    app, effects, fails = house.app(redact_keys=["password"]), Counter[str](), [True]

    def connect():  # type: ignore[no-untyped-def]
        effects["connect"] += 1
        return Order(1, Decimal(1), date(2026, 1, 1))

    def login() -> dict[str, str]:
        effects["login"] += 1
        return {"password": "secret"}

    @app.workflow(name="talk", track=True)
    async def talk() -> None:
        order = await app.lifecycle.step("connect", connect)
        assert isinstance(order, Order)
        assert (await app.lifecycle.step("login", login))["password"] == "secret"
        if fails:
            raise ConnectionError("refused")

    with pytest.raises(ConnectionError):
        await talk()
    assert "what step 'connect' returned cannot be kept" in caplog.text
    assert "masked by redact_keys" in caplog.text
    assert "secret" not in TASKS.document((await tasks_of(app))[0])
    fails.clear()
    house.clock.advance(3600)
    await app.dlq.run_due()
    assert effects == {"connect": 2, "login": 2}
    assert await app.dlq.list_tasks() == []


async def test_a_store_that_is_away_keeps_no_workflow_from_running(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is tracked then; what follows is tracked again."""
    shop = Shop(house, Counter())
    await shop.app.dlq.open()
    with house.faults.unavailable("write", "get", kind=TASKS):
        assert await shop.ship(ORDER) == "done"
    assert "is not tracked for now" in caplog.text
    assert await tasks_of(shop.app) == []
    with house.faults.unavailable("write", kind=TASKS, times=3):
        await shop.ship(ORDER)
    assert [task.state for task in await tasks_of(shop.app)] == [TaskState.COMPLETE]


async def test_a_retry_waits_for_the_store_rather_than_run_what_was_done(house: House) -> None:
    """Without its task nobody knows what was done."""
    effects: Counter[str] = Counter()
    shop = Shop(house, effects, "pack")
    with pytest.raises(ConnectionError):
        await shop.ship(ORDER)
    house.clock.advance(3600)
    with house.faults.unavailable("get", kind=TASKS):
        await retry(shop)
    assert effects == {"charge": 1, "book": 1}
    house.clock.advance(3600)
    await retry(shop)
    assert effects == dict.fromkeys(STEPS, 1)


async def test_a_caller_who_gives_up_cancels_the_task(house: House) -> None:
    """No letter, as without tracking."""
    app, begun = house.app(), asyncio.Event()

    @app.workflow(name="slow", track=True)
    async def slow() -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(slow())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [task.state for task in await tasks_of(app)] == [TaskState.CANCELLED]
    assert await app.dlq.list_tasks() == []


async def test_what_a_step_returned_is_kept_though_its_run_is_given_back(house: House) -> None:
    """It was paid for: the write goes on, and no retry does it again."""
    app = house.app()
    ended, go_on, written = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stop(call: Call) -> None:
        if any(step.state == "complete" for step in call.given[0].steps):
            ended.set()
            await go_on.wait()

    async def note(call: Call) -> None:
        if go_on.is_set():
            written.set()

    house.faults.before("write", stop, kind=TASKS)
    house.faults.after("write", note, kind=TASKS)
    run = await app.lifecycle.tracking.begin(LetterRequest("wf_1", {}))
    assert run is not None
    with run.inside():
        step = asyncio.create_task(app.lifecycle.step("charge", int, "7"))
    await ended.wait()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    go_on.set()
    async with asyncio.timeout(10):
        await written.wait()

    (task,) = await tasks_of(app)
    assert [(each.name, each.state) for each in task.steps] == [("charge", "complete")]


async def test_steps_at_the_same_time_are_all_there(any_house: House) -> None:
    """None of them undoes another."""
    app = any_house.app()

    async def square(number: int) -> int:
        return number * number

    @app.workflow(name="many", track=True)
    async def many() -> list[int]:
        return await asyncio.gather(*(app.lifecycle.step(f"square {n}", square, n) for n in range(50)))

    assert await many() == [n * n for n in range(50)]
    (task,) = await tasks_of(app)
    assert {step.state for step in task.steps} == {"complete"}
    assert len(task.steps) == 50


async def test_a_run_that_was_taken_over_reports_nothing_any_more(house: House) -> None:
    """Its next step is refused, its failure is no new one, and the letter stays with the other run."""
    effects: Counter[str] = Counter()
    here, there = Shop(house, effects), Shop(house, effects)
    hold = None

    async def stop_at_booked(call: Call) -> None:
        nonlocal hold
        if any(step.name == "book" and step.state == "complete" for step in call.given[0].steps) and hold is None:
            hold = asyncio.Event()
            reached.set()
            await hold.wait()

    reached = asyncio.Event()
    here.app.dlq.store.faults.before("write", stop_at_booked, kind=TASKS)  # type: ignore[attr-defined]
    running = asyncio.create_task(here.ship(ORDER))
    await reached.wait()
    (task,) = await tasks_of(there.app)
    moved = await there.app.lifecycle.move_to_dlq(task.task_id, "it hangs", by="ann")
    await there.app.dlq.requeue_from_dlq(moved.letter.task_id)
    await retry(there)
    assert hold is not None
    hold.set()

    with pytest.raises(LostLease):
        await running
    assert await there.app.dlq.list_tasks() == []
    assert here.app.lifecycle.late_reports == 1
    assert effects == {**dict.fromkeys(STEPS, 1), "book": 2}
    assert [task.state for task in await tasks_of(there.app)] == [TaskState.COMPLETE]


async def test_odd_ids_and_odd_metadata_keep_no_workflow_from_its_letter(house: House) -> None:
    """What nobody can name gets another name, the same for the task and its letter."""
    app = house.app()

    async def fail(task: Any, repos: list[str]) -> None:
        raise ConnectionError("refused")

    app.register_adapter("fail", fail)
    for task_id, metadata in (("x" * 10_000, None), ("y", ["no", "mapping"])):
        result = await app.execute_workflow({}, "fail", [], task_id=task_id, metadata=metadata, track=True)  # type: ignore[arg-type]
        assert (result["status"], result["dlq_enqueued"]) == ("failed", True)
    letters, tasks = await app.dlq.list_tasks(), await tasks_of(app)
    assert {letter.task_id for letter in letters} == {task.work_id for task in tasks}
    assert {task.state for task in tasks} == {TaskState.ERROR}


async def test_a_callback_that_calls_the_tracked_function_goes_on_too(house: House) -> None:
    """As the app's own callback does."""
    effects: Counter[str] = Counter()
    shop = Shop(house, effects, "pack")
    with pytest.raises(ConnectionError):
        await shop.ship(ORDER)

    async def callback(task: Any, repos: list[str]) -> None:
        await shop.ship(**task)

    house.clock.advance(3600)
    shop.app.dlq.processing.callback = callback
    shop.app.dlq.context.restore_task = lambda letter: {"order": ORDER}
    await shop.app.dlq.run_due()
    assert effects == dict.fromkeys(STEPS, 1)
    assert [task.state for task in await tasks_of(shop.app)] == [TaskState.COMPLETE]
    assert await shop.app.dlq.list_tasks() == []


@pytest.mark.parametrize("ends", ["reports", "dies"])
async def test_what_fails_while_its_retry_runs_is_run_after_it(any_house: House, ends: str) -> None:
    """Also where the retry's process dies after its work and before its letter: one task is complete, not the other."""
    effects: Counter[str] = Counter()
    here, there, again = (Shop(any_house, effects, name, key="note") for name in ("pack", "", "book"))
    with pytest.raises(ConnectionError):
        await here.ship(ORDER, "A1")
    any_house.clock.advance(3600)
    hold = there.app.dlq.store.faults.hold("write", kind=LETTERS, after=True)  # type: ignore[attr-defined]
    running = asyncio.create_task(retry(there))
    await hold.wait_for_call()  # the claim
    with pytest.raises(ConnectionError):
        await again.ship(ORDER, "A1")
    (letter,) = await again.app.dlq.list_tasks()
    assert letter.occurrences == 2
    outcome = there.app.dlq.store.faults.hold("write", kind=LETTERS)  # type: ignore[attr-defined]
    hold.release()
    await outcome.wait_for_call()
    assert effects == {"charge": 2, "book": 1, "pack": 1, "send": 1, "mail": 1}
    if ends == "dies":
        any_house.kill(there.app.dlq)
    else:
        outcome.release()
        await running
    assert len(await again.app.dlq.list_tasks()) == 1

    for _ in range(3):
        any_house.clock.advance(7200)
        await retry(again)

    assert effects == dict.fromkeys(STEPS, 2)  # the other run goes on where it failed
    assert await again.app.dlq.list_tasks() == []
    assert {task.state for task in await tasks_of(again.app)} == {TaskState.COMPLETE}
    outcome.release()
    running.cancel()


async def test_a_failure_before_the_retry_is_done_by_it(any_house: House) -> None:
    """Two failures of one work before its retry are one retry, as without tracking."""
    effects: Counter[str] = Counter()
    here, again = (Shop(any_house, effects, name, key="note") for name in ("pack", "book"))
    for shop in (here, again):
        with pytest.raises(ConnectionError):
            await shop.ship(ORDER, "A1")
    any_house.clock.advance(3600)
    await retry(here)

    assert effects == {"charge": 2, "book": 1, "pack": 1, "send": 1, "mail": 1}
    assert await again.app.dlq.list_tasks() == []


async def test_steps_of_one_repo_are_not_taken_for_those_of_another(house: House) -> None:
    """Two failures for different repos are one letter, and what was done for the first is not done for the second."""
    app, built, fails = house.app(), list[str](), ["api", "web"]

    def build(repos: list[str]) -> None:
        built.extend(repos)

    async def sweep(task: Any, repos: list[str]) -> None:
        await app.lifecycle.step("build", build, repos)
        if fails:
            raise ConnectionError("refused")

    app.register_adapter("sweep", sweep)
    for repo in fails.copy():
        await app.execute_workflow({"id": "wf_1"}, "sweep", [repo], track=True)
    fails.clear()
    (letter,) = await app.dlq.list_tasks()
    assert letter.repos == ("api", "web")
    built.clear()
    house.clock.advance(3600)
    await app.dlq.run_due()

    assert built == ["api", "web"]
    assert await app.dlq.list_tasks() == []


async def test_a_letter_that_was_done_and_is_restored_is_run_again(house: House) -> None:
    """Its task is complete, and yet somebody asked for it."""
    effects: Counter[str] = Counter()
    shop = Shop(house, effects, "pack")
    with pytest.raises(ConnectionError):
        await shop.ship(ORDER)
    (letter,) = await shop.app.dlq.list_tasks()
    house.clock.advance(3600)
    await retry(shop)
    await shop.app.dlq.archive_task(letter.task_id)
    await shop.app.dlq.resurrect(letter.task_id)
    await retry(shop)

    assert effects == dict.fromkeys(STEPS, 2)
    assert await shop.app.dlq.list_tasks() == []


@pytest.mark.parametrize(
    ("more", "ran"), [({}, {"one 5": 1, "two 5": 1}), ({"metadata": {}}, {"one 5": 1, "one 7": 1, "two 7": 1})]
)
async def test_an_edit_reaches_what_has_not_ended(house: House, more: dict[str, Any], ran: dict[str, int]) -> None:
    """Or all of it, where it takes the record of what has ended away."""
    app, effects, fails = house.app(), Counter[str](), [True]

    def one(amount: int) -> int:
        effects[f"one {amount}"] += 1
        return amount

    def two(amount: int) -> None:
        if fails:
            raise ConnectionError("refused")
        effects[f"two {amount}"] += 1

    @app.workflow(name="pay", key="order", track=True)
    async def pay(order: str, amount: int) -> None:
        await app.lifecycle.step("two", two, await app.lifecycle.step("one", one, amount))

    with pytest.raises(ConnectionError):
        await pay("A", 5)
    await app.dlq.letters.edit("pay:A", task={"order": "A", "amount": 7}, **more)
    fails.clear()
    house.clock.advance(3600)
    await app.dlq.run_due()
    assert effects == ran


@pytest.mark.parametrize("hidden", ["encrypted", "masked"])
async def test_errors_of_tasks_quote_nothing_that_letters_hide(any_house: House, hidden: str) -> None:
    """Neither the task nor its step, the letter's copy of both, nor events; also of a retry, and of work elsewhere."""
    secret = "4111-canary-7f3a"
    told = list[Any]()
    encrypted = {"encryption": {"fields": ["card"], "keys": {"k1": new_key()}}}
    app = any_house.app(**(encrypted if hidden == "encrypted" else {"redact_keys": ["card"]}))
    app.dlq.domain_events.subscribe(told.append)

    @app.workflow("pay", key="order", track=True)
    async def pay(order: str, card: Card) -> None:
        await app.lifecycle.step("charge", charge, card)

    async def charge(card: Card) -> None:
        raise ConnectionError(f"{card.number} was declined")

    with pytest.raises(ConnectionError, match=secret):
        await pay("A-1", Card(secret, date(2027, 1, 31)))
    assert app.dlq_integration is not None
    await app.dlq_integration.finish()
    await app.dlq.retry_task("pay:A-1")
    theirs = await app.lifecycle.create("theirs", {"card": secret}, steps=[StepRecord("ship", max_attempts=1)])
    await app.lifecycle.begin_step(theirs.task_id, "ship")
    await app.lifecycle.fail_step(theirs.task_id, "ship", ValueError(f"no {secret} here"))

    tasks = (await app.lifecycle.list("all")).items
    assert {step.last_error for task in tasks for step in task.steps} == {"*** was declined", "no *** here"}
    assert all("***" in str(task.last_error) for task in tasks)
    for letter in await app.dlq.list_tasks():
        assert secret not in LETTERS.document(letter) and "***" in repr(letter.labels.value["lifecycle"])
    await app.dlq.context.events.flush()
    told_of = repr([(event.name, event.payload.value) for event in told])
    assert "*** was declined" in told_of and secret not in told_of

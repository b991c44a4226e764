"""Tasks of `(task, repos)` come back with their types, or wait for a person who is told why."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest

from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import DeadLetterStatus, RetryPolicy
from mahavishnu.values.kinds import same_value
from mahavishnu.values.payload import NOT_JSON
from tests.support.queues import NETWORK, House, Runs, letter_of, queue_of


class Size(Enum):
    LARGE = "L"


@dataclass
class Order:
    amount: Decimal
    size: Size
    due: date | None = None


ORDER = Order(Decimal("12.50"), Size.LARGE)
PLAIN = {"amount": "12.50", "size": "L", "due": None}
TASK = {"amount": Decimal("1.50"), "on": date(2026, 1, 1), "pair": (1, {2}), "by": {7: b"x"}}


class Sweep:
    """Fails at first; its hints name `Order`."""

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def run(self, task: Order, repos: list[str]) -> None:
        self.tasks.append(task)
        if len(self.tasks) == 1:
            raise NETWORK


async def test_a_class_that_the_hints_name_comes_back(house: House) -> None:
    app, sweep = house.app(), Sweep()
    app.register_adapter("sweep", sweep.run)
    result = await app.execute_workflow(ORDER, "sweep", ["api"], task_id="wf_1")
    assert result["dlq_enqueued"]
    letter = await letter_of(queue_of(app), "wf_1")
    assert letter.task == PLAIN
    assert (await queue_of(app).retry_task("wf_1"))["success"]
    assert same_value(sweep.tasks, [ORDER, ORDER])


async def test_classes_inside_of_a_function_come_back(house: House) -> None:
    @dataclass
    class Local:
        due: date

    app, seen = house.app(), list[Any]()

    @app.workflow
    async def charge(local: Local, task: Any = None) -> None:
        seen.append(local)
        if len(seen) == 1:
            raise NETWORK

    @app.workflow
    async def sweep(task: Local, repos: list[str]) -> None:
        await charge.__wrapped__(task)  # type: ignore[attr-defined]
        raise NETWORK

    local = Local(date(2026, 1, 1))
    with suppress(ConnectionError):
        await charge(local)
    with suppress(ConnectionError):
        await sweep(local, [])
    for letter in await queue_of(app).list_tasks():
        assert not letter.metadata
        await queue_of(app).retry_task(letter.task_id)
    assert seen == [local] * 4


async def test_json_of_another_application_becomes_what_the_hints_say(house: House) -> None:
    app, sweep = house.app(), Sweep()
    sweep.tasks.append(None)
    app.register_adapter("sweep", sweep.run)
    await queue_of(app).enqueue("wf_1", {**PLAIN, "due": "2026-01-01"}, ["api"], "boom", adapter="sweep")
    assert (await queue_of(app).retry_task("wf_1"))["success"]
    assert same_value(sweep.tasks[1], Order(Decimal("12.50"), Size.LARGE, date(2026, 1, 1)))


async def test_a_class_that_no_hint_names_waits_for_a_person(house: House) -> None:
    app = house.app()
    calls: list[Any] = []

    def sweep(task, repos):  # type: ignore[no-untyped-def]
        calls.append(task)
        raise NETWORK

    app.register_adapter("sweep", sweep)
    await app.execute_workflow({"order": ORDER, **TASK}, "sweep", ["api"], task_id="wf_1")
    letter = await letter_of(queue_of(app), "wf_1")
    assert letter.retry_policy == RetryPolicy.NEVER
    why = "order cannot come back: its size is of the class tests.values.test_payload_tasks.Size, which the hints of"
    assert letter.metadata[NOT_JSON].startswith(why)
    assert letter.task["order"] == PLAIN
    assert letter.payload_types.value["/amount"] == "decimal"
    refused = await queue_of(app).retry_task("wf_1")
    assert "which cannot come back: give a value by an edit" in refused["error"]
    assert len(calls) == 1  # it was not run with something else


async def test_a_callback_is_given_the_types_that_its_own_hints_name(house: House) -> None:
    runs, tasks = Runs(), []

    async def callback(task: dict[str, Order | Decimal], repos: list[str]) -> None:
        tasks.append(task)

    queue = house.queue(runs)
    await queue.enqueue("wf_1", TASK, ["api"], "boom")
    letter = await queue.enqueue("wf_2", {"order": ORDER}, ["api"], "boom")
    assert letter.task == {"order": PLAIN}
    assert (await queue.retry_task("wf_1"))["success"]
    assert same_value(runs.tasks, [TASK])
    assert "which the hints of the function do not name" in (await queue.retry_task("wf_2"))["error"]
    other = house.queue(callback)
    assert (await other.retry_task("wf_2"))["success"]
    assert same_value(tasks, [{"order": ORDER}])


async def test_a_task_that_cannot_be_read_here_is_left_to_other_workers_with_the_reason(house: House) -> None:
    queue = house.queue(Runs())
    await queue.enqueue("wf_1", {"order": ORDER}, ["api"], "boom", retry_policy="immediate")
    await queue.run_due()
    letter = await letter_of(queue, "wf_1")
    assert (letter.status, letter.total_attempts, letter.last_error) == (DeadLetterStatus.PENDING, 0, "boom")
    assert letter.unfit is not None
    assert "which the hints of the function do not name" in letter.unfit


async def test_a_task_that_nobody_can_read_waits_for_an_edit(house: House) -> None:
    queue = house.queue(runs := Runs())
    await queue.enqueue("wf_1", {"hits": defaultdict(int, a=1)}, ["api"], "boom")
    await queue.letters.redrive("wf_1")
    await queue.run_due()
    letter = await letter_of(queue, "wf_1")
    assert (letter.status, letter.total_attempts, letter.due_at) == (DeadLetterStatus.PENDING, 0, None)
    said = "waiting for an edit, nothing was run: hits was of type defaultdict, which cannot come back"
    assert said in (await queue.workers.why_waiting(letter) or "")
    await queue.letters.edit("wf_1", task={"hits": {"a": 2}}, redrive=True)
    await queue.run_due()
    assert (await letter_of(queue, "wf_1")).status is DeadLetterStatus.COMPLETED
    assert runs.tasks == [{"hits": {"a": 2}}]


async def test_what_was_text_before_and_cannot_come_back_is_kept_and_waits(house: House) -> None:
    queue = house.queue()
    letter = await queue.enqueue("wf_1", {"hits": defaultdict(int, a=1), **TASK}, ["api"], "boom")
    assert letter.retry_policy == RetryPolicy.NEVER
    assert letter.metadata[NOT_JSON] == "hits is of type defaultdict, which cannot come back equal"
    assert letter.task["hits"] == {"a": 1}
    assert letter.payload_types.value["/hits"] == "lost:defaultdict"
    assert letter.payload_types.value["/amount"] == "decimal"
    with pytest.raises(InvalidInput):
        await queue.enqueue("wf_2", {"job": print}, ["api"], "boom")


async def test_what_is_lost_leaves_the_others_their_types(house: House) -> None:
    app = house.app()
    app.register_adapter("sweep", Sweep().run)
    await app.execute_workflow({"job": print, **TASK}, "sweep", ["api"], task_id="wf_1")
    letter = await letter_of(queue_of(app), "wf_1")
    assert letter.retry_policy == RetryPolicy.NEVER
    assert "job" in letter.metadata[NOT_JSON]
    assert letter.task["amount"] == "1.50"


async def test_a_mask_is_never_taken_for_a_value_of_another_type(house: House) -> None:
    queue = house.queue(Runs(), letter_factory=LetterFactory(redact_keys=("*secret*",)))
    letter = await queue.enqueue("wf_1", {"secret": Decimal(1), "to": {"secret_name": "x"}, "n": (1,)}, [], "boom")
    assert letter.task == {"secret": "***", "to": {"secret_name": "***"}, "n": [1]}
    assert letter.payload_types.value == {"/secret": "lost:masked", "/n": "tuple"}
    assert "secret is masked: give the value by an edit" in (await queue.retry_task("wf_1"))["error"]
    await queue.letters.edit("wf_1", patch={"secret": Decimal(2)})
    assert (await queue.retry_task("wf_1"))["success"]


async def test_an_edit_that_the_function_could_not_take_is_refused(house: House) -> None:
    app, sweep = house.app(), Sweep()
    app.register_adapter("sweep", sweep.run)
    await app.execute_workflow(ORDER, "sweep", ["api"], task_id="wf_1")
    with pytest.raises(InvalidInput, match="due is 'soon', which its hint does not allow"):
        await queue_of(app).letters.edit("wf_1", patch={"due": "soon"})
    with pytest.raises(InvalidInput, match="'XL' is not a valid Size"):
        await queue_of(app).letters.edit("wf_1", patch={"size": "XL"})
    await queue_of(app).letters.edit("wf_1", patch={"due": "2026-01-01", "amount": "13"})
    assert (await queue_of(app).retry_task("wf_1"))["success"]
    assert sweep.tasks[1] == Order(Decimal(13), Size.LARGE, date(2026, 1, 1))

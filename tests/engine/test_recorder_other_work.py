"""Failures of one task id with different payloads: none of them is dropped, and the same work is one letter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import QueueFull
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import letter_query
from tests.support.queues import NETWORK, Gate, House, Runs, letter_of, sound

ONE, TWO, THREE = ({"n": n} for n in (1, 2, 3))


def other(payload: Any, task_id: str = "wf_1") -> str:
    return f"{task_id}@{Json.of(payload).digest}"


async def fails(dlq: DeadLetterQueue, payload: Any, task_id: str = "wf_1", /, **options: Any) -> DeadLetter:
    return await dlq.enqueue(task_id, payload, [], "connection refused", "immediate", **options)


async def all_letters(queue: DeadLetterQueue) -> dict[str, Any]:
    return {letter.task_id: (letter.task, letter.occurrences) for letter in await queue.list_tasks()}


async def test_another_payload_of_an_open_letter_is_a_letter_of_its_own(any_house: House) -> None:
    queue = any_house.queue(runs := Runs())
    for payload in (ONE, TWO, ONE, TWO, TWO, THREE):
        await fails(queue, payload)

    assert await all_letters(queue) == {"wf_1": (ONE, 2), other(TWO): (TWO, 3), other(THREE): (THREE, 1)}
    assert {letter.task_id for letter in await queue.list_tasks(source_id="wf_1")} == {other(TWO), other(THREE)}
    await queue.run_due()
    assert sorted(task["n"] for task in runs.tasks) == [1, 2, 3]
    await sound(queue)


async def test_failures_of_one_moment_are_all_kept(any_house: House) -> None:
    """As one write, and as one capture each."""
    app = any_house.app()
    app.register_adapter("w", Runs(*[NETWORK] * 60))
    payloads = [{"id": "wf_1", "n": n % 3} for n in range(60)]
    results = await asyncio.gather(*(app.execute_workflow(payload, "w") for payload in payloads))
    letters = {letter.task_id: letter for letter in await app.dlq.list_tasks()}

    assert sorted((letter.task["n"], letter.occurrences) for letter in letters.values()) == [(0, 20), (1, 20), (2, 20)]
    assert [letters[result["dlq_task_id"]].task for result in results] == payloads
    assert {result["workflow_id"] for result in results} == {"wf_1"}


async def test_runs_without_an_id_are_letters_of_their_own(any_house: House) -> None:
    app = any_house.app()
    app.register_adapter("w", Runs(*[NETWORK] * 10))
    assert app.dlq_integration is not None
    for _ in range(2):
        await app.execute_workflow({"n": 1}, "w")
        await app.execute_workflow({"n": 1, "id": None}, "w")
        await app.execute_workflow({"n": 1, "id": ""}, "w")
        await app.execute_workflow("nightly", "w")
        await app.execute_workflow_parallel(["nightly"], "w")
    assert len(await app.dlq.list_tasks()) == 10


async def test_the_work_of_an_edited_letter_is_what_it_was_and_what_it_became(any_house: House) -> None:
    queue = any_house.queue()
    await fails(queue, ONE)
    await queue.letters.edit("wf_1", task=TWO)
    await queue.letters.edit("wf_1", patch={"n": 3})
    for payload in (ONE, THREE, TWO):
        await fails(queue, payload)

    assert await all_letters(queue) == {"wf_1": (THREE, 3), other(TWO): (TWO, 1)}


async def test_when_the_first_letter_is_closed_open_other_work_stays_where_it_is(any_house: House) -> None:
    queue = any_house.queue()
    for payload in (ONE, TWO):
        await fails(queue, payload)
    await queue.letters.resolve("wf_1")
    for payload in (TWO, THREE):
        await fails(queue, payload)
    await queue.letters.resolve(other(TWO))
    again = await fails(queue, TWO)

    assert await all_letters(queue) == {"wf_1": (THREE, 1), other(TWO): (TWO, 1)}
    assert ((await letter_of(queue, "wf_1")).generation, again.generation, again.task_id) == (2, 2, other(TWO))
    await sound(queue)


async def test_a_full_queue_takes_in_more_of_the_same_and_keeps_other_work_waiting(any_house: House) -> None:
    queue = any_house.queue(max_size=2)
    await fails(queue, ONE)
    await fails(queue, TWO)
    assert (await fails(queue, TWO)).occurrences == 2
    with pytest.raises(QueueFull):
        await fails(queue, THREE)


async def test_a_task_id_that_reads_like_other_work_is_a_task_id(any_house: House) -> None:
    """Whoever it is that has it; and a run of that letter by its id fails as that letter."""
    queue = any_house.queue()
    await fails(queue, THREE, other(TWO))
    await fails(queue, ONE)
    kept = [await fails(queue, TWO) for _ in range(2)]
    again = await fails(queue, THREE, other(TWO))

    assert again.occurrences == 2
    assert {letter.task["n"] for letter in await queue.list_tasks()} == {1, 2, 3}
    assert all(letter.task == TWO and letter.source.id == "wf_1" for letter in kept)


async def test_other_work_has_its_namespace_and_queue_and_any_length_of_id(any_house: House) -> None:
    queue = any_house.queue()
    for task_id in ("x" * 500, "x" * 8100, "a/b/c", "é"):
        for payload in (ONE, TWO, TWO):
            letter = await fails(queue, payload, task_id, namespace="eu", queue="mail")
        assert (letter.occurrences, letter.source.id, letter.namespace) == (2, task_id, "eu")
        assert await letter_of(queue, letter.task_id, namespace="eu", queue="mail") == letter


async def test_a_failure_of_other_work_during_a_run_is_not_closed_by_its_success(any_house: House) -> None:
    queue = any_house.queue(gate := Gate())
    await fails(queue, ONE)
    run = asyncio.create_task(queue.retry_task("wf_1"))
    await gate.reached()
    await fails(queue, TWO)
    gate.open()
    assert (await run)["status"] == "completed"
    assert await all_letters(queue) == {other(TWO): (TWO, 1)}


async def test_who_depends_on_a_task_waits_for_its_other_work_too(any_house: House) -> None:
    queue = any_house.queue(runs := Runs(None, NETWORK))
    await fails(queue, ONE, "a")
    await fails(queue, TWO, "a", priority=-5)
    await fails(queue, "b", "b", depends_on=["a"], priority=9)
    await queue.run_due()
    assert runs.tasks == [ONE, TWO]
    assert await queue.letters.blocked_by("b") == ["a"]
    await queue.letters.resolve(other(TWO, "a"))
    any_house.clock.advance(60)
    await queue.run_due()
    assert runs.tasks[-1] == "b"


async def test_what_waits_for_room_is_let_in_as_other_work(any_house: House) -> None:
    app = any_house.app()
    app.register_adapter("w", Runs(*[NETWORK] * 3))
    app.dlq.context.capacity.max_size = 1
    for n in (1, 2, 2):
        await app.execute_workflow({"id": "wf_1", "n": n}, "w")
    app.dlq.context.capacity.max_size = 5
    await app.dlq.intake.admit_waiting()

    page = await app.dlq.letters.find(letter_query())
    assert sorted((letter.task["n"], letter.occurrences) for letter in page.items) == [(1, 1), (2, 2)]

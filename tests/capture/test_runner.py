"""Runs over repos: what a run that was stopped answers is not taken for its outcome, however many repos there are."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.testing import turn
from tests.support.queues import NETWORK, House, letter_of, queue_of, until

place: ContextVar[str] = ContextVar("place", default="outside")


@pytest.mark.parametrize("repos", [["api"], ["api", "web"]], ids=len)
async def test_a_retry_that_swallows_its_cancellation_is_given_back(house: House, repos: list[str]) -> None:
    app = house.app(dlq_stop_grace_seconds=0)
    first, begun = [*repos], list[str]()

    async def workflow(task: Any, repos: list[str]) -> Any:
        if repos[0] in first:
            first.remove(repos[0])
            raise NETWORK
        begun.append(repos[0])
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"cleaned": "up"}

    app.register_adapter("sweep", workflow)
    await app.execute_workflow_parallel({"id": "wf_1"}, "sweep", repos)
    await queue_of(app).letters.redrive("wf_1")
    await app.start_dlq_processor()
    await until(lambda: len(begun) == len(repos))
    await app.stop_dlq_processor()
    letter = await letter_of(queue_of(app), "wf_1")
    assert (letter.status, letter.total_attempts) == (DeadLetterStatus.PENDING, 0)


@pytest.mark.parametrize("repos", [["api"], ["api", "web"]], ids=len)
async def test_a_run_of_one_repo_does_not_change_the_context_of_its_caller(house: House, repos: list[str]) -> None:
    async def workflow(task: Any, repos: list[str]) -> None:
        place.set("inside")

    app = house.app()
    app.register_adapter("sweep", workflow)
    assert (await app.execute_workflow_parallel({}, "sweep", repos))["status"] == "completed"
    assert place.get() == "outside"


async def test_a_workflow_that_cancels_itself_is_captured_though_its_caller_ignored_a_cancellation(
    house: House,
) -> None:
    async def workflow(task: Any, repos: list[str]) -> None:
        raise asyncio.CancelledError("by itself")

    async def caller() -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await app.execute_workflow_parallel({"id": "wf_1"}, "sweep", ["api"])

    app = house.app()
    app.register_adapter("sweep", workflow)
    calling = asyncio.create_task(caller())
    await turn()
    calling.cancel()
    assert (await calling)["dlq_task_id"] == "wf_1"


async def test_a_retry_answers_with_the_keys_of_a_captured_failure(house: House) -> None:
    app = house.app()
    answers = list[Any]()

    async def callback(task: Any, repos: list[str]) -> Any:
        answers.append(await app.run_again(task, repos))
        return answers[-1]

    async def workflow(task: Any, repos: list[str]) -> None:
        raise NETWORK

    app.register_adapter("sweep", workflow)
    queue_of(app).processing.callback = callback
    await app.execute_workflow({"id": "wf_1"}, "sweep", ["api"])
    await queue_of(app).retry_task("wf_1")
    (answer,) = answers
    found = {name: answer[name] for name in ("workflow_id", "dlq_enqueued", "error_category")}
    assert found == {"workflow_id": "wf_1", "dlq_enqueued": False, "error_category": None}


@pytest.mark.parametrize("callback", [True, False], ids=["a callback", "an adapter"])
async def test_a_run_without_repos_that_swallows_its_cancellation_is_given_back(house: House, callback: bool) -> None:
    app = house.app(dlq_stop_grace_seconds=0)
    begun = list[Any]()

    async def workflow(task: Any, repos: list[str]) -> Any:
        begun.append(task)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"cleaned": "up"}

    app.register_adapter("sweep", workflow)
    await queue_of(app).enqueue("wf_1", {"adapter": "sweep"}, [], "boom", "immediate")
    await app.start_dlq_processor(workflow if callback else None)
    await until(lambda: bool(begun))
    await app.stop_dlq_processor()
    letter = await letter_of(queue_of(app), "wf_1")
    assert (letter.status, letter.total_attempts) == (DeadLetterStatus.PENDING, 0)


async def test_a_run_that_fails_because_it_was_stopped_is_given_back(house: House) -> None:
    app = house.app(dlq_stop_grace_seconds=0)
    begun = list[Any]()

    async def callback(task: Any, repos: list[str]) -> Any:
        begun.append(task)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as stopped:
            raise ConnectionError("the connection was closed") from stopped

    await queue_of(app).enqueue("wf_1", {}, [], "boom", "immediate")
    await app.start_dlq_processor(callback)
    await until(lambda: bool(begun))
    await app.stop_dlq_processor()
    letter = await letter_of(queue_of(app), "wf_1")
    assert (letter.status, letter.total_attempts, len(letter.failures)) == (DeadLetterStatus.PENDING, 0, 1)


async def test_a_retry_that_cancels_itself_has_failed(house: House) -> None:
    queue = house.queue()

    async def callback(task: Any, repos: list[str]) -> None:
        running = asyncio.current_task()
        assert running is not None
        running.cancel()
        await asyncio.Event().wait()

    queue.processing.callback = callback
    await queue.enqueue("wf_1", {}, [], "boom", "immediate")
    assert await queue.run_due() == 1
    letter = await letter_of(queue, "wf_1")
    assert (letter.total_attempts, letter.failures[-1].type) == (1, "asyncio.exceptions.CancelledError")


async def test_a_run_that_answers_after_its_time_has_failed(house: House) -> None:
    queue = house.queue(run_seconds=5)

    async def callback(task: Any, repos: list[str]) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "tidied up"
        return "done"

    queue.processing.callback = callback
    await queue.enqueue("wf_1", {}, [], "boom", "immediate")
    running = asyncio.create_task(queue.run_due())
    while not running.done():
        await turn()
        house.clock.advance(0.1)
    assert await running == 1
    assert (await letter_of(queue, "wf_1")).failures[-1].type == "TimeoutError"


class Panic(BaseException):
    """As `pyo3_runtime.PanicException`: no Exception."""


async def panics(task: Any, repos: list[str]) -> None:
    raise Panic("called `Option::unwrap()` on a `None` value")


async def panics_in_a_group(task: Any, repos: list[str]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(panics(task, repos))


async def panics_with_another(task: Any, repos: list[str]) -> None:
    if repos == ["api"]:
        await panics(task, repos)
    raise NETWORK


async def cancels_itself(task: Any, repos: list[str]) -> None:
    raise asyncio.CancelledError("by itself")


@pytest.mark.parametrize("workflow", [panics, panics_in_a_group, panics_with_another, cancels_itself])
@pytest.mark.parametrize("parallel", [True, False])
async def test_a_failure_that_is_no_exception_is_captured(house: House, workflow: Any, parallel: bool) -> None:
    app = house.app()
    app.register_adapter("sweep", workflow)
    execute = app.execute_workflow_parallel if parallel else app.execute_workflow
    assert (await execute({"id": "wf_1"}, "sweep", ["api", "web"]))["dlq_task_id"] == "wf_1"


@pytest.mark.parametrize("workflow", [panics, panics_in_a_group, cancels_itself])
async def test_a_decorated_function_raises_what_is_no_exception(house: House, workflow: Any) -> None:
    app = house.app()
    decorated = app.workflow("sweep")(workflow)
    with pytest.raises((Panic, BaseExceptionGroup, asyncio.CancelledError)):
        await decorated({"id": "wf_1"}, ["api"])
    assert (await letter_of(queue_of(app), "wf_1")).is_open


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_what_ends_the_process_is_no_failure_also_in_a_group(house: House, error: type[BaseException]) -> None:
    async def workflow(task: Any, repos: list[str]) -> None:
        raise BaseExceptionGroup("together", [NETWORK, error()])

    app = house.app()
    app.register_adapter("sweep", workflow)
    with pytest.raises(BaseExceptionGroup, match="together"):
        await app.execute_workflow({"id": "wf_1"}, "sweep")
    with pytest.raises(BaseExceptionGroup, match="together"):
        await app.workflow("sweep")(workflow)({"id": "wf_1"}, [])
    assert await queue_of(app).list_tasks() == []

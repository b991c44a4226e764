"""Runs over repos: what a run that was stopped answers is not taken for its outcome, however many repos there are."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.testing import turn
from tests.unit.queues import NETWORK, House, letter_of, queue_of, until

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

"""Lifecycle tasks as their users meet them: processes that die, and many that do the same at once, on real stores."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.model.errors import ChangedMeanwhile
from mahavishnu.tasks.task import StepRecord, TaskState
from tests.proofs.shop_node import STEPS, app_on
from tests.support.node import ROOT


def run_node(url: str, log: Path, act: str) -> int:
    """Run one process of the shop to its end; its exit code."""
    command = [sys.executable, "-m", "tests.proofs.shop_node", url, str(log), act]
    return subprocess.run(command, cwd=ROOT, timeout=120, check=False, stderr=subprocess.DEVNULL).returncode


async def apps_on(url: str, count: int, stack: AsyncExitStack) -> list[MahavishnuApp]:
    """As so many processes have them."""
    return [await stack.enter_async_context(app_on(url)) for _ in range(count)]


@pytest.mark.parametrize("act", ["raise", "kill"])
async def test_five_steps_that_die_in_the_third_are_retried_elsewhere(store_url: str, tmp_path: Path, act: str) -> None:
    """The first two are not run again, each effect happens once, and what steps returned is equal in type."""
    log = tmp_path / "effects"
    died = await asyncio.to_thread(run_node, store_url, log, act)
    assert died == (1 if act == "raise" else -signal.SIGKILL)
    assert log.read_text().split() == ["charge", "book"]
    async with app_on(store_url) as app:
        (task,) = (await app.lifecycle.list("all")).items
        assert [(step.name, str(step.state)) for step in task.steps] == [
            ("charge", "complete"), ("book", "complete"),
            ("pack", "waiting_for_retry" if act == "raise" else "in_progress"),
        ]  # fmt: skip
        if act == "kill":  # nobody else knows of a failure: somebody looks, and decides
            assert task.state is TaskState.STEPS_IN_PROCESS
            moved = await app.lifecycle.move_to_dlq(task.task_id, "its process is gone", by="ann")
            assert moved.letter.source.state == "steps_in_process"
            assert (await app.dlq.requeue_from_dlq(moved.letter.task_id))["success"]

    assert await asyncio.to_thread(run_node, store_url, log, "retry") == 0

    assert Counter(log.read_text().split()) == Counter([*STEPS, "equal"])
    async with app_on(store_url) as app:
        (done,) = (await app.lifecycle.list("all")).items
        assert (done.task_id, done.state) == (task.task_id, TaskState.COMPLETE)
        assert [step.attempts for step in done.steps] == [1, 1, 2, 1, 1]
        assert await app.dlq.list_tasks() == []


async def test_a_hundred_submissions_of_ten_processes_are_one_task(store_url: str) -> None:
    """All get its id, and all of it is there."""
    steps = [StepRecord("a"), StepRecord("b", ("a",))]
    async with AsyncExitStack() as stack:
        apps = await apps_on(store_url, 10, stack)
        contexts = [{"order": 1, "to": "ann"}, {"to": "ann", "order": 1}]
        made = await asyncio.gather(
            *(apps[n % 10].lifecycle.create("pay", contexts[n % 2], steps=steps) for n in range(100))
        )
        assert len({task.task_id for task in made}) == 1
        assert {tuple(step.name for step in task.steps) for task in made} == {("a", "b")}
        assert len((await apps[0].lifecycle.list("all")).items) == 1


async def test_of_a_hundred_transitions_of_ten_processes_one_wins(store_url: str) -> None:
    """99 get a conflict, and exactly one move is the most recent; then one of ten finalises."""
    async with AsyncExitStack() as stack:
        apps = await apps_on(store_url, 10, stack)
        task_id = (await apps[0].lifecycle.create("pay")).task_id

        async def move(number: int) -> str:
            try:
                await apps[number % 10].lifecycle.transition(task_id, "initializing", from_state="pending")
            except ChangedMeanwhile:
                return "conflict"
            return "won"

        assert Counter(await asyncio.gather(*map(move, range(100)))) == {"conflict": 99, "won": 1}
        assert [each.number for each in await apps[3].lifecycle.transitions(task_id)] == [1]

        finalised = await asyncio.gather(*(app.lifecycle.finalize(task_id) for app in apps))
        assert Counter(finalised) == {True: 1, False: 9}
        moves = [each.to_state for each in await apps[7].lifecycle.transitions(task_id)]
        assert moves == ["initializing", "complete"]


async def test_twenty_requeues_bring_a_task_back_once(store_url: str) -> None:
    """Priority 5 becomes 15, for the letter and the task."""
    async with AsyncExitStack() as stack:
        apps = await apps_on(store_url, 5, stack)
        task_id = (await apps[0].lifecycle.create("pay", priority=5)).task_id
        letter = (await apps[0].lifecycle.move_to_dlq(task_id, "it hangs", by="ann")).letter

        answers = await asyncio.gather(*(apps[n % 5].dlq.requeue_from_dlq(letter.task_id) for n in range(20)))

        assert sum(answer["success"] for answer in answers) == 1
        task, back = await apps[1].lifecycle.get(task_id), await apps[2].dlq.get_task(letter.task_id)
        assert back is not None
        assert (task.state, task.priority, back.priority) == (TaskState.PENDING, 15, 15)
        reasons = [each.reason for each in await apps[3].lifecycle.transitions(task_id)]
        assert reasons == ["manual", "dlq_requeue"]

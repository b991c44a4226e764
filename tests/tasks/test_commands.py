"""`mahavishnu task`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.clock import SystemClock
from mahavishnu.stores.kinds import stored_kinds
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import StepRecord
from tests.support.command_line import Run

STORE = ("--store", "sqlite:///letters.db")


def make_task() -> str:
    """One that waits for dependencies."""

    async def make() -> str:
        async with DeadLetterQueue(store=SQLiteStore("letters.db", kinds=stored_kinds())) as dlq:
            lifecycle = Lifecycle(dlq.context)
            task = await lifecycle.create("pay", {"n": 1}, steps=[StepRecord("charge")])
            await lifecycle.transition(task.task_id, "initializing")
            await lifecycle.transition(task.task_id, "waiting_for_dependencies", reason="no card")
            return task.task_id

    return asyncio.run(make())


def test_a_task_is_listed_shown_and_moved(run: Run) -> None:
    task = make_task()
    assert "nothing is tracked now" in run("task", *STORE, "list", "--name", "other").out
    row = run("task", *STORE, "list").out.splitlines()[1]
    assert task in row and "pay" in row and "waiting_for_dependencies" in row
    assert run("task", *STORE, "list", "--state", "error", "--state", "complete").out.startswith("nothing")
    shown = run("task", *STORE, "show", task).out
    assert "charge" in shown and "no card" in shown and "waiting_for_dependencies since" in shown
    assert run("task", *STORE, "show", task, "--json").json["transitions"][1]["most_recent"] is True

    moved = run("task", *STORE, "move", task, "--reason", "it hangs").out
    assert moved == f"task {task} is in error, it was waiting_for_dependencies: its letter is {task}\n"
    assert run("task", *STORE, "move", task).out == f"task {task} has a letter already: {task}\n"
    letter = run("dlq", *STORE, "show", task, "--json").json
    assert (letter["original_state"], letter["dlq_reason"]) == ("waiting_for_dependencies", "manual")
    assert run("dlq", *STORE, "requeue", task).code == 0
    assert run("task", *STORE, "list", "--json").json[0]["state"] == "pending"


def test_a_task_that_is_not_there(run: Run) -> None:
    make_task()
    assert run("task", *STORE, "show", "x").code == 3
    assert "no lifecycle task 'x'" in run("task", *STORE, "move", "x").err
    assert run("task", *STORE, "list", "--state", "done").code == 2


def test_a_task_that_hangs_is_found_and_handed_over(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task()
    assert run("task", *STORE, "detect").out == "no lifecycle task is stale\n"
    now = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: now(self) + timedelta(hours=2))
    found = run("task", *STORE, "detect")
    assert task in found.out and "would transition to dlq and error" in found.out
    assert "--apply does it" in found.out + found.err
    assert run("task", *STORE, "list", "--json").json[0]["state"] == "waiting_for_dependencies"

    (row,) = run("task", *STORE, "detect", "--apply", "--json").json
    assert (row["task_uuid"], row["action_taken"]) == (task, "transitioned_to_dlq_and_error")
    letter = run("dlq", *STORE, "show", task, "--json").json
    assert letter["dlq_reason"] == "staleness_timeout"
    assert run("task", *STORE, "detect").out == "no lifecycle task is stale\n"

"""Processes that archive and are killed by `kill -9` at any moment: others go on, and each letter is archived once."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from mahavishnu.archive.records import ARCHIVED_TASKS, archive_kind
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import HISTORY, REVISIONS
from mahavishnu.stores.urls import open_store
from mahavishnu.tasks.records import TASKS, TRANSITIONS
from mahavishnu.testing import ManualClock
from tests.archive.test_archiving import MONTH, closed, copies_in, living
from tests.archive.test_tasks import number, with_many_moves
from tests.support.queues import letter_of, sound

DAYS = 40


async def begin(path: Path, batch: int) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tests.proofs.archive_node", str(path), str(DAYS), str(batch)]
    return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)


async def read_calls(process: asyncio.subprocess.Process, most: int) -> None:
    assert process.stdout is not None
    for _ in range(most):
        if not await process.stdout.readline():
            return


async def kill_after(process: asyncio.subprocess.Process, calls: int) -> bool:
    """Kill the process a moment after so many calls. Returns whether it had not ended before."""
    await read_calls(process, calls)
    was_running = process.returncode is None
    if was_running:
        process.kill()
    await process.communicate()
    return was_running and process.returncode != 0


@pytest.mark.parametrize(
    ("letters", "batch", "rounds"), [(60, 5, 2), pytest.param(3000, 50, 12, marks=pytest.mark.prove)]
)
async def test_each_is_archived_once_however_often_processes_are_killed(
    tmp_path: Path, letters: int, batch: int, rounds: int
) -> None:
    path, chance, clock = tmp_path / "letters.db", random.Random(letters), ManualClock()
    url = f"sqlite:///{path}"
    async with DeadLetterQueue(1_000_000, store=open_store(url, kinds=KINDS), clock=clock) as dlq:
        known = await closed(dlq, letters)
        for round_ in (1, 2):
            await dlq.enqueue("twice", {}, [], "boom")
            await dlq.letters.edit("twice", priority=round_)
            await dlq.letters.resolve("twice")
        known.append(await letter_of(dlq, "twice"))
        tasks = [await with_many_moves(dlq, f"pay {each}") for each in range(3)]
        numbers = (await sound(dlq))["lifetime_stats"]
    killed = 0
    most = 8 * letters // batch  # calls that a whole go takes, about
    for _ in range(rounds):
        pair = await asyncio.gather(begin(path, batch), begin(path, batch))
        ends = await asyncio.gather(*(kill_after(each, chance.randrange(8, most // rounds + 9)) for each in pair))
        killed += sum(ends)
    assert killed >= rounds, "most were at work when they were killed"
    last = await begin(path, batch)
    await last.communicate()
    assert last.returncode == 0
    clock.advance(DAYS * 86400)
    async with DeadLetterQueue(1_000_000, store=open_store(url, kinds=KINDS), clock=clock) as dlq:
        copies = await copies_in(dlq)
        assert [copies[letter.task_id].read_letter() for letter in known] == known
        assert len(copies) == len(known)
        assert await living(dlq) == {}
        assert [former.generation for former in copies["twice"].read_former()] == [1]
        for kind in (HISTORY, REVISIONS, TASKS, TRANSITIONS):
            assert [each async for each in scan(dlq.store.collection(kind), Query())] == []
        assert await number(dlq, archive_kind(ARCHIVED_TASKS, MONTH)) == len(tasks)
        for task, moves in tasks:
            case = await dlq.archive.show_task(task.task_id)
            assert (case.task, case.transitions) == (task, list(moves))
        assert (await sound(dlq))["lifetime_stats"] == numbers

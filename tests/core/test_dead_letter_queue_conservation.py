"""Whatever is done, in any order, by two queues on one store, some of them killed: no letter is unaccounted for."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import MahavishnuError, StoreError
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from tests.support.queues import NETWORK, House, Runs, sound

TASKS = ("a", "b", "c")
Step = tuple[str, int, str, int]
VERBS = (
    "enqueue", "enqueue", "enqueue", "run well", "run badly", "retry", "archive_task", "resurrect", "resolve", "fail",
    "cancel", "clear_all", "archive_exhausted", "retry_many", "edit", "wait", "crash",
)  # fmt: skip
# Where a process can die while it deletes or captures: before or after each kind of call.
DEATHS: list[tuple[str, Kind[Any]]] = [("write", LETTERS), ("find", REVISIONS), ("write", HISTORY)]
steps = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(0, 1), st.sampled_from(TASKS), st.integers(0, 15)), max_size=40
)


async def take(house: House, queues: list[DeadLetterQueue], step: Step) -> int:
    """Take a step. Returns how often a process died where it was to die."""
    verb, which, task, number = step
    queue = queues[which]
    act: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "enqueue": lambda: queue.enqueue(task, {}, [], "connection refused", "immediate", max_retries=number % 3),
        "run well": queue.run_due,
        "run badly": queue.run_due,
        "retry": lambda: queue.retry_task(task, force=True),
        "archive_exhausted": lambda: queue.archive_exhausted(older_than_days=0),
        "retry_many": lambda: queue.letters.retry_many(everything=True),
        "edit": lambda: queue.letters.edit(task, priority=number),
        "clear_all": queue.clear_all,
    }
    if verb == "wait":
        house.clock.advance(minutes=10)
        return 0
    queue.processing.callback = Runs(NETWORK if verb == "run badly" or number % 2 else None)
    if verb == "crash":
        # The process dies at its next call (or just after it) of this kind, in the middle of what it does.
        operation, kind = DEATHS[number % len(DEATHS)]
        assert isinstance(queue.store, type(house.store()))
        faults = queue.store.faults
        lost, clears = number // len(DEATHS) % 2, number // len(DEATHS) // 2
        doing = asyncio.create_task(_quietly(queue.clear_all() if clears else queue.enqueue(task, {}, [], "boom")))
        fault = (faults.answer_lost if lost else faults.unavailable)(operation, kind=kind)
        await doing
        house.kill(queue)
        queues[which] = house.queue()
        return fault.hits
    service = queue if verb == "archive_task" else queue.letters
    await _quietly((act[verb] if verb in act else lambda: getattr(service, verb)(task))())
    return 0


async def one_of_each(house: House) -> list[DeadLetterQueue]:
    """Two queues, and letters that wait, are exhausted, are put away, and were cleared."""
    queues = [house.queue(), house.queue()]
    for step in [
        ("enqueue", "a", 0),
        ("clear_all", "a", 0),
        ("enqueue", "a", 1),
        ("enqueue", "b", 0),
        ("enqueue", "c", 1),
        ("archive_task", "c", 0),
    ]:
        await take(house, queues, (step[0], 0, step[1], step[2]))
    house.clock.advance(minutes=1)
    return queues


async def seen(house: House, queue: DeadLetterQueue) -> list[object]:
    await queue.open()
    letters = [letter async for letter in scan(queue.context.letters, Query())]
    return [house.clock.now(), *((each.key, each.version) for each in sorted(letters, key=lambda each: each.key))]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("verb", sorted({*VERBS} - {"crash"}))
async def test_each_step_does_something(kind: str, verb: str, tmp_path: Path) -> None:
    house = House(kind, tmp_path)
    queues = await one_of_each(house)
    before = await seen(house, queues[1])
    await take(house, queues, (verb, 0, {"resurrect": "c"}.get(verb, "a"), 4))
    assert await seen(house, queues[1]) != before
    await house.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("death", range(len(DEATHS)))
@pytest.mark.parametrize("lost", [0, 1])
async def test_each_death_is_died(kind: str, death: int, lost: int, tmp_path: Path) -> None:
    died = 0
    for clears in (0, 1):
        house = House(kind, tmp_path / str(clears))
        house.folder.mkdir()
        queues = await one_of_each(house)
        died += await take(house, queues, ("crash", 0, "c", death + len(DEATHS) * (lost + 2 * clears)))
        await sound(queues[1])
        await house.close()
    assert died


async def _quietly(doing: Coroutine[Any, Any, Any]) -> None:
    try:
        await doing
    except MahavishnuError as refused:
        assert not isinstance(refused, StoreError) or "test's fault" in str(refused), refused


def try_histories(live: Callable[[list[Step], str], Coroutine[Any, Any, None]], examples: int) -> None:
    """Live so many histories, each in a folder of its own."""

    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(history=steps)
    def try_one(history: list[Step]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(live(history, folder))

    try_one()


KINDS_AND_EXAMPLES = pytest.mark.parametrize(
    ("kind", "examples"),  # each step on a file takes ten times as long as in memory
    [("memory", 60), ("sqlite", 20), pytest.param("sqlite", 60, marks=pytest.mark.prove)],
)


@KINDS_AND_EXAMPLES
def test_every_letter_is_accounted_for(kind: str, examples: int) -> None:
    async def live(history: list[Step], folder: str) -> None:
        house = House(kind, Path(folder))
        queues = [house.queue(), house.queue()]
        for step in history:
            await take(house, queues, step)
            await sound(queues[0])
        cleared = (await sound(queues[1]))["lifetime_stats"]["cleared"]
        left = len(await queues[0].list_tasks())
        assert await queues[0].clear_all() == left
        stats = await sound(queues[1])
        assert (stats["queue_size"], stats["lifetime_stats"]["cleared"]) == (0, cleared + left)
        await house.close()

    try_histories(live, examples)


@KINDS_AND_EXAMPLES
def test_also_if_everything_happens_at_once(kind: str, examples: int) -> None:
    async def live(history: list[Step], folder: str) -> None:
        house = House(kind, Path(folder))
        queues = [house.queue(), house.queue()]
        calm = [step for step in history if step[0] not in ("crash", "wait")]
        await asyncio.gather(*(take(house, queues, step) for step in calm))
        await sound(queues[0])
        cleared = (await sound(queues[1]))["lifetime_stats"]["cleared"]
        left = len(await queues[0].list_tasks())
        assert await queues[0].clear_all() == left
        assert (await sound(queues[1]))["lifetime_stats"]["cleared"] == cleared + left
        await house.close()

    try_histories(live, examples)

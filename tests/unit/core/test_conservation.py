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
from mahavishnu.stores.codec import HISTORY, LETTERS
from mahavishnu.stores.ledger import LEDGER
from tests.unit.queues import NETWORK, House, Runs, sound

TASKS = ("a", "b", "c")
Step = tuple[str, int, str, int]
VERBS = (
    "enqueue", "enqueue", "enqueue", "run well", "run badly", "retry", "archive_task", "resurrect", "resolve", "fail",
    "cancel", "clear_all", "archive_exhausted", "retry_many", "edit", "wait", "crash",
)  # fmt: skip
# Where a process can die while it deletes or captures: before or after each kind of write.
DEATHS = [(operation, kind) for kind in (LETTERS, LEDGER, HISTORY) for operation in ("write", "remove")]
steps = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(0, 1), st.sampled_from(TASKS), st.integers(0, 11)), max_size=40
)


async def take(house: House, queues: list[DeadLetterQueue], step: Step) -> None:
    verb, which, task, number = step
    queue = queues[which]
    act: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "enqueue": lambda: queue.enqueue(task, {}, [], "connection refused", "immediate", max_retries=number % 3),
        "run well": queue.run_due,
        "run badly": queue.run_due,
        "retry": lambda: queue.retry_task(task, force=True),
        "archive_exhausted": lambda: queue.archive_exhausted(older_than_days=0),
        "retry_many": lambda: queue.retry_many(everything=True),
        "edit": lambda: queue.edit(task, priority=number),
        "clear_all": queue.clear_all,
    }
    if verb == "wait":
        house.clock.advance(minutes=10)
        return
    queue.callback = Runs(NETWORK if verb == "run badly" or number % 2 else None)
    if verb == "crash":
        # The process dies at its next write (or just after it) of this kind, in the middle of what it does.
        operation, kind = DEATHS[number % len(DEATHS)]
        assert isinstance(queue.store, type(house.store()))
        faults = queue.store.faults
        doing = asyncio.create_task(_quietly(queue.clear_all() if number % 2 else queue.enqueue(task, {}, [], "boom")))
        if number < len(DEATHS):
            faults.unavailable(operation, kind=kind)
        else:
            faults.answer_lost(operation, kind=kind)
        await doing
        house.kill(queue)
        queues[which] = house.queue()
        return
    await _quietly((act[verb] if verb in act else lambda: getattr(queue, verb)(task))())


async def _quietly(doing: Coroutine[Any, Any, Any]) -> None:
    try:
        await doing
    except MahavishnuError as refused:
        assert not isinstance(refused, StoreError) or "test's fault" in str(refused), refused


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(history=steps)
def test_every_letter_is_accounted_for(kind: str, history: list[Step]) -> None:
    async def live() -> None:
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

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(history=steps)
def test_also_if_everything_happens_at_once(kind: str, history: list[Step]) -> None:
    async def live() -> None:
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

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live())

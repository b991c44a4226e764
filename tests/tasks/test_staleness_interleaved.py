"""What finds a task that hangs, and what has done it after all: in every order of their calls of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count

import pytest

from mahavishnu.model.errors import IllegalMove
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import SourceKind
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.staleness_rules import StalenessRules
from mahavishnu.tasks.stuck import StalenessCycle
from mahavishnu.tasks.task import TaskState
from mahavishnu.testing import FaultyStore
from mahavishnu.values.payload import LetterRequest
from tests.support.interleaving import Actor, run_in_every_order
from tests.support.queues import House

RULES = StalenessRules(steps_in_process_minutes=1)
Act = Callable[[Lifecycle, str], Awaitable[object]]


async def finalize(of: Lifecycle, task_id: str) -> None:
    """What whoever works on it does in the end."""
    try:
        await of.finalize(task_id)
    except IllegalMove as problem:
        assert problem.state == TaskState.ERROR


async def detect(of: Lifecycle, task_id: str) -> None:
    await of.detect_and_transition_stale_tasks(dry_run=False)


async def give_up_stuck(of: Lifecycle, task_id: str) -> None:
    await StalenessCycle(of._context).recover_stuck()


class Case:
    """Tasks that hang, one for each order; somebody who finds that, and one who has done the work."""

    kind = SourceKind.TASK

    def __init__(self, house: House, rules: StalenessRules, acts: Sequence[Act]) -> None:
        self.house, self.acts = house, acts
        self.all = [Lifecycle(house.queue(rules=[rules]).context) for _ in acts]
        self.numbers, self.task_id, self.letter_id = count(1), "", ""
        self.seen: set[tuple[str, int]] = set()

    async def begin(self) -> list[Actor]:
        """A new task in which nothing has gone on for a while."""
        self.house.clock.advance(60)
        for of in self.all:
            await of._context.open()
        task = await self.all[0].create("pay", {"n": next(self.numbers)})
        for state in ("initializing", "steps_in_process"):
            await self.all[0].transition(task.task_id, state)
        self.house.clock.advance(11 * 60)
        self.task_id = self.letter_id = task.task_id
        key = self.all[0]._context.key(task.task_id, "default", "default")
        return [self._actor(of, act, key) for of, act in zip(self.all, self.acts, strict=True)]

    def _actor(self, of: Lifecycle, act: Act, key: str) -> Actor:
        assert isinstance(of._context.store, FaultyStore)
        task_id = self.task_id
        return Actor(lambda: act(of, task_id), of._context.store.faults, key, TASKS)

    async def letters(self) -> list[DeadLetter]:
        every = [letter async for letter in scan(self.all[0]._context.letters, Query())]
        return [letter for letter in every if letter.task_id == self.letter_id]

    async def check(self) -> None:
        """It is complete, or has a letter: never both, and never neither."""
        await self.all[0].handover.finish()
        task, letters = await self.all[0].get(self.task_id), await self.letters()
        assert (task.state, len(letters)) in {(TaskState.COMPLETE, 0), (TaskState.ERROR, 1)}
        assert all(letter.is_open and letter.source.kind is self.kind for letter in letters)
        ends = [move.to_state for move in task.transitions if move.to_state in (TaskState.COMPLETE, TaskState.ERROR)]
        assert len(ends) == 1
        self.seen.add((str(task.state), len(letters)))


@pytest.mark.parametrize("act", [detect, give_up_stuck])
async def test_either_it_is_done_or_it_has_a_letter(any_house: House, act: Act) -> None:
    """Whoever is quicker wins, wherever the other one is."""
    rules = replace(RULES, max_recoveries_per_task=0)
    case = Case(any_house, rules if act is give_up_stuck else RULES, [act, finalize])
    orders = await run_in_every_order(case.begin, case.check)
    assert orders > 5 and case.seen == {("complete", 0), ("error", 1)}


@pytest.mark.parametrize("kth", range(1, 9))
@pytest.mark.parametrize("first", ["run", "look"])
async def test_a_run_that_succeeds_after_all_is_done(any_house: House, first: str, kth: int) -> None:
    """Wherever the look that takes it for dead is: its letter, if there is one, is closed."""
    ours, theirs = (Lifecycle(any_house.queue(rules=[RULES]).context) for _ in range(2))
    await theirs._context.open()
    run = await ours.tracking.begin(LetterRequest("wf_1", {"n": 1}, [], adapter="sweep"))
    assert run is not None
    any_house.clock.advance(11 * 60)
    acts = {"run": (ours, run.succeed), "look": (theirs, lambda: detect(theirs, run.task.task_id))}
    stopped, go_on, calls = asyncio.Event(), asyncio.Event(), 0

    async def stop(call: object) -> None:
        nonlocal calls
        calls += 1
        if calls == kth:
            stopped.set()
            await go_on.wait()

    (of, act), other = acts.pop(first), next(iter(acts.values()))[1]
    for operation in ("get", "write"):
        of._context.store.faults.before(operation, stop)  # type: ignore[attr-defined]
    acting = asyncio.create_task(act())
    reached = asyncio.create_task(stopped.wait())
    await asyncio.wait([acting, reached], return_when=asyncio.FIRST_COMPLETED)
    await other()
    go_on.set()
    await acting
    reached.cancel()

    task = await theirs.get(run.task.task_id)
    letters = [letter async for letter in scan(theirs._context.letters, Query())]
    assert (task.state, task.owes) == (TaskState.COMPLETE, None)
    assert not any(letter.is_open for letter in letters)

"""Processes capture, close, archive, restore, redrive and delete letters, and work on items of named queues that move;
any of them may be killed at any call.

At every rest the numbers add up: what was enqueued is open, was closed in one of the ways, or was cleared. In the end
each failure that somebody was told of is in one place, the queue, the history or the archive, unless its task was
deleted; and each item is in one queue, or was done or dropped, once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from mahavishnu.archive.partitions import read_case
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model import ids
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.model.query import Query, items_namespace
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import HISTORY
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import ManualClock
from mahavishnu.testing.clock import START
from tests.archive.test_deletion_machine import Process
from tests.support.bookkeeping import Diary
from tests.support.item_bookkeeping import check_items
from tests.support.queues import sound

WHO, TASKS, NAMES = st.integers(0, 1), st.sampled_from(["a", "b"]), st.sampled_from(["S", "D"])
CALLS = st.one_of(st.none(), st.none(), st.integers(1, 24))
ACTS = st.sampled_from(["resolve", "cancel", "fail", "redrive", "edit", "archive", "resurrect"])
ENDS = st.sampled_from(["resolve", "cancel", "fail"])
RULES = RetentionRules(
    completed_days=1, cancelled_days=1, permanently_failed_days=1, history_days=3, archive_months=None
)


class Conservation(RuleBasedStateMachine):
    """Two tasks that keep failing, a queue with a dead queue, and two processes that do everything."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.memory, self.clock = MemoryStore(), ManualClock(START)
        self.told, self.deleted, self.diary = dict[str, str](), set[str](), Diary()
        self.names = count()
        self.processes: list[Process] = []
        self.killed: list[Process] = []

    @initialize()
    def start(self) -> None:
        self.processes = [self._new_process() for _ in range(2)]
        self._begin(0, self._define_queues, None)

    async def _define_queues(self, process: Process) -> None:
        await process.dlq.queues.create("D")
        await process.dlq.queues.create("S", dead_queue="D", retry={"attempts": 2}, expire_timeout="30d")

    def _new_process(self) -> Process:
        process = Process(f"worker-{next(self.names)}", self.memory, MemoryStore(), self.clock)
        process.dlq.context.set_rules(RULES)
        self.runner.run(process.begin(process.dlq.open(), None))
        return process

    def _begin(self, who: int, act: Callable[[Process], Coroutine[Any, Any, object]], calls: int | None) -> None:
        self.runner.run(self.processes[who].begin(act(self.processes[who]), calls))

    @rule(who=WHO, task=TASKS, calls=CALLS)
    def capture(self, who: int, task: str, calls: int | None) -> None:
        async def capture(process: Process) -> None:
            letter = await process.dlq.enqueue(task, {"n": 1}, [], ConnectionError("reset"), max_retries=0)
            self.told[letter.entry_id] = task

        self._begin(who, capture, calls)

    @rule(who=WHO, task=TASKS, end=ENDS, days=st.sampled_from([2, 40]))
    def capture_and_archive(self, who: int, task: str, end: str, days: int) -> None:
        """What most letters go through."""
        self.capture(who=who, task=task, calls=None)
        self.act(who=who, task=task, act=end, calls=None)
        self.let_time_pass(days=days)
        self.archive(who=who, batch=3, calls=None)

    @rule(who=WHO, task=TASKS, act=ACTS, calls=CALLS)
    def act(self, who: int, task: str, act: str, calls: int | None) -> None:
        changes: dict[str, Any] = {"priority": 3} if act == "edit" else {}
        self._begin(who, lambda process: getattr(process.dlq.letters, act)(task, **changes), calls)

    @rule(who=WHO, batch=st.integers(1, 3), calls=CALLS)
    def archive(self, who: int, batch: int, calls: int | None) -> None:
        self._begin(
            who, lambda process: process.dlq.archive.archive_completed_tasks(1, batch_size=batch, dry_run=False), calls
        )

    @rule(who=WHO, task=TASKS, calls=CALLS)
    def restore(self, who: int, task: str, calls: int | None) -> None:
        self._begin(who, lambda process: process.dlq.archive.restore(task), calls)

    @rule(who=WHO, task=TASKS, calls=CALLS)
    def delete(self, who: int, task: str, calls: int | None) -> None:
        self.deleted.add(task)
        self._begin(who, lambda process: process.dlq.deletion.delete_task(task), calls)

    @rule(who=WHO, calls=CALLS)
    def produce(self, who: int, calls: int | None) -> None:
        name = f"item-{next(self.names)}"
        self.diary.offered.add(name)

        async def produce(process: Process) -> None:
            self.diary.kept[(await process.dlq.queues.produce("S", {"name": name})).id] = name

        self._begin(who, produce, calls)

    @rule(who=WHO, queue=NAMES, how=st.sampled_from(["complete", "fail", "dead", "dead", "leave"]), calls=CALLS)
    def work(self, who: int, queue: str, how: str, calls: int | None) -> None:
        """Lease items, and say what became of them."""

        async def work(process: Process) -> None:
            queues = process.dlq.queues
            for lease in await queues.lease(queue, process.name, limit=2, lease_seconds=60):
                if how == "complete":
                    await queues.complete(queue, lease.item.id, lease.token)
                    self.diary.done.add(lease.item.payload["name"])
                elif how != "leave":
                    await queues.retry(queue, lease.item.id, lease.token, dead=how == "dead")

        self._begin(who, work, calls)

    @rule(
        who=WHO, queue=NAMES, act=st.sampled_from(["maintain", "redrive", "resurrect", "drop", "put_away"]), calls=CALLS
    )
    def meddle(self, who: int, queue: str, act: str, calls: int | None) -> None:
        """What people and workers do to items besides."""

        async def meddle(process: Process) -> None:
            queues = process.dlq.queues
            if act == "maintain":
                await queues.maintain()
            elif act == "redrive":
                await queues.redrive("D", to="S")
            elif act == "put_away":
                inside = process.dlq.in_namespace(items_namespace("default", queue))
                await inside.archive.archive_completed_tasks(1, dry_run=False)
            else:
                for each in (await queues.items(queue, limit=1)).items:
                    await getattr(queues, act)(queue, each.id)

        self._begin(who, meddle, calls)

    @rule(who=WHO, calls=CALLS)
    def fold(self, who: int, calls: int | None) -> None:
        async def fold(process: Process) -> None:
            await process.dlq.deletion.finish()
            await Ledger(process.dlq.context).fold()

        self._begin(who, fold, calls)

    @rule(who=WHO, calls=st.integers(1, 10))
    def go_on(self, who: int, calls: int) -> None:
        self.runner.run(self.processes[who].step(calls))

    @rule(who=WHO)
    def kill(self, who: int) -> None:
        self.processes[who].gate.dead = True
        self.killed.append(self.processes[who])
        self.processes[who] = self._new_process()

    @rule(days=st.sampled_from([2, 40]))
    def let_time_pass(self, days: int) -> None:
        self.clock.advance(timedelta(days=days))

    @rule()
    def rest(self) -> None:
        """All that was begun and not killed comes to its end: the numbers are right."""
        for process in self.processes:
            self.runner.run(process.finish())
        self.runner.run(self._add_up())

    async def _add_up(self) -> None:
        async with self._look() as dlq:
            await sound(dlq)

    @contextlib.asynccontextmanager
    async def _look(self) -> Any:
        dlq = DeadLetterQueue(store=self.memory, clock=self.clock)
        await dlq.open()
        yield dlq

    def teardown(self) -> None:
        if not self.processes:
            return
        try:
            self.rest()
            self.runner.run(self._check())
        finally:
            for process in (*self.killed, *self.processes):
                process.gate.dead = True
            self.runner.get_loop().set_exception_handler(lambda loop, context: None)
            self.runner.close()

    async def _check(self) -> None:
        async with self._look() as dlq:
            dlq.context.set_rules(RULES)
            for _ in range(2):
                with contextlib.suppress(MahavishnuError):
                    await dlq.archive.maintain()
                await dlq.deletion.finish()
                await Ledger(dlq.context).fold()
                await sound(dlq)
            places, known = Counter[str](), set[str]()
            async for letter in scan(dlq.context.letters, Query()):
                places[letter.entry_id] += 1
                known |= {letter.entry_id, *letter.absorbed, *letter.merged}
            async for former in scan(dlq.store.collection(HISTORY), Query()):
                places[former.entry_id] += 1
                known |= {former.entry_id, *former.absorbed, *former.merged}
            for line in (await dlq.archive.list(1000)).items:
                case = read_case(line)
                for each in (case.letter, *case.former):
                    places[each.entry_id] += 1
                    known |= {each.entry_id, *each.absorbed, *each.merged}
            twice = {entry: number for entry, number in places.items() if number > 1}
            assert not twice, twice
            lost = {entry: task for entry, task in self.told.items() if entry not in known and task not in self.deleted}
            assert not lost, lost
            for _ in range(3):
                await dlq.queues.maintain()
                self.clock.advance(3600)
            items = await check_items(dlq, self.diary, ["S", "D"])
            assert items.problems == {}, items.ends


def run_machine(examples: int, steps: int) -> None:
    numbers = count()
    with patch.object(ids, "_draw_random", lambda: next(numbers).to_bytes(10)):  # the same ids at each try
        run_state_machine_as_test(
            Conservation,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )


def test_each_letter_is_in_one_place_and_the_numbers_add_up() -> None:
    run_machine(30, 40)


@pytest.mark.prove
def test_the_same_for_longer() -> None:
    run_machine(250, 60)

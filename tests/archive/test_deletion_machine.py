"""Processes capture, run and delete letters while stores come and go; any of them may be killed at any call.

Each process is a queue over the shared store and a local one. An operation can be stopped before each call of a store,
and another process goes on; one that is killed there makes no further call. In the end, when everything has come home,
what was acknowledged is in a letter or was deleted in that state; nothing deleted has come back; the numbers are exact.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model import ids
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RESOLUTIONS, DeadLetterStatus, RetryPolicy
from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.fallback.drain import LocalCopy, local_copy_kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock
from mahavishnu.testing.clock import START, turn
from mahavishnu.testing.faults import CHANGES, READS, Call
from mahavishnu.values.payload import LetterRequest
from mahavishnu.workers.claims import OUTCOMES, Claim
from tests.support.bookkeeping import Diary, check, is_deleted
from tests.support.outages import OUTAGES, change_fault

R = TypeVar("R")
SKEWS = (timedelta(0), timedelta(minutes=-7), timedelta(minutes=13))  # of the clocks of the processes
MAX_SIZE = 3
WHO, TASKS, PAYLOADS = st.integers(0, len(SKEWS) - 1), st.sampled_from(["a", "b"]), st.integers(0, 1)
# After so many calls of its stores an operation is stopped; None: it goes on to its end.
CALLS = st.one_of(st.none(), st.integers(1, 8))
FAULTS = st.sampled_from(OUTAGES)
ACTS = st.sampled_from(["resolve", "cancel", "fail", "archive", "redrive", "edit"])
_PATIENCE = 2000  # turns of the event loop: an operation that needs more waits for the clock


class Gate:
    """What every call of a process's stores has to pass."""

    def __init__(self) -> None:
        self.calls: int | None = None  # that are let through; None: all
        self.dead = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_blocked(self) -> bool:
        """Whether a call waits here."""
        return bool(self._waiting)

    def let_through(self, calls: int | None) -> None:
        """Let so many calls through from now on."""
        self.calls = calls
        while self._waiting and calls != 0:
            self._waiting.pop(0).set_result(None)
            calls = None if calls is None else calls - 1

    async def __call__(self, call: Call) -> None:
        while self.dead or self.calls == 0:
            blocked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(blocked)
            await blocked
        if self.calls is not None:
            self.calls -= 1


class Observer:
    """Sees what happens to letters in a store, call by call: deleted ones have to stay deleted."""

    def __init__(self) -> None:
        self.deleted: dict[str, datetime] = {}  #: the latest state of each entry that was
        self.folded, self.problems = Counter[str](), list[str]()
        self._before: dict[str, DeadLetter] = {}

    def watch_shared(self, store: MemoryStore) -> Store:
        """The shared store, seen by this observer."""
        letters, faults = store.collection(LETTERS), Faults()

        async def look(call: Call) -> None:
            there = await letters.get(call.keys)
            self._before = {letter.key: letter for letter in there if isinstance(letter, DeadLetter)}

        async def compare(call: Call) -> None:
            for key, after in zip(call.keys, await letters.get(call.keys), strict=True):
                assert after is None or isinstance(after, DeadLetter)
                self._compare(key, self._before.get(key), after)

        for operation in CHANGES:
            faults.before(operation, look, kind=LETTERS)
            faults.after(operation, compare, kind=LETTERS)
        return FaultyStore(store, faults)

    def watch_local(self, store: MemoryStore) -> Store:
        """A local store: what is deleted there comes home as deleted."""
        copies, faults = store.collection(local_copy_kind(LETTERS)), Faults()

        async def look(call: Call) -> None:
            for copy in await copies.get(call.keys):
                if isinstance(copy, LocalCopy) and is_deleted(copy.record):
                    self._note_deleted(copy.record)

        faults.after("write", look, kind=LETTERS)
        return FaultyStore(store, faults)

    def _note_deleted(self, tombstone: DeadLetter) -> None:
        for entry_id in (tombstone.entry_id, *tombstone.absorbed):
            self.deleted[entry_id] = max(tombstone.updated_at, self.deleted.get(entry_id, tombstone.updated_at))

    def _compare(self, key: str, before: DeadLetter | None, after: DeadLetter | None) -> None:
        if before is after:
            return
        if after is None:
            if before is not None and not _is_folded(before):
                self.problems.append(f"{key} is gone, and leaves no tombstone")
        elif before is not None and _is_folded(before):
            self.problems.append(f"{key}: the tombstone was replaced while its numbers were taken out")
        elif _is_folded(after):
            assert before is not None
            self.folded[key.partition("@")[0]] += before.generation + before.tallies.deduplicated
        elif is_deleted(after):
            self._note_deleted(after)
        elif after.entry_id in self.deleted:
            self.problems.append(f"{key}: entry {after.entry_id} was deleted and is back")
        if before is not None and after is not None and is_deleted(before) and not _is_folded(after):
            lost = {before.entry_id, *before.absorbed} - {after.entry_id, *after.absorbed}
            self.problems += [f"{key}: nothing knows the deleted entry {entry_id} any more" for entry_id in lost]


def _is_folded(letter: DeadLetter) -> bool:
    """Whether the numbers of this tombstone are in a day's sum."""
    return is_deleted(letter) and letter.generation == 0


class Process:
    """A queue over the shared store and a local one, whose ways to both can break."""

    def __init__(self, name: str, shared: Store, local: Store, clock: ManualClock) -> None:
        self.name, self.local, self.clock = name, local, clock
        self.gate, gated = Gate(), Faults()
        for operation in (*CHANGES, *READS):
            gated.before(operation, self.gate)
        self.weather, self.local_weather = Faults(), Faults()
        self.pair = FallbackStore(
            FaultyStore(FaultyStore(shared, gated), self.weather),
            FaultyStore(FaultyStore(local, gated), self.local_weather),
            kinds=KINDS,
            clock=clock,
        )
        options = QueueOptions(
            limits=Limits(skew_seconds=0),
            letter_factory=LetterFactory(retry_policy=RetryPolicy.IMMEDIATE),
            owner=name,
            callback=lambda task, repos: "done",
        )
        self.dlq = DeadLetterQueue(MAX_SIZE, store=self.pair, clock=clock, options=options)
        self.integration = DLQIntegration(None, self.dlq, by_category=False)
        self.task: asyncio.Task[None] | None = None

    async def begin(self, operation: Coroutine[Any, Any, object], calls: int | None) -> None:
        """Begin an operation, when the former one has ended, and stop it after so many calls."""
        await self.finish()
        self.gate.let_through(calls)
        self.task = asyncio.create_task(_attempt(operation))
        await self._go()

    async def step(self, calls: int) -> None:
        """Let an operation that was stopped go on for so many calls."""
        if self.task is not None:
            self.gate.let_through(calls)
            await self._go()

    async def finish(self) -> None:
        """Let an operation that was stopped go on to its end."""
        self.gate.let_through(None)
        await self._go()

    async def _go(self) -> None:
        """Return when the operation has ended or is stopped; what waits for the clock gets its time."""
        turns = 0
        while self.task is not None and not self.task.done() and not self.gate.is_blocked:
            await turn()
            turns += 1
            if turns % _PATIENCE == 0:
                self.clock.advance(1)
                assert turns < 100 * _PATIENCE, f"{self.name} is stuck"
        if self.task is not None and self.task.done():
            ended, self.task = self.task, None
            self.gate.let_through(None)
            ended.result()


async def _attempt(operation: Coroutine[Any, Any, object]) -> None:
    with contextlib.suppress(MahavishnuError):
        await operation


class Deletions(RuleBasedStateMachine):
    """Three tasks that keep failing in three processes, and people who delete what failed."""

    places: Sequence[int]  # which local store each process has

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.diary, self.claims, self.exported = Diary(), list[Claim](), list[dict[str, Any]]()
        self.observer, self.memory = Observer(), MemoryStore()
        self.shared = self.observer.watch_shared(self.memory)
        locals_ = [self.observer.watch_local(MemoryStore()) for _ in SKEWS]
        self.locals = [locals_[place] for place in self.places]
        self.clocks = [ManualClock(START + skew) for skew in SKEWS]
        self.processes: list[Process] = []
        self.killed: list[Process] = []
        self.names = count()

    def run(self, what: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(what)

    @initialize()
    def start(self) -> None:
        self.processes = [self._new_process(who) for who in range(len(SKEWS))]
        for process in self.processes:
            self.run(process.begin(process.dlq.open(), None))

    def _new_process(self, who: int) -> Process:
        return Process(f"worker-{next(self.names)}", self.shared, self.locals[who], self.clocks[who])

    def _begin(self, who: int, operation: Callable[[Process], Coroutine[Any, Any, object]], calls: int | None) -> None:
        process = self.processes[who]
        self.run(process.begin(operation(process), calls))

    # --- what processes do

    @rule(who=WHO, task=TASKS, payload=PAYLOADS, automatic=st.booleans(), calls=CALLS)
    def capture(self, who: int, task: str, payload: int, automatic: bool, calls: int | None) -> None:
        self._begin(who, lambda process: self._capture(process, task, payload, automatic), calls)

    @rule(who=WHO, task=TASKS, payload=PAYLOADS, automatic=st.booleans(), fault=FAULTS, calls=CALLS)
    def capture_in_an_outage(
        self, who: int, task: str, payload: int, automatic: bool, fault: str, calls: int | None
    ) -> None:
        """The first write does not get through, or its answer does not."""
        self.run(self.processes[who].finish())
        getattr(self.processes[who].weather, fault)("write", times=1, kind=LETTERS)
        self.capture(who=who, task=task, payload=payload, automatic=automatic, calls=calls)

    async def _capture(self, process: Process, task: str, payload: int, automatic: bool) -> None:
        self.diary.tried[task] += 1
        if not automatic:
            self.diary.tell(task, await process.dlq.enqueue(task, {"n": payload}, [], ConnectionError("reset")))
            return
        request = LetterRequest(task_id=task, task={"n": payload})
        outcome = await process.integration.capture(request, ConnectionError("reset"))
        if outcome.letter is not None:
            self.diary.tell(task, outcome.letter)
        elif outcome.problem is not None:
            self.diary.tell_waiting(task, outcome.problem)

    @rule(who=WHO, calls=CALLS)
    def claim(self, who: int, calls: int | None) -> None:
        async def claim(process: Process) -> None:
            self.claims.extend(await process.dlq.claims.claim(process.name))

        self._begin(who, claim, calls)

    @rule(who=WHO, outcome=st.sampled_from(OUTCOMES), calls=CALLS)
    def settle(self, who: int, outcome: str, calls: int | None) -> None:
        if self.claims:
            claim = self.claims.pop(0)
            error = "connection reset" if outcome == "failed" else None
            self._begin(
                who,
                lambda process: process.dlq.claims.settle(claim.letter.task_id, claim.token, outcome, error=error),
                calls,
            )

    @rule(who=WHO, task=TASKS, act=ACTS, calls=CALLS)
    def act(self, who: int, task: str, act: str, calls: int | None) -> None:
        changes: dict[str, Any] = {"priority": 3} if act == "edit" else {}
        self._begin(who, lambda process: getattr(process.dlq.letters, act)(task, **changes), calls)

    @rule(who=WHO, calls=CALLS)
    def clear_all(self, who: int, calls: int | None) -> None:
        self._begin(who, lambda process: process.dlq.clear_all(), calls)

    @rule(who=WHO, calls=CALLS)
    def drain(self, who: int, calls: int | None) -> None:
        self._begin(who, lambda process: process.pair.drain(), calls)

    @rule(who=WHO, calls=CALLS)
    def admit(self, who: int, calls: int | None) -> None:
        self._begin(who, lambda process: process.dlq.intake.admit_waiting(), calls)

    @rule(who=WHO, calls=CALLS)
    def run_due(self, who: int, calls: int | None) -> None:
        self._begin(who, lambda process: process.dlq.run_due(), calls)

    @rule(who=WHO, calls=CALLS)
    def fold(self, who: int, calls: int | None) -> None:
        self._begin(who, lambda process: Ledger(process.dlq.context).fold(), calls)

    @rule()
    def export(self) -> None:
        async def export() -> list[Any]:
            async with DeadLetterQueue(store=self.memory, clock=self.clocks[0]) as dlq:
                return [json.loads(line) async for line in dlq.transfer.export(resolution=list(RESOLUTIONS))]

        self.exported = self.run(export())

    @rule(who=WHO, place=st.integers(0, 3), even_deleted=st.booleans(), calls=CALLS)
    def import_letter(self, who: int, place: int, even_deleted: bool, calls: int | None) -> None:
        """What was exported is in the store, or was deleted there: only who asks for that brings it back."""
        if place < len(self.exported):
            document = self.exported[place]
            if even_deleted:
                task = document["task_id"].partition("@")[0]
                self.diary.unsure[task] += document["generation"] + document.get("tally_deduplicated", 0)
                self.observer.deleted.pop(document["entry_id"], None)
            self._begin(
                who, lambda process: process.dlq.transfer.import_letter(document, even_deleted=even_deleted), calls
            )

    # --- what happens to them

    @rule(who=WHO, calls=st.integers(1, 8))
    def go_on(self, who: int, calls: int) -> None:
        self.run(self.processes[who].step(calls))

    @rule(who=WHO, cleanly=st.booleans())
    def end(self, who: int, cleanly: bool) -> None:
        """The process is shut down, or killed where it is; another one takes its place and its local store."""
        process = self.processes[who]
        if cleanly:
            self._begin(who, lambda process: process.dlq.shutdown(), None)
        else:
            process.gate.dead = True
            self.killed.append(process)
        self.processes[who] = self._new_process(who)
        self._begin(who, lambda process: process.dlq.open(), None)

    @rule(who=WHO, fault=st.one_of(st.none(), FAULTS), times=st.sampled_from([1, 2, None]))
    def change_the_weather(self, who: int, fault: str | None, times: int | None) -> None:
        self.processes[who].local_weather.clear()
        change_fault(self.processes[who].weather, fault, times)

    @rule(who=WHO, times=st.sampled_from([1, 3]))
    def fill_the_disk(self, who: int, times: int) -> None:
        self.processes[who].local_weather.item_unavailable("write", times=times)

    @rule(minutes=st.sampled_from([0.1, 1, 6, 60]))
    def let_time_pass(self, minutes: float) -> None:
        for clock in self.clocks:
            clock.advance(minutes=minutes)

    @rule()
    def let_a_month_pass(self) -> None:
        """A tombstone is known for as long as anything may come home that it knows; then it may be added up."""
        self.run(self._come_home())
        if not self.run(self._count_waiting()):
            self.exported.clear()
            for clock in self.clocks:
                clock.advance(timedelta(days=31))

    async def _count_waiting(self) -> int:
        return sum([await process.dlq.context.waiting.count() for process in self.processes])

    # --- the end

    def teardown(self) -> None:
        if not self.processes:
            return
        try:
            self.run(self._come_home())
            self.run(self._check())
        finally:
            for process in (*self.killed, *self.processes):
                process.gate.dead = True
            self.runner.get_loop().set_exception_handler(lambda loop, context: None)
            self.runner.close()

    async def _come_home(self) -> None:
        """All is reachable again; what was stopped goes on to its end, and what is due is run."""
        for process in self.processes:
            process.weather.clear()
            process.local_weather.clear()
            await process.finish()
        for _ in range(20):
            at_home = True
            for process in self.processes:
                process.clock.advance(minutes=20)
                await process.begin(process.dlq.run_due(), None)
                drained = await process.pair.drain()
                health = await process.pair.health()
                at_home &= not drained.waiting and drained.stopped is None and not health.waiting
                at_home &= not await process.dlq.list_tasks(DeadLetterStatus.RETRYING)
            if at_home:
                break
        else:
            raise AssertionError(f"letters do not go home: {[await each.pair.health() for each in self.processes]}")

    async def _check(self) -> None:
        for process in self.processes:
            await process.begin(Ledger(process.dlq.context).fold(), None)
            await process.begin(process.dlq.shutdown(), None)
        async with DeadLetterQueue(store=self.memory, clock=self.clocks[0]) as dlq:
            found = await check(dlq, self.diary, self.observer.deleted, self.observer.folded)
        assert not found.problems, found.problems
        assert not self.observer.problems, self.observer.problems


def run_machine(places: Sequence[int], *, examples: int, steps: int) -> None:
    numbers = count()
    with patch.object(ids, "_draw_random", lambda: next(numbers).to_bytes(10)):  # the same ids at each try
        run_state_machine_as_test(
            type("Letters", (Deletions,), {"places": places}),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,  # a busy machine is no bug
                database=None,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )


@pytest.mark.parametrize("examples", [40, pytest.param(200, marks=pytest.mark.prove)])
@pytest.mark.parametrize("places", [(0, 1, 2), (0, 0, 1)], ids=["a local store each", "two share one"])
def test_what_was_deleted_stays_deleted_and_nothing_else_goes(places: Sequence[int], examples: int) -> None:
    run_machine(places, examples=examples, steps=50)

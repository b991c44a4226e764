"""Random failures, runs and outages on a fallback store: once the primary is back, everything acknowledged is there."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, rule, run_state_machine_as_test

from mahavishnu.model import lifecycle, tombstones
from mahavishnu.model.errors import IllegalMove, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RetryPolicy
from mahavishnu.model.lifecycle import Move
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import Store, get_one, scan, write_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.fallback.drain import local_copy_kind
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock, make_failure, make_letter
from tests.support.outages import OUTAGES, change_fault
from tests.support.writers import SETTLING, moved

R = TypeVar("R")
TASKS = st.sampled_from(["a", "b"])
OFFICES = st.integers(0, 1)
RUNS = Bundle("runs")
WEATHER = st.sampled_from([None, *OUTAGES])
BY_PEOPLE = st.sampled_from([Move.RESOLVE, Move.CANCEL, Move.GIVE_UP, Move.REQUEUE, Move.ARCHIVE])


class Office:
    """One process: its own way to the shared primary store, and to a local one."""

    def __init__(self, primary: Store, make_local: Callable[[], Store], clock: ManualClock) -> None:
        self.faults, self.clock = Faults(), clock
        self.primary, self.make_local = primary, make_local
        self.make()

    def make(self) -> None:
        self.local = self.make_local()
        self.store = FallbackStore(FaultyStore(self.primary, self.faults), self.local, clock=self.clock)
        self.letters, self.history = self.store.collection(LETTERS), self.store.collection(HISTORY)


class Outages(RuleBasedStateMachine):
    """Two tasks that keep failing in two processes, while the primary store comes and goes."""

    make_primary: Callable[[], Store]
    make_locals: Callable[[str], Callable[[int], Store]]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.clock = ManualClock()
        self.namespace = "m" + secrets.token_hex(4)
        self.acknowledged = self.doubtful = 0  # failures that were to be captured
        self.settled: Counter[str] = Counter()
        self.perhaps_settled: set[str] = set()
        self.running: dict[str, tuple[str, datetime]] = {}  # by entry: whose token, until when
        self.tokens = 0
        self.primary = self.make_primary()
        make_local = self.make_locals(self.namespace)
        self.offices = [Office(self.primary, partial(make_local, number), self.clock) for number in (0, 1)]
        for office in self.offices:
            self.run(office.store.open())

    def run(self, what: Coroutine[Any, Any, R]) -> R:
        return self.loop.run(what)

    @rule(who=OFFICES, task=TASKS)
    def fail(self, who: int, task: str) -> None:
        self.clock.advance(1)
        self.run(self.capture(self.offices[who], task))

    @rule(target=RUNS, who=OFFICES, task=TASKS)
    def claim(self, who: int, task: str) -> Any:
        self.tokens += 1
        token = f"token-{self.tokens}"
        run = self.run(self.move(self.offices[who], task, Move.CLAIM, token))
        if run is None or run.lease is None:
            return multiple()
        assert run.due_at is not None
        other, until = self.running.get(run.entry_id, ("", self.clock.now()))
        assert until <= self.clock.now() or self.settled[other] or other in self.perhaps_settled, (
            "an entry is run by two at once"
        )
        self.running[run.entry_id] = token, run.due_at
        return who, run

    @rule(run=RUNS, move=st.sampled_from(sorted(SETTLING)))
    def settle(self, run: tuple[int, DeadLetter], move: Move) -> None:
        who, seen = run
        assert seen.lease is not None
        if self.run(self.move(self.offices[who], seen.task_id, move, seen.lease.token)) is not None:
            self.settled[seen.lease.token] += 1

    @rule(who=OFFICES, task=TASKS, move=BY_PEOPLE)
    def a_person_acts(self, who: int, task: str, move: Move) -> None:
        self.run(self.move(self.offices[who], task, move, ""))

    @rule(who=OFFICES, fault=WEATHER, times=st.sampled_from([1, 2, None]))
    def change_the_weather(self, who: int, fault: str | None, times: int | None) -> None:
        change_fault(self.offices[who].faults, fault, times)

    @rule(who=OFFICES)
    def drain(self, who: int) -> None:
        self.run(self.offices[who].store.drain())

    @rule(minutes=st.sampled_from([1, 6]))
    def let_time_pass(self, minutes: int) -> None:
        self.clock.advance(minutes=minutes)

    @rule(who=OFFICES, task=TASKS)
    def delete(self, who: int, task: str) -> None:
        self.run(self.remove(self.offices[who], task))

    @rule(who=OFFICES)
    def restart(self, who: int) -> None:
        office = self.offices[who]
        self.run(office.store.close())
        self.run(self.primary.open())  # which this test shares between the two
        office.make()
        self.run(office.store.open())

    def teardown(self) -> None:
        try:
            self.run(self.come_home())
            self.run(self.check())
        finally:
            for office in self.offices:
                self.run(office.store.close())
            self.loop.close()

    async def capture(self, office: Office, task: str) -> None:
        """As the product does it: create; if there is one, merge or begin the next generation."""
        now = self.clock.now()
        failure = make_failure(f"failure {self.clock.monotonic()}", at=now)
        fresh = lifecycle.new_letter(
            make_letter(
                task_id=task,
                namespace=self.namespace,
                created_at=now,
                failures=(failure,),
                retry_policy=RetryPolicy.IMMEDIATE,
            )
        )
        try:
            stored = await write_one(office.letters, fresh)
            if stored is None and (there := await get_one(office.letters, fresh.key)) is not None:
                if there.is_open:
                    stored = await write_one(office.letters, lifecycle.merge(there, failure, now))
                else:
                    former, successor = lifecycle.next_generation(there, fresh)
                    if not there.is_deleted:
                        await write_one(office.history, former)
                    stored = await write_one(office.letters, successor)
        except StoreUnavailable as problem:
            self.doubtful += problem.maybe_written
        else:
            self.acknowledged += stored is not None

    async def move(self, office: Office, task: str, move: Move, token: str) -> DeadLetter | None:
        key = make_letter(task_id=task, namespace=self.namespace).key
        try:
            there = await get_one(office.letters, key)
            if there is None:
                return None
            written = await write_one(office.letters, moved(there, move, self.clock, token))
        except IllegalMove:
            return None
        except StoreUnavailable as problem:
            if problem.maybe_written and move in SETTLING:
                self.perhaps_settled.add(token)
            return None
        assert written is None or move not in SETTLING or (there.lease and there.lease.token == token)
        return written

    async def remove(self, office: Office, task: str) -> None:
        """Any letter, as the product does it: by one write it becomes a tombstone."""
        key = make_letter(task_id=task, namespace=self.namespace).key
        with contextlib.suppress(StoreUnavailable):
            there = await get_one(office.letters, key)
            if there is not None and not there.is_deleted:
                await write_one(office.letters, tombstones.delete(there, now=self.clock.now(), by="ann"))

    async def come_home(self) -> None:
        """The primary is back for good; runs that nobody ends run out."""
        for office in self.offices:
            office.faults.clear()
        for _ in range(10):
            waiting = 0
            for office in self.offices:
                await office.store.drain()
                waiting += (await office.store.health()).waiting
            if not waiting:
                return
            self.clock.advance(minutes=10)
            for office in self.offices:
                for task in ("a", "b"):
                    if await self.move(office, task, Move.CLAIM, "last") is not None:
                        await self.move(office, task, Move.RELEASE, "last")
        raise AssertionError(f"letters do not go home: {[await office.store.health() for office in self.offices]}")

    async def check(self) -> None:
        where = Query((Is("namespace", (self.namespace,)),))
        live = [letter async for letter in scan(self.primary.collection(LETTERS), where)]
        former = [letter async for letter in scan(self.primary.collection(HISTORY), where)]
        for office in self.offices:
            assert [held async for held in scan(office.local.collection(local_copy_kind(LETTERS)), where)] == []
            assert [letter async for letter in scan(office.letters, where)] == live
        assert not [letter for letter in (*live, *former) if lifecycle.violations(letter)]
        assert max(self.settled.values(), default=1) == 1, "a claim was settled twice"
        kept = sum(captured(letter) for letter in live)
        assert self.acknowledged <= kept, "an acknowledged failure is lost"
        assert kept <= self.acknowledged + self.doubtful, "a failure was counted twice"


def captured(letter: DeadLetter) -> int:
    """How many failures a letter, or what is left of it, stands for."""
    return letter.generation + letter.tallies.deduplicated


def outages(make_primary: Callable[[], Store], make_locals: Callable[[str], Callable[[int], Store]]) -> type[Outages]:
    stores = {"make_primary": staticmethod(make_primary), "make_locals": staticmethod(make_locals)}
    return type("Letters", (Outages,), stores)


def memory_stores(shared: bool) -> Callable[[str], Callable[[int], Store]]:
    def make_locals(name: str) -> Callable[[int], Store]:
        stores = [MemoryStore(), MemoryStore()]
        return lambda number: stores[0 if shared else number]

    return make_locals


def run_machine(
    make_primary: Callable[[], Store],
    make_locals: Callable[[str], Callable[[int], Store]],
    *,
    examples: int,
    steps: int,
) -> None:
    run_state_machine_as_test(
        outages(make_primary, make_locals),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,  # a busy machine is no bug
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


shared = pytest.mark.parametrize("shared", [False, True], ids=["a local store each", "one local store"])


@shared
@pytest.mark.parametrize("examples", [60, pytest.param(300, marks=pytest.mark.prove)])
def test_memory_and_memory(shared: bool, examples: int) -> None:
    run_machine(MemoryStore, memory_stores(shared), examples=examples, steps=60)


@shared
@pytest.mark.parametrize("move", [Move.RESOLVE, Move.CANCEL, Move.GIVE_UP, Move.REQUEUE, Move.ARCHIVE])
@pytest.mark.parametrize("actor", [0, 1])
def test_a_run_that_nobody_ends_does_not_keep_the_other_letter_from_home(shared: bool, move: Move, actor: int) -> None:
    """One local store for both hides the letter that the run has left behind: nobody can claim it."""
    letters = outages(MemoryStore, memory_stores(shared))()
    letters.fail(task="a", who=0)
    letters.change_the_weather(fault="unavailable", times=1, who=0)
    letters.fail(task="a", who=0)
    letters.claim(task="a", who=1)
    letters.a_person_acts(move=move, task="a", who=actor)
    letters.teardown()


@shared
@pytest.mark.opensearch
def test_opensearch_and_sqlite(shared: bool, opensearch_url: str, opensearch_prefix: str, tmp_path: Path) -> None:
    def make_locals(name: str) -> Callable[[int], Store]:
        return lambda number: SQLiteStore(tmp_path / f"{name}-{0 if shared else number}.db", synchronous="OFF")

    run_machine(
        lambda: OpenSearchStore([opensearch_url], prefix=opensearch_prefix, timeout=30),
        make_locals,
        examples=12,
        steps=40,
    )

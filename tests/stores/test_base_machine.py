"""Random writers on every store, with stale views, faults and restarts: nothing is lost, nothing happens twice."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, precondition, rule, run_state_machine_as_test

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import RetryPolicy
from mahavishnu.model.lifecycle import TABLE, Move
from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock
from tests.support.writers import SETTLING, Writers

R = TypeVar("R")
TASKS = st.sampled_from(["a", "b", "c"])
POLICIES = st.sampled_from([RetryPolicy.IMMEDIATE, RetryPolicy.IMMEDIATE, *RetryPolicy])
SEEN = Bundle("seen")  # letters as somebody has seen them, now or long ago
RUNS = Bundle("runs")  # letters as they were claimed
OUTAGES = ("unavailable", "answer_lost", "conflict", "item_failed", "item_unavailable", "item_answer_lost")


class Machine(RuleBasedStateMachine):
    """Three tasks that keep failing, and writers who know more or less of them."""

    make_store: Callable[[], Store]
    durable: bool

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.clock, self.faults = ManualClock(), Faults()
        inner = self.make_store()
        self.run(inner.open())
        self.writers = Writers(FaultyStore(inner, self.faults), inner, "m" + secrets.token_hex(4), self.clock)

    def run(self, what: Coroutine[Any, Any, R]) -> R:
        return self.loop.run(what)

    @rule(task=TASKS, policy=POLICIES, budget=st.integers(0, 2))
    def capture(self, task: str, policy: RetryPolicy, budget: int) -> None:
        self.run(self.writers.capture(task, retry_policy=policy, max_retries=budget))

    @rule(task=TASKS)
    def capture_blindly(self, task: str) -> None:
        """Without a look whether there is one: as two do who have looked at the same moment."""
        self.run(self.writers.write(self.writers.draft(task)))

    @rule(target=SEEN, task=TASKS)
    def look(self, task: str) -> Any:
        return _maybe(self.run(self.writers.look(task)))

    @rule(target=RUNS, task=TASKS, later=st.sampled_from([0, 0, 6]))
    def claim(self, task: str, later: int) -> Any:
        """As a processor does it, right after it has found the letter; perhaps when somebody's lease has run out."""
        self.clock.advance(minutes=later)
        found = self.run(self.writers.look(task))
        return _maybe(found and self.run(self.writers.move(found, Move.CLAIM)))

    @rule(target=SEEN, task=TASKS, data=st.data())
    def act(self, task: str, data: st.DataObject) -> Any:
        """Somebody looks and does at once what the letter's status allows."""
        found = self.run(self.writers.look(task))
        return _maybe(found and self.run(self.writers.move(found, _allowed(data, found))))

    @rule(target=SEEN, seen=st.one_of(SEEN, RUNS), data=st.data())
    def act_late(self, seen: DeadLetter, data: st.DataObject) -> Any:
        """The same, from what was seen at some time or other."""
        return _maybe(self.run(self.writers.move(seen, _allowed(data, seen))))

    @rule(seen=RUNS, move=st.sampled_from(sorted(SETTLING)))
    def settle(self, seen: DeadLetter, move: Move) -> None:
        self.run(self.writers.settle(seen, move))

    @rule(seen=SEEN)
    def purge(self, seen: DeadLetter) -> None:
        self.run(self.writers.purge(seen))

    @rule(minutes=st.sampled_from([1, 6, 6, 61, -30]))
    def let_time_pass(self, minutes: int) -> None:
        if minutes > 0:
            self.clock.advance(minutes=minutes)
        else:  # a machine's clock was corrected
            self.clock.set(self.clock.now() + timedelta(minutes=minutes))

    @rule(fault=st.sampled_from([None, *OUTAGES]), times=st.integers(1, 3))
    def change_the_weather(self, fault: str | None, times: int) -> None:
        self.faults.clear()
        if fault is not None:
            planned = getattr(self.faults, fault)(times=times)
            self.writers.conflicts += [planned] if fault == "conflict" else []

    @precondition(lambda self: self.durable)
    @rule()
    def restart(self) -> None:
        self.run(self.writers.truth.close())
        inner = self.make_store()
        self.run(inner.open())
        self.writers.store, self.writers.truth = FaultyStore(inner, self.faults), inner

    def teardown(self) -> None:
        try:
            self.run(self.writers.check())
        finally:
            self.run(self.writers.truth.close())
            self.loop.close()


def _allowed(data: st.DataObject, letter: DeadLetter) -> Move:
    return data.draw(st.sampled_from(sorted(TABLE[letter.status])))


def _maybe(letter: DeadLetter | None) -> Any:
    """For the bundle."""
    return multiple() if letter is None else letter


def run_machine(make_store: Callable[[], Store], *, durable: bool, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        type("Letters", (Machine,), {"make_store": staticmethod(make_store), "durable": durable}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,  # a busy machine is no bug
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


@pytest.mark.parametrize("examples", [60, pytest.param(300, marks=pytest.mark.prove)])
def test_memory(examples: int) -> None:
    run_machine(MemoryStore, durable=False, examples=examples, steps=80)


def test_sqlite(tmp_path: Path) -> None:
    run_machine(lambda: SQLiteStore(tmp_path / "letters.db", synchronous="OFF"), durable=True, examples=40, steps=40)


@pytest.mark.opensearch
def test_opensearch(opensearch_url: str, opensearch_prefix: str) -> None:
    run_machine(
        lambda: OpenSearchStore([opensearch_url], prefix=opensearch_prefix, timeout=30),
        durable=True,
        examples=12,
        steps=40,
    )


@pytest.mark.opensearch
def test_fallback(opensearch_url: str, opensearch_prefix: str, tmp_path: Path) -> None:
    run_machine(
        lambda: FallbackStore(
            OpenSearchStore([opensearch_url], prefix=opensearch_prefix, timeout=30),
            SQLiteStore(tmp_path / "letters.db", synchronous="OFF"),
        ),
        durable=True,
        examples=12,
        steps=40,
    )

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

from mahavishnu.model.letter import DeadLetter, RetryPolicy
from mahavishnu.model.lifecycle import Move
from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock
from tests.contract.writers import SETTLING, Writers

R = TypeVar("R")
TASKS = st.sampled_from(["a", "b", "c"])
SEEN = Bundle("seen")  # letters as somebody has seen them, now or long ago
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

    @rule(task=TASKS, policy=st.sampled_from(RetryPolicy), budget=st.integers(0, 2))
    def capture(self, task: str, policy: RetryPolicy, budget: int) -> None:
        self.run(self.writers.capture(task, retry_policy=policy, max_retries=budget))

    @rule(target=SEEN, task=TASKS)
    def look(self, task: str) -> Any:
        letter = self.run(self.writers.look(task))
        return multiple() if letter is None else letter

    @rule(target=SEEN, seen=SEEN, move=st.sampled_from(Move))
    def move(self, seen: DeadLetter, move: Move) -> Any:
        letter = self.run(self.writers.move(seen, move))
        return multiple() if letter is None else letter

    @rule(target=SEEN, task=TASKS)
    def claim(self, task: str) -> Any:
        """As a processor does it, right after it has found the letter due."""
        found = self.run(self.writers.look(task))
        letter = found and self.run(self.writers.move(found, Move.CLAIM))
        return multiple() if letter is None else letter

    @rule(seen=SEEN, move=st.sampled_from(sorted(SETTLING)))
    def settle(self, seen: DeadLetter, move: Move) -> None:
        self.run(self.writers.settle(seen, move))

    @rule(seen=SEEN)
    def purge(self, seen: DeadLetter) -> None:
        self.run(self.writers.purge(seen))

    @rule(minutes=st.sampled_from([1, 6, 61, -30]))
    def let_time_pass(self, minutes: int) -> None:
        if minutes > 0:
            self.clock.advance(minutes=minutes)
        else:  # a machine's clock was corrected
            self.clock.set(self.clock.now() + timedelta(minutes=minutes))

    @rule(fault=st.sampled_from(OUTAGES), times=st.integers(1, 3))
    def break_it(self, fault: str, times: int) -> None:
        planned = getattr(self.faults, fault)(times=times)
        if fault == "conflict":
            self.writers.conflicts.append(planned)

    @rule()
    def repair_it(self) -> None:
        self.faults.clear()

    @precondition(lambda self: self.durable)
    @rule()
    def restart(self) -> None:
        self.run(self.writers.truth.close())
        inner = self.make_store()
        self.run(inner.open())
        self.writers.store, self.writers.truth = FaultyStore(inner, self.faults), inner

    @rule()
    def check(self) -> None:
        self.run(self.writers.check())

    def teardown(self) -> None:
        try:
            self.run(self.writers.check())
        finally:
            self.run(self.writers.truth.close())
            self.loop.close()


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


def test_memory() -> None:
    run_machine(MemoryStore, durable=False, examples=150, steps=50)


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

"""Random failures with few task ids and payloads: each captured payload is somewhere at each moment, until it is done.

Two processes share a primary store that comes and goes; each has a local one, and a queue with little room. A payload
that was captured is done with a run of it that began later and succeeded, or with the act of a person. Until then there
is an open letter of that work, in one of the stores or in the waiting room.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test

from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import IllegalMove, LostLease, NoSuchLetter, StoreError
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.model.work import original_task_id
from mahavishnu.stores.base import scan
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.fallback.drain import local_copy_kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock
from mahavishnu.values.payload import LetterRequest
from mahavishnu.workers.claims import Claim
from tests.support.outages import change_fault

R = TypeVar("R")
Work = tuple[str, int]  # a task id and the number that is its payload
OFFICES = st.integers(0, 1)
TASKS = st.sampled_from(["a", "a", "b"])
PAYLOADS = st.sampled_from([1, 1, 2, 3])
WEATHER = st.sampled_from([None, None, "unavailable", "answer_lost", "request_lost", "item_answer_lost"])
ACTS = st.sampled_from(["resolve", "cancel", "fail", "archive", "redrive"])
CLAIMS = Bundle("claims")


def is_work_of(letter: DeadLetter, number: int) -> bool:
    """Whether the letter has this payload, or was captured with it and then edited."""
    payload = {"n": number}
    return bool(letter.task == payload) or letter.captured_digest == Json.of(payload).digest


class Office:
    """One process."""

    def __init__(self, primary: MemoryStore, clock: ManualClock) -> None:
        self.faults, self.local = Faults(), MemoryStore()
        self.store = FallbackStore(FaultyStore(primary, self.faults), self.local, clock=clock)
        self.dlq = DeadLetterQueue(4, store=self.store, clock=clock)
        self.integration = DLQIntegration(None, self.dlq)


class Payloads(RuleBasedStateMachine):
    """What has to be done is `owed`, with the step at which it was captured last."""

    def __init__(self) -> None:
        super().__init__()
        self.loop, self.clock, self.primary = asyncio.Runner(), ManualClock(), MemoryStore()
        self.step = 0
        self.owed: dict[Work, int] = {}
        self.steps: list[tuple[datetime, int]] = []  # when something was captured, and which step that was
        self.offices = [Office(self.primary, self.clock) for _ in range(2)]
        for office in self.offices:
            self.run(office.dlq.open())

    def run(self, what: Coroutine[Any, Any, R]) -> R:
        return self.loop.run(what)

    @rule(who=OFFICES, failures=st.lists(st.tuples(TASKS, PAYLOADS), min_size=1, max_size=4))
    def fail(self, who: int, failures: list[Work]) -> None:
        """Some runs fail in the same moment."""
        self.clock.advance(1)
        self.run(self.capture(self.offices[who], failures))
        self.step += 1
        self.steps.append((self.clock.now(), self.step))
        self.owed |= dict.fromkeys(failures, self.step)

    async def capture(self, office: Office, failures: list[Work]) -> None:
        requests = [LetterRequest(name, {"n": n}, retry_policy="immediate", max_retries=100) for name, n in failures]
        outcomes = [office.integration.capture(request, "connection refused") for request in requests]
        for (_, number), outcome in zip(failures, await asyncio.gather(*outcomes), strict=True):
            assert outcome.letter is not None or "waits" in str(outcome.problem)
            assert outcome.letter is None or is_work_of(outcome.letter, number)

    @rule(target=CLAIMS, who=OFFICES, count=st.integers(1, 2))
    def claim(self, who: int, count: int) -> Any:
        self.step += 1
        try:
            claims = self.run(self.offices[who].dlq.claims.claim("w", limit=count, lease_seconds=600))
        except StoreError:
            return multiple()
        return multiple(*((who, claim, self.step) for claim in claims))

    @rule(run=CLAIMS, outcome=st.sampled_from(["succeeded", "succeeded", "failed", "released"]))
    def settle(self, run: tuple[int, Claim, int], outcome: str) -> None:
        who, claim, began = run
        error = "connection refused" if outcome == "failed" else None
        try:
            letter = claim.letter
            self.run(self.offices[who].dlq.claims.settle(letter.task_id, claim.token, outcome, error=error))
        except (LostLease, NoSuchLetter):
            return
        except StoreError:
            pass  # it may have landed
        if outcome == "succeeded":
            self.is_done(claim.letter, before=began)

    @rule(who=OFFICES, task=TASKS, payload=PAYLOADS, age=st.integers(0, 3))
    def succeed(self, who: int, task: str, payload: int, age: int) -> None:
        """A run of the application that began some time ago: what was captured since is not its success."""
        closing, began = self.offices[who].dlq.closing, self.clock.now() - timedelta(seconds=age)
        done = [letter for letter in self.run(self.everywhere()) if letter.task == {"n": payload}]
        request = LetterRequest(task, {"n": payload}, ())
        closing.note_success(task, lambda: request, began=began)
        self.run(closing.flush())
        before = min([step for when, step in self.steps if when > began], default=self.step + 1)
        for letter in done:
            if task in (letter.task_id, original_task_id(letter)):
                self.is_done(letter, before=before)

    @rule(who=OFFICES, task=TASKS, payload=PAYLOADS, act=ACTS, other=st.booleans())
    def a_person_acts(self, who: int, task: str, payload: int, act: str, other: bool) -> None:
        self.run(self.act(self.offices[who], self.name_of(task, payload, other), act))

    @rule(who=OFFICES, task=TASKS, payload=PAYLOADS, to=PAYLOADS, other=st.booleans())
    def a_person_edits(self, who: int, task: str, payload: int, to: int, other: bool) -> None:
        self.run(self.act(self.offices[who], self.name_of(task, payload, other), "edit", task={"n": to}))

    def name_of(self, task: str, payload: int, other: bool) -> str:
        return f"{task}@{Json.of({'n': payload}).digest}" if other else task

    async def act(self, office: Office, name: str, act: str, **arguments: Any) -> None:
        before = [letter for letter in await self.everywhere() if letter.task_id == name]
        try:
            await getattr(office.dlq.letters, act)(name, **arguments)
        except (IllegalMove, NoSuchLetter):
            return
        except StoreError:
            pass  # it may have landed
        for letter in before:
            if act == "edit":  # what it was is in its revisions, and no longer what has to be done
                self.is_done(letter, before=self.step + 1, captured=False)
            elif act != "redrive":
                self.is_done(letter, before=self.step + 1)

    def is_done(self, letter: DeadLetter, before: int, captured: bool = True) -> None:
        name = original_task_id(letter) or letter.task_id
        for task, number in [work for work, when in self.owed.items() if when < before]:
            was_edited_in = letter.captured_digest not in (None, Json.of({"n": number}).digest)
            if task == name and is_work_of(letter, number) and (captured or was_edited_in):
                del self.owed[task, number]

    @rule(who=OFFICES, fault=WEATHER, times=st.sampled_from([1, 2, None]))
    def change_the_weather(self, who: int, fault: str | None, times: int | None) -> None:
        change_fault(self.offices[who].faults, fault, times)

    @rule(who=OFFICES)
    def drain(self, who: int) -> None:
        self.run(self.offices[who].store.drain())

    @rule(who=OFFICES)
    def admit(self, who: int) -> None:
        with contextlib.suppress(StoreError):
            self.run(self.offices[who].dlq.intake.admit_waiting())

    @rule(seconds=st.sampled_from([1, 601]))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.advance(seconds)

    async def everywhere(self) -> list[DeadLetter]:
        """Every letter in any store, whatever a queue would show of them, and all that waits."""
        found: list[DeadLetter] = [letter async for letter in scan(self.primary.collection(LETTERS), Query())]
        found += [letter async for letter in scan(self.primary.collection(WAITING), Query())]
        for office in self.offices:
            for kind in (LETTERS, WAITING):
                kept = office.local.collection(local_copy_kind(kind))
                found += [held.record async for held in scan(kept, Query())]
            found += office.dlq.context.waiting.in_memory
        return found

    @invariant()
    def what_is_owed_is_there(self) -> None:
        there = [letter for letter in self.run(self.everywhere()) if letter.is_open]
        for task, number in self.owed:
            names = [each for each in there if task in (each.task_id, original_task_id(each))]
            assert any(is_work_of(each, number) for each in names), f"the payload {number} of {task} is lost"

    def teardown(self) -> None:
        try:
            self.run(self.come_home())
            self.what_is_owed_is_there()
        finally:
            for office in self.offices:
                self.run(office.dlq.shutdown())
            self.loop.close()

    async def come_home(self) -> None:
        """Everything goes home, and finds room; then each work is one open letter."""
        for office in self.offices:
            office.faults.clear()
            office.dlq.context.capacity.max_size = 100
        self.clock.advance(3600)
        for _ in range(5):
            for office in self.offices:
                await office.store.drain()
                await office.dlq.intake.admit_waiting()
            waiting = [await office.dlq.context.waiting.count() for office in self.offices]
            left = [(await office.store.health()).waiting for office in self.offices]
            if not any((*waiting, *left)):
                break
            self.clock.advance(3600)
        else:
            raise AssertionError(f"letters do not go home: {waiting}, {left}")
        letters = [letter async for letter in scan(self.primary.collection(LETTERS), Query())]
        assert not [letter for letter in letters if lifecycle.violations(letter)]


def test_no_payload_is_dropped() -> None:

    run_state_machine_as_test(
        Payloads,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,  # a busy machine is no bug
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )

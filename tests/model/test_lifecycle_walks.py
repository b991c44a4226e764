"""Random walks: many letters, many hands, clocks that jump. What holds for every letter holds after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime, timedelta
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mahavishnu.model import lifecycle
from mahavishnu.model.errors import IllegalMove, LostLease
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.letter_parts import KEPT_FAILURES, DeadLetterStatus, RequeueOutcome, Tallies
from mahavishnu.model.lifecycle import MAX_RECOVERIES, TABLE, Move, violations
from mahavishnu.model.work import Success
from tests.support.letters import NOON, draft, failure

TASKS = st.sampled_from(["wf_1", "wf_2", "wf_3"])
POLICIES = st.sampled_from(["exponential", "linear", "immediate", "never"])
LEASE = timedelta(minutes=5)
SETTLING: dict[str, Callable[[DeadLetter, str, datetime], DeadLetter]] = {
    "renew": lambda letter, token, now: lifecycle.renew(letter, token=token, until=now + LEASE, now=now),
    "release": lambda letter, token, now: lifecycle.release(letter, token=token, now=now),
    "succeed": lambda letter, token, now: lifecycle.succeed(letter, token=token, now=now),
    "fail": lambda letter, token, now: lifecycle.fail(letter, token=token, failure=failure("no", now), now=now),
    "exhaust": lambda letter, token, now: lifecycle.exhaust(letter, token=token, failure=failure("no", now), now=now),
}
BY_PEOPLE: dict[str, Callable[..., DeadLetter]] = {
    "redrive": lambda letter, now: lifecycle.redrive(letter, now=now),
    "restore": lambda letter, now: lifecycle.restore(letter, now=now),
    "requeue": lambda letter, now: lifecycle.requeue(letter, now=now, by="ada"),
    "resolve": lambda letter, now: lifecycle.resolve(letter, now=now, by="ada"),
    "cancel": lambda letter, now: lifecycle.cancel(letter, now=now, by="ada"),
    "give up": lambda letter, now: lifecycle.give_up(letter, now=now, by="ada"),
    "archive": lambda letter, now: lifecycle.archive(letter, now=now, by="ada"),
}
# What is counted for good: only a manual retry that was given back unrun is taken back.
LASTING = [tally.name for tally in fields(Tallies) if tally.name != "manually_retried"]
CLOSINGS = ("retry_success", "requeued", "permanently_failed", "manually_resolved", "cancelled", "archived")


class Office(RuleBasedStateMachine):
    """A dead-letter office without a store: the letters, what was done to them, and who holds what."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.live: dict[str, DeadLetter] = {}
        self.former: list[FormerLetter] = []
        self.tokens: dict[str, list[str]] = {}  # of each task, the newest last
        self.runs: Counter[str] = Counter()  # of each letter: claimed and not given back
        self.done: Counter[str] = Counter()  # what was counted beside the letters
        self.number = count(1)

    # -------------------------------------------------------------------------------------------------- what happens

    @rule(step=st.timedeltas(timedelta(hours=-1), timedelta(hours=2)))
    def the_clock_jumps(self, step: timedelta) -> None:
        self.now += step

    @rule(task=TASKS)
    def the_date_comes(self, task: str) -> None:
        """So that walks get somewhere."""
        letter = self.live.get(task)
        if letter is not None and letter.due_at is not None:
            self.now = max(self.now, letter.due_at)

    @rule(task=TASKS, policy=POLICIES, budget=st.integers(0, 4), repo=st.sampled_from(["api", "web"]))
    def the_apps_run_fails(self, task: str, policy: str, budget: int, repo: str) -> None:
        now = self.now
        letter = self.live.get(task)
        if letter is not None and letter.is_open:
            merged = self.step(task, Move.MERGE, lambda: lifecycle.merge(letter, failure("again", now), now, (repo,)))
            assert merged is not None
            self.done["deduplicated"] += 1
            return
        fields: dict[str, Any] = {
            "task_id": task,
            "entry_id": f"entry-{next(self.number)}",
            "retry_policy": policy,
            "repos": (repo,),
        }
        moments = {"created_at": now, "failed_at": now, "updated_at": now}
        fresh = lifecycle.new_letter(draft(**fields, **moments, max_retries=budget, failures=(failure("first", now),)))
        self.done["letters"] += 1
        self.done["exhausted"] += fresh.status is DeadLetterStatus.EXHAUSTED
        if letter is not None:
            former, successor = lifecycle.next_generation(letter, fresh)
            assert former == FormerLetter.of(letter)
            assert successor.tallies == letter.tallies.combine(fresh.tallies)
            self.former.append(former)
            fresh = successor
        self.live[task] = fresh

    @rule(task=TASKS, repos=st.sampled_from([(), ("api",), ("api", "web")]), age=st.integers(0, 2))
    def the_app_succeeds(self, task: str, repos: tuple[str, ...], age: int) -> None:
        """Some hours after it began."""
        letter = self.live.get(task)
        if letter is None:
            return
        success = Success(letter.payload, None, repos, self.now - timedelta(hours=age))
        if not letter.is_open:
            with pytest.raises(IllegalMove):
                lifecycle.close_by_success(letter, success, now=self.now)
        elif lifecycle.close_by_success(letter, success, now=self.now) is not letter:
            assert letter.captured_at <= success.began
            after = self.step(
                task, Move.CLOSE_BY_SUCCESS, lambda: lifecycle.close_by_success(letter, success, now=self.now)
            )
            assert after is not None
            self.done["manually_resolved"] += not after.is_open

    @rule(task=TASKS, manual=st.booleans())
    def somebody_claims(self, task: str, manual: bool) -> None:
        letter = self.live.get(task)
        if letter is None:
            return
        token = f"token-{next(self.number)}"

        def claim() -> DeadLetter:
            return lifecycle.claim(letter, owner="w", token=token, until=self.now + LEASE, now=self.now, manual=manual)

        after = self.step(task, Move.CLAIM, claim)
        if after is not None and after.lease is not None:
            assert after.lease.token == token
            self.tokens.setdefault(task, []).append(token)
            self.runs[letter.entry_id] += 1
            self.done["manually_retried"] += manual
        if after is not None and letter.status is DeadLetterStatus.RETRYING:
            assert letter.due_at is not None and letter.due_at <= self.now
            self.done["claims_recovered"] += 1
            self.done["retry_failed"] += letter.recoveries + 1 == MAX_RECOVERIES

    @rule(task=TASKS, move=st.sampled_from(sorted(SETTLING)), back=st.integers(0, 3))
    def somebody_settles(self, task: str, move: str, back: int) -> None:
        """With the newest token, or one of the former ones."""
        letter = self.live.get(task)
        token = ["none", *self.tokens.get(task, [])][-1 - back :][:1]
        if letter is None or not token:
            return
        owned = letter.lease is not None and letter.lease.token == token[0]
        after = self.step(task, Move(move), lambda: SETTLING[move](letter, token[0], self.now), LostLease)
        assert (after is not None) == owned
        if after is None or letter.lease is None:
            return
        self.runs[letter.entry_id] -= move == "release"
        self.done["manually_retried"] -= move == "release" and letter.lease.manual
        self.done["retry_success"] += move == "succeed"
        self.done["reopened"] += move == "succeed" and after.is_open  # it failed for another repo meanwhile
        self.done["retry_failed"] += move in ("fail", "exhaust")

    @rule(task=TASKS, move=st.sampled_from(sorted(BY_PEOPLE)))
    def a_person_acts(self, task: str, move: str) -> None:
        letter = self.live.get(task)
        if letter is None:
            return
        after = self.step(task, Move(move), lambda: BY_PEOPLE[move](letter, self.now))
        allowed = Move(move) in TABLE[letter.status] and (letter.is_open or self.is_lasting(move))
        under_way = letter.requeue is not None and letter.requeue.outcome is RequeueOutcome.IN_FLIGHT
        assert (after is not None) == (allowed and not (move == "requeue" and under_way))
        if after is None:
            return
        self.done["reopened"] += not letter.is_open and after.is_open
        if move == "requeue" and after.is_open:  # closed and opened again in one move
            self.done["requeued"] += 1
            self.done["reopened"] += 1
        if letter.is_open and not after.is_open:
            names = {
                "give up": "permanently_failed",
                "requeue": "permanently_failed",
                "resolve": "manually_resolved",
                "cancel": "cancelled",
            }
            self.done[names.get(move, move + "d")] += 1

    @rule(task=TASKS, policy=POLICIES, more=st.integers(0, 2))
    def a_person_edits(self, task: str, policy: str, more: int) -> None:
        letter = self.live.get(task)
        if letter is not None:
            budget = letter.max_retries + more
            self.step(
                task,
                Move.EDIT,
                lambda: lifecycle.edit(letter, now=self.now, retry_policy=policy, max_retries=budget, priority=more),
            )

    # --------------------------------------------------------------------------------------------- what always holds

    def step(
        self, task: str, move: Move, make: Callable[[], DeadLetter], refusal: type[IllegalMove] = IllegalMove
    ) -> DeadLetter | None:
        """The move, written if it is legal; and what every move keeps."""
        before = self.live[task]
        try:
            after = make()
        except refusal as error:
            assert error.move == move
            return None
        assert after.status in TABLE[before.status][move]
        assert after.updated_at > before.updated_at
        assert after.failures[:1] == before.failures[:1]
        assert (after.entry_id, after.created_at, after.error) == (before.entry_id, before.created_at, before.error)
        self.live[task] = after
        if after.tallies.exhausted != before.tallies.exhausted:
            recovered = move is Move.CLAIM and after.lease is not None and after.lease.prior
            assert DeadLetterStatus.EXHAUSTED in (after.status, recovered)  # a person may claim it in the same move
            self.done["exhausted"] += 1
        return after

    @staticmethod
    def is_lasting(move: str) -> bool:
        """What still works on a closed letter."""
        return move in ("redrive", "archive", "restore")

    def everything(self) -> list[DeadLetter]:
        return [*self.live.values(), *self.former]

    @invariant()
    def every_letter_is_sound(self) -> None:
        assert [violations(letter) for letter in self.everything()] == [[]] * len(self.everything())

    @invariant()
    def failures_are_bounded(self) -> None:
        assert all(1 <= len(letter.failures) <= KEPT_FAILURES for letter in self.everything())

    @invariant()
    def every_run_is_counted(self) -> None:
        assert {letter.entry_id: letter.total_attempts for letter in self.everything()} == {
            letter.entry_id: self.runs[letter.entry_id] for letter in self.everything()
        }

    @invariant()
    def every_tally_is_what_happened(self) -> None:
        """The lifetime statistics are the sums over the live letters, and nothing else: history may be forgotten."""
        sums = Tallies()
        for letter in self.live.values():
            sums = sums.combine(letter.tallies)
        assert {tally.name: getattr(sums, tally.name) for tally in fields(Tallies)} == {
            tally.name: self.done[tally.name] for tally in fields(Tallies)
        }

    @invariant()
    def nothing_is_lost(self) -> None:
        """R153: letters + reopened = open letters + the six ways in which a case can end; the live ones say it all."""
        live = self.live.values()
        still_open = sum(letter.is_open for letter in live)
        assert not any(former.is_open for former in self.former)
        assert len(self.everything()) == sum(letter.generation for letter in live) == self.done["letters"]
        assert sum(letter.tallies.closings for letter in live) == sum(self.done[name] for name in CLOSINGS)
        assert self.done["letters"] + self.done["reopened"] == still_open + sum(self.done[name] for name in CLOSINGS)

    @invariant()
    def lineage_is_complete(self) -> None:
        """R040: generations count from one without a gap, and each names the one before it."""
        for task, letter in self.live.items():
            line = [*(former for former in self.former if former.task_id == task), letter]
            assert [each.generation for each in line] == list(range(1, len(line) + 1))
            assert [each.previous_entry_id for each in line] == [None, *(each.entry_id for each in line[:-1])]
            assert [each.dlq_retry_count for each in line] == [each.tallies.requeued for each in line]
            for before, after in pairwise(line):
                assert after.updated_at > before.updated_at
                assert all(getattr(after.tallies, name) >= getattr(before.tallies, name) for name in LASTING)


OfficeTest = Office.TestCase
OfficeTest.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


def test_a_run_counts_at_most_once() -> None:
    """Whoever settles a claim settles it for good: the same token is worth nothing afterwards."""
    letter = replace(lifecycle.new_letter(draft(retry_policy="immediate")), version=(1,))
    running = lifecycle.claim(letter, owner="w", token="t", until=NOON + LEASE, now=NOON)
    for first in ("release", "succeed", "fail", "exhaust"):
        settled = SETTLING[first](running, "t", NOON)
        for second in SETTLING:
            try:
                SETTLING[second](settled, "t", NOON)
            except LostLease:
                continue
            raise AssertionError(f"{first}, then {second} again")

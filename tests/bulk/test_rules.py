"""What a bulk run does next, and how it changes: the rules alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.bulk import rules as bulk_rules
from mahavishnu.bulk import run as bulk_run
from mahavishnu.bulk.rules import Finish, Halt, MoveSlice, NextStep, WaitUntil
from mahavishnu.bulk.run import PAGE, BulkRun, ItemState, RunCounts, RunItem, RunLease, RunState
from mahavishnu.model.errors import IllegalRunMove, InvalidInput
from mahavishnu.model.json_value import EMPTY
from mahavishnu.model.work import ItemOutcome, outcome_mark, outcomes_after
from mahavishnu.testing import make_letter

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=5)
SECOND = timedelta(seconds=1)
SKEW = timedelta(seconds=30)


def run_of(verb: str = "redrive", **changes: Any) -> BulkRun:
    usual: dict[str, Any] = {"state": RunState.RUNNING, "plan": "p", "due_at": NOW}
    return BulkRun(run_id="r", verb=verb, query=EMPTY, by="ann", created_at=NOW, updated_at=NOW, **{**usual, **changes})


def counts(members: int, moved: int = 0, succeeded: int = 0, failed_again: int = 0, **more: int) -> RunCounts:
    return RunCounts(members, moved, succeeded=succeeded, failed_again=failed_again, **more)


STEPS: list[tuple[str, BulkRun, NextStep]] = [
    ("nobody is meant", run_of(counts=counts(0)), Finish()),
    ("few", run_of(counts=counts(3)), MoveSlice(3)),
    ("many", run_of(counts=counts(5000)), MoveSlice(PAGE)),
    ("the first wave", run_of(counts=counts(50), ramp=(1, 5)), MoveSlice(1)),
    ("the first wave is out", run_of(counts=counts(50, 1), ramp=(1, 5)), WaitUntil(NOW + SECOND)),
    ("and back", run_of(counts=counts(50, 1, 1), ramp=(1, 5)), MoveSlice(5)),
    ("in the middle of a wave", run_of(counts=counts(50, 3, 1), ramp=(1, 5)), MoveSlice(3)),
    ("refused ones are no part of a wave", run_of(counts=counts(50, 3, 1, refused=40), ramp=(1, 5)), MoveSlice(3)),
    ("nor more than there are", run_of(counts=counts(50, 3, 1, refused=45), ramp=(1, 5)), MoveSlice(2)),
    ("all the rest", run_of(counts=counts(50, 6, 6), ramp=(1, 5)), MoveSlice(44)),
    ("the rest does not wait for itself", run_of(counts=counts(5000, 206, 6), ramp=(1, 5)), MoveSlice(PAGE)),
    ("outcomes are waited for", run_of(counts=counts(50, 50, 49)), WaitUntil(NOW + SECOND)),
    ("a closed one is one", run_of(counts=counts(50, 50, 30, 19, closed=1)), Finish()),
    ("other verbs do not wait", run_of("resolve", counts=counts(50, 1), ramp=(1, 5)), MoveSlice(5)),
    ("nor at the end", run_of("archive", counts=counts(50, 49, refused=1)), Finish()),
    ("exactly so many may fail", run_of(counts=counts(50, 10, 8, 2), stop_percent=20.0), MoveSlice(40)),
    (
        "one more may not",
        run_of(counts=counts(50, 10, 7, 3), stop_percent=20.0),
        Halt("3 of 10 letters failed again, which is more than 20 %"),
    ),
    (
        "not even one",
        run_of(counts=counts(50, 50, 49, 1), stop_percent=0.0),
        Halt("1 of 50 letters failed again, which is more than 0 %"),
    ),
    ("all of them may", run_of(counts=counts(50, 10, 0, 10), stop_percent=100.0), MoveSlice(40)),
    ("nothing was moved", run_of(counts=counts(50), stop_percent=0.0), MoveSlice(50)),
    ("not so quick", run_of(counts=counts(50), max_per_second=10.0, paced_at=LATER), WaitUntil(LATER)),
    ("a second's worth", run_of(counts=counts(50), max_per_second=10.5, paced_at=NOW), MoveSlice(10)),
    ("at least one", run_of(counts=counts(50), max_per_second=0.1), MoveSlice(1)),
    ("no more than a page", run_of(counts=counts(5000), max_per_second=1e6), MoveSlice(PAGE)),
    ("the pace does not hold up the end", run_of("fail", counts=counts(5, 5), paced_at=LATER), Finish()),
]


@pytest.mark.parametrize(("run", "step"), [each[1:] for each in STEPS], ids=[each[0] for each in STEPS])
def test_what_is_to_be_done_now(run: BulkRun, step: NextStep) -> None:
    assert bulk_rules.next_step(run, NOW) == step


def test_looks_become_rare_where_nothing_is_heard() -> None:
    run = run_of(counts=counts(5, 5))
    waits = {0: 1.0, 19: 1.0, 60: 3.0, 600: 30.0, 86_400: 60.0}
    for quiet, seconds in waits.items():
        step = bulk_rules.next_step(replace(run, quiet_since=NOW - timedelta(seconds=quiet)), NOW)
        assert step == WaitUntil(NOW + timedelta(seconds=seconds))
    assert bulk_rules.with_outcomes(run, run.counts, LATER).quiet_since is None
    assert bulk_rules.with_outcomes(run, counts(5, 5, 1), LATER).quiet_since == LATER


@given(
    members=st.integers(0, 700),
    ramp=st.lists(st.integers(1, 300), max_size=4).map(tuple),
    rate=st.none() | st.floats(0.5, 500),
    percent=st.none() | st.floats(0, 100),
    chance=st.randoms(use_true_random=False),
)
def test_any_run_keeps_its_promises(
    members: int, ramp: tuple[int, ...], rate: float | None, percent: float | None, chance: Any
) -> None:
    """Waves, pace and stop rule, whatever becomes of the letters and whenever that is known."""
    run = run_of(counts=counts(members), ramp=ramp, max_per_second=rate, stop_percent=percent)
    now, moves = NOW, list[tuple[datetime, int]]()
    for _ in range(10_000):
        before = run.counts
        match bulk_rules.next_step(run, now):
            case MoveSlice(most):
                assert 0 < most <= min(PAGE, before.waiting)
                if percent is not None and before.moved:
                    assert before.failed_again * 100 <= percent * before.moved
                if before.moved in accumulate(ramp):
                    assert not before.awaited, "a wave waits for those before it"
                moved = chance.randint(0, most)
                gone = chance.randint(0, most - moved)
                after = before.plus(RunCounts(moved=moved, refused=most - moved - gone, gone=gone))
                assert all(not before.moved < end < after.moved for end in accumulate(ramp)), "no wave is skipped"
                run = bulk_rules.after_slice(run, after, 0, moved, now)
                if rate is not None:
                    since = sum(count for at, count in moves if now - at < SECOND)
                    assert not moved or since + moved <= rate + max(1, rate), "no more than two portions in a second"
                moves.append((now, moved))
            case WaitUntil(until):
                assert until > now
                now = until
            case Halt(why):
                assert percent is not None
                assert before.failed_again * 100 > percent * before.moved
                assert "failed again" in why
                return
            case Finish():
                assert not run.counts.waiting
                assert not run.counts.awaited
                return
        if run.counts.awaited:
            known = chance.randint(0, run.counts.awaited)
            failed = chance.randint(0, known) if chance.random() < 0.3 else 0
            heard = run.counts.plus(RunCounts(succeeded=known - failed, failed_again=failed))
            run = bulk_rules.with_outcomes(run, heard, now)
    raise AssertionError("it goes on for ever")


@given(rate=st.floats(0.5, 5000), members=st.integers(1, 2000))
def test_the_pace_is_kept_over_the_whole_run(rate: float, members: int) -> None:
    run = run_of("resolve", counts=counts(members), max_per_second=rate)
    now, released, last = NOW, 0, 0
    while not isinstance(step := bulk_rules.next_step(run, now), Finish):
        if isinstance(step, WaitUntil):
            now = step.until
            continue
        assert isinstance(step, MoveSlice)
        assert released <= rate * (now - NOW).total_seconds() + 1e-6, "what was moved had its time"
        released, last = released + step.most, step.most
        run = bulk_rules.after_slice(run, counts(members, released), 0, step.most, now)
    assert released == members
    assert (now - NOW).total_seconds() <= (members - last) / rate + members * 0.001 + 0.001, "and not much more"


OUTCOMES: list[tuple[ItemOutcome | None, ItemOutcome, ItemOutcome]] = [
    # before, what happens, after
    (None, ItemOutcome.SUCCEEDED, ItemOutcome.SUCCEEDED),
    (None, ItemOutcome.FAILED_AGAIN, ItemOutcome.FAILED_AGAIN),
    (None, ItemOutcome.CLOSED, ItemOutcome.CLOSED),
    (ItemOutcome.FAILED_AGAIN, ItemOutcome.SUCCEEDED, ItemOutcome.SUCCEEDED),
    (ItemOutcome.FAILED_AGAIN, ItemOutcome.CLOSED, ItemOutcome.FAILED_AGAIN),
    (ItemOutcome.SUCCEEDED, ItemOutcome.FAILED_AGAIN, ItemOutcome.SUCCEEDED),
    (ItemOutcome.SUCCEEDED, ItemOutcome.CLOSED, ItemOutcome.SUCCEEDED),
    (ItemOutcome.CLOSED, ItemOutcome.SUCCEEDED, ItemOutcome.CLOSED),
    (ItemOutcome.CLOSED, ItemOutcome.FAILED_AGAIN, ItemOutcome.CLOSED),
]


@pytest.mark.parametrize(("before", "happens", "after"), OUTCOMES)
def test_what_became_of_a_letter(before: ItemOutcome | None, happens: ItemOutcome, after: ItemOutcome) -> None:
    marks = tuple(outcome_mark(run_id, before) for run_id in ("r", "s"))
    letter = make_letter(run_outcomes=outcomes_after(marks, happens))
    assert [bulk_run.outcome_for(letter, run_id) for run_id in ("r", "s", "t")] == [after, after, None]


def test_a_letter_that_is_run_is_waited_for_until_nobody_takes_it_over() -> None:
    running = make_letter(status="retrying", due_at=NOW)
    assert bulk_rules.is_busy(running, NOW - SECOND)
    assert bulk_rules.is_busy(running, NOW + 59 * SECOND)
    assert not bulk_rules.is_busy(running, NOW + 60 * SECOND)
    assert not bulk_rules.is_busy(make_letter(due_at=LATER), NOW)


LEASE = RunLease("w", "t")
# What people may do in each state, and what it is then; None: it is refused.
MOVES: dict[RunState, tuple[RunState | None, RunState | None, RunState | None]] = {
    #                   pause            resume             cancel
    RunState.PLANNING: (RunState.PAUSED, RunState.PLANNING, RunState.CANCELLED),
    RunState.RUNNING: (RunState.PAUSED, RunState.RUNNING, RunState.CANCELLED),
    RunState.PAUSED: (RunState.PAUSED, RunState.RUNNING, RunState.CANCELLED),
    RunState.HALTED: (None, RunState.RUNNING, RunState.CANCELLED),
    RunState.CANCELLED: (None, None, RunState.CANCELLED),
    RunState.DONE: (None, None, None),
}


@pytest.mark.parametrize("state", RunState)
def test_what_people_may_do(state: RunState) -> None:
    verbs: tuple[Callable[[BulkRun, datetime], BulkRun], ...] = (bulk_rules.pause, bulk_rules.resume, bulk_rules.cancel)
    for verb, expected in zip(verbs, MOVES[state], strict=True):
        if expected is None:
            with pytest.raises(IllegalRunMove, match=f"is {state}"):
                verb(run_of(state=state), LATER)
        else:
            after = verb(run_of(state=state), LATER)
            assert after.state is expected
            assert bulk_rules.is_free(after, LATER, SKEW) is (expected in bulk_run.ACTIVE)


def test_a_run_that_was_never_planned_is_planned_when_it_is_resumed() -> None:
    assert bulk_rules.resume(run_of(state=RunState.PAUSED, plan=None), LATER).state is RunState.PLANNING


def test_resuming_clears_the_reason_and_may_change_the_rule() -> None:
    halted = bulk_rules.halt(run_of(stop_percent=10.0, lease=LEASE), "too many", LATER)
    assert (halted.state, halted.lease, halted.due_at, halted.halted_because) == (
        RunState.HALTED,
        None,
        None,
        "too many",
    )
    assert bulk_rules.resume(halted, LATER).stop_percent == 10
    for percent in (None, 50.0, 0):
        resumed = bulk_rules.resume(halted, LATER, percent)
        assert (resumed.stop_percent, resumed.halted_because, resumed.due_at) == (percent, None, LATER)
    with pytest.raises(InvalidInput, match="from 0 to 100"):
        bulk_rules.resume(halted, LATER, 101)


def test_a_halted_run_does_not_go_on_to_halt_at_once() -> None:
    """Unless its rule is another one, or it has halted for another reason."""
    run = bulk_rules.halt(run_of(stop_percent=20.0, counts=counts(50, 6, 4, 2)), "too many", LATER)
    why = (
        r"halt again at once: 2 of 6 letters failed again, which is more than 30 %; resume it with stop_percent 40, or"
    )
    with pytest.raises(IllegalRunMove, match=why):
        bulk_rules.resume(run, LATER, 30)
    with pytest.raises(IllegalRunMove, match="is halted: cannot resume it"):
        bulk_rules.resume(run, LATER)
    for percent in (None, 40, 100):
        assert bulk_rules.next_step(bulk_rules.resume(run, LATER, percent), LATER) == MoveSlice(44)
    for free in (replace(run, counts=counts(50, 10, 8, 2)), replace(run, verb="archive")):
        assert bulk_rules.resume(free, LATER).state is RunState.RUNNING
    for going in (RunState.PAUSED, RunState.RUNNING):  # that it halts is what they may want
        assert bulk_rules.resume(replace(run, state=going), LATER, 5).stop_percent == 5


@given(moved=st.integers(1, 1000), failed=st.integers(0, 1000))
def test_the_rule_that_is_proposed_lets_it_go_on(moved: int, failed: int) -> None:
    known = counts(1000, moved, failed_again=min(failed, moved))
    percent = bulk_rules.percent_to_resume_with(known)
    assert 0 < percent <= 100
    assert not bulk_rules.exceeds(known, percent)


def test_the_first_rule_of_a_run_that_is_resumed_has_waves_to_look_at() -> None:
    paused = run_of(state=RunState.PAUSED, counts=counts(500, 200, 200))
    resumed = bulk_rules.resume(paused, LATER, 20)
    assert resumed.ramp == (200, 1, 5, 25)
    assert [bulk_rules.next_step(replace(resumed, counts=counts(500, n, n)), LATER) for n in (200, 201, 206, 231)] == [
        MoveSlice(1), MoveSlice(5), MoveSlice(25), MoveSlice(PAGE),
    ]  # fmt: skip
    assert bulk_rules.resume(replace(paused, counts=counts(500)), LATER, 20).ramp == (1, 5, 25)
    for kept in (replace(paused, ramp=(7,)), replace(paused, stop_percent=10.0)):
        assert bulk_rules.resume(kept, LATER, 20).ramp == kept.ramp
    assert bulk_rules.resume(paused, LATER, None).ramp == ()


def test_whose_turn_it_is() -> None:
    free = run_of(due_at=NOW)
    assert bulk_rules.is_free(free, NOW, SKEW)
    assert not bulk_rules.is_free(free, NOW - SECOND, SKEW)
    held = bulk_rules.with_lease(free, LEASE, LATER, NOW)
    assert not bulk_rules.is_free(held, LATER + SKEW - SECOND, SKEW), "the holder's clock may be behind"
    assert bulk_rules.is_free(held, LATER + SKEW, SKEW)
    left = bulk_rules.abandon_lease(held, NOW)
    assert bulk_rules.is_free(left, NOW, SKEW), "it has said that it stops"
    assert left.lease is not None, "and not how far it came"
    back = bulk_rules.return_lease(held, LATER, NOW)
    assert (back.lease, bulk_rules.is_free(back, LATER, SKEW)) == (None, True)
    paused = bulk_rules.pause(held, NOW)
    assert paused.lease == LEASE, "it is still at it"
    assert bulk_rules.resume(paused, NOW).due_at == LATER, "and may be so when somebody resumes it"
    assert not bulk_rules.is_free(run_of(due_at=None), LATER, SKEW)


def test_a_plan_does_not_undo_what_a_person_did_meanwhile() -> None:
    for state, after in ((RunState.PLANNING, RunState.RUNNING), (RunState.PAUSED, RunState.PAUSED)):
        planned = bulk_rules.with_plan(run_of(state=state, plan=None), "p", 3, counts(500), LATER)
        assert (planned.state, planned.plan, planned.pages, planned.counts.waiting) == (after, "p", 3, 500)


def test_a_clock_that_is_behind_does_not_move_a_run_back() -> None:
    run = replace(run_of(), updated_at=LATER)
    assert bulk_rules.pause(run, NOW).updated_at == LATER + timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"ramp": (0,)}, "waves of a ramp"),
        ({"ramp": (1, 2.5)}, "waves of a ramp"),
        ({"ramp": (True,)}, "waves of a ramp"),
        ({"max_per_second": 0}, "max_per_second"),
        ({"max_per_second": "5"}, "max_per_second"),
        ({"max_per_second": float("inf")}, "max_per_second"),
        ({"max_per_second": 1e-12}, "at least one a day"),
        ({"max_per_second": 10**400}, "max_per_second"),
        ({"stop_percent": 10**400}, "stop_percent"),
        ({"stop_percent": -1}, "stop_percent"),
        ({"stop_percent": 100.5}, "stop_percent"),
        ({"stop_percent": float("nan")}, "stop_percent"),
        ({"stop_percent": True}, "stop_percent"),
        ({"stop_percent": 5, "verb": "archive"}, "for redrives"),
        ({"by": None}, "by must be text"),
        ({"reason": 5}, "reason must be text"),
    ],
    ids=lambda value: f"{value!r:.60}",
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        bulk_rules.validate_run(replace(run_of(), **changes))
    assert bulk_rules.validate_run(run_of(ramp=(1, 5), max_per_second=0.5, stop_percent=0))


def test_the_slowest_pace_is_one_a_day() -> None:
    run = bulk_rules.validate_run(run_of("resolve", max_per_second=bulk_rules.SLOWEST))
    assert bulk_rules.after_slice(run, counts(2, 1), 0, 1, NOW).paced_at == NOW + timedelta(days=1)


def test_looks_become_rare_after_a_resumption_too() -> None:
    paused = run_of(state=RunState.PAUSED, counts=RunCounts(members=1, moved=1))
    much_later = LATER + timedelta(hours=1)
    assert bulk_rules.next_step(bulk_rules.resume(paused, LATER), much_later) == WaitUntil(
        much_later + timedelta(seconds=60)
    )


def test_members_are_counted_and_paged() -> None:
    items = [
        RunItem("a", "1"),
        RunItem("b", "2", ItemState.MOVED),
        RunItem("c", "3", ItemState.MOVED, outcome=ItemOutcome.SUCCEEDED),
        RunItem("d", "4", ItemState.REFUSED, "no"),
        RunItem("e", "5", ItemState.GONE),
        RunItem("f", "6", ItemState.MOVED, outcome=ItemOutcome.FAILED_AGAIN),
        RunItem("g", "7", ItemState.MOVED, outcome=ItemOutcome.CLOSED),
    ]
    whole = bulk_run.count_items(items)
    assert whole == RunCounts(7, 4, 1, 1, 1, 1, 1)
    assert (whole.waiting, whole.awaited) == (1, 1)
    pages = bulk_run.split_into_pages("r", "p", 4, [RunItem(str(number), "") for number in range(PAGE + 1)])
    assert [(page.key, len(page.items)) for page in pages] == [("r/p/000004", PAGE), ("r/p/000005", 1)]
    assert bulk_run.split_into_pages("r", "p", 0, []) == []

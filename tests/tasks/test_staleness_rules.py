"""When tasks are stale: limits of settings and templates, at their very edges, and what is done about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.tasks import rules as task_moves
from mahavishnu.tasks.staleness_rules import (
    LIVES,
    Pause,
    SignWatch,
    StalenessPlan,
    StalenessRules,
    StalenessWatch,
    counted_since,
    describe_stuck,
    is_stuck,
    judge,
    lifetime_minutes,
    lives,
    may_recover,
    pauses_after,
    plan_for,
    stale_detail,
    stale_queries,
    stuck_minutes,
    stuck_queries,
    threshold_minutes,
    watch_after,
)
from mahavishnu.tasks.task import OPEN, TERMINAL, StepRecord, TaskRecord, TaskState, new_task
from mahavishnu.tasks.templates import LifecycleLimits, StalenessAction, read_limits, read_templates

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
TEMPLATES = read_templates(
    {
        "payment": {
            "lifecycle": {
                "max_duration_minutes": 30,
                "max_waiting_for_dependencies_minutes": 10,
                "max_steps_in_process_minutes": 20,
                "auto_fail_on_timeout": True,
                "auto_dlq_on_timeout": True,
                "staleness_action": "dlq",
            }
        },
        "sync": {"lifecycle": {"max_duration_minutes": 10080}},
        "old": {"steps": [{"name": "validate"}]},
        "empty": None,
    }
)
RULES = StalenessRules(templates=TEMPLATES)


def task_in(
    state: TaskState, minutes: float, *, template: str | None = None, age: float | None = None, seconds: float = 0
) -> TaskRecord:
    """A task that has been in a state for so long, and exists for as long unless its age says something else."""
    entered = NOW - timedelta(minutes=minutes, seconds=seconds)
    made = entered if age is None else NOW - timedelta(minutes=age)
    task = new_task("pay", now=made, template=template)
    return replace(task, state=state, state_entered_at=entered)


DEFAULTS = {
    TaskState.WAITING_FOR_DEPENDENCIES: 60,
    TaskState.WAITING_FOR_RETRY: 30,
    TaskState.STEPS_IN_PROCESS: 30,
    TaskState.BLOCKED_BY_FAILURES: 60,
}


@pytest.mark.parametrize("state", OPEN)
def test_stale_is_strictly_longer_than_the_limit(state: TaskState) -> None:
    """A second before, at the limit, a second after."""
    limit = DEFAULTS.get(state, 1440)
    assert threshold_minutes(RULES, None, state) == limit
    found = [judge(task_in(state, limit, seconds=seconds, age=1), RULES, NOW) for seconds in (-1, 0, 1)]
    assert [stale is not None for stale in found] == [False, False, True]
    assert found[2] is not None and found[2].overdue == SECOND and found[2].threshold_minutes == limit


@pytest.mark.parametrize("state", OPEN)
def test_a_task_is_stale_that_is_older_than_tasks_become(state: TaskState) -> None:
    """Whatever state it is in, and however short."""
    found = [judge(task_in(state, 1, age=1440 + minutes / 60), RULES, NOW) for minutes in (-1, 0, 1)]
    assert [stale is not None for stale in found] == [False, False, True]
    assert found[2] is not None and found[2].by_lifetime
    assert stale_detail(task_in(state, 1), found[2])["lifetime_minutes"] == 1440


@pytest.mark.parametrize("state", TERMINAL)
def test_what_has_ended_is_never_stale(state: TaskState) -> None:
    assert judge(task_in(state, 100_000), RULES, NOW) is None


def test_templates_shorten_and_lengthen() -> None:
    """The payment fails fast; the sync of a week is judged by its own limit only."""
    waiting = TaskState.WAITING_FOR_DEPENDENCIES
    assert judge(task_in(waiting, 11, template="payment"), RULES, NOW) is not None
    assert judge(task_in(waiting, 11, template="sync"), RULES, NOW) is None
    assert all(judge(task_in(state, 3 * 1440, template="sync"), RULES, NOW) is None for state in OPEN)
    assert all(judge(task_in(state, 10080, seconds=1, template="sync"), RULES, NOW) is not None for state in OPEN)
    assert threshold_minutes(RULES, "payment", TaskState.WAITING_FOR_RETRY) == 30
    assert lifetime_minutes(RULES, "payment") == 30
    assert judge(task_in(TaskState.PENDING, 1, age=31, template="payment"), RULES, NOW) is not None
    assert threshold_minutes(RULES, "old", waiting) == threshold_minutes(RULES, "nobody knows it", waiting) == 60


def test_a_template_with_a_long_life_keeps_its_own_limits_for_states() -> None:
    rules = StalenessRules(templates={"sync": LifecycleLimits(10080, max_waiting_for_retry_minutes=5)})
    assert threshold_minutes(rules, "sync", TaskState.WAITING_FOR_RETRY) == 5


@pytest.mark.parametrize(
    ("action", "fails", "goes"), [*product([None, *StalenessAction], [None, False, True], [None, False, True])]
)
def test_the_action_wins_over_the_booleans_and_these_over_the_settings(
    action: StalenessAction | None, fails: bool | None, goes: bool | None
) -> None:
    limits = LifecycleLimits(staleness_action=action, auto_fail_on_timeout=fails, auto_dlq_on_timeout=goes)
    for to_error, to_letter in product([False, True], repeat=2):
        rules = StalenessRules(auto_transition_to_error=to_error, auto_move_to_dlq=to_letter, templates={"pay": limits})
        by_action = {"dlq": (True, True), "error": (False, True), "manual_review": (False, False)}
        usual = (to_letter if goes is None else goes, to_error if fails is None else fails)
        assert plan_for(rules, "pay") == StalenessPlan(*(by_action[action] if action else usual))
        assert plan_for(rules, "pay").review == (plan_for(rules, "pay") == StalenessPlan(False, False))


def test_a_warning_comes_at_three_quarters() -> None:
    found = [
        judge(task_in(TaskState.WAITING_FOR_RETRY, 22, seconds=seconds), RULES, NOW, share=RULES.warn_ratio)
        for seconds in (29, 30, 31)
    ]
    assert [soon is not None for soon in found] == [False, False, True]


def test_nobody_is_blamed_for_what_happened_while_nobody_worked() -> None:
    """After two hours in which no worker looked, a task that waited for five minutes waits for five more."""
    task = task_in(TaskState.WAITING_FOR_RETRY, 125)
    pauses = pauses_after((), NOW - 2 * 60 * MINUTE, NOW, RULES)
    assert pauses == (Pause(NOW - 120 * MINUTE, NOW),)
    assert counted_since(task.state_entered_at, NOW, pauses) == 5 * MINUTE
    assert judge(task, RULES, NOW, pauses) is None
    later = NOW + 25 * MINUTE
    assert judge(task, RULES, later, pauses) is None
    assert judge(task, RULES, later + SECOND, pauses) is not None
    assert counted_since(NOW - 10 * MINUTE, NOW, (Pause(NOW - 15 * MINUTE, NOW - 5 * MINUTE),)) == 5 * MINUTE


def test_a_look_that_is_a_little_late_is_no_downtime() -> None:
    assert pauses_after((), NOW - 10 * MINUTE, NOW, RULES) == ()
    assert pauses_after((), NOW - 10 * MINUTE - SECOND, NOW, RULES) != ()
    assert pauses_after((), None, NOW, RULES) == ()
    strict = replace(RULES, grace_after_downtime_seconds=0)
    assert pauses_after((), NOW - 5 * MINUTE - SECOND, NOW, strict) != ()


def running(minutes: float, alive: float | None = None) -> TaskRecord:
    """A run that began so long ago, and gave a sign of life so long ago."""
    task = task_moves.begin(
        new_task("pay", now=NOW - minutes * MINUTE), now=NOW - minutes * MINUTE, run="r", processor="p"
    )
    return task if alive is None else replace(task, alive_at=NOW - alive * MINUTE)


def test_a_run_that_lives_is_not_late() -> None:
    """It may take as long as it takes; only its whole life is limited."""
    assert lives(running(300, alive=1), NOW) and not lives(running(300, alive=6), NOW)
    assert lives(running(5), NOW) and not lives(running(5.1), NOW)
    assert judge(running(300, alive=1), RULES, NOW) is None
    assert judge(running(300, alive=6), RULES, NOW) is not None
    assert judge(running(1441, alive=1), RULES, NOW) is not None
    assert timedelta(minutes=5) == LIVES


def test_stuck_is_an_active_task_in_which_nothing_goes_on() -> None:
    for state in TaskState:
        found = is_stuck(task_in(state, 10, seconds=1), RULES, NOW)
        assert found == (state in ("enqueuing_steps", "steps_in_process", "evaluating_results"))
    assert not is_stuck(task_in(TaskState.STEPS_IN_PROCESS, 10), RULES, NOW)
    task = replace(task_in(TaskState.STEPS_IN_PROCESS, 60), steps=(StepRecord("a"),))
    moved = task_moves.begin_step(task, "a", now=NOW - 9 * MINUTE)
    assert is_stuck(task, RULES, NOW) and not is_stuck(moved, RULES, NOW)


def test_steps_that_wait_for_one_another_are_the_reason() -> None:
    task = replace(task_in(TaskState.PENDING, 1441), steps=(StepRecord("a", ("b",)), StepRecord("b", ("a",))))
    stale = judge(task, RULES, NOW)
    assert stale is not None and stale.reason is DlqReason.DEPENDENCY_CYCLE_DETECTED


def test_a_move_forgets_what_was_told_of_the_former_state() -> None:
    task = replace(task_in(TaskState.PENDING, 1), attention="warned")
    assert task_moves.move(task, TaskState.INITIALIZING, now=NOW).attention is None


def test_every_template_and_state_has_its_own_queries() -> None:
    """Two for each: too long in the state, and too old."""
    queries = list(stale_queries(RULES, NOW, 100))
    assert len(queries) == len(set(queries)) == (len(TEMPLATES) + 1) * len(OPEN) * 2
    assert all(query.limit == 100 and len(query.sort) == 1 for query in queries)


def test_stuck_tasks_are_looked_for_by_template_and_active_state() -> None:
    """A template that gives the state a longer time has its tasks looked for later."""
    queries = list(stuck_queries(RULES, NOW, 100))
    assert len(queries) == len(set(queries)) == (len(TEMPLATES) + 1) * 3
    minutes = {name: stuck_minutes(RULES, name, TaskState.STEPS_IN_PROCESS) for name in (None, "payment", "sync")}
    assert minutes == {None: 10, "payment": 20, "sync": 10080}


def test_a_task_recovers_so_often_and_not_with_a_step_that_has_no_run_left() -> None:
    task = replace(task_in(TaskState.STEPS_IN_PROCESS, 11), steps=(StepRecord("a", max_attempts=1),))
    assert [may_recover(replace(task, recovery_count=count), RULES) for count in (0, 2, 3)] == [True, True, False]
    assert not may_recover(task_moves.begin_step(task, "a", now=NOW), RULES)
    assert describe_stuck(task, NOW) == "pay is steps_in_process, and nothing has gone on for 11 minutes"


def test_a_look_is_written_only_where_that_says_something() -> None:
    """Not while it is off, and not right after another one; off is written once, and is no downtime."""

    def after(before: StalenessWatch | None, minutes: float, enabled: bool = True) -> StalenessWatch | None:
        rules = replace(RULES, enabled=enabled)
        return watch_after(before, rules, NOW + minutes * MINUTE, namespace="eu", seen_at=None)

    first = after(None, 0)
    assert first == StalenessWatch("eu", NOW) and after(None, 0, enabled=False) is None
    assert after(first, 1) is None
    assert after(first, 2) == StalenessWatch("eu", NOW + 2 * MINUTE)
    off = after(first, 5, enabled=False)
    assert off is not None and off.off and after(off, 300, enabled=False) is None
    assert after(off, 300) == StalenessWatch("eu", NOW + 300 * MINUTE)
    late = after(first, 300)
    assert late is not None and late.pauses == (Pause(NOW, NOW + 300 * MINUTE),)
    seen = watch_after(first, RULES, NOW + 300 * MINUTE, namespace="eu", seen_at=NOW + 295 * MINUTE)
    assert seen is not None and seen.pauses == ()


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (
            {"max_durations_minutes": 1},
            "lifecycle has no key 'max_durations_minutes'; did you mean max_duration_minutes?",
        ),
        ({"max_duration_minutes": 0}, "max_duration_minutes must be a whole number of minutes from 1, not 0"),
        ({"max_duration_minutes": True}, "must be a whole number of minutes from 1, not True"),
        ({"max_steps_in_process_minutes": "20"}, "must be a whole number of minutes from 1, not '20'"),
        ({"staleness_action": "kill"}, "staleness_action must be one of dlq, error, manual_review, not 'kill'"),
        ({"auto_fail_on_timeout": 1}, "auto_fail_on_timeout must be true or false, not 1"),
        ([1], "lifecycle must be a map of limits, not [1]"),
    ],
)
def test_a_block_that_cannot_be_is_refused(block: object, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_limits("payment", block)
    assert str(refused.value).startswith("template 'payment'") and why in str(refused.value)


def test_a_limit_that_no_task_reaches_is_warned_of() -> None:
    (warning,) = LifecycleLimits(30, max_steps_in_process_minutes=31, max_waiting_for_retry_minutes=30).warnings("pay")
    assert warning == "template 'pay': max_steps_in_process_minutes is 31, but its tasks live for 30 minutes only"


@pytest.mark.parametrize("name", ["waiting_for_retry_minutes", "task_max_lifetime_hours", "batch_size"])
def test_limits_below_one_are_refused(name: str) -> None:
    for value in (0, -1, True):
        given: dict[str, Any] = {name: value}
        with pytest.raises(InvalidInput, match=name):
            StalenessRules(**given)


def test_a_run_is_over_when_no_sign_came_for_longer_than_a_live_one_is_silent() -> None:
    watch, task = SignWatch(), task_in(TaskState.STEPS_IN_PROCESS, 40)
    silence = LIVES.total_seconds()
    assert [watch.is_over(task, at) for at in (0, 1, silence, silence + 1)] == [False, False, False, True]
    alive = replace(task, alive_at=NOW)
    assert [watch.is_over(alive, silence + at) for at in (2, silence + 2, silence + 3)] == [False, False, True]

"""How long to wait before a retry: the documented figures, and what a user's own function may do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.model.backoff import (
    DEFAULT,
    MAX_DELAY,
    Backoff,
    BackoffRegistry,
    Delay,
    FailedRetry,
    exponential,
    geometric,
    immediate,
    intervals,
    linear,
    with_jitter,
)
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import RetryPolicy

MINUTE = timedelta(minutes=1)


def waits(policy: Callable[[FailedRetry], timedelta | float], times: int) -> list[timedelta | float]:
    """The delays after none, one, two … failed retries."""
    return [policy(FailedRetry(count)) for count in range(times)]


def test_linear() -> None:
    """R081: 5 × (retry_count + 1) minutes, uncapped."""
    assert waits(linear, 4) == [5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 20 * MINUTE]
    assert linear(FailedRetry(10_000)) == 50_005 * MINUTE


def test_exponential() -> None:
    """R082: 2 ^ retry_count minutes up to 60, also after ten thousand retries."""
    expected = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert waits(exponential, 11) == [minutes * MINUTE for minutes in expected]
    assert exponential(FailedRetry(10_000)) == 60 * MINUTE


def test_immediate() -> None:
    """R083: no delay, however often."""
    assert waits(immediate, 3) == [timedelta(0)] * 3


def test_never() -> None:
    """R080: no date at all, and nothing to complain about."""
    assert DEFAULT.delay_for(RetryPolicy.NEVER, FailedRetry(0)) == Delay(None)


@pytest.mark.parametrize("policy", ["linear", "exponential", "immediate"])
def test_a_registry_knows_the_built_in_policies_by_name(policy: str) -> None:
    """As text or as enum member, which is the same."""
    formulas = {"linear": linear, "exponential": exponential, "immediate": immediate}
    for count in range(12):
        assert DEFAULT.delay_for(policy, FailedRetry(count)) == Delay(formulas[policy](FailedRetry(count)))
        assert DEFAULT.delay_for(RetryPolicy(policy), FailedRetry(count)) == Delay(formulas[policy](FailedRetry(count)))


def test_a_table_of_intervals() -> None:
    """R085: its last value repeats."""
    table = intervals(30, 60, 120, 300, 600)

    assert waits(table, 7) == [timedelta(seconds=seconds) for seconds in (30, 60, 120, 300, 600, 600, 600)]
    with pytest.raises(InvalidInput, match="at least one value"):
        intervals()


def test_a_multiplied_interval() -> None:
    """R086: 60 × 2^n minutes; what no calendar can hold is the longest delay there is."""
    growing = geometric(timedelta(minutes=60), 2.0)

    assert waits(growing, 3) == [60 * MINUTE, 120 * MINUTE, 240 * MINUTE]
    assert growing(FailedRetry(10_000)) == MAX_DELAY
    assert waits(geometric(MINUTE, 1), 2) == [MINUTE, MINUTE]
    with pytest.raises(InvalidInput, match=r"at least 1, not 0\.5"):
        geometric(MINUTE, 0.5)


def test_a_multiplied_interval_does_not_shrink() -> None:
    """The longest delay is a bound, not a place to fall back to."""
    delays = waits(geometric(timedelta(hours=1), 2.0), 60)

    assert delays == sorted(delays)


def test_a_custom_function_is_told_what_went_wrong() -> None:
    """R087: retry_count, category and last error; it answers in seconds or with a timedelta."""
    seen: list[FailedRetry] = []

    def remember(failed: FailedRetry) -> timedelta:
        seen.append(failed)
        return timedelta(seconds=7)

    failed = FailedRetry(3, "network", "connection reset")

    assert BackoffRegistry().with_custom("mine", remember).delay_for("custom:mine", failed) == Delay(
        timedelta(seconds=7)
    )
    assert seen == [failed]
    assert BackoffRegistry().with_custom("mine", lambda _: 1.5).delay_for("custom:mine", failed) == Delay(MINUTE / 40)


def test_a_registry_is_a_value() -> None:
    """Adding a function makes another registry; the name tells which are there, and a later one replaces it."""
    one = BackoffRegistry().with_custom("b", lambda _: 1).with_custom("a", lambda _: 1)
    two = one.with_custom("a", lambda _: 2)

    assert DEFAULT.names() == ["never", "linear", "exponential", "immediate"]
    assert one.names() == two.names() == ["never", "linear", "exponential", "immediate", "custom:a", "custom:b"]
    assert one.delay_for("custom:a", FailedRetry(0)).duration == timedelta(seconds=1)
    assert two.delay_for("custom:a", FailedRetry(0)).duration == timedelta(seconds=2)


@pytest.mark.parametrize("name", ["", " mine", "mine\n"])
def test_a_custom_function_needs_a_name(name: str) -> None:
    """That can be written into a setting."""
    with pytest.raises(InvalidInput, match="a backoff needs a name"):
        BackoffRegistry().with_custom(name, lambda _: 1)


@pytest.mark.parametrize("policy", ["custom:gone", "gone", "custom:", "", "CUSTOM:mine", "mine", "Linear"])
def test_a_policy_that_is_not_there_falls_back_and_says_so(policy: str) -> None:
    """R087: after a restart without the plugin the letter is retried all the same."""
    registry = BackoffRegistry().with_custom("mine", lambda _: 1)

    wait = registry.delay_for(policy, FailedRetry(2))

    assert wait.duration == 4 * MINUTE
    assert wait.warning == f"no backoff {policy!r} is registered; exponential is used"


def raising(failed: FailedRetry) -> float:
    raise ZeroDivisionError("no luck")


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (raising, "no luck"),
        (lambda _: float("nan"), "NaN is no delay"),
        (lambda _: "5 minutes", "not '5 minutes'"),
        (lambda _: None, "not None"),
        (lambda _: True, "not True"),
    ],
)
def test_a_custom_function_that_gives_no_delay_falls_back_and_says_so(function: Any, problem: str) -> None:
    """R087: a user's mistake costs the user's schedule, not the letter."""
    wait = BackoffRegistry().with_custom("mine", function).delay_for("custom:mine", FailedRetry(1))

    assert wait.duration == 2 * MINUTE
    assert wait.warning is not None
    assert "backoff 'custom:mine' gave no usable delay" in wait.warning
    assert problem in wait.warning


@pytest.mark.parametrize(
    ("delay", "bounded"),
    [
        (-5, timedelta(0)),
        (timedelta(days=-1), timedelta(0)),
        (float("-inf"), timedelta(0)),
        (timedelta(days=8), MAX_DELAY),
        (float("inf"), MAX_DELAY),
        (1e300, MAX_DELAY),
        (0, timedelta(0)),
        (timedelta(days=7), timedelta(days=7)),
    ],
)
def test_a_custom_delay_lies_between_now_and_a_week(delay: Any, bounded: timedelta) -> None:
    """R087."""
    assert BackoffRegistry().with_custom("mine", lambda _: delay).delay_for("custom:mine", FailedRetry(0)) == Delay(
        bounded
    )


@given(count=st.integers(0, 10**6), policy=st.sampled_from(["never", "linear", "exponential", "immediate", "custom:x"]))
def test_no_policy_ever_raises(count: int, policy: str) -> None:
    """And none asks for the past."""
    delay = DEFAULT.delay_for(policy, FailedRetry(count)).duration

    assert (delay is None) == (policy == "never")
    assert delay is None or delay >= timedelta(0)


def test_jitter_takes_a_share() -> None:
    """R088: whole milliseconds; the whole delay is the most, and no random number makes it more or negative."""
    assert with_jitter(MINUTE, 1.0) == MINUTE
    assert with_jitter(MINUTE, 0.0) == timedelta(0)
    assert with_jitter(MINUTE, 0.5) == timedelta(seconds=30)
    assert with_jitter(timedelta(milliseconds=3), 0.5) == timedelta(milliseconds=1)
    assert with_jitter(MINUTE, 7) == MINUTE
    assert with_jitter(MINUTE, -7) == timedelta(0)


@given(delay=st.timedeltas(timedelta(0), timedelta(days=3650)), random=st.floats(0, 1))
def test_jitter_never_exceeds_the_formula(delay: timedelta, random: float) -> None:
    """R088."""
    assert timedelta(0) <= with_jitter(delay, random) <= delay


def test_the_types_of_a_backoff() -> None:
    """A function is enough; it needs no class."""
    functions: list[Backoff] = [linear, exponential, immediate, intervals(1), geometric(MINUTE, 2), lambda _: 1.5]

    assert all(callable(function) for function in functions)

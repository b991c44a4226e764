"""Waits before retries: pure formulas, and a registry for a user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from msgspec import field
from msgspec.structs import replace

from mahavishnu.model.errors import ENDS, InvalidInput
from mahavishnu.model.letter_parts import RetryPolicy
from mahavishnu.model.record import Value

MAX_DELAY = timedelta(days=7)
CUSTOM = "custom:"
_MAX_COUNT = 10**6  # more retries than this count as this many, so that no arithmetic overflows


class FailedRetry(Value, frozen=True):
    """The argument of a custom backoff function: how many retries failed so far, and the last error."""

    retry_count: int
    category: str | None = None
    error: str = ""


class Delay(Value, frozen=True):
    """A wait. `warning` is set where the policy could not be followed."""

    duration: timedelta | None  # None: no automatic retry
    warning: str | None = None


Backoff = Callable[[FailedRetry], timedelta | float]  # a timedelta, or seconds


def linear(failed: FailedRetry) -> timedelta:
    """5, 10, 15, … minutes."""
    return timedelta(minutes=5 * (min(failed.retry_count, _MAX_COUNT) + 1))


_EXPONENTIAL = tuple(timedelta(minutes=min(2**count, 60)) for count in range(7))


def exponential(failed: FailedRetry) -> timedelta:
    """1, 2, 4, … up to 60 minutes."""
    return _EXPONENTIAL[min(failed.retry_count, 6)]


def immediate(failed: FailedRetry) -> timedelta:
    """No wait: the next cycle."""
    return timedelta(0)


def intervals(*seconds: float) -> Backoff:
    """A backoff with these delays in seconds; the last one repeats."""
    if not seconds:
        raise InvalidInput("a table of retry intervals needs at least one value")
    return lambda failed: timedelta(seconds=seconds[min(failed.retry_count, len(seconds) - 1)])


def geometric(first: timedelta, factor: float) -> Backoff:
    """A backoff of `first`, then `factor` times as long each time, up to a week."""
    if not factor >= 1:  # NaN is not
        raise InvalidInput(f"a backoff factor must be at least 1, not {factor}")

    def grow(failed: FailedRetry) -> timedelta:
        try:
            seconds = first.total_seconds() * factor**failed.retry_count
        except OverflowError:
            return MAX_DELAY
        return timedelta(seconds=min(seconds, MAX_DELAY.total_seconds()))

    return grow


BUILT_IN: Mapping[str, Callable[[FailedRetry], timedelta]] = MappingProxyType(
    {RetryPolicy.LINEAR: linear, RetryPolicy.EXPONENTIAL: exponential, RetryPolicy.IMMEDIATE: immediate}
)


class BackoffRegistry(Value, frozen=True):
    """The delay of every retry policy, also of `custom:<name>` ones. Immutable: `with_custom` returns a larger one.

    With `random` (numbers from 0 to 1) every delay is jittered, so that letters do not come back all at once.

    >>> backoffs = BackoffRegistry().with_custom("steady", lambda failed: 90)
    >>> backoffs.delay_for("custom:steady", FailedRetry(retry_count=0)).duration
    datetime.timedelta(seconds=90)
    """

    custom: Mapping[str, Backoff] = field(default_factory=dict)
    random: Callable[[], float] | None = None

    def with_custom(self, name: str, function: Backoff) -> BackoffRegistry:
        """This registry with one more function, or another one under an existing name."""
        if not isinstance(name, str) or not name or name != name.strip():
            raise InvalidInput(f"a backoff needs a name without surrounding blanks, not {name!r}")
        if not callable(function):
            raise InvalidInput(f"a backoff is a function of a failed retry, not {function!r:.80}")
        return replace(self, custom=MappingProxyType({**self.custom, name: function}))

    def names(self) -> Sequence[str]:
        """Every policy that can be asked for."""
        return [*RetryPolicy, *(CUSTOM + name for name in sorted(self.custom))]

    def problem_with(self, policy: str) -> str | None:
        """Return why the policy cannot be followed; None if it can."""
        custom = policy.startswith(CUSTOM) and policy.removeprefix(CUSTOM) in self.custom
        if custom or policy == RetryPolicy.NEVER or policy in BUILT_IN:
            return None
        return f"no backoff {policy!r} is registered; exponential is used"

    def delay_for(self, policy: str, failed: FailedRetry) -> Delay:
        """Return the wait under `policy`. Never raises: where the policy cannot be followed, `warning` says so."""
        delay = self._exact(policy, failed)
        if self.random is None or delay.duration is None:
            return delay
        return replace(delay, duration=with_jitter(delay.duration, self.random()))

    def _exact(self, policy: str, failed: FailedRetry) -> Delay:
        if policy == RetryPolicy.NEVER:
            return Delay(None)
        if built_in := BUILT_IN.get(policy):
            return Delay(duration=built_in(failed))
        if problem := self.problem_with(policy):
            return Delay(exponential(failed), problem)
        try:
            return Delay(_limit_delay(self.custom[policy.removeprefix(CUSTOM)](failed)))
        except ENDS:
            raise
        except BaseException as problem:  # a user's function may raise anything; the letter must get its date
            why = f"backoff {policy!r} gave no usable delay ({problem}); exponential is used"
            return Delay(exponential(failed), why)


def _limit_delay(delay: timedelta | float) -> timedelta:
    if isinstance(delay, bool) or not isinstance(delay, timedelta | int | float):
        raise InvalidInput(f"a delay is a timedelta or seconds, not {delay!r}")
    if not isinstance(delay, timedelta):
        if math.isnan(delay):
            raise InvalidInput("NaN is no delay")
        delay = timedelta(seconds=min(max(delay, 0.0), MAX_DELAY.total_seconds()))
    return min(max(delay, timedelta(0)), MAX_DELAY)


def with_jitter(delay: timedelta, random: float) -> timedelta:
    """Full jitter: a `random` (0 to 1) share of `delay`, never more than it. Off unless asked for."""
    return timedelta(milliseconds=int(delay / timedelta(milliseconds=1) * min(max(random, 0.0), 1.0)))


DEFAULT = BackoffRegistry()

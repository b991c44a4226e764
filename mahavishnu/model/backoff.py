"""How long to wait before a retry: pure formulas, and a registry for a user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType

from mahavishnu.model.errors import ENDS, InvalidInput
from mahavishnu.model.letter_parts import RetryPolicy, fast_constructor

LONGEST = timedelta(days=7)
CUSTOM = "custom:"
_COUNTED = 10**6  # retries beyond this change no delay: no arithmetic may overflow


@dataclass(frozen=True, slots=True)
class Setback:
    """What a custom backoff function is told: failed retries so far, and what went wrong last."""

    retry_count: int
    category: str | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """A delay, and what had to be said about it: `warning` is set where the policy itself could not be followed."""

    delay: timedelta | None  # None: no automatic retry
    warning: str | None = None


Backoff = Callable[[Setback], timedelta | float]  # a timedelta, or seconds
new_setback, _new_wait = fast_constructor(Setback), fast_constructor(Wait)


def linear(setback: Setback) -> timedelta:
    """5, 10, 15, … minutes."""
    return timedelta(minutes=5 * (min(setback.retry_count, _COUNTED) + 1))


_DOUBLED = tuple(timedelta(minutes=min(2**count, 60)) for count in range(7))


def exponential(setback: Setback) -> timedelta:
    """1, 2, 4, … up to 60 minutes."""
    return _DOUBLED[min(setback.retry_count, 6)]


def immediate(setback: Setback) -> timedelta:
    """No wait: the next cycle."""
    return timedelta(0)


def intervals(*seconds: float) -> Backoff:
    """A table of delays; its last value repeats.

    >>> intervals(30, 60)(Setback(retry_count=5))
    datetime.timedelta(seconds=60)
    """
    if not seconds:
        raise InvalidInput("a table of retry intervals needs at least one value")
    return lambda setback: timedelta(seconds=seconds[min(setback.retry_count, len(seconds) - 1)])


def multiplied(first: timedelta, factor: float) -> Backoff:
    """`first`, then `factor` times as long each time, up to a week.

    >>> multiplied(timedelta(hours=1), 2.0)(Setback(retry_count=1))
    datetime.timedelta(seconds=7200)
    """
    if not factor >= 1:  # NaN is not
        raise InvalidInput(f"a backoff factor must be at least 1, not {factor}")

    def grow(setback: Setback) -> timedelta:
        try:
            seconds = first.total_seconds() * factor**setback.retry_count
        except OverflowError:
            return LONGEST
        return timedelta(seconds=min(seconds, LONGEST.total_seconds()))

    return grow


BUILT_IN: Mapping[str, Callable[[Setback], timedelta]] = MappingProxyType(
    {RetryPolicy.LINEAR: linear, RetryPolicy.EXPONENTIAL: exponential, RetryPolicy.IMMEDIATE: immediate}
)


@dataclass(frozen=True, slots=True)
class BackoffRegistry:
    """The functions that `custom:<name>` policies mean. Immutable: `with_custom` makes a bigger one.

    With `random` (numbers from 0 to 1) every delay is jittered: letters do not come back all at once.

    >>> backoffs = BackoffRegistry().with_custom("steady", lambda setback: 90)
    >>> backoffs.wait("custom:steady", Setback(retry_count=0)).delay
    datetime.timedelta(seconds=90)
    """

    custom: Mapping[str, Backoff] = field(default_factory=dict)
    random: Callable[[], float] | None = None

    def with_custom(self, name: str, function: Backoff) -> BackoffRegistry:
        """This registry with one more function, or another one under an existing name."""
        if not isinstance(name, str) or not name or name != name.strip():
            raise InvalidInput(f"a backoff needs a name without surrounding blanks, not {name!r}")
        if not callable(function):
            raise InvalidInput(f"a backoff is a function of a setback, not {function!r:.80}")
        return replace(self, custom=MappingProxyType({**self.custom, name: function}))

    def names(self) -> Sequence[str]:
        """Every policy that can be asked for."""
        return [*RetryPolicy, *(CUSTOM + name for name in sorted(self.custom))]

    def complaint(self, policy: str) -> str | None:
        """What is wrong with a policy whose function is not here; None if all is well."""
        custom = policy.startswith(CUSTOM) and policy.removeprefix(CUSTOM) in self.custom
        if custom or policy == RetryPolicy.NEVER or policy in BUILT_IN:
            return None
        return f"no backoff {policy!r} is registered; exponential is used"

    def wait(self, policy: str, setback: Setback) -> Wait:
        """How long to wait under `policy`. Never raises: where the policy cannot be followed, `warning` says so."""
        wait = self._exact(policy, setback)
        if self.random is None or wait.delay is None:
            return wait
        return replace(wait, delay=jittered(wait.delay, self.random()))

    def _exact(self, policy: str, setback: Setback) -> Wait:
        if policy == RetryPolicy.NEVER:
            return Wait(None)
        if built_in := BUILT_IN.get(policy):
            return _new_wait(delay=built_in(setback))
        if complaint := self.complaint(policy):
            return Wait(exponential(setback), complaint)
        try:
            return Wait(_bounded(self.custom[policy.removeprefix(CUSTOM)](setback)))
        except ENDS:
            raise
        except BaseException as problem:  # a user's function may raise anything; the letter must get its date
            return Wait(
                exponential(setback), f"backoff {policy!r} gave no usable delay ({problem}); exponential is used"
            )


def _bounded(delay: timedelta | float) -> timedelta:
    if isinstance(delay, bool) or not isinstance(delay, timedelta | int | float):
        raise InvalidInput(f"a delay is a timedelta or seconds, not {delay!r}")
    if not isinstance(delay, timedelta):
        if math.isnan(delay):
            raise InvalidInput("NaN is no delay")
        delay = timedelta(seconds=min(max(delay, 0.0), LONGEST.total_seconds()))
    return min(max(delay, timedelta(0)), LONGEST)


def jittered(delay: timedelta, random: float) -> timedelta:
    """Full jitter: a `random` (0 to 1) share of `delay`, never more than it. Off unless asked for."""
    return timedelta(milliseconds=int(delay / timedelta(milliseconds=1) * min(max(random, 0.0), 1.0)))


DEFAULT = BackoffRegistry()

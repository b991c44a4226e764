"""The answer of a classifier to a failure, and its context."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from msgspec import field
from msgspec.structs import force_setattr

from mahavishnu.model.backoff import CUSTOM, MAX_DELAY
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import ErrorCategory, RetryPolicy
from mahavishnu.model.record import Value

BUILT_IN: Final = "built-in"  # the author of a verdict of the built-in rules
NOBODY: Final = "nobody"  # the author where no rule and no plugin knew the error

POLICY_OF: Mapping[ErrorCategory, RetryPolicy] = MappingProxyType(
    {
        ErrorCategory.TRANSIENT: RetryPolicy.EXPONENTIAL,
        ErrorCategory.NETWORK: RetryPolicy.EXPONENTIAL,
        ErrorCategory.RESOURCE: RetryPolicy.LINEAR,
        ErrorCategory.PERMISSION: RetryPolicy.NEVER,
        ErrorCategory.VALIDATION: RetryPolicy.NEVER,
        ErrorCategory.PERMANENT: RetryPolicy.NEVER,
    }
)
RETRYABLE = frozenset(category for category, policy in POLICY_OF.items() if policy is not RetryPolicy.NEVER)


class Verdict(Value, frozen=True):
    """Category of a failure, its author and reason, and advice on retrying that overrules the category's.

    `author` is filled in by the chain. A delay longer than seven days is shortened to that. Raises InvalidInput for an
    invalid category, policy, delay or number.
    """

    category: ErrorCategory
    reason: str = ""
    author: str = ""
    retry_in: timedelta | None = None
    policy: str | None = None
    max_retries: int | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        put = force_setattr  # frozen for everybody else
        if type(self.category) is not ErrorCategory:
            put(self, "category", category(self.category))
        if self.retry_in is not None:
            put(self, "retry_in", delay(self.retry_in))
        if self.policy is not None:
            put(self, "policy", policy(self.policy))
        retries: object = self.max_retries
        if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
            raise InvalidInput(f"max_retries of a verdict must be a number from 0, not {retries!r}")
        tags: object = self.tags
        if not isinstance(tags, list | set | frozenset | tuple) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidInput(f"tags of a verdict are a tuple of texts, not {tags!r}")
        if type(tags) is not tuple:
            put(self, "tags", tuple(tags))


class Context(Value, frozen=True):
    """Optional facts about a failure. `recalled`: rebuilt from a stored letter, so the error has no attributes."""

    now: datetime | None = None
    task_id: str | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    adapter: str | None = None
    repos: tuple[str, ...] = ()
    retry_count: int = 0
    recalled: bool = False


NO_CONTEXT = Context()


def category(name: object) -> ErrorCategory:
    """The category of this name. Raises InvalidInput if there is none."""
    try:
        return ErrorCategory(name)  # type: ignore[arg-type]  # anything may come from a plugin
    except ValueError:
        known = ", ".join(ErrorCategory)
        raise InvalidInput(f"there is no error category {name!r}; there are {known}") from None


def policy(name: object) -> str:
    """The retry policy of this name. Raises InvalidInput if there is none."""
    if isinstance(name, str) and name.startswith(CUSTOM) and len(name) > len(CUSTOM):
        return name
    try:
        return RetryPolicy(name)  # type: ignore[arg-type]
    except ValueError:
        known = ", ".join(RetryPolicy)
        raise InvalidInput(f"there is no retry policy {name!r}; there are {known}, and {CUSTOM}<name>") from None


def delay(value: object) -> timedelta:
    """A delay, given as timedelta or seconds, at most seven days. Raises InvalidInput for what is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
        value = timedelta(seconds=min(max(value, -1.0), MAX_DELAY.total_seconds()))
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidInput(f"a delay is a timedelta or seconds, from 0, not {value!r}")
    return min(value, MAX_DELAY)


STALE = "stale:"  # begins the fingerprints of what went stale

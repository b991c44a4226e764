"""Strategies decide whether a failure becomes a letter. A decision is a value with a reason, shown in results."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias

from mahavishnu.classify.exceptions import safe_str
from mahavishnu.classify.verdict import POLICY_OF, RETRYABLE, Verdict
from mahavishnu.classify.verdict import policy as policy_named
from mahavishnu.model.errors import ENDS, InvalidInput
from mahavishnu.model.letter_parts import RetryPolicy
from mahavishnu.model.record import Value


class DLQIntegrationStrategy(StrEnum):
    """Selection of failures that become letters."""

    AUTOMATIC = "automatic"  #: all of them
    SELECTIVE = "selective"  #: those that a retry may help: transient, network, resource
    MANUAL = "manual"  #: those that the caller asks for
    DISABLED = "disabled"  #: none


class Occurrence(Value, frozen=True):
    """A failure that a strategy decides on."""

    task_id: str
    task: Any
    repos: tuple[str, ...]
    error: BaseException | str
    verdict: Verdict
    requested: bool = False  # the caller said that it wants a letter


class Decision(Value, frozen=True):
    """Answer of a strategy: keep the failure or not, and why; with a policy and a budget if it advises them."""

    keep: bool
    reason: str
    retry_policy: str | None = None
    max_retries: int | None = None


Strategy: TypeAlias = "DLQIntegrationStrategy | Callable[[Occurrence], Decision | bool]"


def resolve_strategy(wanted: Any) -> Strategy:
    """A strategy by name, or the given callable. Raises InvalidInput, a ValueError, naming the four.

    >>> resolve_strategy("selective")
    <DLQIntegrationStrategy.SELECTIVE: 'selective'>
    """
    if callable(wanted) and not isinstance(wanted, type):
        return wanted  # type: ignore[no-any-return]  # what it answers is checked each time
    try:
        return DLQIntegrationStrategy(wanted)
    except ValueError:
        known = ", ".join(DLQIntegrationStrategy)
        raise InvalidInput(
            f"there is no strategy {wanted!r}; there are {known}, or give a function of an Occurrence"
        ) from None


def strategy_name(strategy: Strategy) -> str:
    """The name of the strategy in results and logs."""
    if isinstance(strategy, DLQIntegrationStrategy):
        return strategy.value
    return getattr(strategy, "__name__", type(strategy).__name__)


_KEPT = Decision(True, "the strategy is automatic: everything is kept")


def decide(strategy: Strategy, occurrence: Occurrence) -> Decision:
    """Return the strategy's decision. If a user's own raises or answers nonsense, the failure is kept."""
    verdict = occurrence.verdict
    match strategy:
        case DLQIntegrationStrategy.DISABLED:
            return Decision(False, "the strategy is disabled: nothing is kept")
        case _ if occurrence.requested:
            return Decision(True, "the caller asked for it")
        case DLQIntegrationStrategy.AUTOMATIC:
            return _KEPT
        case DLQIntegrationStrategy.MANUAL:
            return Decision(False, "the strategy is manual, and the caller did not ask for it")
        case DLQIntegrationStrategy.SELECTIVE:
            policy = verdict.policy or POLICY_OF[verdict.category]
            if verdict.category in RETRYABLE and policy != RetryPolicy.NEVER:
                return Decision(True, f"the strategy is selective: a {verdict.category} error may pass", policy)
            return Decision(False, f"the strategy is selective: no retry helps against a {verdict.category} error")
    return _ask(strategy, occurrence)


def _invalid_advice(advice: Decision) -> str | None:
    """Return why no letter could be made with this advice; None if one could."""
    if advice.max_retries is not None and (type(advice.max_retries) is not int or advice.max_retries < 0):
        return f"max_retries must be a whole number from 0, not {advice.max_retries!r:.80}"
    try:
        if advice.retry_policy is not None:
            policy_named(advice.retry_policy)
    except InvalidInput as problem:
        return str(problem)
    return None


def _ask(strategy: Callable[[Occurrence], Decision | bool], occurrence: Occurrence) -> Decision:
    name = strategy_name(strategy)
    try:
        answer: object = strategy(occurrence)
    except ENDS:
        raise
    except BaseException as problem:
        why = f"strategy {name} raised {type(problem).__name__}: {safe_str(problem)}; the failure is kept"
        return Decision(True, why)
    if isinstance(answer, Decision):
        if answer.keep and (wrong := _invalid_advice(answer)):
            return Decision(True, f"strategy {name} answered nonsense ({wrong}); the failure is kept")
        return answer
    if isinstance(answer, bool):
        return Decision(answer, f"strategy {name} says so")
    return Decision(True, f"strategy {name} answered {answer!r:.80}, no Decision and no bool; the failure is kept")

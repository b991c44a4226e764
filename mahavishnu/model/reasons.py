"""Which reasons make letters of lifecycle tasks: what is switched off is a failure without a letter."""

from __future__ import annotations

from dataclasses import dataclass

from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.rules import Rules, rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRules(Rules):
    """The reasons for which lifecycle tasks get letters. Other reasons always make letters.

    A task that fails for a reason that is switched off has only failed.

    >>> ReasonRules().keeps(DlqReason.INVALID_STATE_TRANSITION), ReasonRules().keeps(DlqReason.MANUAL)
    (False, True)
    """

    staleness_timeout: bool = rule(True, "Make letters of stale tasks")
    max_retries_exceeded: bool = rule(True, "Make letters of tasks with a step that has no attempt left, or stuck")
    worker_unavailable: bool = rule(True, "Make letters of stale tasks for which no worker lives")
    dependency_cycle_detected: bool = rule(True, "Make letters of stale tasks whose steps wait for one another")
    invalid_state_transition: bool = rule(
        False, "Make letters of tasks that were to be moved as no task can be; the call raises either way"
    )

    def keeps(self, reason: DlqReason) -> bool:
        """Whether a letter is made for this reason."""
        return bool(getattr(self, str(reason), True))

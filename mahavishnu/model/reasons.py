"""Which reasons make letters of lifecycle tasks: what is switched off is a failure without a letter."""

from __future__ import annotations

from dataclasses import dataclass

from mahavishnu.model.letter_parts import DlqReason


@dataclass(frozen=True, slots=True)
class ReasonRules:
    """For which reasons lifecycle tasks get letters. Those that are not named here always do.

    >>> ReasonRules().keeps(DlqReason.INVALID_STATE_TRANSITION), ReasonRules().keeps(DlqReason.MANUAL)
    (False, True)
    """

    staleness_timeout: bool = True
    max_retries_exceeded: bool = True
    worker_unavailable: bool = True
    dependency_cycle_detected: bool = True
    invalid_state_transition: bool = False

    def keeps(self, reason: DlqReason) -> bool:
        """Whether a letter is made for this reason."""
        return bool(getattr(self, str(reason), True))

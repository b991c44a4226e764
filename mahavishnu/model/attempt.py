"""The attempt that the running code is part of."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from mahavishnu.model.letter import DeadLetter


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of one letter, as the code that is run can see it through `current_attempt`.

    `idempotency_key` is the same when a run is repeated because its outcome could not be recorded, and another one for
    every run after a recorded outcome: hand it to whatever must not do the same thing twice. `attempt_id` is unique.
    """

    letter: DeadLetter
    attempt_id: str

    @property
    def idempotency_key(self) -> str:
        tallies = self.letter.tallies
        return f"{self.letter.entry_id}-{tallies.retry_failed + tallies.reopened}"

    @property
    def number(self) -> int:
        """Which run of this letter it is, from 1."""
        return self.letter.total_attempts


current_attempt: ContextVar[Attempt | None] = ContextVar("mahavishnu_attempt", default=None)
"""The attempt that the running code is part of; None outside of one."""

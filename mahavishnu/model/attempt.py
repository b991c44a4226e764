"""The attempt that the running code is part of."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from dataclasses import dataclass, field

from mahavishnu.model.letter import DeadLetter


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of one letter, as the code that is run can see it through `current_attempt`.

    `idempotency_key` is the same when a run is repeated because its outcome could not be recorded, and another one for
    every run after a recorded outcome: hand it to whatever must not do the same thing twice. Runs for one repo each
    have keys of their own. `attempt_id` is unique.
    """

    letter: DeadLetter
    attempt_id: str
    part: str | None = None  # the repo, where the run of one letter is one run for each of its repos
    _ended: list[bool] = field(default_factory=list, repr=False, compare=False)

    @property
    def idempotency_key(self) -> str:
        tallies = self.letter.tallies
        key = f"{self.letter.entry_id}-{tallies.retry_failed + tallies.reopened}"
        return key if self.part is None else f"{key}-{_digest(self.part)}"

    @property
    def is_over(self) -> bool:
        """Whether the run has ended: a task that it left behind still has this attempt in its context."""
        return bool(self._ended)

    def end(self) -> None:
        """The run has ended."""
        self._ended.append(True)

    @property
    def number(self) -> int:
        """Which run of this letter it is, from 1."""
        return self.letter.total_attempts


def _digest(text: str) -> str:
    """Short, and ASCII whatever the text is: keys travel in headers."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


current_attempt: ContextVar[Attempt | None] = ContextVar("mahavishnu_attempt", default=None)
"""The attempt that the running code is part of; None outside of one."""

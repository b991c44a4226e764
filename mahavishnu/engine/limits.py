"""How much a processor does at once, for how long, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus


@dataclass(frozen=True, slots=True)
class Limits:
    """How much, how long, how often."""

    concurrency: int = 50
    run_seconds: float | None = 3600.0
    lease_seconds: float = 300.0
    interval_seconds: float = 60.0
    grace_seconds: float = 30.0
    skew_seconds: float = 30.0  # a lease's end is waited out by so much: the owner's clock may be behind
    only_failed_repos: bool = True  # a retry of a run that failed for some repos is for those only
    polls: bool = True
    wakes: bool = True

    def may_be_leased(self, letter: DeadLetter, now: datetime) -> bool:
        """Whether somebody's lease on the letter may still last by their clock."""
        grace = timedelta(seconds=self.skew_seconds)
        return letter.status is DeadLetterStatus.RETRYING and letter.due_at is not None and letter.due_at + grace > now

    def lease_end(self, now: datetime) -> datetime:
        """Until when a lease lasts that begins or is renewed now."""
        return now + timedelta(seconds=self.lease_seconds)

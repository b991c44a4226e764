"""When a lease that somebody else holds counts as abandoned, whatever the clocks of the machines say.

A lease ends at an instant of its owner's wall clock. Another machine's clock may be minutes ahead or behind, and any
clock may jump. So a worker that finds a lease ended watches it too: a living owner renews at half of its life. One that
left it unchanged for its whole length, on the monotonic clock of the worker that watches, is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import fast_constructor

# A process that lives too short to watch takes over what ended so long ago: no clock that is looked after is so wrong.
SURELY_OVER = timedelta(hours=1)
RENEWALS = 2  # in the length of a lease, while its owner lives


@dataclass(frozen=True, slots=True)
class LeaseSighting:
    """A lease as a worker saw it first, at `at` on its own monotonic clock. A renewed lease is another one."""

    token: str
    until: datetime
    at: float


_new_sighting = fast_constructor(LeaseSighting)


def lease_seconds(letter: DeadLetter) -> float:
    """Return how long the lease lasts from its claim, or its last renewal; 0 without one."""
    return 0.0 if letter.lease is None else letter.lease.seconds


def sighting_of(letter: DeadLetter, former: LeaseSighting | None, monotonic: float) -> LeaseSighting | None:
    """The sighting of the letter's lease: the `former` one if the lease is the same. None if there is no lease."""
    if letter.lease is None or letter.due_at is None:
        return None
    if former is not None and former.token == letter.lease.token and former.until == letter.due_at:
        return former
    return _new_sighting(token=letter.lease.token, until=letter.due_at, at=monotonic)


def may_be_run(letter: DeadLetter, sighting: LeaseSighting | None, now: datetime, monotonic: float) -> bool:
    """Whether the owner of the letter's lease may still be running it."""
    if letter.lease is None or letter.due_at is None:
        return False
    if letter.due_at > now:
        return True
    watched = sighting is not None and monotonic - sighting.at >= lease_seconds(letter)
    return not watched and now - letter.due_at < SURELY_OVER


def must_renew(letter: DeadLetter, written: float, monotonic: float) -> bool:
    """Whether the owner has to renew the lease, which it wrote at `written` on its monotonic clock."""
    return monotonic - written >= lease_seconds(letter) / RENEWALS

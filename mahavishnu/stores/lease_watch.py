"""Watches the leases of other workers, so that no clock decides alone whether an owner is gone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mahavishnu.model.clock import Clock
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import Query, Sort, letter_query
from mahavishnu.model.record import Value

# A process that lives too short to watch takes over what ended so long ago: no clock that is looked after is so wrong.
SURELY_OVER = timedelta(hours=1)
RENEWALS = 2  # in the length of a lease, while its owner lives
SOONEST_ENDING: Query = letter_query(status=DeadLetterStatus.RETRYING, sort=(Sort("due_at"),), limit=1000)
"""The leases to look at now and then: of many, those that were not renewed come first."""
_FEWEST_FORGOTTEN = 10_000


class LeaseSighting(Value, frozen=True):
    """A lease as a worker saw it first, at `at` on its own monotonic clock. A renewed lease is another one."""

    token: str
    until: datetime
    at: float


def lease_seconds(letter: DeadLetter) -> float:
    """Return the length of the lease from its claim or last renewal; 0 without one."""
    return 0.0 if letter.lease is None else letter.lease.seconds


def sighting_of(letter: DeadLetter, former: LeaseSighting | None, monotonic: float) -> LeaseSighting | None:
    """The sighting of the letter's lease: the `former` one if the lease is the same. None if there is no lease."""
    if letter.lease is None or letter.due_at is None:
        return None
    if former is not None and former.token == letter.lease.token and former.until == letter.due_at:
        return former
    return LeaseSighting(token=letter.lease.token, until=letter.due_at, at=monotonic)


def may_be_running(letter: DeadLetter, sighting: LeaseSighting | None, now: datetime, monotonic: float) -> bool:
    """Return True if the owner of the letter's lease may still be running it."""
    if letter.lease is None or letter.due_at is None:
        return False
    if letter.due_at > now:
        return True
    watched = sighting is not None and monotonic - sighting.at >= lease_seconds(letter)
    return not watched and now - letter.due_at < SURELY_OVER


def must_renew(letter: DeadLetter, written: float, monotonic: float) -> bool:
    """Return True if the owner has to renew the lease, written at `written` on its monotonic clock."""
    return monotonic - written >= lease_seconds(letter) / RENEWALS


class LeaseWatch:
    """Remembers since when each lease has stood unchanged, as this process saw it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sightings: dict[str, LeaseSighting] = {}
        self._most = _FEWEST_FORGOTTEN

    def look(self, letters: Iterable[DeadLetter]) -> None:
        """Note the leases on these letters as they are now."""
        for letter in letters:
            self._see(letter)

    def may_be_running(self, letter: DeadLetter, now: datetime, skew: timedelta = timedelta(0)) -> bool:
        """Return True if the owner of the letter's lease may still be running it; its end is waited out by `skew`."""
        if letter.lease is None:
            return False
        return may_be_running(letter, self._see(letter), now - skew, self._clock.monotonic())

    def now_for(self, *records: object) -> datetime:
        """Return an instant by which no live owner's lease has ended: reconciling then takes no letter from a run."""
        now = self._clock.now()
        doubtful = (each.due_at for each in records if isinstance(each, DeadLetter) and self.may_be_running(each, now))
        return min([now, *(ends - timedelta(milliseconds=1) for ends in doubtful if ends is not None)])

    def _see(self, letter: DeadLetter) -> LeaseSighting | None:
        key = letter.key
        sighting = sighting_of(letter, self._sightings.get(key), self._clock.monotonic())
        if sighting is not None:
            self._sightings[key] = sighting
            if len(self._sightings) > self._most:
                self._forget()
        return sighting

    def _forget(self) -> None:
        """Forget leases that are surely over; if that is too little, remember more at once."""
        since = self._clock.monotonic() - SURELY_OVER.total_seconds()
        self._sightings = {key: each for key, each in self._sightings.items() if each.at > since}
        self._most = max(_FEWEST_FORGOTTEN, 2 * len(self._sightings))

"""Time is passed in. The only module that reads a clock."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NoReturn, Protocol

from msgspec.structs import force_setattr

from mahavishnu.model.errors import InvalidInput

LAST_INSTANT = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)


class Clock(Protocol):
    """The source of time. Tests pass a `mahavishnu.testing.ManualClock`."""

    def now(self) -> datetime:
        """The wall clock: aware, UTC, whole milliseconds. It may jump."""

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring intervals."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock."""


class SystemClock:
    """The machine's own clocks."""

    # Making a datetime takes four times as long as reading the time, and the clock is read several times for each
    # letter: in one millisecond it is the same one. A tuple, so that no thread sees the one without the other.
    _latest = (-1, LAST_INSTANT)

    def now(self) -> datetime:
        milliseconds = time.time_ns() // 1_000_000
        latest, moment = self._latest
        if milliseconds != latest:
            moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
            self._latest = milliseconds, moment
        return moment

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def wait_for(event: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Return when the event is set, or after `seconds` of the clock; None: however long that takes."""
    waits: set[asyncio.Task[object]] = {asyncio.create_task(event.wait())}
    if seconds is not None:
        waits.add(asyncio.create_task(clock.sleep(seconds)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def instant(value: datetime) -> datetime:
    """`value` as every store can keep it: UTC, cut to whole milliseconds (an OpenSearch date keeps no more).

    Raises InvalidInput for a naive datetime, because guessing its zone would be a lie, and for one that in UTC lies
    before the year 1 or after the year 9999.

    >>> instant(datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)).microsecond
    123000
    """
    if value.tzinfo is UTC and not value.microsecond % 1000:  # the usual case
        return value
    if value.tzinfo is None:
        raise InvalidInput(f"{value.isoformat()} has no time zone; give an aware datetime, such as datetime.now(UTC)")
    try:
        value = value.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{value.isoformat()} is no instant in UTC: years go from 1 to 9999") from None
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def cut_at(value: Any) -> None:
    """Make `at` of a new frozen struct an `instant`; its `__post_init__`."""
    if (at := instant(value.at)) is not value.at:
        force_setattr(value, "at", at)


def read_instant(given: object, name: str) -> datetime | None:
    """Return an optional limit as an `instant`. Raises InvalidInput, with its name, for anything but a datetime."""
    if given is None:
        return None
    if not isinstance(given, datetime):
        raise InvalidInput(f"{name} is a datetime with a time zone, not {given!r:.80}")
    return instant(given)


def add_time(moment: datetime, time: timedelta) -> datetime:
    """`moment` plus `time`, at most the last instant that there is: a stored date may be as late as that.

    >>> add_time(LAST_INSTANT, timedelta(days=1)) == LAST_INSTANT
    True
    """
    try:
        return moment + time
    except OverflowError:
        return LAST_INSTANT


def instant_text(value: datetime) -> str:
    """The text of an instant in documents: of fixed width, so that the order of texts is that of time.

    >>> instant_text(datetime(2026, 1, 1, tzinfo=UTC))
    '2026-01-01T00:00:00.000Z'
    """
    if value.tzinfo is not UTC:
        value = instant(value)
    day, milliseconds = (value.year, value.month, value.day), value.microsecond // 1000
    # Half of what isoformat and format specifiers take.
    return "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ" % (*day, value.hour, value.minute, value.second, milliseconds)  # noqa: UP031


# --- lengths of time as people write them: `30s`, `5m`, `1h30m`, `500ms`, `1d`

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
MOST_DAYS = 36_500  # a hundred years: dates have an end
_LONGEST = MOST_DAYS * _MILLISECONDS["d"]
LONGEST_SECONDS = _LONGEST / 1000
_WHOLE = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?", re.ASCII)


def require_days(value: object, name: str, more: str = "") -> int:
    """A number of days, or of months. Raises InvalidInput.

    >>> require_days(-1, "retention_days")
    Traceback (most recent call last):
    mahavishnu.model.errors.InvalidInput: retention_days must be a whole number from 0 to 36500, not -1
    """
    if type(value) is not int or not 0 <= value <= MOST_DAYS:
        raise InvalidInput(f"{name} must be a whole number from 0 to {MOST_DAYS}{more}, not {value!r:.80}")
    return value


def require_wait(wait: Any) -> timedelta:
    """Return `retry_in`, the least wait of work. Raises InvalidInput."""
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_SECONDS:
        most = f"{LONGEST_SECONDS:.0f} (a hundred years)"
        raise InvalidInput(f"retry_in must be a timedelta or seconds, from 0 to {most}, not {wait!r:.80}")
    return timedelta(seconds=seconds)


def parse_duration(text: Any) -> timedelta:
    """The length of time that a text says. Raises InvalidInput for anything else, also for a number without a unit."""
    return _parse(text) if isinstance(text, str) else _refuse(text)


@lru_cache(256)  # a definition says the same ones for each of its items
def _parse(text: str) -> timedelta:
    found = _WHOLE.fullmatch(text)
    if found is None or not text:
        _refuse(text)
    parts = zip(found.groups(), _MILLISECONDS.values(), strict=True)
    total = sum(int(count) * unit for count, unit in parts if count is not None)
    if total > _LONGEST:
        raise InvalidInput(f"{text!r:.80} is longer than any time that can be waited for: at most 36500d")
    return timedelta(milliseconds=total)


def _refuse(text: Any) -> NoReturn:
    raise InvalidInput(f"{text!r:.80} is no length of time; write it as 30s, 5m, 1h, 1h30m, 500ms or 1d")

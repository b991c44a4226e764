"""Lengths of time and instants as queries write them: `2h`, `now-30m`, `2026-01-31`, `2026-01-31T12:00`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import InvalidInput

RESOLUTION = timedelta(milliseconds=1)  # of the instants that stores keep
_DAY = timedelta(days=1)
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_FROM_NOW = re.compile(r"now(?:([+-])(.+))?")


def parse_duration(text: str) -> timedelta:
    """The length of time. Raises InvalidInput.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    if not _DURATION.fullmatch(text):
        raise InvalidInput(f"{text!r:.80} is no length of time such as 90s, 30m, 2h, 1d12h, 3w")
    try:
        return timedelta(seconds=sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text)))
    except OverflowError:
        raise InvalidInput(f"{text!r:.80} is longer than there are dates for") from None


def shift(moment: datetime, by: timedelta) -> datetime:
    """The instant that much later. Raises InvalidInput where there are no dates any more."""
    try:
        return instant(moment + by)
    except OverflowError:
        raise InvalidInput("there are no dates for that") from None


def parse_span(text: str, now: datetime, *, ahead: bool = False) -> tuple[datetime, datetime]:
    """When what the text names begins, and when it has ended: a day, or one instant. Raises InvalidInput.

    `ahead`: a length of time alone is taken for so long from now.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> [str(each) for each in parse_span("2029-12-31", noon)]
    ['2029-12-31 00:00:00+00:00', '2030-01-01 00:00:00+00:00']
    """
    if found := _FROM_NOW.fullmatch(text):
        sign, duration = found.groups()
        length = parse_duration(duration) if sign else timedelta()
        first = shift(now, -length if sign == "-" else length)
        return first, shift(first, RESOLUTION)
    if _DURATION.fullmatch(text):
        if not ahead:
            raise InvalidInput(f"here an instant is wanted: now-{text} is {text} ago")
        first = shift(now, parse_duration(text))
        return first, shift(first, RESOLUTION)
    try:
        given = datetime.fromisoformat(text.upper())
        first = instant(given if given.tzinfo else given.replace(tzinfo=UTC))
    except ValueError:  # InvalidInput is one
        raise InvalidInput(f"{text!r:.80} is no instant such as 2026-01-31, 2026-01-31T12:00 or now-2h") from None
    return first, shift(first, _DAY if len(text) == len("2026-01-31") else RESOLUTION)


def is_day(first: datetime, end: datetime) -> bool:
    """Whether from the one instant to the other is one whole day of UTC."""
    return end - first == _DAY and first.astimezone(UTC).time() == time.min

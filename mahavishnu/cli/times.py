"""Instants as people read them: how long ago, or in how long, on a terminal; whole in a pipe."""

from __future__ import annotations

from datetime import datetime

from mahavishnu.cli.output import for_people, moment

_UNITS = (("d", 86400, 2), ("h", 3600, 1), ("m", 60, 1), ("s", 1, 0))  # name, seconds, how many there are at least


def when(text: str | None) -> str:
    """An instant of the API in a table."""
    return relative(text, _now()) if text and for_people() else moment(text)


def instant_and_distance(text: str) -> str:
    """An instant of the API whole, and for people also how far away it is."""
    return f"{moment(text)} ({relative(text, _now())})" if for_people() else moment(text)


def relative(text: str, now: datetime) -> str:
    """How far an instant is away.

    >>> from datetime import UTC
    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> relative("2030-01-01T11:00:30.000Z", noon), relative("2030-01-01T12:01:05.000Z", noon)
    ('59m ago', 'in 1m')
    >>> relative("2030-01-01T12:00:00.400Z", noon), relative("2029-12-01T12:00:00.000Z", noon)
    ('now', '31d ago')
    """
    seconds = int((datetime.fromisoformat(text) - now).total_seconds())
    if not seconds:
        return "now"
    unit, size = next((name, size) for name, size, least in _UNITS if abs(seconds) >= size * least)
    distance = f"{abs(seconds) // size}{unit}"
    return f"in {distance}" if seconds > 0 else f"{distance} ago"


def is_past(text: str) -> bool:
    """Whether an instant of the API is over."""
    return datetime.fromisoformat(text) <= _now()


def _now() -> datetime:
    from mahavishnu.model.clock import SystemClock  # imports asyncio: not for help

    return SystemClock().now()

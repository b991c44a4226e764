"""How long a server asked us to wait."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from mahavishnu.classify.builtin.attributes import headers_of
from mahavishnu.classify.exceptions import attribute
from mahavishnu.model.backoff import MAX_DELAY

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_IN_TEXT = re.compile(
    r"\b(?:retry.after|(?:try|retry)(?: again| your request)* (?:in|after))[\"']?(?:[ :=]|about)*"
    r"(?P<amount>\d{1,7}(?:\.\d+)?)\s*"
    r"(?P<unit>milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h)?\b",
    re.IGNORECASE,
)


def asked_by(error: BaseException, now: datetime | None) -> timedelta | None:
    """The delay in the error's `Retry-After` header or `retry_after` attribute; None for none and for nonsense."""
    headers = headers_of(error)
    if headers is not None:
        for name, unit in (("retry-after-ms", 0.001), ("Retry-After", 1.0), ("retry-after", 1.0)):
            try:
                value = headers.get(name)
            except Exception:
                value = None  # strange headers are as good as none
            if value is not None and (asked := read(value, now, unit)) is not None:
                return asked
    return read(attribute(error, "retry_after"), now)


def read(value: object, now: datetime | None = None, unit: float = 1.0) -> timedelta | None:
    """A delay from seconds, a timedelta, or an HTTP date (which needs `now`); at most seven days.

    >>> read("120"), read("soon"), read(10**9)
    (datetime.timedelta(seconds=120), None, datetime.timedelta(days=7))
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        text = value.strip()
        try:
            value = float(text)
        except ValueError:
            value = _date(text)
    if isinstance(value, datetime):
        if now is None:
            return None
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return min(max(moment - now, timedelta(0)), MAX_DELAY)
    if isinstance(value, timedelta):
        return min(value, MAX_DELAY) if value >= timedelta(0) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return timedelta(seconds=min(min(value, 10**12) * unit, MAX_DELAY.total_seconds()))


def _date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def in_text(text: str) -> timedelta | None:
    """The delay that an error text asks for: "Please try again in 20s", "retry after 5 minutes".

    >>> in_text("Rate limit reached. Please try again in 20s.")
    datetime.timedelta(seconds=20)
    """
    if "try" not in text.lower() or (found := _IN_TEXT.search(text)) is None:  # a search for a word is far cheaper
        return None
    unit = (found["unit"] or "s").lower()
    return read(float(found["amount"]), unit=_SECONDS["ms" if unit.startswith(("ms", "milli")) else unit[0]])

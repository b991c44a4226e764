"""Lengths of time as people write them: `30s`, `5m`, `1h30m`, `500ms`, `1d`."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import Any, NoReturn

from mahavishnu.model.errors import InvalidInput

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
    """Return `retry_in`, the least wait of work. Raises InvalidInput.

    >>> require_wait(90), require_wait(timedelta(minutes=1))
    (datetime.timedelta(seconds=90), datetime.timedelta(seconds=60))
    """
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_SECONDS:
        most = f"{LONGEST_SECONDS:.0f} (a hundred years)"
        raise InvalidInput(f"retry_in must be a timedelta or seconds, from 0 to {most}, not {wait!r:.80}")
    return timedelta(seconds=seconds)


def parse_duration(text: Any) -> timedelta:
    """The length of time that a text says. Raises InvalidInput for anything else, also for a number without a unit.

    >>> parse_duration("1h30m"), parse_duration("500ms")
    (datetime.timedelta(seconds=5400), datetime.timedelta(microseconds=500000))
    """
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

"""Lengths of time as people write them: `30s`, `5m`, `1h30m`, `500ms`, `1d`."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import Any, NoReturn

from mahavishnu.model.errors import InvalidInput

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_LONGEST = 36_500 * _MILLISECONDS["d"]
LONGEST_SECONDS = _LONGEST / 1000
_WHOLE = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?", re.ASCII)


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

"""Words of pages for numbers, times and states. All other text of a page stands in its template."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_RUNBOOK = re.compile(r"\(runbook: (https?://[^\s<>\"']+)\)$")


def count(number: int | float | None) -> str:
    """A number with separators of thousands.

    >>> count(1204), count(0), count(None)
    ('1,204', '0', 'not known')
    """
    if number is None:
        return "not known"
    return f"{number:,}" if isinstance(number, int) or number % 1 else f"{int(number):,}"


def plural(number: int, one: str, many: str = "") -> str:
    """The word for so many of something, with the number.

    >>> plural(1, "letter"), plural(2, "letter"), plural(3, "entry", "entries")
    ('1 letter', '2 letters', '3 entries')
    """
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def span(length: timedelta) -> str:
    """A length of time, coarsely.

    >>> span(timedelta(minutes=69)), span(timedelta(seconds=41)), span(timedelta(days=3, hours=5))
    ('1 h 9 min', '41 s', '3 d')
    >>> span(timedelta(seconds=0.2))
    'less than 1 s'
    """
    seconds = int(abs(length.total_seconds()))
    for size, unit in _UNITS:
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            minutes = rest // 60
            return f"{whole} {unit} {minutes} min" if unit == "h" and minutes else f"{whole} {unit}"
    return "less than 1 s"


def ago(moment: datetime, now: datetime) -> str:
    """Say how long ago a moment is, or in how long it will be.

    >>> now = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> ago(now - timedelta(minutes=3), now), ago(now + timedelta(seconds=38), now), ago(now, now)
    ('3 min ago', 'in 38 s', 'just now')
    """
    difference = now - moment
    if abs(difference) < timedelta(seconds=1):
        return "just now"
    return f"{span(difference)} ago" if difference > timedelta() else f"in {span(difference)}"


def exact(moment: datetime) -> str:
    """A moment to the second.

    >>> exact(datetime(2026, 11, 19, 2, 12, 8, tzinfo=UTC))
    '19 Nov 2026, 02:12:08 UTC'
    """
    return f"{moment.astimezone(UTC):%d %b %Y, %H:%M:%S} UTC".lstrip("0")


def clock_time(moment: datetime) -> str:
    """The time of the day of a moment.

    >>> clock_time(datetime(2026, 11, 19, 2, 12, 8, tzinfo=UTC))
    '02:12:08'
    """
    return f"{moment.astimezone(UTC):%H:%M:%S}"


def instant(moment: datetime) -> str:
    """A moment as programs read it: for the `datetime` of a `time` element."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def state_words(state: Any) -> str:
    """A state as people read it.

    >>> state_words("waiting_for_fix")
    'Waiting for fix'
    >>> state_words("wont_fix")
    "Won't fix"
    """
    text = str(state).replace("_", " ").replace("wont", "won't")
    return text[:1].upper() + text[1:]


def with_runbook(reason: str) -> str | Markup:
    """The reason of a verdict; the runbook that a rule names at its end is a link.

    >>> with_runbook("a card <was> declined (runbook: https://wiki.example/cards)")
    Markup('a card &lt;was&gt; declined (runbook: <a href="https://wiki.example/cards" rel="noreferrer noopener">https://wiki.example/cards</a>)')
    >>> with_runbook("rule 1 (runbook: javascript:alert(1))")
    'rule 1 (runbook: javascript:alert(1))'
    """
    if (found := _RUNBOOK.search(reason)) is None:
        return reason
    link = '{}(runbook: <a href="{}" rel="noreferrer noopener">{}</a>)'
    return Markup(link).format(reason[: found.start()], found[1], found[1])

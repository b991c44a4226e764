"""The built-in rules: from an error to its category and the reason, or None for an error that they do not know.

They are ordered by how far they can be trusted. Of one error the type itself counts first, then the numbers and codes
in its attributes, then the names of its type and its base classes. If an error says nothing, its causes are asked, the
outermost first. Only then are the words of the messages read. An error that was merely being handled when another was
raised comes after that. What a library's most general error usually means comes last.
"""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from mahavishnu.classify.builtin import data
from mahavishnu.classify.builtin.attributes import headers_of, match_attributes, match_retry_flag
from mahavishnu.classify.builtin.codes import Finding, match_name, says_nothing
from mahavishnu.classify.builtin.text import disambiguate, is_ambiguous, match_text
from mahavishnu.classify.exceptions import Link, attribute, is_bare, middle_cut, share, text_of, walk
from mahavishnu.classify.tracebacks import ParsedError, match_type_name, parse_errors
from mahavishnu.classify.verdict import BUILT_IN, RETRYABLE, Verdict
from mahavishnu.model.backoff import MAX_DELAY
from mahavishnu.model.letter_parts import ErrorCategory

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DELAY = re.compile(
    r"\b(?:retry.after|(?:try|retry)(?: again| your request){0,4} (?:in|after))[\"']?(?:[ :=]|about){0,8}"
    r"(?P<amount>\d{1,7}(?:\.\d+)?)\s*"
    r"(?P<unit>milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h)?\b",
    re.IGNORECASE,
)


def classify(error: BaseException | str, now: datetime | None = None) -> Verdict | None:
    """Classify an exception or an error text by the built-in rules; None if they do not know it.

    `now` is needed only to read a Retry-After that is a date. Never raises, whatever the error's attributes and
    `__str__` do.

    >>> classify(ConnectionResetError("peer went away")).category
    <ErrorCategory.NETWORK: 'network'>
    >>> classify("HTTP 429 Too Many Requests").reason
    'text: HTTP 429'
    """
    if isinstance(error, str):
        return _classify_text(error)
    links = walk(error)
    for link, finding in _findings(links):
        if finding is not None:
            reason = finding.reason
            if link.depth:
                relation = "behind" if not link.implicit else "being handled at"
                reason = f"{reason}, {relation} {type(error).__name__}"
            return _verdict(finding.category, reason, _delay(finding.category, links, now))
    return None


@lru_cache(maxsize=1024)  # the same few come again and again
def _verdict(category: ErrorCategory, reason: str, retry_in: timedelta | None) -> Verdict:
    return Verdict(category, reason, BUILT_IN, retry_in=retry_in)


def _findings(links: list[Link]) -> Iterable[tuple[Link, Finding | None]]:
    """Yield the finding of each error, the most trusted evidence first."""
    most = share(len(links))
    for implicit in (False, True):
        part = [link for link in links if link.implicit is implicit]
        for link in part:
            finding = match_type(link.error)
            if finding is not None and is_ambiguous(finding):
                finding = disambiguate(finding, text_of(link.error, most))
            yield link, finding
        for link in part:
            yield link, _match_words(link.error, most)
    for link in links:
        if not link.implicit:
            kind: Any = type(link.error)
            yield link, match_retry_flag(link.error) or _match_weak_type(kind)


def _match_words(error: BaseException, most: int) -> Finding | None:
    kind = type(error)
    if kind.__module__ == "builtins":
        return None if kind.__name__ in data.types().bugs else match_text(text_of(error, most))
    return match_text(_with_name(_full_name(kind), text_of(error, most)))


def _with_name(name: str | None, message: str) -> str:
    """The message with the name of its type, read as words: "CannotAcquireLock: could not execute the statement"."""
    if not name or name in data.types().weak or hasattr(builtins, name) or says_nothing(name.rpartition(".")[2]):
        return message
    return f"{name.rpartition('.')[2]}: {message}"


def match_type(error: BaseException) -> Finding | None:
    """Match the error's type and attributes; neither its causes nor its words are read."""
    if is_bare(error):
        return _match_one(error)
    original = attribute(error, "orig")  # SQLAlchemy's wrapper says less than the driver's own error
    inner = _match_one(original) if isinstance(original, BaseException) else None
    return inner or _match_one(error)


def _match_one(error: BaseException) -> Finding | None:
    kind: Any = type(error)
    return _match_exact_type(kind) or match_attributes(error) or _match_base_types(kind)


@lru_cache(maxsize=4096)
def _match_exact_type(kind: type) -> Finding | None:
    known = data.types()
    if kind in known.builtin_classes:
        return Finding(known.builtin_classes[kind], kind.__name__)
    name = _full_name(kind)
    return Finding(known.listed[name], name) if name in known.listed else None


@lru_cache(maxsize=4096)
def _match_base_types(kind: type) -> Finding | None:
    """Match the first class in the order of inheritance that says anything."""
    known = data.types()
    for base in kind.__mro__:
        name = _full_name(base)
        category: ErrorCategory | None = known.listed.get(name) or known.builtin_classes.get(base)
        if category is None and base.__module__ != "builtins" and name not in known.weak:
            category = match_name(base.__name__)
        if category is not None:
            return Finding(category, name if base is kind else f"{kind.__name__} is a {name}")
    return None


@lru_cache(maxsize=4096)
def _match_weak_type(kind: type) -> Finding | None:
    for base in kind.__mro__:
        if (category := data.types().weak.get(_full_name(base))) is not None:
            return Finding(category, f"nothing else is known of this {_full_name(base)}")
    return None


def _full_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _delay(category: ErrorCategory, links: list[Link], now: datetime | None) -> timedelta | None:
    if category not in RETRYABLE:
        return None
    for link in links:
        if not is_bare(link.error) and (delay := retry_after(link.error, now)) is not None:
            return delay
    return delay_in_text(text_of(links[0].error))


def _classify_text(text: str) -> Verdict | None:
    errors = parse_errors(text)
    most = share(len(errors))
    errors = [each._replace(message=middle_cut(each.message, most)) for each in errors]
    for parsed, finding in _text_findings(errors):
        if finding is not None:
            delay = delay_in_text(parsed.message) if finding.category in RETRYABLE else None
            return _verdict(finding.category, finding.reason, delay)
    return None


def _text_findings(errors: list[ParsedError]) -> Iterable[tuple[ParsedError, Finding | None]]:
    """Yield the finding of each error of a text, in the order of `_findings`."""
    explicit = [parsed for parsed in errors if not parsed.implicit]
    for part in (explicit, [parsed for parsed in errors if parsed.implicit]):
        for parsed in part:
            finding = match_type_name(parsed)
            if finding is not None and is_ambiguous(finding):
                finding = disambiguate(finding, parsed.message)
            yield parsed, finding
        for parsed in part:
            is_bug = parsed.name in data.types().bugs
            yield parsed, None if is_bug else match_text(_with_name(parsed.name, parsed.message))
    for parsed in explicit:
        if parsed.name is not None and (category := data.types().weak.get(parsed.name)) is not None:
            yield parsed, Finding(category, f"nothing else is known of this {parsed.name}")


def retry_after(error: BaseException, now: datetime | None) -> timedelta | None:
    """The delay in the error's `Retry-After` header or `retry_after` attribute; None for none and for nonsense."""
    headers = headers_of(error)
    if headers is not None:
        for name, unit in (("retry-after-ms", 0.001), ("Retry-After", 1.0), ("retry-after", 1.0)):
            try:
                value = headers.get(name)
            except Exception:
                value = None  # an object that only looks like headers
            if value is not None and (delay := parse_delay(value, now, unit)) is not None:
                return delay
    return parse_delay(attribute(error, "retry_after"), now)


def parse_delay(value: object, now: datetime | None = None, unit: float = 1.0) -> timedelta | None:
    """A delay from seconds, a timedelta, or an HTTP date (which needs `now`); at most seven days.

    >>> parse_delay("120"), parse_delay("soon"), parse_delay(10**9)
    (datetime.timedelta(seconds=120), None, datetime.timedelta(days=7))
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        text = value.strip()
        try:
            value = float(text)
        except ValueError:
            value = _parse_date(text)
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


def _parse_date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def delay_in_text(text: str) -> timedelta | None:
    """The delay that an error text asks for: "Please try again in 20s", "retry after 5 minutes".

    >>> delay_in_text("Rate limit reached. Please try again in 20s.")
    datetime.timedelta(seconds=20)
    """
    if "try" not in text.lower() or (found := _DELAY.search(text)) is None:  # looking for a word is far cheaper
        return None
    unit = (found["unit"] or "s").lower()
    return parse_delay(float(found["amount"]), unit=_SECONDS["ms" if unit.startswith(("ms", "milli")) else unit[0]])

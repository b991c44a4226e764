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
from operator import attrgetter
from typing import Any

from mahavishnu.classify.builtin import data
from mahavishnu.classify.builtin.attributes import headers_of, match_attributes, match_retry_flag
from mahavishnu.classify.builtin.clauses import around, clauses, is_negated, normalize
from mahavishnu.classify.builtin.codes import (
    Finding,
    match_code_name,
    match_codes,
    match_constant_name,
    match_name,
    says_nothing,
)
from mahavishnu.classify.builtin.data import Phrase
from mahavishnu.classify.exceptions import Link, attribute, is_bare, middle_cut, share, text_of, walk
from mahavishnu.classify.tracebacks import ParsedError, match_type_name, parse_errors
from mahavishnu.classify.verdict import BUILT_IN, RETRYABLE, Verdict
from mahavishnu.model.backoff import MAX_DELAY
from mahavishnu.model.letter_parts import ErrorCategory

# --- evidence in the words of an error text

_GUESS = 5  # the rank of phrases that are weaker than the name of a constant
# Looking up a member of an enumeration takes as long as the rest of `is_ambiguous`, which every failure passes.
_TRANSIENT, _VALIDATION, _PERMISSION = ErrorCategory.TRANSIENT, ErrorCategory.VALIDATION, ErrorCategory.PERMISSION


def match_text(text: str, *, with_codes: bool = True) -> Finding | None:
    """The category that the words of an English error text say, and which words; None if none do.

    >>> match_text("Adapter failed: connection refused").reason
    "text: 'connection refused'"
    >>> match_text("permission granted to the network team")
    """
    return _match_short(text, with_codes) if len(text) <= _SHORT else _match(text, with_codes)


def _match(text: str, with_codes: bool) -> Finding | None:
    text = middle_cut(text)
    if with_codes and (named := match_code_name(text)) is not None:
        return disambiguate(named, text) if is_ambiguous(named) else named
    best: Phrase | None = None
    finding: Finding | None = None
    for clause in clauses(normalize(text)):
        if with_codes and (coded := match_codes(clause)) is not None:
            return disambiguate(coded, text) if is_ambiguous(coded) else coded
        for phrase in _candidates(clause):
            if best is not None and phrase.order >= best.order:
                break
            if (words := _first_affirmed(phrase.pattern, clause)) is not None:
                best, finding = phrase, Finding(phrase.category, f"text: {words[:80]!r}")
                break
    if with_codes and (best is None or best.order[0] >= _GUESS):
        return match_constant_name(text) or finding
    return finding


# During an outage the same few texts come again and again.
_SHORT = 400
_match_short = lru_cache(maxsize=2048)(_match)


def is_ambiguous(finding: Finding) -> bool:
    """Return True if a finding may stand for another category, which the text of the error may name."""
    category, reason = finding
    if category is _TRANSIENT or category is _VALIDATION:
        return any(mark in reason for mark in _AMBIGUOUS_REASONS)
    return category is _PERMISSION and ("403" in reason or "orbidden" in reason)


def disambiguate(finding: Finding, text: str) -> Finding:
    """The category that the text names for an ambiguous finding; the finding itself if it names none."""
    if finding.category is not ErrorCategory.PERMISSION:
        for marks, pattern, category in _OTHER_MEANINGS:
            if any(mark in finding.reason for mark in marks) and (why := pattern.search(text)) is not None:
                return Finding(category, f"text: {why[0].lower()!r} ({finding.reason})")
        return finding
    better = match_text(text, with_codes=False)
    if better is not None and better.category in (ErrorCategory.TRANSIENT, ErrorCategory.RESOURCE):
        return Finding(better.category, f"{better.reason} ({finding.reason})")
    return finding


_KILLED = re.compile(r"\bsigkill\b|\bsignal 9\b|\bout of memory\b|\boom\b", re.IGNORECASE)
_NOT_ALLOWED = re.compile(r"\baccess (?:control|denied)\b|\bprivileges?\b|\bpermission denied\b", re.IGNORECASE)
_EXISTS = re.compile(r"\balready exists?\b", re.IGNORECASE)
_TIMEOUT = re.compile(
    r"\b(?:due to|because of|after|by) (?:(?:a|an|the|its) )?(?:\S+ )?(?:\S*timeout|deadline)\b|\boperation timeout\b",
    re.IGNORECASE,
)
_CREDIT = re.compile(
    r"\binsufficient[_ ](?:quota|credits?|balance|funds)\b|\bcredit balance\b|\bcurrent quota\b|"
    r"\bbilling (?:details|account|hard limit|plan|status)\b|\bplan and billing\b",
    re.IGNORECASE,
)
# Many services answer 400 also when they reject the credentials.
_BAD_CREDENTIALS = re.compile(
    r"\binvalid[_ ]grant\b|\b(?:api|access|refresh|security|auth\w*|bearer|session|id|oauth)[_ ](?:key|token)s? "
    r"(?:\w+ ){0,3}?(?:not valid|invalid|expired|revoked)\b|\bexpired(?:[_ ]\w+)?[_ ]?token\b",
    re.IGNORECASE,
)

# Marks in the reason of an ambiguous finding, the words that tell of another category, and that category.
_OTHER_MEANINGS = (
    (("429", "RateLimit", "HTTP 400"), _CREDIT, ErrorCategory.RESOURCE),
    (("HTTP 400",), _BAD_CREDENTIALS, ErrorCategory.PERMISSION),
    (("ancel", "borted", "ackend"), _TIMEOUT, ErrorCategory.NETWORK),
    (("onflict",), _EXISTS, ErrorCategory.VALIDATION),
    (("Lost", "Crashed", "Died"), _KILLED, ErrorCategory.RESOURCE),
    (("ProgrammingError",), _NOT_ALLOWED, ErrorCategory.PERMISSION),
)
_AMBIGUOUS_REASONS = tuple(mark for marks, _, _ in _OTHER_MEANINGS for mark in marks)


def _candidates(clause: str) -> list[Phrase]:
    """The phrases that may be in the clause, by order."""
    by_word = data.phrases_by_word()
    words = dict.fromkeys(data.WORD.findall(clause))  # in order, so that a text always gets the same reason
    is_without = frozenset(words).isdisjoint
    found = {
        phrase: None for word in words for phrase in by_word.get(word, ()) if not any(map(is_without, phrase.needs))
    }
    return sorted(found, key=_by_order)


_by_order = attrgetter("order")


def _first_affirmed(pattern: re.Pattern[str], clause: str) -> str | None:
    """The words of the first match that the clause does not negate."""
    for match in pattern.finditer(clause):
        words = match.group().strip(" .:;,([")
        if not is_negated(words, *around(match)):
            return words
    return None


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

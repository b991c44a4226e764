"""The built-in rules, pure: an error in, a category with its reason out, or None for what they do not know.

The order is that of trust. Of one error its own type counts first if that is known, then the numbers and codes that
it carries, then the names of its type and of what that inherits from. Where an error says nothing, what it was caused
by is asked, the outermost first. Only then is anything made of words. What was merely being handled when the error was
raised comes after all that, and what a library's most general error usually means comes last.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from mahavishnu.classify.builtin import delays, known
from mahavishnu.classify.builtin.attributes import Finding, of_signs, retriable
from mahavishnu.classify.builtin.names import of_name, says_nothing
from mahavishnu.classify.builtin.text import excused, may_be_excused, of_text
from mahavishnu.classify.builtin.tracebacks import Spoken, heard, of_spoken_type
from mahavishnu.classify.exceptions import Link, attribute, is_bare, walk, words_of
from mahavishnu.classify.verdict import BUILT_IN, RETRYABLE, Verdict
from mahavishnu.model.letter_parts import ErrorCategory


def classify(error: BaseException | str, now: datetime | None = None) -> Verdict | None:
    """What the built-in rules say of an exception or an error text; None if they do not know it.

    `now` is needed only to read a Retry-After that is a date. Nothing that the error does in its attributes or
    `__str__` makes this raise.

    >>> classify(ConnectionResetError("peer went away")).category
    <ErrorCategory.NETWORK: 'network'>
    >>> classify("HTTP 429 Too Many Requests").reason
    'text: HTTP 429'
    """
    if isinstance(error, str):
        return _of_text(error)
    links = walk(error)
    for link, finding in _findings(links):
        if finding is not None:
            reason = finding.reason
            if link.depth:
                relation = "behind" if not link.implicit else "being handled at"
                reason = f"{reason}, {relation} {type(error).__name__}"
            return _verdict(finding.category, reason, _delay(finding.category, links, now))
    return None


@lru_cache(maxsize=1024)  # the same few are given again and again
def _verdict(category: ErrorCategory, reason: str, retry_in: timedelta | None) -> Verdict:
    return Verdict(category, reason, BUILT_IN, retry_in=retry_in)


def _findings(links: list[Link]) -> Iterable[tuple[Link, Finding | None]]:
    for implicit in (False, True):
        part = [link for link in links if link.implicit is implicit]
        for link in part:
            finding = of_structure(link.error)
            if finding is not None and may_be_excused(finding):
                finding = excused(finding, words_of(link.error))
            yield link, finding
        for link in part:
            yield link, _of_words(link.error)
    for link in links:
        if not link.implicit:
            kind: Any = type(link.error)
            yield link, retriable(link.error) or _weak(kind)


def _of_words(error: BaseException) -> Finding | None:
    kind = type(error)
    if kind.__module__ == "builtins":
        return None if kind.__name__ in known.BUGS else of_text(words_of(error))
    return of_text(_with_name(_full_name(kind), words_of(error)))


def _with_name(name: str | None, message: str) -> str:
    """A library's name for the error is as good as words: "CannotAcquireLock: could not execute the statement"."""
    if not name or name in known.WEAK_TYPES or hasattr(builtins, name) or says_nothing(name.rpartition(".")[2]):
        return message
    return f"{name.rpartition('.')[2]}: {message}"


def of_structure(error: BaseException) -> Finding | None:
    """What the error's type and attributes say, without a look at its causes or its words."""
    if is_bare(error):
        return _of_itself(error)
    original = attribute(error, "orig")  # SQLAlchemy's wrapper only says which family the driver's own error is of
    inner = _of_itself(original) if isinstance(original, BaseException) else None
    return inner or _of_itself(error)


def _of_itself(error: BaseException) -> Finding | None:
    kind: Any = type(error)
    return _of_own_type(kind) or of_signs(error) or _of_types(kind)


@lru_cache(maxsize=4096)
def _of_own_type(kind: type) -> Finding | None:
    if kind in known.BUILTIN_TYPES:
        return Finding(known.BUILTIN_TYPES[kind], kind.__name__)
    name = _full_name(kind)
    return Finding(known.TYPES[name], name) if name in known.TYPES else None


@lru_cache(maxsize=4096)
def _of_types(kind: type) -> Finding | None:
    """The most particular of the types that the error is an instance of and that says something."""
    for base in kind.__mro__:
        name = _full_name(base)
        category: ErrorCategory | None = known.TYPES.get(name) or known.BUILTIN_TYPES.get(base)
        if category is None and base.__module__ != "builtins" and name not in known.WEAK_TYPES:
            category = of_name(base.__name__)
        if category is not None:
            return Finding(category, name if base is kind else f"{kind.__name__} is a {name}")
    return None


@lru_cache(maxsize=4096)
def _weak(kind: type) -> Finding | None:
    for base in kind.__mro__:
        if (category := known.WEAK_TYPES.get(_full_name(base))) is not None:
            return Finding(category, f"nothing else is known of this {_full_name(base)}")
    return None


def _full_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _delay(category: ErrorCategory, links: list[Link], now: datetime | None) -> timedelta | None:
    if category not in RETRYABLE:
        return None
    for link in links:
        if not is_bare(link.error) and (asked := delays.asked_by(link.error, now)) is not None:
            return asked
    return delays.in_text(words_of(links[0].error))


def _of_text(text: str) -> Verdict | None:
    for spoken, finding in _text_findings(heard(text)):
        if finding is not None:
            asked = delays.in_text(spoken.message) if finding.category in RETRYABLE else None
            return _verdict(finding.category, finding.reason, asked)
    return None


def _text_findings(errors: list[Spoken]) -> Iterable[tuple[Spoken, Finding | None]]:
    explicit = [spoken for spoken in errors if not spoken.implicit]
    for part in (explicit, [spoken for spoken in errors if spoken.implicit]):
        for spoken in part:
            finding = of_spoken_type(spoken)
            if finding is not None and may_be_excused(finding):
                finding = excused(finding, spoken.message)
            yield spoken, finding
        for spoken in part:
            yield spoken, None if spoken.name in known.BUGS else of_text(_with_name(spoken.name, spoken.message))
    for spoken in explicit:
        if spoken.name is not None and (category := known.WEAK_TYPES.get(spoken.name)) is not None:
            yield spoken, Finding(category, f"nothing else is known of this {spoken.name}")

"""Completion of an unfinished query: names, operators and values for the place of the cursor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mahavishnu.model.query_text import BY_NAME, NAME, NAMES, VALUE, WORD, QueryName, unquote, values_of
from mahavishnu.search.spelling import quote_value

_BETWEEN = " \t\r\n()-"
_TIMES = {"age": ("15m", "1h", "1d", "1w"), "due": ("now", "1h", "1d")}
_LATELY = ("now-1h", "now-1d", "now-7d")


@dataclass(frozen=True, slots=True)
class Gap:
    """The place in a query that is being written: the characters from `start` to `end` are to be completed.

    `name` is the name whose value is written there; None: a name, or a word to be searched for. `written` stands before
    the place, without quotes.
    """

    start: int
    end: int
    written: str
    name: QueryName | None = None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One text for a gap; `about` explains it, `letters` is how many have it, if that is known."""

    text: str
    about: str = ""
    letters: int | None = None


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Texts for the characters from `start` to `end`, the best first."""

    start: int
    end: int
    items: tuple[Suggestion, ...]


def find_gap(text: str, position: int) -> Gap:
    """Return the gap at this position of the text, however unfinished that is.

    >>> find_gap("status:exh", 10)
    Gap(start=7, end=10, written='exh', name=QueryName(name='status', ...))
    >>> find_gap("is:open ada", 11)
    Gap(start=8, end=11, written='ada', name=None)
    """
    position = max(0, min(position, len(text)))
    at = 0
    while at <= position:
        if at < len(text) and text[at] in _BETWEEN:
            at += 1
            continue
        named = NAME.match(text, at)
        if named is not None and named.end() <= position:
            gap, at = _find_value(text, named.end(), position, BY_NAME.get(named[1].lower()))
            if gap is not None:
                return gap
            continue
        if named is not None:  # the whole of name and operator is replaced
            return Gap(at, named.end(), text[at:position])
        word = WORD.match(text, at)
        end = word.end() if word else len(text)  # a quote that is not closed goes on to the end
        if position <= end:
            return Gap(at, end, text[at:position])
        at = end
    return Gap(position, position, "")


def _find_value(text: str, at: int, position: int, name: QueryName | None) -> tuple[Gap | None, int]:
    while True:
        value = VALUE.match(text, at)
        is_open = value is None and text.startswith('"', at)
        end = value.end() if value else len(text) if is_open else at
        if at <= position <= end:
            written = text[at + 1 : position] if is_open else unquote(text[at:position])
            return Gap(at, end, written.removeprefix('"'), name), end
        if not text.startswith(",", end):
            return None, max(end, at)
        at = end + 1


def complete_name(written: str) -> tuple[Suggestion, ...]:
    """Return the names that begin with what is written, then those that have it inside."""
    given = written.lower()
    starting = [name for name in NAMES if name.name.startswith(given)]
    others = [
        name for name in NAMES if name not in starting and any(given in each for each in (name.name, *name.other_names))
    ]
    return tuple(
        Suggestion(f"{name.name}{'.' if name.shape == 'path' else name.operators[0]}", name.about)
        for name in (*starting, *others)
    )


def complete_value(name: QueryName, written: str, counted: Iterable[tuple[str, int]] = ()) -> tuple[Suggestion, ...]:
    """Return the values of a name that begin with what is written, then those that have it inside.

    `counted` are values that letters have, and how many letters have them.
    """
    numbers = dict(counted)
    fixed = values_of(name) or _TIMES.get(name.name, _LATELY if name.shape == "moment" else ())
    known = [*sorted(numbers, key=lambda value: (-numbers[value], value)), *(v for v in fixed if v not in numbers)]
    given = written.lower()
    starting = [value for value in known if value.lower().startswith(given)]
    others = [value for value in known if value not in starting and given in value.lower()]
    return tuple(Suggestion(quote_value(value), "", numbers.get(value)) for value in (*starting, *others))

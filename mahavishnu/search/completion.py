"""A query as the text that means it: the way back from `mahavishnu.model.query_text`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.letter_parts import NO_ADAPTER
from mahavishnu.model.query import AnyOf, At, Between, Condition, Is, Missing, Not, Query
from mahavishnu.model.query_text import (
    BY_FIELD,
    BY_NAME,
    NAME,
    NAMES,
    OPTIONAL,
    TASK_VALUES,
    VALUE,
    WORD,
    QueryName,
    has_word,
    is_day,
    unquote,
    values_of,
)
from mahavishnu.model.record import Value


def query_text(query: Query) -> str:
    """Return the text of the query's conditions, in words that `read_query` takes; instants instead of ages.

    It says which letters are meant, not in which order. Raises InvalidQuery for conditions without a text.

    >>> query_text(Query((Is("status", ("exhausted",)), Not(Is("queue", ("bulk mail",))))))
    'status:exhausted -queue:"bulk mail"'
    """
    return " ".join(_spell(condition) for condition in query.where)


def quote_value(text: str) -> str:
    """Return the value as it is written after an operator: in quotes where it would be read as something else.

    >>> quote_value("orders"), quote_value("card declined"), quote_value('5"')
    ('orders', '"card declined"', '"5\\\\""')
    """
    found = VALUE.fullmatch(text)
    if found and not text.startswith('"') and "*" not in text:
        return text
    return _quote(text)


def _spell(condition: Condition) -> str:
    match condition:
        case Not(Missing(field)):
            return f"has:{_optional(field)}"
        case Not(AnyOf(several) as inner) if len(several) > 1 and _spell_named(inner) is None:
            return f"({' '.join(_spell(each.condition if isinstance(each, Not) else Not(each)) for each in several)})"
        case Not(inner):
            return f"-{_spell(inner)}"
        case Missing(field):
            return f"-has:{_optional(field)}"
        case AnyOf(several):
            if not several:
                raise _unsayable(condition)
            return _spell_named(condition) or f"({' or '.join(map(_spell, several))})"
        case Is(field, values):
            return _spell_is(field, values)
        case At("metadata", path, value):
            text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
            return f"metadata{_path(path)}:{quote_value(text)}"
        case Between():
            return _spell_between(condition)
    raise _unsayable(condition)


def _spell_named(condition: AnyOf) -> str | None:
    """Return the text of a name that stands for several conditions; None for anything else."""
    match condition.conditions:
        case (Is("words", (str(word),)), *_) if has_word(word) == condition:
            return f"text:{quote_value(word)}"
    return None


def _spell_is(field: str, values: Sequence[Any]) -> str:
    if not values:
        raise InvalidQuery(f"no text says that {field} has one of no values")
    if field == TASK_VALUES:
        pairs = [str(value).partition("=")[::2] for value in values]
        if len({path for path, _ in pairs}) == 1 and pairs[0][0]:
            return f"task{_path(pairs[0][0])}:{','.join(quote_value(text) for _, text in pairs)}"
        if len(values) == 1:
            raise InvalidQuery("no text says that a task has a value without a place")
        return f"({' or '.join(_spell_is(field, (value,)) for value in values)})"
    if field == "adapter":
        return f"adapter:{','.join(quote_value(str(value) or NO_ADAPTER) for value in values)}"
    name = _name(field)
    return f"{name.name}:{','.join(_scalar(name, value) for value in values)}"


def _spell_between(condition: Between) -> str:
    name = _name(condition.field)
    first, end = condition.at_least, condition.below
    if isinstance(first, datetime) and isinstance(end, datetime) and condition.at_most is None and is_day(first, end):
        return f"{name.name}:{instant_text(first)[:10]}"
    bounds = ((">=", condition.at_least), ("<", condition.below), ("<=", condition.at_most))
    said = [f"{name.name}{operator}{_scalar(name, bound)}" for operator, bound in bounds if bound is not None]
    if not said:
        return f"has:{_optional(condition.field)}"
    return said[0] if len(said) == 1 else f"({' '.join(said)})"


def _scalar(name: QueryName, value: Any) -> str:
    if isinstance(value, datetime):
        return instant_text(value)
    if name.name == "namespace" and value == "*":
        return "*"
    return quote_value(str(value))


def _path(path: str) -> str:
    """Return the path after its dot."""
    plain = NAME.fullmatch(f"a.{path}:")
    return f".{path}" if plain and not path.startswith('"') else f".{_quote(path)}"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _name(field: str) -> QueryName:
    if field not in BY_FIELD:
        raise InvalidQuery(f"no text says what {field!r} is compared with")
    return BY_FIELD[field]


def _optional(field: str) -> str:
    if (name := _name(field).name) not in OPTIONAL:
        raise InvalidQuery(f"no text asks whether there is any {name}")
    return name


def _unsayable(condition: Condition) -> InvalidQuery:
    return InvalidQuery(f"no text says {condition!r:.200}")


# --- completion of an unfinished query: names, operators and values for the place of the cursor

_BETWEEN = " \t\r\n()-"
_TIMES = {"age": ("15m", "1h", "1d", "1w"), "due": ("now", "1h", "1d")}
_LATELY = ("now-1h", "now-1d", "now-7d")


class Gap(Value, frozen=True):
    """The place in a query that is being written: the characters from `start` to `end` are to be completed.

    `name` is the name whose value is written there; None: a name, or a word to be searched for. `written` stands before
    the place, without quotes.
    """

    start: int
    end: int
    written: str
    name: QueryName | None = None


class Suggestion(Value, frozen=True):
    """One text for a gap; `about` explains it, `letters` is how many have it, if that is known."""

    text: str
    about: str = ""
    letters: int | None = None


class Suggestions(Value, frozen=True):
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
    """Return the values that begin with the text, then those that contain it; `counted` are those of letters."""
    numbers = dict(counted)
    fixed = values_of(name) or _TIMES.get(name.name, _LATELY if name.shape == "moment" else ())
    known = [*sorted(numbers, key=lambda value: (-numbers[value], value)), *(v for v in fixed if v not in numbers)]
    given = written.lower()
    starting = [value for value in known if value.lower().startswith(given)]
    others = [value for value in known if value not in starting and given in value.lower()]
    return tuple(Suggestion(quote_value(value), "", numbers.get(value)) for value in (*starting, *others))

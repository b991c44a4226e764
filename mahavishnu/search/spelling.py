"""A query as the text that means it: the way back from `mahavishnu.model.query_text`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.letter_parts import NO_ADAPTER
from mahavishnu.model.query import AnyOf, At, Between, Condition, Is, Missing, Not, Query
from mahavishnu.model.query_text import BY_FIELD, NAME, OPTIONAL, TASK_VALUES, VALUE, QueryName, has_word, is_day


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

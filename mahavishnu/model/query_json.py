"""A query as plain JSON values, and back: for what is kept, and for what comes from outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.query import (
    MAX_CONDITION_DEPTH,
    TOO_DEEP,
    AnyOf,
    At,
    Between,
    Condition,
    Is,
    Missing,
    Not,
    Query,
    Scalar,
    Sort,
)

_BOUNDS = ("at_least", "below", "at_most")


def query_to_json(query: Query) -> dict[str, Any]:
    """The query as texts, numbers, lists and dicts. Raises InvalidQuery for a number or date that JSON cannot hold.

    >>> query_to_json(Query((Is("status", ("exhausted",)),), limit=50))["where"]
    [{'is': {'field': 'status', 'values': ['exhausted']}}]
    """
    return {
        "where": [_condition_to_json(condition, 0) for condition in query.where],
        "sort": [{"field": sort.field, "descending": sort.descending} for sort in query.sort],
        "limit": query.limit,
    }


def query_from_json(document: Any) -> Query:
    """The query that `query_to_json` wrote; missing parts have their defaults. Raises InvalidQuery for anything else.

    >>> query_from_json({"where": [{"missing": {"field": "fingerprint"}}], "limit": 10})
    Query(where=(Missing(field='fingerprint'),), sort=(), limit=10)
    """
    given = _object(document, "a query", {"where", "sort", "limit"})
    limit = given.get("limit", 500)
    if type(limit) is not int:
        raise InvalidQuery(f"limit must be a whole number, not {limit!r:.80}")
    where = tuple(_read_condition(each, 0) for each in _list(given.get("where", []), "where"))
    return Query(where, tuple(_read_sort(each) for each in _list(given.get("sort", []), "sort")), limit)


def _condition_to_json(condition: Condition, depth: int) -> dict[str, Any]:
    if depth > MAX_CONDITION_DEPTH:
        raise InvalidQuery(TOO_DEEP)
    match condition:
        case Is(field, values):
            return {"is": {"field": field, "values": [_scalar_to_json(value) for value in values]}}
        case Missing(field):
            return {"missing": {"field": field}}
        case Between():
            bounds = {name: value for name in _BOUNDS if (value := getattr(condition, name)) is not None}
            return {
                "between": {
                    "field": condition.field,
                    **{name: _scalar_to_json(value) for name, value in bounds.items()},
                }
            }
        case At(field, path, value):
            return {"at": {"field": field, "path": path, "value": _scalar_to_json(value)}}
        case Not(inner):
            return {"not": _condition_to_json(inner, depth + 1)}
        case AnyOf(conditions):
            return {"any_of": [_condition_to_json(each, depth + 1) for each in conditions]}


def _scalar_to_json(value: Scalar) -> Any:
    match value:
        case datetime():
            if value.tzinfo is None:
                raise InvalidQuery(f"{value.isoformat()} has no time zone")
            return {"instant": value.isoformat()}
        case float() if not math.isfinite(value):
            raise InvalidQuery(f"nothing can be compared with {value}")
        case str():
            return str(value)  # an enum's text, without its class
    return value


def _read_condition(document: Any, depth: int) -> Condition:
    if depth > MAX_CONDITION_DEPTH:
        raise InvalidQuery(TOO_DEEP)
    if not isinstance(document, Mapping) or len(document) != 1:
        raise InvalidQuery(f"a condition is an object with one of {', '.join(_READ)}, not {document!r:.80}")
    ((name, inside),) = document.items()
    if name not in _READ:
        raise InvalidQuery(f"there is no condition {name!r:.80}; there are {', '.join(_READ)}")
    return _READ[name](inside, depth)


def _read_is(inside: Any, depth: int) -> Condition:
    given = _object(inside, "is", {"field", "values"})
    return Is(_text(given, "field"), tuple(_read_scalar(value) for value in _list(given.get("values"), "values")))


def _read_between(inside: Any, depth: int) -> Condition:
    given = _object(inside, "between", {"field", *_BOUNDS})
    bounds = {name: _read_scalar(given[name]) for name in _BOUNDS if given.get(name) is not None}
    for name, bound in bounds.items():
        if type(bound) is not int and not isinstance(bound, datetime):
            raise InvalidQuery(f"{name} must be a whole number or an instant, not {bound!r:.80}")
    return Between(_text(given, "field"), **bounds)  # type: ignore[arg-type]  # checked above


def _read_at(inside: Any, depth: int) -> Condition:
    given = _object(inside, "at", {"field", "path", "value"})
    value = _read_scalar(given.get("value"))
    if isinstance(value, datetime):
        raise InvalidQuery("a path inside of an object is compared with text, numbers and booleans, not with instants")
    return At(_text(given, "field"), _text(given, "path"), value)


_READ: Mapping[str, Callable[[Any, int], Condition]] = {
    "is": _read_is,
    "missing": lambda inside, depth: Missing(_text(_object(inside, "missing", {"field"}), "field")),
    "between": _read_between,
    "at": _read_at,
    "not": lambda inside, depth: Not(_read_condition(inside, depth + 1)),
    "any_of": lambda inside, depth: AnyOf(tuple(_read_condition(each, depth + 1) for each in _list(inside, "any_of"))),
}


def _read_sort(document: Any) -> Sort:
    given = _object(document, "sort", {"field", "descending"})
    descending = given.get("descending", False)
    if not isinstance(descending, bool):
        raise InvalidQuery(f"descending must be true or false, not {descending!r:.80}")
    return Sort(_text(given, "field"), descending)


def _read_scalar(value: Any) -> Scalar:
    if isinstance(value, Mapping) and value.keys() == {"instant"}:
        try:
            moment = datetime.fromisoformat(value["instant"])
        except (TypeError, ValueError) as problem:
            raise InvalidQuery(f"{value['instant']!r:.80} is no instant: {problem}") from None
        if moment.tzinfo is None:
            raise InvalidQuery(f"{moment.isoformat()} has no time zone")
        return moment
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidQuery(f"nothing can be compared with {value}")
    if isinstance(value, str | int | float):
        return value
    raise InvalidQuery(f"nothing can be compared with {value!r:.80}")


def _object(value: Any, what: str, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidQuery(f"{what} must be an object, not {value!r:.80}")
    if unknown := [name for name in value if name not in names]:
        raise InvalidQuery(f"{what} has no {unknown[0]!r:.80}; it has {', '.join(sorted(names))}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidQuery(f"{what} must be a list, not {value!r:.80}")
    return list(value)


def _text(given: Mapping[str, Any], name: str) -> str:
    if not isinstance(value := given.get(name), str):
        raise InvalidQuery(f"{name} must be text, not {value!r:.80}")
    return value

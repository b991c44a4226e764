"""A Query in OpenSearch's words, with exactly the meaning that `mahavishnu.stores.memory` gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.query import AnyOf, At, Between, Condition, HasKey, Is, Missing, Not, Query
from mahavishnu.stores.base import Buckets, Cell, Cursor, Histogram
from mahavishnu.stores.kind import (
    LONGEST_TERM,
    Field,
    FieldType,
    Kind,
    foreign_cursor,
    instant_text,
    is_findable,
    scalar_text,
)
from mahavishnu.stores.opensearch.mapping import KEY, Layout, integer_bits, path_text

MOST_TERMS = 65_536  # of one condition, by the server's default
BUCKETS = 10_000
NOTHING: dict[str, Any] = {"match_none": {}}
_SORTABLE = (FieldType.KEYWORD, FieldType.DATE, FieldType.INTEGER)
_Edge: TypeAlias = "tuple[Any, bool]"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def search(kind: Kind[Any], layout: Layout, query: Query, after: Cursor | None, size: int) -> dict[str, Any]:
    """Return the body of a search for one page. Raises InvalidQuery for an invalid cursor or order."""
    for sort in query.sort:
        if kind.by_name[sort.field].type not in _SORTABLE:
            raise InvalidQuery(f"{kind.name} cannot be sorted by {sort.field!r}")
    order = [
        {
            sort.field: {
                "order": "desc" if sort.descending else "asc",
                "missing": "_last" if (value := kind.by_name[sort.field].omitted) is None else value,
            }
        }
        for sort in query.sort
    ]
    body: dict[str, Any] = {
        "query": where(kind, layout, query.where),
        "sort": [*order, {KEY: "asc"}],
        "size": size,
        "seq_no_primary_term": True,
        "track_total_hits": False,
    }
    if after is not None:
        types = [kind.by_name[sort.field].type for sort in query.sort]
        if len(after.after) != len(order) + 1 or not isinstance(after.after[-1], str):
            raise foreign_cursor()
        if not all(_is_position(type_, value) for type_, value in zip(types, after.after, strict=False)):
            raise foreign_cursor()
        body["search_after"] = list(after.after)
    return body


def tally(
    kind: Kind[Any], layout: Layout, query: Query, by: Sequence[str], sums: Sequence[str], spans: Sequence[str]
) -> dict[str, Any]:
    """Return the body of a search for the cells of a tally."""
    metrics = {f"sum {name}": {"sum": {"field": name}} for name in sums}
    for name in spans:
        metrics |= {f"min {name}": {"min": {"field": name}}, f"max {name}": {"max": {"field": name}}}
    body: dict[str, Any] = {"query": where(kind, layout, query.where), "size": 0, "track_total_hits": not by}
    if not by:
        return {**body, "aggs": metrics} if metrics else body
    sources = [{str(i): {"terms": {"field": name, "missing_bucket": True}}} for i, name in enumerate(by)]
    groups = {"size": BUCKETS, "sources": sources}
    return {**body, "aggs": {"groups": {"composite": groups, "aggs": metrics}}}


def cell(count: int, metrics: Mapping[str, Any], sums: Sequence[str], spans: Sequence[str]) -> Cell:
    """Return the cell of one bucket, or of the whole answer."""
    if not sums and not spans:
        return Cell(count)
    edges = {
        edge: {name: _moment(value) for name in spans if (value := metrics[f"{edge} {name}"]["value"]) is not None}
        for edge in ("min", "max")
    }
    return Cell(count, {name: round(metrics[f"sum {name}"]["value"]) for name in sums}, edges["min"], edges["max"])


def group(kind: Kind[Any], by: Sequence[str], key: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values that a bucket stands for."""

    def read(value: Any, field: Field[Any]) -> Any:
        if value is None:
            return field.omitted
        return _moment(value) if field.type is FieldType.DATE else value

    return tuple(read(key[str(place)], kind.by_name[name]) for place, name in enumerate(by))


def histogram(kind: Kind[Any], layout: Layout, query: Query, buckets: Buckets) -> dict[str, Any]:
    """Return the body of a search for the counts of a histogram."""
    start, end = _milliseconds(buckets.start), _milliseconds(buckets.end)
    dates = {
        "field": buckets.field,
        "fixed_interval": f"{buckets.step}ms",
        "offset": f"{start % buckets.step}ms",
        "min_doc_count": 1,
        # Later instants have no buckets of their own, which could be more than the server permits.
        "hard_bounds": {"min": start, "max": end - 1},
    }
    conditions = where(kind, layout, buckets.narrow(query).where)
    return {"query": conditions, "size": 0, "track_total_hits": True, "aggs": {"buckets": {"date_histogram": dates}}}


def read_histogram(buckets: Buckets, answer: Mapping[str, Any]) -> Histogram:
    """Return the counts of an answer; records that are in none of its buckets are later."""
    start = _milliseconds(buckets.start)
    found = [
        ((each["key"] - start) // buckets.step, each["doc_count"])
        for each in answer["aggregations"]["buckets"]["buckets"]
    ]
    later = answer["hits"]["total"]["value"] - sum(count for _, count in found)
    return buckets.fill([*found, (buckets.count, later)])


def where(kind: Kind[Any], layout: Layout, conditions: Iterable[Condition]) -> dict[str, Any]:
    """Return a query that holds where all of the conditions do."""
    return {"bool": {"filter": [_condition(kind, layout, condition) for condition in conditions]}}


def shape(query: Query) -> str:
    """Describe the query without any value."""

    def describe(condition: Condition) -> str:
        match condition:
            case Not(inner):
                return f"not {describe(inner)}"
            case AnyOf(conditions):
                return f"any of ({', '.join(map(describe, conditions))})"
            case HasKey(keys):
                return f"key is one of {len(keys)}"
            case Is(field, values):
                return f"{field} is one of {len(values)}"
            case At(field):
                return f"{field} at a path"
            case leaf:
                return f"{leaf.field} {type(leaf).__name__.lower()}"

    order = ", ".join(f"{'-' * sort.descending}{sort.field}" for sort in query.sort)
    return f"{' and '.join(map(describe, query.where)) or 'everything'}, by {order or 'key'}, {query.limit} at most"


def _condition(kind: Kind[Any], layout: Layout, condition: Condition) -> dict[str, Any]:
    found = _where_stated(kind, layout, condition)
    if isinstance(condition, Is | Between | Missing) and (value := kind.by_name[condition.field].omitted) is not None:
        if isinstance(condition, Missing):
            return NOTHING
        if value in condition.values if isinstance(condition, Is) else condition.has(value):
            unstated = {"bool": {"must_not": [{"exists": {"field": condition.field}}]}}
            return {"bool": {"should": [found, unstated], "minimum_should_match": 1}}
    return found


def _where_stated(kind: Kind[Any], layout: Layout, condition: Condition) -> dict[str, Any]:
    """Return the condition on values that documents state, as a query."""
    match condition:
        case Not(inner):
            return {"bool": {"must_not": [_condition(kind, layout, inner)]}}
        case AnyOf(()):
            return NOTHING
        case AnyOf(conditions):
            either = [_condition(kind, layout, each) for each in conditions]
            return {"bool": {"should": either, "minimum_should_match": 1}}
        case HasKey(keys):
            return {"ids": {"values": list(keys)}}
        case Missing(name):
            return {"bool": {"must_not": [{"exists": {"field": layout.searched_name(name)}}]}}
        case At(name, path, value):
            text = scalar_text(value)
            if len(path) + len(text) > LONGEST_TERM:
                return NOTHING
            return {"term": {f"{layout.searched_name(name)}.{path_text(path)}": {"value": text}}}
        case Is(name, values):
            return _is(name, _terms(kind, name, values))
        case Between(name, at_least, below, at_most):
            low, upper = _edge(at_least, at_least=True), [_edge(below, strict=True), _edge(at_most)]
            highest = min(filter(None, upper), key=lambda edge: (edge[0], not edge[1]), default=None)
            return _between(name, low, highest, 1 << integer_bits(kind, name))


def _is(name: str, terms: Sequence[Any]) -> dict[str, Any]:
    if not terms:
        return NOTHING
    if len(terms) <= MOST_TERMS:
        return {"terms": {name: terms}}
    parts = [{"terms": {name: terms[at : at + MOST_TERMS]}} for at in range(0, len(terms), MOST_TERMS)]
    return {"bool": {"should": parts, "minimum_should_match": 1}}


def _terms(kind: Kind[Any], name: str, values: Iterable[Any]) -> list[Any]:
    """Keep the values that a record can have; the server would refuse or reinterpret the others."""
    match kind.by_name[name].type:
        case FieldType.DATE:
            aware = (value for value in values if isinstance(value, datetime) and value.tzinfo is not None)
            return [instant_text(moment) for moment in aware if moment.microsecond % 1000 == 0]
        case FieldType.INTEGER:
            limit = 1 << integer_bits(kind, name)
            numbers = [value for value in values if isinstance(value, int | float) and value == value // 1]
            return [int(value) for value in numbers if -limit <= value < limit]
        case _:
            return [str(value) for value in values if isinstance(value, str) and is_findable(value)]


def _between(name: str, low: _Edge | None, high: _Edge | None, limit: int) -> dict[str, Any]:
    """A range; the server refuses numbers that its type cannot hold, so they are brought back to what they mean."""
    kept: dict[str, Any] = {}
    for edge, (loose, strict), beyond in ((low, ("gte", "gt"), limit - 1), (high, ("lte", "lt"), -limit)):
        if edge is not None:
            value, is_strict = edge
            if not isinstance(value, str) and not -limit <= value < limit:
                if (value > 0) == (beyond > 0):
                    return NOTHING
                continue
            kept[strict if is_strict else loose] = value
    return {"range": {name: kept}} if kept else {"exists": {"field": name}}


def _edge(bound: Any, *, at_least: bool = False, strict: bool = False) -> _Edge | None:
    """Return a bound and whether it is excluded; between two milliseconds it means right after the earlier one."""
    if not isinstance(bound, datetime):
        return None if bound is None else (bound, strict)
    moment = instant(bound)
    return instant_text(moment), strict if moment == bound else at_least


def _is_position(type_: FieldType, value: Any) -> bool:
    """Return True if the server may have sorted by this: dates are milliseconds, an empty field is the largest."""
    if type_ is FieldType.KEYWORD:
        return value is None or isinstance(value, str)
    return value is None or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _moment(milliseconds: float) -> datetime:
    return _EPOCH + timedelta(milliseconds=round(milliseconds))

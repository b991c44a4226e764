"""A `Query` as SQL: parameters for every value, and names only from the fields that the kind declares."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from typing import Any, NamedTuple

from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.query import AnyOf, At, Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.stores.base import Buckets
from mahavishnu.stores.kind import Field, FieldType, foreign_cursor, require_position, scalar_text
from mahavishnu.stores.sqlite.table import (
    BODY,
    KEY,
    VERSION,
    Table,
    bindable_or_none,
    is_unicode,
    milliseconds,
    needle,
    pair_needle,
    quote,
)

_MOST_HINTS = 3
_PLAIN = re.compile(r"\w+", re.ASCII)
MOST_MERGED = 50  # values that are read one by one and merged; with more of them the whole is sorted
MOST_MERGED_VALUES = 10_000  # that stand for what is asked for, which is said again for each value that is merged
MOST_PLACEHOLDERS = 500  # more values than that travel as one JSON text; SQLite's own limit is 32766 in a statement


class Sql(NamedTuple):
    """A piece of SQL and what its question marks stand for."""

    text: str
    values: tuple[Any, ...] = ()


_NEVER, _ALWAYS = Sql("0"), Sql("1")


def column_to_merge(table: Table[Any], query: Query) -> str | None:
    """Return the column whose values to read one by one and merge: behind each, an index has the order of the query.

    Such is the namespace in a list of all of them. None if an index has all in order already, or none has.
    """
    if not query.sort:
        return None
    fixed = {each.field for each in query.where if isinstance(each, Is) and len(each.values) == 1}
    found = None
    for index in table.kind.indexes:
        before = index[: index.index(query.sort[0].field)] if query.sort[0].field in index else (None, None)
        varied = [name for name in before if name not in fixed]
        if not varied:
            return None
        if len(varied) == 1 and varied[0] == index[0] and table.kind.by_name[index[0]].type is FieldType.KEYWORD:
            found = index[0]
    return found


def values_of(table: Table[Any], column: str) -> Sql:
    """Select the values of an index's first column without passing over the rows; one too many at most."""
    name, least = quote(column), f"SELECT min({quote(column)}) FROM {table.name}"
    return Sql(
        f"WITH RECURSIVE found(value) AS ({least} UNION ALL SELECT ({least} WHERE {name} > found.value) "
        f"FROM found WHERE value IS NOT NULL LIMIT {MOST_MERGED + 1}) SELECT value FROM found WHERE value IS NOT NULL"
    )


def select(
    table: Table[Any], query: Query, after: Sequence[Any] | None, merged: tuple[str, Sequence[Any]] | None = None
) -> Sql:
    """Select key, version, body and sort columns of one page and one more row, in order.

    The page is found by row numbers first: a sort that no index spares would otherwise carry the bodies around.
    `merged` is the result of `column_to_merge`, with all values of that column.
    """
    if merged is not None:
        asked_for = 2 * (len(merged[1]) + 1) * len(conditions(table, query.where).values)
        if len(merged[1]) > MOST_MERGED or asked_for > MOST_MERGED_VALUES:
            merged = None
    numbers = _numbers(table, query, after, merged)
    names = [f"{table.name}.{quote(sort.field)}" for sort in query.sort]
    columns = ", ".join([KEY, VERSION, BODY, *names])
    joined = f"CROSS JOIN {table.name} ON {table.name}.rowid = page._row"  # CROSS: keeps the order of the page
    return Sql(f"SELECT {columns} FROM ({numbers.text}) AS page {joined}", numbers.values)


def _numbers(
    table: Table[Any], query: Query, after: Sequence[Any] | None, merged: tuple[str, Sequence[Any]] | None
) -> Sql:
    """Select the row numbers of the page.

    A page after a record is put together from two: the rows whose first sort column has a value, where an index leads
    straight to the place, and then those without one, because they come last. So is one that is merged where an index
    has those without one first.
    """
    where = conditions(table, query.where)
    order = ", ".join([*(f"{quote(sort.field)} {_direction(sort)}" for sort in query.sort), KEY])
    limit = query.limit + 1

    def part(more: Sql) -> Sql:
        both = _all([where, more])
        if merged is not None:
            return _merge(table, query, both, *merged)
        text = f"SELECT rowid AS _row FROM {table.name} WHERE {both.text} ORDER BY {order} LIMIT {limit}"
        return Sql(text, both.values)

    if after is None and (merged is None or query.sort[0].descending):
        return part(_ALWAYS)
    place = None if after is None else _place(table, query.sort, after)
    if place is not None and (not query.sort or place[0] is None):
        return part(_beyond(query.sort, place))
    name, sign = quote(query.sort[0].field), "<=" if query.sort[0].descending else ">="
    if place is None:
        present = part(Sql(f"{name} IS NOT NULL"))
    else:
        present = part(_all([Sql(f"{name} {sign} ?", place[:1]), _beyond(query.sort, place)]))
    absent = part(Sql(f"{name} IS NULL"))
    return Sql(
        f"SELECT * FROM ({present.text}) UNION ALL SELECT * FROM ({absent.text}) LIMIT {limit}",
        present.values + absent.values,
    )


def _merge(table: Table[Any], query: Query, where: Sql, column: str, values: Sequence[Any]) -> Sql:
    """The row numbers of a page, from the rows of each value of the column, each of which an index has in order."""
    columns = ["rowid AS _row", *(quote(sort.field) for sort in query.sort), KEY]
    order = [f"{place} {_direction(sort)}" for place, sort in enumerate(query.sort, 2)]
    own = [Sql(f"{quote(column)} IS NULL"), *(Sql(f"{quote(column)} = ?", (value,)) for value in values)]
    parts = [_all([one, where]) for one in own]
    rows = " UNION ALL ".join(f"SELECT {', '.join(columns)} FROM {table.name} WHERE {part.text}" for part in parts)
    page = f"{rows} ORDER BY {', '.join([*order, str(len(columns))])} LIMIT {query.limit + 1}"
    return Sql(f"SELECT _row FROM ({page})", tuple(value for part in parts for value in part.values))


def tally(table: Table[Any], query: Query, by: Sequence[str], sums: Sequence[str], spans: Sequence[str]) -> Sql:
    """Select the values of `by`, the count, the sums, and the least and greatest values of `spans`, for each group."""
    where = _all([_estimated(table, each) for each in query.where])
    groups = [quote(name) for name in by]
    cells = [f"sum({quote(name)})" for name in sums]
    cells += [f"{end}({quote(name)})" for name in spans for end in ("min", "max")]
    text = f"SELECT {', '.join([*groups, 'count(*)', *cells])} FROM {table.name} WHERE {where.text}"
    # Without a sign SQLite may go through all rows in the order of the groups rather than look for those that count.
    common = [isinstance(each, Is) and table.kind.by_name[each.field].common for each in query.where]
    sign = "" if all(common) else "+"
    return Sql(f"{text} GROUP BY {', '.join(f'{sign}{name}' for name in groups)}" if groups else text, where.values)


def histogram(table: Table[Any], query: Query, buckets: Buckets) -> Sql:
    """Select the number of each bucket that has rows, and how many it has: the pairs that `Buckets.fill` takes."""
    where = _all([_estimated(table, each) for each in buckets.narrow(query).where])
    number = f"({quote(buckets.field)} - ?) / ?"
    text = f"SELECT {number}, count(*) FROM {table.name} WHERE {where.text} GROUP BY 1"
    return Sql(text, (milliseconds(buckets.start), buckets.step, *where.values))


def _estimated(table: Table[Any], condition: Condition) -> Sql:
    """Return the condition, marked where it holds for few rows: SQLite takes it for as selective as any other."""
    found = _condition(table, condition)
    if isinstance(condition, Is) and set(condition.values) & {*table.kind.by_name[condition.field].rare}:
        return Sql(f"likelihood({found.text}, 0.001)", found.values) if len(condition.values) == 1 else found
    return found


def current(table: Table[Any], keys: Sequence[str]) -> Sql:
    """Key, version and body of the rows under these keys."""
    found = _one_of(KEY, keys)
    return Sql(f"SELECT {KEY}, {VERSION}, {BODY} FROM {table.name} WHERE {found.text}", found.values)


def conditions(table: Table[Any], where: Sequence[Condition]) -> Sql:
    """All of the conditions."""
    return _all([_condition(table, each) for each in where])


def _condition(table: Table[Any], condition: Condition) -> Sql:
    match condition:
        case Not(inner):
            text, values = _condition(table, inner)
            return Sql(f"({text}) IS NOT TRUE", values)  # an empty column makes the inner condition NULL, not true
        case AnyOf(several):
            return _tree(" OR ", [_condition(table, each) for each in several], _NEVER)
    field = table.kind.by_name[condition.field]
    name = quote(field.name)
    if field.late:
        return _late(table, field.name, condition)
    match condition:
        case Is(_, wanted):
            found = _is(field, name, wanted)
            # A store that was never analysed takes any equality for selective, and would look at all of these.
            is_likely = field.common and len(wanted) == 1 and not condition.rare
            return Sql(f"likely({found.text})", found.values) if is_likely else found
        case Missing():
            return Sql(f"{name} IS NULL")
        case At(_, path, value):
            return _contains(name, pair_needle(path, scalar_text(value)))
        case Between(_, at_least, below, at_most):
            bounds = [(">=", at_least, True), ("<", below, True), ("<=", at_most, False)]
            limits = [Sql(f"{name} {sign} ?", (_bound(field, it, up),)) for sign, it, up in bounds if it is not None]
            return _all(limits or [Sql(f"{name} IS NOT NULL")])
    raise InvalidQuery(f"{condition!r} is no condition")


def _late(table: Table[Any], name: str, condition: Condition) -> Sql:
    """A condition on terms that are made of the row's document. The document is read only where it may have them."""
    has_term = f"has_term({table.number}, ?, {BODY}, ?)"
    match condition:
        case Is(_, wanted):
            texts = [value for value in wanted if isinstance(value, str) and is_unicode(value)]
            some = [_all([*_hints(text), Sql(has_term, (name, text))]) for text in texts]
            return _tree(" OR ", some, _NEVER)
        case Missing():
            return Sql(f"NOT {has_term}", (name, None))
    raise InvalidQuery(f"{condition!r} is no condition on {name}")


def _hints(term: str) -> list[Sql]:
    """Return conditions on the document's lower-case text that hold if it has the term: JSON escapes all but ASCII."""
    plain = _PLAIN.findall(term)
    if len(plain) > 1:  # a number may be spelled in another way there
        plain = [word for word in plain if not word[0].isdigit()]
    longest = sorted(dict.fromkeys(plain), key=len, reverse=True)[:_MOST_HINTS]
    return [Sql(f"instr(lower({BODY}), ?) > 0", (word.lower(),)) for word in longest]


def _is(field: Field[Any], name: str, wanted: Sequence[Any]) -> Sql:
    match field.type:
        case FieldType.KEYWORDS:
            texts = [value for value in wanted if isinstance(value, str)]
            found = _tree(" OR ", [_contains(name, needle(text)) for text in texts], _NEVER)
            return _all([Sql(f"{name} IS NOT NULL"), found])  # so that SQLite knows that an index has them all
        case FieldType.DATE:
            # No record has an instant between two milliseconds.
            moments = [value for value in wanted if isinstance(value, datetime) and value.tzinfo is not None]
            return _one_of(name, [milliseconds(it) for it in moments if milliseconds(it) == milliseconds(it, up=True)])
        case FieldType.INTEGER:
            return _one_of(name, [value for value in wanted if isinstance(value, int | float) and isfinite(value)])
    return _one_of(name, [value for value in wanted if isinstance(value, str)])


def _one_of(name: str, wanted: Sequence[Any]) -> Sql:
    values = [value for value in map(bindable_or_none, wanted) if value is not None]
    if len(values) <= MOST_PLACEHOLDERS:
        return Sql(f"{name} IN ({', '.join('?' * len(values))})", tuple(values)) if values else _NEVER
    cut = [value for value in values if "\0" in str(value)]  # SQLite's JSON functions end a text there
    whole = [value for value in values if "\0" not in str(value)]
    many = Sql(f"{name} IN (SELECT value FROM json_each(?))", (json.dumps(whole),))
    return _tree(" OR ", [many, *(Sql(f"{name} = ?", (value,)) for value in cut)], _NEVER)


def _contains(name: str, text: str) -> Sql:
    return Sql(f"instr({name}, ?) > 0", (text,)) if is_unicode(text) else _NEVER


def _bound(field: Field[Any], value: Any, up: bool) -> Any:
    if field.type is FieldType.DATE:
        return milliseconds(value, up=up)
    if isinstance(value, int) and bindable_or_none(value) is None:  # farther out than any column can be
        return float("inf") if value > 0 else float("-inf")
    return value


def _direction(sort: Sort) -> str:
    return "DESC" if sort.descending else "ASC NULLS LAST"


def _place(table: Table[Any], sorts: Sequence[Sort], after: Sequence[Any]) -> tuple[Any, ...]:
    """The values of a cursor as columns hold them."""
    *values, key = require_position(table.kind, sorts, after)
    if not all(is_unicode(text) for text in (*values, key) if isinstance(text, str)):
        raise foreign_cursor()
    named = zip((table.kind.by_name[sort.field] for sort in sorts), values, strict=True)
    bound = [it if it is None or isinstance(it, str) else _bound(field, it, False) for field, it in named]
    return (*bound, key)


def _beyond(sorts: Sequence[Sort], place: tuple[Any, ...]) -> Sql:
    """Return the condition for rows after the place: by the first sort column, or if that is equal, by the next."""
    if not sorts:
        return Sql(f"{KEY} > ?", place)
    name, value, rest = quote(sorts[0].field), place[0], _beyond(sorts[1:], place[1:])
    if value is None:
        return Sql(f"({name} IS NULL AND {rest.text})", rest.values)
    sign = "<" if sorts[0].descending else ">"
    text = f"({name} {sign} ? OR {name} IS NULL OR ({name} = ? AND {rest.text}))"
    return Sql(text, (value, value, *rest.values))


def _all(parts: Sequence[Sql]) -> Sql:
    return _tree(" AND ", [part for part in parts if part is not _ALWAYS], _ALWAYS)


def _tree(operator: str, parts: Sequence[Sql], nothing: Sql) -> Sql:
    """The parts joined in a balanced way: SQLite takes no expression deeper than 1000."""
    if len(parts) <= 1:
        return parts[0] if parts else nothing
    middle = len(parts) // 2
    one, other = _tree(operator, parts[:middle], nothing), _tree(operator, parts[middle:], nothing)
    return Sql(f"({one.text}{operator}{other.text})", one.values + other.values)

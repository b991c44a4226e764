"""Counters of records that a kind declares as `counted`, so that a tally costs the same however many there are.

The writer changes them in the transaction that changes the records, by one delta for a whole batch. The records
themselves are counted where no counter knows enough: the minutes in which a range of time begins and ends, and spans of
cells whose least or greatest value has left.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from mahavishnu.model.query import AnyOf, Between, Condition, Is, Missing, Not, Query
from mahavishnu.stores.base import Buckets
from mahavishnu.stores.kind import Counted, FieldType, Kind, T
from mahavishnu.stores.sqlite.table import KEY, VERSION, Row, Sql, Table, conditions, milliseconds, quote

NONE = b""  # stands for no value: a primary key takes no NULL
_HOUR, MINUTE = 3_600_000, 60_000
STEPS = (_HOUR, MINUTE)  # of time, by which a date is counted
log = logging.getLogger(__name__)


class Shape:
    """One table of counters: a cell for each combination of values, with the number of its records and their sums.

    The writer gets values by the names `places`, and finds those of the cell at `by_places` and so on.
    """

    def __init__(self, kind: Kind[Any], counted: Counted, number: int, places: Sequence[str]) -> None:
        self.counted, self.at = counted, counted.at
        self.name = quote(f"{kind.name}#{number}")
        self.dates = {name for name in counted.flags if kind.by_name[name].type is FieldType.DATE}
        self.fields = (*counted.by, *counted.flags)
        self.sums = [f"+{name}" for name in counted.sums]
        self.spans = [f"{end}{name}" for name in counted.spans for end in "<>"]
        self.keys = (*(("_step", self.at) if self.at else ()), *self.fields)
        columns = [*self.keys, "_n", *self.sums, *(("_stale", "_seen", *self.spans) if self.spans else ())]
        keys, self._here = ", ".join(map(quote, self.keys)), " AND ".join(f"{quote(name)} = ?" for name in self.keys)
        self.create = f"CREATE TABLE {self.name} ({', '.join(map(quote, columns))}, PRIMARY KEY ({keys})) WITHOUT ROWID"
        changes = [f"{name} = {name} + excluded.{name}" for name in map(quote, ("_n", *self.sums))]
        changes += ["_seen = excluded._seen"] if self.spans else []
        for name in self.spans:
            both = f"{quote(name)}, excluded.{quote(name)}"
            changes.append(f"{quote(name)} = coalesce({_end(name)}({both}), {both})")
        self.add = (
            f"INSERT INTO {self.name} VALUES ({', '.join('?' * len(columns))}) "
            f"ON CONFLICT ({keys}) DO UPDATE SET {', '.join(changes)}"
        )
        self.drop_empty = f"DELETE FROM {self.name} WHERE {self._here} AND _n = 0"
        left = " OR ".join(f"{quote(name)} {'>=' if name[0] == '<' else '<='} ?" for name in self.spans)
        self.mark = f"UPDATE {self.name} SET _stale = 1 WHERE {self._here} AND ({left})"
        values = ", ".join(f"{quote(name)} = ?" for name in self.spans)
        self.renew = f"UPDATE {self.name} SET _stale = 0, {values} WHERE {self._here} AND _seen = ?"
        known = [f"nullif({quote(name)}, x'') AS {quote(name)}" for name in self.fields]
        self.cells = (
            f"(SELECT {', '.join([*known, *(quote(c) for c in columns if c not in self.fields)])} FROM {self.name})"
        )
        where = {name: place for place, name in enumerate(places)}
        self.by_places = [where[name] for name in counted.by]
        self.flag_places = [(where[name], name in self.dates) for name in counted.flags]
        self.at_place = where[self.at] if self.at else None
        self.sum_places, self.span_places = (
            [where[name] for name in counted.sums],
            [where[name] for name in counted.spans],
        )

    def value(self, name: str, table: str = "") -> str:
        """Return the value that the cell of a record has for a field, as SQL; NULL for none."""
        field = f"{table}{quote(name)}"
        if name not in self.counted.flags:
            return field
        return f"CASE WHEN {field} IS NOT NULL THEN {'0' if name in self.dates else f'{field} >= 1'} END"

    def knows(self, condition: Condition) -> bool:
        """Return whether the values of a cell decide on the condition."""
        match condition:
            case Not(inner):
                return self.knows(inner)
            case AnyOf(several):
                return all(map(self.knows, several))
            case Is(field) | Missing(field) if field in self.counted.by:
                return True
            case Missing(field):
                return field in self.counted.flags
            case Between(field, least, below, most) if field in self.counted.flags:
                return (least, below, most) in ((None, None, None), (1, None, None), (None, 1, None), (None, None, 0))
        return False

    def recount(self, table: str) -> str:
        """Return the rows that the counters of the records in a table have, as SQL."""
        values = [f"ifnull({self.value(name)}, x'')" for name in self.fields]
        counts = ["count(*)", *(f"ifnull(sum({quote(name[1:])}), 0)" for name in self.sums)]
        counts += ["0", "0", *(f"{_end(name)}({quote(name[1:])})" for name in self.spans)] if self.spans else []
        groups = ", ".join(map(str, range(1, len(self.keys) + 1)))
        if self.at is None:
            return f"SELECT {', '.join([*values, *counts])} FROM {table} GROUP BY {groups}"
        at = quote(self.at)
        return " UNION ALL ".join(
            f"SELECT {step}, {at} - (({at} % {step}) + {step}) % {step}, {', '.join([*values, *counts])} FROM {table} "
            f"WHERE {at} IS NOT NULL GROUP BY {groups}"
            for step in STEPS
        )


class CountedTable(Table[T]):
    """A table with the counters of its records, and what these count of a row."""

    def __init__(self, kind: Kind[T]) -> None:
        super().__init__(kind)
        plain, spanned = ([each for each in kind.counted if bool(each.spans) is spans] for spans in (False, True))
        of_plain = {name for each in plain for name in (*each.by, *each.flags, *each.sums, each.at) if name}
        dates = sorted(name for name in of_plain if kind.by_name[name].type is FieldType.DATE)
        counted = [*sorted(of_plain.difference(dates)), *dates]
        exact = sorted({name for each in spanned for name in (*each.by, *each.flags, *each.spans)})
        self.minutes, columns = (len(counted) - len(dates), len(counted)), [*counted, *exact]
        self.shapes = tuple(
            Shape(kind, each, number, exact if each.spans else counted) for number, each in enumerate(kind.counted)
        )
        self.counted_format = json.dumps([self.format, repr(kind.counted)]) if self.shapes else None
        if self.shapes:
            places = {each.name: place for place, each in enumerate(self.fields, 1)}
            self.pick: Callable[[Row], tuple[Any, ...]] = itemgetter(*(places[name] for name in columns))
        self.values_of = f"SELECT {', '.join(map(quote, columns))} FROM {self.name} WHERE {KEY} = ? AND {VERSION} = ?"


# --- counters are made of the records, when a file is opened that has others


def count_again(connection: sqlite3.Connection, table: CountedTable[Any]) -> None:
    """Make the counters of the records, in the transaction that is open."""
    began = time.monotonic()
    name = f"{table.kind.name}#"
    others = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, ?) = ?", (len(name), name)
    )
    for (other,) in others.fetchall():
        connection.execute(f"DROP TABLE {quote(other)}")
    for shape in table.shapes:
        connection.execute(shape.create)
        connection.execute(f"INSERT INTO {shape.name} {shape.recount(table.name)}")
    connection.execute("DELETE FROM _kinds WHERE kind = ?", (name,))
    if table.counted_format is not None:
        connection.execute("INSERT INTO _kinds VALUES (?, ?)", (name, table.counted_format))
    if (seconds := time.monotonic() - began) > 1:
        log.info("the %s were counted in %.1f s", table.kind.name, seconds)


def wrong_cells(table: CountedTable[Any], shape: Shape) -> Sql:
    """Select how many cells differ from the records."""
    keys, numbers = ", ".join(map(quote, shape.keys)), [quote(name) for name in ("_n", *shape.sums)]
    there, less = ", ".join([keys, *numbers]), ", ".join([keys, *(f"-{name}" for name in numbers)])
    right = f"(SELECT * FROM {shape.name} WHERE 0 UNION ALL {shape.recount(table.name)})"
    wrong = " OR ".join(f"sum({name}) <> 0" for name in numbers)
    both = f"SELECT {there} FROM {shape.name} UNION ALL SELECT {less} FROM {right}"
    return Sql(f"SELECT count(*) FROM (SELECT 1 FROM ({both}) GROUP BY {keys} HAVING {wrong})")


# --- tallies and histograms, as SQL over counters


def tally(
    table: CountedTable[Any], query: Query, by: Sequence[str], sums: Sequence[str], spans: Sequence[str]
) -> Sql | None:
    """Select what `table.tally` selects, from counters; None if they do not know it."""
    for shape in table.shapes:
        known = [each for each in query.where if shape.knows(each)]
        ranges = [each for each in query.where if isinstance(each, Between) and each.field == shape.at]
        fits = {*by} <= {*shape.counted.by} and {*sums} <= {*shape.counted.sums}
        if not fits or len(known) + len(ranges) != len(query.where) or len(ranges) != (shape.at is not None):
            continue
        if {*spans} <= {*shape.counted.spans}:
            return _tally(table, shape, known, ranges, by, sums, spans)
        if shape.at is None and (seeks := _seeks(table, known, by, spans)) is not None:
            inner = _tally(table, shape, known, [], by, sums, ())
            return Sql(f"SELECT cells.*, {seeks.text} FROM ({inner.text}) AS cells", (*seeks.values, *inner.values))
    return None


def _tally(
    table: CountedTable[Any],
    shape: Shape,
    where: Sequence[Condition],
    ranges: Sequence[Between],
    by: Sequence[str],
    sums: Sequence[str],
    spans: Sequence[str],
) -> Sql:
    groups, known = ", ".join(map(quote, by)), conditions(table, where)
    source = Sql(f"{shape.cells} WHERE {known.text}", known.values)
    if shape.at is not None:
        source = _within(table, shape, ranges[0], known, by)
    elif spans:
        source = _with_stale(table, shape, known)
    totals = ["sum(_n) AS _n", *(f"sum({quote(f'+{name}')}) AS {quote(f'+{name}')}" for name in sums)]
    totals += [f"{_end(end)}({quote(f'{end}{name}')})" for name in spans for end in "<>"]
    text = f"SELECT {', '.join([*map(quote, by), *totals])} FROM {source.text}"
    return Sql(f"{text} GROUP BY {groups}" if by else text, source.values)


def _within(table: CountedTable[Any], shape: Shape, span: Between, known: Sql, by: Sequence[str]) -> Sql:
    """Select the counts within a span: of whole hours, of minutes at its ends, and of records at the ends of these."""
    at, names = quote(span.field), "".join(f"{quote(name)}, " for name in by)
    least = milliseconds(span.at_least, up=True) if isinstance(span.at_least, datetime) else None
    ends = [milliseconds(span.below, up=True)] if isinstance(span.below, datetime) else []
    ends += [milliseconds(span.at_most) + 1] if isinstance(span.at_most, datetime) else []
    parts, values = [], []
    for step, start, end in _divide(least, min(ends, default=None), STEPS):
        found = (
            f"SELECT {names}_n FROM {shape.cells} WHERE _step = {step}"
            if step
            else f"SELECT {names}1 AS _n FROM {table.name} WHERE 1"
        )
        bounds = [(sign, edge) for sign, edge in ((">=", start), ("<", end)) if edge is not None]
        parts.append("".join([found, *(f" AND {at} {sign} ?" for sign, _ in bounds), f" AND {known.text}"]))
        values += [*(edge for _, edge in bounds), *known.values]
    return Sql(f"({' UNION ALL '.join(parts) or f'SELECT {names}_n FROM {shape.cells} WHERE 0'})", tuple(values))


def _divide(start: int | None, end: int | None, steps: Sequence[int]) -> Iterator[tuple[int, int | None, int | None]]:
    """Divide a span of time into whole steps, as long as possible, and the rest, which has the step 0."""
    if start is not None and end is not None and start >= end:
        return
    if not steps:
        yield 0, start, end
        return
    first = None if start is None else -(-start // steps[0]) * steps[0]
    last = None if end is None else end // steps[0] * steps[0]
    if first is not None and last is not None and first >= last:
        yield from _divide(start, end, steps[1:])
        return
    yield steps[0], first, last
    if start is not None:
        yield from _divide(start, first, steps[1:])
    if end is not None:
        yield from _divide(last, end, steps[1:])


def _with_stale(table: CountedTable[Any], shape: Shape, known: Sql) -> Sql:
    """Select cells with spans; stale ones from the records."""
    columns = ", ".join(map(quote, (*shape.fields, "_n", *shape.spans)))
    cells = f"SELECT {columns} FROM {shape.cells} WHERE NOT _stale AND {known.text}"
    return Sql(f"({cells} UNION ALL {_stale(table, shape, known)})", known.values * 2)


def _stale(table: CountedTable[Any], shape: Shape, known: Sql, *more: str) -> str:
    """Select what stale cells are to be."""
    same = " AND ".join(f"{shape.value(name, f'{table.name}.')} IS cell.{quote(name)}" for name in shape.fields)
    spans = [f"{_end(name)}({table.name}.{quote(name[1:])})" for name in shape.spans]
    names = [f"cell.{quote(name)}" for name in shape.fields]
    return (
        f"SELECT {', '.join([*names, 'count(*)', *spans, *more])} "
        f"FROM (SELECT * FROM {shape.cells} WHERE _stale AND {known.text}) AS cell CROSS JOIN {table.name} ON {same} "
        f"GROUP BY {', '.join(names)}"
    )


def stale_cells(table: CountedTable[Any], spans: Sequence[str]) -> tuple[Shape, Sql] | None:
    """Return the shape that knows these spans, and a selection of its stale cells as they are to be, for `renew`."""
    for shape in table.shapes:
        if spans and {*spans} <= {*shape.counted.spans}:
            return shape, Sql(_stale(table, shape, Sql("1"), "max(cell._seen)"))
    return None


def renewal(shape: Shape, row: Sequence[Any]) -> Row:
    """Return the values for `renew` of a row that `stale_cells` selects."""
    keys = [NONE if each is None else each for each in row[: len(shape.fields)]]
    return [*row[len(keys) + 1 : -1], *keys, row[-1]]


def _seeks(table: CountedTable[Any], where: Sequence[Condition], by: Sequence[str], spans: Sequence[str]) -> Sql | None:
    """Select the ends of spans for each of some cells, where an index leads to them; None if none does."""
    fixed = [each for each in where if isinstance(each, Is) and len(each.values) == 1 and each.field not in by]
    names = {*by, *(each.field for each in fixed)}
    if any(each not in fixed and not (isinstance(each, Is) and each.field in by) for each in where):
        return None
    for name in spans:
        if not any(
            {*index[: len(names)]} == names and index[len(names) :][:1] == (name,) for index in table.kind.indexes
        ):
            return None
    known, parts = conditions(table, fixed), []
    for name in spans:
        same = "".join(f" AND {table.name}.{quote(each)} IS cells.{quote(each)}" for each in by)
        parts += [
            f"(SELECT {quote(name)} FROM {table.name} WHERE {known.text}{same} AND {quote(name)} IS NOT NULL "
            f"ORDER BY {quote(name)}{order} LIMIT 1)"
            for order in ("", " DESC")
        ]
    return Sql(", ".join(parts), known.values * len(parts))


def histogram(table: CountedTable[Any], query: Query, buckets: Buckets) -> Sql | None:
    """Select what `table.histogram` selects, from counters; None if they do not know it."""
    start = milliseconds(buckets.start)
    step = next((each for each in STEPS if start % each == 0 and buckets.step % each == 0), None)
    for shape in table.shapes if step is not None else ():
        if shape.at == buckets.field and all(map(shape.knows, query.where)):
            known, at = conditions(table, query.where), quote(shape.at)
            end = "" if buckets.open_end else f" AND {at} < {start + buckets.step * buckets.count}"
            where = f"_step = {step} AND {at} >= {start}{end} AND {known.text}"
            number = f"({at} - {start}) / {buckets.step}"
            return Sql(f"SELECT {number}, sum(_n) FROM {shape.cells} WHERE {where} GROUP BY 1", known.values)
    return None


def _end(name: str) -> str:
    return "min" if name[0] == "<" else "max"

"""A `Query` as SQL: parameters for every value, and names only from the fields that the kind declares."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeAlias

from mahavishnu.model.errors import CorruptRecord, InvalidInput, InvalidQuery
from mahavishnu.model.query import AnyOf, At, Between, Condition, HasKey, Is, Missing, Not, Query, Sort
from mahavishnu.model.record import Version
from mahavishnu.stores.base import Buckets
from mahavishnu.stores.kind import (
    LONGEST_TERM,
    Field,
    FieldType,
    Kind,
    T,
    flatten,
    foreign_cursor,
    require_position,
    scalar_text,
)
from mahavishnu.stores.sqlite.texts import TextIndex, hints

# --- one kind of record as an SQLite table: its columns, its statements, and how a record becomes a row

Row: TypeAlias = list[Any]

ROW, KEY, VERSION, BODY = '"_row"', '"_key"', '"_version"', '"_body"'
_LAYOUT = 2  # of all tables; another one has them copied
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ESCAPE, _BETWEEN, _INSIDE = "\x1b", "\x1f", "\x1e"  # before an escaped one; around each value; between path and value
_ESCAPED = {_ESCAPE: _ESCAPE + "0", _BETWEEN: _ESCAPE + "1", _INSIDE: _ESCAPE + "2"}
_MANY_VALUED = (FieldType.KEYWORDS, FieldType.FLAT)


class Table(Generic[T]):
    """The table of one kind: its columns and statements. Two tables with the same `format` have the same columns."""

    def __init__(self, kind: Kind[T]) -> None:
        self.kind = kind
        self.name = quote(kind.name)
        self.number = next(_numbers)
        _tables[self.number] = self
        late = [each for each in kind.fields if each.late]
        texts = [each for each in late if each.type is FieldType.KEYWORDS]
        self.texts = TextIndex(kind.name, texts)
        self.columns = {each.name: self._late_value(each) if each.late else quote(each.name) for each in kind.fields}
        # The long columns come last, so that a scan of the short ones stays on the row's first page.
        self.fields = sorted(
            (each for each in kind.fields if each.name in kind.searchable and not each.late),
            key=lambda each: each.type in _MANY_VALUED,
        )
        # The key and these all at once; one more than wanted, because for a single one it would give no tuple.
        self._paths = attrgetter(kind.key, "version", *(each.path or "version" for each in self.fields))
        self._computed = [(place, each.value) for place, each in enumerate(self.fields) if not each.path]
        self._dates = self._places(FieldType.DATE)
        self._texts = self._places(FieldType.KEYWORD)
        self._derived_texts = [place for place in self._texts if self.fields[place].derived]
        self._several = self._places(FieldType.KEYWORDS)
        self._flat = self._places(FieldType.FLAT)
        names = [[each.name, each.type.value] for each in (*self.fields, *texts)]
        self.format = json.dumps([kind.name, *names, _LAYOUT])

        columns = [quote(each.name) for each in self.fields]
        bound = [VERSION, *columns, BODY]
        self._columns = (
            f"({ROW} INTEGER PRIMARY KEY, {KEY} TEXT NOT NULL UNIQUE, {VERSION} INTEGER NOT NULL, "
            f"{', '.join([*columns, BODY])})"
        )
        self.create = (f"CREATE TABLE IF NOT EXISTS {self.name} {self._columns}", *(self.texts.create if texts else ()))
        self.indexes = {
            (index := ".".join([kind.name, *names])): f"CREATE INDEX IF NOT EXISTS {quote(index)} "
            f"ON {self.name} ({', '.join(map(quote, names))}){self._only_where(names[0])}"
            for names in kind.indexes
        }
        self.insert = (
            f"INSERT INTO {self.name} ({', '.join(bound)}, {KEY}) VALUES ({', '.join('?' * len(bound))}, ?) "
            f"ON CONFLICT ({KEY}) DO NOTHING"
        )
        self._bound = bound
        self._updates: dict[tuple[int, ...], tuple[str, Callable[[Row], tuple[Any, ...]]]] = {}
        self.update, _ = self.update_of(tuple(range(len(bound))))
        self.delete = f"DELETE FROM {self.name} WHERE {KEY} = ? AND {VERSION} = ?"
        self.version_of = f"SELECT {VERSION} FROM {self.name} WHERE {KEY} = ?"
        self.rows_after = (
            f"SELECT {ROW}, {KEY}, {VERSION}, {BODY} FROM {self.name} WHERE {ROW} > ? ORDER BY {ROW} LIMIT ?"
        )
        self.derive = f"UPDATE {self.name} SET {', '.join(f'{name} = ?' for name in columns)} WHERE {ROW} = ?"

    def _late_value(self, field: Field[T]) -> str:
        """Return what a column of the field would hold, read from the document: mostly in SQL."""
        found = f"""json_extract({BODY}, '$."{field.name}"')"""
        match field.type:
            case FieldType.DATE:
                found = f"CAST(strftime('%s', {found}) AS INTEGER) * 1000 + CAST(substr({found}, 21, 3) AS INTEGER)"
            case FieldType.INTEGER if field.omitted is not None:
                found = f"coalesce({found}, {field.omitted})"
        read = f"late_value({self.number}, '{field.name}', {BODY})"
        odd = f"instr({BODY}, '\\u0000') OR instr({BODY}, '\\ud') OR length({BODY}) > {LONGEST_TERM}"
        if field.type is not FieldType.KEYWORD:
            odd = f"typeof({found}) = 'real'"
        return f"CASE WHEN NOT json_valid({BODY}) THEN NULL WHEN {odd} THEN {read} ELSE {found} END"

    def update_of(self, places: tuple[int, ...]) -> tuple[str, Callable[[Row], tuple[Any, ...]]]:
        """Return the statement that writes these places of a row, with its values: indexes of others stay."""
        if places not in self._updates:
            columns = ", ".join(f"{self._bound[place]} = ?" for place in places)
            text = f"UPDATE {self.name} SET {columns} WHERE {KEY} = ? AND {VERSION} = ?"
            self._updates[places] = text, itemgetter(*places, len(self._bound), len(self._bound) + 1)
        return self._updates[places]

    def _only_where(self, name: str) -> str:
        """Return the condition of an index that begins with this column: no query looks for the rows without it."""
        is_sparse = name in self.kind.sparse or self.kind.by_name[name].type in _MANY_VALUED
        return f" WHERE {quote(name)} IS NOT NULL" if is_sparse else ""

    def _places(self, type_: FieldType) -> list[int]:
        return [place for place, each in enumerate(self.fields) if each.type is type_]

    def copy(self, present: Collection[str]) -> list[str]:
        """Return the statements that make the table anew, with all rows and what is known of the `present` columns."""
        names = ["_key", "_version", *(each.name for each in self.fields), "_body"]
        columns = ", ".join([quote(name) for name in names if name in present])
        new = quote(f"{self.kind.name}.new")
        return [
            *self.texts.forget,
            f"CREATE TABLE {new} {self._columns}",
            f"INSERT INTO {new} ({ROW}, {columns}) SELECT rowid, {columns} FROM {self.name} ORDER BY rowid",
            f"DROP TABLE {self.name}",
            f"ALTER TABLE {new} RENAME TO {self.name}",
        ]

    def row(self, record: T, version: int) -> Row:
        """Return the values that `insert` binds; with the version to be replaced after them, those of `update`."""
        key, _, *values = self._paths(record)
        body = self.kind.document(record)
        return [version, *self._terms(record, values, short=len(body) <= LONGEST_TERM), body, key]

    def terms(self, record: T) -> Row:
        """The columns beside the body: `Field.term` of every field, quicker, as SQLite can hold it."""
        _, _, *values = self._paths(record)
        return self._terms(record, values)

    def _terms(self, record: T, values: list[Any], *, short: bool = False) -> Row:
        """Make terms of the `values` of all fields. In a `short` document no text can be longer than a term may be."""
        for place, get in self._computed:
            values[place] = get(record)
        for place in self._dates:
            if (moment := values[place]) is not None:
                values[place] = _known_milliseconds(moment)
        for place in self._derived_texts if short else self._texts:
            if isinstance(text := values[place], str) and len(text) > LONGEST_TERM:
                values[place] = None
        for place in self._several:
            if several := values[place]:
                several = join_texts([text for text in several if len(text) <= LONGEST_TERM])
            values[place] = several or None
        for place in self._flat:
            values[place] = None if (value := values[place]).text == "{}" else join_pairs(flatten(value.value))
        return values

    def key(self, row: Row) -> str:
        """The key in a row for `insert` or `update`."""
        key: str = row[len(self.fields) + 2]
        return key

    def without_unbindable(self, row: Row) -> Row:
        """The row without the terms that SQLite cannot hold: a record is not lost because of what is not findable."""
        end = len(self.fields) + 1
        return [row[0], *map(bindable_or_none, row[1:end]), *row[end:]]

    def has_term(self, name: str, body: str, text: str | None) -> bool:
        """Return True if a `late` field of the record in this row has this term; without a text, any."""
        record = self.record("", 0, body)
        if isinstance(record, CorruptRecord):
            return False
        terms = self.kind.by_name[name].term(record)
        return bool(terms) if text is None else text in terms

    def late_value(self, name: str, body: str) -> Any:
        """Return what a column of the `late` field would hold of the record in this row."""
        record = self.record("", 0, body)
        if isinstance(record, CorruptRecord):
            return None
        value = self.kind.by_name[name].term(record)
        return bindable_or_none(milliseconds(value) if isinstance(value, datetime) else value)

    def record(self, key: str, version: int, body: str) -> T | CorruptRecord:
        """The record of a stored row, or why it cannot be read."""
        try:
            return self.kind.read(body, (version,))
        except CorruptRecord as problem:
            return CorruptRecord(key, problem.reason)
        except Exception as problem:  # a damaged body can make a decoder raise anything
            return CorruptRecord(key, str(problem) or type(problem).__name__)


_numbers = count()
_tables: weakref.WeakValueDictionary[int, Table[Any]] = weakref.WeakValueDictionary()


def has_term(number: int, name: str, body: str, text: str | None) -> bool:
    """`Table.has_term` of the table with this number, for SQL. Never raises: SQLite would call the file damaged."""
    try:
        return _tables[number].has_term(name, body, text)
    except Exception:
        return False


def late_value(number: int, name: str, body: str) -> Any:
    """`Table.late_value` of the table with this number, for SQL."""
    try:
        return _tables[number].late_value(name, body)
    except Exception:
        return None


def expected_version(version: Version | None) -> int | None:
    """The version to compare with; None, which equals nothing, for another store's."""
    return version[0] if version is not None and len(version) == 1 else None


def quote(name: str) -> str:
    """`name` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def milliseconds(moment: datetime, *, up: bool = False) -> int:
    """Whole milliseconds since 1970, as documents keep them, cut or rounded up. Raises InvalidInput without a zone."""
    if moment.tzinfo is None:
        raise InvalidInput(f"{moment.isoformat()} has no time zone; give an aware datetime")
    return -((_EPOCH - moment) // _MILLISECOND) if up else (moment - _EPOCH) // _MILLISECOND


_known_milliseconds = lru_cache(4096)(milliseconds)  # a letter has the same instant several times, and so have others


def term(field: Field[Any], value: Any) -> Any:
    """Read the value of `Field.term` back from a column, of a field with one value."""
    return _EPOCH + value * _MILLISECOND if field.type is FieldType.DATE and value is not None else value


def join_texts(texts: Sequence[str]) -> str | None:
    """Several texts as one in which `needle` finds each; None for none."""
    if not texts:
        return None
    text = _BETWEEN.join(texts)
    if _ESCAPE in text or _INSIDE in text or text.count(_BETWEEN) != len(texts) - 1:
        text = _BETWEEN.join(map(_escape, texts))
    return f"{_BETWEEN}{text}{_BETWEEN}"


def join_pairs(pairs: Iterable[tuple[str, str]]) -> str | None:
    """The distinct (path, text) pairs that can be found, as one text, in one order."""
    found = sorted({pair for pair in pairs if len(pair[0]) + len(pair[1]) <= LONGEST_TERM})
    return f"{_BETWEEN}{_BETWEEN.join(map(_pair, found))}{_BETWEEN}" if found else None


def needle(text: str) -> str:
    """Return the text to look for in the result of `join_texts`."""
    return f"{_BETWEEN}{_escape(text)}{_BETWEEN}"


def pair_needle(path: str, text: str) -> str:
    """Return the text to look for in the result of `join_pairs`."""
    return f"{_BETWEEN}{_pair((path, text))}{_BETWEEN}"


def _pair(pair: tuple[str, str]) -> str:
    return f"{_escape(pair[0])}{_INSIDE}{_escape(pair[1])}"


def _escape(text: str) -> str:
    if _ESCAPE in text or _BETWEEN in text or _INSIDE in text:
        for char, escaped in _ESCAPED.items():  # the escape itself first
            text = text.replace(char, escaped)
    return text


def bindable_or_none(value: Any) -> Any:
    """`value` if a column can hold it, else None: a lone surrogate or a huge number is kept, but not findable."""
    if isinstance(value, str):
        return value if is_unicode(value) else None
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    return value if isinstance(value, float) else None


def is_unicode(text: str) -> bool:
    """Return True if the text has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


MOST_MERGED = 50  # values that are read one by one and merged; with more of them the whole is sorted
MOST_MERGED_VALUES = 10_000  # that stand for what is asked for, which is said again for each value that is merged
MOST_PLACEHOLDERS = 500  # more values than that travel as one JSON text; SQLite's own limit is 32766 in a statement


class Sql(NamedTuple):
    """A piece of SQL and what its question marks stand for."""

    text: str
    values: tuple[Any, ...] = ()


_NEVER, _ALWAYS = Sql("0"), Sql("1")


def few_texts(table: Table[Any], query: Query) -> Sql | None:
    """Return the rows that have the texts that the query asks for, or may have them; None without such texts."""
    if not table.texts.is_there:
        return None
    asked = [some for each in query.where if (some := _late_texts(table, each))]
    match = " AND ".join(f"({' OR '.join(table.texts.token(*pair) for pair in some)})" for some in asked)
    return Sql(table.texts.rows, (match,)) if asked else None


def select(
    table: Table[Any],
    query: Query,
    after: Sequence[Any] | None,
    merged: tuple[str, Sequence[Any]] | None = None,
    few: Sql | None = None,
) -> Sql:
    """Select key, version, body and sort columns of one page and one more row, in order.

    The page is found by row numbers first: a sort that no index spares would otherwise carry the bodies around.
    `merged` is the result of `column_to_merge`, with all values of that column; `few` has all rows that may be found.
    """
    if merged is not None:
        asked_for = 2 * (len(merged[1]) + 1) * len(conditions(table, query.where).values)
        if len(merged[1]) > MOST_MERGED or asked_for > MOST_MERGED_VALUES:
            merged = None
    numbers = _numbers_of(table, query, after, merged, _source(table, few))
    names = [table.columns[sort.field] for sort in query.sort]
    columns = ", ".join([KEY, VERSION, BODY, *names])
    joined = f"CROSS JOIN {table.name} ON {table.name}.{ROW} = page._row"  # CROSS: keeps the order of the page
    return Sql(f"SELECT {columns} FROM ({numbers.text}) AS page {joined}", numbers.values)


def _source(table: Table[Any], few: Sql | None) -> Sql:
    """Return what to select from: the table, or those `few` of its rows."""
    some = f"({few.text}) AS few CROSS JOIN {table.name} ON {table.name}.{ROW} = few.row" if few else table.name
    return Sql(some, few.values if few else ())


def _numbers_of(
    table: Table[Any], query: Query, after: Sequence[Any] | None, merged: tuple[str, Sequence[Any]] | None, source: Sql
) -> Sql:
    """Select the row numbers of the page.

    A page after a record is put together from two: the rows whose first sort column has a value, where an index leads
    straight to the place, and then those without one, because they come last. So is one that is merged where an index
    has those without one first.
    """
    where = conditions(table, query.where)
    order = ", ".join([*(f"{table.columns[sort.field]} {_direction(sort)}" for sort in query.sort), KEY])
    limit = query.limit + 1

    def part(more: Sql) -> Sql:
        both = _all([where, more])
        if merged is not None:
            return _merge(table, query, both, *merged)
        text = f"SELECT {table.name}.{ROW} FROM {source.text} WHERE {both.text} ORDER BY {order} LIMIT {limit}"
        return Sql(text, source.values + both.values)

    if after is None and (merged is None or query.sort[0].descending):
        return part(_ALWAYS)
    place = None if after is None else _place(table, query.sort, after)
    if place is not None and (not query.sort or place[0] is None):
        return part(_beyond(table, query.sort, place))
    name, sign = table.columns[query.sort[0].field], "<=" if query.sort[0].descending else ">="
    if place is None:
        present = part(Sql(f"{name} IS NOT NULL"))
    else:
        present = part(_all([Sql(f"{name} {sign} ?", place[:1]), _beyond(table, query.sort, place)]))
    absent = part(Sql(f"{name} IS NULL"))
    return Sql(
        f"SELECT * FROM ({present.text}) UNION ALL SELECT * FROM ({absent.text}) LIMIT {limit}",
        present.values + absent.values,
    )


def _merge(table: Table[Any], query: Query, where: Sql, column: str, values: Sequence[Any]) -> Sql:
    """The row numbers of a page, from the rows of each value of the column, each of which an index has in order."""
    columns = [ROW, *(table.columns[sort.field] for sort in query.sort), KEY]
    order = [f"{place} {_direction(sort)}" for place, sort in enumerate(query.sort, 2)]
    own = [Sql(f"{quote(column)} IS NULL"), *(Sql(f"{quote(column)} = ?", (value,)) for value in values)]
    parts = [_all([one, where]) for one in own]
    rows = " UNION ALL ".join(f"SELECT {', '.join(columns)} FROM {table.name} WHERE {part.text}" for part in parts)
    page = f"{rows} ORDER BY {', '.join([*order, str(len(columns))])} LIMIT {query.limit + 1}"
    return Sql(f"SELECT _row FROM ({page})", tuple(value for part in parts for value in part.values))


def tally(
    table: Table[Any],
    query: Query,
    by: Sequence[str],
    sums: Sequence[str],
    spans: Sequence[str],
    few: Sql | None = None,
) -> Sql:
    """Select the values of `by`, the count, the sums, and the least and greatest values of `spans`, for each group."""
    where = _all([_with_likelihood(table, each) for each in query.where])
    groups = [table.columns[name] for name in by]
    cells = [f"sum({table.columns[name]})" for name in sums]
    cells += [f"{end}({table.columns[name]})" for name in spans for end in ("min", "max")]
    source = _source(table, few)
    text = f"SELECT {', '.join([*groups, 'count(*)', *cells])} FROM {source.text} WHERE {where.text}"
    values = source.values + where.values
    # Without a sign SQLite may go through all rows in the order of the groups rather than look for those that count.
    common = [isinstance(each, Is) and table.kind.by_name[each.field].common for each in query.where]
    sign = "" if all(common) else "+"
    return Sql(f"{text} GROUP BY {', '.join(f'{sign}{name}' for name in groups)}" if groups else text, values)


def histogram(table: Table[Any], query: Query, buckets: Buckets, few: Sql | None = None) -> Sql:
    """Select the number of each bucket that has rows, and how many it has: the pairs that `Buckets.fill` takes."""
    where = _all([_with_likelihood(table, each) for each in buckets.narrow(query).where])
    number = f"({table.columns[buckets.field]} - ?) / ?"
    source = _source(table, few)
    text = f"SELECT {number}, count(*) FROM {source.text} WHERE {where.text} GROUP BY 1"
    return Sql(text, (milliseconds(buckets.start), buckets.step, *source.values, *where.values))


def _with_likelihood(table: Table[Any], condition: Condition) -> Sql:
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
    if (texts := _late_texts(table, condition)) is not None:
        return _has_one_of(table, texts)
    match condition:
        case Not(inner):
            text, values = _condition(table, inner)
            return Sql(f"({text}) IS NOT TRUE", values)  # an empty column makes the inner condition NULL, not true
        case AnyOf(several):
            return _tree(" OR ", [_condition(table, each) for each in several], _NEVER)
        case HasKey(keys):
            return _one_of(KEY, keys)
    field = table.kind.by_name[condition.field]
    name = table.columns[field.name]
    match condition:
        case Missing() if field.late and field.type is FieldType.KEYWORDS:
            text, values = _has_one_of(table, [(field.name, None)])
            return Sql(f"NOT {text}", values)
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
            limits = [Sql(f"{name} {sign} ?", (_edge(field, it, up),)) for sign, it, up in bounds if it is not None]
            return _all(limits or [Sql(f"{name} IS NOT NULL")])
    raise InvalidQuery(f"{condition!r} is no condition")


def _late_texts(table: Table[Any], condition: Condition) -> list[tuple[str, str | None]] | None:
    """Return the texts of late fields of which the condition asks for at least one; None if it asks for other things.

    Without a text: any text of the field.
    """
    match condition:
        case Is(name, wanted) if table.kind.by_name[name] in table.texts.fields:
            return [(name, value) for value in wanted if isinstance(value, str) and is_unicode(value)]
        case AnyOf(several) if several:
            found = [_late_texts(table, each) for each in several]
            return None if None in found else [pair for each in found if each is not None for pair in each]
    return None


def _has_one_of(table: Table[Any], texts: Sequence[tuple[str, str | None]]) -> Sql:
    """Return the condition that a row has one of the texts. Documents are read of rows that are not indexed yet."""
    late, has_term = table.texts, f"has_term({table.number}, ?, {BODY}, ?)"
    indexed = [Sql(f"instr({late.terms}, ?) > 0", (f" {late.token(*pair)} ",)) for pair in texts]
    here = [[Sql(f"instr(lower({BODY}), ?) > 0", (word,)) for word in hints(pair[1] or "")] for pair in texts]
    read = [_all([*some, Sql(has_term, pair)]) for some, pair in zip(here, texts, strict=True)]
    one, other = _tree(" OR ", read, _NEVER), _tree(" OR ", indexed, _NEVER)
    text = f"CASE WHEN {late.is_unindexed} THEN {one.text} ELSE {other.text} END"
    return Sql(text, one.values + other.values) if texts else _NEVER


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


def _edge(field: Field[Any], value: Any, up: bool) -> Any:
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
    bound = [it if it is None or isinstance(it, str) else _edge(field, it, False) for field, it in named]
    return (*bound, key)


def _beyond(table: Table[Any], sorts: Sequence[Sort], place: tuple[Any, ...]) -> Sql:
    """Return the condition for rows after the place: by the first sort column, or if that is equal, by the next."""
    if not sorts:
        return Sql(f"{KEY} > ?", place)
    name, value, rest = table.columns[sorts[0].field], place[0], _beyond(table, sorts[1:], place[1:])
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

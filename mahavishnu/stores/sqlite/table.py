"""One kind of record as an SQLite table: its columns, its statements, and how a record becomes a row.

The body is the record; the columns beside it only make it findable, hold what `Field.term` says, and can be derived
again from the body at any time. They have no declared type, so that SQLite compares `5` and `"5"` as Python does.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from operator import attrgetter
from typing import Any, Generic, TypeAlias

from mahavishnu.model.errors import CorruptRecord, InvalidInput
from mahavishnu.model.letter_parts import Version
from mahavishnu.stores.kind import LONGEST_TERM, Field, FieldType, Kind, T, flatten

Row: TypeAlias = list[Any]

KEY, VERSION, BODY = '"_key"', '"_version"', '"_body"'
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
        self.format = json.dumps([kind.name, *([each.name, each.type.value] for each in self.fields)])

        columns = [quote(each.name) for each in self.fields]
        bound = [VERSION, *columns, BODY]
        self.create = (
            f"CREATE TABLE IF NOT EXISTS {self.name} "
            f"({KEY} TEXT NOT NULL PRIMARY KEY, {VERSION} INTEGER NOT NULL, {', '.join([*columns, BODY])})"
        )
        self.indexes = {
            (index := ".".join([kind.name, *names])): f"CREATE INDEX IF NOT EXISTS {quote(index)} "
            f"ON {self.name} ({', '.join(map(quote, names))}){self._only_where(names[0])}"
            for names in kind.indexes
        }
        self.insert = (
            f"INSERT INTO {self.name} ({', '.join(bound)}, {KEY}) VALUES ({', '.join('?' * len(bound))}, ?) "
            f"ON CONFLICT ({KEY}) DO NOTHING"
        )
        self.update = (
            f"UPDATE {self.name} SET {', '.join(f'{name} = ?' for name in bound)} WHERE {KEY} = ? AND {VERSION} = ?"
        )
        self.delete = f"DELETE FROM {self.name} WHERE {KEY} = ? AND {VERSION} = ?"
        self.version_of = f"SELECT {VERSION} FROM {self.name} WHERE {KEY} = ?"
        self.rows_after = (
            f"SELECT rowid, {KEY}, {VERSION}, {BODY} FROM {self.name} WHERE rowid > ? ORDER BY rowid LIMIT ?"
        )
        self.derive = f"UPDATE {self.name} SET {', '.join(f'{name} = ?' for name in columns)} WHERE rowid = ?"

    def _only_where(self, name: str) -> str:
        """Return the condition of an index that begins with this column: no query looks for the many empty lists."""
        return f" WHERE {quote(name)} IS NOT NULL" if self.kind.by_name[name].type in _MANY_VALUED else ""

    def _places(self, type_: FieldType) -> list[int]:
        return [place for place, each in enumerate(self.fields) if each.type is type_]

    def additions(self, present: Collection[str]) -> list[str]:
        """Return the statements that add the columns that a table with the `present` ones lacks."""
        missing = [quote(each.name) for each in self.fields if each.name not in present]
        return [f"ALTER TABLE {self.name} ADD COLUMN {name}" for name in missing]

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
    """Read the value of `Field.term` back from a column."""
    match field.type:
        case FieldType.DATE:
            return None if value is None else _EPOCH + value * _MILLISECOND
        case FieldType.KEYWORDS:
            return tuple(map(_unescape, _raw_parts(value)))
        case FieldType.FLAT:
            return frozenset(tuple(map(_unescape, pair.split(_INSIDE))) for pair in _raw_parts(value))
    return value


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


def _pair(pair: tuple[str, str]) -> str:
    return f"{_escape(pair[0])}{_INSIDE}{_escape(pair[1])}"


def _escape(text: str) -> str:
    if _ESCAPE in text or _BETWEEN in text or _INSIDE in text:
        for char, escaped in _ESCAPED.items():  # the escape itself first
            text = text.replace(char, escaped)
    return text


def _unescape(text: str) -> str:
    for char, escaped in reversed(_ESCAPED.items()):
        text = text.replace(escaped, char)
    return text


def _raw_parts(value: str | None) -> list[str]:
    return [] if value is None else value[1:-1].split(_BETWEEN)

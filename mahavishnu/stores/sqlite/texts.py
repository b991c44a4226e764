"""Words and other texts of records, searched by FTS5: indexed a few seconds late, and exact at every moment.

A row that was written lately is not indexed yet: its number is above `upto`, or whoever changed it has put it among the
`stale` ones. Such rows are few, and a search looks at their documents. A letter that changes often is indexed once.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Any

from mahavishnu.model.errors import CorruptRecord
from mahavishnu.stores.kind import LONGEST_TERM, Field

if TYPE_CHECKING:
    from mahavishnu.stores.sqlite.table import Table

LAG_SECONDS = 2.0  # before a row is indexed: until then it may change again
PAUSE_SECONDS = 0.2  # without writes
AT_ONCE = 500  # rows of one transaction: writes wait for it
MOST_UNINDEXED = 20_000  # rows that wait while there is no pause between writes
FEW = 5000  # rows with the texts: they are read and sorted; more of them are met soon enough in the order of a query
EVERYTHING = 2**62  # more than any row's number
_PLAIN = re.compile("[a-z0-9_\x80-\ud7ff]+")
_ASCII_WORD, _MOST_HINTS = re.compile(r"\w+", re.ASCII), 3
_TABLES = ("texts", "terms", "stale", "indexed")
_SHORT = 60  # bytes of a term that is spelled out


_ESCAPE, _BETWEEN, _INSIDE = "\x1b", "\x1f", "\x1e"  # before an escaped one; around each value; between path and value
_ESCAPED = {_ESCAPE: _ESCAPE + "0", _BETWEEN: _ESCAPE + "1", _INSIDE: _ESCAPE + "2"}


@cache
def has_fts5() -> bool:
    """Return True if this SQLite can search texts by an index. Without it the answers are the same, but come later."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE texts USING fts5(terms)")
        except sqlite3.OperationalError:
            return False
    return True


def hints(term: str) -> list[str]:
    """Return words that the lower-case text of a document has if it has the term: JSON escapes all but ASCII."""
    plain = _ASCII_WORD.findall(term)
    if len(plain) > 1:  # a number may be spelled in another way there
        plain = [word for word in plain if not word[0].isdigit()]
    return [word.lower() for word in sorted(dict.fromkeys(plain), key=len, reverse=True)[:_MOST_HINTS]]


class TextIndex:
    """The index of the `fields` of one table, whose values are texts: its statements, and how terms become tokens."""

    def __init__(self, kind: str, fields: Iterable[Field[Any]]) -> None:
        self.kind, self.fields = kind, tuple(fields)
        table, name, terms, stale, indexed = map(quote, (kind, *(f"{kind}.{end}" for end in _TABLES)))
        self._letters: Mapping[str, str] = {each.name: chr(ord("a") + 2 * n) for n, each in enumerate(self.fields)}
        upto = f"(SELECT upto FROM {indexed})"
        self.is_unindexed = f'({table}."_row" > {upto} OR {table}."_row" IN (SELECT row FROM {stale}))'
        self.terms = f"""ifnull((SELECT terms FROM {terms} WHERE row = {table}."_row"), '')"""
        self.some = f"SELECT count(*) FROM (SELECT 1 FROM {name} WHERE {name} MATCH ? LIMIT {FEW + 1})"
        self.rows = (
            f"SELECT rowid AS row FROM {name} WHERE {name} MATCH ? UNION SELECT row FROM {stale} "
            f'UNION SELECT "_row" FROM {table} WHERE "_row" > {upto}'
        )
        self._mark = f'INSERT OR IGNORE INTO {stale} SELECT "_row" FROM {table} WHERE "_key" = ? AND "_row" <= {upto}'
        options = f"content={_text(kind + '.terms')}, content_rowid='row', detail=none, columnsize=0"
        self.create = (
            f"CREATE TABLE IF NOT EXISTS {terms} (row INTEGER PRIMARY KEY, terms TEXT NOT NULL)",
            f"CREATE TABLE IF NOT EXISTS {stale} (row INTEGER PRIMARY KEY)",
            f"CREATE TABLE IF NOT EXISTS {indexed} (upto INTEGER NOT NULL)",
            f"INSERT INTO {indexed} SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM {indexed})",
        )
        tokens = "tokenize=\"ascii tokenchars '_'\""
        self.is_there = bool(self.fields) and has_fts5()
        self.create_index = f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5(terms, {options}, {tokens})"
        own = [name] if has_fts5() else []  # what it has too much, is found and passed over
        self.forget = tuple(f"DROP TABLE IF EXISTS {each}" for each in (*own, terms, stale, indexed))
        row = f'{table}."_row", {table}."_key", {table}."_version", {table}."_body"'
        self._changed = (
            f'SELECT s.row, "_key", "_version", "_body" FROM {stale} s LEFT JOIN {table} ON "_row" = s.row LIMIT ?'
        )
        self._new = f'SELECT {row} FROM {table} WHERE "_row" > {upto} AND "_row" <= ? ORDER BY "_row" LIMIT ?'
        self._edges = f'SELECT {upto}, (SELECT ifnull(max("_row"), 0) FROM {table})'
        self._count_changed = f"SELECT count(*) FROM {stale}"
        self._set_upto, self._settle = f"UPDATE {indexed} SET upto = ?", f"DELETE FROM {stale} WHERE row = ?"
        self._terms_of = f"SELECT terms FROM {terms} WHERE row = ?"
        self._keep = f"INSERT OR REPLACE INTO {terms} VALUES (?, ?)", f"INSERT INTO {name} (rowid, terms) VALUES (?, ?)"
        self._drop = (
            f"INSERT INTO {name} ({name}, rowid, terms) VALUES ('delete', ?, ?)",
            f"DELETE FROM {terms} WHERE row = ? AND terms = ?",
        )

    def token(self, field: str, term: str | None) -> str:
        """Return what stands for a term of the field, all of one kind of characters; without a term, for any."""
        letter = self._letters[field]
        if term is None or _PLAIN.fullmatch(term):
            return letter + (term or "")
        data = term.encode("utf-8", "surrogatepass")
        return chr(ord(letter) + 1) + (data.hex() if len(data) <= _SHORT else blake2b(data).hexdigest())

    def count_unindexed(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Return how many rows are to be indexed, at most, and the number of the last row."""
        (changed,) = connection.execute(self._count_changed).fetchone()
        upto, last = connection.execute(self._edges).fetchone()
        return changed + max(0, last - upto), last

    def mark(self, connection: sqlite3.Connection, keys: Iterable[str]) -> None:
        """Note that the rows of these keys change, in the transaction that changes them. A trigger would cost more."""
        if self.fields:
            connection.executemany(self._mark, [(key,) for key in keys])

    def update(self, connection: sqlite3.Connection, table: Table[Any], below: int, most: int = AT_ONCE) -> int:
        """Index rows that changed, then new ones up to a number, in the caller's transaction. Return how many."""
        changed = connection.execute(self._changed, (most,)).fetchall()
        new = connection.execute(self._new, (below, most - len(changed))).fetchall()
        for row, *stored in (*changed, *new):
            self._index(connection, row, self._tokens(table, *stored))
        connection.executemany(self._settle, [(row,) for row, *_ in changed])
        upto, last = connection.execute(self._edges).fetchone()
        reached = new[-1][0] if len(changed) + len(new) == most and new else upto if len(changed) == most else below
        # A number above the last one is given again.
        connection.execute(self._set_upto, (min(max(upto, reached), last),))
        return len(changed) + len(new)

    def _index(self, connection: sqlite3.Connection, row: int, tokens: str | None) -> None:
        (known,) = connection.execute(self._terms_of, (row,)).fetchone() or (None,)
        if known == tokens:
            return
        for statement in self._drop if known is not None else ():
            connection.execute(statement, (row, known))
        for statement in self._keep if tokens is not None else ():
            connection.execute(statement, (row, tokens))

    def _tokens(self, table: Table[Any], key: str | None, version: int, body: str) -> str | None:
        """Return the tokens of a stored row, each between blanks; None for one that is gone."""
        if key is None:
            return None
        record = table.record(key, version, body)
        if isinstance(record, CorruptRecord):
            return " "
        found: list[str] = []
        for field in self.fields:
            if terms := field.term(record):
                found += [self.token(field.name, term) for term in (None, *terms)]
        return f" {' '.join(found)} " if found else " "


class Upkeep:
    """When the writer's thread indexes texts, and up to which row of each table."""

    def __init__(self) -> None:
        self._due: float | None = time.monotonic() + LAG_SECONDS  # another process may have left some
        self._is_behind = False
        self._noted: dict[str, int] = {}  # the last row of each table when it was looked at

    def seconds(self) -> float | None:
        """Return how long to wait for writes; None for any time."""
        if self._due is None or self._is_behind:
            return None if self._due is None else 0.0
        return max(PAUSE_SECONDS, self._due - time.monotonic())

    def note(self) -> None:
        """Note that rows were written, or that somebody searches."""
        self._is_behind = False  # others wait for the writer: it goes on when there is a pause, or in time
        if self._due is None:
            self._due = time.monotonic() + LAG_SECONDS

    def is_due(self) -> bool:
        """Return whether to look for texts although there is no pause between writes."""
        return self._due is not None and time.monotonic() >= self._due

    def run(
        self,
        connection: sqlite3.Connection,
        tables: Iterable[Table[Any]],
        begin: Callable[[], object],
        commit: Callable[[], object],
        *,
        is_busy: bool,
    ) -> None:
        """Index some of the rows that were there LAG_SECONDS ago; while the writer is busy, only of very many."""
        now, self._due, self._is_behind = time.monotonic(), None, False
        for table in tables:
            texts = table.texts
            unindexed, last = texts.count_unindexed(connection)
            if not unindexed:
                continue
            self._due = min(self._due or inf, now if unindexed > MOST_UNINDEXED else now + LAG_SECONDS)
            if is_busy and unindexed <= MOST_UNINDEXED:
                continue
            begin()
            most = 4 * AT_ONCE if is_busy else AT_ONCE
            if texts.update(connection, table, last if is_busy else self._noted.get(texts.kind, 0), most) == most:
                self._is_behind = True
            else:
                self._noted[texts.kind] = last
            commit()


# --- several texts in one column


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


def split_texts(value: str | None) -> tuple[str, ...]:
    """Return the texts that `join_texts` has joined."""
    return tuple(map(_unescape, _raw_parts(value)))


def split_pairs(value: str | None) -> frozenset[tuple[str, ...]]:
    """Return the pairs that `join_pairs` has joined."""
    return frozenset(tuple(map(_unescape, pair.split(_INSIDE))) for pair in _raw_parts(value))


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


def quote(name: str) -> str:
    """`name` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"

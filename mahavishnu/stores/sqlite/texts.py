"""Words and other texts of records, searched by FTS5: indexed a few seconds late, and exact at every moment.

A row that was written lately is not indexed yet: its number is above `upto`, or whoever changed it has put it among the
`stale` ones. Such rows are few, and a search looks at their documents. A letter that changes often is indexed once.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from mahavishnu.model.errors import CorruptRecord
from mahavishnu.stores.kind import Field

if TYPE_CHECKING:
    from mahavishnu.stores.sqlite.table import Table

AT_ONCE = 500  # rows of one transaction: writes wait for it
FEW = 5000  # rows with the texts: they are read and sorted; more of them are met soon enough in the order of a query
EVERYTHING = 2**62  # more than any row's number
_PLAIN = re.compile("[a-z0-9_\x80-\ud7ff]+")
_ASCII_WORD, _MOST_HINTS = re.compile(r"\w+", re.ASCII), 3
_TABLES = ("texts", "terms", "stale", "indexed")
_SHORT = 60  # bytes of a term that is spelled out


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
        table, name, terms, stale, indexed = map(_quote, (kind, *(f"{kind}.{end}" for end in _TABLES)))
        self._letters: Mapping[str, str] = {each.name: chr(ord("a") + 2 * n) for n, each in enumerate(self.fields)}
        upto = f"(SELECT upto FROM {indexed})"
        self.is_unindexed = f'({table}."_row" > {upto} OR {table}."_row" IN (SELECT row FROM {stale}))'
        self.terms = f"""ifnull((SELECT terms FROM {terms} WHERE row = {table}."_row"), '')"""
        self.some = f"SELECT count(*) FROM (SELECT 1 FROM {name} WHERE {name} MATCH ? LIMIT {FEW + 1})"
        self.rows = (
            f"SELECT rowid AS row FROM {name} WHERE {name} MATCH ? UNION SELECT row FROM {stale} "
            f'UNION SELECT "_row" FROM {table} WHERE "_row" > {upto}'
        )
        self.mark = f'INSERT OR IGNORE INTO {stale} SELECT "_row" FROM {table} WHERE "_key" = ? AND "_row" <= {upto}'
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


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"

"""Records in one SQLite file: the embedded store, and the local one while a shared store is away.

Several processes of one host may share the file. All writes of a process that wait at the same moment become one
transaction (`sqlite.writer`); reads have connections and threads of their own, so nothing here holds up an event loop.
A kind with a partition has a file of its own beside the main one: moving the file takes all of it away.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from mahavishnu.model.errors import CorruptRecord, InvalidInput, ItemFailed, ReadTimeout, StoreError, StoreUnavailable
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import Buckets, Cell, Collection, Cursor, Health, Histogram, OpenClose, Page, Result, Tally
from mahavishnu.stores.kind import FieldType, Kind, T
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.sqlite import table as sqlite_sql
from mahavishnu.stores.sqlite.connections import Connections, Connector
from mahavishnu.stores.sqlite.table import Sql, Table, expected_version, term
from mahavishnu.stores.sqlite.texts import FEW
from mahavishnu.stores.sqlite.writer import CloseRequest, Missed, Writer, WriteRequest

__all__ = ["SQLiteCollection", "SQLiteStore"]

log = logging.getLogger(__name__)
READERS = 2  # for each of the two: records by their keys, and what queries mean
READ_SECONDS = 30.0  # after which a read for a query is broken off
_CHECKED_EVERY = 10_000  # instructions of SQLite between two looks at the clock
SLOW_SECONDS = 1.0
MANY = 100  # records are encoded where they are handed in, unless there are so many that the loop would feel it
SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
R = TypeVar("R")


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
    name, least = sqlite_sql.quote(column), f"SELECT min({sqlite_sql.quote(column)}) FROM {table.name}"
    return Sql(
        f"WITH RECURSIVE found(value) AS ({least} UNION ALL SELECT ({least} WHERE {name} > found.value) "
        f"FROM found WHERE value IS NOT NULL LIMIT {sqlite_sql.MOST_MERGED + 1}) "
        "SELECT value FROM found WHERE value IS NOT NULL"
    )


def partition_path(path: Path, partition: str) -> Path:
    """Return the path of a partition's file beside the main one.

    >>> partition_path(Path("/var/letters.db"), "archive-2026-01").name
    'letters.archive-2026-01.db'
    """
    return path.with_name(f"{path.stem}.{partition}{path.suffix}")


class PartitionCollection(Generic[T]):
    """One kind of record in a file of its own, which is made by the first write and opened by the first use."""

    def __init__(self, file: SQLiteStore, kind: Kind[T]) -> None:
        self.kind = kind
        self._file, self._records = file, file.main_collection(kind)

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        return await (await self._open_collection(may_be_made=True)).write(records)

    async def remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        return await (await self._open_collection()).remove(records)

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        return await (await self._open_collection()).get(keys)

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        return await (await self._open_collection()).find(query, after)

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        return await (await self._open_collection()).tally(query, by, sums=sums, spans=spans)

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        return await (await self._open_collection()).histogram(query, buckets)

    async def _open_collection(self, *, may_be_made: bool = False) -> SQLiteCollection[T]:
        """Open the file, and return its records. Raises StoreUnavailable where it is missing."""
        if not may_be_made and not await asyncio.to_thread(self._file.path.exists):
            raise StoreUnavailable(f"{self._file.path} is not there: put it back, or detach the partition")
        await self._file.open()
        return self._records


class SQLiteStore(OpenClose):
    """A store in one file, which is made, with its folders, when it is not there.

    What was acknowledged survives a killed process, and, with `synchronous` FULL, a power cut. `busy_timeout` is how
    long to wait for other processes to finish writing. A file that is open when its process is forked cannot be opened
    in the child: open it after the fork, or start the child by `spawn`.
    """

    finds_are_current = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        kinds: Iterable[Kind[Any]] = (LETTERS, HISTORY),
        synchronous: str = "FULL",
        busy_timeout: timedelta = timedelta(seconds=5),
    ) -> None:
        if synchronous.upper() not in SYNCHRONOUS:
            raise InvalidInput(f"synchronous is one of {', '.join(SYNCHRONOUS)}, not {synchronous!r}")
        self.path = Path(path).resolve()
        self._options: dict[str, Any] = {"synchronous": synchronous, "busy_timeout": busy_timeout}
        self._connect = Connector(self.path, synchronous.upper(), busy_timeout)
        self._collections: dict[Kind[Any], SQLiteCollection[Any]] = {}
        self._partitions: dict[str, SQLiteStore] = {}  # files beside this one, by their names
        self._open_file: OpenFile | None = None
        self._opening = threading.Lock()
        for kind in kinds:
            self.main_collection(kind)

    async def open(self) -> None:
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        with self._opening:
            if self._open_file is None:
                tables = [collection.table for collection in self._collections.values()]
                self._open_file = OpenFile(self._connect, tables)

    async def close(self) -> None:
        for file in self._partitions.values():
            await file.close()
        opened, self._open_file = self._open_file, None
        if opened is not None and opened.pid == os.getpid():  # a fork's parent still works with it
            await opened.close()

    async def health(self) -> Health:
        try:
            problems = await self.open_file().look()
            size = f"{self.path}, {self.path.stat().st_size} bytes"
        except (StoreError, OSError) as problem:
            return Health("down", str(problem))
        return Health("degraded" if problems else "ok", "; ".join([*problems, size]))

    def collection(self, kind: Kind[T]) -> Collection[T]:
        if kind.partition is not None:
            return PartitionCollection(self._partition(kind.partition), kind)
        return self.main_collection(kind)

    def main_collection(self, kind: Kind[T]) -> SQLiteCollection[T]:
        """Return the records of one kind in this file itself."""
        if kind not in self._collections:
            self._collections[kind] = SQLiteCollection(self, kind)
        return self._collections[kind]

    def _partition(self, name: str) -> SQLiteStore:
        if name not in self._partitions:
            self._partitions[name] = SQLiteStore(partition_path(self.path, name), kinds=(), **self._options)
        return self._partitions[name]

    async def detach(self, kind: Kind[Any]) -> str:
        file = self._partition(kind.partition or "")
        await file.close()
        return str(file.path)

    async def attach(self, kind: Kind[Any]) -> None:
        path = self._partition(kind.partition or "").path
        if not await asyncio.to_thread(path.exists):
            raise StoreUnavailable(f"{path} is not there: put it back first")

    async def drop(self, kind: Kind[Any]) -> None:
        path = Path(await self.detach(kind))
        for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            await asyncio.to_thread(each.unlink, missing_ok=True)

    def open_file(self) -> OpenFile:
        """Return the open file. Raises StoreUnavailable before `open`, after `close`, and in a forked process."""
        if self._open_file is None:
            raise StoreUnavailable(f"{self.path} is not open")
        if self._open_file.pid != os.getpid():
            raise StoreUnavailable(
                f"{self.path} was opened by process {self._open_file.pid}; open a new store after a fork"
            )
        return self._open_file

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"


class OpenFile:
    """The connections and threads of an open store."""

    def __init__(self, connect: Connector, tables: Iterable[Table[Any]]) -> None:
        self.path = connect.path
        self.pid = os.getpid()
        if self.path in _open_in_parent:
            raise StoreUnavailable(
                f"{self.path} was open when this process was forked, and SQLite could lose what is written to it here: "
                "open it after the fork, or start processes by spawn"
            )
        # Nobody else counts from there: a version is never used again, whoever writes, and no row has to be bumped.
        self.versions = count(secrets.randbits(62))
        self._connections = Connections(connect, tables, readers=2 * READERS)
        self._writer = Writer(self._connections)
        # A record by its key is read at once, whatever queries others are waiting for.
        self._getters = ThreadPoolExecutor(READERS, f"getter of {self.path.name}")
        self._readers = ThreadPoolExecutor(READERS, f"reader of {self.path.name}")
        _open_files.add(self)

    def submit(self, call: WriteRequest) -> asyncio.Future[Missed]:
        """Hand the rows over. The answer comes when they are durable: outcomes of those not stored."""
        self._writer.submit(call)
        return call.answer

    def note_search(self) -> None:
        """Have texts indexed soon that a process has left without an entry."""
        self._writer.note_search()

    async def get(self, table: Table[Any], sql: Sql, make: Callable[[list[Any]], R]) -> R:
        """Return `make` of the rows of these keys, both done in a thread that reads nothing else."""
        return await self._in_thread(self._getters, self._select(table, sql, make))

    async def read(self, table: Table[Any], sql: Sql, make: Callable[[list[Any]], R]) -> R:
        """Return `make` of the rows found, both done in a reader's thread. Raises ReadTimeout."""
        return await self._in_thread(self._readers, self._select(table, sql, make))

    def _select(self, table: Table[Any], sql: Sql, make: Callable[[list[Any]], R]) -> Callable[[sqlite3.Connection], R]:
        def read(connection: sqlite3.Connection) -> R:
            self._connections.prepare(connection, table)  # of a kind that was not named when the store was opened
            start = time.monotonic()
            connection.set_progress_handler(lambda: time.monotonic() > start + READ_SECONDS, _CHECKED_EVERY)
            try:
                rows = connection.execute(*sql).fetchall()
            except sqlite3.OperationalError as problem:
                if problem.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                raise ReadTimeout(table.kind.name, READ_SECONDS) from None
            finally:
                connection.set_progress_handler(None, 0)
            if (seconds := time.monotonic() - start) > SLOW_SECONDS:
                log.warning("%.1f s for %s: %s", seconds, table.kind.name, sql.text)  # the text has no values in it
            return make(rows)

        return read

    async def look(self) -> list[str]:
        """Return what a person should know of the file. Raises StoreError unless it can be read."""
        await self._in_thread(self._getters, lambda connection: connection.execute("SELECT 1 FROM _kinds").fetchall())
        trouble = self._writer.trouble
        latest = None if trouble is None else f"the latest write failed: {trouble}"
        return [each for each in (latest, self._connections.warning) if each is not None]

    async def close(self) -> None:
        """Wait for all that was asked for, and let go of the file."""
        farewell = CloseRequest(self._close_connections)
        self._writer.submit(farewell)
        await farewell.answer
        _open_files.discard(self)

    async def _in_thread(self, threads: ThreadPoolExecutor, function: Callable[[sqlite3.Connection], R]) -> R:
        try:
            answer = asyncio.get_running_loop().run_in_executor(threads, self._connections.read, function)
        except RuntimeError:  # closed since the caller looked
            raise StoreUnavailable(f"{self.path} is closed") from None
        return await answer

    def _close_connections(self) -> None:
        self._readers.shutdown()
        self._getters.shutdown()
        self._connections.close()


_open_files: weakref.WeakSet[OpenFile] = weakref.WeakSet()
_open_in_parent: dict[Path, OpenFile] = {}  # and kept alive: closing its connections could harm the parent's file


def _after_fork() -> None:
    # SQLite knows by process who has locked what. In the child it takes the locks of the parent's connections for its
    # own: with the parent gone, others would reset the log that the child writes to; locks held at the fork stay held.
    _open_in_parent.update((each.path, each) for each in _open_files)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class SQLiteCollection(Generic[T]):
    """One kind of record, in a table of its own."""

    def __init__(self, store: SQLiteStore, kind: Kind[T]) -> None:
        self.kind = kind
        self.table = Table(kind)
        self._store = store

    async def write(self, records: Sequence[T]) -> list[Result[T]]:
        opened = self._store.open_file()
        numbers = list(islice(opened.versions, len(records)))
        call = WriteRequest(self.table)
        failed: Missed = {}
        if len(records) <= MANY:
            self._fill(call, records, numbers, failed)
        else:
            call.fill = partial(self._fill, call, records, numbers, failed)
        answer = opened.submit(call)
        # While the writer is at work:
        stored = [self.kind.versioned(record, (number,)) for record, number in zip(records, numbers, strict=True)]
        missed = await answer
        if not (missed or failed):
            return [*stored]
        missed = missed | failed
        return [missed.get(number, record) for number, record in zip(numbers, stored, strict=True)]

    async def remove(self, records: Sequence[T]) -> list[bool | StoreError]:
        opened = self._store.open_file()
        call = WriteRequest(self.table)
        call.removes = [[next(opened.versions), record.key, expected_version(record.version)] for record in records]
        missed = await opened.submit(call)
        return [row[0] not in missed for row in call.removes]

    async def get(self, keys: Sequence[str]) -> list[Result[T]]:
        sql = sqlite_sql.current(self.table, keys)
        return await self._store.open_file().get(self.table, sql, lambda rows: self._in_order(keys, rows))

    async def find(self, query: Query, after: Cursor | None = None) -> Page[T]:
        self.kind.check(query)
        opened, merged = self._store.open_file(), None
        few = await self._few_texts(query)
        if few is None and (column := column_to_merge(self.table, query)) is not None:
            values = await opened.read(self.table, values_of(self.table, column), list)
            merged = column, [value for (value,) in values]
        sql = sqlite_sql.select(self.table, query, None if after is None else after.after, merged, few)
        return await opened.read(self.table, sql, lambda rows: self._page(query, rows))

    async def tally(
        self, query: Query, by: Sequence[str] = (), *, sums: Sequence[str] = (), spans: Sequence[str] = ()
    ) -> Tally:
        self.kind.check_tally(query, by, sums, spans)
        sql = sqlite_sql.tally(self.table, query, by, sums, spans, await self._few_texts(query))
        return await self._store.open_file().read(self.table, sql, lambda rows: self._tally(rows, by, sums, spans))

    async def histogram(self, query: Query, buckets: Buckets) -> Histogram:
        self.kind.check_tally(query, (), (), (buckets.field,))
        sql = sqlite_sql.histogram(self.table, query, buckets, await self._few_texts(query))
        return await self._store.open_file().read(self.table, sql, buckets.fill)

    async def _few_texts(self, query: Query) -> Sql | None:
        """Return the rows that may have the texts that the query asks for, if they are few enough to be sorted."""
        if (few := sqlite_sql.few_texts(self.table, query)) is None:
            return None
        opened = self._store.open_file()
        opened.note_search()
        ((found,),) = await opened.read(self.table, Sql(self.table.texts.some, few.values), list)
        return few if found <= FEW else None

    def _fill(self, call: WriteRequest, records: Iterable[T], numbers: Iterable[int], failed: Missed) -> None:
        """Put the records into the call, under their numbers; `failed` takes those that cannot be encoded."""
        for record, number in zip(records, numbers, strict=True):
            try:
                row = self.table.row(record, number)
            except Exception as problem:  # its neighbours must not suffer
                failed[number] = ItemFailed(_name(record), f"it cannot be encoded: {problem}")
                continue
            if record.version is None:
                call.creates.append(row)
            else:
                row.append(expected_version(record.version))
                call.replaces.append(row)

    def _in_order(self, keys: Iterable[str], rows: Iterable[Sequence[Any]]) -> list[Result[T]]:
        found = {key: self.table.record(key, version, body) for key, version, body in rows}
        return [found.get(key) for key in keys]

    def _page(self, query: Query, rows: Sequence[Sequence[Any]]) -> Page[T]:
        fields = [self.kind.by_name[sort.field] for sort in query.sort]
        items: list[T] = []
        corrupt: list[StoreError] = []
        positions: list[tuple[Any, ...]] = []
        position: tuple[Any, ...] = ()
        for key, version, body, *values in rows[: query.limit]:
            record = self.table.record(key, version, body)
            position = (*map(term, fields, values), key)
            if isinstance(record, CorruptRecord):
                corrupt.append(record)
            else:
                items.append(record)
                positions.append(position)
        return Page(items, Cursor(position) if len(rows) > query.limit else None, positions, tuple(corrupt))

    def _tally(
        self, rows: Iterable[Sequence[Any]], by: Sequence[str], sums: Sequence[str], spans: Sequence[str]
    ) -> Tally:
        """Make a tally of rows: the values of `by`, the count, the sums, and two edges for each span."""
        groups, ranges = ([self.kind.by_name[name] for name in names] for names in (by, spans))
        place, edges = len(by), len(by) + 1 + len(sums)

        def as_cells(values: Sequence[Any]) -> dict[str, Any]:
            return {each.name: term(each, it) for each, it in zip(ranges, values, strict=True) if it is not None}

        return Tally(
            {
                tuple(map(term, groups, row)): Cell(
                    row[place],
                    {name: total or 0 for name, total in zip(sums, row[place + 1 : edges], strict=True)},
                    as_cells(row[edges::2]),
                    as_cells(row[edges + 1 :: 2]),
                )
                for row in rows
                if row[place]
            }
        )


def _name(record: Any) -> str:
    """Return a name for a record of which even the key may be broken."""
    try:
        return str(record.key)
    except Exception:
        return repr(record)[:80]

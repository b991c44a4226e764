"""The SQLite file: creating, inspecting and upgrading it; and its connections, one of which writes."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from mahavishnu.model.errors import CorruptRecord, StoreCorrupt, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.stores import base as schema
from mahavishnu.stores.sqlite.table import Table, bindable_or_none, has_term, late_value, quote

APPLICATION_ID = 0x4D564451  # "MVDQ": marks the file as ours; its `user_version` is the schema number
_DEVELOPMENT_ID = 0x4D56444C  # "MVDL": of versions before 0.1.0, whose `user_version` says nothing
PAGE_SIZE = 8192  # a letter is about 2 KB: of 4 KB pages, a third stayed empty
CACHE_KIB = 16_000
OLDEST_SQLITE = (3, 35)
_DERIVED_AT_ONCE = 500
_LOG, _MEMORY = "-wal", "-shm"  # beside the file, while a process has it open
_READ_UNSEEN_SECONDS = 0.1  # for which reads go on without a look at the names
_TICK_SECONDS = 0.05  # more than a file system's clock takes to its next instant
_Place: TypeAlias = "tuple[int, int] | None"  # of a file: device and inode
R = TypeVar("R")
log = logging.getLogger(__name__)


class Connector:
    """Makes the connections to one file, all with the same settings."""

    def __init__(self, path: Path, synchronous: str, busy_timeout: timedelta) -> None:
        self.path = path
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout

    def __call__(self) -> sqlite3.Connection:
        """Open a connection that begins no transactions of its own, and that does not make a missing file."""
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            timeout=self._busy_timeout.total_seconds(),
            isolation_level=None,
            check_same_thread=False,  # each is used by one thread, but closed by another one
        )
        try:
            for name, value in (
                ("synchronous", self._synchronous),
                ("cache_size", -CACHE_KIB),
                ("secure_delete", "FAST"),  # what is removed is overwritten where that needs no further page
                ("journal_size_limit", 64 * 1024 * 1024),
            ):
                connection.execute(f"PRAGMA {name} = {value}")
            connection.create_function("has_term", 4, has_term)
            connection.create_function("late_value", 3, late_value)
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreMisconfigured(f"{self.path}: no write-ahead log is possible there (journal mode {mode})")
        except BaseException:
            connection.close()
            raise
        return connection


def provide(path: Path) -> None:
    """Make or check the file. Raises StoreMisconfigured, StoreUnavailable, StoreCorrupt and IncompatibleStore."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreMisconfigured(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _create(path)
    except OSError as problem:
        kind = StoreUnavailable if problem.errno in (errno.ENOSPC, errno.EDQUOT) else StoreMisconfigured
        raise kind(f"{path} cannot be made: {problem}") from problem
    if not path.is_file():
        raise StoreMisconfigured(f"{path} is not a file")
    for place in (path, path.parent):
        if not os.access(place, os.R_OK | os.W_OK):
            raise StoreMisconfigured(f"{place} may not be read and written by this process")
    _inspect(path)


def _create(path: Path) -> None:
    """Make the file aside and link it to its name: other processes see all of it or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {schema.SCHEMA}")
            connection.execute('CREATE TABLE "_kinds" (kind TEXT NOT NULL PRIMARY KEY, format TEXT NOT NULL)')
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        with suppress(FileExistsError):  # another process was quicker, and its file is as good
            _link(draft, path)
        _sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _link(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: claim the name, then replace the claim
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        draft.replace(path)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _inspect(path: Path) -> None:
    """Raise StoreCorrupt for a file that is torn or foreign, and IncompatibleStore for one that cannot be upgraded.

    Nothing is written, and no lock is lost: SQLite does the reading, because closing a handle of our own would drop the
    locks of this process's other connections.
    """
    size, log = path.stat().st_size, Path(f"{path}-wal")
    if size == 0:
        raise StoreCorrupt(
            f"{path} is empty: what it held is lost, or it was never a store. Remove it to start with an empty one"
        )
    torn = _look(path, "mode=ro&immutable=1", _whole_pages(size))  # as if there were no log
    if torn and log.exists() and log.stat().st_size > 0:  # perhaps a checkpoint was cut off, and the log has the rest
        torn = _look(path, "mode=ro", _integrity_problem)
    if torn:
        raise StoreCorrupt(f"{path} is torn ({torn}); it was left as it is")


def _look(path: Path, mode: str, check: Callable[[sqlite3.Connection], str | None]) -> str | None:
    """Return what `check` finds torn. Raises StoreCorrupt for a file that is not ours, and IncompatibleStore."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (number,) = connection.execute("PRAGMA user_version").fetchone()
            found = check(connection)
    except sqlite3.DatabaseError as problem:
        if _code(problem) == sqlite3.SQLITE_CORRUPT:
            return str(problem)
        if _code(problem) == sqlite3.SQLITE_NOTADB:
            raise StoreCorrupt(f"{path} is no SQLite database; it was left as it is") from None
        raise
    if application not in (APPLICATION_ID, _DEVELOPMENT_ID):
        raise StoreCorrupt(f"{path} is the SQLite database of another program; it was left as it is")
    _upgrades(number if application == APPLICATION_ID else schema.UNNUMBERED, path)
    return found


def _whole_pages(size: int) -> Callable[[sqlite3.Connection], str | None]:
    def check(connection: sqlite3.Connection) -> str | None:
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        return f"its last page is cut off after {size % page_size} bytes" if size % page_size else None

    return check


def _integrity_problem(connection: sqlite3.Connection) -> str | None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if found == "ok" else str(found)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, with the write lock from the start."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: sqlite3.Connection) -> None:
    """Undo what is not committed; after some errors SQLite has done so already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to the present schema number, if it has not got it. Raises IncompatibleStore."""
    if not _upgrades(_number(connection), path):
        return
    with transaction(connection):
        for step in _upgrades(_number(connection), path):  # perhaps another process has just done it
            step.file(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # older code looks at the file first


def _upgrades(number: int, path: Path) -> list[schema.Upgrade]:
    return schema.upgrades_from(number, str(path), f"sqlite:///{path}")


def _number(connection: sqlite3.Connection) -> int:
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        return schema.UNNUMBERED
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    return int(number)


def prepare(connection: sqlite3.Connection, table: Table[Any]) -> None:
    """Make the table with exactly its indexes; derive columns of another version again from the bodies."""
    known = "SELECT format FROM _kinds WHERE kind = ?"
    if connection.execute(known, (table.kind.name,)).fetchone() != (table.format,):
        with transaction(connection):
            found = connection.execute(known, (table.kind.name,)).fetchone()  # perhaps another process has just done it
            if found != (table.format,):
                if found is not None:
                    _copy(connection, table)
                    _derive(connection, table)
                for statement in table.create:
                    connection.execute(statement)
                connection.execute("INSERT OR REPLACE INTO _kinds VALUES (?, ?)", (table.kind.name, table.format))
    for index in table.indexes.values():
        connection.execute(index)
    if table.texts.is_there:  # the file may have been made where it could not be
        connection.execute(table.texts.create_index)
    # What another version declared would cost every write, and be asked by no query.
    of_table = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
    for (name,) in connection.execute(of_table, (table.kind.name,)).fetchall():
        if name not in table.indexes and name.startswith(f"{table.kind.name}."):
            connection.execute(f"DROP INDEX IF EXISTS {quote(name)}")


def _copy(connection: sqlite3.Connection, table: Table[Any]) -> None:
    """Give the table exactly its columns, and keep the indexes of strangers."""
    of_table = (
        "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL AND name NOT LIKE ?"
    )
    others = connection.execute(of_table, (table.kind.name, f"{table.kind.name}.%")).fetchall()
    present = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table.name})")}
    for statement in table.copy(present):
        connection.execute(statement)
    for (index,) in others:
        with suppress(sqlite3.OperationalError):  # of a column that is not there any more
            connection.execute(index)


def _derive(connection: sqlite3.Connection, table: Table[Any]) -> None:
    last = -(2**63)
    while rows := connection.execute(table.rows_after, (last, _DERIVED_AT_ONCE)).fetchall():
        for rowid, key, version, body in rows:
            record = table.record(key, version, body)
            if not isinstance(record, CorruptRecord):
                connection.execute(table.derive, (*map(bindable_or_none, table.terms(record)), rowid))
        last = rows[-1][0]


def _code(problem: sqlite3.Error) -> int | None:
    code: int | None = getattr(problem, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF  # without the details


_UNUSABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA)
_WORDS = {
    sqlite3.SQLITE_BUSY: "another process holds the write lock for too long",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it has become read-only",
}


def translate_error(problem: sqlite3.Error, path: Path, *, committing: bool = False) -> StoreError:
    """Return an SQLite error as one of the store: corrupt or unavailable. An unsynced commit may be on the disk."""
    code = _code(problem)
    if code in _UNUSABLE:
        return StoreCorrupt(f"{path} is damaged or was changed by another program: {problem}")
    words = _WORDS.get(code or 0, "it cannot be used now")
    return StoreUnavailable(f"{path}: {words} ({problem})", maybe_written=committing and code == sqlite3.SQLITE_IOERR)


class FileReplaced(StoreUnavailable):
    """The file, or its log, was moved, replaced or deleted while it was open."""


class Connections:
    """Opens connections, prepares tables, and reopens lost files, with a `warning`. Writers hold `changing`."""

    def __init__(self, connect: Connector, tables: Iterable[Table[Any]], readers: int) -> None:
        self.path = connect.path
        self.changing = threading.Lock()
        self.warning: str | None = None
        self._connect = connect
        self._names = (str(self.path), f"{self.path}{_LOG}", f"{self.path}{_MEMORY}")
        self._tables = {table.format: table for table in tables}
        self._own = threading.local()
        self._generation = 0  # of the connections that read
        self._reading: list[sqlite3.Connection] = []
        self._readers = readers  # so many threads may read at once
        self._permits = threading.Semaphore(readers)
        self._writing: sqlite3.Connection | None = None
        self._places: tuple[_Place, ...] = ()  # of the files that are open
        self._folder = str(self.path.parent)
        self._folder_state: tuple[int, ...] = ()
        self._folder_since = 0.0  # when this state of the folder was first seen, on the monotonic clock
        self._calm = False  # True if the names have been looked at in this state, and any change would give another one
        self._checked = 0.0  # when they were last seen to have the names, on the monotonic clock
        self._log = -1  # a handle of the log, which tells its size when it has no name any more
        try:
            self.open()
        except sqlite3.Error as problem:
            raise translate_error(problem, self.path) from problem

    def open(self) -> None:
        """Open the file that has the name, which is made if there is none; nothing if a file is open."""
        if self._writing is not None:
            return
        provide(self.path)
        place = _place(self._names[0])  # before it is opened: if it is replaced meanwhile, that is noticed later
        connection = self._connect()
        try:
            upgrade(connection, self.path)
            for table in self._tables.values():
                prepare(connection, table)
            self._log = os.open(self._names[1], os.O_RDONLY)
        except BaseException:
            connection.close()
            raise
        self._writing, self._places, self._calm = connection, (place, *self._find_places()[1:]), False

    @property
    def writing(self) -> sqlite3.Connection:
        """The connection that writes, to use while holding `changing`. Raises FileReplaced where there is none."""
        if self._writing is None:
            raise self._file_replaced()
        return self._writing

    def knows(self, table: Table[Any]) -> bool:
        """Return True if the table is prepared."""
        return table.format in self._tables

    def text_tables(self) -> list[Table[Any]]:
        """The prepared tables whose texts can be indexed here."""
        return [table for table in [*self._tables.values()] if table.texts.is_there]

    def prepare(self, connection: sqlite3.Connection, table: Table[Any]) -> None:
        """Prepare the table, if that was not done."""
        if table.format not in self._tables:
            prepare(connection, table)
            self._tables[table.format] = table

    def check(self) -> None:
        """Raise FileReplaced unless open files still have the names, mostly by a quick look at their folder's date."""
        state, now = _folder_state(self._folder), time.monotonic()
        if state != self._folder_state:
            self._folder_state, self._folder_since, self._calm = state, now, False
        if not self._calm:
            if self._find_places() != self._places:
                self._checked = 0.0
                raise self._file_replaced()
            self._calm = bool(state) and now - self._folder_since > _TICK_SECONDS
        self._checked = now

    def read(self, function: Callable[[sqlite3.Connection], R]) -> R:
        """Return `function` of this thread's connection. Raises StoreUnavailable and StoreCorrupt."""
        try:
            try:
                return self._read(function)
            except FileReplaced:
                with self.changing:
                    self.renew()
                return self._read(function)
        except sqlite3.Error as problem:
            raise translate_error(problem, self.path) from problem

    def renew(self) -> None:
        """Open the file that has the name now; the caller holds `changing`. Raises StoreUnavailable, and as `open`."""
        now, before = self._find_places(), self._places
        if now == before:
            return
        with self._without_readers():
            if self._writing is not None:
                roll_back(self._writing)
                if now[0] == before[0]:
                    self._bring_home(now)
                else:
                    with suppress(sqlite3.Error):  # it may be elsewhere now, and somebody may want all that was in it
                        self._empty_log()
                self._close_all()
                if now[0] != before[0]:
                    self._remove_log(before)
                    self.warning = f"{self.path} was replaced while it was open: what was in it before is not there now"
                    log.error("%s; from now on the file that has the name is used", self.warning)
            self.open()

    def close(self) -> None:
        """Let go of the file. The writing connection goes last: then SQLite empties the log."""
        with self._without_readers():
            if self._writing is None:
                return
            if self._is_log_foreign(self._find_places()):
                _keep_open(self._writing)
            else:
                self._close_all()

    def _bring_home(self, now: tuple[_Place, ...]) -> None:
        """Empty a log that has no name any more into the file. Not beside the log of others: both would be spoiled."""
        if os.fstat(self._log).st_size == 0:
            return
        if self._is_log_foreign(now):
            raise StoreUnavailable(
                f"the log of {self.path} was removed while it was open, and another process writes a new one: "
                f"start this process anew, and import what is missing from {self._copy()}, which has all it knew"
            )
        if not self._empty_log():
            raise StoreUnavailable(f"the log of {self.path} was removed while it was open, and others read from it")
        log.error("the log of %s was removed while it was open; what was in it is in the file now", self.path)

    def _copy(self) -> Path:
        """Copy the file with the log that has no name any more, once."""
        copy = self.path.with_name(f"{self.path.name}.rescued-{os.getpid()}")
        with suppress(FileExistsError):
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL, 0o600))
            self.writing.execute("VACUUM INTO ?", (str(copy),))
        return copy

    def _is_log_foreign(self, now: tuple[_Place, ...]) -> bool:
        return any(place not in (None, ours) for place, ours in zip(now[1:], self._places[1:], strict=True))

    def _empty_log(self) -> bool:
        (busy, *_) = self.writing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def _close_all(self) -> None:
        os.close(self._log)
        with _keep_log(Path(self._names[1]), self._places[1]):
            for each in (*self._reading, self.writing):
                each.close()
        self._reading.clear()
        self._generation += 1
        self._writing, self._places, self._checked = None, (), 0.0

    def _remove_log(self, places: tuple[_Place, ...]) -> None:
        """Remove the log of the file that had the name: SQLite would take it for the log of the one that has it."""
        for name, place in zip(self._names[1:], places[1:], strict=True):
            if _place(name) == place:
                Path(name).unlink(missing_ok=True)

    @contextmanager
    def _without_readers(self) -> Iterator[None]:
        with ExitStack() as permits:
            for _ in range(self._readers):
                permits.enter_context(self._permits)
            yield

    def _read(self, function: Callable[[sqlite3.Connection], R]) -> R:
        with self._permits:
            own = self._own
            fresh = getattr(own, "generation", None) != self._generation
            if fresh or time.monotonic() - self._checked > _READ_UNSEEN_SECONDS:
                self.check()
            if fresh:
                own.connection, own.generation = self._connect(), self._generation
                self._reading.append(own.connection)
            return function(own.connection)

    def _find_places(self) -> tuple[_Place, ...]:
        """Return the places that have the names now: of the file, of its log, and of its shared memory."""
        file, log_file, memory = self._names
        return _place(file), _place(log_file), _place(memory)

    def _file_replaced(self) -> FileReplaced:
        return FileReplaced(f"{self.path} was moved, replaced or deleted while it was open")


def _place(name: str) -> _Place:
    try:
        found = os.stat(name)  # noqa: PTH116 - it is asked often, and by a path it takes three times as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _folder_state(name: str) -> tuple[int, ...]:
    """Return a value that changes with each name in a folder; nothing if it cannot be seen."""
    try:
        found = os.stat(name)  # noqa: PTH116 - as above
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _keep_open(connection: sqlite3.Connection) -> None:
    """Keep a connection open until the process is gone, with no look at what the interpreter cleans up before.

    If it were collected as garbage, SQLite would empty our log into the file beside the log of others, and delete that.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


@contextmanager
def _keep_log(log_file: Path, ours: _Place) -> Iterator[None]:
    """Keep a log that is not ours: closing the last connection, SQLite deletes whatever has the name of the log."""
    if _place(str(log_file)) in (None, ours):
        yield
        return
    spare = log_file.with_name(f".{log_file.name}.{os.getpid()}")
    os.link(log_file, spare)
    try:
        yield
    finally:
        with suppress(FileExistsError):
            os.link(spare, log_file)
        spare.unlink()

"""The connections to one file: one that writes, and one for each thread that reads.

People move, replace and delete files that are open. SQLite would go on with a file that nobody sees any more, or write
into a log that the next process does not know. So it is looked at before and after each commit, and before reads,
whether the files that are open are those that have the names; if not, all connections are closed, and opened anew.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.stores.sqlite.file import Connector, prepare, provide, roll_back, translate_error, upgrade
from mahavishnu.stores.sqlite.table import Table

log = logging.getLogger(__name__)
R = TypeVar("R")
_Place: TypeAlias = "tuple[int, int] | None"  # of a file: device and inode
_LOG, _MEMORY = "-wal", "-shm"  # beside the file, while somebody has it open
_READ_UNSEEN_SECONDS = 0.1  # for which reads go on without a look at the names
_TICK_SECONDS = 0.05  # more than a file system's clock takes to its next instant


class FileReplaced(StoreUnavailable):
    """The file, or its log, was moved, replaced or deleted while it was open."""


class Connections:
    """Opens the connections, prepares the tables, and opens all anew where the name stands for another file.

    Who writes holds `changing`. `warning` says that a file was lost sight of in that way.
    """

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
        self._writing, self._places, self._calm = connection, (place, *self._found()[1:]), False

    @property
    def writing(self) -> sqlite3.Connection:
        """The connection that writes, for who holds `changing`. Raises FileReplaced where there is none."""
        if self._writing is None:
            raise self._replaced()
        return self._writing

    def knows(self, table: Table[Any]) -> bool:
        """Whether the table is prepared."""
        return table.format in self._tables

    def prepare(self, connection: sqlite3.Connection, table: Table[Any]) -> None:
        """Prepare the table, if that was not done."""
        if table.format not in self._tables:
            prepare(connection, table)
            self._tables[table.format] = table

    def check(self) -> None:
        """Raise FileReplaced unless the files that are open are those that have the names.

        Mostly a look at their folder says so, in a third of the time: what is done to a name in it changes its date.
        """
        state, now = _folder_state(self._folder), time.monotonic()
        if state != self._folder_state:
            self._folder_state, self._folder_since, self._calm = state, now, False
        if not self._calm:
            if self._found() != self._places:
                self._checked = 0.0
                raise self._replaced()
            self._calm = bool(state) and now - self._folder_since > _TICK_SECONDS
        self._checked = now

    def read(self, function: Callable[[sqlite3.Connection], R]) -> R:
        """What `function` makes of this thread's connection. Raises StoreUnavailable and StoreCorrupt."""
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
        """Open the file that has the name now, for who holds `changing`; nothing if that is open.

        Raises StoreUnavailable where it cannot be done without harm, and what `open` raises.
        """
        now, before = self._found(), self._places
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
            if self._is_log_foreign(self._found()):
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
        """A copy of the file with the log that has no name any more; it is made once."""
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
        with _kept(Path(self._names[1]), self._places[1]):
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

    def _found(self) -> tuple[_Place, ...]:
        """What has the names now: of the file, of its log, and of the memory that its users share."""
        file, log_file, memory = self._names
        return _place(file), _place(log_file), _place(memory)

    def _replaced(self) -> FileReplaced:
        return FileReplaced(f"{self.path} was moved, replaced or deleted while it was open")


def _place(name: str) -> _Place:
    try:
        found = os.stat(name)  # noqa: PTH116 - it is asked often, and by a path it takes three times as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _folder_state(name: str) -> tuple[int, ...]:
    """What changes with each name in a folder; nothing if it cannot be seen."""
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
def _kept(log_file: Path, ours: _Place) -> Iterator[None]:
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

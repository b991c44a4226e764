"""Group commit on one thread: all writes that wait go into one transaction, and their callers continue together."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from itertools import compress, count, groupby, islice
from math import inf
from operator import ne
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from mahavishnu.model.errors import ItemFailed, StoreCorrupt, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.stores.sqlite.connections import Connections, FileReplaced, roll_back, translate_error
from mahavishnu.stores.sqlite.table import Row, Table
from mahavishnu.stores.sqlite.texts import AT_ONCE

log = logging.getLogger(__name__)
MOST_ROWS = 4000  # in one transaction: others may want to write, and callers wait for their answer
LAG_SECONDS = 2.0  # before a row is indexed: until then it may change again
PAUSE_SECONDS = 0.2  # without writes
MOST_UNINDEXED = 20_000  # rows that wait while there is no pause between writes
_KNOWN = 5000  # rows
_ITEM_PROBLEMS = (  # one row cannot be bound or is too big: nothing is wrong with the store
    ValueError,  # a lone surrogate
    OverflowError,
    TypeError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
)
_OF_THE_FILE = (StoreUnavailable, StoreCorrupt, StoreMisconfigured)  # problems of all rows

Missed: TypeAlias = "dict[int, ItemFailed | None]"


@dataclass(slots=True)
class WriteRequest:
    """The rows of one call. Each begins with a number by which the answer names it: its new version, or a ticket.

    `creates` are rows for `insert`; `replaces` and `removes` have the expected version last. `fill` makes the rows in
    the writer's thread, where they are many.
    """

    table: Table[Any]
    creates: list[Row] = field(default_factory=list)
    replaces: list[Row] = field(default_factory=list)
    removes: list[Row] = field(default_factory=list)
    fill: Callable[[], None] | None = None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    answer: asyncio.Future[Missed] = field(init=False)

    def __post_init__(self) -> None:
        self.answer = self.loop.create_future()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.creates) + len(self.replaces) + len(self.removes)


@dataclass(slots=True)
class CloseRequest:
    """The writer's last work, after everything that was asked for before it."""

    work: Callable[[], None]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    answer: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self.answer = self.loop.create_future()


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


class Writer:
    """Owns the writing connection and its thread, for any event loop. `trouble`: why the latest write failed."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._path = connections.path
        self.trouble: StoreError | None = None
        self._gathered: dict[asyncio.AbstractEventLoop, list[WriteRequest | CloseRequest]] = {}
        self._waiting: SimpleQueue[list[WriteRequest | CloseRequest]] = SimpleQueue()
        self._upkeep = Upkeep()
        self._known: dict[int, Row] = {}  # the columns of rows written last, by version: it proves what is stored
        self._taken: deque[WriteRequest | CloseRequest] = deque()
        self._closing = self._committing = False
        self._lock = threading.Lock()
        # A daemon: a program that forgets to close the store can end, and what it was told is stored, is stored.
        threading.Thread(target=self._run, name=f"writer of {self._path.name}", daemon=True).start()

    def submit(self, work: WriteRequest | CloseRequest) -> None:
        """Queue it for the thread; its `answer` gets the result. Raises StoreUnavailable once closing has begun.

        All work of one round of the event loop is handed over together: waking the thread for each would cost more than
        writing it.
        """
        with self._lock:
            if self._closing:
                raise StoreUnavailable(f"{self._path} is closed")
            self._closing = isinstance(work, CloseRequest)
            gathered = self._gathered.setdefault(work.loop, [])
            gathered.append(work)
        if isinstance(work, CloseRequest):  # after everything that others have asked for
            for loop in [*(each for each in self._gathered if each is not work.loop), work.loop]:
                self._hand_over(loop)
        elif len(gathered) == 1:
            work.loop.call_soon(self._hand_over, work.loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            gathered = self._gathered.pop(loop, [])
            if gathered:
                self._waiting.put(gathered)

    def _run(self) -> None:
        while True:
            if not self._taken:
                self._taken.extend(self._wait())
            work = self._taken.popleft()
            if isinstance(work, CloseRequest):
                return self._close(work)
            with self._connections.changing:
                try:
                    self._make_ready(work)
                except Exception as problem:
                    self._refuse([work], problem)
                else:
                    self._write([work, *self._take_waiting(MOST_ROWS - work.rows)])
            self._upkeep.note()
            if self._upkeep.is_due():
                self._index_texts(is_busy=True)

    def note_search(self) -> None:
        """Have texts indexed soon, if another process has left some."""
        self._upkeep.note()
        self._waiting.put([])

    def _wait(self) -> list[WriteRequest | CloseRequest]:
        """Wait for work; meanwhile, index texts."""
        while True:
            with suppress(Empty):
                if found := self._waiting.get(timeout=self._upkeep.seconds()):
                    return found
                continue
            self._index_texts(is_busy=False)

    def _index_texts(self, *, is_busy: bool) -> None:
        with self._connections.changing:
            try:
                self._connections.open()
                tables = self._connections.text_tables()
                self._upkeep.run(self._connections.writing, tables, self._begin, self._commit, is_busy=is_busy)
            except Exception as problem:  # until then, searches read the documents
                log.warning("texts of %s are indexed later: %s", self._path, problem)
                self._committing = False
                with suppress(sqlite3.Error, FileReplaced):
                    roll_back(self._connections.writing)

    def _make_ready(self, call: WriteRequest) -> None:
        self._connections.open()
        if not self._connections.knows(call.table):
            self._connections.prepare(self._connections.writing, call.table)
        if call.fill is not None:
            call.fill()

    def _take_waiting(self, room: int) -> list[WriteRequest]:
        """Take the calls that wait, as many as fit, up to the first that needs preparation or closes the store."""
        calls: list[WriteRequest] = []
        while room > 0:
            if not self._taken:
                try:
                    self._taken.extend(self._waiting.get_nowait())
                except Empty:
                    break
                continue
            work = self._taken[0]
            if not (isinstance(work, WriteRequest) and work.fill is None and self._connections.knows(work.table)):
                break
            calls.append(work)
            room -= work.rows
            self._taken.popleft()
        return calls

    def _close(self, farewell: CloseRequest) -> None:
        problem: Exception | None = None
        try:
            farewell.work()
        except sqlite3.Error as error:
            problem = translate_error(error, self._path)
        except Exception as error:
            problem = error
        _deliver_answers([(farewell, None, problem)])

    def _write(self, calls: list[WriteRequest]) -> None:
        try:
            try:
                missed = self._attempt(calls)
            except FileReplaced:
                self._connections.renew()
                missed = self._attempt(calls)  # versions are never used again: what is stored already stays stored
        except Exception as problem:
            self._refuse(calls, problem)
        else:
            self.trouble = None
            _deliver_answers([(call, missed, None) for call in calls])

    def _attempt(self, calls: list[WriteRequest]) -> Missed:
        try:
            return self._all_at_once(calls)
        except _ITEM_PROBLEMS:
            return self._one_by_one(calls)

    def _all_at_once(self, calls: list[WriteRequest]) -> Missed:
        """Write all in one transaction; calls that come meanwhile are added to `calls`."""
        missed: Missed = {}
        connection = self._begin()
        fresh = calls
        while fresh:
            for table, group in _by_table(fresh):
                self._execute(table, table.insert, [row for call in group for row in call.creates], missed)
                for call in group:
                    self._mark(table, [row[-2] for row in (*call.replaces, *call.removes)])
                for statement, rows in self._updates(table, [row for call in group for row in call.replaces]):
                    self._execute(table, statement, rows, missed, key=-2)
                for ticket, *row in (row for call in group for row in call.removes):
                    if not connection.execute(table.delete, row).rowcount:
                        missed[ticket] = None
            fresh = self._take_waiting(MOST_ROWS - sum(call.rows for call in calls))
            calls += fresh
        self._commit()
        self._note_rows(calls, missed)
        return missed

    def _mark(self, table: Table[Any], keys: Sequence[str]) -> None:
        """Note that the texts of these rows change. A trigger would make each update slower."""
        if keys and table.texts.fields:
            self._connections.writing.executemany(table.texts.mark, [(key,) for key in keys])

    def _updates(self, table: Table[Any], rows: list[Row]) -> Iterable[tuple[str, Sequence[Sequence[Any]]]]:
        """Return the statements that write the rows, and their values: of known rows only what has changed."""

        def changed_places(row: Row) -> tuple[int, ...]:
            known = self._known.get(row[-1])
            return () if known is None else (*compress(count(), map(ne, row, known)), len(known))  # and the body

        for places, group in groupby(rows, changed_places):  # in their order: the first one wins
            statement, values = table.update_of(places) if places else (table.update, tuple)
            yield statement, [values(row) for row in group]

    def _note_rows(self, calls: list[WriteRequest], missed: Missed) -> None:
        for call in calls:
            end = len(call.table.fields) + 1
            self._known.update((row[0], row[:end]) for row in (*call.creates, *call.replaces) if row[0] not in missed)
            for row in call.replaces:
                self._known.pop(row[-1], None)
        for version in [*islice(self._known, max(0, len(self._known) - _KNOWN))]:
            del self._known[version]

    def _execute(
        self, table: Table[Any], statement: str, rows: Sequence[Sequence[Any]], missed: Missed, key: int = -1
    ) -> None:
        connection = self._connections.writing
        if rows and connection.executemany(statement, rows).rowcount != len(rows):
            for row in rows:  # versions are unique: the one that is there now tells who was first
                (now,) = connection.execute(table.version_of, (row[key],)).fetchone() or (None,)
                if now != row[0]:
                    missed[row[0]] = None

    def _one_by_one(self, calls: list[WriteRequest]) -> Missed:
        """Write all where some row cannot be bound: its neighbours must not suffer."""
        missed: Missed = {}
        connection = self._begin()
        for call in calls:
            for row in (*call.replaces, *call.removes):
                with suppress(*_ITEM_PROBLEMS):
                    self._mark(call.table, [row[-2]])
            for statement, rows in ((call.table.insert, call.creates), (call.table.update, call.replaces)):
                for row in rows:
                    stored = self._single(call.table, statement, row)
                    if stored is not True:
                        missed[row[0]] = stored or None
            for ticket, *row in call.removes:
                with suppress(*_ITEM_PROBLEMS):  # a key that cannot be bound is the key of nothing
                    if connection.execute(call.table.delete, row).rowcount:
                        continue
                missed[ticket] = None
        self._commit()
        return missed

    def _single(self, table: Table[Any], statement: str, row: Row) -> bool | ItemFailed:
        for attempt in (row, table.without_unbindable(row)):
            try:
                return self._connections.writing.execute(statement, attempt).rowcount == 1
            except _ITEM_PROBLEMS as problem:
                failure = ItemFailed(table.key(row), str(problem))
        return failure

    def _begin(self) -> sqlite3.Connection:
        connection = self._connections.writing
        roll_back(connection)
        connection.execute("BEGIN IMMEDIATE")
        return connection

    def _commit(self) -> None:
        self._connections.check()  # before it may spoil the file of others
        self._committing = True
        self._connections.writing.execute("COMMIT")
        self._committing = False
        self._connections.check()  # else what is acknowledged might be in a file without a name

    def _refuse(self, calls: list[WriteRequest], problem: Exception) -> None:
        """Undo the transaction and give all calls the problem. If COMMIT failed, the rows may surface after a crash."""
        committing, self._committing = self._committing, False
        if isinstance(problem, sqlite3.Error):
            problem = translate_error(problem, self._path, committing=committing)
        with suppress(sqlite3.Error, FileReplaced):  # what cannot be undone now is undone before the next transaction
            roll_back(self._connections.writing)
        if isinstance(problem, _OF_THE_FILE):
            self.trouble = problem  # a copy for each: they are raised in different tasks
            _deliver_answers([(call, None, copy(problem)) for call in calls])
        else:
            _deliver_answers([(call, None, problem) for call in calls])


def _by_table(calls: list[WriteRequest]) -> Iterable[tuple[Table[Any], list[WriteRequest]]]:
    groups: dict[int, list[WriteRequest]] = {}
    for call in calls:
        groups.setdefault(id(call.table), []).append(call)
    return [(group[0].table, group) for group in groups.values()]


_Answer: TypeAlias = "tuple[WriteRequest | CloseRequest, Any, Exception | None]"


def _deliver_answers(answers: list[_Answer]) -> None:
    """Hand the answers to the event loops that wait for them, with one call for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].loop, []).append(answer)
    for loop, own in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(answers: list[_Answer]) -> None:
    for work, result, problem in answers:
        if not work.answer.done():  # else the caller was cancelled; what was written stays written
            if problem is None:
                work.answer.set_result(result)
            else:
                work.answer.set_exception(problem)

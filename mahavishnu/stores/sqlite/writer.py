"""Group commit on one thread: all writes that wait go into one transaction, and their callers continue together."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from itertools import compress, count, groupby, islice, repeat
from math import inf
from operator import ne
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from mahavishnu.model.errors import ItemFailed, StoreCorrupt, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.stores.sqlite.connections import (
    Connections,
    FileReplaced,
    forget_counters,
    is_counted,
    roll_back,
    translate_error,
)
from mahavishnu.stores.sqlite.counters import MINUTE, NONE, STEPS, CountedTable, Shape
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
_MOST_KNOWN = 10_000  # records whose counted values are remembered until they change
_Values: TypeAlias = "tuple[Any, ...]"
_Counted: TypeAlias = "tuple[int, _Values]"  # of a record: the number of what is counted, and what has spans


@dataclass(slots=True)
class WriteRequest:
    """The rows of one call. Each begins with a number by which the answer names it: its new version, or a ticket.

    `creates` are rows for `insert`; `replaces` and `removes` have the expected version last. `fill` makes the rows in
    the writer's thread, where they are many. `more` is done with the counters after all rows.
    """

    table: CountedTable[Any]
    creates: list[Row] = field(default_factory=list)
    replaces: list[Row] = field(default_factory=list)
    removes: list[Row] = field(default_factory=list)
    more: Callable[[sqlite3.Connection], object] | None = None
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
        self._counters = Changes()
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
                creates = [row for call in group for row in call.creates]
                replaces = [row for call in group for row in call.replaces]
                before = self._counters.before(connection, table, replaces)
                self._execute(table, table.insert, creates, missed)
                self._mark(table, [row[-2] for call in group for row in (*call.replaces, *call.removes)])
                for statement, rows in self._updates(table, replaces):
                    self._execute(table, statement, rows, missed, key=-2)
                self._counters.note(table, creates, (), missed)
                self._counters.note(table, replaces, before, missed)
                for ticket, *row in (row for call in group for row in call.removes):
                    if not self._remove(table, row):
                        missed[ticket] = None
                self._do_more(group)
            fresh = self._take_waiting(MOST_ROWS - sum(call.rows for call in calls))
            calls += fresh
        self._commit()
        self._note_rows(calls, missed)
        return missed

    def _mark(self, table: CountedTable[Any], keys: Sequence[str]) -> None:
        """Note that the texts of these rows change. A trigger would make each update slower."""
        if keys and table.texts.fields:
            self._connections.writing.executemany(table.texts.mark, [(key,) for key in keys])

    def _updates(self, table: CountedTable[Any], rows: list[Row]) -> Iterable[tuple[str, Sequence[Sequence[Any]]]]:
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
        self, table: CountedTable[Any], statement: str, rows: Sequence[Sequence[Any]], missed: Missed, key: int = -1
    ) -> None:
        connection = self._connections.writing
        if rows and connection.executemany(statement, rows).rowcount != len(rows):
            for row in rows:  # versions are unique: the one that is there now tells who was first
                (now,) = connection.execute(table.version_of, (row[key],)).fetchone() or (None,)
                if now != row[0]:
                    missed[row[0]] = None

    def _remove(self, table: CountedTable[Any], row: Row) -> bool:
        connection = self._connections.writing
        before = self._counters.before(connection, table, [row])
        if not connection.execute(table.delete, row).rowcount:
            return False
        self._counters.note(table, [None], before)
        return True

    def _do_more(self, calls: Iterable[WriteRequest]) -> None:
        for call in calls:
            if call.more is not None:
                self._counters.store(self._connections.writing)
                call.more(self._connections.writing)

    def _one_by_one(self, calls: list[WriteRequest]) -> Missed:
        """Write all where some row cannot be bound: its neighbours must not suffer."""
        missed: Missed = {}
        self._begin()
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
                    if self._remove(call.table, row):
                        continue
                missed[ticket] = None
        self._do_more(calls)
        self._commit()
        return missed

    def _single(self, table: CountedTable[Any], statement: str, row: Row) -> bool | ItemFailed:
        for attempt in (row, table.without_unbindable(row)):
            try:
                connection = self._connections.writing
                before = self._counters.before(connection, table, [attempt] if statement is table.update else [])
                if connection.execute(statement, attempt).rowcount != 1:
                    return False
                self._counters.note(table, [attempt], before)
                return True
            except _ITEM_PROBLEMS as problem:
                failure = ItemFailed(table.key(row), str(problem))
        return failure

    def _begin(self) -> sqlite3.Connection:
        connection = self._connections.writing
        roll_back(connection)
        connection.execute("BEGIN IMMEDIATE")
        self._counters.begin()
        return connection

    def _commit(self) -> None:
        self._counters.store(self._connections.writing)
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


def _by_table(calls: list[WriteRequest]) -> Iterable[tuple[CountedTable[Any], list[WriteRequest]]]:
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


# --- counters


class Changes:
    """The changes of counters by the open transaction, and what they count of records, by version."""

    def __init__(self) -> None:
        self._known: dict[int, _Counted] = {}  # by version: no two records ever have the same
        self._numbers: dict[_Values, int] = {}
        self._values: list[_Values] = []  # by number: few for many records
        self._changed: dict[CountedTable[Any], tuple[Counter[int], Counter[_Values]]] = {}
        self._counting: dict[CountedTable[Any], bool] = {}

    def begin(self) -> None:
        """Forget what a transaction that failed had changed."""
        self._changed.clear()
        self._counting.clear()
        if len(self._known) > _MOST_KNOWN or len(self._values) > _MOST_KNOWN:
            self._known.clear()
            self._numbers.clear()
            self._values.clear()

    def before(
        self, connection: sqlite3.Connection, table: CountedTable[Any], rows: Sequence[Row]
    ) -> Sequence[_Counted | None]:
        """Return what is counted of records before they change, by rows that end with their keys and versions."""
        if not self._is_counting(connection, table):
            return [None] * len(rows)
        known = self._known
        return [known.pop(row[-1] or 0, None) or self._read(connection, table, row[-2:]) for row in rows]

    def _is_counting(self, connection: sqlite3.Connection, table: CountedTable[Any]) -> bool:
        """Return whether the file has these counters; those of another version are given up: nobody changes them."""
        if table not in self._counting:
            self._counting[table] = bool(table.shapes) and is_counted(connection, table)
            if table.shapes and not self._counting[table]:
                forget_counters(connection, table)
        return self._counting[table]

    def _read(self, connection: sqlite3.Connection, table: CountedTable[Any], row: Row) -> _Counted | None:
        found = connection.execute(table.values_of, row).fetchone()
        return None if found is None else self._of(table, found)

    def _of(self, table: CountedTable[Any], values: _Values) -> _Counted:
        start, end = table.minutes
        counted = (*values[:start], *[None if each is None else each // MINUTE for each in values[start:end]])
        if (number := self._numbers.get(counted)) is None:
            number = self._numbers[counted] = len(self._values)
            self._values.append(counted)
        return number, values[end:]

    def note(
        self,
        table: CountedTable[Any],
        rows: Iterable[Row | None],
        before: Sequence[_Counted | None],
        missed: Container[int] = (),
    ) -> None:
        """Note that rows were written, or none is there any more (None), in the place of what was there before."""
        if not self._counting[table]:
            return
        counted, exact = self._changed.setdefault(table, (Counter(), Counter()))
        for row, old in zip(rows, before or repeat(None), strict=False):
            if row is not None:
                if row[0] in missed:
                    continue
                self._known[row[0]] = new = self._of(table, table.pick(row))
                counted[new[0]] += 1
                if old is not None and new[1] == old[1]:
                    counted[old[0]] -= 1
                    continue
                exact[new[1]] += 1
            if old is not None:
                counted[old[0]] -= 1
                exact[old[1]] -= 1

    def store(self, connection: sqlite3.Connection) -> None:
        """Change the counters."""
        seen = secrets.randbits(62)
        for table, (counted, exact) in self._changed.items():
            changes = {self._values[number]: change for number, change in counted.items()}
            for shape in table.shapes:
                _store(connection, shape, exact if shape.spans else changes, seen)
        self._changed.clear()


def _cells_of(shape: Shape, values: _Values) -> list[_Values]:
    """Return the keys of the cells that count a record with these values."""
    key = [NONE if (value := values[place]) is None else value for place in shape.by_places]
    for place, is_date in shape.flag_places:
        key.append(NONE if (value := values[place]) is None else 0 if is_date else int(value >= 1))
    if shape.at_place is None:
        return [tuple(key)]
    if (minute := values[shape.at_place]) is None:
        return []
    return [(step, minute * MINUTE // step * step, *key) for step in STEPS]


def _store(connection: sqlite3.Connection, shape: Shape, changes: Mapping[_Values, int], seen: int) -> None:
    """Add the changes of the number of records, by their values, to the cells."""
    cells: dict[_Values, list[int]] = {}
    spans: dict[_Values, tuple[list[_Values], list[_Values]]] = {}  # of a cell: what came, and what left
    for values, number in changes.items():
        for key in _cells_of(shape, values) if number else ():
            cell = cells.setdefault(key, [0] * (1 + len(shape.sum_places)))
            cell[0] += number
            for place, name in enumerate(shape.sum_places, 1):
                cell[place] += number * (values[name] or 0)
            if shape.spans:
                spans.setdefault(key, ([], []))[number < 0].append(tuple(values[place] for place in shape.span_places))
    edges = {}
    for key, (came, left) in spans.items():
        edges[key], gone = _edges(came, len(shape.span_places)), _edges(left, len(shape.span_places))
        for place, (old, new) in enumerate(zip(gone, edges[key], strict=True)):
            if old is not None and new is not None and (new <= old if place % 2 == 0 else new >= old):
                gone[place] = None  # the cell has another one as far out
        connection.execute(shape.mark, (*key, *gone))
    rows = [
        (*key, *cell, *((0, seen, *edges[key]) if shape.spans else ()))
        for key, cell in cells.items()
        if any(cell) or shape.spans
    ]
    connection.executemany(shape.add, rows)
    connection.executemany(shape.drop_empty, [key for key, cell in cells.items() if cell[0] < 0])


def _edges(values: Sequence[_Values], spans: int) -> list[Any]:
    """Return the least and the greatest value of each span."""
    found: list[Any] = []
    for place in range(spans):
        there = [each[place] for each in values if each[place] is not None]
        found += [min(there, default=None), max(there, default=None)]
    return found

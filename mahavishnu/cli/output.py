"""Output of commands: tables and blocks for people, JSON for programs; and exit codes.

Nothing that is printed acts on a terminal. Exit codes, with one clear line on stderr for each problem: 0 done · 1 the
thing asked for failed, or the store or server cannot be used · 2 a mistake in what was asked · 3 not found · 4 the
present state does not allow it, or an import stopped half-way · 130 interrupted · 141 nobody reads the output any more
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.model.errors import (
    IllegalMove,
    IllegalRunMove,
    InvalidInput,
    InvalidQueryText,
    MahavishnuError,
    NoSuchGroup,
    NoSuchLetter,
    NoSuchPartition,
    NoSuchQueue,
    NoSuchRun,
    NoSuchView,
    QueueFull,
)

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Column: TypeAlias = str | Callable[[Mapping[str, Any]], Any]  # the name of a value, or a function of the record
Columns: TypeAlias = Mapping[str, Column]  # by their titles
NARROW = 60  # columns below which a table is written as blocks
TEXT = 20  # columns that a text gets at least, if it is that long
GAP = 2  # blanks between columns
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_EXTRAS = frozenset({"fastapi", "httpx", "prometheus_client", "rich", "starlette", "uvicorn"})
_UNITS = (("d", 86400, 2), ("h", 3600, 1), ("m", 60, 1), ("s", 1, 0))  # name, seconds, how many there are at least


class ExitCode(IntEnum):
    """Exit code of a command."""

    DONE = 0
    FAILED = 1
    MISTAKE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    INTERRUPTED = 130
    NO_READER = 141


class NotFound(MahavishnuError):
    """There is nothing of the name that was asked for."""

    @classmethod
    def among(cls, what: str, name: str, known: Sequence[str]) -> NotFound:
        """Make the error with the name that may have been meant.

        >>> str(NotFound.among("plugin", "htpp", ["http", "template"]))
        "there is no plugin 'htpp'; did you mean http?"
        """
        near = difflib.get_close_matches(name, known, 1)
        return cls(f"there is no {what} {name!r}" + (f"; did you mean {near[0]}?" if near else ""))


class Failed(MahavishnuError):
    """The command was tried, and failed."""


class Conflict(MahavishnuError):
    """The state of the letter, group or run does not allow it, or another user was quicker."""


class Unreachable(Failed):
    """The store, or the server, cannot be reached or used."""


_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], ExitCode], ...] = (
    ((NotFound, NoSuchLetter, NoSuchGroup, NoSuchPartition, NoSuchQueue, NoSuchRun, NoSuchView), ExitCode.NOT_FOUND),
    (InvalidInput, ExitCode.MISTAKE),
    ((Conflict, IllegalMove, IllegalRunMove, QueueFull), ExitCode.CONFLICT),
    (MahavishnuError, ExitCode.FAILED),
    (OSError, ExitCode.FAILED),
)


def explain_error(error: Exception) -> tuple[tuple[str, ...], ExitCode]:
    """The lines that describe an error, one for each problem, and the exit code.

    >>> explain_error(NotFound("there is no plugin 'x'"))
    (("there is no plugin 'x'",), <ExitCode.NOT_FOUND: 3>)
    """
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing in _EXTRAS:
        return (f"there is no {missing}: pip install 'mahavishnu-dlq[cli]'",), ExitCode.FAILED
    for kind, code in _CODES:
        if isinstance(error, kind):
            if isinstance(error, InvalidQueryText):
                return (str(error), *error.marked_text.splitlines()), code
            return tuple(line for line in str(error).splitlines() if line.strip()) or (type(error).__name__,), code
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return (f"{text} (this should not have happened; `mahavishnu --traceback …` shows where it did)",), ExitCode.FAILED


# --------------------------------------------------------------------------------------------------------------- texts


def plain(value: Any) -> str:
    """A value as people read it, on one line; characters that would move a cursor or turn the text around are escaped.

    >>> plain(None), plain(True), plain([1, 2]), plain("red\\x1b[31m")
    ('-', 'true', '[1, 2]', 'red\\\\x1b[31m')
    """
    if value is None or value == "":
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape_controls(" ".join(text.split()) if "\n" in text else text)


def escape_controls(text: str) -> str:
    """`text` with its control characters written out."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def moment(text: str | None) -> str:
    """An instant of the API as people read it.

    >>> moment("2030-01-01T12:00:00.250Z"), moment(None)
    ('2030-01-01 12:00:00Z', '-')
    """
    return f"{text[:10]} {text[11:19]}Z" if text else "-"


def short(text: Any, width: int = 80) -> str:
    """The first line of a text, and not too much of it.

    >>> short("connection reset\\nby peer"), short("x" * 100, 5)
    ('connection reset …', 'xxxx…')
    """
    first, *more = str(text or "").strip().split("\n", 1) if text else [""]
    if len(first) > width:
        return first[: width - 1] + "…"
    return first + (" …" if more and more[0].strip() else "")


def brief(text: Any, width: int = 80) -> str:
    """A text as `short` has it, where the output is for people; whole in a pipe, where one record is one line."""
    return short(text, width) if for_people() else str(text or "")


def count_of(number: int, what: str) -> str:
    """A number of things.

    >>> count_of(1, "letter"), count_of(2, "letter")
    ('1 letter', '2 letters')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def for_people() -> bool:
    """Return True if the output goes to a terminal, and not to a pipe or a file."""
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


# ------------------------------------------------------------------------------------------------------------ printing


def print_line(text: str) -> None:
    """Print one line on stdout."""
    _write(escape_controls(text))


def print_error(text: str) -> None:
    """Print one line on stderr that says what is wrong."""
    sys.stderr.write(f"mahavishnu: {escape_controls(text)}\n")


def print_notice(text: str) -> None:
    """Print one line on stderr that is not about an error."""
    sys.stderr.write(f"{escape_controls(text)}\n")


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print one JSON value on stdout; without an `indent` on one line."""
    _write(_json(value, indent))


class Listed(list[Any]):
    """Items of the API, and whether there are `more` of them."""

    def __init__(self, items: Iterable[Any], more: bool = False) -> None:
        super().__init__(items)
        self.more = more


class JsonList:
    """A JSON array on stdout, written as its items come: the same text as `print_json` of the whole list."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, value: Any) -> None:
        """Print one more item."""
        sys.stdout.write("[\n" if not self._count else ",\n")
        sys.stdout.write("\n".join(f"  {each}" for each in _json(value, 2).split("\n")))
        self._count += 1

    def end(self) -> None:
        """Close the array."""
        sys.stdout.write("\n]\n" if self._count else "[]\n")


def print_block(fields: Mapping[str, Any]) -> None:
    """Print names and values, one below the other."""
    texts = {name: plain(value) for name, value in fields.items()}
    names = max(map(_cells, texts), default=0) + GAP
    room = max(_width() - names, 1) if for_people() else None
    for name, text in texts.items():
        for number, part in enumerate(_fold(text, room)):
            head = _bold(name) + " " * (names - _cells(name)) if number == 0 else " " * names
            _write(f"{head}{part}".rstrip(" "))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    empty: str,
    texts: Sequence[str] | Mapping[str, int] | None = None,
    spare: Sequence[str] = (),
) -> None:
    """Print a table, or blocks of names and values where there is no room for one, or the line `empty`.

    Only `texts` (the last column, unless named) are wrapped: they get what the others leave, but not less than TEXT
    columns, or than they are named with. Where those do not fit, the `spare` columns are left out, the last one first.
    """
    cells = [[plain(value) for value in row] for row in rows]
    if not cells:
        print_line(empty)
        return
    texts = columns[-1:] if texts is None else texts
    texts = texts if isinstance(texts, Mapping) else dict.fromkeys(texts, TEXT)
    widths = {name: max(map(_cells, (name, *(row[at] for row in cells)))) for at, name in enumerate(columns)}
    left = list(columns)
    if for_people():
        room = _width()
        for name in reversed(spare):
            if _least_width(left, widths, texts) > room:
                left.remove(name)
        if len(columns) > 2 and (room < NARROW or _least_width(left, widths, texts) > room):
            _print_blocks(columns, cells)
            return
        fixed = sum(widths[name] for name in left if name not in texts)
        widths |= _shares({name: widths[name] for name in left if name in texts}, room - fixed - GAP * (len(left) - 1))
    places = [columns.index(name) for name in left]
    _write(_row([[_bold(name)] for name in left], [_cells(name) for name in left], [widths[name] for name in left]))
    for row in cells:
        parts = [_fold(row[at], widths[columns[at]] if columns[at] in texts else None) for at in places]
        for number in range(max(map(len, parts))):
            line = [each[number : number + 1] or [""] for each in parts]
            _write(_row(line, [_cells(each[0]) for each in line], [widths[name] for name in left]))


def print_records(
    records: Iterable[Mapping[str, Any]],
    columns: Columns,
    *,
    empty: str,
    texts: Sequence[str] | Mapping[str, int] | None = None,
    spare: Sequence[str] = (),
) -> None:
    """Print a table of records. `columns` are the titles, each with the name of its value, or a function of the record.

    Values whose names end in `_at` are instants. `spare` may name columns that this table does not have.
    """

    def cell(record: Mapping[str, Any], value: Column) -> Any:
        if not isinstance(value, str):
            return value(record)
        return when(record[value]) if value.endswith("_at") else record[value]

    rows = [[cell(each, value) for value in columns.values()] for each in records]
    print_table(list(columns), rows, empty=empty, texts=texts, spare=[name for name in spare if name in columns])


def _print_blocks(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    for number, row in enumerate(cells):
        if number:
            print_line("")
        print_block({name: value for name, value in zip(columns, row, strict=True) if value != "-"})


def _row(texts: Sequence[Sequence[str]], lengths: Sequence[int], widths: Sequence[int]) -> str:
    """One line of a table; blanks at its end are of no use to a program."""
    padded = (each[0] + " " * (width - length) for each, length, width in zip(texts, lengths, widths, strict=True))
    return (" " * GAP).join(padded).rstrip(" ")


def _least_width(columns: Sequence[str], widths: Mapping[str, int], texts: Mapping[str, int]) -> int:
    """Return the least width of a table of these columns."""
    least = (min(widths[name], texts.get(name, widths[name])) for name in columns)
    return sum(least) + GAP * (len(columns) - 1)


def _shares(wanted: Mapping[str, int], room: int) -> dict[str, int]:
    """Return the width of each column of text: the short ones get theirs, the others share the rest."""
    shares: dict[str, int] = {}
    for number, (name, width) in enumerate(sorted(wanted.items(), key=lambda each: each[1])):
        shares[name] = max(min(width, (room - sum(shares.values())) // (len(wanted) - number)), 1)
    return shares


def _fold(text: str, width: int | None) -> list[str]:
    """A text in lines of at most that many columns: between words, and inside of those that are longer."""
    if width is None or _cells(text) <= width:
        return [text]
    lines, line = list[str](), ""
    for number, word in enumerate(text.split(" ")):
        if number and _cells(line) + 1 + _cells(word) <= width:
            line = f"{line} {word}"
            continue
        if number:
            lines.append(line)
        line = word
        while _cells(line) > width:
            fits = next(at for at in range(len(line), 0, -1) if _cells(line[:at]) <= width or at == 1)
            lines.append(line[:fits])
            line = line[fits:]
    return [*lines, line]


def _cells(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def _width() -> int:
    return shutil.get_terminal_size().columns


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else text


def _json(value: Any, indent: int | None) -> str:
    ascii_only = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") != "utf8"
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only, default=str)
    if text.isascii() and "\x7f" not in text:
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which a payload may contain
        return json.dumps(value, indent=indent, default=str)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # the same JSON, and nothing a terminal obeys


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


# ------------------------------------------ instants: how long ago, or in how long, on a terminal; whole in a pipe


def when(text: str | None) -> str:
    """An instant of the API in a table."""
    return relative(text, _now()) if text and for_people() else moment(text)


def instant_and_distance(text: str) -> str:
    """An instant of the API whole, and for people also how far away it is."""
    return f"{moment(text)} ({relative(text, _now())})" if for_people() else moment(text)


def relative(text: str, now: datetime) -> str:
    """Say how far an instant is away.

    >>> from datetime import UTC
    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> relative("2030-01-01T11:00:30.000Z", noon), relative("2030-01-01T12:01:05.000Z", noon)
    ('59m ago', 'in 1m')
    >>> relative("2030-01-01T12:00:00.400Z", noon), relative("2029-12-01T12:00:00.000Z", noon)
    ('now', '31d ago')
    """
    seconds = int((datetime.fromisoformat(text) - now).total_seconds())
    if not seconds:
        return "now"
    unit, size = next((name, size) for name, size, least in _UNITS if abs(seconds) >= size * least)
    distance = f"{abs(seconds) // size}{unit}"
    return f"in {distance}" if seconds > 0 else f"{distance} ago"


def is_past(text: str) -> bool:
    """Return True if an instant of the API is over."""
    return datetime.fromisoformat(text) <= _now()


def _now() -> datetime:
    from mahavishnu.model.clock import SystemClock  # imports asyncio: not for help

    return SystemClock().now()

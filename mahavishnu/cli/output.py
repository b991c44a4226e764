"""What commands print: tables and blocks for people, JSON for programs. None of it acts on a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
NARROW = 60  # columns below which a table is written as blocks
TEXT = 20  # columns that a text gets at least, if it is that long
GAP = 2  # blanks between columns
_ACTS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(value: Any) -> str:
    """A value as people read it, on one line; characters that would move a cursor or turn the text around are shown.

    >>> plain(None), plain(True), plain([1, 2]), plain("red\\x1b[31m")
    ('-', 'true', '[1, 2]', 'red\\\\x1b[31m')
    """
    if value is None or value == "":
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape_controls(" ".join(text.split()) if "\n" in text else text)


def escape_controls(text: str) -> str:
    """`text` with its control characters written out."""
    return _ACTS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON value on stdout; without an `indent` on one line."""
    _write(_json(value, indent))


class JsonList:
    """A JSON array on stdout, written as its items come, the same text as `as_json` of the whole list."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, value: Any) -> None:
        """One more item."""
        sys.stdout.write("[\n" if not self._count else ",\n")
        sys.stdout.write("\n".join(f"  {each}" for each in _json(value, 2).split("\n")))
        self._count += 1

    def end(self) -> None:
        """There are no more."""
        sys.stdout.write("\n]\n" if self._count else "[]\n")


def _json(value: Any, indent: int | None) -> str:
    ascii_only = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") != "utf8"
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only, default=str)
    if text.isascii() and "\x7f" not in text:
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which a payload may contain
        return json.dumps(value, indent=indent, default=str)
    return _ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # the same JSON, and nothing a terminal obeys


def print_line(text: str) -> None:
    """One line on stdout."""
    _write(escape_controls(text))


def print_error(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"mahavishnu: {escape_controls(text)}\n")


def print_notice(text: str) -> None:
    """One line on stderr that is no complaint."""
    sys.stderr.write(f"{escape_controls(text)}\n")


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


def print_block(fields: Mapping[str, Any]) -> None:
    """Names and values, one below the other."""
    texts = {name: plain(value) for name, value in fields.items()}
    console = _console(_width([*map(cell_len, texts)]) + _width([*map(cell_len, texts.values())]))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in texts.items():
        table.add_row(Text(name), Text(value))
    _print(console, table)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    empty: str,
    texts: Sequence[str] | None = None,
    spare: Sequence[str] = (),
) -> None:
    """A table, or blocks of names and values where there is no room for one, or the line `empty`.

    Only `texts` (the last column, unless named) are wrapped: they get what the others leave. Where those do not fit,
    the `spare` columns are left out, the last one first.
    """
    cells = [[plain(value) for value in row] for row in rows]
    if not cells:
        print_line(empty)
        return
    texts = columns[-1:] if texts is None else texts
    widths = {
        name: _width([cell_len(name), *(cell_len(row[place]) for row in cells)]) for place, name in enumerate(columns)
    }
    console = _console(sum(widths.values()))
    left = list(columns)
    for name in reversed(spare):
        if _needed(left, widths, texts) > console.width:
            left.remove(name)
    narrow = for_people() and console.width < NARROW
    if len(columns) > 2 and (narrow or _needed(left, widths, texts) > console.width):
        for place, row in enumerate(cells):
            if place:
                print_line("")
            print_block({name: value for name, value in zip(columns, row, strict=True) if value != "-"})
        return
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name in left:
        made.add_column(Text(name), overflow="fold", no_wrap=name not in texts)
    for row in cells:
        made.add_row(*(Text(value) for name, value in zip(columns, row, strict=True) if name in left))
    _print(console, made)


def _width(lengths: Sequence[int]) -> int:
    return max(lengths, default=0) + GAP


def _needed(columns: Sequence[str], widths: Mapping[str, int], texts: Sequence[str]) -> int:
    """How wide a table of these columns is at least."""
    return sum(min(widths[name], TEXT + GAP) if name in texts else widths[name] for name in columns) - GAP


def for_people() -> bool:
    """Whether the output is for somebody's eyes, and not for a pipe or a file."""
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def _console(whole: int) -> Console:
    """As wide as the terminal, or as what is printed: nobody wraps for a pipe or file."""
    return Console(width=None if for_people() else max(whole, 1), markup=False, highlight=False, emoji=False)


def _print(console: Console, what: Table) -> None:
    with console.capture() as captured:
        console.print(what)
    text = captured.get()
    if not console.is_terminal:  # the blanks that fill up the last column are of no use to a program
        text = "\n".join(each.rstrip(" ") for each in text.split("\n"))
    sys.stdout.write(text)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")

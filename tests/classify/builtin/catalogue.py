"""Reads the catalogues: tables of errors and the categories that they have, in files of tab-separated columns.

A line that begins with "#" is a comment. A line break, a tab or a backslash in a column is written as in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.real_exceptions import by_botocore, exception_class

FOLDER = Path(__file__).parent / "catalogues"
_NOT_TEXTS = ("aws_error_codes", "exception_names", "library_exceptions")
TEXTS = tuple(sorted(path.stem for path in FOLDER.glob("*.tsv") if path.stem not in _NOT_TEXTS))
_ESCAPE = re.compile(r"\\([nt\\])")
_MEANINGS = {"n": "\n", "t": "\t", "\\": "\\"}


class Row(NamedTuple):
    """One row. `read_as` differs from `category` where the rules are known to be wrong."""

    place: str  # file:line
    category: str
    error: BaseException | str
    read_as: str


def texts(name: str) -> list[Row]:
    """The rows of a catalogue of error texts."""
    return [Row(place, category, text, mistake or category) for place, category, text, mistake in _columns(name, 3)]


def exception_names() -> list[Row]:
    """Exceptions whose names say what kind of failure they are."""
    return [
        Row(place, category, exception_class(name)(), category)
        for place, category, name in _columns("exception_names", 2)
    ]


def library_exceptions() -> list[Row]:
    """Exceptions with the names, attributes and texts that libraries give them, and botocore's by their codes."""
    found = []
    for place, category, name, attributes, message in _columns("library_exceptions", 4):
        kind = exception_class(name, **json.loads(attributes or "{}"))
        found.append(Row(place, category, kind(message) if message else kind(), category))
    for place, category, code, status in _columns("aws_error_codes", 3):
        found.append(Row(place, category, by_botocore(code, int(status)), category))
    return found


def _columns(name: str, count: int) -> Iterator[tuple[str, ...]]:
    """The place of each row, and its columns; those missing at its end are empty."""
    lines = (FOLDER / f"{name}.tsv").read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            columns = [_ESCAPE.sub(lambda match: _MEANINGS[match[1]], column) for column in line.split("\t")]
            yield (f"{name}.tsv:{number}", *columns, *[""] * (count - len(columns)))

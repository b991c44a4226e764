"""Limits that may only fall, in `tools/ratchets.toml`.

A value above its limit is a problem. So is one below, until the limit is lowered, which `--write` does: what was won is
not lost again. Only an editor raises a limit, and a reviewer sees that.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("ratchets.toml")


def read(file: Path = FILE) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def above(values: Mapping[str, int], limits: Mapping[str, int], hints: Mapping[str, str]) -> Iterator[str]:
    """Yield a problem for each value above its limit; `hints` are the commands that list what counts.

    >>> list(above({"cracks": 3}, {"cracks": 2}, {"cracks": "look"}))
    ['cracks: 3, and at most 2 are allowed; `look` lists them']
    """
    for name, value in values.items():
        if value > limits[name]:
            yield f"{name}: {value}, and at most {limits[name]} are allowed; `{hints[name]}` lists them"


def below(values: Mapping[str, int], limits: Mapping[str, int], command: str) -> Iterator[str]:
    """Yield a problem for each value below its limit; `command` lowers it.

    >>> list(below({"cracks": 1}, {"cracks": 2}, "lower"))
    ['cracks: 1, and the limit is 2: lower it with `lower`']
    """
    for name, value in values.items():
        if value < limits[name]:
            yield f"{name}: {value}, and the limit is {limits[name]}: lower it with `{command}`"


def lower(values: Mapping[str, int], section: str, file: Path = FILE) -> dict[str, int]:
    """Write the values that are below their limits into a section of the file. Returns what was lowered."""
    limits = read(file)[section]
    lowered = {name: value for name, value in values.items() if value < limits[name]}
    before, heading, rest = file.read_text(encoding="utf-8").partition(f"[{section}]\n")
    body, following, after = rest.partition("\n[")
    for name, value in lowered.items():
        body = re.sub(rf'^("?{re.escape(name)}"? *= *)\d+', rf"\g<1>{value}", body, flags=re.MULTILINE)
    file.write_text(before + heading + body + following + after, encoding="utf-8")
    return lowered

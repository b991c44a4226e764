"""Limits that may only fall, in `tools/ratchets.toml`.

A value above its limit is a problem. So is one below: then the limit is to be lowered, which `--write` does, so that
what was won is not lost again. Nothing raises a limit but an editor, and a reviewer sees that.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

WRITE = "python tools/check_house.py --write"
FILE = Path(__file__).with_name("ratchets.toml")


def read(file: Path = FILE) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def problems(values: Mapping[str, int], limits: Mapping[str, int], hints: Mapping[str, str]) -> Iterator[str]:
    """Yield a problem for each value that is not at its limit; `hints` are the commands that list what counts.

    >>> list(problems({"cracks": 3}, {"cracks": 2}, {"cracks": "look"}))
    ['cracks: 3, and at most 2 are allowed; `look` lists them']
    >>> list(problems({"cracks": 1}, {"cracks": 2}, {}))
    ['cracks: 1, and the limit is 2: lower it with `python tools/check_house.py --write`']
    """
    for name, value in values.items():
        limit = limits[name]
        if value > limit:
            yield f"{name}: {value}, and at most {limit} are allowed; `{hints[name]}` lists them"
        elif value < limit:
            yield f"{name}: {value}, and the limit is {limit}: lower it with `{WRITE}`"


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

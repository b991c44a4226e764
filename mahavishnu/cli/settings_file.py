"""Changing one list in a YAML file that people write, and nothing else in it: not a comment, not a blank."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from mahavishnu.cli.exits import Failed

_PLAIN = re.compile(r"[A-Za-z][\w./-]*")
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def scalar(text: str) -> str:
    """A text as YAML has to write it.

    >>> scalar("http"), scalar("acme: shop"), scalar("no")
    ('http', '"acme: shop"', '"no"')
    """
    return text if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED else json.dumps(text)


def write_list(path: Path, key: str, values: Sequence[str]) -> None:
    """Make the list under a key at the top of the file `values`. Raises Failed, and leaves the file, if that is unsafe.

    The file is replaced in one step, so that nobody reads half of it.
    """
    with path.open(encoding="utf-8", newline="") as file:
        text = file.read()
    changed = with_list(text, key, values)
    if not _differ_in(text, changed, key, values):
        raise Failed(f"{path.name} is written in a way that cannot be changed safely: set {key} there by hand")
    _replace(path.resolve(), changed)


def with_list(text: str, key: str, values: Sequence[str]) -> str:
    """The text of a YAML file with another list under a key at its top.

    >>> with_list("size: 5\\nnames: [a]  # not asked\\n", "names", ["a", "b"])
    'size: 5\\nnames: [a, b]  # not asked\\n'
    """
    flow = f"[{', '.join(map(scalar, values))}]"
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for name, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if name.value != key:
            continue
        start, end = value.start_mark, value.end_mark
        if isinstance(value, yaml.SequenceNode) and not value.flow_style and value.value:
            end = value.value[-1].end_mark  # its own end is where the next key begins
            if values:
                between = f"\n{' ' * start.column}- "
                return f"{text[: start.index]}- {between.join(map(scalar, values))}{text[end.index :]}"
            return f"{text[: name.end_mark.index]}: []{text[end.index :]}"
        blank = "" if start.index > name.end_mark.index + 1 else " "  # `key:` with nothing behind it
        return f"{text[: start.index]}{blank}{flow}{text[end.index :]}"
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{key}: {flow}\n"


def _differ_in(text: str, changed: str, key: str, values: Sequence[str]) -> bool:
    """Whether the list is the only difference between the two."""
    try:
        return bool({**(yaml.safe_load(text) or {}), key: list(values)} == yaml.safe_load(changed))
    except yaml.YAMLError:
        return False


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(path.stat().st_mode & 0o7777)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise

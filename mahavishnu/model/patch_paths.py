"""Where a merge patch changes something, and whether a value has such a place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Path = tuple[str, ...]


def patch_paths(patch: Any) -> Iterator[Path]:
    """The names under which a merge patch (RFC 7386) sets or removes something.

    >>> sorted(patch_paths({"url": None, "size": {"width": 3}}))
    [('size', 'width'), ('url',)]
    """
    if not isinstance(patch, dict) or not patch:
        yield ()
        return
    for name, value in patch.items():
        for rest in patch_paths(value):
            yield (str(name), *rest)


def has_path(value: Any, path: Sequence[str]) -> bool:
    """Whether there is something at this place, be it null.

    >>> has_path({"size": {"width": None}}, ("size", "width")), has_path({"size": 3}, ("size", "width"))
    (True, False)
    """
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True

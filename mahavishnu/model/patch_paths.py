"""Where a merge patch changes something, whether a task has such a place, and which one may have been meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import pointer

Path = tuple[str, ...]
_COMPARED = 1000  # places that are compared with one that is not there
_NAMED = 5  # places that are named where none is like it
_ALIKE = 0.8  # how much of two places is equal, from 0 to 1, for one to be meant by the other


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
    """Whether there is something at this place, be it null; a null can become an object with any names.

    >>> has_path({"size": {"width": None}}, ("size", "width")), has_path({"size": 3}, ("size", "width"))
    (True, False)
    """
    for name in path:
        if value is None:
            return True
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def refuse_unknown_paths(unknown: Sequence[Path], tasks: Iterable[Any], which: str) -> None:
    """Raise InvalidInput if there are places that no task has, naming those of these tasks that may have been meant.

    `which` says who does not have them, such as "letter 'wf_1' has no".
    """
    if not unknown:
        return
    known = list(dict.fromkeys(path for task in tasks for path in islice(_paths(task), _COMPARED)))
    near = [pointer("task", *path) for path in (_nearest(path, known) for path in unknown) if path]
    there = [pointer("task", *path) for path in known if len(path) == 1][:_NAMED]
    hint = f"; did you mean {' and '.join(dict.fromkeys(near))}?" if near else "."
    hint = f", but {', '.join(there)}." if there and not near else hint
    missing = ", ".join(pointer("task", *path) for path in unknown)
    raise InvalidInput(f"{which} {missing}{hint} What is not there is made with create=True (--create)")


def _nearest(path: Path, known: Sequence[Path]) -> Path | None:
    """The place that is meant by this one: another name beside it, that name elsewhere, or one spelled alike."""
    beside = {other[-1]: other for other in known if other[:-1] == path[:-1]}
    if path and (names := difflib.get_close_matches(path[-1], beside, 1)):
        return beside[names[0]]
    elsewhere = {pointer(*other): other for other in known if other[:-1] != path[:-1]}
    same_name = {text: other for text, other in elsewhere.items() if other[-1:] == path[-1:]}
    text = pointer(*path)
    found = difflib.get_close_matches(text, same_name, 1) or difflib.get_close_matches(text, elsewhere, 1, _ALIKE)
    return elsewhere[found[0]] if found else None


def _paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """All places in a value."""
    if at:
        yield at
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from _paths(inner, (*at, name))

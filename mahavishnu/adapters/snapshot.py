"""What a run was given, as it was before it: a retry gets what the first run got. The copies stay in memory."""

from __future__ import annotations

import copy
import pickle
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, TypeAlias
from uuid import UUID

# Nothing that a function does changes a value of these, so no snapshot is taken of it.
_CONSTANT = frozenset([str, int, float, bool, NoneType, bytes, complex, Decimal, date, datetime, time, timedelta, UUID])
_PLAIN = _CONSTANT | {dict, list, tuple, set, frozenset}
_CONTAINERS = (list, dict, set, frozenset, tuple, bytearray)

Snapshot: TypeAlias = "bytes | _Parts"


class TaskSnapshot:
    """A task as it was before a run that may change it."""

    __slots__ = ("_before", "_task")

    def __init__(self, task: Any) -> None:
        self._task, self._before = task, take_snapshot((task,), {})

    @property
    def task(self) -> Any:
        """The caller's task if the run did not change it (or it cannot be copied), else the copy from before it."""
        return self._task if self._before is None else restore_arguments(self._before, (self._task,), {})[0][0]


def take_snapshot(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Snapshot | None:
    """The arguments of a call before it; None where there is nothing that the call could change: found at once.

    Only what a function can change is copied, and only what a letter could keep.
    """
    if _CONSTANT.issuperset(map(type, args)) and (not kwargs or _CONSTANT.issuperset(map(type, kwargs.values()))):
        return None
    if _PLAIN.issuperset(map(type, args)) and (not kwargs or _PLAIN.issuperset(map(type, kwargs.values()))):
        try:
            return pickle.dumps((args, kwargs), pickle.HIGHEST_PROTOCOL)
        except Exception:  # whatever is inside of them
            pass
    return _Parts(args, kwargs)


def restore_arguments(
    snapshot: Snapshot, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with copies in the place of those that were changed."""
    if isinstance(snapshot, _Parts):
        return snapshot.restore(args, kwargs)
    try:
        if pickle.dumps((args, kwargs), pickle.HIGHEST_PROTOCOL) == snapshot:
            return args, kwargs
    except Exception:  # it was changed to what cannot be copied
        pass
    try:
        before: tuple[tuple[Any, ...], dict[str, Any]] = pickle.loads(snapshot)
    except Exception:  # code of the user's own types
        return args, kwargs
    return before


class _Parts:
    """Copies of those arguments that are data, where others are not."""

    __slots__ = ("_before", "_values")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._values = [each for each in (*args, *kwargs.values()) if type(each) not in _CONSTANT and _is_data(each)]
        self._before = _copy(self._values) if self._values else None

    def restore(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with copies in the place of those that were changed."""
        before = self._before
        if before is None or (isinstance(before, bytes) and _copy(self._values) == before):
            return args, kwargs
        try:
            copies = pickle.loads(before) if isinstance(before, bytes) else before
        except Exception:  # code of the user's own types
            return args, kwargs
        found = {id(value): copied for value, copied in zip(self._values, copies, strict=True)}
        return (
            tuple(found.get(id(each), each) for each in args),
            {name: found.get(id(each), each) for name, each in kwargs.items()},
        )


def _is_data(value: Any) -> bool:
    kind = type(value)
    return (
        isinstance(value, _CONTAINERS) or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__pydantic_fields__")
    )


def _copy(values: list[Any]) -> bytes | list[Any]:
    """A copy, as bytes where that is possible: it takes a tenth of the time. What cannot be copied is as it is."""
    try:
        return pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
    except Exception:  # such as of a class inside of a function, or whatever the user's own types raise
        pass
    copies = []
    for each in values:  # one that cannot be copied does not keep the others from being as they were
        try:
            copies.append(copy.deepcopy(each))
        except Exception:
            copies.append(each)
    return copies

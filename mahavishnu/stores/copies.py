"""Copies records surely: written, read back and compared, each by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from mahavishnu.model.errors import StoreError
from mahavishnu.stores.base import Collection
from mahavishnu.stores.kind import Record

_TRIES = 10


class Copy(Record, Protocol):
    """A record that holds others as they were."""

    def has_same_content(self, other: Any) -> bool: ...
    def over(self, there: Any) -> Any: ...


C = TypeVar("C", bound=Copy)


@dataclass(slots=True)
class CopyResult(Generic[C]):
    """The copies that the store has as they were made, and why others are not there, both by their keys."""

    sure: dict[str, C] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


async def copy_surely(
    copies: Collection[C], wanted: Sequence[C], stays: Callable[[C], bool] = lambda there: False
) -> CopyResult[C]:
    """Write the copies, over what an earlier go left, and compare what is there then.

    Not over what `stays`, which is in neither part of the result. A copy is always written anew: who withdraws one that
    was not needed cannot mean that of somebody else. Raises StoreError where the store cannot answer.
    """
    result = CopyResult[C]()
    written = await _write(copies, wanted, stays, result)
    found = await copies.get(list(written)) if written else []
    for (key, copy), there in zip(written.items(), found, strict=True):
        if isinstance(there, StoreError):
            result.failed[key] = str(there)
        elif there is None or not there.has_same_content(copy):
            result.failed[key] = "its copy in the archive is not what was written; the original stays where it is"
        else:
            result.sure[key] = copy
    return result


async def _write(
    copies: Collection[C], wanted: Sequence[C], stays: Callable[[C], bool], result: CopyResult[C]
) -> dict[str, C]:
    written: dict[str, C] = {}
    waiting = list(wanted)
    for _ in range(_TRIES):
        taken: list[C] = []
        for copy, stored in zip(waiting, await copies.write(waiting), strict=True):
            if isinstance(stored, StoreError):
                result.failed[copy.key] = str(stored)
            elif stored is None:
                taken.append(copy)
            else:
                written[copy.key] = stored
        waiting = []
        for copy, there in zip(taken, await copies.get([each.key for each in taken]) if taken else [], strict=True):
            if isinstance(there, StoreError):
                result.failed[copy.key] = str(there)
            elif there is None or not stays(there):
                waiting.append(replace(cast("Any", copy), version=None) if there is None else copy.over(there))
        if not waiting:
            break
    for copy in waiting:
        result.failed[copy.key] = f"its copy was changed by others {_TRIES} times in a row"
    return written

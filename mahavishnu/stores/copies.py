"""Copies records surely: written, read back and compared, each by compare-and-set.

Who has compared a copy may remove its original at any moment. So a copy that is there is written over only by who has
seen its own original unchanged after it read the copy: then the other copy is of the same state, or of an earlier one
that nobody can remove any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from mahavishnu.model.errors import CorruptRecord, StoreError
from mahavishnu.stores.base import Collection
from mahavishnu.stores.kind import Record

_TRIES = 10


class Copy(Record, Protocol):
    """A record that holds others as they were."""

    def has_same_content(self, other: Any) -> bool: ...
    def over(self, there: Any) -> Any: ...


C = TypeVar("C", bound=Copy)
Spare = Callable[[Sequence[C]], Awaitable[Names[str]]]


@dataclass(slots=True)
class CopyResult(Generic[C]):
    """The copies that the store has as they were made, and why others are not there, both by their keys."""

    sure: dict[str, C] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


async def copy_surely(
    copies: Collection[C], wanted: Sequence[C], spare: Spare[C], over: Callable[[C, C], C] | None = None
) -> CopyResult[C]:
    """Write the copies, over what an earlier go left, and compare what is there then.

    `over` says what a copy becomes in the place of an earlier one; without it the copy's own `over` does. It may raise
    CorruptRecord.
    `spare` is asked which of the copies that are there, by their keys, are not to be written over: they are in neither
    part of the result. It has to name each whose original is not what it was when its new copy was made. A copy is
    always written anew: who withdraws one that was not needed cannot mean that of somebody else. Raises StoreError
    where the store cannot answer.
    """
    result = CopyResult[C]()
    written = await _write(copies, wanted, spare, over or (lambda copy, there: copy.over(there)), result)
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
    copies: Collection[C], wanted: Sequence[C], spare: Spare[C], over: Callable[[C, C], C], result: CopyResult[C]
) -> dict[str, C]:
    written: dict[str, C] = {}
    waiting = list(wanted)
    for _ in range(_TRIES):  # a loop of its own: `spare` is asked once about all copies there, after they were read
        taken: list[C] = []
        for copy, stored in zip(waiting, await copies.write(waiting), strict=True):
            if isinstance(stored, StoreError):
                result.failed[copy.key] = str(stored)
            elif stored is None:
                taken.append(copy)
            else:
                written[copy.key] = stored
        waiting = []
        found = await copies.get([each.key for each in taken]) if taken else []
        there_now = [there for there in found if there is not None and not isinstance(there, StoreError)]
        spared = await spare(there_now) if there_now else ()
        for copy, there in zip(taken, found, strict=True):
            if isinstance(there, StoreError):
                result.failed[copy.key] = str(there)
            elif there is None:
                waiting.append(replace(cast("Any", copy), version=None))
            elif there.key not in spared:
                try:
                    waiting.append(over(copy, there))
                except CorruptRecord as problem:  # what only that one has would be lost
                    result.failed[copy.key] = f"{problem}; the original stays where it is"
        if not waiting:
            break
    for copy in waiting:
        result.failed[copy.key] = f"its copy was changed by others {_TRIES} times in a row"
    return written

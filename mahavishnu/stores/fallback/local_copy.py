"""How the local store of a pair keeps a record that belongs into the other one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic

from mahavishnu.model.letter_parts import Version
from mahavishnu.stores.kind import Field, Kind, T

_MARK = "held_uncertain"


@dataclass(frozen=True, slots=True)
class LocalCopy(Generic[T]):
    """A record kept locally.

    While `uncertain`, its twin may exist in the primary store (an answer was lost, or it is being moved there), and
    nobody may change it: two copies that both live on could be run twice.
    """

    record: T
    uncertain: bool = False
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.record.key


@cache
def local_copy_kind(kind: Kind[T]) -> Kind[LocalCopy[T]]:
    """The kind of the copies: the same documents under the same name, and a mark on the uncertain ones.

    So the file of a plain local store can be drained too.
    """

    def encode(held: LocalCopy[T]) -> str:
        text = kind.encode(held.record)
        return f'{text[:-1]},"{_MARK}":true}}' if held.uncertain else text

    def decode(document: Mapping[str, Any], version: Version) -> LocalCopy[T]:
        return LocalCopy(kind.decode(document, version), document.get(_MARK) is True, version)

    def versioned(held: LocalCopy[T], version: Version | None) -> LocalCopy[T]:
        return LocalCopy(kind.versioned(held.record, version), held.uncertain, version)

    return Kind(
        kind.name,
        kind.index,
        encode,
        decode,
        versioned,
        tuple(
            Field(
                each.name,
                each.type,
                _value_of_copy(each, each.name == kind.due),
                each.derived,
                late=each.late,
                common=each.common,
            )
            for each in kind.fields
        ),
        kind.indexes,
    )


def _value_of_copy(field: Field[T], is_due: bool) -> Callable[[LocalCopy[T]], Any]:
    if is_due:  # nobody can take it, so nobody may find it as something to take
        return lambda held: None if held.uncertain else field.value(held.record)
    return lambda held: field.value(held.record)

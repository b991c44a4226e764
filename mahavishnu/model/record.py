"""Frozen values and records as structs: they are quickly made, changed and imported."""

from __future__ import annotations

from dataclasses import MISSING, field, fields, make_dataclass
from dataclasses import Field as DataclassField
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import replace

Version = tuple[int, ...]  # a store's mark of one state of one record; only the store that gave it reads it


def defaults_of(kind: type[Struct]) -> dict[str, Any]:
    """Return the default of each field that has one; of some it is a factory of msgspec."""
    # The first fields have none. `msgspec.structs.fields` would look for names that only type checkers import.
    pairs = zip(reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False)
    return {name: default for name, default in pairs if default is not NODEFAULT}


class _DataclassFields:
    """The fields of a struct as `dataclasses` describes them, made at first use."""

    def __get__(self, _: object, kind: type[Struct]) -> dict[str, DataclassField[Any]]:
        return _dataclass_fields(kind)


@lru_cache(None)
def _dataclass_fields(kind: type[Struct]) -> dict[str, DataclassField[Any]]:
    hints: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        hints |= vars(each).get("__annotations__", {})
    defaults, found = defaults_of(kind), []
    for name in kind.__struct_fields__:
        default = defaults.get(name, MISSING)
        factory = getattr(default, "factory", None)
        given: dict[str, Any] = {"default": default} if factory is None else {"default_factory": factory}
        found.append((name, hints[name], field(**given, compare=name != "version")))
    return {each.name: each for each in fields(make_dataclass(kind.__name__, found, kw_only=True))}


class Value(Struct, frozen=True):
    """A frozen value. `dataclasses` can replace and list its fields; `msgspec.structs` does so ten times as fast."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, DataclassField[Any]]]
    else:
        __dataclass_fields__ = _DataclassFields()


class Versioned(Value, frozen=True):
    """A value with the `version` under which a store keeps it. Two versions of the same content are equal."""

    if TYPE_CHECKING:

        @property
        def version(self) -> Version | None: ...

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return Struct.__eq__(self, replace(other, version=self.version))

    def __hash__(self) -> int:
        return Struct.__hash__(replace(self, version=None))

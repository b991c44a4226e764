"""Kinds of plain records: the codec and the searchable fields are read off a frozen dataclass."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from functools import partial
from operator import attrgetter
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.errors import CorruptRecord, MahavishnuError
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter_parts import Version
from mahavishnu.stores.kind import Field, FieldType, Kind, Outcome, T

_NULL = Json("null")
_BROKEN = (AttributeError, KeyError, OverflowError, TypeError, ValueError, MahavishnuError)


def plain_kind(
    record: type[T],
    *,
    name: str,
    index: str,
    types: Mapping[str, FieldType] = MappingProxyType({}),
    indexes: Sequence[tuple[str, ...]] = (),
    more: Sequence[Field[T]] = (),
    reunite: Callable[[T, T, datetime], Outcome[T]] | None = None,
    due: str | None = None,
) -> Kind[T]:
    """The kind of a frozen dataclass with a `key` and a `version` (last, None by default).

    Its fields may be texts, whole numbers, booleans (searched as 0 and 1), instants, enums of texts, tuples of texts,
    numbers, `Json`, small frozen dataclasses, tuples of all these and mappings from texts to them, each or None. Which
    can be searched follows from that: texts and enums are KEYWORD, tuples of them KEYWORDS, instants DATE, whole
    numbers INTEGER, `Json` JSON; the others are BLOB. `types` says otherwise for some, `more` adds derived fields. A
    field that a stored document lacks has its default, so that records may grow new ones.
    """
    shapes = _shapes(record)
    users = {field for field, shape in shapes.items() if shape.type is FieldType.JSON}
    written = [(field, shape.write, field in _omitted(record)) for field, shape in shapes.items() if field not in users]

    def encode(made: T) -> str:
        document = {}
        for field, write, omitted in written:
            value = write(getattr(made, field))
            if value is not None or not omitted:
                document[field] = value
        return json.dumps(document)

    def decode(document: Mapping[str, Any], version: Version) -> T:
        try:
            return record(**{**_values(shapes, document), "version": version})
        except _BROKEN as problem:
            named = document.get(next(iter(shapes))) if isinstance(document, Mapping) else None
            raise CorruptRecord(str(named), str(problem)) from problem

    def searched(field: str, shape: _Shape) -> Field[T]:
        type_ = types.get(field, shape.type)
        if field in users:
            return Field(field, type_, lambda made: _NULL if (value := getattr(made, field)) is None else value)
        if shape.as_is:
            return Field(field, type_, attrgetter(field), path=field)
        return Field(field, type_, lambda made: shape.term(getattr(made, field)))

    return Kind(
        name=name,
        index=index,
        encode=encode,
        decode=decode,
        versioned=lambda made, version: replace(made, version=version),  # type: ignore[type-var]
        fields=(*(searched(field, shape) for field, shape in shapes.items()), *more),
        indexes=tuple(indexes),
        reunite=reunite,
        due=due,
        lazy=True,  # letters are what an app cannot do without
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a value of one type is written as JSON, and read without trust; `as_is`: it is searched as it is."""

    type: FieldType
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    as_is: bool = False

    def term(self, value: Any) -> Any:
        written = self.write(value)
        return tuple(written) if self.type is FieldType.KEYWORDS else written

    def or_none(self) -> _Shape:
        return _Shape(self.type, partial(_unless_none, self.write), partial(_unless_none, self.read), self.as_is)


def _unless_none(function: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else function(value)


def _shapes(record: type[Any]) -> dict[str, _Shape]:
    hints = get_type_hints(record)
    return {each.name: _shape(hints[each.name]) for each in fields(record) if each.name != "version"}


def _omitted(record: type[Any]) -> set[str]:
    """Fields that need not be written while they are None, because that is what they are without being read."""
    return {each.name for each in fields(record) if each.default is None}


def _values(shapes: Mapping[str, _Shape], document: Mapping[str, Any]) -> dict[str, Any]:
    return {field: shape.read(document[field]) for field, shape in shapes.items() if field in document}


def _shape(hint: Any) -> _Shape:
    origin, inside = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin in (Union, UnionType) and len(inside) == 2 and NoneType in inside:
        return _shape(next(each for each in inside if each is not NoneType)).or_none()
    if origin is tuple and inside[1:] == (...,):
        return _several(_shape(inside[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping) and inside[0] is str:
        return _mapping(_shape(inside[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Shape(FieldType.KEYWORD, attrgetter("value"), hint, as_is=issubclass(hint, str))
    if isinstance(hint, type) and is_dataclass(hint):
        return _nested(hint)
    raise TypeError(f"a plain record cannot have a field of type {hint}")


def _several(each: _Shape) -> _Shape:
    def read(values: Any) -> tuple[Any, ...]:
        if not isinstance(values, list):
            raise TypeError(f"{values!r:.80} should be a list")
        return tuple(map(each.read, values))

    are_texts = each.type is FieldType.KEYWORD
    type_ = FieldType.KEYWORDS if are_texts else FieldType.BLOB
    return _Shape(type_, lambda values: [each.write(value) for value in values], read, are_texts and each.as_is)


def _mapping(each: _Shape) -> _Shape:
    def write(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: each.write(value) for name, value in values.items()}

    def read(values: Any) -> dict[str, Any]:
        return {name: each.read(value) for name, value in values.items()}

    return _Shape(FieldType.BLOB, write, read)


def _nested(record: type[Any]) -> _Shape:
    shapes = _shapes(record)

    def write(made: Any) -> dict[str, Any]:
        return {field: shape.write(getattr(made, field)) for field, shape in shapes.items()}

    def read(document: Any) -> Any:
        if not isinstance(document, dict):
            raise TypeError(f"{document!r:.80} should be an object")
        return record(**_values(shapes, document))

    return _Shape(FieldType.BLOB, write, read)


def _same(value: Any) -> Any:
    return value


def _one_of(*types: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError(f"{value!r:.80} should be {' or '.join(each.__name__ for each in types)}")
        return value

    return read


def _moment(text: Any) -> datetime:
    return instant(datetime.fromisoformat(text))


def _flag(value: Any) -> bool:
    if value not in (0, 1):
        raise TypeError(f"{value!r:.80} should be 0 or 1")
    return bool(value)


def _number(value: Any) -> float:
    return float(_one_of(int, float)(value))


_SCALARS: Mapping[Any, _Shape] = {
    str: _Shape(FieldType.KEYWORD, _same, _one_of(str), as_is=True),
    int: _Shape(FieldType.INTEGER, _same, _one_of(int), as_is=True),
    bool: _Shape(FieldType.INTEGER, int, _flag),
    float: _Shape(FieldType.BLOB, _same, _number),
    datetime: _Shape(FieldType.DATE, instant_text, _moment, as_is=True),
    Json: _Shape(FieldType.JSON, attrgetter("value"), Json.parsed),
}

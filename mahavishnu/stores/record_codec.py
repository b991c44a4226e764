"""Kinds whose codec and searchable fields are read off a record; msgspec checks what is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from types import GenericAlias, MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Struct, UnsetType, defstruct
from msgspec.structs import astuple, replace

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import CorruptRecord, MahavishnuError
from mahavishnu.model.json_value import Json
from mahavishnu.model.record import Value, Version, defaults_of
from mahavishnu.stores.kind import Field, FieldType, Kind, ReconcileResult, T, instant_text

UNREADABLE = (AttributeError, OverflowError, TypeError, ValueError, MahavishnuError)  # ValueError: also msgspec's own
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_PLACE = re.compile(r"^(.*) - at `\$\.([^`]*)`$", re.DOTALL)
_NULL = Json("null")


def json_text(value: Any) -> str:
    """`value` as JSON text in ASCII, so that it can go anywhere; msgspec alone writes UTF-8, and no lone surrogates."""
    try:
        if (data := _encode(value)).isascii():
            return data.decode()
    except UnicodeEncodeError:
        pass
    return json.dumps(msgspec.to_builtins(value, enc_hook=_builtin), separators=(",", ":"))


def _builtin(value: Any) -> Any:
    """Convert texts and numbers of a class of their own, and raw JSON, which msgspec does not take."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    raise TypeError(f"a document cannot hold a {type(value).__name__}")


_encode = msgspec.json.Encoder(enc_hook=_builtin).encode
S = TypeVar("S", bound=msgspec.Struct)


def converter_to(struct: type[S]) -> Callable[[Any], S]:
    """Return a thread-safe function from documents to structs: msgspec's first use of one in two threads crashes."""
    msgspec.json.Decoder(struct)
    return lambda document: msgspec.convert(document, struct)


@lru_cache(4096)  # many records have the same instants, and a record often has one several times
def read_instant(text: str) -> datetime:
    """The instant that a document spells so. Raises ValueError and InvalidInput."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is UTC else instant(moment)


def why_unreadable(problem: Exception) -> str:
    """Return the message of one of the UNREADABLE in our words."""
    return _PLACE.sub(r"\2: \1", _MISSING.sub(r"it has no '\1'", str(problem)))


def set_version(record: Any, version: Version | None) -> Any:
    """Return the record as it is stored under this version."""
    return replace(record, version=version)


def record_kind(
    record: type[T],
    *,
    name: str,
    index: str,
    types: Mapping[str, FieldType] = MappingProxyType({}),
    indexes: Sequence[tuple[str, ...]] = (),
    more: Sequence[Field[T]] = (),
    reconcile: Callable[[T, T, datetime], ReconcileResult[T]] | None = None,
    due: str | None = None,
    key: str = "key",
) -> Kind[T]:
    """The kind of a record with a `key` and a `version` (last, None by default).

    Its fields may be texts, whole numbers, booleans (searched as 0 and 1), instants, enums of texts, tuples of texts,
    numbers, `Json`, small frozen structs, tuples of all these and mappings from texts to them, each or None. Which
    can be searched follows from that: texts and enums are KEYWORD, tuples of them KEYWORDS, instants DATE, whole
    numbers INTEGER, `Json` JSON; the others are BLOB. `types` says otherwise for some, `more` adds derived fields. A
    field that a stored document lacks has its default, so that records may grow new ones.
    """
    form = _RecordForm(record, is_part=False)
    users = {field: place for place, (field, each) in enumerate(form.fields.items()) if each.type is FieldType.JSON}
    places = tuple(users.values())

    def encode(made: T) -> str:
        return json_text(form.write(made, places))

    def decode(document: Mapping[str, Any], version: Version) -> T:
        try:
            made: T = form.read(msgspec.convert(document, form.json), version=version)
            return made
        except UNREADABLE as problem:
            named = document.get(next(iter(form.fields))) if isinstance(document, Mapping) else None
            raise CorruptRecord(str(named), why_unreadable(problem)) from problem

    read_text = msgspec.json.Decoder(form.json).decode

    def decode_text(text: str, version: Version) -> T | None:
        try:
            made: T = form.read(read_text(text), version=version)
            return made
        except (*UNREADABLE, RecursionError):
            return None  # `decode` looks what it is

    def search_field(field: str, each: _Form) -> Field[T]:
        type_ = types.get(field, each.type)
        if field in users:
            return Field(field, type_, lambda made: _NULL if (value := getattr(made, field)) is None else value)
        if each.as_is:
            return Field(field, type_, attrgetter(field), path=field)
        return Field(field, type_, lambda made: each.term(getattr(made, field)))

    return Kind(
        name=name,
        index=index,
        encode=encode,
        decode=decode,
        decode_text=decode_text,
        versioned=set_version,
        fields=(*(search_field(field, each) for field, each in form.fields.items()), *more),
        indexes=tuple(indexes),
        reconcile=reconcile,
        due=due,
        key=key,
        lazy=True,  # letters are what an app cannot do without
    )


def _same(value: Any) -> Any:
    return value


class _Form(Value, frozen=True):
    """Form of values of one type in a document: their type there, and how they get there and back."""

    json: Any
    type: FieldType = FieldType.BLOB
    write: Callable[[Any], Any] = _same
    read: Callable[[Any], Any] = _same
    as_is: bool = False  # a search compares the value itself

    def term(self, value: Any) -> Any:
        """Return the value that a search compares."""
        written = self.write(value)
        return tuple(written) if self.type is FieldType.KEYWORDS else written


class _RecordForm:
    """Form of a record: `json` is its document's struct, `write` makes that of a record, and `read` a record of it.

    A document that is no part of another one leaves out what is None by default, and the fields `without`.
    """

    def __init__(self, record: Any, *, is_part: bool) -> None:
        hints = get_type_hints(record)
        self._record = record
        self._names = tuple(name for name in record.__struct_fields__ if name != "version")
        self.fields = {name: _form(hints[name]) for name in self._names}
        defaults = defaults_of(record)
        members: list[Any] = []
        for name, form in self.fields.items():
            if (default := defaults.get(name, NODEFAULT)) is NODEFAULT:
                members.append((name, form.json))
            else:
                members.append((name, form.json | UnsetType, None if default is None else UNSET))
        self.json = defstruct(record.__name__, members, omit_defaults=not is_part, kw_only=True)
        self._values_of = attrgetter(*self._names, self._names[0])  # of one name alone it would give no tuple
        self._writers = [
            (self._names.index(name), form.write) for name, form in self.fields.items() if form.write is not _same
        ]
        self._readers = [(name, form.read) for name, form in self.fields.items() if form.read is not _same]

    def write(self, record: Any, without: Sequence[int] = ()) -> Any:
        """Return the document of a record, without the fields at these places."""
        values = list(self._values_of(record))
        for place in without:
            values[place] = UNSET
        for place, write in self._writers:
            if values[place] is not UNSET:
                values[place] = write(values[place])
        return self.json(**dict(zip(self._names, values, strict=False)))

    def read(self, document: Any, **more: Any) -> Any:
        """Return the record of a document; a missing field has its default."""
        known = {name: value for name, value in zip(self._names, astuple(document), strict=True) if value is not UNSET}
        for name, read in self._readers:
            if name in known:
                known[name] = read(known[name])
        return self._record(**known, **more)


def _form(hint: Any) -> _Form:
    origin, inside = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin in (Union, UnionType) and len(inside) == 2 and NoneType in inside:
        return _or_none(_form(next(each for each in inside if each is not NoneType)))
    if origin is tuple and inside[1:] == (...,):
        return _several(_form(inside[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping) and inside[0] is str:
        each = _form(inside[1])
        return _Form(GenericAlias(dict, (str, each.json)), FieldType.BLOB, _in_each(each.write), _in_each(each.read))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Form(hint, FieldType.KEYWORD, attrgetter("value"), as_is=issubclass(hint, str))
    if isinstance(hint, type) and issubclass(hint, Struct):
        record = _RecordForm(hint, is_part=True)
        return _Form(record.json, FieldType.BLOB, record.write, record.read)
    raise TypeError(f"a record cannot have a field of type {hint}")


def _or_none(form: _Form) -> _Form:
    write, read = form.write, form.read
    return replace(
        form,
        json=form.json | None,
        write=_same if write is _same else lambda value: None if value is None else write(value),
        read=_same if read is _same else lambda value: None if value is None else read(value),
    )


def _several(each: _Form) -> _Form:
    are_texts = each.type is FieldType.KEYWORD
    write, read = each.write, each.read
    return _Form(
        GenericAlias(tuple, (each.json, ...)),
        FieldType.KEYWORDS if are_texts else FieldType.BLOB,
        list if write is _same else lambda values: [write(value) for value in values],
        _same if read is _same else lambda values: tuple([read(value) for value in values]),
        as_is=are_texts and each.as_is,
    )


def _in_each(change: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda values: {name: change(value) for name, value in values.items()}


_SCALARS: Mapping[Any, _Form] = {
    str: _Form(str, FieldType.KEYWORD, as_is=True),
    int: _Form(int, FieldType.INTEGER, as_is=True),
    bool: _Form(bool | Literal[0, 1], FieldType.INTEGER, int, bool),
    float: _Form(float),
    datetime: _Form(str, FieldType.DATE, instant_text, read_instant, as_is=True),
    Json: _Form(Any, FieldType.JSON, attrgetter("value"), Json.from_parsed),
}

"""Kinds whose codec and searchable fields are read off a frozen dataclass; msgspec checks what is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from types import GenericAlias, MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import CorruptRecord, MahavishnuError
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter_parts import Version, compile_function, draft_copier, fast_constructor
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


def dataclass_kind(
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
    """The kind of a frozen dataclass with a `key` and a `version` (last, None by default).

    Its fields may be texts, whole numbers, booleans (searched as 0 and 1), instants, enums of texts, tuples of texts,
    numbers, `Json`, small frozen dataclasses, tuples of all these and mappings from texts to them, each or None. Which
    can be searched follows from that: texts and enums are KEYWORD, tuples of them KEYWORDS, instants DATE, whole
    numbers INTEGER, `Json` JSON; the others are BLOB. `types` says otherwise for some, `more` adds derived fields. A
    field that a stored document lacks has its default, so that records may grow new ones.
    """
    form = _RecordForm(record)
    users = {field for field, each in form.fields.items() if each.type is FieldType.JSON}
    as_document = form.compile_writer(without=users)

    def encode(made: T) -> str:
        return json_text(as_document(made))

    def decode(document: Mapping[str, Any], version: Version) -> T:
        try:
            made: T = form.read(msgspec.convert(document, form.json), version)
            return made
        except UNREADABLE as problem:
            named = document.get(next(iter(form.fields))) if isinstance(document, Mapping) else None
            raise CorruptRecord(str(named), why_unreadable(problem)) from problem

    read_text = msgspec.json.Decoder(form.json).decode

    def decode_text(text: str, version: Version) -> T | None:
        try:
            made: T = form.read(read_text(text), version)
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
        versioned=_version_setter(record),
        fields=(*(search_field(field, each) for field, each in form.fields.items()), *more),
        indexes=tuple(indexes),
        reconcile=reconcile,
        due=due,
        key=key,
        lazy=True,  # letters are what an app cannot do without
    )


def _version_setter(record: type[T]) -> Callable[[T, Version | None], T]:
    """Return what puts a version on a record: with slots, in a fifth of the time that `replace` takes."""
    if "__slots__" not in vars(record):
        return lambda made, version: replace(made, version=version)  # type: ignore[type-var]
    copied = draft_copier(record)

    def set_version(made: T, version: Version | None) -> T:
        draft = copied(made)
        draft.version = version
        draft.__class__ = record
        return cast("T", draft)

    return set_version


def _constructor(record: type[Any]) -> Any:
    """Return a quick constructor of the record: the class itself if it does more than keep its values."""
    makes_more = hasattr(record, "__post_init__") or any(each.default_factory is not MISSING for each in fields(record))
    return record if makes_more or "__slots__" not in vars(record) else fast_constructor(record)


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class _Form:
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
    """Form of a dataclass: `json` is its struct, `read` makes a record. Compiled: loops would take twice as long."""

    def __init__(self, record: type[Any]) -> None:
        hints = get_type_hints(record)
        self._known = [each for each in fields(record) if each.name != "version"]
        self.fields = {each.name: _form(hints[each.name]) for each in self._known}
        self.json = msgspec.defstruct(
            record.__name__,
            [
                (name, form.json) if _is_required(each) else (name, form.json | UnsetType, UNSET)
                for each, (name, form) in zip(self._known, self.fields.items(), strict=True)
            ],
            kw_only=True,
        )
        self.write = self.compile_writer(whole=True)  # of a record inside of another one
        self.read = self._compile_reader(record)

    def compile_writer(self, without: Collection[str] = (), whole: bool = False) -> Callable[[Any], dict[str, Any]]:
        """Compile what makes a document of a record: `whole`, or without values that are None by default."""
        scope: dict[str, Any] = {}
        lines = ["document = {}"]
        for each in self._known:
            name, write = each.name, self.fields[each.name].write
            if name in without:
                continue
            scope[f"_{name}"] = write
            value = f"record.{name}" if write is _same else f"_{name}(record.{name})"
            if each.default is None and not whole:
                lines.append(f"if (value := {value}) is not None: document[{name!r}] = value")
            else:
                lines.append(f"document[{name!r}] = {value}")
        written: Callable[[Any], dict[str, Any]] = compile_function("record", [*lines, "return document"], scope)
        return written

    def _compile_reader(self, record: type[Any]) -> Callable[..., Any]:
        """Compile what makes a record of a document; a missing field has its default."""
        scope: dict[str, Any] = {"Record": _constructor(record), "UNSET": UNSET}
        values: list[str] = []
        for each in self._known:
            name, read = each.name, self.fields[each.name].read
            scope[f"_read_{name}"] = read
            value = "{}" if read is _same else f"_read_{name}({{}})"
            if _is_required(each):
                values.append(f"{name}={value.format(f'document.{name}')}")
                continue
            by_factory = each.default is MISSING
            scope[f"_{name}"] = each.default_factory if by_factory else each.default
            default = f"_{name}()" if by_factory else f"_{name}"
            values.append(f"{name}={default} if (value := document.{name}) is UNSET else {value.format('value')}")
        made = f"Record({', '.join(values)}"
        lines = [f"return {made}) if version is UNSET else {made}, version=version)"]
        read_record: Callable[..., Any] = compile_function("document, version=UNSET", lines, scope)
        return read_record


def _is_required(field: Any) -> bool:
    return field.default is field.default_factory is MISSING


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
    if isinstance(hint, type) and is_dataclass(hint):
        record = _RecordForm(hint)
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

"""Values of single types as plain JSON and back: numbers, instants, paths, bytes; plugins add further ones."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from mahavishnu.model.errors import InvalidInput

SMALLEST_INT, LARGEST_INT = -(2**63), 2**64 - 1  # what every parser of JSON that meets a payload can hold
_FOLD = "fold=1"
_Moment = datetime | time


@dataclass(frozen=True, slots=True)
class ValueKind:
    """Conversion of values of exactly one type to plain JSON that a person can edit, and back.

    `to_plain` raises ValueError for a value that cannot come back, `from_plain` for JSON that is no such value. `what`
    says in messages what such a value is, as in "a Decimal". `name` stands beside the payload.
    """

    type: type
    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]
    what: str = ""
    name: str = ""

    @property
    def article_and_name(self) -> str:
        """Name of such a value in messages."""
        return self.what or f"of the kind {self.name!r}"


def kinds_by_type(further: Iterable[ValueKind] = ()) -> Mapping[type, ValueKind]:
    """The built-in kinds and further ones, by their types."""
    return {**_BY_TYPE, **{kind.type: kind for kind in further}} if further else _BY_TYPE


def kinds_by_name(further: Iterable[ValueKind] = ()) -> Mapping[str, ValueKind]:
    """The built-in kinds and further ones, by their names."""
    return {**_BY_NAME, **{kind.name: kind for kind in further}} if further else _BY_NAME


def named_kind(name: str, kind: Any) -> ValueKind:
    """A further kind under its name. Raises InvalidInput for what is none, and for what is built in."""
    if not isinstance(kind, ValueKind):
        raise InvalidInput(f"a kind of values is a ValueKind, not {kind!r:.80}")
    if not name.replace("-", "_").replace(".", "_").isidentifier():
        raise InvalidInput(f"a kind of values is named by letters, digits, '.', '-' and '_', not {name!r:.80}")
    if name in RESERVED or kind.type in _BY_TYPE or kind.type in _PLAIN_TYPES:
        raise InvalidInput(f"the kind {name!r} of {kind.type.__name__} is built in: it cannot be replaced")
    return replace(kind, name=name)


def _text(plain: Any) -> str:
    if type(plain) is not str:
        raise ValueError("it is no text")
    return plain


def _decimal(plain: Any) -> Decimal:
    if isinstance(plain, bool) or not isinstance(plain, str | int | float):
        raise ValueError("it is neither text nor a number")
    try:
        return Decimal(str(plain))
    except ArithmeticError as problem:
        raise ValueError("it is no decimal number, such as 12.50") from problem


def _int(plain: Any) -> int:
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        raise ValueError("it is no whole number")
    return int(plain)


def _float(plain: Any) -> float:
    if isinstance(plain, bool) or not isinstance(plain, str | int | float):
        raise ValueError("it is no number")
    return float(plain)


def _timedelta(plain: Any) -> timedelta:
    """From a number of seconds, or from text as `str` writes it: `[-][D day[s], ]H:MM:SS[.ffffff]`."""
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        try:
            return timedelta(seconds=plain)
        except OverflowError as problem:
            raise ValueError(str(problem)) from problem
    days, mark, clock = _text(plain).rpartition(", ")
    count = days.removesuffix("s").removesuffix(" day") if mark else "0"
    try:
        hours, minutes, seconds = clock.split(":")
        whole, _, parts = seconds.partition(".")
        micros = int(parts.ljust(6, "0")) if parts else 0
        return timedelta(
            days=int(count), hours=int(hours), minutes=int(minutes), seconds=int(whole), microseconds=micros
        )
    except (OverflowError, ValueError) as problem:
        raise ValueError("it is neither a number of seconds nor a duration, such as '1 day, 2:30:00'") from problem


def _timedelta_plain(value: timedelta) -> float | str:
    seconds = value.total_seconds()
    try:
        if timedelta(seconds=seconds) == value:
            return seconds
    except OverflowError:  # the longest ones, rounded up
        pass
    return str(value)  # longer than 285 years: a float no longer holds the microseconds


def _bytes(plain: Any) -> bytes:
    try:
        return base64.b64decode(_text(plain), validate=True)
    except binascii.Error as problem:
        raise ValueError(f"it is no base64: {problem}") from problem


def _moment_plain(value: _Moment) -> str:
    """ISO 8601, and the zone after it, as in RFC 9557: `2026-11-19T10:00:00+01:00[Europe/Berlin]`."""
    text, zone = value.isoformat(), value.tzinfo
    if isinstance(zone, ZoneInfo):
        if not zone.key:
            raise ValueError("has a time zone without a name")
        fixed = timezone(value.utcoffset() or timedelta())
        if isinstance(value, datetime) and _in_zone(value.replace(tzinfo=fixed), zone) is None:
            raise ValueError("has an offset that text cannot hold")
        return f"{text}[{zone.key}]" if isinstance(value, datetime) or not value.fold else f"{text}[{zone.key},{_FOLD}]"
    if zone is not None and zone.utcoffset(None) is None:
        raise ValueError(f"has a time zone of type {type(zone).__name__}, which is neither fixed nor a ZoneInfo")
    return f"{text}[{_FOLD}]" if value.fold else text


@lru_cache(64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except Exception as problem:  # such as of a name that is a path
        raise ValueError(f"there is no time zone {name!r} here") from problem


def _in_zone(moment: datetime, zone: ZoneInfo) -> datetime | None:
    """The same reading of the clock in the zone, if that has its offset then; without an offset, the first one."""
    for fold in (0, 1):
        there = moment.replace(tzinfo=zone, fold=fold)
        if moment.tzinfo is None or there.utcoffset() == moment.utcoffset():
            return there
    return None


def _suffixes(text: str) -> tuple[str, str | None, int]:
    """The text without what stands in brackets, the zone there, and the fold."""
    if not text.endswith("]") or "[" not in text:
        return text, None, 0
    text, _, inside = text[:-1].partition("[")
    parts = inside.split(",")
    zones = [part for part in parts if part != _FOLD]
    return text, zones[0] if zones else None, int(_FOLD in parts)


def _datetime(plain: Any) -> datetime:
    text, name, fold = _suffixes(_text(plain))
    moment = datetime.fromisoformat(text)
    if name is None:
        return moment.replace(fold=fold)
    there = _in_zone(moment, _zone(name))
    if there is None:
        raise ValueError(f"{name} does not have that offset then; leave the offset out")
    return there


def _time(plain: Any) -> time:
    text, name, fold = _suffixes(_text(plain))
    moment = time.fromisoformat(text).replace(fold=fold)
    return moment if name is None else moment.replace(tzinfo=_zone(name))


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode()


BUILT_IN: tuple[ValueKind, ...] = (
    ValueKind(Decimal, str, _decimal, "a Decimal", "decimal"),
    ValueKind(datetime, _moment_plain, _datetime, "a datetime", "datetime"),
    ValueKind(date, date.isoformat, lambda plain: date.fromisoformat(_text(plain)), "a date", "date"),
    ValueKind(time, _moment_plain, _time, "a time", "time"),
    ValueKind(timedelta, _timedelta_plain, _timedelta, "a timedelta", "timedelta"),
    ValueKind(UUID, str, lambda plain: UUID(_text(plain)), "a UUID", "uuid"),
    ValueKind(type(Path()), str, lambda plain: Path(_text(plain)), "a Path", "path"),
    ValueKind(PurePosixPath, str, lambda plain: PurePosixPath(_text(plain)), "a PurePosixPath", "pure-posix-path"),
    ValueKind(
        PureWindowsPath, str, lambda plain: PureWindowsPath(_text(plain)), "a PureWindowsPath", "pure-windows-path"
    ),
    ValueKind(bytes, _base64, _bytes, "bytes as base64", "bytes"),
    ValueKind(bytearray, _base64, lambda plain: bytearray(_bytes(plain)), "a bytearray as base64", "bytearray"),
    ValueKind(complex, str, lambda plain: complex(_text(plain)), "a complex number", "complex"),
)
#: For numbers that JSON, or parsers of it, do not have.
LARGE_INT = ValueKind(int, str, _int, "a whole number", "int")  # `str` raises ValueError above 4300 digits
SPECIAL_FLOAT = ValueKind(float, repr, _float, "a number", "float")
_PLAIN_TYPES = frozenset([str, int, float, bool, type(None), dict, list, tuple, set, frozenset])
_BY_TYPE: Mapping[type, ValueKind] = {kind.type: kind for kind in BUILT_IN}
_BY_NAME: Mapping[str, ValueKind] = {kind.name: kind for kind in (*BUILT_IN, LARGE_INT, SPECIAL_FLOAT)}
#: Names that no plugin can give.
RESERVED = frozenset(
    {*_BY_NAME, "tuple", "set", "frozenset", "dict", "ordered-dict", "exact", "lost"}
    | {"enum", "dataclass", "namedtuple", "model"}
)


# ------------------------------------------------------------------------------- values of classes, and equal values


def qualified_name(kind: type) -> str:
    """The name of a class with its module, as kinds have it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def members_of(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the sort of the value's class, and the values to make it of again; None for any other class."""
    kind = type(value)
    if isinstance(value, type) or hasattr(kind, "_sa_class_manager"):  # a row of a database, with its session
        return None
    if isinstance(value, tuple):
        names = getattr(kind, "_fields", None)
        return None if names is None else ("namedtuple", dict(zip(names, value, strict=True)))
    if is_dataclass(value):
        return "dataclass", {each.name: getattr(value, each.name) for each in fields(value) if each.init}
    return ("model", _model_members(value)) if hasattr(kind, "__pydantic_fields__") else None


def _model_members(model: Any) -> dict[str, Any]:
    """Return the values to make a pydantic model of again: defaults are left out, so that they stay unset."""
    members = {}
    for name, info in type(model).__pydantic_fields__.items():
        value = getattr(model, name)
        if name in model.__pydantic_fields_set__ or not (
            type(value) is type(info.default) and same_value(value, info.default)
        ):
            members[name] = value
    return {**members, **(model.__pydantic_extra__ or {})}


def same_value(one: Any, other: Any) -> bool:
    """Return whether values and types are equal, inside too: NaN is NaN, 1 is not True. Raises what they raise."""
    kind = type(one)
    if one is other:
        return True
    if kind is not type(other):
        return False
    if kind is Decimal:
        return bool(one.as_tuple() == other.as_tuple())  # of NaN too, and it does not take 1.0 for 1.00
    if kind is float:
        return (math.isnan(one) and math.isnan(other)) or (one == other and repr(one) == repr(other))
    if kind is complex:
        return repr(one) == repr(other)
    if kind in (datetime, time):
        return _moment_plain(one) == _moment_plain(other)  # equal ones may be of different zones
    if isinstance(one, dict):
        return len(one) == len(other) and all(map(same_value, one, other)) and _all_same(one.values(), other.values())
    if isinstance(one, list | tuple):
        return _all_same(one, other)
    if isinstance(one, set | frozenset):
        there = {each: each for each in other}
        return len(one) == len(other) and all(each in there and same_value(each, there[each]) for each in one)
    if isinstance(one, Enum):
        return False  # not the same member
    if is_dataclass(one) and not isinstance(one, type):
        known = {each.name for each in fields(one)}
        same = all(same_value(getattr(one, name), getattr(other, name)) for name in known)
        return same and _has_same_attributes(one, other, known)
    if hasattr(kind, "__pydantic_fields__"):
        names = ("__dict__", "__pydantic_extra__", "__pydantic_private__")
        return all(same_value(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


def _has_same_attributes(one: Any, other: Any, known: Collection[str]) -> bool:
    """Return True if both have the same beside their `known` fields, but for what their class computes."""
    mine, theirs = getattr(one, "__dict__", {}), getattr(other, "__dict__", {})
    more = [name for name in {*mine, *theirs}.difference(known) if not hasattr(type(one), name)]
    if not all(name in mine and name in theirs and type(mine[name]) is type(theirs[name]) for name in more):
        return False
    # A lock, say, which `__post_init__` makes, equals no other one.
    equal = [name for name in more if any("__eq__" in vars(each) for each in type(mine[name]).__mro__[:-1])]
    return all(same_value(mine[name], theirs[name]) for name in equal)


def _all_same(some: Collection[Any], others: Collection[Any]) -> bool:
    return len(some) == len(others) and all(map(same_value, some, others))


def find_class(name: str, classes: Mapping[str, type]) -> type:
    """The class of this qualified name, or the only one with its last part: modules are renamed, and run as scripts."""
    if name in classes:
        return classes[name]
    near = {each for each in classes.values() if name.endswith(f".{each.__qualname__}")}
    if len(near) != 1:
        raise LookupError(f"the function's hints name no class {name}")
    return near.pop()


def reason_of(problem: Exception) -> str:
    """Return the problem on one line: of a pydantic error each field with its problem."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem) or type(problem).__name__
    found = [(".".join(map(str, each["loc"])), each["msg"]) for each in errors()]
    return "; ".join(f"{where}: {message}" if where else message for where, message in found)

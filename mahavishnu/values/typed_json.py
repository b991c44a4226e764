"""Python values as plain JSON, with how to read them again kept beside it.

`write({"amount": Decimal("12.50")})` is `({"amount": "12.50"}, {"/amount": "decimal"})`: the JSON is what a person
reads and edits, the other a flat object from JSON pointers to kinds. A kind is one of `value_kinds`, `tuple`, `set`,
`frozenset`, `ordered-dict`, `dict:<kind of its keys>`, or one of a class that is restored only if the caller hands it
in: `enum:…`, `dataclass:…`, `namedtuple:…`, `model:…` with its qualified name. `exact` is JSON that was given where a
hint names something else; `lost:<type>` stands for a value that could not be written. `/-` at the end of the pointer of
a list means each of its elements.
"""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from msgspec import Struct, field

from mahavishnu.model.errors import CannotRestore, InvalidPayload
from mahavishnu.model.json_value import (
    EMPTY,
    MAX_DEPTH,
    Json,
    label_of,
    nesting_depth,
    pointer_step,
    type_label,
    unescape,
)
from mahavishnu.model.letter_parts import LOST
from mahavishnu.values.kinds import (
    LARGE_INT,
    LARGEST_INT,
    SMALLEST_INT,
    SPECIAL_FLOAT,
    ValueKind,
    find_class,
    kinds_by_name,
    kinds_by_type,
    members_of,
    qualified_name,
    reason_of,
)

Types = dict[str, str]  # JSON pointer → kind
Convert = Callable[[type, str, Any, str], Any]
EACH = "-"  # in place of an element's place: each of them
EXACT = "exact"
MASKED = "masked"  # in place of the type of what is lost
_NO_TYPES: Types = {}
_TEXT = frozenset([str])
_ALWAYS_PLAIN = frozenset([str, bool, type(None)])
_SCALARS = frozenset([*_ALWAYS_PLAIN, int, float])
_LONG_NUMBER = re.compile("[0-9]{19}")
_SEQUENCES: Mapping[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}
_CLASSES = frozenset(["enum", "dataclass", "namedtuple", "model"])
_MAKERS: Mapping[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class TypeTree(Struct):
    """Kind of a part of a payload, and those of its parts by name or place."""

    kind: str | None = None
    parts: dict[str, TypeTree] = field(default_factory=dict)

    def part(self, step: str | int) -> TypeTree | None:
        """Return what is known of a member, or of an element by its place, with what is said of all elements."""
        own = self.parts.get(str(step))
        if isinstance(step, str) or (each := self.parts.get(EACH)) is None:
            return own
        return each if own is None else each.with_details(own)

    def with_details(self, other: TypeTree) -> TypeTree:
        """The same, where `other` says nothing else."""
        both = TypeTree(other.kind or self.kind, {**self.parts, **other.parts})
        for name in self.parts.keys() & other.parts.keys():
            both.parts[name] = self.parts[name].with_details(other.parts[name])
        return both


def tree_of(types: Mapping[str, str]) -> TypeTree:
    """The flat types as a tree."""
    root = TypeTree()
    for path, kind in types.items():
        node = root
        for step in path.split("/")[1:]:
            node = node.parts.setdefault(unescape(step), TypeTree())
        node.kind = kind
    return root


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def write_json(value: Any, kinds: Iterable[ValueKind] = (), name: str = "task") -> tuple[Json, Json]:
    """Return the value as JSON and its types (`EMPTY` if plain), nearly as fast as `Json.of`. Raises InvalidPayload."""
    if (text := plain_text(value)) is not None:
        return Json(text), EMPTY
    value, types = write(value, kinds, name)
    return Json.of(value, name), Json.of(types) if types else EMPTY


def plain_text(value: Any) -> str | None:
    """The JSON text if JSON has all of the value, with these types, so that it comes back as it is; else None."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    if not _has_plain_types(value) or nesting_depth(text) > MAX_DEPTH:
        return None
    return text if _LONG_NUMBER.search(text) is None or _has_small_ints(value) else None


def _has_plain_types(value: Any) -> bool:
    """Return True if all types are exactly those of JSON, and all keys are text. It does not contain itself."""
    waiting = [value]
    for each in waiting:  # more of them come while it goes on
        kind = type(each)
        if kind in _SCALARS:
            continue
        if kind is dict:
            if not _TEXT.issuperset(map(type, each)):
                return False
            inside = each.values()
        elif kind is list:
            inside = each
        else:
            return False
        if not _SCALARS.issuperset(map(type, inside)):
            waiting += inside
    return True


def _has_small_ints(value: Any) -> bool:
    waiting = [value]
    for each in waiting:
        if type(each) is int and not SMALLEST_INT <= each <= LARGEST_INT:
            return False
        waiting += each.values() if type(each) is dict else each if type(each) is list else ()
    return True


def write(value: Any, kinds: Iterable[ValueKind] = (), name: str = "task") -> tuple[Any, Types]:
    """Return the value as plain JSON, and its types by path. Raises InvalidPayload, naming what cannot come back."""
    return _Writer(kinds, name, None).write(value)


def write_all(
    value: Any, describe: Callable[[Any], Any], kinds: Iterable[ValueKind] = (), classes: dict[str, type] | None = None
) -> tuple[Any, Types, dict[str, str]]:
    """Write as `write` does, with `describe(part)` for each part that is `lost`; and why, by path.

    The classes of the parts are noted in `classes`.

    >>> plain, types, lost = write_all({"job": print, "to": {1, 2}}, lambda part: "?")
    >>> plain, types, list(lost)
    ({'job': '?', 'to': [1, 2]}, {'/job': 'lost:builtin_function_or_method', '/to': 'set'}, ['/job'])
    """
    writer = _Writer(kinds, "", describe)
    plain, types = writer.write(value)
    if classes is not None:
        classes.update(writer.classes)
    return plain, types, writer.lost


class _Writer:
    """Writes one value. The methods return the JSON of a part, and its types relative to it."""

    def __init__(self, kinds: Iterable[ValueKind], name: str, describe: Callable[[Any], Any] | None) -> None:
        self._kinds, self._name, self._describe = kinds_by_type(tuple(kinds)), name, describe
        self.lost: dict[str, str] = {}
        self.classes: dict[str, type] = {}

    def write(self, value: Any, path: str = "", inside: tuple[int, ...] = ()) -> tuple[Any, Types]:
        kind = type(value)
        if kind in _ALWAYS_PLAIN:
            return value, _NO_TYPES
        try:
            if kind is int:
                return (value, _NO_TYPES) if SMALLEST_INT <= value <= LARGEST_INT else _scalar(LARGE_INT, value)
            if kind is float:
                return (value, _NO_TYPES) if math.isfinite(value) else _scalar(SPECIAL_FLOAT, value)
            if (known := self._kinds.get(kind)) is not None:
                return _scalar(known, value)
            if isinstance(value, Enum):
                self.classes[qualified_name(kind)] = kind
                return _enum(value)
            if id(value) in inside:
                raise _CannotWrite("contains itself")
            if len(inside) >= MAX_DEPTH:
                raise _CannotWrite(f"is nested deeper than {MAX_DEPTH}")
            return self._write_parts(value, path, (*inside, id(value)))
        except InvalidPayload:
            raise
        except Exception as problem:  # parts of a user's value may raise anything
            is_ours = isinstance(problem, _CannotWrite | ValueError)
            why = str(problem) if is_ours else f"cannot be read: {type_label(problem)}"
            if self._describe is None:
                raise InvalidPayload(label_of(path, self._name), why) from None
            self.lost[path] = why
            return self._describe(value), {"": f"{LOST}:{kind.__name__}"}

    def _write_parts(self, value: Any, path: str, inside: tuple[int, ...]) -> tuple[Any, Types]:
        kind = type(value)
        if kind is dict or kind is OrderedDict:
            names, types = _keys(value, self._kinds)
            if types and isinstance(next(iter(value)), Enum):
                self.classes[qualified_name(type(next(iter(value))))] = type(next(iter(value)))
            if kind is OrderedDict:
                if types:
                    raise _CannotWrite("is an OrderedDict whose keys are no text")
                types = {"": "ordered-dict"}
            return self._write_members(dict(zip(names, value.values(), strict=True)), types, path, inside)
        if kind is list or kind in _SEQUENCES:
            return self._write_elements(value, kind, path, inside)
        if (parts := members_of(value)) is None:
            raise _CannotWrite(f"is of type {kind.__name__}, which cannot come back equal")
        form, members = parts
        self.classes[qualified_name(kind)] = kind
        return self._write_members(members, {"": f"{form}:{qualified_name(kind)}"}, path, inside)

    def _write_members(
        self, members: Mapping[str, Any], types: Types, path: str, inside: tuple[int, ...]
    ) -> tuple[dict[str, Any], Types]:
        plain: dict[str, Any] = {}
        types = dict(types)
        for name, item in members.items():
            step = "/" + name.replace("~", "~0").replace("/", "~1")
            plain[name], below = self.write(item, path + step, inside)
            for deeper, kind in below.items():
                types[step + deeper] = kind
        return plain, types

    def _write_elements(
        self, value: Iterable[Any], kind: type, path: str, inside: tuple[int, ...]
    ) -> tuple[list[Any], Types]:
        done = [self.write(item, f"{path}/{place}", inside) for place, item in enumerate(value)]
        if kind is set or kind is frozenset:  # sets have no order of their own; equal ones have to be spelled alike
            done.sort(key=_order)
        types: Types = {"": _SEQUENCES[kind]} if kind in _SEQUENCES else {}
        first = done[0][1] if done else _NO_TYPES
        if all(below == first for _, below in done):
            types.update({f"/{EACH}{deeper}": each for deeper, each in first.items()})
        else:
            for place, (_, below) in enumerate(done):
                types.update({f"/{place}{deeper}": each for deeper, each in below.items()})
        return [plain for plain, _ in done], types


class _CannotWrite(Exception):
    """Reason why a part cannot be written; its path is put in front where it is known."""


def _scalar(kind: ValueKind, value: Any) -> tuple[Any, Types]:
    plain = kind.to_plain(value)
    if type(plain) is not str and plain_text(plain) is None:
        raise _CannotWrite(f"is written by {kind.name!r} as what JSON does not have")
    return plain, {"": kind.name}


def _enum(value: Enum) -> tuple[Any, Types]:
    plain = value.value if type(value.value) in _SCALARS and plain_text(value.value) is not None else value.name
    return plain, {"": f"enum:{qualified_name(type(value))}"}


def _order(element: tuple[Any, Types]) -> tuple[str, str]:
    plain, types = element
    text = _encode(plain)
    return (plain if type(plain) is str else text), text + repr(types)


def _keys(value: Mapping[Any, Any], kinds: Mapping[type, ValueKind]) -> tuple[list[str], Types]:
    """The keys as text, and the types of the dict: its keys are all text, or all of one kind that comes back."""
    if all(type(key) is str for key in value):
        return list(value), _NO_TYPES
    found = {type(key) for key in value}
    if len(found) > 1:
        raise _CannotWrite(f"has keys of several types: {', '.join(sorted(each.__name__ for each in found))}")
    kind = found.pop()
    if kind is int:
        return [str(key) for key in value], {"": "dict:int"}
    if (known := kinds.get(kind)) is not None:
        names = [known.to_plain(key) for key in value]
        name = known.name
    elif issubclass(kind, Enum):
        names = [_enum(key)[0] for key in value]
        name = f"enum:{qualified_name(kind)}"
    else:
        raise _CannotWrite(f"has a key of type {kind.__name__}; keys must be text")
    if len(set(names)) < len(names) or not all(type(each) is str for each in names):
        raise _CannotWrite(f"has keys of type {kind.__name__} that have no text of their own")
    return names, {"": f"dict:{name}"}


def read(
    plain: Any,
    types: Mapping[str, str],
    classes: Mapping[str, type] | None = None,
    kinds: Iterable[ValueKind] = (),
    convert: Convert | None = None,
) -> Any:
    """The value that was written. `classes` are those that may be made, by qualified name: no others are.

    `convert(class, field, value, path)` makes the value of a field whose kind is not known what its hint says. Raises
    CannotRestore, naming the path and why.

    >>> read({"days": ["2026-11-19"]}, {"/days/-": "date"})
    {'days': [datetime.date(2026, 11, 19)]}
    """
    if not types:
        return plain
    return _Reader(classes or {}, kinds_by_name(tuple(kinds)), convert).read(plain, tree_of(types), "")


def find_lost(types: Mapping[str, str]) -> CannotRestore | None:
    """Return why a task with these types cannot be run: a value in it was lost, and none has been given since.

    >>> print(find_lost({"/due": "date", "/to": "lost:socket"}))
    to was of type socket, which cannot come back: give a value by an edit
    """
    for path, kind in types.items():
        form, _, name = kind.partition(":")
        if form == LOST:
            why = "is masked: give the" if name == MASKED else f"was of type {name}, which cannot come back: give a"
            return CannotRestore(path, f"{why} value by an edit", needs_edit=True)
    return None


class _Reader:
    def __init__(self, classes: Mapping[str, type], kinds: Mapping[str, ValueKind], convert: Convert | None) -> None:
        self._classes, self._kinds, self._convert = classes, kinds, convert

    def read(self, plain: Any, node: TypeTree, path: str) -> Any:
        if isinstance(plain, dict):
            plain = {name: self._part(item, node, name, path) for name, item in plain.items()}
        elif isinstance(plain, list):
            plain = [self._part(item, node, place, path) for place, item in enumerate(plain)]
        return plain if node.kind is None else self._make(plain, node.kind, node, path)

    def _part(self, plain: Any, node: TypeTree, step: str | int, path: str) -> Any:
        below = node.part(step)
        return plain if below is None else self.read(plain, below, f"{path}/{pointer_step(step)}")

    def _make(self, plain: Any, kind: str, node: TypeTree, path: str) -> Any:
        form, _, name = kind.partition(":")
        made_of: Any = None
        if form in _CLASSES:
            try:
                made_of = find_class(name, self._classes)
            except LookupError:
                why = f"is of the class {name}, which the hints of the function do not name"
                raise CannotRestore(path, why) from None
        try:
            if form == EXACT:
                return plain
            if lost := find_lost({path: kind}):
                raise lost
            if form in _MAKERS:
                return _MAKERS[form](_require(plain, list, "a list"))
            if form == "dict":
                return {self._key(key, name, path): item for key, item in _require(plain, dict, "an object").items()}
            if form == "ordered-dict":
                return OrderedDict(_require(plain, dict, "an object"))
            if form in _CLASSES:
                return self._instance(form, made_of, plain, node, path)
            known = self._kinds.get(kind)
        except CannotRestore:
            raise
        except Exception as problem:  # a user's class may raise anything
            what = name.rpartition(".")[2] or form
            raise CannotRestore(path, f"is {plain!r:.80}, which is no {what}: {reason_of(problem)}") from problem
        if known is None:
            raise CannotRestore(path, f"is of the kind {kind!r:.80}, which nothing here can read: is a plugin missing?")
        try:
            return known.from_plain(plain)
        except Exception as problem:  # of a plugin too
            why = f"is {plain!r:.80}, which is not {known.article_and_name}: {problem}"
            raise CannotRestore(path, why) from problem

    def _key(self, key: str, kind: str, path: str) -> Any:
        return int(key) if kind == "int" else self._make(key, kind, TypeTree(), f"{path}/{pointer_step(key)}")

    def _instance(self, form: str, kind: type, plain: Any, node: TypeTree, path: str) -> Any:
        if form == "enum":
            if not issubclass(kind, Enum):
                raise TypeError(f"{kind.__name__} is no Enum here")
            return _member(kind, plain)
        values = dict(_require(plain, dict, "an object"))
        if form == "model":
            validate: Any = getattr(kind, "model_validate", None)
            if validate is None:
                raise TypeError(f"{kind.__name__} is no pydantic model here")
            root = getattr(kind, "__pydantic_root_model__", False)
            return validate(values["root"]) if root else validate(values, by_name=True)
        if not (is_dataclass(kind) if form == "dataclass" else hasattr(kind, "_fields")):
            raise TypeError(f"{kind.__name__} is no {form} here")
        if self._convert is not None:
            for name in values:
                if (below := node.parts.get(name)) is None or below.kind is None:
                    values[name] = self._convert(kind, name, values[name], f"{path}/{pointer_step(name)}")
        return kind(**values)


def _member(kind: type[Enum], plain: Any) -> Enum:
    try:
        return kind(plain)
    except ValueError:
        if type(plain) is str and plain in kind.__members__:
            return kind.__members__[plain]
        raise


def _require(plain: Any, kind: type, what: str) -> Any:
    if not isinstance(plain, kind):
        raise TypeError(f"{what} is needed")
    return plain

"""Hints of functions: the classes that their values may be of, and how plain JSON becomes such values."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, ForwardRef, get_args, get_origin

from mahavishnu.values.kinds import qualified_name, same_value

_ALIASES = typing.TypeVar | typing.NewType
NO_HINT: Any = object()  # of a function that does not say what it returns
_ANYTHING = (Any, object, None, inspect.Parameter.empty)


def plain_function(function: Callable[..., Any]) -> Any:
    """Return the `def` below decorators, `functools.partial`, methods and callable objects."""
    found: Any = inspect.unwrap(function)
    while not inspect.isfunction(found):
        if isinstance(found, functools.partial):
            found = found.func
        elif inspect.ismethod(found):
            found = found.__func__
        elif not isinstance(found, type) and inspect.isfunction(getattr(type(found), "__call__", None)):  # noqa: B004
            found = type(found).__call__
        else:
            return found  # such as a built-in function: it has no hints
        found = inspect.unwrap(found)
    return found


def resolve_hints(
    function: Callable[..., Any], names: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The hints of the parameters, and why some cannot be known. `names` are those that only the caller has."""
    hints, unknown = _resolve(function, names)
    hints.pop("return", None)
    unknown.pop("return", None)
    return hints, unknown


def return_hint(function: Callable[..., Any], names: Mapping[str, Any] | None = None) -> tuple[Any, str | None]:
    """The hint of what the function returns, and why it cannot be known; NO_HINT where there is none."""
    hints, unknown = _resolve(function, names, ("return",))
    return hints.get("return", NO_HINT), unknown.get("return")


def _resolve(
    function: Callable[..., Any], names: Mapping[str, Any] | None, wanted: Container[str] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    written = plain_function(function)
    known = {**_closure(written), **(names or {})}
    hints, unknown = {}, {}
    for name, annotation in getattr(written, "__annotations__", {}).items():
        if wanted is not None and name not in wanted:
            continue
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        try:  # each for itself: one that cannot be known does not hide the others
            found = typing.get_type_hints(alone, getattr(written, "__globals__", {}), known, include_extras=True)
            hints[name] = found[name]
        except Exception as problem:  # an annotation is code of a user
            unknown[name] = f"its hint {annotation!r:.80} cannot be resolved: {problem}"
    return hints, unknown


def local_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the classes, and other hints, local to the enclosing function of this one: only now they are known.

    Without them its hints could not be resolved: `from __future__ import annotations` makes text of them.
    """
    outer, inside, _ = getattr(function, "__qualname__", "").rpartition(".<locals>.")
    frame = sys._getframe(1) if inside else None
    while frame is not None and frame.f_code.co_qualname != outer:
        frame = frame.f_back
    found = frame.f_locals.items() if frame is not None else ()
    return {name: value for name, value in found if isinstance(value, type | _ALIASES) or get_origin(value) is not None}


def _closure(function: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not inspect.isfunction(function):
        return found
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not yet known
            continue
    return found


def reachable_classes(hints: Mapping[str, Any], names: Mapping[str, Any] | None = None) -> dict[str, type]:
    """The classes that hints name, and those that their fields name: by qualified name, only these are ever made.

    `names` are those that only the function knows.
    """
    found: dict[str, type] = {}
    seen: set[int] = set()
    waiting: list[tuple[Any, Mapping[str, Any]]] = [(hint, names or {}) for hint in hints.values()]
    keep = []  # what has an id must live as long as its id is looked at
    for hint, known in waiting:  # more of them come while it goes on
        if isinstance(hint, str | ForwardRef) and not isinstance(hint, Enum):  # a member may be a text, too
            hint = _resolve_forward(hint, known)
        if hint is None or id(hint) in seen:
            continue
        seen.add(id(hint))
        keep.append(hint)
        if isinstance(hint, type) and get_origin(hint) is None and can_be_made(hint):
            found[qualified_name(hint)] = hint
        waiting += _inner_hints(hint, known)
    return found


def _resolve_forward(hint: str | ForwardRef, names: Mapping[str, Any]) -> Any:
    text = hint if isinstance(hint, str) else hint.__forward_arg__
    try:
        return eval(text, dict(names))  # an annotation in the code of the user, never stored data
    except Exception:
        return None


def can_be_made(kind: type) -> bool:
    """Return True if objects of the class can be made again from JSON."""
    is_namedtuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return issubclass(kind, Enum) or is_dataclass(kind) or is_namedtuple or hasattr(kind, "__pydantic_fields__")


def _inner_hints(hint: Any, names: Mapping[str, Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """The hints inside of a hint, and those of the fields of a class."""
    if isinstance(hint, Enum):  # of a Literal
        yield type(hint), names
    for inner in (*get_args(hint), get_origin(hint)):
        if isinstance(inner, list):  # the parameters of a Callable
            continue
        yield inner, names
    for name in ("__supertype__", "__bound__", "__value__"):  # of a NewType, a TypeVar, an alias
        if (inner := getattr(hint, name, None)) is not None and not isinstance(hint, type):
            yield inner, names
    for inner in getattr(hint, "__constraints__", ()) if not isinstance(hint, type) else ():
        yield inner, names
    if isinstance(hint, type):
        yield from ((inner, names) for inner in field_hints(hint).values())


@functools.lru_cache(1024)
def field_hints(kind: type) -> Mapping[str, Any]:
    """The hints of the fields of a class, as far as they can be known."""
    if (fields := getattr(kind, "__pydantic_fields__", None)) is not None:
        return {name: each.annotation for name, each in fields.items()}
    if not (can_be_made(kind) or typing.is_typeddict(kind)) or issubclass(kind, Enum):
        return {}
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # one of them cannot be resolved: then each for itself
        found = {}
        for owner in reversed(kind.__mro__):
            module = inspect.getmodule(owner)
            for name, annotation in inspect.get_annotations(owner).items():
                if isinstance(annotation, str):
                    known = {**vars(module), owner.__name__: owner} if module else {}
                    annotation = _resolve_forward(annotation, known) or annotation  # others may know the name
                found[name] = annotation
        return found


class Hint:
    """A hint of a parameter or a field, which plain JSON without a kind is made to fit."""

    __slots__ = ("_adapter", "_fits_all", "_hint", "_is_ready")

    def __init__(self, hint: Any) -> None:
        self._hint, self._adapter, self._is_ready = hint, None, False
        self._fits_all = _kind_of_anything(hint)

    def allows_any(self, value: Any) -> bool:
        """Return True if the hint says nothing about what is in the value."""
        return self._fits_all is not None and isinstance(value, self._fits_all)

    def coerce(self, value: Any) -> Any:
        """The value that the hint means, as pydantic sees it; what fits already is not changed.

        Raises pydantic's ValidationError where it cannot be, and what validators of a user raise.
        """
        if type(value) is self._hint or value is None or self.allows_any(value):
            return value
        if not self._is_ready:
            self._adapter, self._is_ready = _type_adapter(self._hint), True
        return value if self._adapter is None else _with_what_fits(value, self._adapter.validate_python(value))


def _kind_of_anything(hint: Any) -> type | None:
    """`object` for a hint that allows everything, `dict` or `list` for one that allows everything inside of that."""
    if isinstance(hint, str | ForwardRef) or any(hint is each for each in _ANYTHING):
        return object  # of what cannot be resolved nothing is known
    outer, inner = get_origin(hint), get_args(hint)
    if outer in (dict, abc.Mapping, abc.MutableMapping) and inner[0] in (str, Any) and inner[1] in (Any, object):
        return dict
    return list if outer in (list, abc.Sequence) and inner[0] in (Any, object) else None


def _type_adapter(hint: Any) -> Any:
    """None where pydantic has no schema for such a hint."""
    from pydantic import ConfigDict, TypeAdapter

    for options in ({}, {"config": ConfigDict(arbitrary_types_allowed=True)}):
        try:
            return TypeAdapter(hint, **options)  # type: ignore[arg-type]
        except Exception:  # of pydantic, or of the schema that a user's class has
            continue
    return None


@functools.lru_cache(1024)
def field_hint(kind: type, name: str) -> Hint:
    """The hint of a field of a class."""
    return Hint(field_hints(kind).get(name, Any))


def _with_what_fits(value: Any, result: Any) -> Any:
    """Return pydantic's result without needless changes: a whole number may be where floats are.

    Of a TypedDict it leaves out names, and of an Iterable it makes an iterator.
    """
    if type(value) is dict and type(result) is dict:
        return {name: _with_what_fits(item, result[name]) if name in result else item for name, item in value.items()}
    if type(value) is list and type(result) is list and len(value) == len(result):
        return [_with_what_fits(*pair) for pair in zip(value, result, strict=True)]
    if type(value) is int and type(result) is float:
        return value
    if type(value) is list and hasattr(result, "__next__"):
        return value
    return value if same_value(value, result) else result

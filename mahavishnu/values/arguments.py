"""The arguments of a call: by name as plain JSON with their types, and back as they were given or hinted."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property
from inspect import Parameter
from types import MappingProxyType
from typing import Any, ForwardRef, NamedTuple, Unpack, get_args, get_origin
from weakref import WeakKeyDictionary

from mahavishnu.model.errors import CannotRestore
from mahavishnu.model.json_value import EMPTY, Json, json_safe_copy, label_of, pointer_step, type_label
from mahavishnu.model.letter_parts import LOST
from mahavishnu.values.kinds import ValueKind, qualified_name, reason_of, same_value
from mahavishnu.values.typed_json import EXACT, Types, plain_text, read, write_all

# --- hints of functions: the classes that their values may be of, and how plain JSON becomes such values

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
    """Return classes local to the enclosing function, without which its hints (as text) could not be resolved."""
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
    """Return classes that hints and their fields name: only these are made. `names`: local to the function."""
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
        """Return the value that the hint means, unchanged if it fits. Raises what pydantic and validators raise."""
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
    """Return pydantic's result without needless changes of whole numbers, TypedDicts and Iterables."""
    if type(value) is dict and type(result) is dict:
        return {name: _with_what_fits(item, result[name]) if name in result else item for name, item in value.items()}
    if type(value) is list and type(result) is list and len(value) == len(result):
        return [_with_what_fits(*pair) for pair in zip(value, result, strict=True)]
    if type(value) is int and type(result) is float:
        return value
    if type(value) is list and hasattr(result, "__next__"):
        return value
    return value if same_value(value, result) else result


# --- arguments by the signature of a function

_TASK = "task"
_ALL_POSITIONAL, _ALL_NAMED = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD


class WrittenValues(NamedTuple):
    """Values as plain JSON with their types. `lost` says by path why a value cannot come back equal."""

    payload: Json
    types: Json = EMPTY
    lost: Mapping[str, str] = MappingProxyType({})

    @property
    def why_lost(self) -> str | None:
        """Parts that cannot come back, for a person; None if all of it can."""
        if not self.lost:
            return None
        return "; ".join(f"{label_of(path) or _TASK} {why}" for path, why in self.lost.items())


class Signature:
    """The parameters of a function: writes the arguments of a call, and restores them for another one.

    >>> from datetime import date
    >>> def book(day: date, *seats: int, note: str = "") -> None: ...
    >>> signature = Signature.of(book)
    >>> written = signature.write(signature.bind((date(2026, 11, 19), 7, 8), {"note": "x"}))
    >>> written.payload.value, written.types.value
    ({'day': '2026-11-19', 'seats': [7, 8], 'note': 'x'}, {'/day': 'date'})
    >>> signature.restore(written.payload.value, written.types.value)
    ((datetime.date(2026, 11, 19), 7, 8), {'note': 'x'})
    """

    def __init__(
        self, name: str, signature: inspect.Signature, hints: Mapping[str, Any], unknown: Mapping[str, str],
        kinds: Iterable[ValueKind],
        *,
        names: Mapping[str, Any] | None = None,
        knows_all: bool = False,
    ) -> None:  # fmt: skip
        self.name, self._signature, self._unknown, self._kinds = name, signature, unknown, tuple(kinds)
        self._plain_hints, self._names, self._knows_all = hints, names, knows_all
        self._hints = {
            each.name: Hint(_hint_of_all(each, hints[each.name]))
            for each in signature.parameters.values()
            if each.name in hints
        }

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        names: Mapping[str, Any] | None = None,
        hints: Mapping[str, Any] | None = None,
        kinds: Iterable[ValueKind] = (),
    ) -> Signature:
        """Read the signature of a function.

        `names` are those that hints may use besides the function's own, such as classes local to a function. `hints`
        stand in place of the written ones, as for `self`; `kinds` are further types of plugins. Raises ValueError or
        TypeError for a function whose parameters Python does not know.
        """
        found, unknown = resolve_hints(function, names)
        label = getattr(function, "__qualname__", None) or repr(function)
        return cls(label, inspect.signature(function), {**found, **(hints or {})}, unknown, kinds, names=names)

    @classmethod
    def of_any_task(cls, kinds: Iterable[ValueKind] = ()) -> Signature:
        """Make the signature of workflows known elsewhere only: it restores no classes, which their runner checks."""
        return cls("the workflow", inspect.signature(_any_workflow), {}, {}, kinds, knows_all=True)

    @cached_property
    def classes(self) -> Mapping[str, type]:
        """The classes that the hints name, by qualified name: no others are made of stored data."""
        return reachable_classes(self._plain_hints, self._names)

    def bind(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that were given, by name; defaults are left out. Raises TypeError as the call itself would."""
        return self._signature.bind(*args, **kwargs).arguments

    def write(self, arguments: Mapping[str, Any]) -> WrittenValues:
        """The arguments of `bind` as JSON. What would not come back equal is `lost`; its type stands in its place."""
        values = dict(arguments)
        for each in self._signature.parameters.values():
            if each.kind is _ALL_POSITIONAL and each.name in values:
                values[each.name] = list(values[each.name])
        if (text := plain_text(values)) is not None:  # nearly always
            return _plain(text, [_pointer(name) for name in values if not self._fits(name, values[name])])
        return _written_values(*self._write(values, self._hints))

    def restore(self, payload: Any, types: Mapping[str, str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the call's arguments, converted as hints say where edited. Raises CannotRestore, naming one."""
        return self.place(self.restore_by_name(payload, types))

    def restore_by_name(self, payload: Any, types: Mapping[str, str]) -> dict[str, Any]:
        """The arguments as `bind` gives them. Raises CannotRestore, naming the argument."""
        if not isinstance(payload, Mapping):
            raise CannotRestore("", f"is {payload!r:.80}, and no object with the arguments of {self.name} by name")
        for name in payload:
            if name not in self._signature.parameters:
                raise CannotRestore(f"/{pointer_step(name)}", f"is no parameter of {self.name}{self._signature}")
        return self._read(dict(payload), types, self._hints)

    def write_task(self, task: Any) -> WrittenValues:
        """The task of a workflow `(task, repos)` as JSON."""
        hint = self._task_hints.get(_TASK)
        if (text := plain_text(task)) is not None:  # nearly always
            return WrittenValues(Json(text)) if hint is None or _fits(hint, task) else _plain(text, [""])
        if (hint is None or hint.allows_any(task)) and type(task) is dict and all(type(name) is str for name in task):
            # one part that is lost leaves the others their types
            return _written_values(*self._write(task, {}))
        plain, types, lost = self._write({_TASK: task}, self._task_hints)
        prefix = f"/{_TASK}"
        below = {path.removeprefix(prefix): kind for path, kind in types.items()}
        return _written_values(plain[_TASK], below, {path.removeprefix(prefix): why for path, why in lost.items()})

    def restore_task(self, payload: Any, types: Mapping[str, str]) -> Any:
        """The task, to be run with. JSON that does not fit the hint stays JSON. Raises CannotRestore."""
        hint = self._task_hints.get(_TASK)
        if not types and (hint is None or hint.allows_any(payload)):  # nearly always
            return payload
        below = {f"/{_TASK}{path}": kind for path, kind in types.items()}
        try:
            return self._read({_TASK: payload}, below, self._task_hints, must_fit=False)[_TASK]
        except CannotRestore as problem:  # an edit names places inside of the task
            path = problem.path.removeprefix(f"/{_TASK}")
            raise CannotRestore(path, problem.why, needs_edit=problem.needs_edit) from problem

    @cached_property
    def _task_hints(self) -> Mapping[str, Hint]:
        first = next(iter(self._signature.parameters), None)
        return {_TASK: self._hints[first]} if first in self._hints else {}

    def _write(self, values: dict[str, Any], hints: Mapping[str, Hint]) -> tuple[dict[str, Any], Types, dict[str, str]]:
        classes: dict[str, type] = {}
        plain, types, lost = write_all(values, json_safe_copy, self._kinds, classes)
        known = classes if self._knows_all else self.classes
        for name, value in values.items():
            path = _pointer(name)
            if any(each == path or each.startswith(f"{path}/") for each in lost):
                continue
            own = {each: kind for each, kind in types.items() if each == path or each.startswith(f"{path}/")}
            exact: list[str] = []
            # Without types it is what it was.
            why = self._why_lost(name, value, plain[name], own, known, exact) if own else None
            if why is None:
                if path not in own and name in hints and not _fits(hints[name], value):
                    exact.append(path)
                types.update(dict.fromkeys(exact, EXACT))
            else:
                types = {each: kind for each, kind in types.items() if each not in own}
                types[path], lost[path] = f"{LOST}:{type(value).__name__}", why
        return plain, types, lost

    def _fits(self, name: str, value: Any) -> bool:
        hint = self._hints.get(name)
        return hint is None or _fits(hint, value)

    def _why_lost(
        self, name: str, value: Any, plain: Any, types: Types, classes: Mapping[str, type], exact: list[str]
    ) -> str | None:
        """Return why a written value would not come back equal. Notes in `exact` what fits no hint."""

        def note(kind: type, member: str, inner: Any, path: str) -> Any:
            if not _fits(field_hint(kind, member), inner):
                exact.append(path)
            return inner

        try:
            if same_value(read({name: plain}, types, classes, self._kinds, note)[name], value):
                return None
            return f"of type {type(value).__name__} would come back as something else"
        except CannotRestore as problem:
            why, inner = self._explain(problem).why, problem.path.removeprefix(_pointer(name))
            return f"cannot come back: its {label_of(inner)} {why}" if inner else why
        except Exception as problem:  # values of a user are compared
            return f"cannot be compared: {type_label(problem)}"

    def _read(
        self, plain: dict[str, Any], types: Mapping[str, str], hints: Mapping[str, Hint], *, must_fit: bool = True
    ) -> dict[str, Any]:
        def convert(kind: type, name: str, value: Any, path: str) -> Any:
            return _coerce(field_hint(kind, name), value, path)

        try:
            values: dict[str, Any] = read(plain, types, self.classes, self._kinds, convert)
        except CannotRestore as problem:
            raise self._explain(problem) from problem
        for name, hint in hints.items():
            if name not in values or _pointer(name) in types:
                continue
            try:
                values[name] = _coerce(hint, values[name], _pointer(name))
            except CannotRestore:
                if must_fit:
                    raise
        return values

    def _explain(self, problem: CannotRestore) -> CannotRestore:
        """Add the hint that could not be resolved, which may be why a class is not known."""
        name = problem.path.split("/")[1:2]
        why = self._unknown.get(name[0]) if name else None
        if why is None:
            return problem
        return CannotRestore(problem.path, f"{problem.why}; {why}", needs_edit=problem.needs_edit)

    def place(self, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by name as a call takes them. Raises CannotRestore for one that is missing."""
        args: list[Any] = []
        named: dict[str, Any] = {}
        missing: str | None = None  # the first parameter that has no value: what follows has to be given by name
        for each in self._signature.parameters.values():
            given = each.name in values
            if each.kind is _ALL_POSITIONAL or each.kind is _ALL_NAMED:
                if not given:
                    continue
                if each.kind is _ALL_NAMED:
                    named.update(_require(dict, values[each.name], each, "an object"))
                else:
                    args += self._only_after_all(_require(list | tuple, values[each.name], each, "a list"), missing)
            elif not given:
                if each.default is Parameter.empty:
                    raise CannotRestore(_pointer(each.name), f"is missing: {self.name} needs it")
                missing = missing or (each.name if each.kind is not Parameter.KEYWORD_ONLY else None)
            elif each.kind is Parameter.POSITIONAL_ONLY:
                args += self._only_after_all([values[each.name]], missing)
            elif each.kind is Parameter.KEYWORD_ONLY or missing is not None:
                named[each.name] = values[each.name]
            else:
                args.append(values[each.name])
        return tuple(args), named

    def _only_after_all(self, values: list[Any], missing: str | None) -> list[Any]:
        if values and missing is not None:
            raise CannotRestore(_pointer(missing), f"is missing: {self.name} is given what follows it")
        return values


def _any_workflow(task, repos):  # type: ignore[no-untyped-def]
    """Stands for the function of a workflow that is not known here."""


def _pointer(name: str) -> str:
    return f"/{pointer_step(name)}"


def _hint_of_all(parameter: Parameter, hint: Any) -> Any:
    """The hint of what is kept under a parameter's name: of `*args` a list, of `**kwargs` an object."""
    if parameter.kind is _ALL_POSITIONAL:
        return list[hint]
    if parameter.kind is _ALL_NAMED:
        return hint.__args__[0] if get_origin(hint) is Unpack else dict[str, hint]
    return hint


def _fits(hint: Hint, value: Any) -> bool:
    if hint.allows_any(value):  # nearly always
        return True
    try:
        return same_value(hint.coerce(value), value)
    except Exception:  # a hint may have validators of a user
        return False


def _coerce(hint: Hint, value: Any, path: str) -> Any:
    try:
        return hint.coerce(value)
    except Exception as problem:
        raise CannotRestore(path, f"is {value!r:.80}, which its hint does not allow: {reason_of(problem)}") from problem


def _require(kind: Any, value: Any, parameter: Parameter, what: str) -> Any:
    if not isinstance(value, kind):
        raise CannotRestore(_pointer(parameter.name), f"is {value!r:.80}: {parameter} needs {what}")
    return value


def _plain(text: str, exact: list[str]) -> WrittenValues:
    return WrittenValues(Json(text), Json.of(dict.fromkeys(exact, EXACT)) if exact else EMPTY)


def _written_values(plain: Any, types: Types, lost: Mapping[str, str]) -> WrittenValues:
    text = plain_text(plain)
    payload = Json(text) if text is not None else Json.of(plain)
    return WrittenValues(payload, Json(json.dumps(types, separators=(",", ":"))) if types else EMPTY, lost)


_PARAMETERS = inspect.Signature([Parameter(_TASK, Parameter.POSITIONAL_OR_KEYWORD)])  # a result is written as a task is
_known: WeakKeyDictionary[Any, ResultForm] = WeakKeyDictionary()


class ResultForm:
    """Form in which the results of a function are kept: values of classes only if its return hint names them.

    >>> from datetime import date
    >>> def bill() -> dict[str, date]: ...
    >>> form = ResultForm.of(bill)
    >>> kept = form.write({"due": date(2026, 11, 19)})
    >>> form.read(kept.payload, kept.types)
    {'due': datetime.date(2026, 11, 19)}
    """

    def __init__(self, function: Callable[..., Any], kinds: Iterable[ValueKind] = ()) -> None:
        names = local_names(function)
        hint, why_unknown = return_hint(function, names)
        label = getattr(function, "__qualname__", None) or f"{function!r:.80}"
        hints = {} if hint is NO_HINT else {_TASK: hint}
        unknown = {} if why_unknown is None else {_TASK: why_unknown}
        self._signature = Signature(label, _PARAMETERS, hints, unknown, kinds, names=names)

    @classmethod
    def of(cls, function: Callable[..., Any], kinds: Iterable[ValueKind] = ()) -> ResultForm:
        """The form of this function's results, made once."""
        try:
            known = _known.get(function)
            if known is None:
                known = _known[function] = cls(function, kinds)
        except TypeError:  # an object that nothing can refer to weakly
            return cls(function, kinds)
        return known

    def write(self, result: Any) -> WrittenValues:
        """The result as JSON; `lost` says what of it would not come back equal."""
        return self._signature.write_task(result)

    def read(self, payload: Json | None, types: Json | None) -> Any:
        """The result. Raises CannotRestore, naming the part."""
        plain = None if payload is None else payload.value
        return self._signature.restore_task(plain, (types or EMPTY).value)

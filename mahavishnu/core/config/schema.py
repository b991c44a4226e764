"""What can be asked of a settings model: its keys, their variables, what each of them allows."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

PREFIX = "MAHAVISHNU_"
NESTED = "__"
Keys = tuple[str, ...]  # the way to a setting: ("circuit", "failure_threshold")


def fields(model: type[BaseModel], above: Keys = ()) -> Iterator[tuple[Keys, FieldInfo]]:
    """Every setting that has a value of its own, in the order of the model; sections are walked into."""
    for name, field in model.model_fields.items():
        if section := as_section(field.annotation):
            yield from fields(section, (*above, name))
        else:
            yield (*above, name), field


def as_section(annotation: Any) -> type[BaseModel] | None:
    """The model of a nested section, None for everything else."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def variable(keys: Sequence[str]) -> str:
    """The environment variable of a setting.

    >>> variable(("circuit", "failure_threshold"))
    'MAHAVISHNU_CIRCUIT__FAILURE_THRESHOLD'
    """
    return PREFIX + NESTED.join(keys).upper()


def keys_of(name: str) -> Keys:
    """What `variable` turns into an environment variable.

    >>> keys_of("MAHAVISHNU_CIRCUIT__FAILURE_THRESHOLD")
    ('circuit', 'failure_threshold')
    """
    return tuple(name.removeprefix(PREFIX).lower().split(NESTED))


def type_at(model: type[BaseModel], keys: Sequence[str | int]) -> Any:
    """The annotation at the end of `keys`, which may lead into maps and lists; None if the model has no such place."""
    annotation: Any = model
    for key in keys:
        annotation = _bare(annotation)
        if section := as_section(annotation):
            field = section.model_fields.get(str(key))
            annotation = None if field is None else _with_metadata(field)
        elif get_origin(annotation) in (dict, Mapping):
            annotation = get_args(annotation)[1]
        elif get_origin(annotation) in (list, tuple):
            annotation = get_args(annotation)[0]
        else:
            return None
    return annotation


def holds_many(annotation: Any) -> bool:
    """Whether a value of this type is written as a section, a map or a list."""
    return bool(as_section(_bare(annotation))) or any(
        get_origin(kind) in (dict, Mapping, list, tuple) for kind in _members(annotation)
    )


def is_list_of_texts(annotation: Any) -> bool:
    """Whether `a,b` can mean the list of `a` and `b`."""
    bare = _bare(annotation)
    return get_origin(bare) in (list, tuple) and _bare(get_args(bare)[0]) is str


def is_secret(annotation: Any) -> bool:
    """Whether the value must never be shown, wholly or in part.

    >>> is_secret(Mapping[str, SecretStr])
    True
    """
    bare = _bare(annotation)
    return bare is SecretStr or any(is_secret(part) for part in get_args(bare))


def allowed(annotation: Any) -> str:
    """What may be given for this type, in words.

    >>> allowed(Literal["hybrid", "polling_only"])
    "one of 'hybrid', 'polling_only'"
    """
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    bare = _bare(annotation)
    if words := next((extra["allowed"] for item in metadata if (extra := _extra(item))), None):
        return str(words)
    if values := choices(bare):
        return f"one of {', '.join(map(repr, values))}"
    if section := as_section(bare):
        return f"a section with {', '.join(section.model_fields)}"
    if get_origin(bare) in (dict, Mapping):
        return f"a map, each value {allowed(get_args(bare)[1])}"
    if get_origin(bare) in (list, tuple):
        return f"a list, each item {allowed(get_args(bare)[0])}"
    members = _members(bare)
    if len(members) > 1:
        return " or ".join(map(allowed, members))
    (kind,) = members or [Any]
    if kind is int:
        return _whole_number(metadata)
    if kind is float:
        return _whole_number(metadata).replace("whole ", "")
    if kind is str and any(getattr(item, "min_length", None) for item in _constraints(metadata)):
        return "text that is not empty"
    return {bool: "true or false", str: "text", SecretStr: "text", Path: "a path"}.get(kind, "anything")


def choices(annotation: Any) -> list[str]:
    """The values of a type that has only a few."""
    bare = _bare(annotation)
    if get_origin(bare) is Literal:
        return [str(value) for value in get_args(bare)]
    return [str(member.value) for member in bare] if isinstance(bare, type) and issubclass(bare, Enum) else []


def key_type(annotation: Any) -> Any:
    """What the keys of a map are; None if it is no map."""
    bare = _bare(annotation)
    return get_args(bare)[0] if get_origin(bare) in (dict, Mapping) else None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """What `name` was probably meant to be."""
    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1)
    return by_lower[near[0]] if near else None


def _whole_number(metadata: Sequence[Any]) -> str:
    low = next((item.ge for item in _constraints(metadata) if hasattr(item, "ge")), None)
    high = next((item.le for item in _constraints(metadata) if hasattr(item, "le")), None)
    return "a whole number" if low is None or high is None else f"a whole number from {low} to {high}"


def _constraints(metadata: Sequence[Any]) -> list[Any]:
    return [part for item in metadata for part in (item.metadata if isinstance(item, FieldInfo) else [item])]


def _extra(item: Any) -> Mapping[str, Any]:
    extra = item.json_schema_extra if isinstance(item, FieldInfo) else None
    return extra if isinstance(extra, Mapping) and "allowed" in extra else {}


def _with_metadata(field: FieldInfo) -> Any:
    return Annotated[field.annotation, field]


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _members(annotation: Any) -> list[Any]:
    """The types of a union without None; the type itself if it is no union."""
    bare = _bare(annotation)
    kinds = get_args(bare) if get_origin(bare) in (Union, types.UnionType) else (bare,)
    return [kind for kind in kinds if kind is not types.NoneType and kind is not None]

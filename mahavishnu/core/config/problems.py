"""What is wrong with settings, one line each: which key, where it came from, what is allowed, what was given.

A line never shows a secret: not the value of a secret setting, no password in a URL, nothing that was given for an
unknown key, which may be a misspelt password, and no map or list, which may hold a key that was indented too far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import PurePath
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from mahavishnu.core.config.schema import (
    PREFIX,
    allowed,
    choices,
    fields,
    is_secret,
    key_type,
    nearest,
    type_at,
    variable,
)
from mahavishnu.core.config.sources import ARGUMENT, Sources
from mahavishnu.core.config.urls import shown

HIDDEN = "***"
_LONGEST = 60
_CORE = frozenset(get_args(ErrorType))


def explained(refused: ValidationError, model: type[BaseModel], sources: Sources) -> tuple[str, ...]:
    """`refused` in lines of ours, the same thing said once."""
    details = refused.errors(include_url=False)
    return tuple(dict.fromkeys(_line(detail, model, sources) for detail in details))


def cleaned(
    refused: ValidationError | None, model: type[BaseModel], sources: Sources, problems: Sequence[str] = ()
) -> ValidationError:
    """`refused` as pydantic's users expect it, without secrets.

    What is wrong with an argument stays in pydantic's words; what came from a variable or a line of the file says so,
    and `problems` of the sources are added.
    """
    details = [_clean(detail, model, sources) for detail in (refused.errors(include_url=False) if refused else [])]
    details += [_custom("settings", problem, ("settings",), HIDDEN) for problem in problems]
    return ValidationError.from_exception_data(model.__name__, details)


def displayed(value: Any) -> Any:
    """`value` as it may be shown: secrets masked, all else in the types that JSON and YAML know."""
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if isinstance(value, Mapping):
        return {str(key): displayed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [displayed(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return shown(str(value))


def _clean(detail: ErrorDetails, model: type[BaseModel], sources: Sources) -> InitErrorDetails:
    keys = detail["loc"]
    secret = detail["type"] == "extra_forbidden" or is_secret(type_at(model, keys[:1]))
    given = HIDDEN if secret or _is_compound(detail["input"]) else displayed(detail["input"])
    if sources.where(_known(keys, model)) != ARGUMENT or detail["type"] == "extra_forbidden":
        return _custom(detail["type"], _line(detail, model, sources), keys, given)
    if detail["type"] not in _CORE:  # such as path_type, which cannot be made anew by its name
        return _custom(detail["type"], detail["msg"], keys, given)
    return InitErrorDetails(type=detail["type"], loc=keys, input=given, ctx=detail.get("ctx", {}))


def _custom(kind: str, message: str, keys: tuple[int | str, ...], given: Any) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(kind, message), loc=keys, input=given)


def _line(detail: ErrorDetails, model: type[BaseModel], sources: Sources) -> str:
    keys = detail["loc"] if detail["type"] == "extra_forbidden" else _known(detail["loc"], model)
    return f"{sources.where(keys)}: {_text(detail, model, sources)}"


def _known(keys: tuple[str | int, ...], model: type[BaseModel]) -> tuple[str | int, ...]:
    """As much of the way as the model knows: pydantic also names the member of a union that it tried."""
    while keys and type_at(model, keys) is None:
        keys = keys[:-1]
    return keys


def _text(detail: ErrorDetails, model: type[BaseModel], sources: Sources) -> str:
    keys = detail["loc"]
    if detail["type"] == "extra_forbidden":
        return _unknown(keys, model, sources.where(keys))
    if detail["type"] == "value_error":  # said by a validator of ours, which names the key
        return str(detail["ctx"]["error"])
    if keys[-1] == "[key]" and (kind := key_type(type_at(model, keys[:-2]))):
        return f"{_dotted(keys[:-2])} has the key {keys[-2]!r}, which must be {allowed(kind)}{_hint(keys[-2], kind)}"
    keys = _known(keys, model)
    annotation = type_at(model, keys)
    text = f"{_dotted(keys)} must be {allowed(annotation)}"
    if not is_secret(type_at(model, keys[:1])):
        given = detail["input"] if len(keys) == len(detail["loc"]) else _value(sources, keys)
        text += f", got {_brief(given)}{_hint(given, annotation)}"
    in_file = sources.where(keys).startswith(f"{sources.file.label}:")
    return text + ("; put it in quotes" if in_file and detail["type"] == "string_type" else "")


def _unknown(keys: Sequence[str | int], model: type[BaseModel], where: str) -> str:
    name = _dotted(keys)
    known = [known for known, _ in fields(model)]
    if where.upper().startswith(PREFIX):
        near = nearest(where, map(variable, known))
    else:
        near = nearest(name, [".".join(path[:length]) for path in known for length in range(1, len(path) + 1)])
    return f"unknown setting {name!r}" + (f"; did you mean {near}?" if near else "")


def _hint(given: Any, annotation: Any) -> str:
    near = nearest(given, choices(annotation)) if isinstance(given, str) else None
    return f"; did you mean {near!r}?" if near else ""


def _value(sources: Sources, keys: Sequence[str | int]) -> Any:
    value: Any = sources.values()
    for key in keys:
        value = value[key]
    return value


def _brief(value: Any) -> str:
    if _is_compound(value):
        return "a map" if isinstance(value, Mapping) else "a list" if isinstance(value, Sequence) else "something else"
    text = repr(displayed(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _is_compound(value: Any) -> bool:
    return value is not None and not isinstance(value, str | int | float | PurePath | date | SecretStr)


def _dotted(keys: Sequence[str | int]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")

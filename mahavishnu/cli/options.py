"""Options that several commands share: a dataclass of them stands in a command's signature as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of the dataclasses among its parameters.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int = 3
    >>> def draw(name: str, size: Size) -> None:
    ...     print(name, size)
    >>> inspect.signature(expand_options(draw))
    <Signature (name: str, *, width: int = 3) -> None>
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    shared: dict[str, type[Any]] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if isinstance(kind, type) and is_dataclass(kind):
            shared[parameter.name] = kind
            options += _options_of(kind)
        else:
            parameters.append(parameter.replace(annotation=kind))

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        for name, kind in shared.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    parameters = [each.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in parameters]
    named = [each for each in parameters if each.default is not inspect.Parameter.empty]
    first = [each for each in parameters if each.default is inspect.Parameter.empty]
    signature = inspect.Signature([*first, *named, *options], return_annotation=None)
    with_options.__signature__ = signature  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in (*parameters, *options)}
    del with_options.__wrapped__  # its signature is another one
    return with_options


def _options_of(kind: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in fields(kind)
    ]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default

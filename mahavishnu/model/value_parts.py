"""What the values of classes are made of, whether two values are the same, and how parts of them are named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

from mahavishnu.model.json_value import unescape
from mahavishnu.model.value_kinds import same_moment, same_number


def qualified_name(kind: type) -> str:
    """The name of a class with its module, as kinds have it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def members_of(value: Any) -> tuple[str, dict[str, Any]] | None:
    """What sort of class the value's is, and the values that it is made of again; None for any other class."""
    kind = type(value)
    if isinstance(value, type):
        return None
    if isinstance(value, tuple):
        names = getattr(kind, "_fields", None)
        return None if names is None else ("namedtuple", dict(zip(names, value, strict=True)))
    if is_dataclass(value):
        return "dataclass", {each.name: getattr(value, each.name) for each in fields(value) if each.init}
    return ("model", _model_members(value)) if hasattr(kind, "__pydantic_fields__") else None


def _model_members(model: Any) -> dict[str, Any]:
    """What a pydantic model was made of: its default values are left out, so that they are as little set as before."""
    members = {}
    for name, info in type(model).__pydantic_fields__.items():
        value = getattr(model, name)
        if name in model.__pydantic_fields_set__ or not (
            type(value) is type(info.default) and same_value(value, info.default)
        ):
            members[name] = value
    return {**members, **(model.__pydantic_extra__ or {})}


def same_value(one: Any, other: Any) -> bool:
    """Whether two values are equal and of equal types, inside too: NaN is NaN, 1 is neither 1.0 nor True.

    Raises what the values raise when they are compared.
    """
    kind = type(one)
    if one is other:
        return True
    if kind is not type(other):
        return False
    if kind in (float, complex, Decimal):
        return same_number(one, other)
    if kind in (datetime, time):
        return same_moment(one, other)
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
        return all(same_value(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if hasattr(kind, "__pydantic_fields__"):
        names = ("__dict__", "__pydantic_extra__", "__pydantic_private__")
        return all(same_value(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


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


def label_of(path: str, before: str = "") -> str:
    """A JSON pointer as people write it, below the name `before`.

    >>> label_of("/order/items/0/price"), label_of("/0", "task"), label_of("/a", "task"), label_of("", "task")
    ('order.items[0].price', 'task[0]', 'task.a', 'task')
    """
    label = before
    for step in path.split("/")[1:]:
        step = unescape(step)
        label += f"[{step}]" if step.isdecimal() else f".{step}" if label else step
    return label


def reason_of(problem: Exception) -> str:
    """What is wrong, on one line: of a pydantic error each field with its problem."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem) or type(problem).__name__
    found = [(".".join(map(str, each["loc"])), each["msg"]) for each in errors()]
    return "; ".join(f"{where}: {message}" if where else message for where, message in found)

"""Frozen dataclasses with slots, made quickly.

A frozen instance is filled around its own `__setattr__`, by one call for each field. A draft is an instance of a class
with the same slots that is not frozen: it is filled by plain assignments, and then given the class it is meant for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

T = TypeVar("T")


def drafts(kind: type[Any]) -> Callable[[Any], Any]:
    """A function that copies a `kind` into a draft; assigning the draft's `__class__` finishes it."""
    lines = [f"draft.{each.name} = record.{each.name}" for each in fields(kind)]
    lines = ["draft = Draft()", *lines, "return draft"]
    copied: Callable[[Any], Any] = written_out("record", lines, {"Draft": _draft_of(kind)})
    return copied


def maker(kind: type[T]) -> type[T]:
    """A function to be called by keywords as `kind` is, in a quarter of the time.

    What `__post_init__` sees to, and default factories, are left to the caller.
    """
    known = fields(cast("Any", kind))
    given = [each.name if each.default is MISSING else f"{each.name}=_{each.name}" for each in known]
    defaults = {f"_{each.name}": each.default for each in known}
    lines = [f"draft.{each.name} = {each.name}" for each in known]
    lines = ["draft = Draft()", *lines, "draft.__class__ = Kind", "return draft"]
    made = written_out(f"*, {', '.join(given)}", lines, {"Draft": _draft_of(kind), "Kind": kind, **defaults})
    return cast("type[T]", made)


def _draft_of(kind: type[Any]) -> type[Any]:
    return type(f"{kind.__name__}Draft", kind.__bases__, {"__slots__": [each.name for each in fields(kind)]})


def written_out(parameters: str, lines: list[str], scope: dict[str, Any]) -> Any:
    """A function of these lines, one or more for each field: going through the fields takes up to six times as long."""
    exec("\n    ".join([f"def written({parameters}):", *lines]), scope)
    return scope["written"]

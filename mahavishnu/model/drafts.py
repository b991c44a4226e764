"""Frozen dataclasses with slots, made quickly.

A frozen instance is filled around its own `__setattr__`, by one call for each field. A draft is an instance of a class
with the same slots that is not frozen: it is filled by plain assignments, and then given the class it is meant for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any


def drafts(kind: type[Any]) -> Callable[[Any], Any]:
    """A function that copies a `kind` into a draft; assigning the draft's `__class__` finishes it."""
    names = [each.name for each in fields(kind)]
    draft = type(f"{kind.__name__}Draft", kind.__bases__, {"__slots__": names})
    lines = [f"    draft.{name} = record.{name}" for name in names]
    scope: dict[str, Any] = {"Draft": draft}
    # Written out, as dataclasses writes its own methods: going through the names takes six times as long.
    exec("\n".join(["def copied(record):", "    draft = Draft()", *lines, "    return draft"]), scope)
    copied: Callable[[Any], Any] = scope["copied"]
    return copied

"""The keys and variables of the settings, and the values that each allows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mahavishnu.model.rules import Rules
from mahavishnu.settings.places import PREFIX
from mahavishnu.settings.sections import section_of

NESTED = "__"
Schema = dict[str, Any]  # the JSON schema of a setting, or of a part of it


def fields(model: type[BaseModel], above: str = "") -> dict[str, FieldInfo]:
    """Return every setting that has a value of its own by its dotted key, in the order of the model."""
    found: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel | Rules):
            found |= fields(section_of(kind) if issubclass(kind, Rules) else kind, f"{above}{name}.")
        else:
            found[above + name] = field
    return found


def variable(key: str) -> str:
    """Return the environment variable of a setting.

    >>> variable("circuit.failure_threshold")
    'MAHAVISHNU_CIRCUIT__FAILURE_THRESHOLD'
    """
    return PREFIX + key.replace(".", NESTED).upper()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return what `name` was probably meant to be."""
    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1)
    return by_lower[near[0]] if near else None


@cache
def _model_schema(model: type[BaseModel]) -> Schema:
    return model.model_json_schema()


def schema_at(model: type[BaseModel], keys: Sequence[str | int]) -> Schema:
    """Return the schema at the end of `keys`, which may lead into maps and lists; empty without such a place."""
    schema = whole = _model_schema(model)
    for key in keys:
        inside = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
        part = schema.get("items") if isinstance(key, int) else inside
        if not isinstance(part, dict):  # a map of anything
            return {}
        schema = whole["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    return schema


def is_secret(schema: Schema) -> bool:
    """Return whether the value must never be shown, wholly or in part.

    >>> is_secret({"type": "object", "additionalProperties": {"type": "string", "writeOnly": True}})
    True
    """
    return "'writeOnly': True" in str(schema)  # pydantic's mark of a SecretStr, however deep


def describe_allowed(schema: Schema) -> str:
    """Describe the allowed values.

    >>> describe_allowed({"type": "string", "enum": ["hybrid", "polling_only"]})
    "one of 'hybrid', 'polling_only'"
    """
    match schema:
        case {"allowed": words}:
            return str(words)
        case {"enum": values}:
            return f"one of {', '.join(map(repr, values))}"
        case {"anyOf": members}:
            return " or ".join(describe_allowed(member) for member in members if member != {"type": "null"})
        case {"properties": keys}:
            return f"a section with {', '.join(keys)}"
        case {"type": "object", "additionalProperties": dict() as values}:
            return f"a map, each value {describe_allowed(values)}"
        case {"type": "array", "items": items}:
            return f"a list, each item {describe_allowed(items)}"
        case {"type": "integer" | "number" as kind}:
            number = "a whole number" if kind == "integer" else "a number"
            low, high = schema.get("minimum"), schema.get("maximum")
            return number if low is None or high is None else f"{number} from {low} to {high}"
        case {"type": "string", "format": "path"}:
            return "a path"
        case {"type": "string", "minLength": _}:
            return "text that is not empty"
        case {"type": "string"}:
            return "text"
        case {"type": "boolean"}:
            return "true or false"
    return "anything"

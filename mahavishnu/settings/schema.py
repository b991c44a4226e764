"""The keys and variables of the settings, the values that each allows, and the default places of letters."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mahavishnu.model.rules import Rules
from mahavishnu.settings.sections import section_of

PREFIX = "MAHAVISHNU_"
NESTED = "__"
NO_STORE = "none"  # a local store that is not wanted; an empty value means "choose one for me"
Schema = dict[str, Any]  # the JSON schema of a setting, or of a part of it


# --- keys and what is allowed


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


# --- URLs of stores


def state_directory(platform: str = sys.platform, environ: Mapping[str, str] | None = None) -> Path:
    """Return the directory for what this user's programs keep between runs, as the platform has it.

    Raises ValueError where there is none, because the user has no home directory.

    >>> state_directory("linux", {"XDG_STATE_HOME": "/var/state"}).as_posix()
    '/var/state/mahavishnu'
    """
    environ = os.environ if environ is None else environ
    try:
        if platform == "win32":
            base = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif platform == "darwin":
            base = Path.home() / "Library" / "Application Support"
        else:
            chosen = environ.get("XDG_STATE_HOME", "")
            base = Path(chosen if chosen.startswith("/") else Path.home() / ".local" / "state")  # XDG: ignore relative
    except RuntimeError:
        raise ValueError("this user has no home directory to keep letters in; say where") from None
    return base / "mahavishnu"


def default_store_url() -> str:
    """Return the URL of the embedded store: one SQLite file in the user's state directory."""
    return _sqlite_url(state_directory() / "letters.db")


def default_local_url(store_url: str) -> str:
    """Return the local store for `store_url`: a SQLite file for OpenSearch, none for a store that is local anyway.

    Each OpenSearch has its own file, or else the letters that one program had to keep could be drained by another
    program into another cluster. The order of the hosts, credentials and options make no difference to the name.
    """
    if not is_opensearch(store_url):
        return NO_STORE
    parts = urlsplit(store_url)
    hosts = sorted(parts.netloc.rpartition("@")[2].lower().split(","))
    index = f"{','.join(hosts)}/{parts.path.strip('/') or 'mahavishnu'}"
    readable = re.sub(r"[^a-z0-9.]+", "-", hosts[0])[:40].strip("-")
    digest = hashlib.sha256(index.encode()).hexdigest()[:8]
    return _sqlite_url(state_directory() / f"local-{readable}-{digest}.db")


def is_opensearch(url: str) -> bool:
    """Return whether `url` means an OpenSearch rather than a store of this machine.

    >>> is_opensearch("opensearchs://search:9200"), is_opensearch("memory:")
    (True, False)
    """
    return url.partition(":")[0] in ("opensearch", "opensearchs")


def without_passwords(text: str) -> str:
    """Return `text` without the passwords of the URLs in it, also where the URL is malformed.

    >>> without_passwords("opensearchs://ann:se/cret@search:9200")
    'opensearchs://***@search:9200'
    """
    from mahavishnu.stores.urls import mask  # what only reads the settings does not wait for the stores

    return mask(text)


def _sqlite_url(path: Path) -> str:
    return "sqlite:///" + quote(path.as_posix(), safe="/:~")

"""Problems of settings, one line each, and warnings of surprises.

A line says which key, where its value came from, what is allowed and what was given. It never shows a secret: not the
value of a secret setting, no password in a URL, no value of an unknown key, which may be a misspelt password, and no
map or list, which may hold a key that was indented too far.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from operator import attrgetter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.record import Value
from mahavishnu.settings.places import NO_STORE, PREFIX, is_opensearch, without_passwords
from mahavishnu.settings.schema import describe_allowed, fields, is_secret, nearest, schema_at, variable
from mahavishnu.settings.sources import SettingsError, Sources

if TYPE_CHECKING:
    from mahavishnu.settings.settings import MahavishnuSettings

HIDDEN = "***"
_LONGEST = 60
Loc = tuple[str | int, ...]


# --- refused values


def refusal(refused: ValidationError | None, model: type[BaseModel], sources: Sources) -> ValidationError:
    """Return the problems of the sources and of `refused` in one error: each once, on a line of its own."""
    found: dict[str, tuple[str, Loc]] = {problem: ("settings", ("settings",)) for problem in sources.problems}
    for detail in refused.errors(include_url=False) if refused else ():
        found.setdefault(_line(detail, model, sources), (detail["type"], detail["loc"]))
    details = [
        InitErrorDetails(type=PydanticCustomError(kind, line), loc=keys, input=None)
        for line, (kind, keys) in found.items()
    ]
    return ValidationError.from_exception_data(model.__name__, details, hide_input=True)


def display_value(value: Any, secret: bool = False) -> Any:
    """Return `value` as it may be shown: secrets masked, all else in the types that JSON and YAML know."""
    if isinstance(value, SecretStr) or (secret and isinstance(value, str)):
        return HIDDEN if value else ""
    if isinstance(value, Mapping):
        return {str(key): display_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [display_value(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return without_passwords(str(value))


def _line(detail: ErrorDetails, model: type[BaseModel], sources: Sources) -> str:
    keys, given, kind = detail["loc"], detail["input"], detail["type"]
    if kind == "extra_forbidden":
        name, where, settings = _path_text(keys), sources.where(keys), list(fields(model))
        if where.upper().startswith(PREFIX):
            near = nearest(where, map(variable, settings))
        else:
            near = nearest(name, [*settings, *(key.rpartition(".")[0] for key in settings if "." in key)])
        return f"{where}: unknown setting {name!r}" + (f"; did you mean {near}?" if near else "")
    known = _known_keys(keys, model)
    where, schema = sources.where(known), schema_at(model, known)
    if kind == "value_error":  # raised by a validator of ours, which names the key
        problem = detail["ctx"]["error"]  # a rule names its field, and does not know the section
        return f"{where}: {keys[0]}.{problem}" if isinstance(problem, InvalidInput) else f"{where}: {problem}"
    choices = re.findall("'([^']+)'", detail["ctx"]["expected"]) if kind in ("enum", "literal_error") else []
    near = nearest(given, choices) if isinstance(given, str) else None
    hint = f"; did you mean {near!r}?" if near else ""
    if keys[-1] == "[key]":
        must = f"must be {describe_allowed({'enum': choices})}{hint}"
        return f"{where}: {_path_text(keys[:-2])} has the key {keys[-2]!r}, which {must}"
    line = f"{where}: {_path_text(known)} must be {describe_allowed(schema)}"
    if not is_secret(schema):
        if known != keys:
            given = sources.value_at(known)
        line += f", got {_brief(given)}{hint}"
    in_file = where.startswith(f"{sources.file.label}:")
    return line + ("; put it in quotes" if in_file and kind == "string_type" else "")


def _known_keys(keys: Loc, model: type[BaseModel]) -> Loc:
    """Return as much of the way as the model knows: pydantic also names the member of a union that it tried."""
    while keys and not schema_at(model, keys):
        keys = keys[:-1]
    return keys


def _brief(value: Any) -> str:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes):
        return "a map" if isinstance(value, Mapping) else "a list"
    if value is not None and not isinstance(value, str | int | float | PurePath | date):
        return "something else"
    text = repr(display_value(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _path_text(keys: Loc) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


# --- check


class Report(Value, frozen=True):
    """Lines for people, each with the place it is about. `settings` is None if they could not be read at all."""

    settings: MahavishnuSettings | None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if a program can start with these settings."""
        return not self.problems


def check(path: str | os.PathLike[str] | None = None, **values: Any) -> Report:
    """Load the settings as `MahavishnuSettings.load` does and look closer. Never raises for what they contain.

    Nothing is opened or changed: no store is connected, no plugin is loaded.

    >>> check(dlq_store_url="opensearch://search.example:9200").warnings[0]
    'argument: dlq_store_url: letters go to search.example unencrypted; use opensearchs:'
    """
    from mahavishnu.settings.settings import MahavishnuSettings

    try:
        settings = MahavishnuSettings.load(path, **values)
    except SettingsError as refused:
        return Report(None, refused.problems)
    origins = settings.origins()
    problems = [f"{origins[key]}: {key}: {text}" for key, text in _problems(settings)]
    warnings = [f"{origins[key]}: {key}: {text}" for key, text in _warnings(settings)]
    return Report(settings, tuple(problems), tuple(warnings))


def _problems(settings: MahavishnuSettings) -> Iterator[tuple[str, str]]:
    from mahavishnu.stores.urls import open_store

    for key in ("dlq_store_url", "dlq_local_url"):
        url = getattr(settings, key)
        try:
            if url != NO_STORE:
                open_store(url)
        except InvalidInput as problem:
            yield key, without_passwords(str(problem))
        authority = dict(parse_qsl(urlsplit(url).query)).get("ca") if is_opensearch(url) else None
        if authority and not Path(authority).exists():
            yield key, f"there is no {authority}"
    if settings.plugin_directory is not None and not settings.plugin_directory.is_dir():
        yield "plugin_directory", f"{settings.plugin_directory} is no directory"
    if isinstance(settings.classifier_rules, str) and not Path(settings.classifier_rules).is_file():
        yield "classifier_rules", f"there is no file {settings.classifier_rules}"


def _warnings(settings: MahavishnuSettings) -> Iterator[tuple[str, str]]:
    for key in ("dlq_store_url", "dlq_local_url"):
        url = getattr(settings, key)
        if is_opensearch(url):
            yield from ((key, text) for text in _opensearch_warnings(url))
        if url.startswith("memory:"):
            yield key, "letters kept in memory are lost when the program ends"
    if is_opensearch(settings.dlq_store_url):
        if settings.dlq_local_url == NO_STORE:
            yield "dlq_local_url", "failures that happen while OpenSearch is away cannot be kept"
        if bool(settings.dlq_store_user) != bool(settings.dlq_store_password):
            yield "dlq_store_user", "user and password are only used together"
    else:
        for key in ("dlq_store_user", "dlq_store_password", "dlq_store_headers"):
            if getattr(settings, key):
                yield key, "has no effect, because the store is not an OpenSearch"
    if not settings.dlq_enabled or settings.dlq_strategy == "disabled":
        yield "dlq_strategy" if settings.dlq_enabled else "dlq_enabled", "failed workflows are not kept"
    if settings.dlq_automatic_policy == "category" and settings.dlq_default_retry_policy != "exponential":
        yield "dlq_default_retry_policy", "only counts for captured failures if dlq_automatic_policy is default"
    own, mark, queue = settings.dlq_namespace.rpartition("@")
    if own and mark and queue:
        text = (
            f"items of a queue {queue!r} of an app called {own!r} have this name too, and would be run here as letters"
        )
        yield "dlq_namespace", f"{text}: choose one without '@'"
    if "*" in settings.redact_keys:
        yield "redact_keys", "'*' masks the whole payload: no letter can be run again as it was"
    file = settings.read_from
    if os.name == "posix" and file is not None and file.path.stat().st_mode & 0o044:
        for key, origin in settings.origins().items():
            if origin.startswith(f"{file.label}:") and _has_secret(settings, key):
                yield key, f"is written in {file.label}, which other users of this machine can read"


def _has_secret(settings: MahavishnuSettings, key: str) -> bool:
    """Return whether the setting is a password or a token, or has one in it."""
    value = attrgetter(key)(settings)
    if is_secret(schema_at(type(settings), key.split("."))):
        return bool(value)
    return isinstance(value, str) and without_passwords(value) != value


def _opensearch_warnings(url: str) -> Iterator[str]:
    from mahavishnu.stores.urls import is_loopback

    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    names = [urlsplit(f"//{host}").hostname or "" for host in hosts.split(",")]
    remote = [name for name in names if not is_loopback(name)]
    if parts.scheme == "opensearch" and remote:
        yield f"letters go to {', '.join(remote)} unencrypted; use opensearchs:"
    if ":" in credentials:
        yield "a password in a URL ends up in logs and process lists; use dlq_store_user and dlq_store_password"
    if parts.scheme == "opensearchs" and {"verify=false", "verify=0"} & set(parts.query.lower().split("&")):
        yield "whoever answers is trusted, because certificates are not verified; give the authority as ca=file"

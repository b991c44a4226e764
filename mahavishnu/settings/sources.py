"""The sources of settings: arguments, the environment, a YAML file. Every value remembers its place.

The sources of pydantic-settings cannot say which line or variable a refused value came from, and do not notice a
misspelt variable. So the sources are read here, and pydantic does what it is good at: the checking.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.record import Value
from mahavishnu.settings.places import FILE, PREFIX, QUEUE_FOLDER
from mahavishnu.settings.schema import NESTED, Schema, fields, schema_at, variable

FILE_VARIABLE = "MAHAVISHNU_SETTINGS"
ARGUMENT = "argument"
DEFAULT = "default"

# Variables with our prefix that are no settings: ours, those of the command line and of this project's tests, and what
# Kubernetes puts into every container next to a service that happens to be called mahavishnu or mahavishnu-….
SERVER_VARIABLE = "MAHAVISHNU_SERVER"  # an address is the server that commands speak to, a JSON object the section
_NO_SETTING = re.compile(
    r"MAHAVISHNU_(SETTINGS|TOKEN|USER|OPENSEARCH_(CACHE|MAVEN_ARGS)|TEST_\w+"
    r"|(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?))"
)


class SettingsError(InvalidInput):
    """The settings cannot be used. `problems` has a line for each: where it is, which key, what is allowed."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value, with the variable, line or argument that it came from."""

    value: Any = field(repr=False)
    where: str


Keys = tuple[str, ...]  # the way to a value: ("circuit", "failure_threshold")
Values = dict[Keys, SourcedValue]  # no key is the beginning of another one


class SettingsFile(Value, frozen=True):
    """The YAML file that is read: `label` is its name for people, `required` whether it has to be there."""

    path: Path
    label: str
    required: bool

    @classmethod
    def choose(cls, path: str | os.PathLike[str] | None = None) -> SettingsFile:
        """Choose `path`, MAHAVISHNU_SETTINGS or an existing settings/mahavishnu.yaml, made absolute for reloads."""
        chosen = path if path is not None else os.environ.get(FILE_VARIABLE) or None
        file = Path(FILE if chosen is None else chosen)
        home = Path(os.path.expanduser(file))  # noqa: PTH111 - Path's raises where there is no home
        return cls(home.absolute(), str(file), required=chosen is not None)


@dataclass(frozen=True, slots=True)
class Sources:
    """All values, merged by precedence, and the sources' problems; any two are equal, as origins do not count."""

    file: SettingsFile = field(compare=False)  # required if it was there
    arguments: Mapping[str, Any] = field(compare=False, repr=False)
    given: Values = field(compare=False, repr=False)
    problems: tuple[str, ...] = field(compare=False)

    def values(self) -> dict[str, Any]:
        """Return the merged values, for the model."""
        tree: dict[str, Any] = {}
        for keys, given in self.given.items():
            branch = tree
            for key in keys[:-1]:
                branch = branch.setdefault(key, {})
            branch[keys[-1]] = given.value
        return tree

    def value_at(self, keys: Sequence[str | int]) -> Any:
        """Return the merged value at `keys`, as it was given."""
        value: Any = self.values()
        for key in keys:
            value = value[key]
        return value

    def where(self, keys: Sequence[str | int]) -> str:
        """Return where the value at `keys` came from: the one that it is part of, else the first of its own parts."""
        return _where(self.given, tuple(map(str, keys))) or DEFAULT


def read_sources(model: type[BaseModel], file: SettingsFile, arguments: Mapping[str, Any]) -> Sources:
    """Read all sources for `model`. Never raises: `problems` has a line per fault, a malformed file no values."""
    from_file: Values = {}
    from_environment, problems = _read_environment(model)
    try:
        from_file = _parse(file.path.read_bytes(), file.label)
        file = replace(file, required=True)  # its loss before a reload must not silently mean all defaults
    except FileNotFoundError:
        problems += [f"{file.label}: there is no such file"] if file.required else []
    except OSError as problem:
        problems.append(f"{file.label}: cannot be read: {problem.strerror}")
    except FormError as problem:
        problems.append(f"{file.label}:{problem}")
    from_queues, more = read_queue_files(file)
    from_file, problems = _overlay(from_queues, from_file), [*problems, *more]
    # a section, map or list with nothing behind its key is what remains when all its lines are commented out
    from_file = {
        keys: given
        for keys, given in from_file.items()
        if given.value is not None or not _is_structured(schema_at(model, keys))
    }
    from_arguments = _flat(arguments, ARGUMENT) if arguments else {}
    from_file, from_arguments = _in_known_case(model, from_file), _in_known_case(model, from_arguments)
    given = _overlay(_overlay(from_file, from_environment), from_arguments)
    return Sources(file, dict(arguments), given, tuple(problems))


def queue_files(file: Path) -> list[Path]:
    """Return the files beside the settings file that declare one queue each."""
    return sorted((file.parent / QUEUE_FOLDER).glob("*.yaml"))


def read_queue_files(file: SettingsFile) -> tuple[Values, list[str]]:
    """Return their values, and a line for each file that cannot be read."""
    found: Values = {}
    problems: list[str] = []
    for path in queue_files(file.path):
        label = f"{Path(file.label).parent / QUEUE_FOLDER / path.name}"
        try:
            values = _parse(path.read_bytes(), label) or {(): SourcedValue({}, label)}
        except OSError as problem:
            problems.append(f"{label}: cannot be read: {problem.strerror}")
        except FormError as problem:
            problems.append(f"{label}:{problem}")
        else:
            found |= {("queues", path.stem, *keys): value for keys, value in values.items()}
    return found, problems


def _in_known_case(model: type[BaseModel], values: Values) -> Values:
    """Return the values with the first key in the case of its setting; a key that is in that case already wins."""
    known = model.model_fields
    other = {keys: value for keys, value in values.items() if keys[0] not in known and keys[0].lower() in known}
    exact = {keys: value for keys, value in values.items() if keys not in other}
    return _overlay({(keys[0].lower(), *keys[1:]): value for keys, value in other.items()}, exact)


def _flat(value: Any, where: str, keys: Keys = ()) -> Values:
    """Return `value` at `keys`, and all values inside of it; an empty map is a value, which clears weaker ones."""
    if not isinstance(value, Mapping) or not value:
        return {keys: SourcedValue(value, where)}
    return {path: leaf for key, item in value.items() for path, leaf in _flat(item, where, (*keys, str(key))).items()}


def _overlay(low: Values, high: Values) -> Values:
    """Return both, `high` where they differ: sections and maps are merged key by key, all else is replaced."""
    return {keys: value for keys, value in low.items() if not _where(high, keys)} | high


def _where(values: Values, keys: Keys) -> str | None:
    """Return the place of the value that has `keys` in it, or begins with them; None if there is none."""
    return next((value.where for at, value in values.items() if at[: len(keys)] == keys[: len(at)]), None)


# --- the environment


def _read_environment(model: type[BaseModel]) -> tuple[Values, list[str]]:
    values: Values = {}
    problems = []
    known = set(map(variable, fields(model)))
    for name in sorted(os.environ, key=str.upper):
        upper, text = name.upper(), os.environ[name]
        if not upper.startswith(PREFIX) or (upper not in known and _NO_SETTING.fullmatch(upper)):
            continue
        if not text or (upper == SERVER_VARIABLE and not text.lstrip().startswith("{")):
            continue  # compose files and charts write `X: ${X:-}` for what is not set
        keys = tuple(upper.removeprefix(PREFIX).lower().split(NESTED))
        try:
            found = _flat(_decode(model, keys, text), name, keys)
        except (ValueError, RecursionError) as problem:
            reason = problem if isinstance(problem, ValueError) else "is nested too deeply"
            problems.append(f"{name}: {'.'.join(keys)} {reason}")
            continue
        if other := next(filter(None, (_where(values, each) for each in found)), None):
            problems.append(f"{name}: {'.'.join(keys)} is already set by {other}")
        else:
            values |= found
    return values, problems


def _decode(model: type[BaseModel], keys: Keys, text: str) -> Any:
    """Decode text for simple settings; JSON for sections, maps and lists; a list of texts may also be written `a,b`."""
    schema = schema_at(model, keys)
    if _is_structured(schema) and text.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as problem:  # its full message would quote the text
            raise ValueError(f"is not valid JSON: {problem.msg} at column {problem.colno}") from None
    if schema.get("type") == "array" and schema["items"].get("type") == "string":
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _is_structured(schema: Schema) -> bool:
    """Return whether a value is, or may be, written as a section, a map or a list."""
    return any(member.get("type") in ("object", "array") for member in schema.get("anyOf", [schema]))


# --- the YAML file


class FormError(Exception):
    """A fault in the form of the file, with its line. It quotes no value, which might be a password."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"{line}: {reason}")


def _parse(content: bytes, label: str) -> Values:
    from mahavishnu.settings.yaml_file import parse_yaml  # with yaml: only where there is a file

    return parse_yaml(content, label)

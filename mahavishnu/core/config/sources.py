"""Where settings come from: arguments, the environment, a YAML file. Every value remembers its place.

pydantic-settings has sources of its own, but they cannot say which line or variable a refused value came from, and do
not notice a misspelt variable. So the sources are read here, and pydantic does what it is good at: the checking.
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

from mahavishnu.core.config import yaml_file
from mahavishnu.core.config.schema import PREFIX, fields, holds_many, is_list_of_texts, keys_of, type_at, variable
from mahavishnu.core.config.values import Tree, flat, grow, merge, plain, plant, where_is

FILE = Path("settings/mahavishnu.yaml")
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


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The YAML file that is read: `label` is how people know it, `required` whether it has to be there."""

    path: Path
    label: str
    required: bool

    @classmethod
    def choose(cls, path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> SettingsFile:
        """`path`, else what MAHAVISHNU_SETTINGS names, else settings/mahavishnu.yaml if it exists.

        The path is made absolute, so that a reload reads the same file wherever the program went meanwhile.
        """
        chosen = path if path is not None else environ.get(FILE_VARIABLE) or None
        file = Path(FILE if chosen is None else chosen)
        home = Path(os.path.expanduser(file))  # noqa: PTH111 - Path's raises where there is no home
        return cls(home.absolute(), str(file), required=chosen is not None)


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that was given, merged by precedence, and what was wrong with it before any value was looked at.

    Two of them are equal: where a value came from makes no difference between settings.
    """

    file: SettingsFile = field(compare=False)
    found: bool = field(compare=False)  # whether the file was there
    arguments: Mapping[str, Any] = field(compare=False, repr=False)
    tree: Tree = field(compare=False, repr=False)
    problems: tuple[str, ...] = field(compare=False)

    def values(self) -> dict[str, Any]:
        """The merged values, for the model."""
        return plain(self.tree)

    def where(self, keys: Sequence[str | int]) -> str:
        """Where the value at `keys` came from."""
        return where_is(self.tree, keys) or DEFAULT

    def file_for_reload(self) -> SettingsFile:
        """The same file. If it was there it must be there again: its loss must not silently mean all defaults."""
        return replace(self.file, required=self.file.required or self.found)


def read(
    model: type[BaseModel], file: SettingsFile, arguments: Mapping[str, Any], environ: Mapping[str, str]
) -> Sources:
    """Read all sources for `model`. Never raises for what they contain: `problems` has a line for each fault."""
    from_file, found, problems = yaml_file.read(file.path, file.label, required=file.required)
    _drop_blank(from_file, model)
    from_environment, more = _environment(model, environ)
    from_arguments: Tree = {name: grow(value, ARGUMENT) for name, value in arguments.items()}
    tree = merge(merge(from_file, from_environment), from_arguments)
    # a name such as `_env_file` is an instruction to pydantic-settings, which no file or variable may give
    hidden = [name for name in tree if name.startswith("_")]
    foreign = tuple(f"{where_is(tree, [name]) or file.label}: unknown setting {name!r}" for name in hidden)
    tree = {name: item for name, item in tree.items() if name not in hidden}
    return Sources(file, found, dict(arguments), tree, problems + more + foreign)


def _drop_blank(tree: Tree, model: type[BaseModel]) -> None:
    """A section, map or list with nothing behind its key is what remains when all its lines are commented out."""
    for keys, given in list(flat(tree)):
        if given.value is None and holds_many(type_at(model, keys)):
            branch: Any = tree
            for key in keys[:-1]:
                branch = branch[key]
            del branch[keys[-1]]


def _environment(model: type[BaseModel], environ: Mapping[str, str]) -> tuple[Tree, tuple[str, ...]]:
    tree: Tree = {}
    problems = []
    known = {variable(keys) for keys, _ in fields(model)}
    for name in sorted(environ, key=str.upper):
        upper, text = name.upper(), environ[name]
        if not upper.startswith(PREFIX) or (upper not in known and _NO_SETTING.fullmatch(upper)):
            continue
        if not text or (
            upper == SERVER_VARIABLE and not text.lstrip().startswith("{")
        ):  # compose files and charts write `X: ${X:-}` for what is not set
            continue
        keys = keys_of(upper)
        try:
            item = grow(_decode(type_at(model, keys), text), name)
        except ValueError as problem:
            problems.append(f"{name}: {'.'.join(keys)} {problem}")
            continue
        if clash := plant(tree, keys, item):
            problems.append(f"{name}: {'.'.join(keys)} is already set by {clash.where}")
    return tree, tuple(problems)


def _decode(annotation: Any, text: str) -> Any:
    """Text for simple settings; JSON for sections, maps and lists; a list of texts may also be written `a,b`."""
    if not holds_many(annotation):
        return text
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError as problem:  # its full message would quote the text
            raise ValueError(f"is not valid JSON: {problem.msg} at column {problem.colno}") from None
        except RecursionError:
            raise ValueError("is nested too deeply") from None
    if is_list_of_texts(annotation):
        return [item.strip() for item in text.split(",") if item.strip()]
    return text

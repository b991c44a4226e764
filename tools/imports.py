"""Read the imports of the package: also those for types only, and those inside of functions."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "mahavishnu"
# From top to bottom: a package imports those after it.
_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
_LAYERS = next(each["layers"] for each in _PROJECT["tool"]["importlinter"]["contracts"] if each["id"] == "house")
ORDER = [name for layer in _LAYERS for name in layer.split(" | ") if name not in ("__main__", "testing")]
OUTSIDE = ("testing",)  # the kit for tests may import everything; import-linter refuses imports of it
PLACES = {package: place for place, package in enumerate(ORDER)}
SHORT = 80
ENTRANCES = frozenset({"__init__", "__main__"})
# The layers of a room, which are files of their own however short they are.
LAYERS = frozenset({"routes", "commands", "page", "service", "rules", "records"})
REGISTERED = re.compile(rf"({PACKAGE}(?:\.\w+)+)(?::\w+)?")


@dataclass(frozen=True)
class Source:
    """A module: its dotted name, its file below the package, and its text."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")


@dataclass(frozen=True)
class Import:
    """One module reads another one, first at `line`."""

    reader: Source
    module: str
    line: int


def source(path: str, text: str) -> Source:
    """Return the module of a file below the package.

    >>> source("stores/sqlite/__init__.py", "").name
    'mahavishnu.stores.sqlite'
    """
    name = ".".join((PACKAGE, *path.removesuffix(".py").split("/"))).removesuffix(".__init__")
    return Source(name, path, text, ast.parse(text))


def package_of(module: str) -> str | None:
    """Return the folder of a module directly below the package, or None for the package's own modules.

    >>> package_of("mahavishnu.stores.sqlite.store")
    'stores'
    """
    folder = module.split(".")[1:2]
    return None if not folder or folder[0] in ENTRANCES else folder[0]


def imports(sources: Sequence[Source]) -> Iterator[Import]:
    """Yield each pair of modules of which one reads the other, once."""
    known = {each.name for each in sources}
    for each in sources:
        lines: dict[str, int] = {}
        for node in ast.walk(each.tree):
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
                for name in _names(node):
                    module = name if name in known else name.rpartition(".")[0]
                    if module in known and module != each.name:
                        lines[module] = min(node.lineno, lines.get(module, node.lineno))
        yield from (Import(each, module, line) for module, line in sorted(lines.items()))


def _names(node: ast.Import | ast.ImportFrom | ast.Call) -> Iterator[str]:
    """Yield the modules that a statement imports, or the names in them."""
    match node:
        case ast.Import(names=aliases):
            yield from (each.name for each in aliases)
        case ast.ImportFrom(module=str(module), names=aliases, level=0):
            yield from (f"{module}.{each.name}" for each in aliases)
        case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(name)), *_]):
            yield name


def upward(found: Sequence[Import]) -> Iterator[Import]:
    """Yield the imports that point to a package above."""
    for each in found:
        reader, read = package_of(each.reader.name), package_of(each.module)
        if reader in PLACES and read in PLACES and PLACES[reader] > PLACES[read]:
            yield each


def strangers(sources: Sequence[Source]) -> Sequence[str]:
    """Return the packages that have no place in `ORDER`."""
    packages = {package_of(each.name) for each in sources if "/" in each.path}
    return sorted(each for each in packages if each is not None and each not in {*ORDER, *OUTSIDE})


def fragments(sources: Sequence[Source], found: Sequence[Import]) -> Iterator[tuple[Source, str]]:
    """Yield the short modules that only one other module reads, and that module."""
    readers: Mapping[str, set[str]] = defaultdict(set)
    for one in found:
        readers[one.module].add(one.reader.path)
    for reader in sources:
        for module in _registered(reader):
            readers[module].add(reader.path)
    for each in sources:
        name = each.path.rpartition("/")[2].removesuffix(".py")
        if each.lines < SHORT and name not in {*ENTRANCES, *LAYERS} and len(readers[each.name]) == 1:
            yield each, min(readers[each.name])


def _registered(reader: Source) -> Iterator[str]:
    """Yield the modules that texts name, as in `Routes("groups", "mahavishnu.groups.routes:router")`."""
    for node in ast.walk(reader.tree):
        match node:
            case ast.Constant(str(text)) if named := REGISTERED.fullmatch(text):
                yield named[1]

"""Hold the package to the rules of CONTRIBUTING.md that a program can check: `make check` runs it.

- `tools/ratchets.toml` has limits that may only fall, and a reason for each module of more than 600 lines.
- Every package has its place in the order of `pyproject.toml`.
- Every public class of the domain stands in docs/glossary.md.

`--write` lowers limits to what is there now. `--participles`, `--fragments`, `--docstrings` and `--upward` list what
counts against a limit. `python -m benchmarks.walks --check` holds the walks to theirs.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # so that it runs as a file, too

from tools import ratchets  # noqa: E402
from tools.imports import PACKAGE, Source, fragments, imports, source, strangers, upward  # noqa: E402
from tools.places import find_stray_tests  # noqa: E402
from tools.words import participles, relative_docstrings  # noqa: E402

GLOSSARY = ROOT / "docs" / "glossary.md"
LONG = 600
# Whose classes are the words of the project. Elsewhere they serve one surface or one database.
DOMAIN = re.compile(r"model/.*|(stores|classify)/[^/]*|.*/(rules|records)\.py")
LISTS = {
    "--participles": "bare_participles",
    "--fragments": "fragments",
    "--docstrings": "relative_docstrings",
    "--upward": "upward_imports",
}


def read_sources(package: Path) -> Sequence[Source]:
    """Return the modules of a package."""
    paths = sorted(package.rglob("*.py"))
    return [source(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def findings(sources: Sequence[Source]) -> Mapping[str, Sequence[str]]:
    """Return what counts against each limit, with its place. A new limit is a line here and one in the file."""
    found = list(imports(sources))
    return {
        "bare_participles": [_at(each, *one) for each in sources for one in participles(each.tree)],
        "fragments": [
            _at(each, 1, f"{each.lines} lines, and only {reader} reads it: join them")
            for each, reader in fragments(sources, found)
        ],
        "relative_docstrings": [_at(each, *one) for each in sources for one in relative_docstrings(each.tree)],
        "upward_imports": [_at(each.reader, each.line, f"imports {each.module}, above it") for each in upward(found)],
    }


def problems(sources: Sequence[Source], long_modules: Mapping[str, str], glossary: str) -> Iterator[str]:
    """Yield what is wrong beside the limits."""
    for each in sources:
        if each.lines > LONG and each.path not in long_modules:
            yield _at(each, 1, f"{each.lines} lines: it has two subjects, or [long_modules] says why it has not")
        if DOMAIN.fullmatch(each.path) and not each.path.endswith(("errors.py", "hookspecs.py")):
            yield from (_at(each, *one) for one in unknown_classes(each.tree, glossary))
    for path in sorted(long_modules.keys() - {each.path for each in sources if each.lines > LONG}):
        yield f"{ratchets.FILE.name}: {path} has at most {LONG} lines: remove its entry from [long_modules]"
    for package in strangers(sources):
        yield f"{PACKAGE}/{package}: has no place in the order of packages in pyproject.toml"


def unknown_classes(tree: ast.Module, glossary: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the problem of each public class that the glossary does not have, exceptions apart."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_") or _is_exception(node):
            continue
        if not re.search(rf"`{node.name}\b", glossary):
            yield node.lineno, f"the class {node.name} is not in docs/glossary.md"


def _is_exception(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Error", "Exception", "Warning")) for base in node.bases)


def _at(each: Source, line: int, problem: str) -> str:
    return f"{PACKAGE}/{each.path}:{line}: {problem}"


def main(arguments: Sequence[str] | None = None, limits: Path = ratchets.FILE) -> int:
    parser = argparse.ArgumentParser(description="Check the rules of the house.")
    parser.add_argument("--write", action="store_true", help="lower limits to what is there now")
    for option, name in LISTS.items():
        parser.add_argument(option, dest="listed", action="append_const", const=name, help="list what counts")
    options = parser.parse_args(arguments)
    sources = read_sources(ROOT / PACKAGE)
    found = findings(sources)
    if options.listed:
        for name in options.listed:
            sys.stdout.writelines(f"{each}\n" for each in found[name])
        return 0
    values = {name: len(each) for name, each in found.items()}
    if options.write:
        for name, value in ratchets.lower(values, "house", limits).items():
            sys.stdout.write(f"{name} = {value}\n")
    file = ratchets.read(limits)
    wrong = list(problems(sources, file["long_modules"], GLOSSARY.read_text(encoding="utf-8")))
    hints = {name: f"python tools/check_house.py {option}" for option, name in LISTS.items()}
    wrong += ratchets.above(values, file["house"], hints)
    wrong += ratchets.below(values, file["house"], "python tools/check_house.py --write")
    wrong += find_stray_tests(ROOT)
    sys.stderr.writelines(f"{each}\n" for each in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

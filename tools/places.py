"""Find tests that no module owns: `tests/<room>/test_<module>_<aspect>.py` is about `mahavishnu/<room>/<module>.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

NO_ROOMS = frozenset(
    {"benchmarks", "demo", "docs", "proofs", "support", "tools", "typing"}
)  # each is about more than a module
ROOTS = ("tests", "plugins")  # where pytest looks for tests
NAMED_IN_A_DOCUMENT = frozenset({"unit/test_dead_letter_queue.py"})  # users are told to run it


def module_of(test: str, modules: Collection[str]) -> str | None:
    """Return the module that a test file is about: the longest one with which its name begins.

    Both are relative to their trees. A folder without modules, such as `console/browser`, belongs to the one above it.
    """
    name, folder = PurePosixPath(test).stem.removeprefix("test_"), PurePosixPath(test).parent
    while folder.name and not any(PurePosixPath(each).parent == folder for each in modules):
        folder = folder.parent
    siblings = (each for each in modules if folder.name and PurePosixPath(each).parent == folder)
    owners = [each for each in siblings if f"{name}_".startswith(f"{PurePosixPath(each).stem}_")]
    return max(owners, key=len, default=None)


def stray_tests(tests: Collection[str], modules: Collection[str]) -> Iterator[str]:
    """Yield the test files that are about no module and stand in no folder for such tests."""
    for each in sorted(tests):
        if each.split("/")[0] in NO_ROOMS or each in NAMED_IN_A_DOCUMENT:
            continue
        if module_of(each, modules) is None:
            yield each


def find_stray_tests(root: Path) -> Iterator[str]:
    """Yield what is wrong with the places of a repository's tests."""
    tests, package = root / "tests", root / "mahavishnu"
    modules = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    for each in stray_tests({path.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")}, modules):
        yield f"tests/{each}: its name begins with no module of its room: tests/<room>/test_<module>_<aspect>.py"
    for folder in sorted(each for each in root.iterdir() if each.name not in (*ROOTS, "build") and each.name[0] != "."):
        for path in [folder] if folder.is_file() else sorted(folder.rglob("test_*.py")):
            if path.match("test_*.py"):
                yield f"{path.relative_to(root)}: pytest looks for tests in {' and '.join(ROOTS)} only"

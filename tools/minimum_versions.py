"""Prints the oldest versions that pyproject.toml allows, as constraints for pip; `make minimum` tests with them.

What those need in turn, and the tools of the tests, are as new as pip finds them to go with these.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("cli", "http", "server")
_OWN = "mahavishnu-dlq"
_REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,]+\])?(?:>=([\w.]+))?")


def constraints() -> list[str]:
    """A line for each package. Raises ValueError for a requirement that says no oldest version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [*project["dependencies"], *(each for name in EXTRAS for each in project["optional-dependencies"][name])]
    found = {}
    for requirement in required:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None or not (match[2] or match[1] == _OWN):
            raise ValueError(f"{requirement!r} should be NAME>=VERSION")
        found[match[1]] = match[2]
    return [f"{name}=={version}" for name, version in found.items() if name != _OWN]


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints()) + "\n")

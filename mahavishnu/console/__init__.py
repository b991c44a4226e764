"""The command line: `mahavishnu`. What it can do is in docs/reference-cli.md."""

from __future__ import annotations

import sys

NEEDS = frozenset({"rich", "typer"})


def main() -> int:
    """Run the command line and return its exit code. Without the extra `cli` it only says how to get that."""
    try:
        from mahavishnu.console.cli import run
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name not in NEEDS:
            raise
        sys.stderr.write(f"mahavishnu: there is no {name}: pip install 'mahavishnu-dlq[cli]'\n")
        return 1
    return run()

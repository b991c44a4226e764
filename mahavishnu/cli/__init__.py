"""The command line: `mahavishnu`. What it can do is in docs/reference-cli.md."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

NEEDS = frozenset({"rich", "typer"})
INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit code. Without the extra `cli` it only says how to get that."""
    try:
        before = signal.signal(signal.SIGINT, _end)
        try:
            from mahavishnu.cli.app import run
        finally:
            signal.signal(signal.SIGINT, before)
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name not in NEEDS:
            raise
        sys.stderr.write(f"mahavishnu: there is no {name}: pip install 'mahavishnu-dlq[cli]'\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return run()


def _end(signum: int, frame: FrameType | None) -> None:
    """Ctrl-C while modules are loaded: there is nothing to put away, and what is raised there some would change."""
    os._exit(INTERRUPTED)

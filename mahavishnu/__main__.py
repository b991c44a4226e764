"""The command line: `mahavishnu`. What it can do is in docs/reference-cli.md."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit code. Without the extra `cli` it only says how to get that."""
    gc.set_threshold(200_000)  # importing makes objects that stay: looking for garbage among them takes its time
    try:
        before = signal.signal(signal.SIGINT, _end)
        try:
            from mahavishnu.core.commands import run
        finally:
            signal.signal(signal.SIGINT, before)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "typer":
            raise
        sys.stderr.write("mahavishnu: there is no typer: pip install 'mahavishnu-dlq[cli]'\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return run()


def _end(signum: int, frame: FrameType | None) -> None:
    """End at once on Ctrl-C while modules are loaded: nothing is open yet, and some would catch an exception."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())

"""A real `mahavishnu serve`, in a process of its own, on a free port of this machine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen


@dataclass(slots=True)
class Server:
    """Where it listens, and its process."""

    url: str
    process: Popen[str]
    log: Path

    @property
    def api(self) -> str:
        return f"{self.url}/api/v1"


@contextmanager
def served(store: str, folder: Path, *arguments: str, **settings: str) -> Iterator[Server]:
    """One that uses this store; `settings` by the names of their environment variables, without MAHAVISHNU_."""
    log = folder / "server.log"
    environment = environment_for(store, folder, **settings)
    command = [sys.executable, "-m", "mahavishnu", "serve", "--port", "0", *arguments]
    with log.open("w") as errors:
        process = Popen(command, stdout=PIPE, stderr=errors, text=True, env=environment, cwd=folder)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert " at http" in told, f"{told}\n{log.read_text()}"
        yield Server(told.rsplit(" at ", 1)[1].strip().removesuffix("/api/v1"), process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def environment_for(store: str, folder: Path, **settings: str) -> Mapping[str, str]:
    """The environment of a process that uses this store, and nothing of this machine's user."""
    root = Path(__file__).parents[2]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("MAHAVISHNU_")},
        "MAHAVISHNU_DLQ_STORE_URL": store,
        "MAHAVISHNU_DLQ_LOCAL_URL": f"sqlite:///{folder}/local.db" if "opensearch" in store else "none",
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        **{f"MAHAVISHNU_{name}": value for name, value in settings.items()},
    }

"""How long a command takes to start: `python -m benchmarks.start [rounds]`.

Each command is run as a process of its own, in turn with the others, and measured by the processor time that it used,
which other work on the machine disturbs less than the time that passed. The first line is what a command line of
this kind needs at least: Python and the libraries. Another checkout is measured by
`PYTHONPATH=<checkout> <its python> benchmarks/start.py`.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.urls import open_store

LETTERS = 30
ROUNDS = 10


async def _make_store(url: str) -> None:
    async with DeadLetterQueue(store=open_store(url)) as dlq:
        for number in range(LETTERS):
            await dlq.enqueue(f"wf_{number}", {"type": "sweep"}, ["api"], "connection refused")


def _seconds(command: list[str], folder: str) -> float:
    """The processor time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAHAVISHNU_")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each run compiles all modules, which an installed package has
    environment["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, and print a line for each command."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory(prefix="mahavishnu-start-") as folder:
        url = f"sqlite:///{Path(folder).as_posix()}/letters.db"
        asyncio.run(_make_store(url))
        mahavishnu = [sys.executable, "-m", "mahavishnu"]
        commands = {
            "python -c 'import typer, rich, pydantic'": [sys.executable, "-c", "import typer, rich, pydantic"],
            "mahavishnu --help": [*mahavishnu, "--help"],
            f"mahavishnu dlq list ({LETTERS} letters)": [*mahavishnu, "dlq", "--store", url, "list"],
            "mahavishnu dlq stats": [*mahavishnu, "dlq", "--store", url, "stats"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, command in commands.items():
                seconds = _seconds(command, folder)
                if number:  # the first one compiles modules
                    times[name].append(seconds)
    for name, measured in times.items():
        print(f"{name:45} {statistics.median(measured):.3f} s (least {min(measured):.3f} s)")


if __name__ == "__main__":
    main()

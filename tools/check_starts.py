"""Hold the commands that people wait for to the modules that they import.

    python tools/check_starts.py            # fails if a command imports more than `[starts]` of ratchets.toml allows
    python tools/check_starts.py --write    # lowers the limits to what is there now
    python tools/check_starts.py --list "dlq list"

Modules are counted, not milliseconds: the number is the same on each machine and with each version of Python. Packages
that take long to import must not be imported at all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tools import ratchets  # noqa: E402

# Each takes longer to import than a list takes to print.
SLOW = ("aiohttp", "fastapi", "jinja2", "opensearchpy", "pydantic", "rich", "starlette", "yaml")
IMPORT = "import mahavishnu"
_STORE = "sqlite:///letters.db"
COMMANDS: Mapping[str, Sequence[str]] = {
    "--help": ["--help"],
    "dlq list --help": ["dlq", "list", "--help"],
    "dlq list": ["dlq", "--store", _STORE, "list"],
    "dlq show": ["dlq", "--store", _STORE, "show", "order-1"],
    "dlq stats": ["dlq", "--store", _STORE, "stats"],
    "group list": ["group", "--store", _STORE, "list"],
}
_RUN = """
import sys
from mahavishnu.core.commands import run
code = run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""
_FILL = """
import asyncio
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.stores.urls import open_store
async def main():
    async with DeadLetterQueue(store=open_store("sqlite:///letters.db")) as dlq:
        await dlq.enqueue("order-1", {}, [], "timed out", adapter="orders")
asyncio.run(main())
"""


def imported_modules() -> dict[str, frozenset[str]]:
    """Return the modules that each command imports, on a store with one letter."""
    with TemporaryDirectory() as folder:
        _python(folder, _FILL)
        found = {IMPORT: _python(folder, "import sys, mahavishnu; print(*sys.modules, file=sys.stderr)")}
        found |= {name: _python(folder, _RUN, *arguments) for name, arguments in COMMANDS.items()}
    return {name: frozenset(text.splitlines()[-1].split()) for name, text in found.items()}


def slow_packages(modules: Mapping[str, frozenset[str]]) -> list[str]:
    """Return a problem for each package that takes long to import."""
    return [f"{name}: it imports {each}" for name, found in modules.items() for each in SLOW if each in found]


def _python(folder: str, program: str, *arguments: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("MAHAVISHNU_")}
    environment = {**kept, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} ends with {done.returncode}: {done.stderr}")
    return done.stderr


def main(arguments: Sequence[str] | None = None, limits: Path = ratchets.FILE) -> int:
    parser = argparse.ArgumentParser(description="Hold commands to the modules that they import.")
    parser.add_argument("--write", action="store_true", help="lower limits to what is there now")
    parser.add_argument("--list", metavar="COMMAND", choices=[IMPORT, *COMMANDS], help="list what one imports")
    options = parser.parse_args(arguments)
    modules = imported_modules()
    if options.list:
        sys.stdout.writelines(f"{each}\n" for each in sorted(modules[options.list]))
        return 0
    values = {name: sum(each.partition(".")[0] == "mahavishnu" for each in found) for name, found in modules.items()}
    if options.write:
        for name, value in ratchets.lower(values, "starts", limits).items():
            sys.stdout.write(f"{name} = {value}\n")
    known = ratchets.read(limits)["starts"]
    hints = {name: f'python tools/check_starts.py --list "{name}"' for name in values}
    wrong = [*slow_packages(modules), *ratchets.above(values, known, hints)]
    wrong += ratchets.below(values, known, "python tools/check_starts.py --write")
    sys.stderr.writelines(f"{each}\n" for each in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

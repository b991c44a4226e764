"""The job of all systems: it fails the first time, succeeds the second time, and writes both into one file.

A line is `F number nanoseconds` or `S number nanoseconds`; one write, so that no line is lost or torn by a kill.
"""

import os
import time

JOBS = int(os.environ["PEER_JOBS"])
URL = os.environ["PEER_URL"]  # of the server, or of the file
SECONDS = 5  # after which a system takes work back from a worker that is gone, where that can be set
_PATH = os.environ["PEER_LOG"]
_log = os.open(_PATH, os.O_CREAT | os.O_APPEND | os.O_WRONLY)


def numbers(mark: str) -> set[int]:
    """Return the jobs that have such a line."""
    with open(_PATH) as lines:  # noqa: PTH123
        return {int(line.split()[1]) for line in lines if line.startswith(mark)}


failed = numbers("F")  # of a worker before this one


def note(mark: str, number: int) -> None:
    """Write a line."""
    os.write(_log, f"{mark} {number} {time.time_ns()}\n".encode())


def run(number: int) -> None:
    """Fail, or succeed."""
    if number in failed:
        note("S", number)
        return
    failed.add(number)
    note("F", number)
    raise ConnectionResetError(104, "connection reset by peer")


def execute(program: str, *arguments: str) -> None:
    """Become the worker of a system, which has a command line."""
    import sys

    path = os.path.join(os.path.dirname(sys.executable), program)  # noqa: PTH118, PTH120
    os.execv(path, [program, *arguments])

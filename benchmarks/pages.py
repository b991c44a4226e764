"""The console under 20 viewers: `python -m benchmarks.pages [--letters NUMBER] [part of a page's name …]`.

`mahavishnu serve` runs in a process of its own, with 100,000 open letters in SQLite. 20 browsers keep their connections
open and load one page after the other, for as long as a round lasts; beside them, in turns, 20 clients ask the file for
the bodies of the same 50 records as the list of letters, and for nothing else. `cpu_ms` is the processor time that the
server used for each page: other loads on the machine change it less than the time that passed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.api import Ask, Client, p50, p95, raw_sqlite, waits
from benchmarks.console_store import fill_store
from benchmarks.figures import Figure, figure, keep
from tests.support.server import served

VIEWERS, LETTERS_KEPT = 20, 100_000
ROUNDS, SECONDS, GOAL_MS = 5, 4.0, 100
LISTED = """namespace = 'default' AND resolution_status = 'pending'"""
PAGES = {
    "overview": "/",
    "groups": "/groups",
    "one group": "/groups/group-7",
    "letters": "/letters",
    "letters, a query": "/letters?q=fingerprint%3Agroup-7",
    "letters, a text": "/letters?q=text%3Areset%20is%3Aopen",
    "letters, another query for each": "/letters?q=fingerprint%3Agroup-{viewer}",
    "one letter": "/letters/{newest}",
    "another letter for each": "/letters/{own}",
    "runs": "/runs",
    "queues": "/queues",
    "one queue": "/queues/queue-3",
    "tasks": "/tasks",
    "workers": "/workers",
    "archive": "/archive",
    "audit": "/audit",
}


class Browser(Client):
    """A client that is shown pages."""

    def __init__(self, url: str, path: str) -> None:
        super().__init__(url, path)
        self._request = self._request.removesuffix(b"\r\n") + b"Accept: text/html\r\n\r\n"


@asynccontextmanager
async def browsers(url: str, path: str, task_ids: Sequence[str]) -> AsyncIterator[Sequence[Ask]]:
    paths = [path.format(viewer=each, newest=task_ids[0], own=task_ids[each]) for each in range(VIEWERS)]
    opened = [await Browser(url, each).connect() for each in paths]
    try:
        yield [each.ask for each in opened]
    finally:
        for each in opened:
            await each.close()


def processor_seconds(process: int) -> float:
    """What a process has used of the processor so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def compared(
    url: str, process: int, file: Path, pages: dict[str, str], task_ids: Sequence[str], rounds: int
) -> list[Figure]:
    """Every page in turns with the raw query, over several rounds after one that is not measured."""
    ours: dict[str, list[list[float]]] = {name: [] for name in pages}
    cpu: dict[str, list[float]] = {name: [] for name in pages}
    bare: list[list[float]] = []
    loads: list[float] = []
    for round_ in range(rounds + 1):
        seconds = SECONDS if round_ else 1.0
        async with raw_sqlite(file, LISTED) as clients:
            took = await waits(clients[:VIEWERS], seconds)
        if round_:
            bare.append(took)
            loads.append(round(os.getloadavg()[0], 1))
        for name, path in pages.items():
            async with browsers(url, path, task_ids) as asking:
                before = processor_seconds(process)
                took = await waits(asking, seconds)
                used = processor_seconds(process) - before
            if round_:
                ours[name].append(took)
                cpu[name].append(1000 * used / len(took))
    against = statistics.median(map(p95, bare))
    made = [
        figure(
            f"{name}, p95 for {VIEWERS} viewers",
            statistics.median(map(p95, each)), None, target=f"<= {GOAL_MS}", unit="ms", runs=rounds,
            p50_ms=round(statistics.median(map(p50, each)), 1),
            cpu_ms=round(statistics.median(cpu[name]), 2),
            raw_p95_ms=round(against, 1), raw_p50_ms=round(statistics.median(map(p50, bare)), 1),
            p95_of_rounds_ms=[round(p95(took)) for took in each],
            raw_p95_of_rounds_ms=[round(p95(took)) for took in bare],
            per_second=round(statistics.median(map(len, each)) / SECONDS),
            load=loads,
        )
        for name, each in ours.items()
    ]  # fmt: skip
    return [replace(each, against=round(against, 1), ratio=round(each.ours / against, 2)) for each in made]


async def main(wanted: list[str], count: int, rounds: int) -> None:
    """Measure what is wanted, everything by default; only a whole run is kept."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "letters.db"
        task_ids = await fill_store(f"sqlite:///{file}", count)
        server = stack.enter_context(served(f"sqlite:///{file}", folder))
        pages = {name: path for name, path in PAGES.items() if not wanted or any(part in name for part in wanted)}
        figures = await compared(server.url, server.process.pid, file, pages, task_ids, rounds)
    if not wanted and count == LETTERS_KEPT:
        keep("Console pages", figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", type=int, default=LETTERS_KEPT)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("wanted", nargs="*")
    given = parser.parse_args()
    asyncio.run(main(given.wanted, given.letters, given.rounds))

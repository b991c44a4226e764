"""The console under 20 viewers: `python -m benchmarks.pages [part of a page's name …]`.

`mahavishnu serve` runs in a process of its own, with 100,000 open letters in SQLite. 20 browsers keep their connections
open and load one page after the other, for as long as a round lasts; beside them, in turns, 20 clients ask the file for
the bodies of 50 records without anything of ours.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from benchmarks.api import Ask, Client, p50, p95, raw_sqlite, waits
from benchmarks.figures import Figure, figure, keep
from benchmarks.stores import fill, letter
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from tests.acceptance.server import served

VIEWERS, LETTERS_KEPT, GROUPS = 20, 100_000, 200
ROUNDS, SECONDS, GOAL_MS = 5, 4.0, 100
PAGES = {
    "overview": "/",
    "groups": "/groups",
    "one group": "/groups/group-7",
    "letters": "/letters",
    "letters, a query": "/letters?q=fingerprint%3Agroup-7",
    "one letter": "/letters/{task_id}",
}


def letters() -> list[DeadLetter]:
    """As captures make them, over the last two days, of 200 causes."""
    now = SystemClock().now()
    ages = [timedelta(seconds=1.7 * number) for number in range(LETTERS_KEPT)]
    return [
        letter("pages", created_at=now - age, updated_at=now - age, fingerprint=f"group-{number % GROUPS}", priority=0)
        for number, age in enumerate(ages)
    ]


class Browser(Client):
    """A client that is shown pages."""

    def __init__(self, url: str, path: str) -> None:
        super().__init__(url, path)
        self._request = self._request.removesuffix(b"\r\n") + b"Accept: text/html\r\n\r\n"


@asynccontextmanager
async def browsers(url: str, path: str) -> AsyncIterator[Sequence[Ask]]:
    opened = [await Browser(url, path).connect() for _ in range(VIEWERS)]
    try:
        yield [each.ask for each in opened]
    finally:
        for each in opened:
            await each.close()


async def compared(url: str, file: Path, pages: dict[str, str]) -> list[Figure]:
    """Every page in turns with the raw query, over several rounds after one that is not measured."""
    ours: dict[str, list[list[float]]] = {name: [] for name in pages}
    bare: list[list[float]] = []
    loads: list[float] = []
    for round_ in range(ROUNDS + 1):
        seconds = SECONDS if round_ else 1.0
        async with raw_sqlite(file) as clients:
            took = await waits(clients[:VIEWERS], seconds)
        if round_:
            bare.append(took)
            loads.append(round(os.getloadavg()[0], 1))
        for name, path in pages.items():
            async with browsers(url, path) as asking:
                took = await waits(asking, seconds)
            if round_:
                ours[name].append(took)
    against = statistics.median(map(p95, bare))
    made = [
        figure(
            f"{name}, p95 for {VIEWERS} viewers, {LETTERS_KEPT:,} letters",
            statistics.median(map(p95, rounds)), None, target=f"<= {GOAL_MS}", unit="ms", runs=ROUNDS,
            p50_ms=round(statistics.median(map(p50, rounds)), 1),
            raw_p95_ms=round(against, 1), raw_p50_ms=round(statistics.median(map(p50, bare)), 1),
            p95_of_rounds_ms=[round(p95(took)) for took in rounds],
            raw_p95_of_rounds_ms=[round(p95(took)) for took in bare],
            per_second=round(statistics.median(map(len, rounds)) / SECONDS),
            load=loads,
        )
        for name, rounds in ours.items()
    ]  # fmt: skip
    return [replace(each, against=round(against, 1), ratio=round(each.ours / against, 2)) for each in made]


async def main(wanted: list[str]) -> None:
    """Measure what is wanted, everything by default; only a whole run is kept."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "letters.db"
        kept = letters()
        async with open_store(f"sqlite:///{file}", local=None, kinds=KINDS) as opened:
            await fill(opened.collection(LETTERS), iter(kept))
        server = stack.enter_context(served(f"sqlite:///{file}", folder))
        pages = {
            name: path.format(task_id=kept[0].task_id)
            for name, path in PAGES.items()
            if not wanted or any(part in name for part in wanted)
        }
        figures = await compared(server.url, file, pages)
    if not wanted:
        keep("Console pages", figures)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

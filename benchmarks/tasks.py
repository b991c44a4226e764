"""How many tracked workflows that succeed one process has in a second: `python -m benchmarks.tasks [workflows [lot]]`.

Each is two writes on a SQLite file. Beside it the same function without tracking, and the same two records of each by
bare SQL, one transaction for each half of a lot: what the file takes at most.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.tasks.records import TASKS


async def _measure(workflow: Callable[[int], Awaitable[None]], count: int, lot: int) -> float:
    started = time.perf_counter()
    for first in range(0, count, lot):
        await asyncio.gather(*(workflow(number) for number in range(first, min(first + lot, count))))
    return count / (time.perf_counter() - started)


def _measure_raw(path: Path, texts: list[str], lot: int) -> float:
    file = sqlite3.connect(path)
    file.execute("PRAGMA journal_mode=WAL")
    file.execute("PRAGMA synchronous=FULL")
    file.execute("CREATE TABLE tasks (key TEXT PRIMARY KEY, body TEXT)")
    started = time.perf_counter()
    for first in range(0, len(texts), lot):
        rows = [(str(number), text) for number, text in enumerate(texts[first : first + lot], first)]
        with file:
            file.executemany("INSERT INTO tasks VALUES (?, ?)", rows)
        with file:
            file.executemany("UPDATE tasks SET body = ?2 WHERE key = ?1", rows)
    seconds = time.perf_counter() - started
    file.close()
    return len(texts) / seconds


async def main(count: int, lot: int) -> None:
    """Measure, and print a line for each."""
    with tempfile.TemporaryDirectory(prefix="mahavishnu-tasks-") as folder:
        app = MahavishnuApp(MahavishnuSettings(dlq_store_url=f"sqlite:///{folder}/letters.db"))

        @app.workflow(name="untracked")
        async def untracked(number: int) -> None: ...

        @app.workflow(name="tracked", track=True)
        async def tracked(number: int) -> None: ...

        async with app:
            await tracked(-1)
            print(f"untracked          {await _measure(untracked, count, lot):10,.0f} a second")
            print(f"tracked, lots of {lot:<3} {await _measure(tracked, count, lot):9,.0f} a second")
            print(f"tracked, one by one {await _measure(tracked, count // 10, 1):9,.0f} a second")
            (task,) = (await app.lifecycle.list("all", limit=1)).items
        raw = _measure_raw(Path(folder) / "raw.db", [TASKS.document(task)] * count, lot)
        print(f"bare SQL            {raw:9,.0f} a second")


if __name__ == "__main__":
    asyncio.run(main(*(int(number) for number in [*sys.argv[1:], "6000", "200"][:2])))

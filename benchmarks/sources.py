"""What people ask for all day beside many closed letters, and an import beside the bare insert of the same rows.

python -m benchmarks.sources numbers sqlite:////tmp/numbers.db 20000 1000000
python -m benchmarks.sources import 200000
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.queue.transfer import letter_as_line
from mahavishnu.model import lifecycle
from mahavishnu.model.daily_sums import ListedTombstone, fold_closed, groups_of, numbers_of
from mahavishnu.model.letter import DeadLetter, FailedTask
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.stores.kinds import LEDGER, LETTERS
from mahavishnu.stores.retained import LedgerEntry
from mahavishnu.stores.urls import open_store

NOW = datetime.now(UTC)
MONTH = NOW.strftime("%Y-%m")
AT_ONCE = 2000
TIMES = 9


def open_letter(number: int, age: timedelta) -> DeadLetter:
    """One of 50 groups."""
    group = number % 50
    return FailedTask(
        f"wf_{number}",
        {"type": "sweep", "n": number},
        ["api"],
        f"boom {group}",
        NOW - age,
        fingerprint=f"v1:{group}",
        error_category="transient",
        next_retry_at=NOW + timedelta(days=20),
    )


def closed_letter(number: int) -> DeadLetter:
    age = timedelta(days=3 + number % 300, seconds=number % 86400)
    return lifecycle.resolve(open_letter(number, age), now=NOW - age + timedelta(hours=1), by="ann")


async def fill(dlq: DeadLetterQueue, still_open: int, closed: int) -> None:
    """Open letters, and closed ones that have been added up, as the background would do it in time."""
    letters, ledger = dlq.context.letters.records, dlq.context.store.collection(LEDGER)
    for start in range(0, still_open, AT_ONCE):
        await letters.write(
            [open_letter(number, timedelta(seconds=60 + 30 * number)) for number in range(start, start + AT_ONCE)]
        )
    month = LedgerEntry(MONTH, "", NOW, "", letters=0, gone=True)
    count, tallies, groups = 0, Tallies(), dict(month.groups)
    for start in range(still_open, still_open + closed, AT_ONCE):
        made = [closed_letter(number) for number in range(start, start + AT_ONCE)]
        listed = [ListedTombstone.of_closed(letter) for letter in made]
        count, tallies = numbers_of(count, tallies, listed)
        groups = groups_of(groups, listed)
        await letters.write([fold_closed(letter, MONTH) for letter in made])
    if closed:
        await ledger.write([LedgerEntry(MONTH, "", NOW, "", count, tallies=tallies, gone=True, groups=groups)])


async def measure(name: str, asked: Callable[[], Awaitable[Any]]) -> None:
    took = []
    for _ in range(TIMES):
        start = time.perf_counter()
        await asked()
        took.append((time.perf_counter() - start) * 1000)
    print(f"{name:<20} best {min(took):8.1f} ms   median {sorted(took)[TIMES // 2]:8.1f} ms")


async def numbers(url: str, still_open: int, closed: int) -> None:
    async with DeadLetterQueue(10_000_000, store=open_store(url)) as dlq:
        stats = await dlq.get_statistics()
        if not stats["lifetime_stats"]["enqueued_total"]:
            await fill(dlq, still_open, closed)
        stats = await dlq.get_statistics()
        print(f"{stats['queue_size']} open of {stats['lifetime_stats']['enqueued_total']}")
        await measure("get_statistics", dlq.get_statistics)
        await measure("groups.list", dlq.groups.list)
        await measure("health_warnings", lambda: dlq.health_warnings(stats))


async def imports(count: int) -> None:
    """In lots of 1,000, as the command line sends them."""
    documents = [json.loads(letter_as_line(closed_letter(number))) for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "letters.db"
        async with DeadLetterQueue(10_000_000, store=open_store(f"sqlite:///{path}")) as dlq:
            start = time.perf_counter()
            for place in range(0, count, 1000):
                await dlq.transfer.import_letters(documents[place : place + 1000])
            ours = time.perf_counter() - start
        raw = bare_insert(path, Path(folder) / "raw.db")
    print(f"import {count / ours:.0f}/s, bare executemany {count / raw:.0f}/s, ratio {raw / ours:.2f}")


def bare_insert(path: Path, other: Path) -> float:
    """How long the same rows take with the same indexes."""
    source, target = sqlite3.connect(path), sqlite3.connect(other)
    rows = source.execute(f"SELECT * FROM {LETTERS.name}").fetchall()
    made: Iterable[tuple[str]] = source.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND sql IS NOT NULL", (LETTERS.name,)
    )
    target.execute("PRAGMA journal_mode = WAL")
    for (sql,) in made:
        target.execute(sql)
    start = time.perf_counter()
    with target:
        places = ", ".join("?" * len(rows[0]))
        target.executemany(f"INSERT INTO {LETTERS.name} VALUES ({places})", rows)
    took = time.perf_counter() - start
    source.close()
    target.close()
    return took


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["numbers", url, still_open, closed]:
            asyncio.run(numbers(url, int(still_open), int(closed)))
        case ["import", count]:
            asyncio.run(imports(int(count)))
        case _:
            sys.exit(__doc__)

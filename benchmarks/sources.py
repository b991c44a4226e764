"""What people ask for all day beside many closed letters, and an import beside the bare insert of the same rows.

python -m benchmarks.sources numbers sqlite:////tmp/numbers.db 20000 1000000
python -m benchmarks.sources opensearch 20000 1000000
python -m benchmarks.sources sums sqlite:////tmp/sums.db 100000
python -m benchmarks.sources import 200000
"""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from opensearchpy import AsyncOpenSearch

from mahavishnu.core.commands import run
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.ledger import Ledger
from mahavishnu.letters.transfer import letter_as_line
from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter, FailedTask, evolve
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.model.tombstones import ListedTombstone, fold_closed, groups_of, numbers_of
from mahavishnu.stores.kinds import LEDGER, LETTERS
from mahavishnu.stores.retained import LedgerEntry
from mahavishnu.stores.urls import open_store
from tests.support.opensearch import Cluster

NOW = datetime.now(UTC)
MONTH = NOW.strftime("%Y-%m")
AT_ONCE = 2000
TIMES = 40
_MARK = "copy000000_"  # what the ids of closed letters begin with that are copied


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
    await fill_open(dlq, still_open)
    letters, ledger = dlq.context.letters.records, dlq.context.store.collection(LEDGER)
    month = LedgerEntry(MONTH, NOW)
    count, tallies, groups = 0, Tallies(), dict(month.groups)
    for start in range(still_open, still_open + closed, AT_ONCE):
        made = [closed_letter(number) for number in range(start, start + AT_ONCE)]
        listed = [ListedTombstone.of_closed(letter) for letter in made]
        count, tallies = numbers_of(count, tallies, listed)
        groups = groups_of(groups, listed)
        await letters.write([fold_closed(letter, MONTH) for letter in made])
    if closed:
        await ledger.write([LedgerEntry(MONTH, NOW, count, tallies, groups=groups)])


async def fill_open(dlq: DeadLetterQueue, count: int) -> None:
    for start in range(0, count, AT_ONCE):
        await dlq.context.letters.records.write(
            [open_letter(number, timedelta(seconds=60 + 30 * number)) for number in range(start, start + AT_ONCE)]
        )


async def fill_closed_copies(dlq: DeadLetterQueue, url: str, index: str, closed: int) -> None:
    """The same on OpenSearch by bulk requests of our own: documents as they are stored, with other ids."""
    made = [
        evolve(closed_letter(number), task_id=f"{_MARK}{number}", entry_id=f"{_MARK}e{number}")
        for number in range(AT_ONCE)
    ]
    await dlq.context.letters.records.write([fold_closed(letter, MONTH) for letter in made])
    await dlq.context.clock.sleep(2)  # until they can be searched
    listed = [ListedTombstone.of_closed(letter) for letter in made]
    month = LedgerEntry(MONTH, NOW)
    count, tallies, groups = 0, Tallies(), dict(month.groups)
    async with AsyncOpenSearch([url], timeout=120, maxsize=4) as client:
        asked = {"query": {"prefix": {"task_id": _MARK}}, "size": AT_ONCE}
        hits = (await client.search(index=index, body=asked))["hits"]["hits"]
        assert len(hits) == AT_ONCE, len(hits)
        body = "".join(f"{json.dumps({'create': {'_id': hit['_id']}})}\n{json.dumps(hit['_source'])}\n" for hit in hits)
        for slow in (True, False):
            settings = {
                "refresh_interval": "-1" if slow else "1s",
                "translog.durability": "async" if slow else "request",
            }
            await client.indices.put_settings(index=index, body={"index": settings})
            if slow:
                for number in range(closed // AT_ONCE):
                    if number:
                        copied = body.replace(_MARK, f"copy{number:06}_").encode()
                        answer = await client.bulk(index=index, body=copied, params={"filter_path": "errors"})
                        assert not answer["errors"]
                    count, tallies = numbers_of(count, tallies, listed)
                    groups = groups_of(groups, listed)
        await client.indices.refresh(index=index)
    sums = LedgerEntry(MONTH, NOW, count, tallies, groups=groups)
    await dlq.context.store.collection(LEDGER).write([sums])


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
            await dlq.context.clock.sleep(2)  # on OpenSearch, until it can be searched
        await measure_numbers(dlq)


async def measure_numbers(dlq: DeadLetterQueue) -> None:
    stats = await dlq.get_statistics()
    print(f"{stats['queue_size']} open of {stats['lifetime_stats']['enqueued_total']}")
    await measure("get_statistics", dlq.get_statistics)
    await measure("groups.list", dlq.groups.list)
    await measure("health_warnings", lambda: dlq.health_warnings(stats))


async def opensearch(url: str, still_open: int, closed: int) -> None:
    """The numbers before and after so many closed letters came."""
    async with DeadLetterQueue(
        10_000_000, store=open_store(f"{url.replace('http:', 'opensearch:')}/bench?timeout=60")
    ) as dlq:
        await fill_open(dlq, still_open)
        for closing in (0, closed):
            if closing:
                began = time.perf_counter()
                await fill_closed_copies(dlq, url, "bench_dlq", closing)
                print(f"{closing} closed letters written in {time.perf_counter() - began:.0f} s")
            await dlq.context.clock.sleep(2)  # until all can be searched
            await measure_numbers(dlq)


async def sums(url: str, closed: int) -> None:
    """How many closed letters are added up in a second, go by go, as the background does it."""
    async with DeadLetterQueue(10_000_000, store=open_store(url)) as dlq:
        for start in range(0, closed, AT_ONCE):
            await dlq.context.letters.records.write(
                [closed_letter(number) for number in range(start, start + min(AT_ONCE, closed - start))]
            )
        before, ledger = await dlq.get_statistics(), Ledger(dlq.context)
        goes, folded, started, began = 0, 0, time.process_time(), time.perf_counter()
        while some := await ledger.fold_closed():
            goes, folded = goes + 1, folded + some
        took = time.process_time() - started, time.perf_counter() - began
        same = before["lifetime_stats"] == (await dlq.get_statistics())["lifetime_stats"]
        print(f"{folded} in {goes} goes: {folded / took[1]:.0f}/s by the clock, {folded / took[0]:.0f}/s of processor")
        print(f"the statistics are the same: {same}")


def imports(count: int) -> None:
    """What `mahavishnu dlq import` takes, with the import by its lines alone, and the bare insert of the same rows.

    By processor time, and by the clock: other programs may use the same machine.
    """
    gc.set_threshold(100_000)  # as `mahavishnu.__main__` does
    with tempfile.TemporaryDirectory() as folder:
        path, lines, alone = Path(folder) / "letters.db", Path(folder) / "letters.jsonl", Path(folder) / "alone.db"
        with lines.open("w") as file:
            file.writelines(f"{letter_as_line(closed_letter(number))}\n" for number in range(count))
        command = timed(lambda: run(["dlq", "--store", f"sqlite:///{path}", "import", str(lines)]))
        library = timed(lambda: asyncio.run(import_lines(lines, alone)))
        raw = bare_insert(path, Path(folder) / "raw.db")
    print(f"{'':<22}{'processor':>12}{'clock':>12}   ratio to bare, by processor and clock")
    for name, took in (("dlq import", command), ("import_letters", library), ("bare executemany", raw)):
        rates = "".join(f"{count / each:>10.0f}/s" for each in took)
        print(f"{name:<22}{rates}   {raw[0] / took[0]:.2f} {raw[1] / took[1]:.2f}")


async def import_lines(lines: Path, path: Path) -> None:
    """As many at once as the command sends."""
    async with DeadLetterQueue(10_000_000, store=open_store(f"sqlite:///{path}")) as dlq:
        with lines.open() as file:
            while some := list(islice(file, 4000)):
                await dlq.transfer.import_letters(some)


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """How many seconds of the processor, and of the clock."""
    started, began = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - started, time.perf_counter() - began


def bare_insert(path: Path, other: Path) -> tuple[float, float]:
    """How long the same rows take with the same indexes, as `timed` says it."""
    source, target = sqlite3.connect(path), sqlite3.connect(other)
    rows = source.execute(f"SELECT * FROM {LETTERS.name}").fetchall()
    made: Iterable[tuple[str]] = source.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND sql IS NOT NULL", (LETTERS.name,)
    )
    target.execute("PRAGMA journal_mode = WAL")
    for (sql,) in made:
        target.execute(sql)
    statement = f"INSERT INTO {LETTERS.name} VALUES ({', '.join('?' * len(rows[0]))})"

    def insert() -> None:
        with target:
            target.executemany(statement, rows)

    took = timed(insert)
    source.close()
    target.close()
    return took


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["opensearch", still_open, closed]:
            with Cluster(heap="1g") as cluster:
                asyncio.run(opensearch(cluster.urls[0], int(still_open), int(closed)))
        case ["numbers", url, still_open, closed]:
            asyncio.run(numbers(url, int(still_open), int(closed)))
        case ["sums", url, closed]:
            asyncio.run(sums(url, int(closed)))
        case ["import", count]:
            imports(int(count))
        case _:
            sys.exit(__doc__)

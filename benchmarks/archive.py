"""Archiving, beside the bare reading, writing and deleting of the same documents.

python -m benchmarks.archive sqlite 100000
python -m benchmarks.archive opensearch 5000

The bare side of SQLite has a copy of the file: in lots of 1,000 it reads the documents by the same index, commits them
into a table of keys and documents in another file, and deletes them, with what the indexes have of them, in the first.
That of OpenSearch sends a search, a bulk of creates and a bulk of deletes for each lot.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.sources import NOW, open_letter
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.processes import collect_rarely
from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store

LOT = 1000
ROUNDS = 3


class Took(NamedTuple):
    """How long something took, by the clock and of this process's processor time."""

    seconds: float
    processor: float

    @classmethod
    def now(cls) -> Took:
        return cls(time.perf_counter(), time.process_time())

    def __sub__(self, start: Took) -> Took:
        return Took(self.seconds - start.seconds, self.processor - start.processor)


def old_letter(number: int) -> DeadLetter:
    """Closed so long ago that it is to leave; within three months."""
    age = timedelta(days=40 + number % 90, seconds=number % 86400)
    return lifecycle.resolve(open_letter(number, age), now=NOW - age + timedelta(hours=1), by="ann")


async def archive(url: str) -> Took:
    """How long our side takes; the store has what is to leave."""
    async with DeadLetterQueue(10_000_000, store=open_store(url)) as dlq:
        collect_rarely()  # as `mahavishnu serve` does, whose background archives
        start = Took.now()
        done = await dlq.archive.archive_completed_tasks(30, LOT, dry_run=False)
        took = Took.now() - start
        assert done.tasks_archived and not done.failed, done
    return took


async def fill(url: str, count: int) -> None:
    async with DeadLetterQueue(10_000_000, store=open_store(url)) as dlq:
        letters = dlq.context.letters.records
        for start in range(0, count, LOT):
            await letters.write([old_letter(number) for number in range(start, min(count, start + LOT))])


def bare_files(path: Path, other: Path) -> Took:
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as source,
        closing(sqlite3.connect(other, isolation_level=None)) as target,
    ):
        target.execute("PRAGMA journal_mode = WAL")
        for each in (source, target):
            each.execute("PRAGMA synchronous = FULL")
        target.execute("CREATE TABLE copies (key TEXT NOT NULL PRIMARY KEY, body)")
        read = (
            f"SELECT _key, _body FROM {LETTERS.name} WHERE namespace = 'default' AND resolution_status = ? "
            "ORDER BY created_at LIMIT ?"
        )
        start = Took.now()
        while rows := source.execute(read, ("manually_resolved", LOT)).fetchall():
            target.execute("BEGIN")
            target.executemany("INSERT INTO copies VALUES (?, ?)", rows)
            target.execute("COMMIT")
            source.execute("BEGIN")
            source.executemany(f"DELETE FROM {LETTERS.name} WHERE _key = ?", ((key,) for key, _ in rows))
            source.execute("COMMIT")
        return Took.now() - start


async def on_sqlite(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / "filled.db"
        await fill(f"sqlite:///{filled}", count)
        for number in range(ROUNDS):
            ours, raw = Path(folder) / f"ours{number}.db", Path(folder) / f"raw{number}.db"
            shutil.copy(filled, ours)
            shutil.copy(filled, raw)
            bare = bare_files(raw, Path(folder) / f"copies{number}.db")
            report("SQLite", count, await archive(f"sqlite:///{ours}"), bare)
            remove_files(folder, f"*{number}*")


def remove_files(folder: str, pattern: str) -> None:
    for each in Path(folder).glob(pattern):
        each.unlink()


async def on_opensearch(count: int) -> None:
    from tests.support.opensearch import Cluster

    with Cluster(1) as cluster:
        url = f"{cluster.urls[0].replace('http', 'opensearch', 1)}/%s?timeout=60"
        for number in range(ROUNDS):
            await fill(url % f"ours{number}", count)
            await fill(url % f"raw{number}", count)
            bare = await asyncio.to_thread(bare_requests, cluster.urls[0], f"raw{number}")
            report("OpenSearch", count, await archive(url % f"ours{number}"), bare)


def bare_requests(server: str, prefix: str) -> Took:
    with httpx.Client(base_url=server, timeout=60) as client:
        (index,) = client.get(f"/{prefix}_{LETTERS.index}").raise_for_status().json()
        client.put("/copies", json={"mappings": {"enabled": False}})
        client.post(f"/{index}/_refresh").raise_for_status()
        query = {"size": LOT, "query": {"term": {"resolution_status": "manually_resolved"}}, "sort": ["created_at"]}
        start = Took.now()
        while hits := client.post(f"/{index}/_search", json=query).raise_for_status().json()["hits"]["hits"]:
            creates = [
                ({"create": {"_index": "copies", "_id": f"{prefix}:{hit['_id']}"}}, hit["_source"]) for hit in hits
            ]
            deletes = [{"delete": {"_index": index, "_id": hit["_id"]}} for hit in hits]
            send_bulk(client, [line for pair in creates for line in pair])
            send_bulk(client, deletes, refresh="true")
        return Took.now() - start


def send_bulk(client: httpx.Client, lines: list[Any], **parameters: str) -> None:
    body = "".join(f"{json.dumps(line)}\n" for line in lines)
    headers = {"Content-Type": "application/x-ndjson"}
    answer = client.post("/_bulk", content=body, params=parameters, headers=headers).raise_for_status().json()
    assert not answer["errors"], answer


def report(store: str, count: int, ours: Took, raw: Took) -> None:
    print(
        f"{store}: {count} letters, archived {count / ours.seconds:,.0f}/s, "
        f"bare read + write + delete {count / raw.seconds:,.0f}/s, ratio {raw.seconds / ours.seconds:.2f}, "
        f"by processor time {raw.processor / ours.processor:.2f} "
        f"({ours.processor / count * 1e6:.0f} and {raw.processor / count * 1e6:.0f} µs a letter)",
        flush=True,
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sqlite", count]:
            asyncio.run(on_sqlite(int(count)))
        case ["opensearch", count]:
            asyncio.run(on_opensearch(int(count)))
        case _:
            sys.exit(__doc__)

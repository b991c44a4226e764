"""Produce, lease and complete by 200 workers at once: `python -m benchmarks.queues [sqlite | opensearch]`.

Beside it, in turns, the same three writes of the same documents, and one read of each by its key, without rules, lines
and tokens: by 200 callers of our own collections (*collection*), and by the bare driver: by 200 callers that know
nothing of one another, each write a transaction or a request (*raw*), and in lots of 200, each one transaction of
`executemany`, or one bulk request (*raw lots*).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from opensearchpy import AsyncOpenSearch

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.json_value import Json
from mahavishnu.model.lifecycle import claim
from mahavishnu.queues import items as queue_items
from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from tests.support.opensearch import Cluster

WORKERS, EACH, ROUNDS = 200, 10, 5
WORDS = ("queue", "collection", "raw", "raw lots")


async def queued(dlq: DeadLetterQueue) -> None:
    """What the workers do."""

    async def work(name: str) -> None:
        for number in range(EACH):
            await dlq.queues.produce("q", {"order": number})
            leases = await dlq.queues.lease("q", name)
            while not leases:
                leases = await dlq.queues.lease("q", name)
            (lease,) = leases
            await dlq.queues.complete("q", lease.item.id, lease.token)

    await asyncio.gather(*(work(f"w{number}") for number in range(WORKERS)))


async def collection(dlq: DeadLetterQueue) -> None:
    """The same writes, and a read of each letter by its key."""
    letters, definition = dlq.store.collection(LETTERS), await dlq.queues.get("q")

    async def work(name: str) -> None:
        for number in range(EACH):
            now = dlq.clock.now()
            fresh = queue_items.new_item(definition, Json.of({"order": number}), now)
            await letters.write([fresh])
            (found,) = await letters.get([fresh.key])
            assert found is not None and not isinstance(found, Exception)
            until = now + timedelta(seconds=60)
            lent = claim(found, owner=name, token="t", until=until, now=dlq.clock.now())
            (leased,) = await letters.write([lent])
            assert leased is not None and not isinstance(leased, Exception)
            await letters.write([queue_items.complete_item(leased, "t", dlq.clock.now())])

    await asyncio.gather(*(work(f"w{number}") for number in range(WORKERS)))


Raw = Callable[[], Awaitable[None]]
_PUT = "UPDATE items SET version = version + 1, document = ? WHERE key = ? AND version = ?"


@contextlib.asynccontextmanager
async def sqlite_driver(url: str, documents: list[str]) -> AsyncIterator[tuple[Raw, Raw]]:
    """`sqlite3` on a file of its own beside the other, with one connection in a thread."""
    loop, (first, leased, done) = asyncio.get_running_loop(), documents
    with ThreadPoolExecutor(1) as thread:

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(url.removeprefix("sqlite:///") + ".raw", isolation_level=None)
            connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
            connection.execute(
                "CREATE TABLE items (key TEXT PRIMARY KEY, version INTEGER, document TEXT) WITHOUT ROWID"
            )
            return connection

        connection = await loop.run_in_executor(thread, connect)

        def write(statement: str, rows: list[tuple[Any, ...]]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, rows)
            connection.execute("COMMIT")

        def read(keys: list[str]) -> list[Any]:
            marks = ",".join("?" * len(keys))
            return connection.execute(f"SELECT * FROM items WHERE key IN ({marks})", keys).fetchall()

        async def work(at_once: int) -> None:
            for _ in range(EACH):
                keys = [uuid4().hex for _ in range(at_once)]
                call = functools.partial(loop.run_in_executor, thread)
                await call(write, "INSERT INTO items VALUES (?, 1, ?)", [(key, first) for key in keys])
                await call(read, keys)
                await call(write, _PUT, [(leased, key, 1) for key in keys])
                await call(write, _PUT, [(done, key, 2) for key in keys])

        yield functools.partial(_all_work, work), functools.partial(work, WORKERS)
        await loop.run_in_executor(thread, connection.close)


@contextlib.asynccontextmanager
async def opensearch_driver(url: str, documents: list[str]) -> AsyncIterator[tuple[Raw, Raw]]:
    """`opensearch-py` on an index that searches nothing; each write is a compare-and-set."""
    place, (first, leased, done) = urlsplit(url), documents
    client = AsyncOpenSearch([f"http://{place.netloc}"], timeout=60, pool_maxsize=WORKERS)
    await client.indices.create(
        index="raw", body={"mappings": {"enabled": False}, "settings": {"number_of_replicas": 0}}
    )

    async def write(keys: list[str], document: str, there: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer for each key."""
        marks = {
            key: {"if_seq_no": each["_seq_no"], "if_primary_term": each["_primary_term"]} for key, each in there.items()
        }
        if len(keys) == 1:
            key = keys[0]
            if not there:
                return {key: await client.create(index="raw", id=key, body=document)}
            return {key: await client.index(index="raw", body=document, id=key, params=marks[key])}
        act = "index" if there else "create"
        lines = [f"{json.dumps({act: {'_id': key, **marks.get(key, {})}})}\n{document}\n" for key in keys]
        answer = await client.bulk(body="".join(lines), index="raw")
        assert not answer["errors"]
        return {each[act]["_id"]: each[act] for each in answer["items"]}

    async def work(at_once: int) -> None:
        for _ in range(EACH):
            keys = [uuid4().hex for _ in range(at_once)]
            await write(keys, first, {})
            if at_once == 1:
                there = {keys[0]: await client.get(index="raw", id=keys[0])}
            else:
                there = {each["_id"]: each for each in (await client.mget(body={"ids": keys}, index="raw"))["docs"]}
            await write(keys, done, await write(keys, leased, there))

    yield functools.partial(_all_work, work), functools.partial(work, WORKERS)
    await client.close()


async def _all_work(work: Callable[[int], Awaitable[None]]) -> None:
    await asyncio.gather(*(work(1) for _ in range(WORKERS)))


async def time_of(call: Awaitable[Any]) -> float:
    gc.collect()
    began = time.perf_counter()
    await call
    return time.perf_counter() - began


def documents_of(dlq: DeadLetterQueue, definition: QueueDefinition) -> list[str]:
    """What a store keeps of an item that waits, that is leased, and that is done."""
    now = dlq.clock.now()
    fresh = queue_items.new_item(definition, Json.of({"order": 7}), now)
    leased = claim(fresh, owner="w7", token="t", until=now + timedelta(seconds=60), now=now)
    return [LETTERS.encode(each) for each in (fresh, leased, queue_items.complete_item(leased, "t", now))]


async def compare(
    name: str, url: str, driver: Callable[[str, list[str]], contextlib.AbstractAsyncContextManager[tuple[Raw, Raw]]]
) -> None:
    async with DeadLetterQueue(store=open_store(url, local=None, kinds=KINDS)) as dlq:
        documents = documents_of(dlq, await dlq.queues.create("q"))
        async with driver(url, documents) as (raw, lots):
            calls: list[Raw] = [functools.partial(queued, dlq), functools.partial(collection, dlq), raw, lots]
            took = [[await time_of(call()) for call in calls] for _ in range(ROUNDS + 1)][1:]
    medians = [statistics.median(each) for each in zip(*took, strict=True)]
    rates = [f"{word} {WORKERS * EACH / each:.0f}/s" for word, each in zip(WORDS, medians, strict=True)]
    ratios = [f"{each / medians[0]:.2f} of {word}" for word, each in zip(WORDS[1:], medians[1:], strict=True)]
    print(f"{name:<11} {', '.join(rates)}: {', '.join(ratios)}")


def main() -> None:
    kinds = sys.argv[1:] or ["sqlite", "opensearch"]
    with ExitStack() as stack:
        if "sqlite" in kinds:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            asyncio.run(compare("sqlite", f"sqlite:///{folder}/letters.db", sqlite_driver))
        if "opensearch" in kinds:
            cluster = stack.enter_context(Cluster())
            url = cluster.urls[0].replace("http", "opensearch", 1)
            asyncio.run(compare("opensearch", f"{url}/queues?timeout=60", opensearch_driver))


if __name__ == "__main__":
    main()

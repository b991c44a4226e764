"""The stores against the bare clients: `python -m benchmarks.stores [part of a figure's name …]`."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sqlite3
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, compared, figure, keep, percentiles
from mahavishnu.model import lifecycle
from mahavishnu.model.ids import PARTITIONS, new_entry_id
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ErrorCategory, Failure, RetryPolicy
from mahavishnu.model.query import Query, letter_query
from mahavishnu.stores.base import Collection
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.opensearch import query as opensearch_query
from mahavishnu.stores.opensearch.mapping import KEY
from mahavishnu.stores.opensearch.store import OpenSearchCollection
from mahavishnu.stores.sqlite import SQLiteStore
from tests.support.opensearch import Cluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WRITERS, EACH = 200, 25
DUE, PAGE, CHUNK = 20_000, 2_000, 500
MANY = 100_000
_number = itertools.count()
_frames = "\n".join(f'  File "app/step_{n}.py", line {n}, in step_{n}\n    call(step_{n})' for n in range(6))


def letter(prefix: str = "wf", **changes: Any) -> DeadLetter:
    """A letter as captures make it: a payload of some 300 bytes, a short traceback."""
    number = next(_number)
    error = f"ConnectionResetError: [Errno 104] connection reset by peer 10.0.{number % 250}.7:443"
    failure = Failure(NOW, error, "builtins.ConnectionResetError", "network", f"Traceback:\n{_frames}\n{error}")
    task = {"type": "code_sweep", "adapter": "llamaindex", "options": {"depth": 3, "paths": [f"src/{number}"] * 12}}
    values = {
        "task_id": f"{prefix}_{number}",
        "entry_id": new_entry_id(NOW),
        "error": error,
        "last_error": error,
        "failed_at": NOW,
        "created_at": NOW + timedelta(milliseconds=number),
        "updated_at": NOW,
        "due_at": NOW,
        "payload": Json.of(task),
        "labels": Json.of({"team": f"team-{number % 7}"}),
        "repos": (f"/srv/repos/{number % 50}",),
        "failures": (failure,),
        "error_category": list(ErrorCategory)[number % 6],
        "retry_policy": list(RetryPolicy)[number % 4],
    }
    return DeadLetter(**{**values, **changes})


class Server:
    """One OpenSearch node and a raw client beside our store; both kinds of index have the same mapping."""

    def __init__(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def store(self, prefix: str) -> AsyncIterator[OpenSearchStore]:
        async with OpenSearchStore([self.url], prefix=prefix, timeout=60.0, refresh_interval="1s") as store:
            yield store

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[Any]:
        from opensearchpy import AsyncOpenSearch

        client = AsyncOpenSearch([self.url], timeout=60, max_retries=0, maxsize=64)
        try:
            yield client
        finally:
            await client.close()


def document(collection: OpenSearchCollection[DeadLetter], record: DeadLetter) -> dict[str, Any]:
    """What our store sends for a letter, as a raw client would have it at hand."""
    made: dict[str, Any] = json.loads(collection.index.documents.write(record, record.key, "raw-0000000000000000"))
    return made


async def concurrent_writes(server: Server) -> Figure:
    """200 tasks, each awaiting single durable writes, against bulk requests of 500 of the same documents."""
    from opensearchpy.helpers import async_bulk

    waits: list[float] = []
    async with server.store("bench_many") as store, server.raw() as client:
        collection = store.collection(LETTERS)

        async def ours(run: int) -> float:
            batch = [letter("many") for _ in range(WRITERS * EACH)]
            waits.clear()

            async def writer(mine: Sequence[DeadLetter]) -> None:
                for each in mine:
                    start = time.perf_counter()
                    (result,) = await collection.write([each])
                    assert isinstance(result, DeadLetter)
                    waits.append(time.perf_counter() - start)

            start = time.perf_counter()
            await asyncio.gather(*(writer(batch[n * EACH : (n + 1) * EACH]) for n in range(WRITERS)))
            return len(batch) / (time.perf_counter() - start)

        async def against(run: int) -> float:
            documents = [
                (each.key, document(collection, each)) for each in (letter("rawmany") for _ in range(WRITERS * EACH))
            ]
            actions = [
                {"_op_type": "create", "_index": "bench_many_dlq", "_id": key, "_source": body}
                for key, body in documents
            ]
            start = time.perf_counter()
            done, _ = await async_bulk(client, actions, chunk_size=CHUNK)
            assert done == len(actions)
            return len(actions) / (time.perf_counter() - start)

        made = await compared(
            "200 concurrent single writes, OpenSearch", ours, against, target=">= 0.75", unit="letters/s"
        )
        return replace(made, more={**made.more, **percentiles(waits)})


async def lone_write(server: Server) -> Figure:
    """One write after another, against raw creates of the same documents, in turns."""
    async with server.store("bench_lone") as store, server.raw() as client:
        collection, mine, raw = store.collection(LETTERS), list[float](), list[float]()
        ratios = []

        async def ours(taken: list[float]) -> None:
            one = letter("lone")
            start = time.perf_counter()
            await collection.write([one])
            taken.append(time.perf_counter() - start)

        async def against(taken: list[float]) -> None:
            other = letter("rawlone")
            body = document(collection, other)
            start = time.perf_counter()
            await client.create(index="bench_lone_dlq", id=other.key, body=body)
            taken.append(time.perf_counter() - start)

        for run in range(6):
            ours_run, raw_run = list[float](), list[float]()
            for turn in range(200):
                for step, taken in ((ours, ours_run), (against, raw_run))[:: 1 if turn % 2 else -1]:
                    await step(taken)
            if run:  # the first round warms up
                mine += ours_run
                raw += raw_run
                ratios.append(round(statistics.median(ours_run) / statistics.median(raw_run), 3))
    return figure(
        "one lone write, p50, OpenSearch",
        1000 * statistics.median(mine),
        1000 * statistics.median(raw),
        target="<= 1.3",
        unit="ms",
        runs=5,
        ratios=ratios,
        **percentiles(mine),
        raw_p99_ms=percentiles(raw)["p99_ms"],
    )


async def fill(collection: Collection[DeadLetter], records: Iterator[DeadLetter]) -> None:
    """Write many letters quickly."""
    while batch := list(itertools.islice(records, 5_000)):
        assert all(isinstance(result, DeadLetter) for result in await collection.write(batch))


async def work(collection: Collection[DeadLetter], partitions: range | None, owner: str) -> tuple[int, int]:
    """Find what is due, claim it and settle it, page by page, until nothing is due. Returns done and conflicts."""
    now, done, conflicts = NOW + timedelta(hours=1), 0, 0
    while True:
        page = await collection.find(letter_query(due=now, partitions=partitions, sort=(), limit=PAGE))
        claims = [
            lifecycle.claim(each, owner=owner, token=owner, until=now + timedelta(minutes=5), now=now)
            for each in page.items
        ]
        won = [each for each in await collection.write(claims) if isinstance(each, DeadLetter)]
        conflicts += len(claims) - len(won)
        settled = await collection.write([lifecycle.succeed(each, token=owner, now=now) for each in won])
        done += sum(isinstance(each, DeadLetter) for each in settled)
        if not page.items:
            return done, conflicts


async def raw_work(client: Any, index: str) -> int:
    """The same with a raw client: search, a CAS bulk that claims, a CAS bulk that settles."""
    done = 0
    cut = (NOW + timedelta(hours=1)).isoformat()
    while True:
        await client.indices.refresh(index=index)
        found = await client.search(
            index=index,
            body={
                "query": {"bool": {"filter": [{"range": {"due_at": {"lte": cut}}}]}},
                "sort": [{KEY: "asc"}],
                "size": PAGE,
                "seq_no_primary_term": True,
                "track_total_hits": False,
            },
        )
        hits = found["hits"]["hits"]
        if not hits:
            return done
        for status, due in (("retrying", "2026-01-01T02:00:00.000Z"), ("completed", None)):
            for start in range(0, len(hits), CHUNK):
                chunk, lines = hits[start : start + CHUNK], []
                for hit in chunk:
                    source = hit["_source"]
                    source["status"], source["updated_at"] = status, cut
                    source["due_at"] = due
                    versions = {"if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"]}
                    lines += [{"index": {"_id": hit["_id"], **versions}}, source]
                answer = await client.bulk(index=index, body=lines)
                for hit, item in zip(chunk, answer["items"], strict=True):
                    hit["_seq_no"], hit["_primary_term"] = item["index"]["_seq_no"], item["index"]["_primary_term"]
                    assert item["index"]["status"] == 200
        done += len(hits)


async def claim_and_settle(server: Server) -> Figure:
    """Due letters found, claimed and settled by one process."""

    async def ours(run: int) -> float:
        async with server.store(f"bench_work{run}") as store:
            collection = store.collection(LETTERS)
            await fill(collection, (letter() for _ in range(DUE)))
            start = time.perf_counter()
            assert await work(collection, None, "one") == (DUE, 0)
            return DUE / (time.perf_counter() - start)

    async def against(run: int) -> float:
        async with server.store(f"bench_rawwork{run}") as store, server.raw() as client:
            await fill(store.collection(LETTERS), (letter() for _ in range(DUE)))
            start = time.perf_counter()
            assert await raw_work(client, f"bench_rawwork{run}_dlq") == DUE
            return DUE / (time.perf_counter() - start)

    return await compared(
        "find due + claim + settle of 20,000, one process", ours, against, target=">= 0.7", unit="letters/s"
    )


def _one_of_several(url: str, prefix: str, mine: range, begin: float) -> tuple[int, int, float]:
    async def go() -> tuple[int, int, float]:
        async with Server(url).store(prefix) as store:
            await asyncio.sleep(begin - time.time())  # all begin together, imports and connections behind them
            done, conflicts = await work(store.collection(LETTERS), mine, f"worker-{mine.start}")
            return done, conflicts, time.time()

    return asyncio.run(go())


async def several_processes(server: Server) -> Figure:
    """The same by four processes that each take a quarter of the partitions, against one process."""
    lost: list[float] = []
    step = PARTITIONS // 4

    async def workers(prefix: str, shares: Sequence[range]) -> float:
        async with server.store(prefix) as store:
            await fill(store.collection(LETTERS), (letter() for _ in range(DUE)))
        loop = asyncio.get_running_loop()
        with ProcessPoolExecutor(len(shares), mp_context=get_context("spawn")) as pool:
            begin = time.time() + 4
            each = [loop.run_in_executor(pool, _one_of_several, server.url, prefix, share, begin) for share in shares]
            results = await asyncio.gather(*each)
        assert sum(done for done, _, _ in results) == DUE
        if len(shares) > 1:
            lost.append(100 * sum(conflicts for _, conflicts, _ in results) / DUE)
        return DUE / (max(end for _, _, end in results) - begin)

    async def four(run: int) -> float:
        return await workers(f"bench_four{run}", [range(n * step, (n + 1) * step) for n in range(4)])

    async def one(run: int) -> float:
        return await workers(f"bench_alone{run}", [range(PARTITIONS)])

    made = await compared("the same by four processes, against one", four, one, target=">= 1.2", unit="letters/s")
    return replace(made, more={**made.more, "conflicts_percent": round(statistics.median(lost), 2)})


async def reading(server: Server) -> list[Figure]:
    """A filtered, sorted page and a tally over 100,000 letters, against the same bodies by a raw client."""
    async with server.store("bench_read") as store, server.raw() as client:
        collection = store.collection(LETTERS)
        states = [DeadLetterStatus.PENDING, DeadLetterStatus.EXHAUSTED]
        records = (
            letter("read", status=states[n % 2], due_at=NOW if n % 2 == 0 else None, exhausted_at=NOW)
            for n in range(MANY)
        )
        await fill(collection, records)
        query = letter_query(status="exhausted", category="network", limit=50)
        layout, path = collection.index.layout, "/bench_read_dlq/_search"
        page_body = opensearch_query.search(LETTERS, layout, query, None, query.limit + 1)
        by = ("status", "error_category", "retry_policy")
        tally_body = opensearch_query.tally(LETTERS, layout, Query(), by, (), ())

        async def raw(body: dict[str, Any]) -> None:
            await client.transport.perform_request("POST", path, body=body)

        async def rate(request: Callable[[], Awaitable[object]], times: int, run: int) -> float:
            start = time.perf_counter()
            for _ in range(times):
                await request()
            return times / (time.perf_counter() - start)

        def page() -> Awaitable[object]:
            return collection.find(query)

        def tally() -> Awaitable[object]:
            return collection.tally(Query(), by)

        return [
            await compared(
                name,
                partial(rate, ours, times),
                partial(rate, partial(raw, body), times),
                target=">= 0.8",
                unit="per second",
            )
            for name, ours, body, times in (
                ("page of 50, filtered and sorted, at 100,000", page, page_body, 100),
                ("tally by status, category and policy, at 100,000", tally, tally_body, 40),
            )
        ]


@contextmanager
def counted_commits(store: SQLiteStore) -> Iterator[list[int]]:
    """How many transactions the store's writer commits."""
    total = [0]
    writer: Any = store._open_file._writer  # type: ignore[union-attr]
    original = writer._commit

    def counting() -> None:
        total[0] += 1
        original()

    writer._commit = counting
    yield total


async def sqlite_writes() -> Figure:
    """200 tasks awaiting single durable writes, against executemany of the same documents in as many transactions."""
    folder = Path(tempfile.mkdtemp(prefix="mahavishnu-bench-"))
    commits = {}

    async def ours(run: int) -> float:
        async with SQLiteStore(folder / f"ours{run}.db") as store:
            collection = store.collection(LETTERS)
            batch = [letter("lite") for _ in range(WRITERS * EACH)]

            async def writer(mine: Sequence[DeadLetter]) -> None:
                for each in mine:
                    (result,) = await collection.write([each])
                    assert isinstance(result, DeadLetter)

            with counted_commits(store) as total:
                start = time.perf_counter()
                await asyncio.gather(*(writer(batch[n * EACH : (n + 1) * EACH]) for n in range(WRITERS)))
                seconds = time.perf_counter() - start
            commits[run] = total[0]
            return len(batch) / seconds

    async def against(run: int) -> float:
        async with SQLiteStore(folder / f"raw{run}.db") as store:
            table = store.main_collection(LETTERS).table
            batch = [letter("rawlite") for _ in range(WRITERS * EACH)]
            rows = [table.row(each, number) for number, each in enumerate(batch, 1)]
            bodies = [json.loads(row[-2]) for row in rows]
        transactions = commits.get(run) or commits.get(run - 1) or EACH
        size = -(-len(rows) // transactions)
        connection = sqlite3.connect(folder / f"raw{run}.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        start = time.perf_counter()
        for begin in range(0, len(rows), size):
            connection.execute("BEGIN IMMEDIATE")
            chunk = zip(rows[begin : begin + size], bodies[begin : begin + size], strict=True)
            connection.executemany(table.insert, ([*row[:-2], json.dumps(body), row[-1]] for row, body in chunk))
            connection.execute("COMMIT")
        seconds = time.perf_counter() - start
        connection.close()
        return len(rows) / seconds

    made = await compared(
        "200 concurrent single writes, SQLite, synchronous=FULL", ours, against, target=">= 0.6", unit="letters/s"
    )
    return replace(made, more={**made.more, "commits": commits})


def _given(each: DeadLetter) -> Iterator[str]:
    """The texts that came from outside."""
    yield from (each.payload.text, each.labels.text, *each.repos)
    for failure in each.failures:
        yield from (failure.message, failure.traceback or "")


async def memory_per_letter() -> Figure:
    """What a letter costs in the memory store beside what its user put in."""
    store, count = MemoryStore(), 20_000
    samples = [letter("mem") for _ in range(100)]
    payload = statistics.mean(sum(map(sys.getsizeof, _given(each))) for each in samples)
    gc.collect()
    tracemalloc.start()
    for _ in range(count):
        await store.collection(LETTERS).write([letter("mem")])
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return figure(
        "memory store, bytes per letter beside its payload",
        used / count - payload,
        None,
        target="<= 1024",
        unit="bytes",
        runs=1,
        payload_bytes=round(payload),
    )


async def outage() -> Figure:
    """Writes one after the other while the server is gone: the first one finds out, the others do not wait."""
    first: list[float] = []
    times: list[float] = []
    for _ in range(5):
        with Cluster(lasting=True) as cluster, tempfile.TemporaryDirectory() as folder:
            primary = OpenSearchStore(cluster.urls, prefix="bench_outage")  # the default time-out
            async with FallbackStore(primary, SQLiteStore(Path(folder) / "local.db")) as store:
                collection = store.collection(LETTERS)
                assert (await collection.write([letter()]))[0] is not None
                cluster.nodes[0].pause()  # connections are still accepted, but nothing answers: the worst kind
                for number in range(501):
                    start = time.perf_counter()
                    assert isinstance((await collection.write([letter()]))[0], DeadLetter)
                    (times if number else first).append(time.perf_counter() - start)
                cluster.nodes[0].resume()
    p99 = percentiles(times)
    return figure(
        "a write during an outage after the first one, p99",
        p99["p99_ms"],
        None,
        target="<= 5",
        unit="ms",
        runs=5,
        p50_ms=p99["p50_ms"],
        first_write_ms=[round(1000 * each) for each in first],
    )


async def main(wanted: Sequence[str]) -> None:
    """Measure what is wanted, everything by default; only a whole run is kept."""
    figures: list[Figure] = []
    alone: list[Callable[[], Awaitable[Figure]]] = [sqlite_writes, memory_per_letter, outage]
    served: list[Callable[[Server], Awaitable[Any]]] = [
        concurrent_writes,
        lone_write,
        claim_and_settle,
        several_processes,
        reading,
    ]
    chosen = [each for each in served if not wanted or any(part in each.__name__ for part in wanted)]
    if chosen:
        with Cluster(heap="1g", lasting=True) as cluster:
            for measure in chosen:
                made = await measure(Server(cluster.urls[0]))
                figures += made if isinstance(made, list) else [made]
    for lone in alone:
        if not wanted or any(part in lone.__name__ for part in wanted):
            figures.append(await lone())
    if not wanted:
        keep("Stores", figures)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

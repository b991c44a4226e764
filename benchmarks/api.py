"""The HTTP API under 50 clients: `python -m benchmarks.api [part of a figure's name …]`.

`mahavishnu serve` runs in a process of its own, with 10,000 letters. 50 clients keep their connections open and ask one
request after the other, for as long as a round lasts; beside them, in turns, 50 clients ask the store for the bodies of
50 records without anything of ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.figures import Figure, figure, keep
from benchmarks.stores import fill, letter
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from tests.support.opensearch import Cluster
from tests.support.server import served

CLIENTS, LETTERS_KEPT, GROUPS = 50, 10_000, 200
ROUNDS, SECONDS = 5, 4.0
GOAL_MS = 100
LIST = "/dlq?limit=50"
Ask = Callable[[], Awaitable[None]]  # one request of one client, and its answer


@dataclass(frozen=True)
class Asked:
    """What a figure is about: the path that each of the clients asks for."""

    name: str
    path: Callable[[int], str]


QUESTIONS = (
    Asked("list, the same 50 letters for all", lambda client: LIST),
    Asked("list, another filter for each client", lambda client: f"{LIST}&fingerprint=group-{client}"),
    Asked("stats", lambda client: "/dlq/stats"),
    Asked("statistics", lambda client: "/dlq/statistics"),
    Asked("groups", lambda client: "/groups"),
)


def letters() -> list[DeadLetter]:
    """As captures make them, over the last two days, of 200 causes."""
    now = SystemClock().now()
    ages = [timedelta(seconds=17 * number) for number in range(LETTERS_KEPT)]
    return [
        letter("api", created_at=now - age, updated_at=now - age, fingerprint=f"group-{number % GROUPS}", priority=0)
        for number, age in enumerate(ages)
    ]


class Client:
    """A connection that is kept open, and no more of HTTP than this server speaks."""

    def __init__(self, url: str, path: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._request = f"GET {parts.path}{path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()

    async def connect(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def ask(self) -> None:
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        assert length > 2
        await self._reader.readexactly(length)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def http(url: str, asked: Asked) -> AsyncIterator[Sequence[Ask]]:
    clients = [await Client(url, asked.path(number)).connect() for number in range(CLIENTS)]
    try:
        yield [client.ask for client in clients]
    finally:
        for client in clients:
            await client.close()


@asynccontextmanager
async def raw_opensearch(url: str, prefix: str) -> AsyncIterator[Sequence[Ask]]:
    """The bare client, with a connection for each."""
    from opensearchpy import AsyncOpenSearch

    client = AsyncOpenSearch([url], timeout=60, max_retries=0, maxsize=CLIENTS)
    body = {"size": 50, "sort": [{"created_at": "desc"}], "track_total_hits": False}

    async def ask() -> None:
        found = await client.search(index=f"{prefix}_dlq", body=body)
        assert len(found["hits"]["hits"]) == 50

    try:
        yield [ask] * CLIENTS
    finally:
        await client.close()


@asynccontextmanager
async def raw_sqlite(path: Path, where: str = "1") -> AsyncIterator[Sequence[Ask]]:
    """The bodies of 50 rows, read by threads with a connection each, and parsed."""
    connections = [sqlite3.connect(path, check_same_thread=False) for _ in range(CLIENTS)]
    sql = f'SELECT "_body" FROM "letters" WHERE {where} ORDER BY "created_at" DESC LIMIT 50'

    def read(connection: sqlite3.Connection) -> None:
        assert len([json.loads(body) for (body,) in connection.execute(sql)]) == 50

    with ThreadPoolExecutor(CLIENTS) as pool:
        loop = asyncio.get_running_loop()

        def client(connection: sqlite3.Connection) -> Ask:
            async def ask() -> None:
                await loop.run_in_executor(pool, read, connection)

            return ask

        yield [client(connection) for connection in connections]
    for connection in connections:
        connection.close()


async def waits(clients: Sequence[Ask], seconds: float) -> list[float]:
    """How long each request took, in milliseconds, while all clients ask without a pause."""
    took: list[float] = []
    ends = time.perf_counter() + seconds

    async def go(ask: Ask) -> None:
        while (start := time.perf_counter()) < ends:
            await ask()
            took.append(1000 * (time.perf_counter() - start))

    await asyncio.gather(*map(go, clients))
    return took


def p50(took: Sequence[float]) -> float:
    return statistics.median(took)


def p95(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=20)[-1]


async def compared(store: str, api: str, raw: Callable[[], Any], wanted: Sequence[str]) -> list[Figure]:
    """Every question in turns with the raw query, over several rounds after one that is not measured."""
    chosen = [asked for asked in QUESTIONS if not wanted or any(part in f"{store} {asked.name}" for part in wanted)]
    ours: dict[str, list[list[float]]] = {asked.name: [] for asked in chosen}
    bare: list[list[float]] = []
    loads: list[float] = []
    for round_ in range(ROUNDS + 1):
        seconds = SECONDS if round_ else 1.0
        async with raw() as clients:
            took = await waits(clients, seconds)
        if round_:
            bare.append(took)
            loads.append(round(os.getloadavg()[0], 1))
        for asked in chosen:
            async with http(api, asked) as clients:
                took = await waits(clients, seconds)
            if round_:
                ours[asked.name].append(took)
    against = statistics.median(map(p95, bare))
    made = [
        figure(
            f"{asked.name}, p95 for {CLIENTS} clients, {store}",
            statistics.median(map(p95, ours[asked.name])), None, target=f"<= {GOAL_MS}", unit="ms", runs=ROUNDS,
            p50_ms=round(statistics.median(map(p50, ours[asked.name])), 1),
            raw_p95_ms=round(against, 1), raw_p50_ms=round(statistics.median(map(p50, bare)), 1),
            p95_of_rounds_ms=[round(p95(took)) for took in ours[asked.name]],
            raw_p95_of_rounds_ms=[round(p95(took)) for took in bare],
            per_second=round(statistics.median(len(took) for took in ours[asked.name]) / SECONDS),
            raw_per_second=round(statistics.median(map(len, bare)) / SECONDS),
            load=loads,
        )
        for asked in chosen
    ]  # fmt: skip
    return [replace(each, against=round(against, 1), ratio=round(each.ours / against, 2)) for each in made]


async def measured(store: str, url: str, folder: Path, raw: Callable[[], Any], wanted: Sequence[str]) -> list[Figure]:
    async with open_store(url, local=None, kinds=KINDS) as opened:
        await fill(opened.collection(LETTERS), iter(letters()))
    with served(url, folder) as server:
        return await compared(store, server.api, raw, wanted)


async def main(wanted: list[str]) -> None:
    """Measure what is wanted, everything by default; only a whole run is kept."""
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "letters.db"
        figures += await measured("SQLite", f"sqlite:///{file}", folder, lambda: raw_sqlite(file), wanted)
        cluster = stack.enter_context(Cluster(heap="1g", lasting=True))
        url, prefix = cluster.urls[0], "bench_api"
        figures += await measured(
            "OpenSearch", f"{url.replace('http', 'opensearch', 1)}/{prefix}?timeout=60", folder,
            lambda: raw_opensearch(url, prefix), wanted,
        )  # fmt: skip
    if not wanted:
        keep("HTTP API", figures)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

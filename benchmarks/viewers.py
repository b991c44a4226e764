"""A worker beside people who look: `python -m benchmarks.viewers [--rounds NUMBER] [--due NUMBER]`.

A worker runs 10,000 due letters from one SQLite file: alone, and, in turns with that, beside `mahavishnu serve` on the
same file with 500 idle live viewers (pages that lie open, and are sent what changes) and 20 active ones, each of whom
loads the next page two seconds after the one before. Before it begins, and once all is done, it is measured what the
server costs while nothing changes.

All of it shares the processors of one machine, on which the viewers' own end of 520 connections takes its part as well.
`by_cpu` therefore compares letters for each second of the worker's processor time: what it is made to do more, or to
wait for busily, because somebody looks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.archive import remove_files
from benchmarks.console_store import fill_store
from benchmarks.figures import Figure, figure, keep
from benchmarks.pages import Browser, processor_seconds
from benchmarks.stores import fill, letter
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.model.clock import SystemClock
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from tests.support.server import served

IDLE, ACTIVE, PAUSE = 500, 20, 2.0
OPEN, DUE, ROUNDS, QUIET = 20_000, 10_000, 3, 5.0
PAGES = ("/", "/groups", "/groups/group-7", "/letters", "/letters?q=fingerprint%3Agroup-9", "/runs", "/workers")


class LiveViewer(asyncio.Protocol):
    """A page that lies open: it counts what it is sent."""

    received = 0

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.opened = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            assert data.startswith(b"HTTP/1.1 200"), data[:200]
            self.opened.set_result(None)
        LiveViewer.received += len(data)


@asynccontextmanager
async def idle_viewers(url: str) -> AsyncIterator[None]:
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    request = f"GET /api/v1/events?brief=true HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
    opened = []
    assert parts.hostname and parts.port
    for _ in range(IDLE):
        _, viewer = await loop.create_connection(lambda: LiveViewer(request), parts.hostname, parts.port)
        await viewer.opened
        opened.append(viewer)
    try:
        yield
        assert not any(each.transport.is_closing() for each in opened)
    finally:
        for each in opened:
            each.transport.close()


@asynccontextmanager
async def active_viewers(url: str, took: list[float]) -> AsyncIterator[None]:
    async def look(number: int) -> None:
        await asyncio.sleep(PAUSE * number / ACTIVE)
        while True:
            for place in range(len(PAGES)):
                start = time.perf_counter()
                browser = await Browser(url, PAGES[(place + number) % len(PAGES)]).connect()
                await browser.ask()
                await browser.close()
                took.append(1000 * (time.perf_counter() - start))
                await asyncio.sleep(PAUSE)

    tasks = [asyncio.create_task(look(number)) for number in range(ACTIVE)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


async def _done(_task: object, _repos: list[str]) -> None:
    """What the worker runs."""


async def work(store: str) -> None:
    """Wait for a line, run what is due, and print how long it took, by the clock and of the processor."""
    options = QueueOptions(limits=Limits(concurrency=500, skew_seconds=0), callback=_done)
    async with DeadLetterQueue(1_000_000, store=open_store(store), options=options) as dlq:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        start, cpu = time.perf_counter(), time.process_time()
        ran = await dlq.run_due()
        print(json.dumps([ran, time.perf_counter() - start, time.process_time() - cpu]), flush=True)


class Worker:
    """The worker's process; `rates` are letters a second, by the clock and of its processor time."""

    async def start(self, store: str) -> Worker:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "benchmarks.viewers", "--work", store]
        self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        assert await self._process.stdout.readline() == b"ready\n"
        return self

    async def rates(self, due: int) -> tuple[float, float]:
        out, _ = await self._process.communicate(b"\n")
        ran, seconds, cpu = json.loads(out)
        assert ran == due, (ran, due)
        return ran / seconds, ran / cpu


async def cost(process: int, seconds: float) -> float:
    """Of a second, how much of the processor a process takes, in percent."""
    before = processor_seconds(process)
    await asyncio.sleep(seconds)
    return 100 * (processor_seconds(process) - before) / seconds


async def beside(store: str, folder: Path, due: int, more: dict[str, list[float]]) -> tuple[float, float]:
    """The rates of the worker while people look."""
    worker = await Worker().start(store)
    took: list[float] = []
    with served(store, folder) as server:
        pid = server.process.pid
        more["server_alone_percent"].append(await cost(pid, QUIET))
        async with idle_viewers(server.url):
            more["server_500_idle_percent"].append(await cost(pid, QUIET))
            async with active_viewers(server.url, took):
                await asyncio.sleep(PAUSE)  # all of them have begun
                sent, began = LiveViewer.received, time.perf_counter()
                mine, theirs = time.process_time(), processor_seconds(pid)
                took.clear()
                rates = await worker.rates(due)
                seconds = time.perf_counter() - began
                more["server_percent"].append(100 * (processor_seconds(pid) - theirs) / seconds)
                more["viewers_percent"].append(100 * (time.process_time() - mine) / seconds)
                more["sent_mb_per_second"].append((LiveViewer.received - sent) / seconds / 1e6)
                more["page_p50_ms"].append(statistics.median(took))
                more["page_p95_ms"].append(statistics.quantiles(took, n=20)[-1])
    return rates


async def main(rounds: int, due: int) -> list[Figure]:
    """Measure all rounds."""
    names = ("server_alone_percent", "server_500_idle_percent", "server_percent", "viewers_percent")
    more: dict[str, list[float]] = {
        name: [] for name in (*names, "sent_mb_per_second", "page_p50_ms", "page_p95_ms", "load")
    }
    alone: list[tuple[float, float]] = []
    looked_at: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder, filled = Path(name), Path(name) / "filled.db"
        await fill_store(f"sqlite:///{filled}", OPEN)
        now = SystemClock().now()
        async with open_store(f"sqlite:///{filled}", local=None, kinds=KINDS) as opened:
            past = now - timedelta(hours=1)
            made = (letter("due", created_at=past, due_at=past, fingerprint=f"due-{n % 50}") for n in range(due))
            await fill(opened.collection(LETTERS), made)
        for round_ in range(rounds):
            for turn in ("alone", "beside") if round_ % 2 else ("beside", "alone"):
                store = shutil.copy(filled, folder / "letters.db")
                url = f"sqlite:///{store}"
                if turn == "alone":
                    alone.append(await (await Worker().start(url)).rates(due))
                else:
                    looked_at.append(await beside(url, folder, due, more))
                remove_files(name, "letters.db*")
            more["load"].append(os.getloadavg()[0])
            print(f"alone {alone[-1]}, beside {looked_at[-1]}", file=sys.stderr, flush=True)
    by_clock = [ours[0] / bare[0] for ours, bare in zip(looked_at, alone, strict=True)]
    by_cpu = [ours[1] / bare[1] for ours, bare in zip(looked_at, alone, strict=True)]
    return [
        figure(
            f"a worker beside {IDLE} idle and {ACTIVE} active viewers, {what}",
            statistics.median(ours), statistics.median(bare), target=">= 0.95", unit="letters/s", runs=rounds,
            ratio=statistics.median(ratios), ratios=[round(each, 3) for each in ratios], **details,
        )
        for what, place, ratios, details in (
            ("by the clock", 0, by_clock, {name: [round(each, 1) for each in values] for name, values in more.items()}),
            ("by its processor time", 1, by_cpu, {}),
        )
        for ours, bare in [([each[place] for each in looked_at], [each[place] for each in alone])]
    ]  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--due", type=int, default=DUE)
    parser.add_argument("--work", help="the store of the worker that is measured")
    given = parser.parse_args()
    if given.work:
        asyncio.run(work(given.work))
    else:
        figures = asyncio.run(main(given.rounds, given.due))
        if (given.rounds, given.due) == (ROUNDS, DUE):
            keep("A worker beside viewers", figures)

"""Chaos: five processes work on one OpenSearch while processes are killed, the server goes away and clocks jump.

`python -m tests.acceptance.chaos 30` makes it last 30 minutes and prints what it saw; the tests run a shorter one.
At the end nothing that was acknowledged is missing, no letter is unsound, and the lifetime statistics add up.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import Clock
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Store, scan
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import HISTORY, LEDGER, LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from tests.acceptance.chaos_node import JumpingClock
from tests.acceptance.node import CLOCK, ROOT, Node, until
from tests.opensearch import Cluster

PROCESSES = 5
MAX_SIZE = 700  # the queue is full now and then


@dataclass(slots=True)
class Report:
    """What happened, and what was found at the end."""

    events: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    missing: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    statistics: dict[str, Any] = field(default_factory=dict)

    @property
    def balance(self) -> int:
        """Zero if the lifetime statistics add up."""
        life = self.statistics["lifetime_stats"]
        ends = (
            "retry_success",
            "requeued",
            "permanently_failed",
            "manually_resolved",
            "cancelled",
            "archived",
            "cleared",
        )
        return int(life["enqueued_total"] - self.statistics["queue_size"] - sum(life[end] for end in ends))


class Chaos:
    """The processes, and what is done to them."""

    def __init__(self, cluster: Cluster, folder: Path, seed: int) -> None:
        self.cluster, self.folder, self.chance = cluster, folder, random.Random(seed)
        self.report = Report()
        self.diary = folder / "diary"
        self.nodes = [self._start(place) for place in range(PROCESSES)]

    def _start(self, place: int) -> Node:
        options = {
            "url": self.cluster.urls[0].replace("http", "opensearch", 1) + "?timeout=2",
            "local": f"sqlite:///{self.folder}/local-{place}.db",
            "diary": str(self.diary),
            "folder": str(self.folder),
            "max_size": MAX_SIZE,
            "seed": self.chance.randrange(1 << 30),
        }
        command = [sys.executable, "-m", "tests.acceptance.chaos_node", json.dumps(options)]
        return Node(Popen(command, stdout=PIPE, text=True, cwd=ROOT))

    async def rage(self, seconds: float) -> None:
        """Do something terrible every few seconds."""
        deeds = {self._kill: 6, self._jump: 5, self._freeze_server: 2, self._kill_server: 1}
        end = CLOCK.monotonic() + seconds
        while CLOCK.monotonic() < end:
            await CLOCK.sleep(self.chance.uniform(0.5, 4))
            deed = self.chance.choices(list(deeds), list(deeds.values()))[0]
            self.report.events[deed.__name__.strip("_")] += 1
            await deed()

    async def _kill(self) -> None:
        place = self.chance.randrange(PROCESSES)
        self.nodes[place].kill()
        self.nodes[place] = await asyncio.to_thread(self._start, place)

    async def _jump(self) -> None:
        node = self.chance.choice(self.nodes)
        if self._is_ready(node):
            node.signal(signal.SIGUSR1)

    def _is_ready(self, node: Node) -> bool:
        """Whether it listens to signals by now."""
        return node.process.poll() is None and (self.folder / f"ready-{node.process.pid}").exists()

    async def _freeze_server(self) -> None:
        server = self.cluster.nodes[0]
        server.pause()
        await CLOCK.sleep(self.chance.uniform(1, 6))
        server.resume()

    async def _kill_server(self) -> None:
        self.cluster.nodes[0].kill()
        await CLOCK.sleep(self.chance.uniform(0, 3))
        await asyncio.to_thread(self.cluster.nodes[0].start)

    def stop(self) -> None:
        """End them, those that are up as an operator would."""
        up = [node for node in self.nodes if self._is_ready(node)]
        for node in up:
            node.process.terminate()
        self.report.events["unclean ends"] = sum(node.process.wait(90) != 0 for node in up)
        for node in self.nodes:
            node.kill()  # those that were still on their way up


async def settle(chaos: Chaos) -> Report:
    """Take everything home, let the last leases run out, run what is due, and look at what is left."""
    await asyncio.to_thread(chaos.cluster.wait)
    urls, clock = chaos.cluster.urls, JumpingClock()
    clock.offset = timedelta(hours=5)  # beyond every lease that a clock an hour ahead may have taken
    for place in range(PROCESSES):
        local = SQLiteStore(chaos.folder / f"local-{place}.db", kinds=KINDS)
        pair = FallbackStore(OpenSearchStore(urls, timeout=30, kinds=KINDS), local, kinds=KINDS)
        async with _finisher(pair, clock) as dlq:
            for _ in range(100):
                await pair.drain()
                await dlq.run_due()
                if not (await pair.drain()).waiting:
                    break
            else:
                raise AssertionError(f"letters are left behind: {await pair.health()}")
    chaos.cluster.request("POST", "/_refresh")  # what other processes wrote last shows within a second, or now
    async with _finisher(OpenSearchStore(urls, timeout=30, kinds=KINDS), clock) as dlq:
        while await dlq.run_due():
            pass
        await _check(dlq, chaos.report, await asyncio.to_thread(chaos.diary.read_text))
    return chaos.report


def _finisher(store: Store, clock: Clock) -> DeadLetterQueue:
    """A queue in which every run succeeds."""
    limits = Limits(skew_seconds=0)
    options = QueueOptions(limits=limits, callback=lambda task, repos: "done")
    return DeadLetterQueue(MAX_SIZE, store=store, clock=clock, options=options)


async def _check(dlq: DeadLetterQueue, report: Report, diary: str) -> None:
    known: set[str] = set()
    for kind in (LETTERS, HISTORY, WAITING):
        async for letter in scan(dlq.store.collection(kind), Query()):
            known |= {letter.entry_id, *letter.absorbed}
            report.unsound += [f"{letter.key}: {broken}" for broken in lifecycle.violations(letter)]
            if kind is LETTERS:
                report.statuses[letter.status] += 1
    async for entry in scan(dlq.store.collection(LEDGER), Query()):
        known |= {entry.entry_id, *entry.absorbed}
    acknowledged = [words for words in map(str.split, diary.splitlines()) if len(words) == 3]
    report.acknowledged = len(acknowledged)
    often = Counter(task for _, _, task in acknowledged)
    missing = Counter((task, entry) for _, entry, task in acknowledged if entry not in known)
    report.missing = [f"{task} ({often[task]} captures) {entry}: {times}" for (task, entry), times in missing.items()]
    report.statistics = await dlq.get_statistics()


async def run(minutes: float, seed: int) -> Report:
    """The whole of it."""
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(cluster, Path(folder), seed)
        try:
            for node in chaos.nodes:
                await until(functools.partial(chaos._is_ready, node))
            await chaos.rage(60 * minutes)
            chaos.stop()
            return await settle(chaos)
        finally:
            for node in chaos.nodes:
                node.kill()


if __name__ == "__main__":
    found = asyncio.run(run(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1000)))
    sys.stdout.write(f"{found}\nbalance: {found.balance}\n")
    sys.exit(bool(found.missing or found.unsound or found.balance or found.statuses["retrying"]))

"""Chaos: five processes work on one store while they are killed, the store goes away and clocks jump.

`python -m tests.proofs.chaos --runs 30 --seconds 45 --clears 6` does it thirty times with six times the deletions,
on SQLite and OpenSearch in turns, and prints a line for each run; `--seed` repeats one. The tests do it a few times.
At the end nothing that was acknowledged is missing or dropped, nothing is doubled, and the statistics are exact.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Protocol
from unittest.mock import patch

from mahavishnu.archive.archiving import Archiving
from mahavishnu.archive.partitions import Partitions
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue, DeadLetterStatus
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import Clock
from mahavishnu.stores.base import Store, home_of
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.tasks.service import Lifecycle
from tests.proofs.chaos_node import REMEMBERED, RETENTION, STALENESS, JumpingClock, local_store
from tests.proofs.chaos_queues import QUEUES, define_queues
from tests.support.bookkeeping import Diary, Findings, check
from tests.support.item_bookkeeping import ItemFindings, check_items
from tests.support.node import CLOCK, ROOT, Node, say, until
from tests.support.opensearch import Cluster

PROCESSES = 5
MAX_SIZE = 700  # the queue is full now and then
STORES = ("sqlite", "opensearch")


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. With the same seed the same deeds are drawn, though the machine decides how they interleave."""

    store: str
    seed: int
    seconds: float
    clears: float  #: of a hundred deeds of a process, so many halves are `clear_all`
    calm: float = 1  #: how many times as long it is from one outage of a process's own to the next


@dataclass(slots=True)
class Report:
    """What happened, and what was found at the end."""

    plan: Plan
    events: Counter[str] = field(default_factory=Counter)
    found: Findings = field(default_factory=Findings)
    items: ItemFindings = field(default_factory=ItemFindings)

    @property
    def problems(self) -> dict[str, Any]:
        """What is wrong; empty if nothing is."""
        ends = {name: self.events[name] for name in ("unclean ends", "ended by themselves") if self.events[name]}
        return {**self.found.problems, **self.items.problems, **ends}

    def __str__(self) -> str:
        plan, found, events = self.plan, self.found, self.events
        names = ("missing", "dropped", "duplicates")
        return (
            f"seed {plan.seed} {plan.store} {plan.seconds:g} s, clears {plan.clears:g}: "
            f"{found.acknowledged} acknowledged, {events['clears']} clears and "
            f"{events['interrupted clears']} interrupted, {found.deleted} deleted, {found.archived} archived, "
            f"{events['hung']} hung; {self.items.kept} items kept, {self.items.moves} moves, "
            f"{dict(self.items.ends)}; "
            f"{events['kill']} kills, {', '.join(f'{name} {len(getattr(found, name))}' for name in names)}, "
            f"balance {found.balance}: {'FAULT' if self.problems else 'ok'}"
        )


class Server(Protocol):
    """The shared store, and what can become of it."""

    def options(self) -> dict[str, Any]: ...
    def open_store(self) -> Store: ...
    async def freeze(self, seconds: float) -> None: ...
    async def kill(self, seconds: float) -> None: ...
    async def recover(self) -> None: ...


class SharedCluster:
    """An OpenSearch of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def options(self) -> dict[str, Any]:
        return {
            "url": self._cluster.urls[0].replace("http", "opensearch", 1) + "?timeout=5"
        }  # a busy machine is no outage

    def open_store(self) -> Store:
        return OpenSearchStore(self._cluster.urls, timeout=30, kinds=KINDS)

    async def freeze(self, seconds: float) -> None:
        server = self._cluster.nodes[0]
        server.pause()
        await CLOCK.sleep(seconds)
        server.resume()

    async def kill(self, seconds: float) -> None:
        self._cluster.nodes[0].kill()
        await CLOCK.sleep(seconds)
        await asyncio.to_thread(self._cluster.nodes[0].start)
        await asyncio.to_thread(self._cluster.wait)

    async def recover(self) -> None:
        await asyncio.to_thread(self._cluster.wait)
        self._cluster.request("POST", "/_refresh")  # what other processes wrote last shows within a second, or now


class SharedFile:
    """One SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def options(self) -> dict[str, Any]:
        return {"file": str(self._path)}

    def open_store(self) -> Store:
        return SQLiteStore(self._path, kinds=KINDS, synchronous="OFF")

    async def freeze(self, seconds: float) -> None:
        """Somebody holds the lock for longer than anybody waits for it."""
        with closing(sqlite3.connect(self._path, timeout=30, check_same_thread=False)) as connection:
            await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
            await CLOCK.sleep(seconds)
            connection.rollback()

    async def kill(self, seconds: float) -> None:
        await self.freeze(seconds)

    async def recover(self) -> None: ...


class Chaos:
    """The processes, and what is done to them."""

    def __init__(self, server: Server, folder: Path, plan: Plan) -> None:
        self.server, self.folder, self.plan = server, folder, plan
        self.chance, self.report = random.Random(plan.seed), Report(plan)
        self.diary = folder / "diary"
        self.nodes = [self._start(place) for place in range(PROCESSES)]

    def local(self, place: int) -> str:
        """The file in which one process keeps what the shared store does not take."""
        return f"{self.folder}/local-{place}.db"

    def _start(self, place: int) -> Node:
        options = {
            **self.server.options(),
            "local": self.local(place),
            "diary": str(self.diary),
            "folder": str(self.folder),
            "max_size": MAX_SIZE,
            "seed": self.chance.randrange(1 << 30),
            "clears": self.plan.clears,
            "calm": self.plan.calm,
        }
        command = [sys.executable, "-m", "tests.proofs.chaos_node", json.dumps(options)]
        return Node(Popen(command, stdout=PIPE, text=True, cwd=ROOT))

    async def rage(self) -> None:
        """Do something terrible every few seconds; those in which the server starts again do not count."""
        deeds = {self._kill: 6, self._jump: 5, self._freeze_server: 2, self._kill_server: 1}
        left = self.plan.seconds
        while left > 0:
            seconds = self.chance.uniform(0.5, 4)
            await CLOCK.sleep(seconds)
            left -= seconds
            deed = self.chance.choices(list(deeds), list(deeds.values()))[0]
            self.report.events[deed.__name__.strip("_")] += 1
            await deed()

    async def _kill(self) -> None:
        place = self.chance.randrange(PROCESSES)
        self._note_end(self.nodes[place])
        self.nodes[place].kill()
        self.nodes[place] = await asyncio.to_thread(self._start, place)

    async def _jump(self) -> None:
        node = self.chance.choice(self.nodes)
        if self._is_ready(node):
            node.signal(signal.SIGUSR1)

    def _note_end(self, node: Node) -> None:
        """What has stopped working by itself can lose nothing any more: that must not pass for success."""
        self.report.events["ended by themselves"] += node.process.poll() is not None

    def _is_ready(self, node: Node) -> bool:
        """Whether it listens to signals by now."""
        return node.process.poll() is None and (self.folder / f"ready-{node.process.pid}").exists()

    async def _freeze_server(self) -> None:
        await self.server.freeze(self.chance.uniform(1, 8))

    async def _kill_server(self) -> None:
        await self.server.kill(self.chance.uniform(0, 3))

    def stop(self) -> None:
        """End them, those that are up as an operator would."""
        for node in self.nodes:
            self._note_end(node)
        up = [node for node in self.nodes if self._is_ready(node)]
        for node in up:
            node.process.terminate()
        self.report.events["unclean ends"] = sum(node.process.wait(90) != 0 for node in up)
        for node in self.nodes:
            node.kill()  # those that were still on their way up

    async def settle(self) -> None:
        """Take everything home, let the last leases run out, run what is due, and look at what is left."""
        await self.server.recover()
        clock = LaterClock()
        for place in range(PROCESSES):
            pair = FallbackStore(self.server.open_store(), local_store(self.local(place)), kinds=KINDS)
            async with _finisher(pair, clock) as dlq:
                for _ in range(100):
                    await pair.drain()
                    await dlq.run_due()
                    await dlq.queues.maintain()
                    clock.offset += timedelta(hours=1)
                    drained = await pair.drain()
                    # A drain that stopped half-way has counted only as far as it came.
                    if not drained.waiting and drained.stopped is None and (await pair.health()).status == "ok":
                        break
                else:
                    raise AssertionError(f"letters are left behind: {await pair.health()}")
        await self.server.recover()
        async with _finisher(self.server.open_store(), clock) as dlq:
            await _finish_tasks(dlq)
            while (
                await dlq.run_due()
                or await dlq.list_tasks(DeadLetterStatus.RETRYING)
                or any((await dlq.queues.maintain()).values())
            ):
                clock.offset += timedelta(hours=1)
            await dlq.deletion.finish()
            archiving = Archiving(dlq.context, RETENTION, Partitions(home_of(dlq.store), dlq.clock))
            await archiving.run(1000, dry_run=False)  # which a worker does every hour
            await archiving.leftovers.remove_leftovers()
            diary = Diary.read(await asyncio.to_thread(self.diary.read_text))
            self.report.events["clears"] = diary.clears["whole"]
            self.report.events["interrupted clears"] = diary.clears["interrupted"]
            self.report.events["hung"] = len(diary.hung)
            self.report.found = await check(dlq, diary)
            self.report.items = await check_items(dlq, diary, QUEUES)


class LaterClock(JumpingClock):
    """A clock on which time passes faster: who has seen a lease unchanged for its length may take it over."""

    offset = timedelta(hours=5)  # beyond every lease that a clock an hour ahead may have taken

    def monotonic(self) -> float:
        return super().monotonic() + self.offset.total_seconds()


async def _finish_tasks(dlq: DeadLetterQueue) -> None:
    """Hand over what hangs, and what was left half handed over."""
    lifecycle = Lifecycle(dlq.context)
    while await lifecycle.detect_and_transition_stale_tasks(dry_run=False) or await lifecycle.handover.finish():
        pass


def _finisher(store: Store, clock: Clock) -> DeadLetterQueue:
    """A queue in which every run succeeds."""
    limits = Limits(skew_seconds=0)
    options = QueueOptions(limits=limits, callback=lambda task, repos: "done", rules=[RETENTION, STALENESS])
    return DeadLetterQueue(MAX_SIZE, store=store, clock=clock, options=options)


async def run(plan: Plan, keep: Path | None = None) -> Report:
    """The whole of it. If there is something wrong, what is left of it is copied to `keep`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if plan.store == "sqlite":
            report = await _run_on(SharedFile(folder / "shared.db"), folder, plan)
        else:
            with Cluster() as cluster:
                report = await _run_on(SharedCluster(cluster), folder, plan)
        if keep is not None and report.problems:
            shutil.copytree(folder, keep / f"{plan.store}-{plan.seed}", dirs_exist_ok=True)
        return report


async def _run_on(server: Server, folder: Path, plan: Plan) -> Report:
    async with _finisher(server.open_store(), CLOCK) as dlq:
        await define_queues(dlq.queues)
    chaos = Chaos(server, folder, plan)
    try:
        for node in chaos.nodes:
            await until(functools.partial(chaos._is_ready, node))
        await chaos.rage()
        chaos.stop()
        with patch.multiple(lifecycle, MAX_ABSORBED=REMEMBERED, MAX_MERGED=REMEMBERED):
            await chaos.settle()
        return chaos.report
    finally:
        for node in chaos.nodes:
            node.kill()


def main() -> int:
    """One run or many, each with a line, and a summary. Returns how many were not as they should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1000), help="of the first run; then upwards")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--clears", type=float, default=1, help="how many times the usual deletions; 0 for none")
    parser.add_argument("--calm", type=float, default=1, help="how many times as long as usual it is between outages")
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--keep", type=Path, help="a folder for what runs with faults leave behind")
    options = parser.parse_args()
    reports, sums = list[Report](), Counter[str]()
    for number in range(options.runs):
        seed = options.seed + number
        store = STORES[seed % 2] if options.store == "both" else options.store
        report = asyncio.run(run(Plan(store, seed, options.seconds, options.clears, options.calm), options.keep))
        reports.append(report)
        say(str(report))
        for name, problem in report.problems.items():
            say(f"  {name}: {problem}")
        sums += Counter({name: len(getattr(report.found, name)) for name in ("missing", "dropped", "duplicates")})
    faults = sum(bool(report.problems) for report in reports)
    say(
        f"{len(reports)} runs, {sum(report.found.acknowledged for report in reports)} acknowledged: "
        f"missing {sums['missing']}, dropped {sums['dropped']}, duplicates {sums['duplicates']}, "
        f"balance {sum(abs(report.found.balance) for report in reports)}; {faults} runs with faults"
    )
    return faults


if __name__ == "__main__":
    sys.exit(bool(main()))

"""One process of the chaos: it captures failures, works on letters and on items of queues, archives what has ended,
and lets people meddle with all of it, at random.

Its way to the shared store breaks now and then, for itself alone. Whatever it tries to capture, and what it was told of
that, goes into its diary. SIGUSR1 makes its wall clock jump, SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import sys
from datetime import datetime, timedelta
from typing import Any

from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.core.dlq_integration import DLQIntegrationStrategy
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import SystemClock, instant
from mahavishnu.model.errors import MahavishnuError, StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.stores.urls import open_store
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.staleness_rules import StalenessRules
from mahavishnu.tasks.templates import read_templates
from mahavishnu.testing import Faults, FaultyStore
from mahavishnu.values.payload import LetterRequest
from tests.proofs.chaos_queues import QueueActor
from tests.support.bookkeeping import state_text, waiting_entry
from tests.support.outages import OUTAGES

TASKS = 400
# A letter remembers the last fifty that it succeeded or took in, and ten whose failures it counts. Here it remembers
# all, so that each can be looked up.
REMEMBERED = 1_000_000
ERRORS = (ConnectionError("reset"), TimeoutError("slow"), ValueError("bad"), PermissionError("no"), MemoryError("oom"))
DEEDS = {"capture": 60, "enqueue": 15, "archive": 6, "resurrect": 6, "retry": 6, "resolve": 3, "cancel": 3} | {
    "fail": 3, "edit": 6, "strategy": 2, "many": 1, "list": 5, "hang": 3, "detect": 1, "put_away": 1, "restore": 4
}  # fmt: skip
# What has ended may leave at once, and what hangs does so for a minute.
RETENTION = RetentionRules(
    completed_days=0, cancelled_days=0, permanently_failed_days=0, history_days=0, archive_months=None
)
STALENESS = StalenessRules(
    templates=read_templates({"chaos": {"lifecycle": {"max_duration_minutes": 1}}}), grace_after_downtime_seconds=86400
)


class JumpingClock(SystemClock):
    """A wall clock that somebody sets, up to an hour to either side."""

    offset = timedelta(0)

    def now(self) -> datetime:
        return instant(super().now() + self.offset)


class Actor:
    """Does one thing after the other to the queue."""

    def __init__(self, dlq: DeadLetterQueue, diary: int, chance: random.Random, clears: float) -> None:
        self.dlq, self.chance, self._diary = dlq, chance, diary
        self.integration = DLQIntegration(None, dlq)
        self.lifecycle = Lifecycle(dlq.context)
        self._deeds = {**DEEDS, "clear": clears / 2, "delete": clears}

    def note(self, *words: str) -> None:
        os.write(self._diary, (" ".join(words) + "\n").encode())

    def note_letter(self, task_id: str, letter: DeadLetter) -> None:
        """The state of the letter that the caller was told of."""
        self.note("told", task_id, letter.entry_id, state_text(letter))

    async def act(self) -> None:
        # Other tasks every two minutes, so that there are not more and more generations of the same.
        task_id = f"wf-{int(self.dlq.clock.monotonic() // 120)}-{self.chance.randrange(TASKS)}"
        deed = self.chance.choices(list(self._deeds), list(self._deeds.values()))[0]
        with contextlib.suppress(MahavishnuError):
            await getattr(self, f"_{deed}")(task_id)

    async def _capture(self, task_id: str) -> None:
        policy = self.chance.choice(["immediate", "exponential", None])
        wanted = LetterRequest(task_id=task_id, task={"n": 1}, repos=["a"], retry_policy=policy)
        self.note("try", task_id)
        decided = await self.integration.capture(wanted, self.chance.choice(ERRORS))
        if decided.letter is not None:
            self.note_letter(task_id, decided.letter)
        elif decided.problem is not None:
            self.note("unsure", task_id)
            if (waiting := waiting_entry(decided.problem)) is not None:
                self.note("told", task_id, waiting, "0")

    async def _enqueue(self, task_id: str) -> None:
        self.note("try", task_id)
        letter = await self.dlq.enqueue(task_id, {"n": 2}, ["b"], self.chance.choice(ERRORS), retry_policy="immediate")
        self.note_letter(task_id, letter)

    async def _archive(self, task_id: str) -> None:
        await self.dlq.archive_task(task_id)

    async def _resurrect(self, task_id: str) -> None:
        await self.dlq.letters.resurrect(task_id)

    async def _retry(self, task_id: str) -> None:
        await self.dlq.retry_task(task_id)

    async def _resolve(self, task_id: str) -> None:
        await self.dlq.letters.resolve(task_id, notes="by hand")

    async def _cancel(self, task_id: str) -> None:
        await self.dlq.letters.cancel(task_id)

    async def _fail(self, task_id: str) -> None:
        await self.dlq.letters.fail(task_id)

    async def _edit(self, task_id: str) -> None:
        await self.dlq.letters.edit(
            task_id, priority=self.chance.randrange(10), max_retries=self.chance.randrange(3, 6)
        )

    async def _strategy(self, task_id: str) -> None:
        self.integration.set_strategy(self.chance.choice(list(DLQIntegrationStrategy)))

    async def _many(self, task_id: str) -> None:
        await self.dlq.archive_exhausted(older_than_days=0)

    async def _clear(self, task_id: str) -> None:
        try:
            self.note("cleared", str(await self.dlq.clear_all()))
        except StoreError as problem:
            self.note("interrupted", *str(problem).split())  # as far as it came

    async def _hang(self, task_id: str) -> None:
        """A tracked task that nobody ever goes on with."""
        task = await self.lifecycle.create("hang", {"of": task_id}, template="chaos", unique=False)
        self.note("hung", task.task_id)
        await self.lifecycle.transition(task.task_id, "initializing")

    async def _detect(self, task_id: str) -> None:
        await self.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
        await self.lifecycle.handover.finish()

    async def _put_away(self, task_id: str) -> None:
        await self.dlq.archive.run(dry_run=False)

    async def _restore(self, task_id: str) -> None:
        await self.dlq.archive.restore(task_id)

    async def _delete(self, task_id: str) -> None:
        await self.dlq.deletion.delete_task(task_id)

    async def _list(self, task_id: str) -> None:
        await self.dlq.list_tasks(limit=50)


def shared_store(options: dict[str, Any]) -> Store:
    """The store that all processes share, as the options name it."""
    if "file" in options:
        return SQLiteStore(options["file"], kinds=KINDS, synchronous="OFF", busy_timeout=timedelta(seconds=2))
    return open_store(options["url"], kinds=KINDS)


def local_store(path: str) -> Store:
    """What one process keeps for itself; no power is cut here, so nothing is synchronised."""
    return SQLiteStore(path, kinds=KINDS, synchronous="OFF")


async def change_weather(faults: Faults, clock: SystemClock, chance: random.Random, calm: float) -> None:
    """Break the way to the shared store now and then, and mend it."""
    while True:
        await clock.sleep(calm * chance.uniform(2, 15))
        getattr(faults, chance.choice(OUTAGES))(chance=chance.choice([0.1, 1.0]))
        await clock.sleep(chance.uniform(0.1, 1.5))
        faults.clear()


async def main(options: dict[str, Any]) -> None:
    chance = random.Random(options["seed"])
    diary = os.open(options["diary"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    clock, stop = JumpingClock(), asyncio.Event()

    async def callback(task: Any, repos: list[str]) -> dict[str, str]:
        await clock.sleep(chance.random() / 20)
        if chance.random() < 0.4:
            raise chance.choice(ERRORS)
        return {"status": "completed"}

    def jump() -> None:
        clock.offset = timedelta(minutes=chance.randint(-60, 60))

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, jump)
    faults = Faults(chance.randrange(1 << 30))
    store = FallbackStore(FaultyStore(shared_store(options), faults), local_store(options["local"]), kinds=KINDS)
    limits = Limits(concurrency=10, lease_seconds=5, interval_seconds=1, skew_seconds=1, grace_seconds=2)
    queue_options = QueueOptions(
        limits=limits, letter_factory=LetterFactory(max_retries=4), callback=callback, rules=[RETENTION, STALENESS]
    )
    dlq = DeadLetterQueue(options["max_size"], store=store, clock=clock, options=queue_options)
    async with dlq:
        await dlq.start_retry_processor()
        actors = [Actor(dlq, diary, random.Random(chance.random()), options["clears"]) for _ in range(3)]
        names = [f"{os.getpid()}-{number}" for number in range(2)]
        workers = [QueueActor(dlq, actors[0].note, random.Random(chance.random()), name) for name in names]
        weather = asyncio.create_task(change_weather(faults, clock, random.Random(chance.random()), options["calm"]))
        os.close(os.open(f"{options['folder']}/ready-{os.getpid()}", os.O_CREAT))
        while not stop.is_set():
            await asyncio.gather(*(actor.act() for actor in actors), *(worker.act() for worker in workers))
            await clock.sleep(0.02)
        weather.cancel()
        faults.clear()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    lifecycle.MAX_ABSORBED = lifecycle.MAX_MERGED = REMEMBERED
    asyncio.run(main(json.loads(sys.argv[1])))

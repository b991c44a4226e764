"""One process of the chaos: it captures failures, works on letters, and lets people meddle with them, at random.

Whatever it was told is done goes into its diary. SIGUSR1 makes its wall clock jump, SIGTERM ends it.
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

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.core.dlq_integration import DLQIntegration, DLQIntegrationStrategy
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.engine.letter_factory import LetterFactory, LetterRequest
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import SystemClock, instant
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.stores.urls import open_store

TASKS = 400
# A letter remembers the last fifty that it succeeded or took in. Here it remembers all, so that each can be looked up.
lifecycle.MAX_ABSORBED = 1_000_000
ERRORS = (ConnectionError("reset"), TimeoutError("slow"), ValueError("bad"), PermissionError("no"), MemoryError("oom"))
DEEDS = {"capture": 60, "enqueue": 15, "archive": 6, "resurrect": 6, "retry": 6, "resolve": 3, "cancel": 3} | {
    "fail": 3, "edit": 6, "strategy": 2, "many": 1, "clear": 1, "list": 5
}  # fmt: skip


class JumpingClock(SystemClock):
    """A wall clock that somebody sets, up to an hour to either side."""

    offset = timedelta(0)

    def now(self) -> datetime:
        return instant(super().now() + self.offset)


class Actor:
    """Does one thing after the other to the queue."""

    def __init__(self, dlq: DeadLetterQueue, diary: int, chance: random.Random) -> None:
        self.dlq, self.chance, self._diary = dlq, chance, diary
        self.integration = DLQIntegration(None, dlq)

    def note(self, *words: str) -> None:
        os.write(self._diary, (" ".join(words) + "\n").encode())

    async def act(self) -> None:
        # Other tasks every two minutes, so that there are not more and more generations of the same.
        task_id = f"wf-{int(self.dlq.clock.monotonic() // 120)}-{self.chance.randrange(TASKS)}"
        deed = self.chance.choices(list(DEEDS), list(DEEDS.values()))[0]
        with contextlib.suppress(MahavishnuError):
            await getattr(self, f"_{deed}")(task_id)

    async def _capture(self, task_id: str) -> None:
        policy = self.chance.choice(["immediate", "exponential", None])
        wanted = LetterRequest(task_id=task_id, task={"n": 1}, repos=["a"], retry_policy=policy)
        decided = await self.integration.capture(wanted, self.chance.choice(ERRORS))
        if decided.letter is not None:
            self.note("ack", decided.letter.entry_id, task_id)

    async def _enqueue(self, task_id: str) -> None:
        letter = await self.dlq.enqueue(task_id, {"n": 2}, ["b"], self.chance.choice(ERRORS), retry_policy="immediate")
        self.note("ack", letter.entry_id, task_id)

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
        if self.chance.random() < 0.5:
            await self.dlq.clear_all()

    async def _list(self, task_id: str) -> None:
        await self.dlq.list_tasks(limit=50)


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
    store = open_store(options["url"], local=options["local"], kinds=KINDS)
    limits = Limits(concurrency=10, lease_seconds=5, interval_seconds=1, skew_seconds=1, grace_seconds=2)
    queue_options = QueueOptions(limits=limits, letter_factory=LetterFactory(max_retries=4), callback=callback)
    dlq = DeadLetterQueue(options["max_size"], store=store, clock=clock, options=queue_options)
    async with dlq:
        await dlq.start_retry_processor()
        actors = [Actor(dlq, diary, random.Random(chance.random())) for _ in range(4)]
        os.close(os.open(f"{options['folder']}/ready-{os.getpid()}", os.O_CREAT))
        while not stop.is_set():
            await asyncio.gather(*(actor.act() for actor in actors))
            await clock.sleep(0.02)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(json.loads(sys.argv[1])))

"""What a process of the chaos does to named queues: it puts items in, works on them, and lets people meddle."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.model.query import items_namespace
from mahavishnu.queues.items import ItemLease
from mahavishnu.queues.service import NamedQueues

SOURCES, DEAD = ("S1", "S2"), "D"
QUEUES = (*SOURCES, DEAD)
DEEDS = {"produce": 30, "lease": 25, "end": 40, "abandon": 2, "redrive": 1, "resurrect": 3, "drop": 1} | {
    "maintain": 1, "put_away": 1, "list": 2
}  # fmt: skip


async def define_queues(queues: NamedQueues) -> None:
    """Two queues whose dead items go to the same dead queue, by different rules."""
    await queues.create(DEAD, lease_timeout="3s")
    retry = {"attempts": 2, "cooldown": "1s"}
    await queues.create("S1", dead_queue=DEAD, retry=retry, lease_timeout="3s", expire_timeout="20m")
    await queues.create("S2", dead_queue=DEAD, max_attempts=1, lease_timeout="3s")


class QueueActor:
    """Does one thing after the other to the queues."""

    def __init__(self, dlq: DeadLetterQueue, note: Callable[..., None], chance: random.Random, name: str) -> None:
        self.dlq, self.note, self.chance, self.name = dlq, note, chance, name
        self.leases: list[tuple[str, ItemLease]] = []
        self.made = 0

    async def act(self) -> None:
        deed = self.chance.choices(list(DEEDS), list(DEEDS.values()))[0]
        with contextlib.suppress(MahavishnuError):
            await getattr(self, f"_{deed}")(self.chance.choice(QUEUES))

    async def _produce(self, queue: str) -> None:
        self.made += 1
        await asyncio.gather(*(self._produce_one(f"{self.name}-{self.made}-{each}") for each in range(2)))

    async def _produce_one(self, name: str) -> None:
        self.note("offered", name)
        made = await self.dlq.queues.produce(self.chance.choice(SOURCES), {"name": name})
        self.note("kept", name, made.id)

    async def _lease(self, queue: str) -> None:
        self.leases += [(queue, each) for each in await self.dlq.queues.lease(queue, self.name, limit=4)]

    async def _end(self, queue: str) -> None:
        ends = [self.leases.pop(self.chance.randrange(len(self.leases))) for _ in range(min(3, len(self.leases)))]
        await asyncio.gather(*(self._end_one(*each) for each in ends), return_exceptions=True)

    async def _end_one(self, queue: str, lease: ItemLease) -> None:
        if self.chance.random() < 0.5:
            await self.dlq.queues.complete(queue, lease.item.id, lease.token)
            self.note("done", lease.item.payload["name"])
        else:
            dead = self.chance.random() < 0.3
            await self.dlq.queues.retry(queue, lease.item.id, lease.token, error="no", dead=dead)

    async def _abandon(self, queue: str) -> None:
        self.leases.clear()

    async def _redrive(self, queue: str) -> None:
        await self.dlq.queues.redrive(DEAD)

    async def _resurrect(self, queue: str) -> None:
        for each in (await self.dlq.queues.items(queue, status="dead", limit=3)).items:
            await self.dlq.queues.resurrect(queue, each.id)

    async def _drop(self, queue: str) -> None:
        for each in (await self.dlq.queues.items(queue, limit=1)).items:
            await self.dlq.queues.drop(queue, each.id)

    async def _maintain(self, queue: str) -> None:
        await self.dlq.queues.maintain()

    async def _put_away(self, queue: str) -> None:
        inside = self.dlq.in_namespace(items_namespace(self.dlq.context.namespace, queue))
        await inside.archive.run(dry_run=False)

    async def _list(self, queue: str) -> Any:
        await self.dlq.queues.items(queue)
        await self.dlq.queues.numbers(queue)

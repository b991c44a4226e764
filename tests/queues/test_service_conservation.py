"""Whatever is done to items, and whichever process dies meanwhile: each is somewhere, once, and the numbers add up."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import MahavishnuError, StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import FaultyStore
from mahavishnu.testing.faults import Call
from tests.support.queues import CLOSINGS, House

NAMES = ("S1", "S2", "D", "E")


class Traffic:
    """Random acts of several processes on queues that share two dead queues."""

    def __init__(self, house: House, seed: int) -> None:
        self.house, self.random = house, random.Random(seed)
        self.processes = [house.queue(), house.queue()]
        self.made = 0
        self.leases: list[tuple[str, Any]] = []

    @property
    def queues(self) -> Any:
        return self.random.choice(self.processes).queues

    async def begin(self) -> None:
        queues = self.processes[0].queues
        for name in ("D", "E"):
            await queues.create(name)
        await queues.create("S1", dead_queue="D", retry={"attempts": 2, "cooldown": "5s"}, expire_timeout="60s")
        await queues.create("S2", dead_queue="E", max_attempts=1)

    async def act(self) -> None:
        often = [self.produce, self.lease, self.lease, self.end, self.end, self.end, self.stumble] * 3
        seldom = [self.wait, self.maintain, self.maintain, self.flip, self.redrive, self.resurrect, self.drop, self.die]
        with suppress(MahavishnuError):  # refused, or lost: what counts is what is kept
            await self.random.choice(often + seldom)()

    async def produce(self) -> None:
        name, self.made = self.random.choice(NAMES[:2]), self.made + 1
        await self.queues.import_items(name, [{"payload": self.made, "id": f"i{self.made}"}])

    async def lease(self) -> None:
        name = self.random.choice((*NAMES[:2], *NAMES))
        self.leases += [(name, each) for each in await self.queues.lease(name, "w", limit=4, lease_seconds=30)]

    async def end(self) -> None:
        if self.leases:
            name, lease = self.leases.pop(self.random.randrange(len(self.leases)))
            if self.random.random() < 0.1:
                await self.queues.complete(name, lease.item.id, lease.token)
            else:
                await self.queues.retry(name, lease.item.id, lease.token, dead=self.random.random() < 0.2)

    async def wait(self) -> None:
        self.house.clock.advance(self.random.choice([1, 10, 40]))

    async def maintain(self) -> None:
        await self.queues.maintain()

    async def flip(self) -> None:
        await self.queues.update("S1", dead_queue=self.random.choice(["D", "E"]))

    async def redrive(self) -> None:
        if self.random.random() < 0.5:
            await self.queues.redrive(self.random.choice(["D", "E"]))

    async def resurrect(self) -> None:
        name = self.random.choice(NAMES)
        for each in (await self.queues.items(name, status="dead")).items[:2]:
            await self.queues.resurrect(name, each.id)

    async def drop(self) -> None:
        if self.random.random() < 0.2:
            name = self.random.choice(NAMES)
            for each in (await self.queues.items(name)).items[:1]:
                await self.queues.drop(name, each.id)

    async def die(self) -> None:
        """A process is gone, and another one comes."""
        if self.random.random() < 0.3:
            self.house.kill(self.processes.pop(0))
            self.processes.append(self.house.queue())

    async def stumble(self) -> None:
        """One of the next writes of letters of a process, or its answer, is lost."""
        store, left = self.random.choice(self.processes).store, self.random.randrange(3)
        assert isinstance(store, FaultyStore)

        async def lose(call: Call) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise StoreUnavailable("lost", maybe_written=True)

        self.random.choice([store.faults.before, store.faults.after])("write", lose, kind=LETTERS)

    async def check(self, *, at_rest: bool) -> None:
        queues = self.processes[0].queues
        letters = [each async for each in scan(self.house.store().collection(LETTERS), Query())]
        living = Counter(each.task for each in letters if each.is_open and each.bound_for is None)
        assert all(count == 1 for count in living.values()), "an item lives in two places"
        done = Counter(each.task for each in letters if each.tallies.retry_success)
        assert all(count == 1 for count in done.values()), "an item was done twice"
        assert not living.keys() & done.keys()
        for name in NAMES:
            found = await queues.numbers(name)
            lifetime = found["lifetime_stats"]
            assert lifetime["enqueued_total"] == found["queue_size"] + sum(lifetime[each] for each in CLOSINGS), name
        if at_rest:
            assert not [each for each in letters if each.is_open and each.bound_for], "a move was not finished"
            dropped = sum(each.is_deleted for each in letters)
            assert len(living) + len(done) + dropped == self.kept(letters)

    def kept(self, letters: list[Any]) -> int:
        """Items that came in: what came from another queue is the same item."""
        return sum(each.task_id.startswith("i") for each in letters)


@pytest.mark.parametrize("seed", range(20))
async def test_each_item_is_somewhere_once(house: House, seed: int) -> None:
    traffic = Traffic(house, seed)
    await traffic.begin()
    for number in range(250):
        await traffic.act()
        if number % 25 == 0:
            await traffic.check(at_rest=False)
    house.faults.clear()
    survivor: DeadLetterQueue = house.queue()
    traffic.processes.insert(0, survivor)
    for _ in range(3):
        house.clock.advance(3600)
        await survivor.queues.maintain()
    await traffic.check(at_rest=True)

"""OpenSearch nodes are killed while letters are written in groups: what was acknowledged is there afterwards."""

from __future__ import annotations

import asyncio

import pytest

from mahavishnu.model import lifecycle
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, get_one, scan, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import make_letter
from mahavishnu.testing.clock import START
from tests.support.opensearch import Cluster

pytestmark = [pytest.mark.opensearch, pytest.mark.faults]
WRITERS = 40


class Load:
    """Writers that create letters and change every third one, and remember what they were told."""

    def __init__(self, collection: Collection[DeadLetter]) -> None:
        self.acknowledged: dict[str, DeadLetter] = {}
        self.tried: set[str] = set()
        self.refused = 0
        self._collection = collection
        self._stop = asyncio.Event()
        self._more = asyncio.Condition()

    async def reach(self, letters: int) -> None:
        """Return when so many have been acknowledged."""
        async with self._more:
            await self._more.wait_for(lambda: len(self.acknowledged) >= letters)

    async def be_refused(self) -> None:
        """Return when the store has refused a write."""
        async with self._more:
            await self._more.wait_for(lambda: self.refused > 0)

    def stop(self) -> None:
        self._stop.set()

    async def writer(self, name: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            letter = make_letter(task_id=f"w{name}-{number}")
            self.tried.add(letter.key)
            try:
                stored = await write_one(self._collection, letter)
                assert stored is not None, "nobody else writes this key"
                await self._note(stored)
                if number % 3 == 0:
                    changed = await write_one(self._collection, lifecycle.edit(stored, now=START, priority=number))
                    assert changed is not None, "nobody else changes this letter"
                    await self._note(changed)
            except StoreUnavailable:
                async with self._more:
                    self.refused += 1
                    self._more.notify_all()

    async def _note(self, letter: DeadLetter) -> None:
        async with self._more:
            self.acknowledged[letter.key] = letter
            self._more.notify_all()


async def check(load: Load, urls: list[str]) -> None:
    """Everything acknowledged is there as it was acknowledged, or as a later write made it whose answer was lost."""
    async with OpenSearchStore(urls, timeout=30) as store:
        collection = store.collection(LETTERS)
        found = {letter.key: letter async for letter in scan(collection, Query())}
        assert await get_one(collection, "w0-1") is not None
    missing = load.acknowledged.keys() - found.keys()
    assert not missing
    assert found.keys() <= load.tried
    for key, letter in load.acknowledged.items():
        assert found[key].entry_id == letter.entry_id
        assert found[key].priority in (letter.priority, letter.priority or int(key.partition("-")[2]))


@pytest.mark.prove
@pytest.mark.parametrize("victim", [0, 2])
async def test_one_of_three_nodes_is_killed(victim: int) -> None:
    with Cluster(nodes=3) as cluster:
        async with OpenSearchStore(cluster.urls, shards=3, timeout=10) as store:
            load = Load(store.collection(LETTERS))
            async with asyncio.TaskGroup() as tasks:
                for name in range(WRITERS):
                    tasks.create_task(load.writer(name))
                await load.reach(1_500)
                cluster.nodes[victim].kill()
                await load.reach(3_000)
                cluster.nodes[victim].start()
                await load.reach(4_000)
                load.stop()
        await asyncio.to_thread(cluster.wait)
        await check(load, cluster.urls)


@pytest.mark.prove
async def test_the_only_node_is_killed_and_comes_back() -> None:
    with Cluster() as cluster:
        async with OpenSearchStore(cluster.urls, timeout=5) as store:
            load = Load(store.collection(LETTERS))
            async with asyncio.TaskGroup() as tasks:
                for name in range(WRITERS):
                    tasks.create_task(load.writer(name))
                await load.reach(1_500)
                cluster.nodes[0].kill()
                await load.be_refused()  # else a node that is quick to come back is not missed
                await asyncio.to_thread(cluster.nodes[0].start)
                await load.reach(3_000)
                load.stop()
        await check(load, cluster.urls)

"""OpenSearch goes away in the middle of captures, and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query, letter_query
from mahavishnu.stores.base import scan, write_one
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import FaultyStore, ManualClock, make_letter
from tests.support.opensearch import Cluster

pytestmark = [pytest.mark.opensearch, pytest.mark.faults]
TASKS, EACH = 50, 40


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server that the test may stop."""
    with Cluster() as cluster:
        yield cluster


def is_kept(letter: DeadLetter) -> bool:
    """Whether the letter was stored in the local store."""
    assert letter.version is not None
    return letter.version[0] < 0


async def all_home(store: FallbackStore) -> None:
    """Drain until nothing is kept locally: a server that has just started may need more than one try."""
    for _ in range(30):
        if not (await store.drain()).waiting:
            return
    raise AssertionError(f"records do not go home: {await store.health()}")


async def test_captures_during_an_outage_end_up_in_opensearch_exactly_once(cluster: Cluster, tmp_path: Path) -> None:
    """2,000 letters by 50 tasks; the server dies after a third of them, with answers on their way."""
    clock = ManualClock()  # the watch does not interfere: the test says when to look after the primary
    primary = FaultyStore(OpenSearchStore(cluster.urls, timeout=5))
    async with FallbackStore(primary, SQLiteStore(tmp_path / "local.db"), clock=clock) as store:
        await clock.sleeping()
        collection = store.collection(LETTERS)
        stored: dict[str, DeadLetter] = {}
        third = asyncio.Event()

        async def capture(task: int) -> None:
            for number in range(EACH):
                letter = await write_one(collection, make_letter(task_id=f"wf-{task}-{number}"))
                assert letter is not None
                stored[letter.key] = letter
                if len(stored) > TASKS * EACH // 3:
                    third.set()

        async def outage() -> None:
            await third.wait()
            cluster.nodes[0].kill()

        await asyncio.gather(outage(), *(capture(task) for task in range(TASKS)))
        assert len(stored) == TASKS * EACH

        asked = primary.faults.calls.total()
        page = await collection.find(letter_query())
        assert page.degraded
        assert page.items
        assert (await collection.tally(letter_query())).degraded
        there = next(key for key, letter in stored.items() if not is_kept(letter))
        with pytest.raises(StoreUnavailable):
            await collection.get([there])
        assert await write_one(collection, make_letter(task_id="wf-late")) is not None
        assert primary.faults.calls.total() == asked, "a known outage costs nothing more"
        health = await store.health()
        assert health.status == "degraded"
        assert health.waiting > 0

        cluster.nodes[0].start()
        await asyncio.to_thread(cluster.wait)
        await all_home(store)
        assert (await store.health()).waiting == 0
        async with OpenSearchStore(cluster.urls, timeout=30) as fresh:
            home = [letter async for letter in scan(fresh.collection(LETTERS), Query())]
        assert len(home) == TASKS * EACH + 1
        by_key = {letter.key: letter for letter in home}
        assert by_key.keys() == stored.keys() | {"wf-late"}
        assert all(by_key[key].entry_id == letter.entry_id for key, letter in stored.items())
        assert not (await collection.find(letter_query())).degraded


async def test_a_process_that_never_sees_opensearch_leaves_its_letters_to_the_next(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.nodes[0].kill()
    clock = ManualClock()

    def store() -> FallbackStore:
        return FallbackStore(OpenSearchStore(cluster.urls), SQLiteStore(tmp_path / "local.db"), clock=clock)

    async with store() as first:
        assert first.away is not None
        await first.collection(LETTERS).write([make_letter(task_id=f"wf-{number}") for number in range(200)])
    cluster.nodes[0].start()
    await asyncio.to_thread(cluster.wait)
    async with store() as second:
        await all_home(second)
    async with OpenSearchStore(cluster.urls, timeout=30) as fresh:
        assert len([letter async for letter in scan(fresh.collection(LETTERS), Query())]) == 200


async def test_a_server_that_hangs_is_an_outage_too(cluster: Cluster, tmp_path: Path) -> None:
    """It accepts connections and never answers: the letter may or may not be there, so nobody may take it yet."""
    clock = ManualClock()
    primary = OpenSearchStore(cluster.urls, timeout=1.0)
    async with FallbackStore(primary, SQLiteStore(tmp_path / "local.db"), clock=clock) as store:
        await clock.sleeping()
        collection = store.collection(LETTERS)
        await collection.write([make_letter(task_id="before")])
        cluster.nodes[0].pause()
        try:
            during = await write_one(collection, make_letter(task_id="during"))
            after = await write_one(collection, make_letter(task_id="after"))
        finally:
            cluster.nodes[0].resume()
        assert during is not None
        assert after is not None
        await asyncio.to_thread(cluster.wait)
        await all_home(store)
    async with OpenSearchStore(cluster.urls, timeout=30) as fresh:
        home = {letter.key: letter.entry_id async for letter in scan(fresh.collection(LETTERS), Query())}
        assert home.keys() == {"before", "during", "after"}
        assert home["during"] == during.entry_id

"""Real processes work on one named queue: they are killed while items move, and many of them lease at once."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.stores.urls import open_store
from tests.support.bookkeeping import Diary
from tests.support.item_bookkeeping import check_items
from tests.support.node import CLOCK, ROOT, Node, until

pytestmark = pytest.mark.faults
SELDOM = pytest.mark.prove
ON_OPENSEARCH = [pytest.mark.opensearch, SELDOM]


def start(url: str, act: str, log: Path | None = None) -> Node:
    more = [] if log is None else [str(log)]
    command = [sys.executable, "-m", "tests.proofs.queue_node", url, act, *more]
    return Node(Popen(command, stdout=PIPE, text=True, cwd=ROOT))


async def fill(dlq: DeadLetterQueue, count: int, lease: str) -> Diary:
    """So many items in queue S, whose dead ones go to D."""
    await dlq.queues.create("D")
    await dlq.queues.create("S", dead_queue="D", lease_timeout=lease)
    diary = Diary()
    for number, made in enumerate(
        await asyncio.gather(*(dlq.queues.produce("S", {"name": f"i{number}"}) for number in range(count)))
    ):
        diary.kept[made.id] = f"i{number}"
    return diary


@pytest.mark.parametrize(
    ("store_url", "count", "kills"),
    [
        ("sqlite", 600, 2),
        pytest.param("sqlite", 6000, 10, marks=SELDOM),
        pytest.param("opensearch", 1500, 3, marks=ON_OPENSEARCH),
    ],
    indirect=["store_url"],
)
async def test_items_move_once_whoever_is_killed(store_url: str, count: int, kills: int) -> None:
    """Killed at any moment: each item is in the dead queue once, closed in the source, and the numbers are exact."""
    chance = random.Random(count)
    async with DeadLetterQueue(store=open_store(store_url, local=None, kinds=KINDS)) as dlq:
        diary = await fill(dlq, count, "1s")

        async def moved() -> int:
            return int((await dlq.queues.numbers("D"))["queue_size"])

        nodes = [start(store_url, "fail") for _ in range(2)]
        try:
            for node in nodes:
                await asyncio.to_thread(node.ready)
            for kill in range(kills):
                seen = await moved()

                async def goes_on(seen: int = seen) -> bool:
                    return await moved() > seen

                await until(goes_on, 0.01)
                await CLOCK.sleep(chance.random() / 20)
                assert await moved() < count, f"all was moved before kill number {kill + 1}"
                nodes.pop(0).kill()
                nodes.append(start(store_url, "fail"))
            assert await moved() < count, "all was moved before the last kill"

            async def is_over() -> bool:
                await dlq.queues.maintain()
                return not (await dlq.queues.numbers("S"))["queue_size"]

            await until(is_over)
        finally:
            for node in nodes:
                node.kill()
        found = await check_items(dlq, diary, ["S", "D"])
    assert found.problems == {}
    assert (dict(found.ends), found.moves) == ({"open": count}, count)


@SELDOM
async def test_twenty_shells_lease_each_of_a_thousand_items_once(store_url: str, tmp_path: Path) -> None:
    async with DeadLetterQueue(store=open_store(store_url, local=None, kinds=KINDS)) as dlq:
        diary = await fill(dlq, 1000, "10m")
        log = tmp_path / "leased"
        nodes = [start(store_url, "complete", log) for _ in range(20)]
        try:
            for node in nodes:
                assert await asyncio.to_thread(node.process.wait, 240) == 0
        finally:
            for node in nodes:
                node.kill()
        diary.done |= set(diary.kept.values())
        found = await check_items(dlq, diary, ["S", "D"])
    assert Counter(log.read_text().split()) == Counter(diary.kept.values())
    assert found.problems == {}
    assert dict(found.ends) == {"done": 1000}

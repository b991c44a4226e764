"""Produce, lease and complete by 200 workers at once: `python -m benchmarks.queues [sqlite | opensearch]`.

Beside it, in turns, 200 callers of the store do the same three writes of the same letters and read each one once by its
key: no rules, no line, no tokens to be proven.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import timedelta

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model import queue_items
from mahavishnu.model.json_value import Json
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from tests.opensearch import Cluster

WORKERS, EACH, ROUNDS = 200, 10, 5


async def queued(dlq: DeadLetterQueue) -> None:
    """What the workers do."""

    async def work(name: str) -> None:
        for number in range(EACH):
            await dlq.queues.produce("q", {"order": number})
            leases = await dlq.queues.lease("q", name)
            while not leases:
                leases = await dlq.queues.lease("q", name)
            (lease,) = leases
            await dlq.queues.complete("q", lease.item.id, lease.token)

    await asyncio.gather(*(work(f"w{number}") for number in range(WORKERS)))


async def raw(dlq: DeadLetterQueue) -> None:
    """The same writes, and a read of each letter by its key."""
    letters, definition = dlq.store.collection(LETTERS), await dlq.queues.get("q")

    async def work(name: str) -> None:
        for number in range(EACH):
            now = dlq.clock.now()
            fresh = queue_items.new_item(definition, Json.of({"order": number}), now)
            await letters.write([fresh])
            (found,) = await letters.get([fresh.key])
            assert found is not None and not isinstance(found, Exception)
            until = now + timedelta(seconds=60)
            (leased,) = await letters.write([queue_items.lease_item(found, name, "t", until, dlq.clock.now())])
            assert leased is not None and not isinstance(leased, Exception)
            await letters.write([queue_items.complete_item(leased, "t", dlq.clock.now())])

    await asyncio.gather(*(work(f"w{number}") for number in range(WORKERS)))


async def time_of(call: Callable[[DeadLetterQueue], Awaitable[None]], dlq: DeadLetterQueue) -> float:
    gc.collect()
    began = time.perf_counter()
    await call(dlq)
    return time.perf_counter() - began


async def compare(name: str, url: str) -> None:
    async with DeadLetterQueue(store=open_store(url, local=None, kinds=KINDS)) as dlq:
        await dlq.queues.create("q")
        await queued(dlq)
        took = [(await time_of(queued, dlq), await time_of(raw, dlq)) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(each) for each in zip(*took, strict=True))
    items = WORKERS * EACH
    print(f"{name:<11} {items / ours:8.0f} items/s   raw {items / theirs:8.0f}/s   {theirs / ours:.2f} of raw")


def main() -> None:
    kinds = sys.argv[1:] or ["sqlite", "opensearch"]
    with ExitStack() as stack:
        if "sqlite" in kinds:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            asyncio.run(compare("sqlite", f"sqlite:///{folder}/letters.db"))
        if "opensearch" in kinds:
            cluster = stack.enter_context(Cluster())
            url = cluster.urls[0].replace("http", "opensearch", 1)
            asyncio.run(compare("opensearch", f"{url}/queues?timeout=60"))


if __name__ == "__main__":
    main()

"""A process that carries bulk runs on until it is killed: `python -m tests.proofs.bulk_node <url>`."""

from __future__ import annotations

import asyncio
import sys

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.model.clock import SystemClock
from mahavishnu.stores.urls import open_store
from tests.support.node import say

LIMITS = Limits(lease_seconds=2.0, skew_seconds=0.5)


async def main(url: str) -> None:
    async with DeadLetterQueue(100_000, store=open_store(url, kinds=KINDS), options=QueueOptions(limits=LIMITS)) as dlq:
        say("ready")
        while True:
            await dlq.runs.advance()
            await SystemClock().sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

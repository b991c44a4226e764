"""A process that archives what is in a file, and tells of each call of its store: `archive_node FILE DAYS BATCH`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.testing.faults import CHANGES, READS, Call


async def main(path: str, days: int, batch_size: int) -> None:
    store = FaultyStore(open_store(f"sqlite:///{path}", kinds=KINDS))

    async def tell(call: Call) -> None:
        sys.stdout.write(f"{call.operation}\n")
        sys.stdout.flush()

    for operation in (*CHANGES, *READS):
        store.faults.before(operation, tell)
    clock = ManualClock()
    clock.advance(timedelta(days=days))
    async with DeadLetterQueue(store=store, clock=clock) as dlq:
        result = await dlq.archive.archive_completed_tasks(batch_size=batch_size, dry_run=False)
        assert not result.failed, result.failed


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

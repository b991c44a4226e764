"""A process that works on a named queue until it is killed: `python -m tests.proofs.queue_node URL ACT [LOG]`.

ACT is `fail`: each item is dead at once and moves; or `complete`: each one that is leased is noted in the log and done,
until the queue is empty.
"""

from __future__ import annotations

import asyncio
import os
import sys

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.clock import SystemClock
from mahavishnu.stores.urls import open_store
from tests.support.node import say

AT_ONCE = {"fail": 25, "complete": 20}


async def main(url: str, act: str, log: str = os.devnull) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with DeadLetterQueue(store=open_store(url, local=None, kinds=KINDS)) as dlq:
        queues, name = dlq.queues, f"shell-{os.getpid()}"
        say("ready")
        while True:
            leases = await queues.lease("S", name, limit=AT_ONCE[act])
            if act == "fail":
                await asyncio.gather(
                    *(queues.retry("S", each.item.id, each.token, error="no", dead=True) for each in leases)
                )
            else:
                os.write(file, "".join(f"{each.item.payload['name']}\n" for each in leases).encode())
                await asyncio.gather(*(queues.complete("S", each.item.id, each.token) for each in leases))
            if not leases:
                if act == "complete" and not (await queues.numbers("S"))["queue_size"]:
                    return
                await queues.maintain()
                await SystemClock().sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""The app of the on-call story: a shop whose bills go to a service that has moved.

`python -m tests.proofs.on_call_app` is a worker of it that looks for letters more often than settings allow: what
a run frees, it takes at once, and the story is not mostly about waiting.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from mahavishnu.core.app import MahavishnuApp

app = MahavishnuApp()


def bill(task: dict[str, Any], repos: list[str]) -> str:
    """Works at the new address only, and only if the amount is there."""
    if task["url"] == "https://old.example":
        raise ConnectionRefusedError(f"connection to {task['url']} refused for order {task['order']}")
    if task["url"] != "https://new.example":
        raise LookupError(f"no such host: {task['url']}")
    return f"order {task['order']} is billed"


app.register_adapter("billing", bill)


async def work() -> None:
    """Retry letters until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with app:
        assert app.dlq is not None
        await app.dlq.start_retry_processor(check_interval_seconds=0.5)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(work())

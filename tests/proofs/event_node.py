"""One process that publishes events and dies: `python -m tests.proofs.event_node URL`.

It stores three events. Then it is killed, when an outcome is written and its event is not yet.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.clock import Clock, SystemClock
from mahavishnu.stores.base import Store
from mahavishnu.stores.kinds import stored_kinds
from mahavishnu.stores.urls import open_store


def app_on(store: str | Store, clock: Clock | None = None, **events: Any) -> MahavishnuApp:
    """An app of one process, which stores the events of captures and of steps."""
    rules = {"durable_names": ["dlq.captured", "step.complete"], "durable_outbox": True, **events}
    settings = MahavishnuSettings(dlq_store_url="memory:", events=rules)
    opened = open_store(store, kinds=stored_kinds()) if isinstance(store, str) else store
    return MahavishnuApp(settings, store=opened, clock=clock or SystemClock())


async def main(url: str) -> None:
    """Publish and die."""
    async with app_on(url) as app:
        for order in (1, 2, 3):
            assert (await app.events.publish("order.paid", {"order": order}, mode="durable")).stored
        app.events.log.append = _die  # type: ignore[method-assign]
        await app.dlq.enqueue("order-7", {"order": 7}, [], "connection refused")
        await app.events.finish()


async def _die(event: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

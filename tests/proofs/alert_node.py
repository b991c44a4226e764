"""One process that does what a worker does about alerts: `python -m tests.proofs.alert_node STORE WEBHOOK`.

It is ready when it says so, begins at a line on stdin, and says how many notices were taken.
"""

from __future__ import annotations

import asyncio
import sys

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.clock import Clock, SystemClock
from mahavishnu.stores.kinds import stored_kinds
from mahavishnu.stores.urls import open_store


def app_on(store_url: str, webhook: str, clock: Clock | None = None) -> MahavishnuApp:
    """An app of one process, which tells a webhook what needs a person."""
    alerts = {"webhook_url": webhook, "rules": ["needs_person"]}
    settings = MahavishnuSettings(dlq_store_url="memory:", alerts=alerts)
    return MahavishnuApp(settings, store=open_store(store_url, kinds=stored_kinds()), clock=clock or SystemClock())


async def main(store_url: str, webhook: str) -> None:
    """Look and tell, three times."""
    async with app_on(store_url, webhook) as app:
        _say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        _say(sum([await app.dlq.alerts.run() for _ in range(3)]))


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

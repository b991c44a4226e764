"""Letters, tracked tasks and archived ones get another key on a real OpenSearch, and need the old one no more."""

from __future__ import annotations

from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import ManualClock
from mahavishnu.values.encryption import new_key

pytestmark = pytest.mark.opensearch
KEYS = {"old": new_key(), "new": new_key()}


async def test_the_old_key_can_go_once_there_is_nothing_to_be_renewed(
    opensearch_url: str, opensearch_prefix: str
) -> None:
    clock, ran, opened = ManualClock(), list[Any](), list[MahavishnuApp]()

    def open_app(*keys: str, broken: bool = True) -> tuple[MahavishnuApp, Any]:
        encryption = {"fields": ["card"], "keys": {name: KEYS[name] for name in keys}}
        app = MahavishnuApp(
            MahavishnuSettings(dlq_store_url="memory:", encryption=encryption),
            store=OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=60),
            clock=clock,
        )
        opened.append(app)

        @app.workflow("pay", key="order", track=True)
        async def pay(order: str, card: str) -> Any:
            found = await app.lifecycle.step("look up", look_up, card)
            if broken:
                raise ConnectionError("connection refused")
            ran.append(found)

        async def look_up(card: str) -> dict[str, str]:
            ran.append("look up")
            return {"card": card}

        return app, pay

    async def fail(app: MahavishnuApp, pay: Any, order: str) -> None:
        with pytest.raises(ConnectionError):
            await pay(order, "4111-1111")
        assert app.dlq_integration is not None
        await app.dlq_integration.finish()

    try:
        app, pay = open_app("old")
        await fail(app, pay, "A-1")
        await app.dlq.letters.resolve("pay:A-1", by="ann")
        clock.advance(100 * 86400)
        assert (await app.dlq.archive.archive_completed_tasks(dry_run=False)).lifecycle_tasks_archived == 1
        await fail(app, pay, "B-2")
        both = open_app("old", "new")[0].dlq
        assert (await both.encryption.renew_all()).changed == 4
        done = await both.encryption.renew_all(dry_run=False)
        assert (done.changed, done.failed) == (4, {})
        only, _ = open_app("new", broken=False)
        assert (await only.dlq.retry_task("pay:B-2"))["success"]
        assert ran[2:] == [{"card": "4111-1111"}], "what the first step returned, which is not run again"
        assert not (await only.dlq.encryption.renew_all()).failed
    finally:
        for each in opened:
            await each.dlq.shutdown()

"""The app: what documented code uses of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.model.errors import StoreError
from tests.support.queues import House, queue_of


async def test_the_app_has_what_documented_code_uses(house: House, caplog: pytest.LogCaptureFixture) -> None:
    class Mine(MahavishnuApp):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.mine = (self.config.dlq_max_size, self.observability, self.opensearch_integration)

    app = Mine(store=house.store(), clock=house.clock)
    assert app.mine == (10_000, None, None)
    assert await app.error_recovery_manager.classify_error("Connection timeout") == "network"
    with caplog.at_level(logging.INFO):
        app.logger.info("hello")
        await app.start_dlq_processor()
        await app.stop_dlq_processor()
    said = [record.message for record in caplog.records if record.name == app.logger.name]
    assert said == ["hello", "DLQ retry processor started (interval=60s)", "DLQ retry processor stopped"]


async def test_a_processor_that_is_switched_off_is_not_started(house: House, caplog: pytest.LogCaptureFixture) -> None:
    app = house.app(dlq_retry_processor_enabled=False)
    with caplog.at_level(logging.INFO):
        await app.start_dlq_processor()
    assert "DLQ retry processor disabled in configuration" in caplog.messages
    assert (await queue_of(app).get_statistics())["is_processor_running"] is False


async def test_a_read_says_that_the_store_is_away(house: House) -> None:
    queue = house.queue()
    await queue.open()
    with house.faults.unavailable():
        with pytest.raises(StoreError):
            await queue.list_tasks()
        assert (await queue.health()).status == "down"

"""The live workers over HTTP."""

from __future__ import annotations

from tests.unit.api.conftest import ApiHarness


async def test_live_workers_are_listed(api: ApiHarness) -> None:
    assert (await api.get("/workers")).json() == []
    await api.dlq.start_retry_processor(callback=lambda task, repos: None)
    (worker,) = (await api.get("/workers")).json()
    assert (worker["name"], worker["live"], worker["held"]) == (api.dlq.context.owner, True, 0)
    await api.dlq.stop_retry_processor()

"""Records that cannot be read, over HTTP."""

from __future__ import annotations

import pytest

from mahavishnu.testing import FaultyStore
from tests.support.api import ApiHarness


async def test_they_are_listed(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.dlq.enqueue("wf_1", {}, [], "boom")
    assert (await api.get("/integrity")).json() == []
    store = FaultyStore(api.dlq.store)
    monkeypatch.setattr(api.dlq.context, "store", store)
    store.faults.corrupt("find", keys=["wf_1"])
    assert (await api.get("/integrity")).json() == [{"kind": "letters", "key": "wf_1", "why": "a test's fault"}]
    assert (await api.get("/integrity", params={"limit": 0})).status_code == 422

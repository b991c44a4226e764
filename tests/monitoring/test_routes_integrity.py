"""Records that cannot be read, over HTTP."""

from __future__ import annotations

import pytest

from mahavishnu.stores.kinds import LOCAL_STORES, LocalStore
from mahavishnu.testing import START, FaultyStore
from tests.support.api import ApiHarness, bearer


async def test_they_are_listed(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.dlq.enqueue("wf_1", {}, [], "boom")
    assert (await api.get("/integrity")).json() == []
    store = FaultyStore(api.dlq.store)
    monkeypatch.setattr(api.dlq.context, "store", store)
    store.faults.corrupt("find", keys=["wf_1"])
    assert (await api.get("/integrity")).json() == [{"kind": "letters", "key": "wf_1", "why": "a test's fault"}]
    assert (await api.get("/integrity", params={"limit": 0})).status_code == 422


async def test_local_stores_are_listed_and_one_that_is_gone_is_forgotten(guarded_api: ApiHarness) -> None:
    api, path = guarded_api, "/integrity/local-stores"
    lost = LocalStore("lost", "web-1", 7, "/var/local.db", START, kept=3, letters=2)
    await api.dlq.open()
    await api.dlq.store.collection(LOCAL_STORES).write([lost])
    api.clock.advance(minutes=6)
    (line,) = (await api.get(path, headers=bearer("viewer"))).json()
    assert (line["name"], line["kept"], line["letters"]) == ("lost", 3, 2)
    assert (line["state"], line["needs_look"]) == ("left", True)
    assert "run `mahavishnu dlq drain /var/local.db` on web-1" in line["what"]
    text = (await api.client.get("/metrics", headers=bearer("viewer"))).text.splitlines()
    assert 'mahavishnu_dlq_local_stores{state="left"} 1.0' in text
    assert 'mahavishnu_dlq_local_records{state="left"} 3.0' in text
    assert 'mahavishnu_dlq_local_records{state="live"} 0.0' in text
    page = (await api.client.get("/", headers={"Accept": "text/html", **bearer("viewer")})).text
    assert "2 letters and 1 other record are still in a local store on web-1: /var/local.db" in page
    assert (await api.post(f"{path}/lost/forget", {}, headers=bearer("operator"))).status_code == 403
    assert (await api.post(f"{path}/other/forget", {}, headers=bearer("admin"))).status_code == 422
    assert (await api.post(f"{path}/lost/forget", {}, headers=bearer("admin"))).json() == {"forgotten": "lost"}
    assert (await api.get(path, headers=bearer("viewer"))).json() == []

"""Claims over HTTP."""

from __future__ import annotations

from tests.unit.api.conftest import ApiHarness


async def test_a_claim_with_the_longest_names_can_be_settled(api: ApiHarness) -> None:
    name = "t" * 3000
    await api.dlq.enqueue(name, {}, [], "connection reset")
    await api.dlq.letters.redrive(name)
    (claim,) = (await api.post("/claims", {"worker": "w"})).json()
    assert (await api.post("/claims/renew", {"task_id": name, "token": claim["token"]})).status_code == 200
    settled = await api.post("/claims/settle", {"task_id": name, "token": claim["token"], "outcome": "succeeded"})
    assert (settled.status_code, settled.json()["status"]) == (200, "completed")
    assert len((await api.get("/dlq", params={"task_id": name})).json()) == 1

"""Claims over HTTP."""

from __future__ import annotations

from tests.support.api import ApiHarness


async def test_a_claim_with_the_longest_names_can_be_settled(api: ApiHarness) -> None:
    name = "t" * 3000
    await api.dlq.enqueue(name, {}, [], "connection reset")
    await api.dlq.letters.redrive(name)
    (claim,) = (await api.post("/claims", {"worker": "w"})).json()
    assert (await api.post("/claims/renew", {"task_id": name, "token": claim["token"]})).status_code == 200
    settled = await api.post("/claims/settle", {"task_id": name, "token": claim["token"], "outcome": "succeeded"})
    assert (settled.status_code, settled.json()["status"]) == (200, "completed")
    assert len((await api.get("/dlq", params={"task_id": name})).json()) == 1


async def test_types_go_over_http_both_ways(api: ApiHarness) -> None:
    types = {"/amount": "decimal"}
    new = {"task_id": "wf_1", "task": {"amount": "12.50"}, "error": "connection reset", "payload_types": types}
    assert (await api.post("/dlq", new)).json()["payload_types"] == types
    wrong = await api.post("/dlq", {**new, "payload_types": {"amount": "decimal"}})
    assert (wrong.status_code, "JSON pointers" in wrong.text) == (422, True)
    await api.dlq.letters.redrive("wf_1")
    (claim,) = (await api.post("/claims", {"worker": "w"})).json()
    assert (claim["letter"]["task"], claim["letter"]["payload_types"]) == ({"amount": "12.50"}, types)
    settled = {"task_id": "wf_1", "token": claim["token"], "outcome": "failed", "error": "connection reset"}
    assert (await api.post("/claims/settle", settled)).status_code == 200
    refused = await api.patch("/dlq/wf_1", {"patch": {"amount": "12,50"}})
    assert (refused.status_code, "`amount` is a Decimal" in refused.text) == (422, True)
    assert (await api.patch("/dlq/wf_1", {"patch": {"amount": "13.00"}})).json()["payload_types"] == types
    other = await api.patch("/dlq/wf_1", {"task": {"amount": 13}, "payload_types": {}})
    assert (other.json()["task"], other.json()["payload_types"]) == ({"amount": 13}, {})

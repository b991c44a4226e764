"""What letters have in common, over HTTP and on the command line's pages."""

from __future__ import annotations

from tests.support.api import ApiHarness


async def test_of_a_group_and_of_a_letter(api: ApiHarness) -> None:
    for number in range(6):
        await api.keep(f"a/{number}", fingerprint="v1:a", adapter="orders", task={"currency": "EURO"})
        await api.keep(f"b{number}", fingerprint="v1:b", adapter="orders", status="completed", task={"currency": "EUR"})
    found = (await api.get("/groups/v1:a/commonalities", params={"sample": 5, "namespace": "default"})).json()
    assert found["items"] == [
        {
            "kind": "value", "name": "task.currency", "value": "EURO", "letters": 5, "others": 0,
            "query": "task.currency:EURO",
        }
    ]  # fmt: skip
    assert (found["letters"], found["sampled"], found["adapters"]) == (6, 5, ["orders"])
    lacks = (await api.get("/dlq/a%2F1/contrasts", params={"queue": "default"})).json()
    assert [(each["name"], each["usual"]) for each in lacks["items"]] == [("task.currency", [["EUR", 6]])]
    assert (await api.get("/groups/v1:none/commonalities")).status_code == 404
    assert (await api.get("/dlq/none/contrasts")).status_code == 404
    assert (await api.get("/dlq/a%2F1/contrasts", params={"sample": 1})).status_code == 422
    assert (await api.get("/query/suggest", params={"text": "ad", "namespace": "eu"})).status_code == 200
    assert (await api.get("/query/suggest", params={"limit": 0})).status_code == 422

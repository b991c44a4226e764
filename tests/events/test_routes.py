"""Stored domain events over HTTP."""

from __future__ import annotations

from tests.support.api import ApiHarness


async def test_events_are_read_and_acknowledged(api: ApiHarness) -> None:
    for order in (1, 2, 3):
        await api.dlq.domain_events.publish("order.paid", {"order": order}, mode="durable", task_id="wf")
    page = (await api.get("/domain-events?consumer=billing&limit=2")).json()
    assert [(each["number"], each["payload"], each["task_id"]) for each in page["events"]] == [
        (1, {"order": 1}, "wf"),
        (2, {"order": 2}, "wf"),
    ]
    assert (page["next"], page["has_more"]) == (2, True)
    assert len((await api.get("/domain-events?consumer=billing")).json()["events"]) == 3, "reading acknowledges nothing"
    done = await api.post("/domain-events/acknowledge", {"consumer": "billing", "number": 2})
    assert {name: done.json()[name] for name in ("consumer", "namespace", "number")} == {
        "consumer": "billing", "namespace": "default", "number": 2,
    }  # fmt: skip
    page = (await api.get("/domain-events?consumer=billing")).json()
    assert ([each["number"] for each in page["events"]], page["has_more"]) == ([3], False)
    assert (await api.get("/domain-events?after=1&name=invoice.*")).json()["events"] == []
    assert [each["number"] for each in (await api.get("/domain-events?after=1")).json()["events"]] == [2, 3]
    lower = await api.post("/domain-events/acknowledge", {"consumer": "billing", "number": 1})
    assert lower.json()["number"] == 2


async def test_each_namespace_has_its_own(api: ApiHarness) -> None:
    await api.dlq.in_namespace("eu").domain_events.publish("order.paid", mode="durable")
    assert (await api.get("/domain-events")).json()["events"] == []
    (event,) = (await api.get("/domain-events?namespace=eu")).json()["events"]
    assert event["namespace"] == "eu"
    done = await api.post("/domain-events/acknowledge?namespace=eu", {"consumer": "billing", "number": 1})
    assert done.json()["namespace"] == "eu"


async def test_what_is_refused(api: ApiHarness) -> None:
    for path in ("?limit=0", "?limit=1001", "?after=-1", "?consumer=a%20b", "?namespace=*"):
        assert (await api.get(f"/domain-events{path}")).status_code == 422, path
    never = await api.post("/domain-events/acknowledge", {"consumer": "billing", "number": 1})
    assert never.status_code == 422
    assert "there is no event 1" in never.text
    assert (await api.post("/domain-events/acknowledge", {"consumer": "*removed", "number": 0})).status_code == 422

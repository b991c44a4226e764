"""Saved views and numbers by hour, over HTTP."""

from __future__ import annotations

from tests.support.api import ApiHarness


async def test_a_view_is_saved_read_changed_and_deleted(api: ApiHarness) -> None:
    saved = await api.post("/views/Old%20orders", {"text": "adapter:orders age>1d", "by": "ann", "sort": "oldest"})
    assert saved.status_code == 200, saved.text
    assert saved.json()["saved_by"] == "ann"
    read = await api.get("/views/Old%20orders")
    assert read.json() == saved.json()
    assert [each["name"] for each in (await api.get("/views")).json()] == ["Old orders"]
    assert (await api.get("/views", params={"namespace": "eu"})).json() == []
    etag = {"If-Match": read.headers["ETag"]}
    newer = await api.post("/views/Old%20orders", {"text": "is:open"}, headers=etag)
    assert newer.status_code == 200
    assert (await api.post("/views/Old%20orders", {"text": "is:closed"}, headers=etag)).status_code == 412
    assert (
        await api.post("/views/Old%20orders", {"text": "is:closed"}, headers={"If-None-Match": "*"})
    ).status_code == 412
    assert (await api.client.delete("/api/v1/views/Old%20orders", headers=etag)).status_code == 412
    assert (await api.client.delete("/api/v1/views/Old%20orders")).json()["text"] == "is:open"
    assert (await api.get("/views/Old%20orders")).status_code == 404
    assert (await api.client.delete("/api/v1/views/Old%20orders")).status_code == 404


async def test_a_text_that_means_nothing_is_refused_with_its_place(api: ApiHarness) -> None:
    answer = await api.post("/views/a", {"text": "is:open statsu:x"})
    assert (answer.status_code, answer.json()["start"]) == (422, 8)
    assert (await api.post("/views/a", {"text": "is:open", "sort": "size"})).status_code == 422
    assert (await api.get("/views")).json() == []


async def test_numbers_by_hour(api: ApiHarness) -> None:
    await api.keep("wf", created_at=api.clock.now())
    found = (await api.get("/trends/hours", params={"hours": 2})).json()
    assert [each["arrived"] for each in found["hours"]] == [0, 1]
    assert found["not_known"]
    assert (await api.get("/trends/hours", params={"hours": 100})).status_code == 422

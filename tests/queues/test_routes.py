"""Named queues over HTTP."""

from __future__ import annotations

from datetime import datetime

import pytest

from mahavishnu.model.clock import LONGEST_SECONDS, require_wait
from mahavishnu.model.errors import InvalidInput
from tests.support.api import ApiHarness


async def test_a_queue_over_http(api: ApiHarness) -> None:
    assert (await api.post("/queues", {"name": "dead"})).status_code == 201
    made = await api.post("/queues", {"name": "q", "dead_queue": "dead", "retry": {"attempts": 2, "cooldown": "0s"}})
    assert (made.status_code, made.json()["dead_queue"]) == (201, "dead")
    assert [each["name"] for each in (await api.get("/queues")).json()] == ["dead", "q"]
    changed = await api.patch("/queues/q", {"max_attempts": 9})
    assert (changed.json()["max_attempts"], changed.json()["retry"]["attempts"]) == (9, 2)
    item = (await api.post("/queues/q/items", {"payload": {"n": 1}, "metadata": {"ref": 1}})).json()
    assert (item["status"], item["payload"], item["metadata"]) == ("pending", {"n": 1}, {"ref": 1})
    (lease,) = (await api.post("/queues/q/lease", {"worker": "w", "lease_seconds": 5})).json()
    path, token = f"/queues/q/items/{item['id']}", {"token": lease["token"]}
    assert (await api.get(path)).json()["worker_name"] == "w"
    assert (await api.post(f"{path}/renew", token)).json()["lease_until"] > lease["lease_until"]
    assert (await api.post(f"{path}/fail", {**token, "error": "boom"})).json()["failure_count"] == 1
    (lease,) = (await api.post("/queues/q/lease", {"worker": "w"})).json()
    assert (await api.post(f"{path}/fail", {"token": lease["token"], "dead": True})).json()["status"] == "dead"
    assert (await api.get("/queues/q/items")).json() == []
    (moved,) = (await api.get("/queues/dead/items")).json()
    assert (moved["source_id"], moved["source_queue"], moved["reason"]) == (item["id"], "q", "queue_item_dead")
    assert (await api.post("/queues/dead/redrive")).json() == {
        "redriven": 1, "skipped": 0, "refused": {}, "degraded": None,
    }  # fmt: skip
    (back,) = (await api.get("/queues/q/items", params={"status": "pending"})).json()
    assert (await api.get("/queues/q")).json()["status_breakdown"]["pending"] == 1
    (lease,) = (await api.post("/queues/q/lease", {"worker": "w"})).json()
    done = await api.post(f"/queues/q/items/{back['id']}/complete", {"token": lease["token"]})
    assert (done.status_code, done.json()["status"]) == (200, "completed")
    late = await api.post(f"/queues/q/items/{back['id']}/complete", {"token": "other"})
    assert (late.status_code, late.json()["type"].rpartition(":")[2]) == (409, "lost-lease")


async def test_what_cannot_be_is_refused_by_its_exact_words(api: ApiHarness) -> None:
    for name, target in (("C", None), ("B", "C")):
        await api.post("/queues", {"name": name, "dead_queue": target})
    for target, words in (
        ("B", "dead_queue 'B' cannot have its own dead_queue"),
        ("A", "dead_queue cannot reference itself"),
        ("Z", "dead_queue 'Z' does not exist; create it first"),
    ):
        refused = await api.post("/queues", {"name": "A", "dead_queue": target})
        assert (refused.status_code, refused.json()["detail"]) == (400, words)
    assert (await api.get("/queues/A")).status_code == 404
    assert (await api.post("/queues/C/delete")).status_code == 400
    assert (await api.post("/queues/C/delete", {"force": True})).status_code == 200
    assert (await api.get("/queues/B")).json()["dead_queue"] is None


async def test_a_retry_names_the_queue_and_the_item(api: ApiHarness) -> None:
    await api.post("/queues", {"name": "q"})
    result = await api.post("/queues/q/import", {"items": [{"payload": 1, "id": "abc"}, {"payload": 1, "id": "abc"}]})
    assert result.json() == {"created": 1, "duplicates": 1}
    (lease,) = (await api.post("/queues/q/lease", {"worker": "w"})).json()
    await api.post("/queues/q/items/abc/fail", {"token": lease["token"]})
    retried = await api.post("/queues/q/items/abc/retry")
    assert retried.json() == {"queue_name": "q", "item_id": "abc", "status": "pending"}
    assert (await api.post("/queues/q/items/abc/retry")).status_code == 409
    assert (await api.post("/queues/q/items/abc/drop", {"notes": "not needed"})).status_code == 200
    assert (await api.get("/queues/q/items/abc")).status_code == 404


async def test_a_worker_may_have_an_item_wait_as_long_as_python_may(api: ApiHarness) -> None:
    """A queue's cooldown may be a hundred years, so a worker may say as much; beyond that both refuse."""
    await api.post("/queues", {"name": "q", "retry": {"attempts": 9}})
    path = f"/queues/q/items/{(await api.post('/queues/q/items', {'payload': 1})).json()['id']}"
    (lease,) = (await api.post("/queues/q/lease", {"worker": "w"})).json()
    refused = await api.post(f"{path}/fail", {"token": lease["token"], "retry_in": LONGEST_SECONDS + 1})
    assert (refused.status_code, "retry_in" in refused.text) == (422, True)
    with pytest.raises(InvalidInput, match="retry_in must be a timedelta or seconds, from 0 to 3153600000"):
        require_wait(LONGEST_SECONDS + 1)
    failed = await api.post(
        f"{path}/fail", {"token": lease["token"], "retry_in": require_wait(LONGEST_SECONDS).days * 86400}
    )
    assert failed.status_code == 200
    waits = datetime.fromisoformat(failed.json()["next_retry_at"]) - datetime.fromisoformat(lease["item"]["created_at"])
    assert waits.days == 36_500

"""Groups over HTTP."""

from __future__ import annotations

from tests.support.api import ApiHarness


async def test_a_list_of_one_state_has_its_quiet_groups(api: ApiHarness) -> None:
    group = (await api.post("/dlq", {"task_id": "wf", "error": "connection reset"})).json()["fingerprint"]
    await api.post("/dlq/wf/resolve")
    await api.patch(f"/groups/{group}", {"state": "resolved"})
    for asked, shown in (
        ({}, []),
        ({"state": "resolved"}, [group]),
        ({"state": "resolved", "quiet": "false"}, [group]),
        ({"state": "new"}, []),
        ({"quiet": "true"}, [group]),
    ):
        found = (await api.get("/groups", params=asked)).json()
        assert [each["fingerprint"] for each in found] == shown, asked

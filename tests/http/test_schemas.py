"""What requests may say: one value or a list, instants, and the limits of both."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from mahavishnu.http.schemas import Filter
from mahavishnu.model.clock import instant_text
from tests.support.api import ApiHarness

ONE = {
    "status": "pending",
    "resolution_status": "pending",
    "category": "network",
    "policy": "exponential",
    "reason": "workflow_failed",
    "namespace": "default",
    "queue": "mail",
    "task_id": "wf",
    "repo": "shop",
    "metadata": "team=web",
}
NEW = {"task_id": "wf", "error": "connection reset"}


async def test_a_filter_takes_one_value_or_a_list(api: ApiHarness) -> None:
    asked = {"error": "connection reset", "queue": "mail", "repos": ["shop"], "metadata": {"team": "web"}}
    kept = (await api.post("/dlq", {"task_id": "wf", "retry_policy": "exponential", **asked})).json()
    await api.post("/dlq", {"task_id": "other", "error": "KeyError: 'x'"})
    for name, value in {**ONE, "fingerprint": kept["fingerprint"]}.items():
        told = [
            await api.post("/runs/preview", {"verb": "archive", "filter": {name: each}}) for each in (value, [value])
        ]
        assert [each.status_code for each in told] == [200, 200], told[0].text
        assert told[0].json() == told[1].json()
        assert "wf" in [letter["task_id"] for letter in told[0].json()["samples"]]
    both = await api.post("/runs/preview", {"verb": "archive", "filter": {"task_id": ["wf", "other"]}})
    assert both.json()["matched"] == 2
    wrong = await api.post("/runs/preview", {"verb": "archive", "filter": {"queue": {"is": "mail"}}})
    assert (wrong.status_code, wrong.json()["problems"][0]["where"]) == (422, "body.filter.queue.0")


@pytest.mark.parametrize("path", ["/dlq", "/runs", "/groups", "/audit"])
async def test_a_deeply_nested_cursor_is_refused(api: ApiHarness, path: str) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 7000).decode().rstrip("=")
    assert (await api.get(path, params={"cursor": deep})).status_code == 422


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_an_instant_that_utc_does_not_have_is_refused(api: ApiHarness, moment: str) -> None:
    await api.post("/dlq", NEW)
    group = (await api.get("/dlq/wf")).json()["fingerprint"]
    for answer in (
        await api.get("/dlq", params={"failed_from": moment}),
        await api.get("/audit", params={"since": moment}),
        await api.patch("/dlq/wf", {"next_retry_at": moment}),
        await api.post("/dlq/wf/preview", {"next_retry_at": moment}),
        await api.post("/runs/preview", {"verb": "archive", "filter": {"failed_from": moment}}),
        await api.patch(f"/groups/{group}", {"hold_until": moment}),
    ):
        assert answer.status_code == 422 or "9999" in answer.json()["refused"], answer.text


async def test_a_list_too_long_for_a_store_is_refused(api: ApiHarness) -> None:
    for name, most in (("task_id", 10_000), ("repo", 100), ("run", 100)):
        Filter.model_validate({name: ["a"] * most})
        with pytest.raises(ValidationError, match=f"{most} items"):
            Filter.model_validate({name: ["a"] * (most + 1)})
    for wide in ({"metadata": ["a=1"] * 101}, {"repo": ["a"] * 101}):
        assert (await api.post("/runs/preview", {"verb": "archive", "filter": wide})).status_code == 422


async def test_an_instant_without_a_zone_is_utc(api: ApiHarness) -> None:
    group = (await api.post("/dlq", NEW)).json()["fingerprint"]
    now = api.clock.now()
    early, late = (str((now + delta).replace(tzinfo=None)) for delta in (-timedelta(hours=1), timedelta(hours=1)))
    for bounds, count in (((early, late), 1), ((late, None), 0)):
        between = {name: at for name, at in zip(("created_from", "created_before"), bounds, strict=True) if at}
        assert len((await api.get("/dlq", params=between)).json()) == count
        told = await api.post("/runs/preview", {"verb": "archive", "filter": between})
        assert told.json()["matched"] == count
    assert len((await api.get("/audit", params={"since": early, "until": late})).json()) == 0
    for change in ({"next_retry_at": late}, {"hold_until": late}):
        path = "/dlq/wf" if "next_retry_at" in change else f"/groups/{group}"
        answer = await api.patch(path, change)
        assert answer.status_code == 200, answer.text
        assert answer.json()[next(iter(change))] == instant_text(now + timedelta(hours=1))
    assert len((await api.get("/audit", params={"since": early, "until": late})).json()) == 2


@pytest.mark.parametrize("moment", ["20261332", "1798761600", 1798761600, 1.5, "yesterday", ""])
async def test_a_number_is_no_instant(api: ApiHarness, moment: Any) -> None:
    await api.keep("wf")
    for answer in (
        await api.get("/dlq", params={"created_from": moment}),
        await api.post("/runs", {"verb": "archive", "filter": {"created_from": moment}}),
        await api.patch("/dlq/wf", {"next_retry_at": moment}),
    ):
        assert answer.status_code == 422
        assert "write an instant as 2026-01-31T12:00:00Z" in answer.json()["detail"]
    assert not (await api.dlq.runs.list()).items


async def test_a_day_means_its_first_instant_in_every_form_of_iso_8601(api: ApiHarness) -> None:
    await api.keep("wf")  # on the first of January
    for day in ("20260102", "2026-01-02", "2026-01-02T00:00Z", "2026-01-02t00:00:00z"):
        told = await api.post("/runs/preview", {"verb": "archive", "filter": {"created_from": day}})
        assert told.json()["matched"] == 0
        assert len((await api.get("/dlq", params={"created_before": day})).json()) == 1

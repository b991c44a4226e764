"""Bulk runs over HTTP."""

from __future__ import annotations

from typing import Any, get_args

from mahavishnu.bulk import routes as runs
from mahavishnu.bulk.members import VERBS
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.testing import ManualClock
from tests.support.api import ApiHarness, harness_for


def test_the_api_takes_every_verb_that_a_run_can_do() -> None:
    assert set(get_args(runs.Verb)) == set(VERBS)


async def test_a_preview_takes_the_same_body_as_a_run(api: ApiHarness) -> None:
    await api.keep("wf")
    body = {"verb": "edit", "filter": {"task_id": "wf"}, "patch": {"a": 1}, "redrive": True, "ramp": [1]}
    body |= {"max_per_second": 5, "stop_percent": 20, "reason": "the shop forgot it", "by": "ann"}
    told = await api.post("/runs/preview", body)
    assert (told.status_code, told.json()["eligible"]) == (200, 1)
    refused = await api.post("/runs", body)
    assert (refused.status_code, refused.json()["detail"]) == (422, told.json()["refused"])
    body["create"] = True
    assert (await api.post("/runs/preview", body)).json()["refused"] is None
    assert (await api.post("/runs", body)).status_code == 202
    assert (await api.post("/runs/preview", {**body, "notes": "x"})).status_code == 422


async def test_a_resume_that_would_halt_again_at_once_is_refused() -> None:
    """It is the same answer as anywhere else, as a problem."""

    async def fails(task: Any, repos: list[str]) -> None:
        raise ConnectionError("no route to host")

    clock = ManualClock()
    async for api in harness_for(DeadLetterQueue(clock=clock, options=QueueOptions(callback=fails)), clock):
        await api.keep("wf_1", retry_policy="never", due_at=None)
        asked = {"verb": "redrive", "everything": True, "ramp": [1], "stop_percent": 20}
        run_id = (await api.post("/runs", asked)).json()["run_id"]
        await api.dlq.runs.advance()
        await api.dlq.run_due()
        clock.advance(60)
        await api.dlq.runs.advance()
        for body in (None, {"stop_percent": 99}):
            refused = await api.post(f"/runs/{run_id}/resume", body)
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:mahavishnu:problem:illegal-run-move")
            assert f"bulk run '{run_id}' is halted: cannot resume it" in refused.json()["detail"]
            assert "; resume it with stop_percent 100, or cancel it" in refused.json()["detail"]
        resumed = await api.post(f"/runs/{run_id}/resume", {"stop_percent": 100})
        assert (resumed.status_code, resumed.json()["state"]) == (200, "running")
        outcomes = [entry["outcome"] for entry in (await api.get("/audit?action=run.resume")).json()]
        assert outcomes == ["done", "refused", "refused"]

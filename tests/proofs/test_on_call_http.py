"""Woken by an alert: from the growing group to the cause, a bad fix that is stopped, a good one, and the proof."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import httpx
import pytest

from tests.support.node import until
from tests.support.opensearch import Servers
from tests.support.server import Server, environment_for, served

ORDERS = 40
TOKENS = {"SERVER__VIEWERS": '{"vic": "look"}', "SERVER__OPERATORS": '{"olga": "act"}'}
NO_RETRIES = {"DLQ_DEFAULT_MAX_RETRIES": "0"}


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=[pytest.mark.opensearch, pytest.mark.prove])])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server, and a worker with the app's workflows: two processes on one store."""
    url = f"sqlite:///{tmp_path}/letters.db"
    if request.param == "opensearch":
        cluster: Servers = request.getfixturevalue("opensearch")
        url = cluster.urls[0].replace("http", "opensearch", 1) + "/on-call?timeout=30"  # a busy machine is no outage
    with served(url, tmp_path, **TOKENS, **NO_RETRIES) as server:
        command = [sys.executable, "-m", "tests.proofs.on_call_app"]
        worker = Popen(command, env=environment_for(url, tmp_path, **NO_RETRIES), stdout=DEVNULL, stderr=DEVNULL)
        try:
            yield server
        finally:
            worker.terminate()
            worker.wait(60)


async def test_from_the_alert_to_the_proof(server: Server) -> None:
    operator = {"Authorization": "Bearer act"}
    async with httpx.AsyncClient(base_url=server.api, headers=operator, timeout=60) as api:

        async def get(path: str, **parameters: Any) -> Any:
            answer = await api.get(path, params=parameters)
            assert answer.status_code == 200, answer.text
            return answer.json()

        async def post(path: str, body: Any, status: int = 200) -> Any:
            answer = await api.post(path, json=body)
            assert answer.status_code == status, answer.text
            return answer.json()

        async def ended(run_id: str) -> Any:
            async def look() -> Any:
                run = await get(f"/runs/{run_id}")
                return run if run["state"] in ("done", "halted", "cancelled") else None

            return await until(look, every=0.2)

        # Failures come in, all for one reason; another one happens now and then.
        await post("/dlq", {"task_id": "other", "error": "disk is full", "task": {}}, 201)
        await asyncio.gather(
            *(
                post(
                    "/dlq",
                    {
                        "task_id": f"bill-{number}",
                        "task": {"adapter": "billing", "order": number, "url": "https://old.example"},
                        "error": f"ConnectionRefusedError: https://old.example refused order {number}",
                        "retry_policy": "never",
                    },
                    201,
                )
                for number in range(ORDERS)
            )
        )

        # The alert: one group grows. Its sample tells the cause.
        groups = await get("/groups", sort="growth")
        group = groups[0]
        assert (group["count"], group["last_hour"], group["state"]) == (ORDERS, ORDERS, "new")
        assert len(groups) == 2
        sample = await get(f"/dlq/{group['sample']['task_id']}")
        assert sample["task"]["url"] == "https://old.example" and sample["error_category"] == "network"
        fingerprint = {"fingerprint": [group["fingerprint"]]}
        answer = await api.get(f"/groups/{group['fingerprint']}")
        mine = {
            "state": "investigating",
            "owner": "olga",
            "note": "the service has moved",
            "link": "https://wiki.example",
        }
        taken = await api.patch(
            f"/groups/{group['fingerprint']}", json=mine, headers={"If-Match": answer.headers["etag"]}
        )
        assert (taken.status_code, taken.json()["owner"]) == (200, "olga")
        denied = await api.patch(f"/groups/{group['fingerprint']}", json=mine, headers={"Authorization": "Bearer look"})
        assert denied.status_code == 403

        # A first fix is wrong: what it would do is shown, two letters are lost on it, and no more.
        bad = {"verb": "redrive", "filter": fingerprint, "patch": {"url": "https://nwe.example"}}
        assert (await post("/runs/preview", bad))["eligible"] == ORDERS
        plan = {"ramp": [1, 5], "stop_percent": 20, "reason": "they have moved"}
        run = await post("/runs", {**bad, **plan}, 202)
        halted = await ended(run["run_id"])
        assert halted["state"] == "halted" and "20" in halted["halted_because"]
        assert (halted["counts"]["moved"], halted["counts"]["failed_again"]) == (1, 1)
        failed = await get(f"/runs/{run['run_id']}/items", outcome="failed_again")
        assert [item["state"] for item in failed] == ["moved"]
        assert len(await get(f"/runs/{run['run_id']}/items", state="waiting")) == ORDERS - 1
        hurt = await get(f"/dlq/{failed[0]['key']}")
        assert hurt["runs"] == [run["run_id"]] and "no such host" in hurt["last_error"]
        assert [each["task"]["url"] for each in await get(f"/dlq/{hurt['task_id']}/revisions")] == [
            "https://old.example"
        ]
        await post(f"/runs/{run['run_id']}/cancel", {"reason": "a typing error"})

        # The second fix passes: one, five, then all the others.
        good = {"verb": "redrive", "filter": fingerprint, "patch": {"url": "https://new.example"}}
        second = await post("/runs", {**good, **plan}, 202)
        done = await ended(second["run_id"])
        assert done["state"] == "done", done
        left = done["counts"]["members"]
        assert done["counts"]["succeeded"] == left >= ORDERS - 1
        if left < ORDERS:  # the letter that failed again has another fingerprint now
            again = await post("/runs", {**good, "filter": {"task_id": [hurt["task_id"]]}}, 202)
            assert (await ended(again["run_id"]))["counts"]["succeeded"] == 1

        # The proof: the group has resolved itself, nothing of it is open, and the audit tells it all.
        async def resolved() -> bool:
            view = await get(f"/groups/{group['fingerprint']}")
            return bool(view["state"] == "resolved" and view["count"] == 0)

        await until(resolved, every=0.2)
        assert await get("/dlq", status=["pending", "exhausted", "retrying"], text="example") == []
        audit = await get("/audit", limit=1000)
        story = [(entry["actor"], entry["action"], entry["outcome"]) for entry in reversed(audit)]
        expected = [
            ("olga", "group.update", "done"),
            ("vic", "denied", "refused"),
            ("olga", "run.start", "done"),
            ("olga", "run.cancel", "done"),
            ("olga", "run.start", "done"),
        ]
        told = iter(story)
        assert all(each in told for each in expected), story
        assert any(entry["action"] == "run.halt" for entry in audit)
        (end, *_, start) = [entry for entry in audit if entry["subject"] == f"run:{second['run_id']}"]
        assert (start["action"], start["reason"]) == ("run.start", "they have moved")
        assert (end["action"], end["changes"]["succeeded"]) == ("run.done", {"after": left})
    assert "Traceback" not in server.log.read_text()

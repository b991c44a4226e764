"""What is encrypted or masked is in clear nowhere that the server tells: pages, API, exports, numbers, logs."""

from __future__ import annotations

import logging
import re
from decimal import Decimal

import httpx
import pytest

from mahavishnu.core.api import Access, create_app
from mahavishnu.values.encryption import new_key
from tests.support.queues import NETWORK, House, queue_of

HTML = {"Accept": "text/html"}
ENCRYPTED, MASKED, PLAIN = "4111-canary-7f3a", "hunter-canary-2", "plain-canary-3"


async def test_no_surface_tells_a_secret(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    app = house.app(encryption={"fields": ["*card*"], "keys": {"k1": new_key()}}, redact_keys=["*password*"])

    @app.workflow("charge", key="order")
    async def charge(order: str, card: str, password: str, note: str) -> Decimal:
        raise NETWORK

    with pytest.raises(ConnectionError):
        await charge("A-1", ENCRYPTED, MASKED, PLAIN)
    assert app.dlq_integration is not None
    await app.dlq_integration.finish()
    dlq = queue_of(app)
    (letter,) = await dlq.list_tasks()
    assert letter.fingerprint is not None
    await dlq.letters.edit(letter.task_id, priority=4, by="eve")
    await dlq.runs.start("redrive", everything=True, by="eve")
    (run,) = (await dlq.runs.list()).items

    api = create_app(dlq, access=Access.of({}, {}, {"ada": "t-1"}))
    headers = {"Authorization": "Bearer t-1"}
    told: dict[str, str] = {}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(api), base_url="http://localhost", headers=headers
    ) as http:
        paths = (await http.get("/api/v1/openapi.json")).json()["paths"]
        task = letter.task_id.replace("/", "%2F")
        known = {"task_id": task, "run_id": run.run_id, "fingerprint": letter.fingerprint}
        reads = [
            re.sub(r"{(\w+)}", lambda part: known.get(part[1], "x"), path)
            for path, operations in paths.items()
            if "get" in operations and not path.endswith("/events")
        ]
        for secret in (ENCRYPTED, MASKED):
            reads += [f"/api/v1/dlq?text={secret}", f"/api/v1/query/suggest?text=task.card:{secret[:5]}"]
        pages = ["/", "/groups", "/letters", "/runs", "/audit", "/archive", "/workers", f"/letters/{task}"]
        pages += [f"/groups/{letter.fingerprint}", f"/runs/{run.run_id}"]
        for path in reads:
            told[path] = (await http.get(path)).text
        for path in pages:
            told[f"page {path}"] = (await http.get(path, headers=HTML)).text
        edit = await http.patch(f"/api/v1/dlq/{task}", json={"task": {"card": "x"}})
        told["a refused edit"] = edit.text
    told["events"] = repr(await api.state.live._changes(letter.created_at))
    records = [record for record in caplog.records if record.name != "httpx"]  # which is the client, not the server
    told["log"] = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in records)
    for secret in (ENCRYPTED, MASKED):
        assert [place for place, text in told.items() if secret in text and secret not in place] == []
    shown = [place for place, text in told.items() if PLAIN in text]
    assert {f"/api/v1/dlq/{task}", f"page /letters/{task}", "/api/v1/dlq/export"} <= {*shown}

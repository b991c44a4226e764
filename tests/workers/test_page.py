"""The page of workers."""

from __future__ import annotations

import pytest

from mahavishnu.workers.service import Workers
from tests.console.test_forms import post
from tests.support.api import ApiHarness
from tests.support.pages import EVIL, away, read, require_inert


async def test_no_worker_says_how_one_is_started(api: ApiHarness) -> None:
    shown = await read(api, "/workers")
    assert "No worker lives" in shown and "mahavishnu worker" in shown and "Letters that no worker can run" not in shown


async def test_who_lives_and_what_waits_for_nobody(api: ApiHarness) -> None:
    for adapter in ("mail", "invoice"):
        await api.dlq.enqueue(f"{adapter}-1", {}, [], "connection refused", "immediate", adapter=adapter)
    await api.dlq.claims.claim("mailer", adapters=["mail"])
    shown = await read(api, "/workers")
    assert "1 worker lives" in shown and "1 letter is being run" in shown and "claims over HTTP" in shown
    waiting = shown.partition("Letters that no worker can run")[2].partition("</section>")[0]
    assert "invoice" in waiting and "mail" not in waiting


async def test_viewers_may_look(guarded_api: ApiHarness) -> None:
    assert "No worker lives" in await read(guarded_api, "/workers", "viewer")
    assert (await guarded_api.client.get("/workers", headers={"Accept": "text/html"})).status_code == 303


async def test_what_cannot_be_read_is_said(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workers, "list", away)
    monkeypatch.setattr(Workers, "waiting", away)
    shown = await read(api, "/workers")
    assert "Who works is not known now" in shown and "The list cannot be read now" in shown


async def test_what_strangers_wrote_is_text(api: ApiHarness) -> None:
    await api.dlq.enqueue("a", {}, [], "connection refused", "immediate", adapter=EVIL)
    await api.dlq.claims.claim(EVIL, adapters=["mail"])
    require_inert(await read(api, "/workers"))


async def test_a_limit_is_set_and_reset_by_a_form(api: ApiHarness) -> None:
    assert (await post(api, "/workers/limits", adapter="charge", concurrency="5", rate="100/min")).status_code == 303
    shown = await read(api, "/workers")
    assert "100/min" in shown.partition("Limits of adapters")[2].partition("</table>")[0]
    (limit,) = (await api.client.get("/api/v1/adapters")).json()
    assert (limit["adapter"], limit["concurrency"], limit["rate"]) == ("charge", 5, "100/min")
    changed = await api.client.patch("/api/v1/adapters/charge/limit", json={"concurrency": None})
    assert (changed.json()["concurrency"], changed.json()["rate"]) == (None, "100/min")
    assert (await post(api, "/workers/limits", adapter="charge", rate="5/day")).status_code == 422
    assert (await post(api, "/workers/limits", adapter="charge", reset="yes")).status_code == 303
    assert (await api.client.get("/api/v1/adapters")).json() == []

"""The pages of bulk runs: what they say in each state, and what can be done there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mahavishnu.bulk.run import BulkRun, RunState
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.testing import ManualClock
from tests.console.test_forms import HTML, field, post
from tests.support.api import ApiHarness, bearer, harness_for

EVIL = "<script>alert(1)</script>"


async def price(task: dict[str, Any], repos: list[str]) -> None:
    if task["currency"] != "EUR":
        raise ValueError(f"unknown currency {task['currency']}")


@pytest.fixture
async def shop() -> AsyncIterator[ApiHarness]:
    """A queue whose letters can be run."""
    clock = ManualClock()
    async for made in harness_for(DeadLetterQueue(clock=clock, options=QueueOptions(callback=price)), clock):
        yield made


async def start(api: ApiHarness, letters: int = 3, **options: Any) -> BulkRun:
    """A run over letters that fail unless their currency is EUR, carried on until it has to wait for somebody."""
    for number in range(letters):
        await api.keep(f"order-{number}", task={"currency": "EURO"}, retry_policy="never", due_at=None)
    run = await api.dlq.runs.start("redrive", by="ann", everything=True, **{"ramp": [1], **options})
    await carry_on(api)
    return run


async def carry_on(api: ApiHarness) -> None:
    for _ in range(6):
        await api.dlq.runs.advance()
        await api.dlq.run_due()
        api.clock.advance(60)


async def page(api: ApiHarness, path: str, role: str | None = None) -> str:
    shown = await api.client.get(path, headers={**HTML, **(bearer(role) if role else {})})
    assert shown.status_code == 200, shown.text
    return shown.text


async def test_no_run_says_how_one_begins(api: ApiHarness) -> None:
    assert "Nobody has begun a run yet" in await page(api, "/runs")
    assert "No run is halted" in await page(api, "/runs?state=halted")
    assert (await api.client.get("/runs/none", headers=HTML)).status_code == 404


async def test_a_run_that_halted_is_fixed_by_another_one(shop: ApiHarness) -> None:
    run = await start(shop, stop_percent=20)
    listed = await page(shop, "/runs")
    assert "1 bulk run waits for somebody" in listed and f"runs/{run.run_id}" in listed
    shown = await page(shop, f"/runs/{run.run_id}")
    assert "1 of 1 letters failed again" in shown and "2 letters are as they were" in shown
    assert "The same failure as at first" not in shown and "unknown currency EURO" in shown
    form = {"path": "currency", "value": '"EUR"', "ramp": "1", "stop_percent": "20", "scope": "both"}
    seen = await post(shop, f"/runs/{run.run_id}/fix", act="preview", **form)
    assert "<b>3</b> of 3 letters can be moved" in seen.text and "EUR&#34;</ins>" in seen.text
    assert (await shop.dlq.runs.get(run.run_id)).state is RunState.HALTED
    key = field(shown, "idempotency_key")
    begun = await post(shop, f"/runs/{run.run_id}/fix", act="start", reason="OPS-2", idempotency_key=key, **form)
    assert begun.status_code == 303
    before, after = (await shop.dlq.runs.get(run.run_id)), begun.headers["location"].rpartition("/")[2]
    assert before.state is RunState.CANCELLED
    await carry_on(shop)
    proof = await page(shop, f"/runs/{after}")
    assert "All 3 letters that it moved have an outcome: 3 succeeded, 0 failed again" in proof
    assert "Another fix is tried" in proof and "Edit and redrive" in proof


async def test_a_fix_is_for_the_letters_that_it_names(shop: ApiHarness) -> None:
    run = await start(shop, stop_percent=20)
    for scope, number in (("failed", 1), ("rest", 2)):
        seen = await post(shop, f"/runs/{run.run_id}/fix", act="preview", scope=scope, ramp="1", stop_percent="20")
        assert f"<b>{number}</b> of" in seen.text


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"scope": "all"}, "another fix is for one of failed, rest, both"),
        ({"scope": "failed", "path": "currency", "value": "EUR"}, "a text has quotes"),
        ({"scope": "failed", "path": "curency", "value": '"EUR"'}, "curency"),
        ({"scope": "failed", "ramp": "one"}, "waves are whole numbers"),
    ],
)
async def test_a_fix_that_cannot_be_leaves_the_run_as_it_is(shop: ApiHarness, form: dict[str, str], why: str) -> None:
    run = await start(shop, stop_percent=20)
    refused = await post(shop, f"/runs/{run.run_id}/fix", act="start", **form)
    assert refused.status_code == 422 and why in refused.text.lower()
    assert (await shop.dlq.runs.get(run.run_id)).state is RunState.HALTED
    assert len((await shop.dlq.runs.list()).items) == 1


async def test_it_is_paused_resumed_and_cancelled(api: ApiHarness) -> None:
    for number in range(3):
        await api.keep(f"order-{number}", retry_policy="never", due_at=None)
    run = await api.dlq.runs.start("redrive", by="ann", everything=True, ramp=[1])
    for act, state, said in [
        ("pause", "paused", "It is paused"),
        ("resume", "planning", "It goes on"),
        ("cancel", "cancelled", "It was cancelled"),
    ]:
        done = await post(api, f"/runs/{run.run_id}/{act}", reason=f"why {act}")
        assert (done.status_code, (await api.dlq.runs.get(run.run_id)).state) == (303, state)
        assert said in await page(api, f"/runs/{run.run_id}")
    entries = (await api.dlq.audit.list(subject=f"run:{run.run_id}")).items
    assert [entry.reason for entry in entries][:3] == ["why cancel", "why resume", "why pause"]
    assert (await post(api, f"/runs/{run.run_id}/resume")).status_code == 409
    assert (await post(api, f"/runs/{run.run_id}/explode")).status_code == 422


async def test_resuming_a_halted_run_needs_a_rule_that_lets_it(shop: ApiHarness) -> None:
    run = await start(shop, stop_percent=20)
    refused = await post(shop, f"/runs/{run.run_id}/resume", stop_percent="20")
    assert refused.status_code == 409 and "resume it with stop_percent 100" in refused.text
    assert (await post(shop, f"/runs/{run.run_id}/resume", stop_percent="many")).status_code == 422
    assert (await post(shop, f"/runs/{run.run_id}/resume", stop_percent="100")).status_code == 303
    await carry_on(shop)
    shown = await page(shop, f"/runs/{run.run_id}")
    assert "0 succeeded, 3 failed again" in shown and "The same failure as at first" not in shown


async def test_viewers_see_the_acts_and_cannot_do_them(guarded_api: ApiHarness) -> None:
    await guarded_api.keep("order-1", retry_policy="never", due_at=None)
    run = await guarded_api.dlq.runs.start("redrive", by="ann", everything=True)
    shown = await page(guarded_api, f"/runs/{run.run_id}", "viewer")
    buttons = re.findall(r"<button class=\"btn[^>]*>(?:Pause|Cancel run)<", shown)
    assert len(buttons) == 2 and all('disabled title="operators may"' in each for each in buttons)
    for act in ("pause", "fix"):
        assert (await post(guarded_api, f"/runs/{run.run_id}/{act}", "viewer")).status_code == 403
    assert (await guarded_api.dlq.runs.get(run.run_id)).state is RunState.PLANNING
    assert (await post(guarded_api, f"/runs/{run.run_id}/pause", "operator")).status_code == 303


async def test_what_cannot_be_read_is_said_and_the_rest_is_shown(
    shop: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await start(shop, stop_percent=20)

    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(shop.dlq.runs, "items", away)
    monkeypatch.setattr(shop.dlq.audit, "list", away)
    shown = await page(shop, f"/runs/{run.run_id}")
    assert "Its waves cannot be read now" in shown and "They cannot be read now" in shown and "What next" in shown


async def test_what_strangers_wrote_is_text(shop: ApiHarness) -> None:
    await shop.keep(f"order {EVIL}", task={"currency": EVIL}, retry_policy="never", due_at=None)
    run = await shop.dlq.runs.start(
        "redrive", by=EVIL, reason=EVIL, everything=True, patch={EVIL: EVIL}, create=True, stop_percent=0
    )
    await carry_on(shop)
    for path in ("/runs", f"/runs/{run.run_id}"):
        shown = await page(shop, path)
        assert "&lt;script&gt;" in shown and "<script>alert" not in shown

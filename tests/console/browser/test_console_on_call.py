"""The night of somebody on call: from the alert to the cause, a fix that is wrong, one that is right, and the proof."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import pytest
import yaml
from playwright.async_api import Locator, Page, expect

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.processes import open_listener, run_server, url_of
from mahavishnu.model.clock import SystemClock
from mahavishnu_demo import QuickClock
from tests.console.browser.conftest import Open
from tests.console.browser.shop import order_of, price
from tests.proofs.test_monitoring import free_port, receiver, running
from tests.support.opensearch.tools import tool

LETTERS = 12
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "device_scale_factor": 2}
RULES = Path(__file__).parents[3] / "config" / "alerts" / "dlq.yml"


async def take(task: dict[str, Any], repos: list[str]) -> str:
    """The workflow that fails: its orders name a currency that there is not."""
    return f"took {price(task)}"


@contextlib.asynccontextmanager
async def broken_shop() -> AsyncIterator[str]:
    """What `mahavishnu serve --app` does, on a clock that makes a minute of waiting a second; its URL."""
    settings = MahavishnuSettings(dlq_store_url="memory:", dlq_retry_interval_seconds=10)
    async with MahavishnuApp(settings, clock=QuickClock(60)) as app:
        app.register_adapter("orders", take)
        for number in range(LETTERS):
            await app.execute_workflow(order_of(number) | {"id": f"order-{number}"}, "orders", ["shop"])
        await app.start_dlq_processor()
        with contextlib.closing(open_listener(settings, "127.0.0.1", 0)) as listening:
            async with run_server(app.dlq, listening, settings):
                yield url_of(listening)
        await app.stop_dlq_processor()


def alert_that_wakes(folder: Path) -> dict[str, Any]:
    """What a real Alertmanager sends for a rule that is shipped."""
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    (rule,) = [rule for rule in rules if rule["alert"] == "LettersNeedAPerson"]
    port = free_port()
    with receiver() as (hook, heard):
        route = {"receiver": "hook", "group_by": ["alertname"], "group_wait": "0s", "group_interval": "1s"}
        hooks = [{"name": "hook", "webhook_configs": [{"url": f"http://127.0.0.1:{hook}/"}]}]
        (folder / "manager.yml").write_text(yaml.safe_dump({"route": route, "receivers": hooks}))
        with running(
            tool("prometheus-alertmanager"),
            f"--config.file={folder}/manager.yml",
            f"--storage.path={folder}/manager",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
            log=folder / "manager.log",
        ):
            labels = {"alertname": rule["alert"], **rule["labels"]}
            ends = (SystemClock().now() + timedelta(minutes=5)).isoformat()
            fired = json.dumps([{"labels": labels, "annotations": rule["annotations"], "endsAt": ends}])
            retries = httpx.HTTPTransport(retries=8)  # it takes a moment to start
            with httpx.Client(transport=retries, base_url=f"http://127.0.0.1:{port}") as manager:
                sent = manager.post("/api/v2/alerts", content=fired, headers={"Content-Type": "application/json"})
                assert sent.status_code == 200
            alert: dict[str, Any] = heard.get(timeout=60)
    return alert


async def press_on(page: Page, *keys: str) -> None:
    """Press keys, one after the other."""
    for key in keys:
        await page.keyboard.press(key)


async def tab_to(page: Page, place: Locator, key: str = "Tab") -> None:
    """Press Tab until the focus is there: what nobody reaches so is not for those without a pointer."""
    for _ in range(60):
        if await place.evaluate("place => place === document.activeElement"):
            return
        await press_on(page, key)
    raise AssertionError(f"{place} is not reached with {key}")


async def find_by_keys(page: Page) -> None:
    """From the list of groups to the form of the fix, without a pointer."""
    await press_on(page, "j", "Enter")
    await expect(page.get_by_role("heading", name="Where it breaks")).to_be_visible()
    await press_on(page, "o")
    await expect(page.locator("#who")).to_contain_text("api_user")
    await press_on(page, "e")


async def find_by_touch(page: Page) -> None:
    """The same with a finger."""
    await page.get_by_role("link", name="unknown currency").first.tap()
    await expect(page.get_by_role("heading", name="Where it breaks")).to_be_visible()
    await page.locator("#who").get_by_role("button", name="Take it").tap()
    await page.get_by_role("link", name="Edit and redrive").tap()


async def begin(page: Page, value: str, *, by_keys: bool) -> None:
    """Fill in a fix, and begin with its first wave."""
    path, button = page.locator("#fix").get_by_label("Path").first, page.locator("#fix").get_by_role("button")
    if not by_keys:
        await path.tap()
    await expect(path).to_be_focused()
    await page.keyboard.type("currency")
    await press_on(page, "Tab")
    await page.keyboard.type(value)
    start = button.filter(has_text="Start with the first wave")
    if by_keys:
        await tab_to(page, start)
        await press_on(page, "Enter")
    else:
        await start.tap()


async def choose_both(page: Page, *, by_keys: bool) -> None:
    """Have the next fix be for those that failed again, and for the others."""
    if by_keys:
        await press_on(page, "e")
        await tab_to(page, page.locator("#fix input[type=radio]:checked"), "Shift+Tab")
        await press_on(page, "ArrowUp")  # from the first to the last
        await expect(page.get_by_label("both")).to_be_checked()
        await tab_to(page, page.locator("#fix").get_by_label("Path").first)
    else:
        await page.get_by_label("both").tap()


async def see_the_group_resolved(page: Page, *, by_keys: bool) -> None:
    """From the run to its group, which says how it ended, and to the list of such groups."""
    leave = page.locator("#state").get_by_role("link", name="group")
    if by_keys:
        await tab_to(page, leave)
        await press_on(page, "Enter")
    else:
        await leave.tap()
    told = page.locator("#resolved")
    await expect(told).to_contain_text("It is resolved: no letter of it is open any more.")
    await expect(told).to_contain_text(f"Of {LETTERS} letters ever, {LETTERS} ran again and succeeded.")
    others = told.get_by_role("link", name="all resolved groups")
    if by_keys:
        await tab_to(page, others)
        await press_on(page, "Enter")
    else:
        await others.tap()
    await expect(page.locator("#list")).to_contain_text("unknown currency")
    if by_keys:
        await press_on(page, "g", "g")
    else:
        await page.get_by_role("link", name="Not done with").tap()
    await expect(page.locator("#list")).to_contain_text("Nothing that failed is left open")


@pytest.mark.prove
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("device", ["keys", "phone"])
async def test_from_the_alert_to_the_proof(
    open_page: Open, tmp_path: Path, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_keys = device == "keys"
    alert = alert_that_wakes(tmp_path)
    assert (alert["status"], alert["labels"]["alertname"]) == ("firing", "LettersNeedAPerson")
    async with broken_shop() as url:
        began = perf_counter()
        options: dict[str, Any] = {} if by_keys else PHONE
        async with open_page(url + alert["annotations"]["console_path"], **options) as look:
            page = look.page
            await (find_by_keys if by_keys else find_by_touch)(page)
            await expect(page.locator("#cause")).to_contain_text("unknown currency 'EURO'")
            await begin(page, '"EURR"', by_keys=by_keys)
            await expect(page.locator("#news")).to_contain_text("1 of 1 letters failed again")
            await expect(page.locator("#news")).to_contain_text(f"{LETTERS - 1} letters are as they were")
            await expect(page.locator("#why")).to_contain_text("unknown currency 'EURR'")
            halted = page.url
            await choose_both(page, by_keys=by_keys)
            await begin(page, '"EUR"', by_keys=by_keys)
            await expect(page).not_to_have_url(halted)
            await expect(page.locator("#news")).to_contain_text(f"{LETTERS} succeeded, 0 failed again")
            await see_the_group_resolved(page, by_keys=by_keys)
            if by_keys:
                await press_on(page, "g", "u")
            else:
                await page.get_by_role("link", name="More").tap()
                await page.get_by_role("link", name="Audit").tap()
            told = page.locator("#list")
            for act in ("run.start", "run.halt", "run.cancel", "group.update"):
                await expect(told).to_contain_text(act)
            await expect(told).to_contain_text("stop_rule")
        seconds = perf_counter() - began
    with capsys.disabled():
        sys.stdout.write(f"\nfrom the alert to the proof ({device}): {seconds:.1f} s\n")
    assert seconds < 120

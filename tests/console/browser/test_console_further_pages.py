"""The pages beside letters and groups in a real browser, each in light, dark and on a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect

from mahavishnu.alerts.rules import AlertRules
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.testing import ManualClock
from tests.console.browser.conftest import Open, Site, served
from tests.console.browser.shop import NIGHT
from tests.console.browser.test_console_pages import require_no_faults
from tests.console.browser.workshop import fill_workshop, make_workshop

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAGES = [
    "alerts",
    "runbooks",
    "runs",
    "runs/{halted}",
    "queues",
    "queues/mail-dead",
    "tasks",
    "tasks/{task}",
    "workers",
    "archive",
    "archive/tasks",
    "archive/months",
    "archive/letters/{archived}",
    "audit",
    "plugins",
    "settings?q=retention",
]
MORE_PAGES = ["namespaces", "groups?state=resolved", "archive/tasks/{old_task}", "ns/eu/", "ns/eu/alerts"]
Workshop = tuple[Site, dict[str, str]]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def workshop() -> AsyncIterator[Workshop]:
    """A console with all that these pages show, and the ids in their addresses."""
    clock = ManualClock(NIGHT)
    dlq = make_workshop(clock)
    dlq.context.set_rules(AlertRules(log=True))
    ids = await fill_workshop(dlq, clock)
    await dlq.alerts.run()
    async with served(dlq, clock, describe_settings=MahavishnuSettings().describe) as site:
        yield site, ids


@pytest.mark.parametrize("pages", [PAGES, pytest.param(MORE_PAGES, marks=pytest.mark.prove)], ids=["pages", "more"])
async def test_axe_finds_nothing_in_light_dark_and_on_a_phone(
    workshop: Workshop, open_page: Open, pages: list[str]
) -> None:
    site, ids = workshop
    async with open_page(site.url) as look:
        for path in pages:
            await look.page.goto(f"{site.url}/{path.format(**ids)}")
            assert await look.page.locator("main h1").count() == 1, path
            await require_no_faults(look, "light", 1440)
            await require_no_faults(look, "dark", 390)


async def test_a_halted_run_is_fixed_by_another_one_with_keys_and_without_scripts(open_page: Open) -> None:
    clock = ManualClock(NIGHT)
    dlq = make_workshop(clock)
    ids = await fill_workshop(dlq, clock)
    async with served(dlq, clock) as site:
        async with open_page(site.url) as look:
            page = look.page
            await page.keyboard.press("g")
            await page.keyboard.press("r")
            await expect(page.locator("h1")).to_have_text("1 bulk run waits for somebody")
            await page.keyboard.press("j")
            await page.keyboard.press("Enter")
            await expect(page.locator("#news")).to_contain_text("7 of 31 letters failed again")
        async with open_page(f"{site.url}/runs/{ids['halted']}", java_script_enabled=False) as look:
            page = look.page
            await page.get_by_label("both").check()
            await page.get_by_label("Path").first.fill("customer.country")
            await page.get_by_label("New value, as JSON").first.fill('"SE"')
            await page.get_by_role("button", name="Show what it would do").click()
            await expect(page.locator("#fix .diff ins").first).to_contain_text('"SE"')
            await page.get_by_role("button", name="Start with the first wave").click()
            await expect(page.get_by_text("Another fix is tried.")).to_be_visible()
            await page.get_by_role("link", name="The run before").click()
            await expect(page.locator("#news")).to_contain_text("It was cancelled")

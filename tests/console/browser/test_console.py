"""What people do in a real browser: log in, look, fix, with keys, without JavaScript, and with what strangers wrote."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from mahavishnu.core.api import Access
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.testing import ManualClock
from tests.console.browser.conftest import TOKENS, Open, Site, served
from tests.console.browser.shop import NIGHT, failure_of, order_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
RTL = "\u202egnp.exe\u202c"
EVIL = f"""<script>document.title='owned'</script><img src=x onerror="document.title='owned'">'"{{{{7*7}}}}{RTL}"""

QUEUE = '<img src=x onerror=alert(1)> &amp; "'


async def test_somebody_logs_in_acts_and_logs_out(guarded_shop: Site, open_page: Open) -> None:
    async with open_page(f"{guarded_shop.url}/letters/order-1050", expect_complaints=True) as look:
        page = look.page
        await expect(page).to_have_url(re.compile("/login"))
        await page.get_by_label("Token").fill("guess")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("Nobody was logged in")
        await page.get_by_label("Token").fill(TOKENS["ann"])
        await page.get_by_role("button", name="Log in").click()
        await expect(page).to_have_url(f"{guarded_shop.url}/letters/order-1050")
        await page.get_by_label("Path").first.fill("currency")
        await page.get_by_label("New value, as JSON").first.fill('"EUR"')
        await page.get_by_role("button", name="Show what differs").click()
        await expect(page.locator(".diff ins")).to_contain_text('"EUR"')
        await page.locator("#fix").get_by_label("Reason").fill("OPS-231")
        await page.get_by_role("button", name="Edit and redrive").click()
        await expect(page.get_by_text("Edited, and it gets fresh attempts")).to_be_visible()
        await expect(page.locator("#audit")).to_contain_text("done, by ann")
        await page.get_by_label("You: ann, operator").click()
        await page.get_by_role("button", name="Log out").click()
        await expect(page).to_have_url(re.compile("/login"))
        await page.goto(f"{guarded_shop.url}/letters")
        await expect(page).to_have_url(re.compile("/login"))
        scripts = [text for text in look.complaints if "403" not in text]
        assert scripts == []  # of the failed login the browser complains; of nothing else


async def test_a_viewer_sees_what_operators_may(guarded_shop: Site, open_page: Open) -> None:
    async with open_page(f"{guarded_shop.url}/login?next=/letters/order-1051") as look:
        await look.page.get_by_label("Token").fill(TOKENS["vic"])
        await look.page.keyboard.press("Enter")
        await expect(look.page.get_by_role("button", name="Resolve")).to_be_disabled()
        await expect(look.page.get_by_text("Delete for good")).to_have_count(0)


async def test_every_page_can_be_read_without_javascript(shop: Site, open_page: Open) -> None:
    async with open_page(shop.url, java_script_enabled=False) as look:
        page = look.page
        await page.get_by_role("link", name=re.compile("unknown currency")).click()
        await expect(page.get_by_role("heading", name="Where it breaks")).to_be_visible()
        await page.locator("#letters").get_by_role("link", name="All").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("48 letters match"))
        await page.get_by_label("Select order-1089").check()
        await page.get_by_role("button", name="Redrive").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Redrive would move 1 of 1 letter")


async def test_what_strangers_wrote_is_text(open_page: Open) -> None:
    clock = ManualClock(NIGHT)
    dlq = DeadLetterQueue(clock=clock)
    task_id = f"wf/{EVIL}"
    await dlq.enqueue(
        task_id, {EVIL: EVIL, "deep": [[{EVIL: [EVIL]}]]}, [EVIL], ValueError(EVIL), "never", 0, {EVIL: EVIL},
        adapter=EVIL, queue=QUEUE,
    )  # fmt: skip
    (group,) = (await dlq.groups.list()).items
    await dlq.groups.update(group.fingerprint, by=EVIL[:100], owner=EVIL[:100], note=EVIL, hold_release=EVIL[:100])
    await dlq.letters.edit(task_id, patch={"x": EVIL}, create=True, by=EVIL, notes=EVIL, queue=QUEUE)
    async with served(dlq, clock) as site, open_page(site.url) as look:
        page = look.page
        for path in ("", "groups", f"groups/{group.fingerprint}", "letters"):
            await page.goto(f"{site.url}/{path}")
            assert await page.title() != "owned" and await page.locator("main img, main script").count() == 0, path
        await page.get_by_role("combobox", name="Query").fill("adapter:")
        option = page.get_by_role("option").first
        await expect(option).to_contain_text("<script>")
        assert "\\u202egnp.exe" in await option.inner_text() and await page.locator("main img").count() == 0
        await page.keyboard.press("Escape")
        await page.locator("#rows tbody th a").click()
        await expect(page.locator("#fix")).to_be_visible()
        assert await page.locator("main img, main script").count() == 0
        assert await page.title() != "owned" and "49" not in await page.locator("h1").inner_text()
        whole = await page.content()
        assert "\\u202egnp.exe" in whole and not set(RTL) & {"\u202e", "\u202c"} & set(whole)


async def test_numbers_renew_themselves_and_nothing_moves_under_the_pointer(open_page: Open) -> None:
    clock = ManualClock(NIGHT)
    dlq = DeadLetterQueue(clock=clock)
    await dlq.enqueue("order-1", order_of(1), ["shop"], failure_of(1), "never", 0, adapter="orders")
    async with served(dlq, clock) as site, open_page(site.url) as look:
        page = look.page
        await expect(page.locator("h1")).to_have_text("1 group needs somebody")
        async with page.expect_response(re.compile("api/v1/events")):
            await page.reload()
        await page.locator("#needs tbody tr").hover()
        await dlq.enqueue("order-2", order_of(2), ["shop"], failure_of(2), "never", 0, adapter="orders")
        await expect(page.locator("#store dd").first).to_contain_text("2 of")
        assert "2" not in await page.locator("#needs td[data-l=open]").inner_text()
        await page.mouse.move(0, 0)
        await expect(page.locator("#needs td[data-l=open]")).to_contain_text("2")


@pytest.mark.prove
async def test_other_rows_are_offered_and_come_when_somebody_wants_them(open_page: Open) -> None:
    clock = ManualClock(NIGHT)
    dlq = DeadLetterQueue(clock=clock)
    for number in (1, 2):
        await dlq.enqueue(f"order-{number}", order_of(number), ["shop"], failure_of(number), "never", 0)
    async with served(dlq, clock) as site, open_page(f"{site.url}/letters") as look:
        page = look.page
        async with page.expect_response(re.compile("api/v1/events")):
            await page.reload()
        await page.get_by_label("Select order-1").check()
        clock.advance(60)
        await dlq.enqueue("order-3", order_of(3), ["shop"], failure_of(3), "never", 0)
        await expect(page.locator("h1")).to_have_text("3 letters")
        offer = page.get_by_role("button", name="1 new, show")
        await expect(offer).to_be_visible()
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.keyboard.press(".")
        await expect(page.locator("tbody tr")).to_have_count(3)
        await expect(page.get_by_role("link", name="order-3")).to_be_focused()
        await expect(page.get_by_label("Select order-1")).to_be_checked()
        await expect(offer).to_be_hidden()
        await expect(page.locator(".sel b")).to_have_text("all 3 letters")


async def test_a_query_is_completed_while_it_is_typed(shop: Site, open_page: Open) -> None:
    async with open_page(f"{shop.url}/letters?q=") as look:
        page = look.page
        field = page.get_by_role("combobox", name="Query")
        await field.press_sequentially("adap")
        options = page.get_by_role("option")
        await expect(options.first).to_contain_text("adapter:")
        await page.keyboard.press("ArrowDown")
        await expect(options.first).to_have_attribute("aria-selected", "true")
        assert await look.find_faults() == []
        await page.keyboard.press("Enter")
        await expect(field).to_have_value("adapter:")
        await expect(options.first).to_contain_text("orders")
        await expect(options.first).to_contain_text("54 letters")
        await field.press_sequentially("inv")
        await expect(options).to_have_count(1)
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Tab")
        await expect(field).to_have_value("adapter:invoice ")
        await expect(field).to_be_focused()
        await field.press_sequentially("is:")
        await expect(options.first).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(options.first).to_be_hidden()
        await expect(field).to_be_focused()
        await field.press_sequentially("open")
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("12 letters match")


async def test_enter_in_a_field_shows_what_would_happen_and_begins_nothing(shop: Site, open_page: Open) -> None:
    (group,) = [each for each in (await shop.dlq.groups.list()).items if "currency" in each.title]
    async with open_page(f"{shop.url}/groups/{group.fingerprint}") as look:
        page = look.page
        await page.keyboard.press("e")
        await page.keyboard.type("currency")
        await page.keyboard.press("Tab")
        await page.keyboard.type('"EUR"')
        await page.keyboard.press("Enter")
        await expect(page.locator("#fix")).to_contain_text("48 of 48 letters can be moved")
        await page.goto(f"{shop.url}/letters/order-1060")
        await page.locator(".sel").get_by_label("Reason").focus()
        await page.keyboard.type("why")
        await page.keyboard.press("Enter")
        await expect(page.locator("#state")).to_contain_text("It waits for a person")
    assert (await shop.dlq.runs.list()).items == []


@pytest.mark.prove
async def test_a_login_that_ends_takes_away_nothing_that_is_being_written(open_page: Open) -> None:
    clock = ManualClock(NIGHT)
    dlq = DeadLetterQueue(clock=clock)
    await dlq.enqueue("order-1", order_of(1), ["shop"], failure_of(1), "never", 0)
    access = Access.of({}, {"ann": TOKENS["ann"]}, {})
    async with (
        served(dlq, clock, access=access) as site,
        open_page(f"{site.url}/login?next=/letters/order-1", expect_complaints=True) as look,
    ):
        page = look.page
        await page.get_by_label("Token").fill(TOKENS["ann"])
        async with page.expect_response(re.compile("api/v1/events")):
            await page.keyboard.press("Enter")
        await page.locator("#fix").get_by_label("Reason").fill("a long story")
        await page.context.clear_cookies()
        await dlq.letters.edit("order-1", priority=4, by="bo")
        await expect(page.locator("#lost")).to_contain_text("Your login has ended.")
        await expect(page.locator("#fix").get_by_label("Reason")).to_have_value("a long story")
        await page.locator("#fix").get_by_role("button", name="Only edit").click()
        await expect(page.get_by_role("alert")).to_contain_text("what you sent was not done")
        await page.get_by_label("Token").fill(TOKENS["ann"])
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{site.url}/letters/order-1")


async def test_keys_lead_everywhere_and_can_be_switched_off(shop: Site, open_page: Open) -> None:
    async with open_page(shop.url) as look:
        page = look.page
        await page.keyboard.press("g")
        await page.keyboard.press("l")
        await expect(page).to_have_url(re.compile("/letters$"))
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("x")
        await expect(page.locator("tbody input:checked")).to_have_count(1)
        await page.keyboard.press("a")
        await expect(page.locator("tbody input:checked")).to_have_count(50)
        await page.get_by_role("link", name="order-1089").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_contain_text("order-1089")
        await page.keyboard.press("/")
        await page.keyboard.type("adapter:invoice")
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("12 letters match")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        await page.get_by_role("button", name="Switch keys off").click()
        await page.keyboard.press("Escape")
        await page.keyboard.press("g")
        await page.keyboard.press("o")
        await expect(page).to_have_url(re.compile("adapter"))


async def test_nothing_is_told_that_is_not_known(empty_site: Site, open_page: Open) -> None:
    async with open_page(empty_site.url) as look:
        await expect(look.page.locator("h1")).to_have_text("No letters: nothing has failed, or nothing is caught")
        await look.page.goto(f"{empty_site.url}/letters")
        await expect(look.page.get_by_text("No failure is left open")).to_be_visible()

"""Every page in a real browser: no complaint of axe or of the browser, light and dark, from a desk to a small phone."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAGES = [
    "",
    "groups",
    "groups/{group}",
    "letters",
    "letters/order-1042",
    "letters?q=statsu:x",
    "selection?q=is:open&verb=redrive",
    "no-such-page",
]
REFUSED = ("letters?q=statsu:x", "no-such-page")  # the browser complains of their status
WIDTHS = [1440, 1024, 390, 320]
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("path", PAGES)
async def test_axe_finds_nothing_at_any_width_light_or_dark(shop: Site, open_page: Open, path: str) -> None:
    (group,) = [each for each in (await shop.dlq.groups.list()).items if "currency" in each.title]
    url = f"{shop.url}/{path.format(group=group.fingerprint)}"
    async with open_page(url, expect_complaints=path in REFUSED) as look:
        for scheme in ("light", "dark"):
            await look.page.emulate_media(color_scheme=scheme)
            for width in WIDTHS:
                await look.page.set_viewport_size({"width": width, "height": 900})
                assert await look.find_faults() == [], (scheme, width)
                assert await look.page.evaluate(WIDER) == 0, (scheme, width)

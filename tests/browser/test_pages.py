"""Every page in a real browser: no complaint of axe or of the browser, light and dark, from a desk to a small phone."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAGES = ["", "groups", "no-such-page"]
WIDTHS = [1440, 1024, 390, 320]
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("path", PAGES)
async def test_axe_finds_nothing_at_any_width_light_or_dark(shop: Site, open_page: Open, path: str) -> None:
    missing = path == "no-such-page"
    async with open_page(f"{shop.url}/{path}", expect_complaints=missing) as look:
        for scheme in ("light", "dark"):
            await look.page.emulate_media(color_scheme=scheme)
            for width in WIDTHS:
                await look.page.set_viewport_size({"width": width, "height": 900})
                assert await look.find_faults() == [], (scheme, width)
                assert await look.page.evaluate(WIDER) == 0, (scheme, width)

"""Every page in a real browser: no complaint of axe or of the browser, light and dark, from a desk to a small phone."""

from __future__ import annotations

import pytest

from tests.console.browser.conftest import Look, Open, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAGES = [
    "",
    "groups",
    "groups/{group}",
    "letters?limit=5",
    "letters/order-1042",
    "letters?q=statsu:x",
    "selection?q=is:open&verb=redrive",
    "alerts",
    "no-such-page",
]
REFUSED = ("letters?q=statsu:x", "no-such-page")  # the browser complains of their status
WIDTHS = (1440, 1024, 390, 320)
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def url_of(site: Site, path: str) -> str:
    """The address of a page of the shop."""
    (group,) = [each for each in (await site.dlq.groups.list()).items if "currency" in each.title]
    return f"{site.url}/{path.format(group=group.fingerprint)}"


async def require_no_faults(look: Look, scheme: str, width: int) -> None:
    """What axe finds, and a page that is wider than the window."""
    await look.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # light or dark
    await look.page.set_viewport_size({"width": width, "height": 900})
    assert await look.find_faults() == [], (scheme, width)
    assert await look.page.evaluate(WIDER) == 0, (scheme, width)


@pytest.mark.parametrize("path", PAGES)
async def test_axe_finds_nothing_on_a_light_desk_and_a_dark_phone(shop: Site, open_page: Open, path: str) -> None:
    async with open_page(await url_of(shop, path), expect_complaints=path in REFUSED) as look:
        await require_no_faults(look, "light", 1440)
        await require_no_faults(look, "dark", 390)


@pytest.mark.prove
@pytest.mark.parametrize("path", PAGES)
async def test_axe_finds_nothing_at_any_width_light_or_dark(shop: Site, open_page: Open, path: str) -> None:
    async with open_page(await url_of(shop, path), expect_complaints=path in REFUSED) as look:
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                await require_no_faults(look, scheme, width)

"""The pictures of the documentation: pages as a browser shows them, light and dark and on a phone.

`make pictures` writes them to docs/img.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.testing import ManualClock
from tests.console.browser.conftest import Open, Site, served
from tests.console.browser.shop import NIGHT, fill, look_after_invoices, order_of
from tests.console.browser.test_console_pages import WIDER

DOCS = Path(__file__).parents[3] / "docs"
MOST_BYTES = 150_000
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": DESK},
    "dark": {"color_scheme": "dark", "viewport": DESK},
    "phone": {"color_scheme": "light", "viewport": PHONE, "device_scale_factor": 1.5, "has_touch": True},
}
NAMES = ("overview", "group", "letter", "run")


# Code of a shop in files of its own, so that no picture shows a path of the machine that took it.
SOURCES = {
    "shop/pricing.py": """
MINOR_UNITS = {"EUR": 100, "SEK": 100}

def to_minor_units(amount, currency):
    if currency not in MINOR_UNITS:
        raise ValueError(f"unknown currency {currency!r}")
    return amount * MINOR_UNITS[currency]

def price(order):
    amount = sum(line["amount"] for line in order["lines"])
    return to_minor_units(amount, order["currency"])
""",
    "shop/billing.py": """
VAT = {"SE": 0.25}

async def bill(task, repos):
    if "invoice" in task:
        raise TimeoutError("POST https://tax.example/v1/quote timed out after 10 s")
    return price(task) * (1 + VAT[task["customer"]["country"]])
""",
}


def load_shop() -> dict[str, Any]:
    """The functions of the shop; tracebacks find their lines."""
    names: dict[str, Any] = {}
    for file, source in SOURCES.items():
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), names)
    return names


def failure_in_shop(number: int) -> BaseException:
    """What pricing an order raises, without the frame of the test."""
    try:
        load_shop()["price"](order_of(number))
    except ValueError as error:
        assert error.__traceback__ is not None
        return error.with_traceback(error.__traceback__.tb_next)
    raise AssertionError("it should have failed")


async def carry_on(dlq: DeadLetterQueue, clock: ManualClock, times: int) -> None:
    """Have a worker do what is due, again and again."""
    for _ in range(times):
        await dlq.runs.advance()
        await dlq.run_due()
        clock.advance(4)


@contextlib.asynccontextmanager
async def bad_night(*, redriven: bool) -> AsyncIterator[Site]:
    """The shop as the alert finds it, or after a fix that was not the whole one."""
    clock = ManualClock(NIGHT)
    options = QueueOptions(callback=load_shop()["bill"], owner="worker-eu-1", namespace="shop")
    dlq = DeadLetterQueue(clock=clock, options=options)
    await fill(dlq, clock, failure_in_shop)
    await carry_on(dlq, clock, 1)
    await look_after_invoices(dlq)  # they have failed again, at another place
    if redriven:
        (group,) = [each for each in (await dlq.groups.list()).items if "currency" in each.title]
        run = await dlq.runs.start(
            "redrive", by="ann", patch={"currency": "EUR"}, ramp=[1, 5], stop_percent=20,
            fingerprint=group.fingerprint, reason="iOS 9.2 sends EURO, OPS-231",
        )  # fmt: skip
        await carry_on(dlq, clock, 6)
        assert (await dlq.runs.get(run.run_id)).state == "halted"
    async with served(dlq, clock) as site:
        yield site


async def picture_paths(dlq: DeadLetterQueue) -> dict[str, str]:
    """The paths of the pages by the names of their pictures."""
    if runs := (await dlq.runs.list()).items:
        return {"run": f"runs/{runs[0].run_id}"}
    (group,) = [each for each in (await dlq.groups.list()).items if "currency" in each.title]
    return {"overview": "", "group": f"groups/{group.fingerprint}", "letter": "letters/order-1089"}


@pytest.mark.prove
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("redriven", [False, True], ids=["before", "redriven"])
async def test_pictures_of_pages_are_small(open_page: Open, tmp_path: Path, redriven: bool) -> None:
    folder = Path(os.environ.get("MAHAVISHNU_PICTURES") or tmp_path)
    async with bad_night(redriven=redriven) as site:
        for name, path in (await picture_paths(site.dlq)).items():
            for look, options in LOOKS.items():
                async with open_page(f"{site.url}/{path}", **options) as opened:
                    assert await opened.page.evaluate(WIDER) == 0, (name, look)
                    picture = folder / f"{name}-{look}.png"
                    await opened.page.screenshot(path=picture, animations="disabled", caret="initial")
                    assert picture.stat().st_size < MOST_BYTES, (name, look)


def test_the_pages_show_pictures_that_there_are() -> None:
    shown = set[str]()
    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        shown |= set(re.findall(r"img/([a-z-]+\.png)", page.read_text(encoding="utf-8")))
    kept = {path.name: path.stat().st_size for path in (DOCS / "img").iterdir()}
    assert shown == set(kept) == {f"{name}-{look}.png" for name in NAMES for look in LOOKS}
    assert max(kept.values()) < MOST_BYTES

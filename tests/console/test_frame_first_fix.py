"""A first fix: the overview leads through it where there is one, and says how far somebody is."""

from __future__ import annotations

import httpx

from mahavishnu.console.frame import FirstFix
from mahavishnu.core.api import create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.testing import ManualClock

FIX = FirstFix(cause="unknown currency", path="currency", value='"EUR"')


async def price(task: dict[str, str], repos: list[str]) -> None:
    if task["currency"] != "EUR":
        raise ValueError(f"unknown currency {task['currency']!r}")


async def shown(dlq: DeadLetterQueue, fix: FirstFix | None = FIX) -> str:
    """The overview, as a browser gets it."""
    transport = httpx.ASGITransport(app=create_app(dlq, first_fix=fix))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser:
        return (await browser.get("/", headers={"Accept": "text/html"})).text


async def test_the_guide_goes_from_the_group_by_a_halted_run_to_the_end() -> None:
    clock = ManualClock()
    dlq = DeadLetterQueue(clock=clock, options=QueueOptions(callback=price))
    for number in range(3):
        error = ValueError("unknown currency 'EURO'")
        await dlq.enqueue(f"order-{number}", {"currency": "EURO"}, ["shop"], error, "never", 0, adapter="orders")
    page = await shown(dlq)
    assert "Your first fix" in page and "3 letters" in page and "Start with the first wave" in page
    assert "Your first fix" not in await shown(dlq, None)

    async def redrive(currency: str) -> None:
        run = await dlq.runs.start(
            "redrive", by="ann", patch={"currency": currency}, ramp=[1], stop_percent=20, adapter="orders"
        )
        assert f"runs/{run.run_id}" in await shown(dlq)
        for _ in range(6):
            await dlq.runs.advance()
            await dlq.run_due()
            clock.advance(5)

    await redrive("EUROS")
    assert "The run has halted" in await shown(dlq)
    await redrive("EUR")
    assert "Your first fix is done" in await shown(dlq)
    await dlq.shutdown()

"""A real Chromium, and real servers of the console that it looks at."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import pytest_asyncio
import uvicorn
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.testing import ManualClock
from tests.console.browser.shop import NIGHT, fill
from tests.support.opensearch.tools import tool

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text() + "\n;0"
AXE_RUN = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
    each => each.id + ": " + each.nodes.map(node => node.target.join(" ")).slice(0, 3).join(", "))"""
expect.set_options(timeout=20_000)  # milliseconds; a machine that does much else is slow, and not wrong
TOKENS = {"vic": "look-1", "ann": "act-22", "ada": "delete-333"}


@dataclass
class Site:
    """A console that is being served, and its queue."""

    url: str
    dlq: DeadLetterQueue
    clock: ManualClock


@dataclass
class Look:
    """A page in the browser, and what its console complains of."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def note(self, message: ConsoleMessage) -> None:
        """Keep what the browser complains of."""
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    async def find_faults(self) -> list[str]:
        """What axe finds wrong with the page as it is."""
        await self.page.evaluate(AXE)
        found: list[str] = await self.page.evaluate(AXE_RUN)
        return found


Open = Callable[..., contextlib.AbstractAsyncContextManager[Look]]


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=tool("chromium"), args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def open_page(browser: Browser) -> Open:
    """Opens a page; what the browser complains of fails the test at the end."""

    @contextlib.asynccontextmanager
    async def open_it(url: str, *, expect_complaints: bool = False, **options: Any) -> AsyncIterator[Look]:
        context: BrowserContext = await browser.new_context(**options)
        try:
            look = Look(await context.new_page())
            look.page.on("console", look.note)
            look.page.on("pageerror", lambda error: look.complaints.append(str(error)))
            await look.page.goto(url)
            yield look
            assert expect_complaints or not look.complaints, look.complaints
        finally:
            await context.close()

    return open_it


class QuietServer(uvicorn.Server):
    """A server that leaves the signals of this process to the tests: it lives as long as they do."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@contextlib.asynccontextmanager
async def served(dlq: DeadLetterQueue, clock: ManualClock, **options: Any) -> AsyncIterator[Site]:
    """A server of this queue on a free port of this machine."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app(dlq, **options)
    server = QuietServer(uvicorn.Config(app, log_config=None, access_log=False, lifespan="on"))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield Site(f"http://127.0.0.1:{listening.getsockname()[1]}", dlq, clock)
    finally:
        await app.state.live.close()
        server.should_exit = True
        await task
        await dlq.shutdown()
        listening.close()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def shop() -> AsyncIterator[Site]:
    """The console of a shop in a bad night; nobody has to log in. Tests only look at it."""
    clock = ManualClock(NIGHT)
    dlq = DeadLetterQueue(clock=clock)
    await fill(dlq, clock)
    async with served(dlq, clock) as site:
        yield site


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def guarded_shop() -> AsyncIterator[Site]:
    """One where people log in."""
    clock = ManualClock(NIGHT)
    dlq = DeadLetterQueue(clock=clock)
    await fill(dlq, clock)
    access = Access.of({"vic": TOKENS["vic"]}, {"ann": TOKENS["ann"]}, {"ada": TOKENS["ada"]})
    async with served(dlq, clock, access=access) as site:
        yield site


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def empty_site() -> AsyncIterator[Site]:
    """The console of a queue in which nothing ever failed."""
    clock = ManualClock(NIGHT)
    async with served(DeadLetterQueue(clock=clock), clock) as site:
        yield site

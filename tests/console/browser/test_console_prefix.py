"""The console behind a real nginx that puts a path before it: pages, what they load, login, forms, live events."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.console.browser.conftest import TOKENS, Open, Site
from tests.proofs.test_monitoring import free_port, running
from tests.support.opensearch.tools import tool

CONFIG = """
daemon off; pid {folder}/nginx.pid; error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location /dlq/ {{
            proxy_pass {url}/;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            proxy_read_timeout 1h;
        }}
    }}
}}
"""


@pytest.mark.asyncio(loop_scope="session")
async def test_behind_a_path_of_nginx_everything_is_found(guarded_shop: Site, open_page: Open, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "nginx.conf").write_text(CONFIG.format(folder=tmp_path, port=port, url=guarded_shop.url))
    root = f"http://127.0.0.1:{port}/dlq/"
    with running(
        tool("nginx"), "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), log=tmp_path / "log"
    ):
        with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:  # it takes a moment to start
            assert (await asyncio.to_thread(client.get, f"{root}login")).status_code == 200
        async with open_page(f"{root}letters/order-1060") as look:
            page = look.page
            await expect(page).to_have_url(re.compile(f"^{root}login"))
            await page.get_by_label("Token").fill(TOKENS["ann"])
            await page.get_by_role("button", name="Log in").click()
            await expect(page).to_have_url(f"{root}letters/order-1060")
            async with page.expect_response(f"{root}api/v1/events?brief=true") as stream:
                await page.goto(root)
            assert (await stream.value).ok
            await expect(page.locator("#needs")).to_contain_text("unknown currency")
            await guarded_shop.dlq.enqueue("late-1", {}, [], RuntimeError("it is late"), "never", 0, adapter="late")
            await page.get_by_role("button", name="1 new, show").click()  # no event was held back
            await expect(page.locator("#needs")).to_contain_text("it is late")
            for name in ("Groups", "Letters", "Runs", "Queues", "Workers", "Archive", "Audit"):
                await page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
                await expect(page).to_have_url(re.compile(f"^{root}{name.lower()}"))
                await expect(page.locator("h1")).not_to_be_empty()
            await page.get_by_role("link", name="Namespace default").click()
            await page.get_by_role("main").get_by_role("link", name="default").click()
            await expect(page).to_have_url(root)
            async with page.expect_response(f"{root}ns/eu/api/v1/events?brief=true") as stream:
                await page.goto(f"{root}ns/eu/")
            assert (await stream.value).ok
            await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Letters").click()
            await expect(page).to_have_url(f"{root}ns/eu/letters")
            await page.goto(f"{root}letters/late-1")
            await page.get_by_role("button", name="Resolve").click()
            await expect(page.get_by_role("status").first).to_be_visible()
            await expect(page).to_have_url(f"{root}letters/late-1")
            letter = await guarded_shop.dlq.get_task("late-1")
            assert letter is not None and not letter.is_open
            assert {cookie["path"] for cookie in await page.context.cookies()} <= {"/", "/dlq/", "/dlq"}

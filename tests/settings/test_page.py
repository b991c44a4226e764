"""The page of settings."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from mahavishnu.core.api import Access, create_app
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.testing import ManualClock
from tests.support.api import TOKENS, URL, ApiHarness
from tests.support.pages import EVIL, read, require_inert

SECRET = "canary-7c1"


@pytest.fixture
async def server() -> AsyncIterator[ApiHarness]:
    """A server with settings of its own, which has a secret."""
    clock = ManualClock()
    dlq = DeadLetterQueue(clock=clock)
    settings = MahavishnuSettings(server={"viewers": {EVIL: SECRET}}, dlq_default_max_retries=7)
    access = Access.of({"vic": TOKENS["viewer"]}, {"olga": TOKENS["operator"]}, {"ada": TOKENS["admin"]})
    app = create_app(dlq, access=access, describe_settings=settings.describe)
    async with dlq, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
        yield ApiHarness(dlq, client, clock)


async def test_a_server_that_a_program_made_says_so(api: ApiHarness) -> None:
    assert "No settings are known here" in await read(api, "/settings")


async def test_admins_see_each_value_and_where_it_comes_from_and_no_secret(server: ApiHarness) -> None:
    shown = await read(server, "/settings", "admin")
    assert "dlq_default_max_retries" in shown and "argument" in shown and "MAHAVISHNU_DLQ_DEFAULT_MAX_RETRIES" in shown
    assert SECRET not in shown
    require_inert(shown)
    few = await read(server, "/settings?q=max_retries&changed=true", "admin")
    assert "dlq_default_max_retries" in few and "dlq_max_task_bytes" not in few and "server.port" not in few
    assert "No such setting" in await read(server, "/settings?q=nonsense", "admin")


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_others_are_told_who_may(server: ApiHarness, role: str) -> None:
    shown = await read(server, "/settings", role)
    assert "Admins see the settings" in shown and "dlq_default_max_retries" not in shown

"""A queue with a clock moved by hand, and a client of its API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.testing import ManualClock
from mahavishnu.testing.letters import make_letter

URL = "http://localhost"
TOKENS = {"viewer": "look-1", "operator": "act-22", "admin": "delete-333"}


@dataclass
class ApiHarness:
    """A queue, and a client of its API."""

    dlq: DeadLetterQueue
    client: httpx.AsyncClient
    clock: ManualClock

    async def keep(self, task_id: str, **changes: Any) -> None:
        """Put a letter into the store as it is."""
        (stored,) = await self.dlq.context.letters.write([make_letter(task_id=task_id, **changes)])
        assert stored

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.client.get(f"/api/v1{path}", **more)

    async def post(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        return await self.client.post(f"/api/v1{path}", json=json, **more)

    async def patch(self, path: str, json: Any, **more: Any) -> httpx.Response:
        return await self.client.patch(f"/api/v1{path}", json=json, **more)


async def harness_for(
    dlq: DeadLetterQueue, clock: ManualClock, access: Access | None = None
) -> AsyncIterator[ApiHarness]:
    """An API for the length of a test."""
    api = create_app(dlq, access=access, max_body_bytes=20_000)
    transport = httpx.ASGITransport(api)
    async with dlq, httpx.AsyncClient(transport=transport, base_url=URL) as client:
        yield ApiHarness(dlq, client, clock)


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    clock = ManualClock()
    async for made in harness_for(DeadLetterQueue(clock=clock), clock):
        yield made


@pytest.fixture
async def guarded_api() -> AsyncIterator[ApiHarness]:
    """One that knows a viewer, an operator and an admin by their tokens."""
    clock = ManualClock()
    access = Access.of({"vic": TOKENS["viewer"]}, {"olga": TOKENS["operator"]}, {"ada": TOKENS["admin"]})
    async for made in harness_for(DeadLetterQueue(clock=clock), clock, access):
        yield made


def bearer(role: str) -> dict[str, str]:
    """The header of somebody in this role."""
    return {"Authorization": f"Bearer {TOKENS[role]}"}

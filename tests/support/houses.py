"""Houses for queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.queues import House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """Queues in memory."""
    house = House("memory", tmp_path)
    yield house
    await house.close()


@pytest.fixture(params=["memory", "sqlite"])
async def any_house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    """Queues in memory, and the same test again on a SQLite file."""
    house = House(request.param, tmp_path)
    yield house
    await house.close()

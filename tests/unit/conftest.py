"""How Hypothesis works here, and houses for queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.unit.queues import House

# A busy machine is no bug, so no example has a deadline; the tests are pure, so nothing else can make them slow.
settings.register_profile("unit", deadline=None)
settings.load_profile("unit")


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

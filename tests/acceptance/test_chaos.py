"""Three minutes of chaos, see `tests.acceptance.chaos`."""

from __future__ import annotations

import pytest

from tests.acceptance import chaos

pytestmark = [pytest.mark.opensearch, pytest.mark.faults, pytest.mark.prove]
MINUTES = 3


async def test_nothing_is_lost_and_the_numbers_add_up_after_chaos() -> None:
    report = await chaos.run(MINUTES, seed=20)
    assert report.acknowledged > 500
    assert report.events["kill"], "something did happen"
    assert report.missing == []
    assert report.unsound == []
    assert report.balance == 0
    assert report.statuses["retrying"] == 0
    assert report.events["unclean ends"] == 0

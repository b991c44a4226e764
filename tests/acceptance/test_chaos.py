"""A few runs of chaos, see `tests.acceptance.chaos`: without deletions, with some, and with many."""

from __future__ import annotations

import pytest

from tests.acceptance import chaos

pytestmark = [pytest.mark.faults, pytest.mark.prove]
SECONDS = 45


@pytest.mark.parametrize("clears", [0, 1, 6])
@pytest.mark.parametrize("store", ["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
async def test_nothing_is_lost_and_the_numbers_add_up_after_chaos(store: str, clears: float) -> None:
    report = await chaos.run(chaos.Plan(store, seed=20, seconds=SECONDS, clears=clears))
    assert report.problems == {}, report
    assert report.found.acknowledged > 500
    assert report.events["kill"], "something did happen"
    assert bool(report.found.deleted) == bool(clears)

"""A few runs of chaos, see `tests.proofs.chaos`: with some deletions and with many."""

from __future__ import annotations

import pytest

from tests.proofs import chaos

pytestmark = [pytest.mark.faults, pytest.mark.prove]


@pytest.mark.parametrize(
    "plan",
    [
        chaos.Plan("sqlite", seed=20, seconds=25, clears=1),
        chaos.Plan("sqlite", seed=22, seconds=25, clears=6),
        pytest.param(chaos.Plan("opensearch", 20, 35, clears=3, calm=4), marks=pytest.mark.opensearch),
    ],
    ids=str,
)
async def test_nothing_is_lost_and_the_numbers_add_up_after_chaos(plan: chaos.Plan) -> None:
    report = await chaos.run(plan)
    assert report.problems == {}, report
    assert report.found.acknowledged > 300
    assert report.events["kill"], "something did happen"
    assert report.events["hung"] and report.found.archived and report.items.kept > 100 and report.items.moves, report
    assert report.found.deleted or not report.events["clears"], report

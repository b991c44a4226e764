"""When a lease counts as abandoned: by the clock, and by having been watched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mahavishnu.model.letter import evolve
from mahavishnu.model.lifecycle import merge, renew
from mahavishnu.stores import lease_watch
from mahavishnu.stores.lease_watch import (
    SURELY_OVER,
    LeaseWatch,
    lease_seconds,
    may_be_running,
    must_renew,
    sighting_of,
)
from mahavishnu.testing import ManualClock
from tests.support.letters import TOKEN, captured, claimed, failure, noon

RUNNING = claimed(captured(), noon(1), minutes=5)  # until noon(6)


def test_a_lease_is_as_long_as_from_its_claim_or_renewal_to_its_end() -> None:
    assert lease_seconds(RUNNING) == 300
    longer = renew(RUNNING, token=TOKEN, until=noon(14), now=noon(4))
    assert lease_seconds(longer) == 600
    assert lease_seconds(captured()) == 0


def test_what_others_write_on_the_letter_is_no_renewal() -> None:
    seen = sighting_of(RUNNING, None, 100.0)
    merged = merge(RUNNING, failure(), noon(3))
    assert sighting_of(merged, seen, 200.0) is seen
    renewed = sighting_of(renew(merged, token=TOKEN, until=noon(9), now=noon(4)), seen, 200.0)
    assert renewed is not None
    assert renewed.at == 200.0
    assert sighting_of(captured(), seen, 300.0) is None


@pytest.mark.parametrize(
    ("now", "watched", "runs"),
    [
        (noon(5), 9_999.0, True),  # by the clock it lasts, however long it was watched
        (noon(6), 0.0, True),
        (noon(6), 299.9, True),
        (noon(6), 300.0, False),
        (noon(6) + SURELY_OVER - timedelta(milliseconds=1), 0.0, True),
        (noon(6) + SURELY_OVER, 0.0, False),
    ],
)
def test_a_lease_is_abandoned_when_clock_and_watch_say_so(now: datetime, watched: float, runs: bool) -> None:
    seen = sighting_of(RUNNING, None, 50.0)
    assert may_be_running(RUNNING, seen, now, 50.0 + watched) is runs


def test_nobody_runs_what_nobody_holds() -> None:
    assert not may_be_running(captured(), None, noon(1), 0.0)


def test_a_lease_at_the_end_of_time_is_no_trouble() -> None:
    last = evolve(RUNNING, due_at=datetime.max.replace(tzinfo=UTC))
    assert may_be_running(last, sighting_of(last, None, 0.0), noon(6), 1e9)


def test_an_owner_renews_at_half_of_its_lease_whatever_the_wall_clock_says() -> None:
    assert not must_renew(RUNNING, 10.0, 159.9)
    assert must_renew(RUNNING, 10.0, 160.0)


def test_what_is_no_use_any_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_watch, "_FEWEST_FORGOTTEN", 2)
    clock = ManualClock()
    watch = LeaseWatch(clock)
    watch.look(claimed(captured(task_id=f"old-{number}"), noon(1)) for number in range(2))
    clock.advance(SURELY_OVER)
    watch.look(claimed(captured(task_id=f"new-{number}"), noon(1)) for number in range(3))
    assert sorted(watch._sightings) == ["new-0", "new-1", "new-2"]

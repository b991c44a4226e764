"""Instants as every store can keep them, and the machine's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.model.clock import Clock, SystemClock, instant, instant_text
from mahavishnu.model.errors import InvalidInput
from tests.support.letters import NAIVE
from tests.support.strategies import moments

ZONES: st.SearchStrategy[tzinfo] = st.sampled_from(
    [UTC, timezone(timedelta(hours=-11)), ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kathmandu")]
)
MOMENTS = moments(1971, 9000, ZONES)


@given(moment=MOMENTS)
def test_an_instant_is_utc_and_cut_to_milliseconds(moment: datetime) -> None:
    """Never rounded up: nothing is due before its time has come."""
    cut = instant(moment)

    assert cut.tzinfo is UTC
    assert cut.microsecond % 1000 == 0
    assert timedelta(0) <= moment - cut < timedelta(milliseconds=1)
    assert instant(cut) == cut


def test_an_hour_that_comes_twice_is_two_instants() -> None:
    """R089: due dates are kept in UTC, so a change to winter time neither repeats nor skips one."""
    berlin = ZoneInfo("Europe/Berlin")
    first = instant(datetime(2026, 10, 25, 2, 30, fold=0, tzinfo=berlin))
    second = instant(datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=berlin))

    assert second - first == timedelta(hours=1)


def test_a_naive_datetime_is_refused() -> None:
    """Guessing its zone would be a lie; the message says what to give."""
    with pytest.raises(InvalidInput, match=r"2026-01-01T00:00:00 has no time zone; give an aware datetime"):
        instant(NAIVE)


@given(one=MOMENTS.map(instant), other=MOMENTS.map(instant))
def test_the_order_of_texts_is_the_order_of_time(one: datetime, other: datetime) -> None:
    """One width, one spelling; and it can be read back."""
    assert (instant_text(one) < instant_text(other)) == (one < other)
    assert datetime.fromisoformat(instant_text(one)) == one
    assert len(instant_text(one)) == len("2026-01-01T00:00:00.000Z")


def test_the_text_of_an_instant_does_not_lie_about_its_zone() -> None:
    """Whatever is given, the text names the same instant."""
    moment = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))

    assert datetime.fromisoformat(instant_text(moment)) == moment


async def test_the_systems_clock_gives_what_stores_can_keep() -> None:
    """Aware, UTC, whole milliseconds; the other one never goes back; waiting waits on the loop."""
    clock: Clock = SystemClock()
    now, started = clock.now(), clock.monotonic()
    await clock.sleep(0)

    assert now == instant(now)
    assert now.tzinfo is UTC
    assert clock.monotonic() >= started

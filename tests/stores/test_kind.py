"""Tests of `mahavishnu.stores.kind`: what a kind refuses to search for, and how documents spell instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.model.clock import instant_text as spelling
from mahavishnu.model.errors import InvalidInput, InvalidQuery
from mahavishnu.model.query import AnyOf, At, Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.stores.kind import instant_text
from mahavishnu.stores.kinds import LETTERS

zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.parametrize(
    "query",
    [
        Query((Is("x", (1,)),)),
        Query((Not(AnyOf((Is("x", (1,)),))),)),
        Query((AnyOf((Is("status", ("pending",)), Not(Missing("x")))),)),
        Query((At("x", "place", 1),)),
        Query((Between("x", at_least=1),)),
        Query(sort=(Sort("x"),)),
    ],
)
def test_unknown_fields_are_refused_wherever_the_query_names_them(query: Query) -> None:
    with pytest.raises(InvalidQuery, match="letters cannot be searched by 'x'"):
        LETTERS.check(query)


def test_known_fields_are_let_through_at_any_depth() -> None:
    known: tuple[Condition, ...] = (Not(AnyOf((Is("status", ("pending",)), Missing("due_at")))), At("metadata", "a", 1))

    LETTERS.check(Query((*known, Between("due_at", at_least=datetime(2026, 1, 1, tzinfo=UTC))), (Sort("due_at"),)))


@given(st.datetimes(timezones=st.just(UTC) | zones).filter(lambda moment: 1 < moment.year < 9999))
def test_instants_have_the_same_text_in_documents_as_elsewhere(moment: datetime) -> None:
    assert instant_text(moment) == spelling(moment)


def test_an_instant_without_a_zone_has_no_text() -> None:
    with pytest.raises(InvalidInput, match="has no time zone"):
        instant_text(datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None))

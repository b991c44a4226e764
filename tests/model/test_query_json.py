"""Queries travel as JSON, and nothing else is taken for one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.model.errors import InvalidQuery
from mahavishnu.model.query import (
    MAX_CONDITION_DEPTH,
    AnyOf,
    At,
    Between,
    Condition,
    Is,
    Missing,
    Not,
    Query,
    Sort,
    letter_query,
    query_from_json,
    query_to_json,
)
from mahavishnu.stores.kinds import LETTERS
from tests.support.store_strategies import awkward_texts, queries


@given(queries(LETTERS, awkward_texts))
def test_every_query_comes_back(query: Query) -> None:
    assert query_from_json(json.loads(json.dumps(query_to_json(query)))) == query


def test_the_types_of_values_come_back_too() -> None:
    """For Python 1, 1.0 and true are equal; for a path in an object they are three values."""
    where = tuple(At("metadata", "a", value) for value in (1, 1.0, True, "1"))
    back = query_from_json(json.loads(json.dumps(query_to_json(Query(where)))))
    assert [type(each.value) for each in back.where if isinstance(each, At)] == [int, float, bool, str]


def test_instants_keep_their_zone_and_every_digit() -> None:
    moment = datetime(2026, 3, 1, 2, 3, 4, 567_891, timezone(timedelta(hours=5, minutes=30)))
    query = letter_query(failed=(datetime(2026, 1, 1, tzinfo=UTC), None))
    assert query_from_json(query_to_json(query)) == query
    assert query_from_json(query_to_json(Query((Between("failed_at", below=moment),)))).where == (
        Between("failed_at", below=moment),
    )


LEAF = {"missing": {"field": "a"}}
JUNK: list[Any] = [
    None,
    [],
    "status",
    7,
    {"wher": []},
    {"where": {}},
    {"where": "x"},
    {"where": [None]},
    {"where": [{}]},
    {"where": [{"is": {}, "missing": {}}]},
    {"where": [{"was": {}}]},
    {"where": [{"is": None}]},
    {"where": [{"is": {"field": "a"}}]},
    {"where": [{"is": {"field": 1, "values": []}}]},
    {"where": [{"is": {"field": "a", "values": "x"}}]},
    {"where": [{"is": {"field": "a", "values": [None]}}]},
    {"where": [{"is": {"field": "a", "values": [[1]]}}]},
    {"where": [{"is": {"field": "a", "values": [{"instant": "then"}]}}]},
    {"where": [{"is": {"field": "a", "values": [{"instant": 5}]}}]},
    {"where": [{"is": {"field": "a", "values": [{"instant": "2026-01-01T00:00:00"}]}}]},
    {"where": [{"is": {"field": "a", "values": [float("nan")]}}]},
    {"where": [{"is": {"field": "a", "values": [], "more": 1}}]},
    {"where": [{"missing": {}}]},
    {"where": [{"between": {"field": "a", "below": "x"}}]},
    {"where": [{"between": {"field": "a", "below": True}}]},
    {"where": [{"between": {"field": "a", "beyond": 1}}]},
    {"where": [{"at": {"field": "a", "path": "b"}}]},
    {"where": [{"at": {"field": "a", "path": "b", "value": {"instant": "2026-01-01T00:00:00Z"}}}]},
    {"where": [{"at": {"field": "a", "path": 1, "value": 1}}]},
    {"where": [{"not": [LEAF]}]},
    {"where": [{"any_of": LEAF}]},
    {"sort": "a"},
    {"sort": ["a"]},
    {"sort": [{"field": "a", "descending": 1}]},
    {"limit": "5"},
    {"limit": True},
    {"limit": 0},
    {"limit": 10_001},
]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_is_refused(junk: Any) -> None:
    with pytest.raises(InvalidQuery):
        query_from_json(junk)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(
    ["is", "missing", "between", "at", "not", "any_of", "field", "values", "below", "path", "value"]
)
nearly = st.recursive(
    json_values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)


@given(json_values | st.fixed_dictionaries({"where": st.lists(nearly, max_size=2)}))
def test_nothing_but_a_query_or_a_refusal_comes_of_any_json(value: Any) -> None:
    try:
        query = query_from_json(value)
    except InvalidQuery:
        return
    assert query_from_json(query_to_json(query)) == query


def test_what_json_cannot_hold_is_refused() -> None:
    for value in (float("nan"), float("inf"), datetime(2026, 1, 1)):  # noqa: DTZ001  # a naive one is the point
        with pytest.raises(InvalidQuery):
            query_to_json(Query((Is("a", (value,)),)))


def test_nesting_has_an_end() -> None:
    condition: Condition = Missing("a")
    document: dict[str, Any] = LEAF
    for depth in range(MAX_CONDITION_DEPTH + 1):
        condition = Not(condition) if depth % 2 else AnyOf((condition,))
        document = {"not": document}
    with pytest.raises(InvalidQuery, match="nested deeper"):
        query_to_json(Query((condition,)))
    with pytest.raises(InvalidQuery, match="nested deeper"):
        query_from_json({"where": [document]})
    query = Query((Not(AnyOf((Missing("a"), Is("b", ())))),), (Sort("c", descending=True),), 7)
    assert query_from_json(query_to_json(query)) == query

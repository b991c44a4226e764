"""Merge patches, and where two JSON values differ."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.model.json_value import difference, merge_patch, same_json

names = st.sampled_from(["a", "b", "c/d", "~", "", "0"])
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5]) | st.sampled_from(["", "x"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=12
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # the table of RFC 7386
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_does_what_its_standard_says(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@given(values, values)
def test_a_patch_changes_nothing_twice_and_neither_of_its_arguments(target: Any, patch: Any) -> None:
    kept = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    assert same_json(merge_patch(once, patch), once)
    assert same_json(list(kept), [target, patch])


@given(values, values)
def test_what_the_patch_does_not_name_stays(target: Any, patch: Any) -> None:
    result = merge_patch(target, patch)
    if isinstance(target, dict) and isinstance(patch, dict):
        assert all(same_json(result[name], value) for name, value in target.items() if name not in patch)
        assert not any(patch[name] is None and name in result for name in patch)
        assert set(result) <= {*target, *patch}


@given(values, values)
def test_the_differences_turn_the_one_into_the_other_and_back(before: Any, after: Any) -> None:
    found = difference(before, after)
    assert same_json(turned(before, found, "after"), after)
    assert same_json(turned(after, found, "before"), before)


@given(values)
def test_what_is_the_same_differs_nowhere(value: Any) -> None:
    assert difference(value, copy.deepcopy(value)) == []


@given(values, values)
def test_no_difference_is_told_where_there_is_none(before: Any, after: Any) -> None:
    for change in difference(before, after):
        assert len({"before", "after"} & change.keys()) == 2 or change["path"]
        assert not ("before" in change and "after" in change and same_json(change["before"], change["after"]))


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False), (None, False), ([1], [1.0]), ({}, [])])
def test_what_python_takes_for_equal_may_be_another_value(one: Any, other: Any) -> None:
    assert difference({"a": one}, {"a": other})


def turned(value: Any, changes: list[dict[str, Any]], side: str) -> Any:
    """`value` with one side of each difference put in its place."""
    value = copy.deepcopy(value)
    for change in changes:
        *way, last = [name.replace("~1", "/").replace("~0", "~") for name in change["path"].split("/")]
        if not way:
            return change[side]
        place = value
        for name in way[1:]:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if side not in change:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = change[side]
    return value

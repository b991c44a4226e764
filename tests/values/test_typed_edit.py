"""An edit keeps the type at its path, or is refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from mahavishnu.model.errors import InvalidInput
from mahavishnu.values.kinds import same_value
from mahavishnu.values.typed_edit import check_edit, require_types
from mahavishnu.values.typed_json import read, write
from tests.values.test_typed_json import CLASSES, values

ORDER = "dataclass:app.Order"


@given(values)
def test_an_edit_elsewhere_keeps_every_type(value: Any) -> None:
    plain, types = write({"value": value})
    after = check_edit(plain, types, {"note": "new", **plain})
    assert same_value(read({"note": "new", **plain}, after, CLASSES), {"note": "new", "value": value})


@pytest.mark.parametrize(
    ("types", "old", "new", "after"),
    [
        ({"/a": "decimal"}, {"a": "1"}, {"a": 2}, {"/a": "decimal"}),
        ({"/a": "decimal"}, {"a": "1"}, {"b": "1"}, {}),
        ({"/a": "decimal"}, {"a": "1"}, {"a": None}, {}),
        ({"/a": "decimal"}, {"a": "1"}, ["1"], {}),
        ({"/a": "set", "/a/-": "date"}, {"a": ["2026-01-01"]}, {"a": []}, {"/a": "set"}),
        ({"/a/-": "date"}, {"a": ["2026-01-01"]}, {"a": ["2026-01-01", "2026-01-02"]}, {"/a/-": "date"}),
        ({"/a/-": "date"}, {"a": ["2026-01-01"]}, {"a": ["2026-01-01", None]}, {"/a/0": "date"}),
        ({"/a/1": "decimal"}, {"a": ["x", "1"]}, {"a": ["1"]}, {"/a/0": "decimal"}),
        ({"/a/1": "decimal"}, {"a": ["x", "1"]}, {"a": ["x", "2"]}, {"/a/1": "decimal"}),
        ({"/a": "lost:Socket"}, {"a": "<socket>"}, {"a": {"port": 1}}, {}),
        ({"/a": "lost:Socket", "/b": "uuid"}, {"a": "<socket>", "b": "x"}, {"a": "<socket>", "b": "x"}, None),
        ({"/a": "exact"}, {"a": "x"}, {"a": "y"}, {"/a": "exact"}),
        ({"/a": "exact"}, {"a": "x"}, {"a": 1}, {}),
        ({"/a": "enum:app.Color"}, {"a": "red"}, {"a": "blue"}, {"/a": "enum:app.Color"}),
        ({"/a": "dict:int", "/a/7": "date"}, {"a": {"7": "2026-01-01"}}, {"a": {"8": 1}}, {"/a": "dict:int"}),
        (
            {"/a": ORDER, "/a/x~1y": "date"},
            {"a": {"x/y": "2026-01-01"}},
            {"a": {"x/y": "2026-01-02", "z": 1}},
            {"/a": ORDER, "/a/x~1y": "date"},
        ),
        (
            {"/a/-": ORDER, "/a/-/at": "date"},
            {"a": [{"at": "2026-01-01"}]},
            {"a": [{"at": "2026-01-02"}, {"at": "2026-01-03"}]},
            {"/a/-": ORDER, "/a/-/at": "date"},
        ),
        ({}, {"a": "1"}, {"a": 2}, {}),
    ],
)
def test_types_after_an_edit(types: dict[str, str], old: Any, new: Any, after: dict[str, str] | None) -> None:
    assert check_edit(old, types, new) == (types if after is None else after)


@pytest.mark.parametrize(
    ("kind", "old", "new", "why"),
    [
        ("decimal", "1", "12,50", "`order.items[0]` is a Decimal: '12,50' is not one (it is no decimal number"),
        ("decimal", "1", [], "`order.items[0]` is a Decimal: [] is not one (it is neither text nor a number)"),
        ("date", "2026-01-01", "soon", "is a date: 'soon' is not one (Invalid isoformat string"),
        ("uuid", "x", 1, "is a UUID: 1 is not one (it is no text)"),
        ("tuple", [1], "1", "is a tuple: '1' is not one (give a list)"),
        ("namedtuple:app.Point", {}, [1], "is the namedtuple Point: [1] is not one (give an object)"),
        ("enum:app.Color", "red", 1, "is the enum Color: 1 is not one (give text)"),
        ("dict:int", {"1": 2}, {"one": 2}, "`order.items[0].one` is under a whole number: 'one' is not one (invalid"),
        ("ordered-dict", {}, [], "is an object: [] is not one (give an object)"),
    ],
)
def test_an_edit_that_would_lose_the_type_is_refused(kind: str, old: Any, new: Any, why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_edit({"order": {"items": [old]}}, {"/order/items/0": kind}, {"order": {"items": [new]}})
    assert why in str(caught.value)


@pytest.mark.parametrize("types", [None, [], {"a": "date"}, {"/a": 1}, {"/a": ""}, {1: "date"}])
def test_types_that_are_none_are_refused(types: Any) -> None:
    with pytest.raises(InvalidInput, match="payload_types is an object of JSON pointers and kinds"):
        require_types(types)


def test_types_that_are_given_are_taken() -> None:
    assert require_types({"": "set", "/a": "date"}) == {"": "set", "/a": "date"}

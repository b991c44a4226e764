"""Json: what users give comes back unchanged, and what JSON cannot hold is refused by its path."""

from __future__ import annotations

import copy
import json
import os
import pickle
from collections import ChainMap, OrderedDict, UserDict, defaultdict
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mahavishnu.model.errors import InvalidPayload
from mahavishnu.model.json_value import EMPTY, MAX_DEPTH, Json, is_large, json_safe_copy, nesting_depth
from tests.support.strategies import json_values


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Mood(StrEnum):
    GOOD = "good"


# ------------------------------------------------------------------------------------------------- what comes back


@given(value=json_values)
@example(value=2**200)
@example(value={"big": [-(10**30), 1e308, 5e-324, -0.0]})
@example(value={"\ud800": "a lone surrogate \udfff", "\x00": "\u2028 \U0001f600"})
@example(value={"": {"": []}})
def test_any_json_value_comes_back_equal(value: Any) -> None:
    """Whatever its size, depth or characters, out of the text as well as out of a parser."""
    kept = Json.of(value)

    assert kept.value == value
    assert repr(kept.value) == repr(value)  # true is not 1, and 1.0 is not 1
    assert Json.from_parsed(json.loads(kept.text)) == kept
    assert kept.text.isascii()


@given(value=json_values)
def test_two_are_equal_if_their_values_are(value: Any) -> None:
    """However they came about, and however their text is spelled; equal ones hash alike."""
    one, other = Json.of(value), Json(json.dumps(value, indent=1))

    assert one == other
    assert hash(one) == hash(other)
    assert one == Json.from_parsed(copy.deepcopy(value))
    assert one != value
    assert one != Json.of([value])


def test_nobody_can_change_it() -> None:
    """R038, R131: neither who gave it nor who looked at it."""
    given_value: dict[str, Any] = {"deep": {"list": [1]}}
    kept = Json.of(given_value)
    given_value["deep"]["list"].append(2)
    kept.value["deep"]["list"].append(3)

    assert kept.value == {"deep": {"list": [1]}}
    assert EMPTY.value == {}


def test_a_parsed_value_is_written_when_it_is_needed() -> None:
    """And then it is the same as any other, `null` too."""
    for value in ({"a": [1]}, None, "text"):
        kept = Json.from_parsed(value)
        assert kept.value == value
        assert kept.text == json.dumps(value, separators=(",", ":"))
        assert kept.value is not value or not isinstance(value, dict)


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    """It is a value."""
    kept = Json.of({"a": 1})

    assert kept == copy.copy(kept) == copy.deepcopy(kept) == pickle.loads(pickle.dumps(kept))


def test_its_repr_is_short() -> None:
    """A letter in a log line stays readable."""
    assert repr(Json.of({"a": 1})) == 'Json({"a":1})'
    assert len(repr(Json.of("x" * 1000))) < 80


# -------------------------------------------------------------------------------------------------- what is coerced


@pytest.mark.parametrize(
    ("value", "coerced"),
    [
        (datetime(2026, 1, 1, 12, tzinfo=UTC), "2026-01-01T12:00:00+00:00"),
        (date(2026, 1, 1), "2026-01-01"),
        (time(12, 30), "12:30:00"),
        (timedelta(minutes=1.5), 90.0),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/srv/repo"), "/srv/repo"),
        (Path("here"), "here"),
        (Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (Mood.GOOD, "good"),
        (b"\x00\xff", "AP8="),
        (bytearray(b"ab"), "YWI="),
        (memoryview(b"ab"), "YWI="),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ((1, (2,)), [1, [2]]),
        (OrderedDict(a=1), {"a": 1}),
        (UserDict(a=1), {"a": 1}),
        (ChainMap({"a": 1}), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({1: "a", 2.5: "b", False: "c", None: "d"}, {"1": "a", "2.5": "b", "false": "c", "null": "d"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_does_not_know_travels_as_what_it_knows(value: Any, coerced: Any) -> None:
    """R038, at any depth."""
    assert Json.of(value).value == coerced
    assert Json.of({"deep": [value]}).value == {"deep": [coerced]}


# --------------------------------------------------------------------------------------------------- what is refused

circular: dict[str, Any] = {"a": [1]}
circular["a"].append(circular)
round_list: list[Any] = []
round_list.append(round_list)
round_mapping: UserDict[str, Any] = UserDict()
round_mapping["me"] = {"again": round_mapping}


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (float("nan"), r"task is nan, which JSON has no number for"),
        ({"a": [0, float("inf")]}, r"task\.a\[1\] is inf, which JSON has no number for"),
        ({"a": (0, float("-inf"))}, r"task\.a\[1\] is -inf"),
        ({"a": timedelta, "b": 1}, r"task\.a of type type has no JSON form"),
        ({"a": {"b": [object()]}}, r"task\.a\.b\[0\] of type object has no JSON form"),
        ({"a": {object()}}, r"task\.a\[0\] of type object has no JSON form"),
        ({"a": 1j}, r"task\.a of type complex has no JSON form"),
        ({"a": UserDict(b=float("nan"))}, r"task\.a\.b is nan"),
        ({"a": {(1, 2): 3}}, r"task\.a has a key of type tuple: \(1, 2\); keys must be text"),
        ({"a": {b"k": 3}}, r"task\.a has a key of type bytes"),
        ({"a": {float("nan"): 3}}, r"task\.a has the key nan"),
        ({"a": {1: "x", "1": "y"}}, r"task\.a has two keys that both become '1'"),
        ({"a": {None: "x", "null": "y"}}, r"task\.a has two keys that both become 'null'"),
        ({"a": {True: "x", "true": "y"}}, r"task\.a has two keys that both become 'true'"),
        (UserDict({1: "x", "1": "y"}), r"task has two keys that both become '1'"),
        (circular, r"task\.a\[1\] contains itself"),
        (round_list, r"task\[0\] contains itself"),
        (round_mapping, r"task\.me\.again contains itself"),
        (10**5000, r"task cannot be written as JSON: .*4300 digits"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_json_cannot_hold_is_refused_by_its_path(value: Any, complaint: str) -> None:
    """R038: before anything is stored."""
    with pytest.raises(InvalidPayload, match=f"^{complaint}"):
        Json.of(value)


def test_the_path_begins_with_the_name_of_the_argument() -> None:
    """So that the user knows which one was wrong."""
    with pytest.raises(InvalidPayload, match=r"^metadata\.a is nan") as caught:
        Json.of({"a": float("nan")}, "metadata")

    assert caught.value.path == "metadata.a"


def test_the_same_thing_twice_is_no_circle() -> None:
    """Only what is inside itself is."""
    shared = {"x": (1,)}

    assert Json.of({"a": shared, "b": [shared, shared]}).value["b"] == [{"x": [1]}, {"x": [1]}]


@pytest.mark.parametrize("shape", ["lists", "dicts", "mappings"])
def test_nesting_has_an_exact_limit(shape: str) -> None:
    """What is accepted here is accepted by every parser after it. Beyond is refused, however deep."""

    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = {"lists": [value], "dicts": {"a": value}, "mappings": UserDict(a=value)}[shape]
        return value

    assert nesting_depth(Json.of(nested(MAX_DEPTH)).text) == MAX_DEPTH
    for levels in (MAX_DEPTH + 1, 50_000):
        with pytest.raises(InvalidPayload, match="is nested deeper than 200"):
            Json.of(nested(levels))


def test_brackets_inside_texts_are_no_nesting() -> None:
    """Nor are escaped quotes the end of a text."""
    noisy = {'[{"\\': '\\"[[[' + "{" * 300, "b": '"' + "[" * 300}

    assert Json.of(noisy).value == noisy
    assert nesting_depth(Json.of(noisy).text) == 1


@given(value=json_values)
def test_depth_never_underestimates(value: Any) -> None:
    """Where it is not exact it is a bound."""

    def levels(inner: Any) -> int:
        if isinstance(inner, dict | list):
            return 1 + max(map(levels, inner.values() if isinstance(inner, dict) else inner), default=0)
        return 0

    assert nesting_depth(Json.of(value).text) >= levels(value)


@given(st.binary(max_size=20))
def test_bytes_can_be_got_back(data: bytes) -> None:
    """base64, as everybody spells it."""
    import base64

    assert base64.b64decode(Json.of(data).value) == data


def test_a_memoryview_with_gaps_is_bytes_too() -> None:
    """Whatever the view looks at."""
    assert Json.of(memoryview(b"abcd")[::2]).value == "YWM="


def test_what_is_wide_is_not_deep() -> None:
    """Many small things side by side are no nesting."""
    wide: list[dict[str, list[int]]] = [{"a": []}] * 150

    assert Json.of(wide).value == wide
    assert nesting_depth(Json.of(wide).text) == 3


@given(value=json_values)
def test_what_json_can_hold_is_held_as_it_is(value: Any) -> None:
    """Nothing is described without need."""
    assert json_safe_copy(value) == value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"a": [1, float("inf")]}, {"a": [1, "inf"]}),
        ({None: 1, "null": 2, (1, 2): 3}, {"null": 1, "null'": 2, "[1, 2]": 3}),
        ([10**5000], ["<int>"]),
        ({"when": date(2030, 1, 1), "who": {Colour.RED}}, {"when": "2030-01-01", "who": ["red"]}),
        ([range(3), Json], ["<range>", "<type>"]),
    ],
)
def test_what_json_cannot_hold_is_described_and_the_rest_is_kept(value: Any, kept: Any) -> None:
    """The result is one that it can hold."""
    assert json_safe_copy(value) == kept
    assert Json.of(json_safe_copy(value)).value == kept


class _Row(dict[str, str]):
    """A mapping that is not known to be data."""

    __safe_fields__ = ("number", "card")
    number = 7


def test_what_is_not_known_is_described_by_type_and_by_what_its_class_declares() -> None:
    """A request, a session, a row or an environment is never dumped, and nothing of it is printed."""
    described = ["<_Row number=7>", "<_Environ>", {"kept": "<_Row number=7>"}]
    assert json_safe_copy([_Row(password="x"), os.environ, defaultdict(str, kept=_Row())]) == described


def test_what_is_too_deep_is_held_as_deep_as_it_may_be() -> None:
    """Also by way of sets and mappings, and where it contains itself."""
    value: Any = []
    for _ in range(5 * MAX_DEPTH):
        value = [frozenset(), {"in": value}]
    circle: list[Any] = []
    circle.append({"me": circle})
    for each in (value, circle):
        assert nesting_depth(Json.of(json_safe_copy(each)).text) <= MAX_DEPTH


@pytest.mark.parametrize(
    ("value", "large"),
    [
        ({"id": "x", "paths": ["a"] * 100}, False),
        ([0] * 2000, True),
        ({str(number): number for number in range(2000)}, True),
        ([[[0] * 10] * 10] * 30, True),
        ("x" * 10_000_000, False),  # one part, and encoded at once
        (None, False),
    ],
)
def test_a_value_of_many_parts_is_large(value: object, large: bool) -> None:
    assert is_large(value) is large


def test_a_circle_is_large() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert is_large(circle)


@pytest.mark.parametrize(
    ("text", "depth"), [('["[[["]' * 30, 1), ('["\\\\",[' * 30 + "1" + "]]" * 30, 60), ('["\\"["]' * 30, 1)]
)
def test_brackets_in_strings_are_no_nesting(text: str, depth: int) -> None:
    assert nesting_depth(text) == depth

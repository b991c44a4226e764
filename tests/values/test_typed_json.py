"""Values come back from plain JSON with their types; what cannot is refused, or stands there as lost."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel

from mahavishnu.model.errors import CannotRestore, InvalidInput, InvalidPayload
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.values.kinds import ValueKind, named_kind, qualified_name, same_value
from mahavishnu.values.typed_json import plain_text, read, write, write_all, write_json


class Color(Enum):
    RED = "red"
    DARK = ("a", 1)


class Level(IntEnum):
    LOW = 1


class Mode(StrEnum):
    FAST = "fast"


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Line:
    price: Decimal
    day: date | None = None


@dataclass
class Order:
    lines: list[Line]
    color: Color = Color.RED
    total: int = field(init=False, default=0)


class Point(NamedTuple):
    x: int
    at: datetime | None = None


class Model(BaseModel):
    when: datetime
    inner: dict[str, Decimal] = {}
    note: str | None = None


class Names(RootModel[list[str]]):
    pass


CLASSES = {qualified_name(each): each for each in (Color, Level, Mode, Rights, Line, Order, Point, Model, Names)}
BERLIN = ZoneInfo("Europe/Berlin")

finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | st.booleans() | st.text(max_size=5) | st.integers(-(2**63), 2**64 - 1) | finite
moments = st.datetimes(
    min_value=datetime.fromisoformat("1900-01-01"),
    timezones=st.sampled_from([None, UTC, BERLIN, timezone(timedelta(hours=-3, seconds=7))]),
)
lines = st.builds(Line, st.decimals(allow_nan=False), st.none() | st.dates())
hashable = (
    plain
    | st.floats(allow_nan=False)
    | st.integers()
    | st.decimals(allow_nan=False)
    | moments
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.binary(max_size=5)
    | st.sampled_from(
        [*Color, *Level, *Mode, Rights.READ | Rights.WRITE, Path("/a/b"), PurePosixPath("c"), PureWindowsPath("d"), 1j]
    )
    | lines
    | st.builds(Point, st.integers(), st.none() | moments)
)
keys = st.text(max_size=5)
values = st.recursive(
    hashable | st.floats() | st.decimals() | st.binary(max_size=3).map(bytearray),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(hashable, max_size=3)
        | st.frozensets(hashable, max_size=3)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(st.integers(), inner, max_size=3)
        | st.dictionaries(st.uuids(), inner, max_size=3)
        | st.dictionaries(st.sampled_from(Mode), inner, max_size=1)
        | st.builds(Order, st.lists(lines, max_size=3), st.sampled_from(Color))
        | st.builds(
            Model,
            when=moments,
            inner=st.dictionaries(keys, st.decimals(allow_nan=False, allow_infinity=False), max_size=2),
        )
        | st.just(Names(["a"]))
    ),
    max_leaves=12,
)


def through_a_store(value: Any) -> Any:
    """What a store gives back: the text is all that it keeps."""
    payload, types = write_json(value)
    return read(Json(payload.text).value, Json(types.text).value, CLASSES)


@given(values)
def test_what_was_written_comes_back_with_its_types(value: Any) -> None:
    back = through_a_store({"value": value})["value"]
    assert same_value(back, value)
    assert type(back) is type(value)


@given(st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=10))
def test_plain_json_has_no_types_and_is_written_as_ever(value: Any) -> None:
    payload, types = write_json(value)
    assert types is EMPTY
    assert payload.text == Json.of(value).text
    assert write(value) == (value, {})


@given(values)
def test_what_is_written_is_plain(value: Any) -> None:
    written, types = write(value)
    assert plain_text(written) is not None
    assert plain_text(types) is not None
    assert all(path == "" or path[0] == "/" for path in types)


def test_the_json_is_what_a_person_reads() -> None:
    value = {
        "amount": Decimal("12.50"),
        "at": datetime(2026, 11, 19, 10, tzinfo=BERLIN),
        "for": timedelta(minutes=1.5),
        "order": Order([Line(Decimal("1.10"), date(2026, 1, 1)), Line(Decimal(2), date(2026, 1, 2))]),
        "tags": {"b", "a"},
        "by": {7: Level.LOW},
    }
    assert write(value) == (
        {
            "amount": "12.50",
            "at": "2026-11-19T10:00:00+01:00[Europe/Berlin]",
            "for": 90.0,
            "order": {
                "lines": [{"price": "1.10", "day": "2026-01-01"}, {"price": "2", "day": "2026-01-02"}],
                "color": "red",
            },
            "tags": ["a", "b"],
            "by": {"7": 1},
        },
        {
            "/amount": "decimal",
            "/at": "datetime",
            "/for": "timedelta",
            "/order": f"dataclass:{__name__}.Order",
            "/order/lines/-": f"dataclass:{__name__}.Line",
            "/order/lines/-/price": "decimal",
            "/order/lines/-/day": "date",
            "/order/color": f"enum:{__name__}.Color",
            "/tags": "set",
            "/by": "dict:int",
            "/by/7": f"enum:{__name__}.Level",
        },
    )


class Text(str):
    __slots__ = ()


class Days(dict):  # type: ignore[type-arg]
    pass


def circle() -> Any:
    ring: list[Any] = [Decimal(1)]
    ring.append(ring)
    return ring


def deep() -> Any:
    value: Any = ()
    for _ in range(250):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Text("a"), "task.it is of type Text"),
        (Days(), "task.it is of type Days"),
        (defaultdict(list), "task.it is of type defaultdict"),
        (object(), "task.it is of type object"),
        (Line, "task.it is of type type"),
        (range(3), "task.it is of type range"),
        ({(1, 2): 3}, "task.it has a key of type tuple"),
        ({1: 2, "1": 3}, "task.it has keys of several types: int, str"),
        ({Color.DARK: 1, "a": 2}, "several types"),
        ([{"a": [Text("b")]}], r"task.it\[0\].a\[0\] is of type Text"),
        (circle(), r"contains itself"),
        (deep(), "is nested deeper than 200"),
        pytest.param(10**5000, "task.it Exceeds the limit", id="huge"),
    ],
)
def test_what_cannot_come_back_is_refused_by_its_path(value: Any, why: str) -> None:
    with pytest.raises(InvalidPayload, match=why):
        write_json({"it": value})


def test_what_cannot_come_back_stands_there_as_lost_and_the_rest_keeps_its_types() -> None:
    written, types, lost = write_all({"job": [Text("a")], "day": date(2026, 1, 1)}, lambda part: f"<{part}>")
    assert written == {"job": ["<a>"], "day": "2026-01-01"}
    assert types == {"/job/-": "lost:Text", "/day": "date"}
    assert list(lost) == ["/job/0"]
    with pytest.raises(
        CannotRestore, match=r"job\[0\] was of type Text, which cannot come back: give a value by an edit"
    ):
        read(written, types)


def test_only_classes_that_are_handed_in_are_made() -> None:
    written, types = write({"line": Line(Decimal(1))})
    with pytest.raises(CannotRestore, match=f"line is of the class {__name__}.Line, which the hints of"):
        read(written, types)
    with pytest.raises(CannotRestore, match="Color is no dataclass here"):
        read(written, types, {f"{__name__}.Line": Color})
    assert read(written, {**types, "/line": "dataclass:__main__.Line"}, CLASSES) == {"line": Line(Decimal(1))}


@pytest.mark.parametrize(
    ("written", "kind", "why"),
    [
        ("12,50", "decimal", r"is '12,50', which is not a Decimal: it is no decimal number"),
        (True, "decimal", "not a Decimal"),
        ("x", "date", "not a date"),
        ("2026-07-01T10:00:00+01:00[Europe/Berlin]", "datetime", "does not have that offset then"),
        ("2026-07-01T10:00:00[Mars/Base]", "datetime", "no time zone 'Mars/Base'"),
        ("+", "bytes", "not bytes"),
        ({}, "tuple", "a list is needed"),
        ("purple", f"enum:{__name__}.Color", "'purple' is not a valid Color"),
        ({"x": 1, "z": 2}, f"namedtuple:{__name__}.Point", "unexpected keyword"),
        ({"when": "x"}, f"model:{__name__}.Model", "valid datetime"),
        ("a", "money", "the kind 'money', which nothing here can read: is a plugin missing"),
        ({"a": 1}, "dict:int", "is no int"),
    ],
)
def test_what_cannot_be_read_names_its_path(written: Any, kind: str, why: str) -> None:
    with pytest.raises(CannotRestore, match=r"it\[0.*" + why) as caught:
        read({"it": [written]}, {"/it/0": kind}, CLASSES)
    assert caught.value.path.startswith("/it/0")


def test_time_zones_keep_their_rules_and_the_hour_that_comes_twice() -> None:
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    for moment in (
        twice,
        twice.replace(fold=1),
        twice.replace(tzinfo=None, fold=1),
        time(2, 30, fold=1, tzinfo=BERLIN),
    ):
        back = through_a_store([moment])[0]
        assert (back, back.tzinfo, back.fold, back.utcoffset()) == (
            moment, moment.tzinfo, moment.fold, moment.utcoffset(),
        )  # fmt: skip
    assert read("2026-07-01T10:00:00[Europe/Berlin]", {"": "datetime"}) == datetime(2026, 7, 1, 10, tzinfo=BERLIN)


def test_a_model_comes_back_with_the_fields_that_were_set() -> None:
    model = Model(when=datetime(2026, 1, 1, tzinfo=UTC))
    assert through_a_store([model])[0].model_fields_set == {"when"}
    model.inner["a"] = Decimal(1)
    assert through_a_store([model])[0] == model


def test_equal_sets_are_spelled_alike() -> None:
    assert write({frozenset({"a", "b"}), frozenset({"c"})}) == write({frozenset({"c"}), frozenset({"b", "a"})})


def test_further_kinds_are_written_and_read_by_their_own_functions() -> None:
    text = ValueKind(Text, lambda value: {"t": str(value)}, lambda it: Text(it["t"]), name="text")
    written, types = write([Text("a"), {Text("b"): 1}][:1], [text])
    assert (written, types) == ([{"t": "a"}], {"/-": "text"})
    back = read(json.loads(json.dumps(written)), types, kinds=[text])
    assert same_value(back, [Text("a")])
    plain = ValueKind(Text, str, str)
    for name, wrong in (("decimal", plain), ("a", ValueKind(int, str, str)), ("a b", plain), ("a", 7)):
        with pytest.raises(InvalidInput):
            named_kind(name, wrong)
    assert named_kind("text", replace(text, name="")) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True), (1, 1.0), ({1}, {True}), ([1], (1,)), (Decimal("1.0"), Decimal("1.00")), (0.0, -0.0),
        ({"a": 1}, {"a": 1.0}), (Line(Decimal(1)), Line(Decimal("1.0"))), (UUID(int=1), str(UUID(int=1))),
        (datetime(2026, 7, 1, 10, tzinfo=UTC), datetime(2026, 7, 1, 12, tzinfo=BERLIN)),
    ],
)  # fmt: skip
def test_equal_values_of_other_types_are_not_the_same(one: Any, other: Any) -> None:
    assert not same_value(one, other)
    assert same_value(one, one)

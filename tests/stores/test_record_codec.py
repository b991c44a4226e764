"""Kinds that are read off a record: what is written comes back, what is searched fits, rubbish is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from mahavishnu.bulk.records import RUNS
from mahavishnu.bulk.run import BulkRun
from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.query import Is, Query
from mahavishnu.model.record import Value, Version, Versioned
from mahavishnu.stores.base import write_one
from mahavishnu.stores.kind import FieldType
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.record_codec import record_kind
from mahavishnu.stores.sqlite import SQLiteStore

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Leaf(Value, frozen=True):
    at: datetime
    text: str | None = None
    body: Json = EMPTY


class Thing(Versioned, frozen=True):
    name: str
    at: datetime
    colour: Colour
    size: int = 1
    ready: bool = False
    share: float | None = None
    note: str | None = None
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    body: Json = EMPTY
    patch: Json | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.name


THINGS = record_kind(Thing, name="things", index="things", types={"note": FieldType.TEXT}, indexes=[("at",)])
texts = st.text(st.characters(codec="utf-8"), max_size=8)
moments = st.integers(0, 10**7).map(lambda seconds: NOON + timedelta(seconds=seconds, milliseconds=seconds % 1000))
values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | texts, lambda x: st.lists(x, max_size=3))
jsons = st.dictionaries(texts, values, max_size=3).map(Json.of)
leaves = st.builds(Leaf, moments, st.none() | texts, jsons)
things = st.builds(
    Thing,
    name=texts.filter(bool),
    at=moments,
    colour=st.sampled_from(Colour),
    size=st.integers(-(2**53), 2**53),
    ready=st.booleans(),
    share=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    note=st.none() | texts,
    until=st.none() | moments,
    tags=st.lists(texts, max_size=3).map(tuple),
    steps=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    leaf=st.none() | leaves,
    leaves=st.lists(leaves, max_size=2).map(tuple),
    counts=st.dictionaries(texts, st.integers(0, 9), max_size=3),
    body=jsons,
    patch=st.none() | jsons,
)


@given(things)
def test_what_is_written_comes_back(thing: Thing) -> None:
    assert THINGS.decode(json.loads(THINGS.document(thing)), (1,)) == thing


def test_what_can_be_searched_follows_from_the_types() -> None:
    types = {each.name: each.type for each in THINGS.fields}
    assert types == {
        "name": FieldType.KEYWORD,
        "at": FieldType.DATE,
        "colour": FieldType.KEYWORD,
        "size": FieldType.INTEGER,
        "ready": FieldType.INTEGER,
        "share": FieldType.BLOB,
        "note": FieldType.TEXT,
        "until": FieldType.DATE,
        "tags": FieldType.KEYWORDS,
        "steps": FieldType.BLOB,
        "leaf": FieldType.BLOB,
        "leaves": FieldType.BLOB,
        "counts": FieldType.BLOB,
        "body": FieldType.JSON,
        "patch": FieldType.JSON,
    }


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_stores_find_it(kind: str, tmp_path: Any) -> None:
    store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "things.db", kinds=[THINGS])
    async with store:
        found = store.collection(THINGS)
        red = await write_one(found, Thing("a", NOON, Colour.RED, ready=True, tags=("x", "y"), body=Json.of({"n": 1})))
        await found.write([Thing("b", NOON, Colour.BLUE, patch=Json.of([]))])
        for condition in (Is("colour", ("red",)), Is("ready", (1,)), Is("tags", ("y",))):
            assert [each.key for each in (await found.find(Query((condition,)))).items] == ["a"]
        assert red is not None
        assert (await write_one(found, replace(red, size=7))) == replace(red, size=7)
        assert await write_one(found, red) is None, "it was changed meanwhile"


@pytest.mark.parametrize(
    "broken",
    [
        {"name": 5},
        {"at": "yesterday"},
        {"at": None},
        {"colour": "green"},
        {"size": True},
        {"size": "1"},
        {"ready": 2},
        {"share": "0.5"},
        {"tags": "x"},
        {"tags": [1]},
        {"leaf": {}},
        {"leaf": []},
        {"counts": []},
        {"counts": {"a": "b"}},
    ],
    ids=str,
)
def test_what_cannot_be_read_is_named(broken: dict[str, Any]) -> None:
    document = json.loads(THINGS.document(Thing("a", NOON, Colour.RED)))
    with pytest.raises(CorruptRecord):
        THINGS.decode({**document, **broken}, (1,))
    document.pop(next(iter(broken)), None)
    if next(iter(broken)) in ("name", "at", "colour"):
        with pytest.raises(CorruptRecord):
            THINGS.decode(document, (1,))
    else:
        assert THINGS.decode(document, (1,)) == Thing("a", NOON, Colour.RED), "fields of later versions have a default"


@pytest.mark.parametrize("broken", [[], ["moved"], [1], "moved", 5], ids=str)
def test_a_small_record_of_defaults_is_an_object(broken: Any) -> None:
    run = BulkRun(run_id="r", verb="archive", query=Json.of({}), by="ann", created_at=NOON, updated_at=NOON)
    document = json.loads(RUNS.document(run))
    assert RUNS.decode(document, (1,)) == run
    with pytest.raises(CorruptRecord):
        RUNS.decode({**document, "counts": broken}, (1,))


def test_only_what_can_be_written_may_be_a_field() -> None:
    class Odd(Versioned, frozen=True):
        key: str
        what: complex
        version: Version | None = None

    with pytest.raises(TypeError, match="complex"):
        record_kind(Odd, name="odd", index="odd")

"""Whatever users put into a letter: the server keeps it, and its mapping never grows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import At, Is, Missing, Query
from mahavishnu.stores.base import Collection
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import make_letter
from tests.support.opensearch import Servers

pytestmark = pytest.mark.opensearch
Letters = Collection[DeadLetter]


def nested(depth: int, lists: bool) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = [value] if lists else {"deeper": value}
    return value


SHAPES: dict[str, Any] = {
    "5,000 distinct keys": {f"key {number}": number for number in range(5_000)},
    "a number": {"value": 1},
    "the same key as text": {"value": "a"},
    "the same key as object": {"value": {"b": 2}},
    "the same key as a date": {"value": "2026-01-01"},
    "dotted keys": {"a.b": 1, "a": {"b": 2}, "a..b": 3, ".": 4, ".a": 5, "a.": 6},
    "empty and unicode keys": {"": 1, " ": 2, "ключ": 3, "😀": 4, "\ud800": 5, "=": 6, "a=b": 7},
    "null": {"value": None},
    "a text of 40,000 bytes": {"value": "x" * 40_000},
    "a key of 60,000 bytes": {"k" * 60_000: 1},
    "a megabyte": {"value": "0123456789abcdef" * 65_536},
    "big numbers": {"value": [2**63, 10**40, -(10**300), 1e308, 5e-324]},
    "a number of 2,000 digits": {"value": 10**2_000},
    "lone surrogates": {"value": "a\ud800b\udfff"},
    **{
        f"{depth} {'lists' if lists else 'objects'} deep": {"value": nested(depth, lists)}
        for depth in (19, 20, 21, 150)
        for lists in (True, False)
    },
}
BARE: dict[str, Any] = {
    "null": None,
    "text": "text",
    "number": 1.5,
    "list": [1, [2, {"three": 3}]],
    **{f"{depth} lists deep": nested(depth, lists=True) for depth in (19, 20, 21, 22, 150)},
}


@pytest.fixture
async def letters(opensearch_url: str, opensearch_prefix: str) -> AsyncIterator[Letters]:
    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=30, kinds=[LETTERS]) as store:
        yield store.collection(LETTERS)


def mapping(cluster: Servers, prefix: str) -> Any:
    return cluster.request("GET", f"/{prefix}_dlq/_mapping")[1]


async def test_any_shape_is_kept_and_the_mapping_stays_as_it_was(
    letters: Letters, opensearch: Servers, opensearch_prefix: str
) -> None:
    before = mapping(opensearch, opensearch_prefix)
    given = [make_letter(task_id=f"both {name}", task=shape, metadata=shape) for name, shape in SHAPES.items()]
    given += [make_letter(task_id=f"bare {name}", task=shape) for name, shape in BARE.items()]
    written = await letters.write(given)
    assert [letter.task_id for letter, result in zip(given, written, strict=True) if result != letter] == []
    read = await letters.get([letter.key for letter in given])
    assert [letter.task_id for letter, result in zip(given, read, strict=True) if result != letter] == []
    listed = {letter.key: letter for letter in (await letters.find(Query())).items}
    assert listed == {letter.key: letter for letter in given}
    assert mapping(opensearch, opensearch_prefix) == before


async def test_what_can_be_read_by_people_is(letters: Letters, opensearch: Servers, opensearch_prefix: str) -> None:
    shown = {name: shape for name, shape in SHAPES.items() if "2,000 digits" not in name and "60,000" not in name}
    await letters.write([make_letter(task_id=str(place), task=shape) for place, shape in enumerate(shown.values())])
    for place, shape in enumerate(shown.values()):
        source = opensearch.request("GET", f"/{opensearch_prefix}_dlq/_doc/{place}")[1]["_source"]
        assert source["task"] == shape


async def test_metadata_that_cannot_be_indexed_as_it_is_can_be_searched_by_the_rest(letters: Letters) -> None:
    labels = {"tenant": "acme", "long": "x" * 40_000, "a=b": "c", "deep": {"er": [1, "x" * 9_000, True]}}
    (stored,) = await letters.write([make_letter(task_id="a", metadata=labels)])

    async def found(path: str, value: Any) -> bool:
        return bool((await letters.find(Query((At("metadata", path, value),)))).items)

    assert await found("tenant", "acme")
    assert await found("deep.er", 1)
    assert await found("deep.er", True)
    assert await found("a=b", "c")
    assert not await found("a", "b=c")
    assert not await found("long", "x" * 40_000)
    assert not (await letters.find(Query((Missing("metadata"),)))).items
    assert isinstance(stored, DeadLetter)
    (changed,) = await letters.write([replace(stored, labels=Json.of({"tenant": "other"}))])
    assert await letters.get(["a"]) == [changed]
    assert not await found("deep.er", 1)


async def test_names_of_40000_characters(letters: Letters) -> None:
    for text in ("x" * 40_000, "ä" * 40_000, "x\ud800" * 20_000):
        letter = make_letter(task_id="a", queue="long", reason=text, repos=("short", text), depends_on=(text,))
        (stored,) = await letters.write([letter])
        assert isinstance(stored, DeadLetter) and stored == letter
        assert await letters.get([letter.key]) == [letter]
        assert list((await letters.find(Query((Is("repos", ("short",)),)))).items) == [letter]
        assert list((await letters.find(Query((Missing("reason"), Missing("depends_on"))))).items) == [letter]
        assert list((await letters.find(Query((Is("reason", (text,)),)))).items) == []
        assert await letters.remove([stored]) == [True]


async def test_numbers_that_an_integer_cannot_hold_are_kept(letters: Letters) -> None:
    letter = make_letter(task_id="a", max_retries=2**63, priority=2**62)
    assert await letters.write([letter]) == [letter]
    assert await letters.get(["a"]) == [letter]
    assert list((await letters.find(Query((Is("priority", (2**62,)),)))).items) == [letter]
    assert list((await letters.find(Query((Is("max_retries", (2**63, 3)),)))).items) == []


@pytest.mark.parametrize(
    "task_id", ["a/b", "a/b/c", "_leading", "..", "ключ 😀", "a b?c=d#e%2F", "\n", '"', "x" * 600, "ü" * 300]
)
async def test_ids_of_any_kind(letters: Letters, task_id: str) -> None:
    letter = make_letter(task_id=task_id)
    (stored,) = await letters.write([letter])
    assert isinstance(stored, DeadLetter)
    assert await letters.write([letter]) == [None]
    assert await letters.get([letter.key]) == [letter]
    assert list((await letters.find(Query((Is("task_id", (task_id,)),)))).items) == [letter]
    (changed,) = await letters.write([replace(stored, priority=1)])
    assert isinstance(changed, DeadLetter)
    assert await letters.remove([stored, changed]) == [False, True]
    assert await letters.get([letter.key]) == [None]

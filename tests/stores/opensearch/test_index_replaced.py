"""The name stands for another index than before: what was read from the former one is worth nothing in the new one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, get_one, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import make_letter
from tests.support.opensearch import Servers

pytestmark = pytest.mark.opensearch
Letters = Collection[DeadLetter]


@pytest.fixture
async def letters(opensearch_url: str, opensearch_prefix: str) -> AsyncIterator[Letters]:
    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=30, kinds=[LETTERS]) as store:
        yield store.collection(LETTERS)


async def made_by_another_process(url: str, prefix: str) -> DeadLetter:
    """The index, and its first letter."""
    async with OpenSearchStore(url, prefix=prefix, timeout=30, kinds=[LETTERS]) as store:
        letter = await write_one(store.collection(LETTERS), make_letter(task_id="a", error="theirs"))
    assert letter is not None
    return letter


@pytest.mark.parametrize("by_hand", [False, True], ids=["made by a store", "made by hand"])
async def test_a_version_from_a_dropped_index_matches_nothing_in_the_next_one(
    opensearch: Servers, opensearch_url: str, opensearch_prefix: str, by_hand: bool
) -> None:
    name = f"{opensearch_prefix}_dlq"
    if by_hand:
        assert opensearch.request("PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})[0] == 200
    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=30, kinds=[LETTERS]) as store:
        letters = store.collection(LETTERS)
        stale = await write_one(letters, make_letter(task_id="a"))
        assert stale is not None
        assert stale.version is not None
        assert opensearch.request("DELETE", f"/{name}" if by_hand else f"/{name}-1")[0] == 200
        theirs = await made_by_another_process(opensearch_url, opensearch_prefix)
        assert theirs.version is not None
        assert theirs.version[:2] == stale.version[:2], "else this test would show nothing"

        assert await letters.remove([stale]) == [False]
        results = await letters.write(
            [replace(stale, priority=7), make_letter(task_id="b"), replace(stale, priority=8)]
        )
        assert results[0] is results[2] is None
        assert isinstance(results[1], DeadLetter)
        current = await get_one(letters, "a")
        assert current == theirs
        assert await write_one(letters, replace(current, priority=7)) is not None
        assert await letters.remove([results[1]]) == [True]


async def test_what_is_read_before_the_change_is_noticed_cannot_be_written_either(
    opensearch: Servers, letters: Letters, opensearch_url: str, opensearch_prefix: str
) -> None:
    assert await write_one(letters, make_letter(task_id="a")) is not None
    assert opensearch.request("DELETE", f"/{opensearch_prefix}_dlq-1")[0] == 200
    await made_by_another_process(opensearch_url, opensearch_prefix)
    seen = await get_one(letters, "a")
    assert seen is not None
    assert seen.error == "theirs"
    assert await write_one(letters, replace(seen, priority=7)) is None
    again = await get_one(letters, "a")
    assert again is not None
    assert await write_one(letters, replace(again, priority=7)) is not None


@pytest.mark.parametrize("noticed_by", ["create", "get", "find"])
async def test_an_alias_that_is_moved_to_another_index_is_followed(
    opensearch: Servers, letters: Letters, opensearch_prefix: str, noticed_by: str
) -> None:
    name = f"{opensearch_prefix}_dlq"
    (old,) = await letters.write([make_letter(task_id="a")])
    assert isinstance(old, DeadLetter)
    mapping = opensearch.request("GET", f"/{name}-1/_mapping")[1][f"{name}-1"]["mappings"]
    opensearch.request("POST", f"/{name}/_refresh")
    for method, path, body in (
        ("PUT", f"/{name}-2", {"mappings": mapping}),
        ("POST", "/_reindex?refresh=true", {"source": {"index": f"{name}-1"}, "dest": {"index": f"{name}-2"}}),
        (
            "POST",
            "/_aliases",
            {
                "actions": [
                    {"remove": {"index": f"{name}-1", "alias": name}},
                    {"add": {"index": f"{name}-2", "alias": name}},
                ]
            },
        ),
    ):
        status, answer = opensearch.request(method, path, body)
        assert status == 200, answer
    match noticed_by:
        case "create":
            assert await write_one(letters, make_letter(task_id="b")) is not None
        case "get":
            await letters.get(["a"])
        case _:
            assert [each.key for each in (await letters.find(Query())).items] == ["a"]
    assert await write_one(letters, replace(old, priority=7)) is None
    current = await get_one(letters, "a")
    assert current is not None
    assert await write_one(letters, replace(current, priority=8)) is not None
    document = opensearch.request("GET", f"/{name}-2/_doc/a")[1]
    assert document["_source"]["priority"] == 8

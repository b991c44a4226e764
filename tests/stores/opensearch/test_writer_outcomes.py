"""What OpenSearch says of each item of a bulk, and what is made of it. By type: the status alone would mislead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from mahavishnu.model.errors import ItemFailed, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Collection, get_one, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import make_letter
from tests.support.opensearch import Servers
from tests.support.opensearch_proxy import Proxy, error, items, refused

pytestmark = pytest.mark.opensearch
PATIENT = 30.0
Letters = Collection[DeadLetter]
FLOOD = "index [x] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];"
SHARDS = "Validation Failed: 1: this action would add [2] total shards, but this cluster currently has [2]/[1] maximum shards open;"  # noqa: E501


@pytest.fixture
async def proxy(opensearch_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(opensearch_url) as proxy:
        yield proxy


@pytest.fixture
async def letters(proxy: Proxy, opensearch_prefix: str) -> AsyncIterator[Letters]:
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=PATIENT, kinds=[LETTERS]) as store:
        yield store.collection(LETTERS)


def twenty() -> list[DeadLetter]:
    return [make_letter(task_id=f"m{number:02}") for number in range(20)]


def only(place: int, item: dict[str, Any]) -> Any:
    return items(lambda at, _: item if at == place else None)


def everyone(item: dict[str, Any]) -> Any:
    return items(lambda at, _: item)


async def test_an_item_that_was_turned_away_is_sent_again_alone(proxy: Proxy, letters: Letters) -> None:
    busy = refused(429, "rejected_execution_exception", "rejected execution of primary operation")
    proxy.plan("_bulk", only(7, busy), everyone(busy))
    results = await letters.write(twenty())
    assert all(isinstance(result, DeadLetter) for result in results)
    sizes = [len(request.lines) // 2 for request in proxy.requests if request.line.endswith("_bulk")]
    assert sizes == [20, 1, 1]


async def test_an_item_that_is_turned_away_for_good_is_unavailable_and_certainly_not_written(
    proxy: Proxy, letters: Letters, opensearch_prefix: str
) -> None:
    busy = refused(429, "rejected_execution_exception")
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=3.0, kinds=[LETTERS]) as store:
        proxy.plan("_bulk", only(7, busy), *[everyone(busy)] * 999)
        results = await store.collection(LETTERS).write(twenty())
    failed = results.pop(7)
    assert isinstance(failed, StoreUnavailable)
    assert not failed.maybe_written
    assert all(isinstance(result, DeadLetter) for result in results)
    assert await letters.get(["m07"]) == [None]


@pytest.mark.parametrize(
    ("item", "expected", "maybe_written"),
    [
        (refused(429, "cluster_block_exception", FLOOD), StoreUnavailable, False),
        (
            refused(403, "cluster_block_exception", "blocked by: [FORBIDDEN/8/index write (api)]"),
            StoreUnavailable,
            False,
        ),
        (refused(400, "validation_exception", SHARDS), StoreUnavailable, False),
        (refused(400, "index_closed_exception", "closed"), StoreUnavailable, False),
        (refused(403, "security_exception", "no permissions for [x] and User [name=ann]"), ItemFailed, None),
        (refused(400, "illegal_argument_exception", "no"), ItemFailed, None),
    ],
)
async def test_an_item_that_failed_for_good(
    proxy: Proxy, letters: Letters, item: dict[str, Any], expected: type[Exception], maybe_written: bool | None
) -> None:
    proxy.plan("_bulk", only(7, item), only(0, item))  # the second one: in case it is tried in another shape
    results = await letters.write(twenty())
    failed = results.pop(7)
    assert isinstance(failed, expected)
    assert getattr(failed, "maybe_written", None) is maybe_written
    assert "ann" not in str(failed)
    assert all(isinstance(result, DeadLetter) for result in results)
    assert await letters.get(["m07"]) == [None]


async def test_an_item_whose_shard_was_away_is_looked_at_before_it_is_sent_again(
    proxy: Proxy, letters: Letters, opensearch_prefix: str
) -> None:
    away = refused(503, "unavailable_shards_exception", "[x][0] primary shard is not active Timeout: [1m]")
    proxy.plan("_bulk", only(7, away))
    assert all(isinstance(result, DeadLetter) for result in await letters.write(twenty()))
    assert proxy.count("_mget") == 1
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=3.0, kinds=[LETTERS]) as store:
        proxy.plan("_bulk", *[everyone(away)] * 999)
        with pytest.raises(StoreUnavailable) as problem:
            await write_one(store.collection(LETTERS), make_letter(task_id="a"))
        assert problem.value.maybe_written


async def test_a_conflict_is_neither_stored_nor_failed(letters: Letters) -> None:
    (first,) = await letters.write([make_letter(task_id="m03")])
    results = await letters.write(twenty())
    assert results.pop(3) is None
    assert all(isinstance(result, DeadLetter) for result in results)
    assert await get_one(letters, "m03") == first


async def test_wrong_credentials_in_the_middle_are_no_outage(proxy: Proxy, letters: Letters) -> None:
    proxy.plan("_bulk", error(401, "security_exception"))
    with pytest.raises(StoreMisconfigured, match="credentials"):
        await letters.write(twenty())
    proxy.plan("_search", error(403, "security_exception", "no permissions for [indices:data/read/search]"))
    with pytest.raises(StoreMisconfigured, match="indices:data/read/search"):
        await letters.find(Query())
    assert proxy.planned == 0


async def test_a_bulk_that_was_turned_away_as_a_whole_is_sent_again(proxy: Proxy, letters: Letters) -> None:
    rejected = error(429, "rejected_execution_exception", "rejected execution of coordinating operation")
    proxy.plan("_bulk", rejected, error(503, "cluster_block_exception", "no cluster-manager"), rejected)
    assert all(isinstance(result, DeadLetter) for result in await letters.write(twenty()))
    assert proxy.count("_mget") == 0, "there is no doubt about these"


async def test_of_a_bulk_that_is_too_large_for_something_on_the_way_each_part_goes_by_itself(
    proxy: Proxy, letters: Letters
) -> None:
    proxy.plan("_bulk", error(413, ""), error(413, ""))
    assert all(isinstance(result, DeadLetter) for result in await letters.write(twenty()))
    assert proxy.count("_bulk") == 5
    proxy.plan("_bulk", error(413, ""))
    with pytest.raises(ItemFailed, match="bytes are more"):
        await write_one(letters, make_letter(task_id="alone"))


async def test_a_document_that_is_larger_than_the_server_takes_fails_alone(letters: Letters) -> None:
    huge = replace(make_letter(task_id="huge"), payload=Json(f'{{"text":"{"x" * 101 * 2**20}"}}'))
    small = [make_letter(task_id=f"small{number}") for number in range(5)]
    results = await asyncio.gather(letters.write([small[0], huge, small[1]]), *(letters.write([s]) for s in small[2:]))
    flat = [each for result in results for each in result]
    failed = flat.pop(1)
    assert isinstance(failed, ItemFailed | StoreUnavailable)
    assert all(isinstance(result, DeadLetter) for result in flat)
    assert await letters.get(["huge"]) == [None]


async def test_a_read_only_index_is_an_outage_that_is_seen(
    opensearch: Servers, opensearch_prefix: str, opensearch_url: str
) -> None:
    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT, kinds=[LETTERS]) as store:
        collection = store.collection(LETTERS)
        (stored,) = await collection.write([make_letter(task_id="a")])
        path = f"/{opensearch_prefix}_dlq/_settings"
        assert opensearch.request("PUT", path, {"index.blocks.read_only_allow_delete": True})[0] == 200
        with pytest.raises(StoreUnavailable, match="flood-stage") as problem:
            await collection.write([make_letter(task_id="b")])
        assert not problem.value.maybe_written
        assert (await store.health()).status == "degraded"
        assert list((await collection.find(Query())).items) == [stored]
        opensearch.request("PUT", path, {"index.blocks.read_only_allow_delete": None})
        assert await write_one(collection, make_letter(task_id="b")) is not None
        assert (await store.health()).status == "ok"


async def test_an_index_that_somebody_dropped_is_made_again(
    opensearch: Servers, letters: Letters, opensearch_prefix: str
) -> None:
    await letters.write(twenty())
    for drop in range(2):
        assert opensearch.request("DELETE", f"/{opensearch_prefix}_dlq-1")[0] == 200
        if drop:
            assert await letters.get(["m01"]) == [None]
            assert list((await letters.find(Query())).items) == []
            assert (await letters.tally(Query())).total.count == 0
        assert all(isinstance(result, DeadLetter) for result in await letters.write(twenty()))
        mapping = opensearch.request("GET", f"/{opensearch_prefix}_dlq/_mapping")[1]
        assert mapping[f"{opensearch_prefix}_dlq-1"]["mappings"]["dynamic"] == "strict"
        assert len((await letters.find(Query())).items) == 20


async def test_keys_that_opensearch_cannot_have(opensearch_url: str, opensearch_prefix: str) -> None:
    from mahavishnu.testing.contract.base import PARCELS, Parcel

    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT, kinds=[PARCELS]) as store:
        parcels = store.collection(PARCELS)
        bad = ["", "x" * 513, "ü" * 257, "lone \ud800"]
        results = await parcels.write([Parcel(key=key, shelf="s") for key in [*bad, "good"]])
        assert [type(result) for result in results] == [ItemFailed] * 4 + [Parcel]
        assert await parcels.get([*bad, "good"]) == [None] * 4 + results[4:]


async def test_a_record_that_cannot_be_encoded_fails_alone(opensearch_url: str, opensearch_prefix: str) -> None:
    from mahavishnu.testing.contract.base import PARCELS, Parcel

    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT, kinds=[PARCELS]) as store:
        wrong: Any = object()
        results = await store.collection(PARCELS).write(
            [Parcel(key="a", shelf="s"), Parcel(key="b", shelf=wrong), Parcel(key="c", shelf="s")]
        )
        assert [type(result) for result in results] == [Parcel, ItemFailed, Parcel]

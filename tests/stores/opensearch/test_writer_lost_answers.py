"""Answers get lost between OpenSearch and the store: it finds out what happened, and never guesses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.base import Collection, get_one, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import make_letter
from tests.support.opensearch_proxy import (
    Action,
    Forward,
    Proxy,
    Request,
    answer,
    lose_answer,
    lose_request,
    never_answer,
)

pytestmark = pytest.mark.opensearch
PATIENT = 30.0
TIME_OUT = 3.0


@pytest.fixture
async def proxy(opensearch_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(opensearch_url) as proxy:
        yield proxy


@pytest.fixture
async def letters(proxy: Proxy, opensearch_prefix: str) -> AsyncIterator[Collection[DeadLetter]]:
    """Through the proxy."""
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=PATIENT, kinds=[LETTERS]) as store:
        yield store.collection(LETTERS)


@pytest.fixture
async def truth(opensearch_url: str, opensearch_prefix: str) -> AsyncIterator[Collection[DeadLetter]]:
    """Past the proxy: what is really there, and what others do."""
    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT, kinds=[LETTERS]) as store:
        yield store.collection(LETTERS)


Letters = Collection[DeadLetter]
landed = pytest.mark.parametrize("loss", [lose_answer, answer(504, b"<html>"), answer(200, b'{"items": [')])


async def stored_in(collection: Letters, **changes: object) -> DeadLetter:
    letter = await write_one(collection, make_letter(task_id="a", **changes))
    assert letter is not None
    return letter


@landed
async def test_a_creation_whose_answer_was_lost_is_ours(
    proxy: Proxy, letters: Letters, truth: Letters, loss: Action
) -> None:
    async def land(request: Request, forward: Forward) -> bytes | None:
        await forward(request)
        return await loss(request, forward)

    proxy.plan("_bulk", land)
    created = await stored_in(letters)
    there = await get_one(truth, "a")
    assert there is not None
    assert (created, created.version) == (there, there.version)
    assert proxy.count("_bulk") == 1, "what has landed is not sent again"
    assert await write_one(letters, replace(created, priority=1)) is not None


async def test_a_creation_that_never_arrived_is_sent_again(proxy: Proxy, letters: Letters, truth: Letters) -> None:
    proxy.plan("_bulk", lose_request, lose_request)
    created = await stored_in(letters)
    assert created == await get_one(truth, "a")
    assert proxy.count("_bulk") == 3


async def test_a_replacement_whose_answer_was_lost_is_ours(proxy: Proxy, letters: Letters, truth: Letters) -> None:
    created = await stored_in(letters)
    proxy.plan("_bulk", lose_answer)
    replaced = await write_one(letters, replace(created, priority=1))
    there = await get_one(truth, "a")
    assert replaced is not None
    assert there is not None
    assert (replaced.version, there.priority) == (there.version, 1)


async def test_a_removal_whose_answer_was_lost_is_ours(proxy: Proxy, letters: Letters, truth: Letters) -> None:
    created = await stored_in(letters)
    proxy.plan("_bulk", lose_answer)
    assert await letters.remove([created]) == [True]
    assert await truth.get(["a"]) == [None]


async def test_a_removal_that_never_arrived_is_done_if_somebody_else_has_done_it(
    proxy: Proxy, letters: Letters, truth: Letters
) -> None:
    created = await stored_in(letters)

    async def be_removed(request: Request, forward: Forward) -> None:
        assert await truth.remove([created]) == [True]

    proxy.plan("_bulk", be_removed)
    assert await letters.remove([created]) == [True]


async def test_a_removal_that_never_arrived_is_sent_again(proxy: Proxy, letters: Letters, truth: Letters) -> None:
    created = await stored_in(letters)
    proxy.plan("_bulk", lose_request)
    assert await letters.remove([created]) == [True]
    assert await truth.get(["a"]) == [None]


async def test_a_real_conflict_stays_one(proxy: Proxy, letters: Letters, truth: Letters) -> None:
    theirs = await stored_in(truth, priority=7)
    proxy.plan("_bulk", lose_answer)
    assert await write_one(letters, make_letter(task_id="a")) is None
    changed = await write_one(truth, replace(theirs, priority=8))
    proxy.plan("_bulk", lose_answer)
    with pytest.raises(StoreUnavailable) as unclear:  # it might have landed before the other one
        await write_one(letters, replace(theirs, priority=9))
    assert unclear.value.maybe_written
    proxy.plan("_bulk", lose_answer)
    assert await letters.remove([theirs]) == [False]
    assert await get_one(truth, "a") == changed


async def test_each_item_of_a_lost_bulk_is_told_its_own_outcome(proxy: Proxy, letters: Letters, truth: Letters) -> None:
    mine, theirs = await stored_in(letters), await write_one(truth, make_letter(task_id="b"))
    proxy.plan("_bulk", lose_answer)
    results = await letters.write(
        [replace(mine, priority=1), make_letter(task_id="b"), make_letter(task_id="c"), replace(mine, task_id="d")]
    )
    there = await truth.get(["a", "b", "c", "d"])
    assert results == [there[0], None, there[2], None]
    assert there[1] == theirs
    assert there[3] is None


async def test_a_write_that_arrives_late_is_still_written_once(proxy: Proxy, letters: Letters, truth: Letters) -> None:
    """The first try hangs on its way. It overtakes the second one, which is then refused, and that is no conflict."""
    late: list[tuple[Request, Forward]] = []

    async def get_stuck(request: Request, forward: Forward) -> None:
        late.append((request, forward))

    async def be_overtaken(request: Request, forward: Forward) -> bytes | None:
        ((first, send),) = late
        await send(first)
        return await forward(request)

    proxy.plan("_bulk", get_stuck, be_overtaken)
    created = await stored_in(letters)
    there = await get_one(truth, "a")
    assert there is not None
    assert (created, created.version) == (there, there.version)


async def test_an_answer_that_does_not_come_is_not_waited_for_beyond_the_time_out(
    proxy: Proxy, truth: Letters, opensearch_prefix: str
) -> None:
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=TIME_OUT, kinds=[LETTERS]) as store:
        collection = store.collection(LETTERS)
        proxy.plan("_bulk", never_answer)
        created = await stored_in(collection)
        assert created == await get_one(truth, "a")

        proxy.plan("_bulk", *[never_answer] * 9)
        proxy.plan("_mget", *[never_answer] * 99)
        start = time.monotonic()
        with pytest.raises(StoreUnavailable) as problem:
            await write_one(collection, make_letter(task_id="b"))
        assert problem.value.maybe_written
        with pytest.raises(StoreUnavailable):
            await collection.get(["a"])
        assert time.monotonic() - start < 3 * TIME_OUT, "each of the two takes its time-out, and little more"
        assert await get_one(truth, "b") is not None


async def test_who_queued_during_an_outage_does_not_wait_twice(
    proxy: Proxy, truth: Letters, opensearch_prefix: str
) -> None:
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=TIME_OUT, kinds=[LETTERS]) as store:
        collection = store.collection(LETTERS)
        await stored_in(collection)
        proxy.plan("_bulk", *[never_answer] * 99)
        proxy.plan("_mget", *[never_answer] * 99)
        many = [make_letter(task_id=f"m{number}") for number in range(3_000)]
        results = await asyncio.gather(*(collection.write([letter]) for letter in many), return_exceptions=True)
        assert all(isinstance(result, StoreUnavailable) for result in results)
        uncertain = [isinstance(result, StoreUnavailable) and result.maybe_written for result in results]
        assert uncertain == [True] * 1_000 + [False] * 2_000, "two bulks were sent; who waited behind them had waited"


async def test_nobody_there_means_nothing_written(unused_url: str, opensearch_prefix: str) -> None:
    start = time.monotonic()
    store = OpenSearchStore(unused_url, prefix=opensearch_prefix, timeout=1.0)
    with pytest.raises(StoreUnavailable) as problem:
        await store.open()
    assert not problem.value.maybe_written
    assert time.monotonic() - start < 2.0
    assert (await store.health()).status == "down"
    await store.close()


async def test_a_refused_connection_means_nothing_written(
    opensearch_url: str, opensearch_prefix: str, truth: Letters
) -> None:
    async with Proxy(opensearch_url) as proxy:
        store = OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=1.0, kinds=[LETTERS])
        await store.open()
    collection = store.collection(LETTERS)
    start = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await write_one(collection, make_letter(task_id="a"))
    with pytest.raises(StoreUnavailable) as problem:  # no connection is left from before
        await write_one(collection, make_letter(task_id="a"))
    assert not problem.value.maybe_written
    assert time.monotonic() - start < 3.0
    await store.close()


async def test_another_node_takes_over(proxy: Proxy, unused_url: str, opensearch_prefix: str) -> None:
    async with OpenSearchStore([unused_url, proxy.url], prefix=opensearch_prefix, timeout=PATIENT) as store:
        collection = store.collection(LETTERS)
        results = await collection.write([make_letter(task_id=f"m{number}") for number in range(20)])
        assert all(isinstance(result, DeadLetter) for result in results)
        for _ in range(5):
            assert await get_one(collection, "m7") is not None


@pytest.fixture
def unused_url() -> str:
    return "http://127.0.0.1:9"


async def test_a_given_client_that_sends_again_by_itself_causes_no_false_conflict(
    proxy: Proxy, opensearch_prefix: str
) -> None:
    from opensearchpy import AsyncOpenSearch

    async with AsyncOpenSearch(proxy.url, max_retries=3) as client:
        async with OpenSearchStore(client=client, prefix=opensearch_prefix, timeout=PATIENT) as store:
            collection = store.collection(LETTERS)
            proxy.plan("_bulk", lose_answer)
            assert await write_one(collection, make_letter(task_id="a")) is not None
            assert proxy.count("_bulk") == 2, "the client did it again, and that was a conflict"
            assert await write_one(collection, make_letter(task_id="a")) is None
        assert (await client.info())["version"], "a given client stays open"


async def test_the_caller_who_gives_up_takes_nobody_along(proxy: Proxy, letters: Letters, truth: Letters) -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def wait(request: Request, forward: Forward) -> bytes:
        arrived.set()
        await go.wait()
        return await forward(request)

    proxy.plan("_bulk", wait, wait)
    calls = [asyncio.ensure_future(letters.write([make_letter(task_id=f"m{number}")])) for number in range(40)]
    await arrived.wait()
    late = [asyncio.ensure_future(letters.write([make_letter(task_id=f"l{number}")])) for number in range(40)]
    await asyncio.wait([asyncio.ensure_future(truth.get(["x"]))])  # some turns of the loop
    for call in (*calls[::2], *late[::2]):
        call.cancel()
    go.set()
    for call in (*calls[1::2], *late[1::2]):
        (result,) = await call
        assert isinstance(result, DeadLetter)
    await asyncio.gather(*calls, *late, return_exceptions=True)
    keys = [f"{letter}{number}" for letter in "ml" for number in range(40)]
    assert None not in await truth.get(keys), "what was handed over is written, also for those who gave up"


async def test_what_waits_together_rides_together(proxy: Proxy, letters: Letters) -> None:
    await stored_in(letters)
    before = proxy.count("_bulk")
    await asyncio.gather(*(letters.write([make_letter(task_id=f"m{number}")]) for number in range(400)))
    assert proxy.count("_bulk") - before <= 3
    before = proxy.count("_bulk")
    await letters.write([make_letter(task_id=f"n{number}") for number in range(1_200)])
    assert proxy.count("_bulk") - before == 3, "500 at a time"

"""Lists and tallies of the real server: nothing hidden, nothing twice, and what is asked of it costs little."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.model.errors import CorruptRecord, InvalidQuery, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import AnyOf, At, Between, Is, Missing, Not, Query, Sort
from mahavishnu.stores.base import Collection, Cursor
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.opensearch import store as opensearch
from mahavishnu.testing import make_letter
from mahavishnu.testing.clock import START
from tests.support.opensearch import Servers
from tests.support.opensearch_proxy import Forward, Proxy, Request, error

pytestmark = pytest.mark.opensearch
PATIENT = 30.0
Letters = Collection[DeadLetter]
BY_ID = (Sort("task_id"),)


@pytest.fixture
async def proxy(opensearch_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(opensearch_url) as proxy:
        yield proxy


@pytest.fixture
async def letters(proxy: Proxy, opensearch_prefix: str) -> AsyncIterator[Letters]:
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=PATIENT, kinds=[LETTERS]) as store:
        yield store.collection(LETTERS)


def numbered(count: int) -> list[DeadLetter]:
    return [make_letter(task_id=f"m{number:04}", priority=number) for number in range(count)]


async def test_a_corrupt_document_is_named_and_hides_nothing(
    letters: Letters, opensearch: Servers, opensearch_prefix: str
) -> None:
    given = numbered(6)
    await letters.write(given)
    for key, script in (
        ("m0001", "ctx._source.status = 'unheard-of'"),
        ("m0003", "ctx._source.remove('entry_id')"),
        ("m0004", "ctx._source.schema = 99"),
    ):
        body = {"script": {"source": script}}
        status, answer = opensearch.request("POST", f"/{opensearch_prefix}_dlq/_update/{key}?refresh=true", body)
        assert status == 200, answer
    page = await letters.find(Query(sort=BY_ID))
    assert list(page.items) == [given[0], given[2], given[5]]
    assert all(isinstance(problem, CorruptRecord) for problem in page.corrupt)
    assert [getattr(problem, "key", None) for problem in page.corrupt] == ["m0001", "m0003", "m0004"]
    got = await letters.get([letter.key for letter in given])
    assert [type(each) for each in got] == [
        DeadLetter, CorruptRecord, DeadLetter, CorruptRecord, CorruptRecord, DeadLetter,
    ]  # fmt: skip
    first = await letters.find(Query(sort=BY_ID, limit=1), Cursor(page.positions[0]))
    assert (list(first.items), len(first.corrupt)) == ([], 1)
    assert first.next is not None
    assert list((await letters.find(Query(sort=BY_ID, limit=1), first.next)).items) == [given[2]]


@pytest.mark.parametrize("odd", [{}, {"a": [1, {"b": "c: d"}]}, {"name": "Größe \ud83d"}, {"big": 10**30, "=": 1}])
async def test_a_list_gives_what_a_get_gives(letters: Letters, odd: dict[str, Any]) -> None:
    """However a document has to be read."""
    await letters.write([make_letter(task_id="m1", task=odd, metadata=odd)])
    assert list((await letters.find(Query())).items) == await letters.get(["m1"])


async def test_a_document_that_somebody_has_spaced_out_is_the_same_letter(
    letters: Letters, opensearch: Servers, opensearch_prefix: str
) -> None:
    (given,) = await letters.write([make_letter(task_id="m1", task={"a": [1, 2], "b": {}})])
    place = f"/{opensearch_prefix}_dlq/_doc/m1"
    _, answer = opensearch.request("GET", place)
    status, answer = opensearch.request(
        "PUT", f"{place}?refresh=true", answer["_source"]
    )  # with blanks after each colon
    assert status == 200, answer
    (found,) = (await letters.find(Query())).items
    assert found == given
    assert isinstance(given, DeadLetter)
    assert found.payload.text == given.payload.text


async def test_one_page_is_one_request_and_a_refresh_only_after_writes(proxy: Proxy, letters: Letters) -> None:
    await letters.write(numbered(10))
    before = len(proxy.requests)
    await letters.find(Query(limit=5))
    assert [request.line.rpartition("/")[2] for request in proxy.requests[before:]] == ["_refresh", "_search"]
    before = len(proxy.requests)
    await letters.find(Query(limit=5))
    await letters.tally(Query())
    assert [request.line.rpartition("/")[2] for request in proxy.requests[before:]] == ["_search", "_search"]


async def test_those_who_read_at_the_same_time_share_a_refresh(proxy: Proxy, letters: Letters) -> None:
    await letters.write(numbered(10))
    arrived, go = asyncio.Event(), asyncio.Event()

    async def wait(request: Request, forward: Forward) -> bytes:
        arrived.set()
        await go.wait()
        return await forward(request)

    proxy.plan("_refresh", wait)
    before = proxy.count("_refresh")
    first = asyncio.ensure_future(letters.find(Query()))
    await arrived.wait()
    await letters.write([make_letter(task_id="later")])  # the refresh under way may not see this one
    rest = [asyncio.ensure_future(letters.find(Query())) for _ in range(20)]
    await asyncio.wait([asyncio.ensure_future(letters.get(["later"]))])
    first.cancel()  # who began it gives up, and that disturbs nobody
    go.set()
    for each in await asyncio.gather(*rest):
        assert len(each.items) == 11
    assert proxy.count("_refresh") - before <= 3


async def test_later_pages_come_from_a_snapshot_that_is_given_back(proxy: Proxy, letters: Letters) -> None:
    await letters.write(numbered(50))
    query = Query(sort=BY_ID, limit=10)
    first = await letters.find(query)
    assert first.next is not None
    assert first.next.snapshot is None
    assert proxy.count("point_in_time") == 0
    second = await letters.find(query, first.next)
    assert second.next is not None
    assert second.next.snapshot
    await letters.write([make_letter(task_id="m0025a"), make_letter(task_id="m0019a")])
    pages = [first, second]
    while (after := pages[-1].next) is not None:
        pages.append(await letters.find(query, Cursor.parse(str(after))))
    assert [letter.task_id for page in pages for letter in page.items] == [f"m{n:04}" for n in range(50)]
    given_back = [request.line.split(" ")[0] for request in proxy.requests if "point_in_time" in request.line]
    assert given_back == ["POST", "DELETE"]


async def test_a_snapshot_that_is_gone_or_refused_does_not_end_the_list(
    proxy: Proxy, letters: Letters, opensearch: Servers
) -> None:
    await letters.write(numbered(60))
    query = Query(sort=BY_ID, limit=10)
    pages = [await letters.find(query)]
    too_many = error(429, "rejected_execution_exception", "Trying to create too many Point In Time contexts.")
    proxy.plan("point_in_time", too_many)
    while (after := pages[-1].next) is not None:
        if after.snapshot is not None:  # as when it had expired
            assert opensearch.request("DELETE", "/_search/point_in_time", {"pit_id": [after.snapshot]})[0] == 200
        pages.append(await letters.find(query, after))
    assert [letter.task_id for page in pages for letter in page.items] == [f"m{n:04}" for n in range(60)]
    assert proxy.planned == 0


async def test_a_cursor_of_another_list_is_refused(letters: Letters) -> None:
    await letters.write(numbered(3))
    page = await letters.find(Query(sort=BY_ID, limit=1))
    assert page.next is not None
    for sort in ((), (Sort("priority"), *BY_ID)):
        with pytest.raises(InvalidQuery, match="cursor"):
            await letters.find(Query(sort=sort), page.next)
    with pytest.raises(InvalidQuery, match="cursor"):
        await letters.find(Query(sort=BY_ID), Cursor((START, "m0001")))


async def test_more_groups_than_one_answer_holds(letters: Letters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahavishnu.stores.opensearch.query.BUCKETS", 7)
    await letters.write([replace(letter, fingerprint=f"f{letter.priority % 30}") for letter in numbered(60)])
    tally = await letters.tally(Query(), ["fingerprint"], sums=["priority"])
    assert {values[0]: (cell.count, cell.sums["priority"]) for values, cell in tally.cells.items()} == {
        f"f{number}": (2, 2 * number + 30) for number in range(30)
    }
    by_date = await letters.tally(Query(), ["created_at", "status"])
    assert {values: cell.count for values, cell in by_date.cells.items()} == {(START, "pending"): 60}


async def test_a_search_that_a_part_of_the_server_cannot_answer_is_no_answer(
    proxy: Proxy, letters: Letters, opensearch_prefix: str
) -> None:
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, timeout=1.0, kinds=[LETTERS]) as store:
        failed = error(503, "search_phase_execution_exception", "all shards failed", phase="query", root_cause=[])
        proxy.plan("_search", *[failed] * 999)
        with pytest.raises(StoreUnavailable):
            await store.collection(LETTERS).find(Query())
    assert all(b"allow_partial_search_results=false" in r.head for r in proxy.requests if r.line.endswith("_search"))


async def test_conditions_at_the_edges_of_what_fields_can_hold(letters: Letters) -> None:
    given = [replace(letter, max_retries=letter.priority) for letter in numbered(3)]
    await letters.write(given)
    microsecond = timedelta(microseconds=1)
    some: list[tuple[list[int], Any]] = [
        ([0, 1, 2], Between("created_at", at_least=START - microsecond)),
        ([], Between("created_at", at_least=START + microsecond)),
        ([0, 1, 2], Between("created_at", below=START + microsecond)),
        ([], Between("created_at", below=START, at_most=START + microsecond)),
        ([0, 1, 2], Between("created_at", at_most=START + microsecond)),
        ([], Is("created_at", (START + microsecond,))),
        ([0, 1, 2], Between("max_retries", at_least=-(10**30), below=10**30)),
        ([], Between("max_retries", at_least=2**40)),
        ([], Between("priority", at_most=-(2**70))),
        ([1], Is("max_retries", (1, 2**40, 2**70, 1.5))),
        ([1], Is("priority", (1.0, "2", 10**40))),
        ([0, 1, 2], Is("task_id", tuple(f"m{n:04}" for n in range(70_000)))),
        ([], Is("task_id", (1, True))),
        ([], At("metadata", "x" * 9_000, "y")),
        ([0, 1, 2], Not(AnyOf((Missing("task_id"), At("metadata", "", "x"))))),
    ]
    for expected, condition in some:
        page = await letters.find(Query((condition,), sort=BY_ID))
        assert [letter.priority for letter in page.items] == expected, condition


async def test_a_query_that_the_server_refuses_is_the_askers_problem(letters: Letters) -> None:
    words = tuple(Is("words", (f"w{number}",)) for number in range(3_000))
    with pytest.raises(InvalidQuery, match="maxClauseCount"):
        await letters.find(Query(words))


async def test_a_slow_query_is_told_without_its_values(
    letters: Letters, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(opensearch, "SLOW_SECONDS", 0.0)
    where = (Is("task_id", ("secret-1", "secret-2")), Not(At("metadata", "secret", "secret")), Missing("due_at"))
    query = Query((*where, AnyOf((Between("created_at", below=START),))), (Sort("failed_at", descending=True),), 7)
    with caplog.at_level(logging.WARNING, "mahavishnu"):
        await letters.find(query)
    asked = "task_id is one of 2 and not metadata at a path and due_at missing and any of (created_at between)"
    assert f"for letters: {asked}, by -failed_at, 7 at most" in caplog.text
    assert "secret" not in caplog.text


async def test_what_a_predecessor_wrote_just_before_is_found(opensearch_url: str, opensearch_prefix: str) -> None:
    for number in range(3):
        async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT) as store:
            collection = store.collection(LETTERS)
            assert len((await collection.find(Query())).items) == number
            await collection.write([make_letter(task_id=f"m{number}")])

"""The indices: what new ones look like, what happens to older ones, and what users can ask them directly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from mahavishnu.model.clock import SystemClock, instant_text
from mahavishnu.model.errors import ItemFailed, StoreMisconfigured
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import At, Is, Missing, Query
from mahavishnu.model.query import letter_query as letters_query
from mahavishnu.stores.base import get_one, write_one
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import make_letter
from tests.support.opensearch import Servers

pytestmark = pytest.mark.opensearch
PATIENT = 30.0
DOCUMENTED = {
    "task_id": "keyword",
    "task": "object",
    "repos": "keyword",
    "error": "text",
    "failed_at": "date",
    "retry_count": "integer",
    "max_retries": "integer",
    "retry_policy": "keyword",
    "next_retry_at": "date",
    "status": "keyword",
    "metadata": "object",
    "error_category": "keyword",
    "last_error": "text",
    "total_attempts": "integer",
    "updated_at": "date",
}


class Server:
    """The index of letters, past the store."""

    def __init__(self, cluster: Servers, prefix: str) -> None:
        self._cluster = cluster
        self.url, self.prefix, self.index = cluster.urls[0], prefix, f"{prefix}_dlq"

    def store(self, **options: Any) -> OpenSearchStore:
        return OpenSearchStore(self.url, **{"prefix": self.prefix, "timeout": PATIENT, "kinds": [LETTERS], **options})

    def request(self, method: str, path: str = "", *documents: object) -> Any:
        status, answer = self._cluster.request(method, f"/{self.index}{path}", *documents)
        assert status in (200, 201), answer
        return answer

    def make(self, mapping: dict[str, Any]) -> None:
        """An index as it is there without us."""
        settings = {"number_of_replicas": 0}
        self.request("PUT", "", {"settings": settings, "mappings": mapping})

    @property
    def mapping(self) -> dict[str, Any]:
        (described,) = self.request("GET", "/_mapping").values()
        mapping: dict[str, Any] = described["mappings"]
        return mapping

    def search(self, query: dict[str, Any]) -> set[str]:
        self.request("POST", "/_refresh")
        found = self.request("POST", "/_search", {"query": query, "size": 100})
        return {hit["_id"] for hit in found["hits"]["hits"]}


@pytest.fixture
def server(opensearch: Servers, opensearch_prefix: str) -> Iterator[Server]:
    yield Server(opensearch, opensearch_prefix)


def properties(**types: str) -> dict[str, Any]:
    return {"properties": {name: {"type": type_} for name, type_ in types.items()}}


async def test_a_new_index_has_the_documented_fields_and_takes_no_others(server: Server) -> None:
    async with server.store(kinds=[LETTERS, HISTORY]):
        mapping = server.mapping
    types = {name: field.get("type") for name, field in mapping["properties"].items()}
    assert {name: types[name] for name in DOCUMENTED} == DOCUMENTED | {"metadata": "flat_object"}
    assert mapping["properties"]["task"]["enabled"] is False
    assert mapping["dynamic"] == "strict"
    assert list(server.request("GET", "/_alias")) == [f"{server.index}-1"]
    server.index += "_history"
    assert server.mapping["properties"]["task_id"]["type"] == "keyword"


async def test_the_names_by_default() -> None:
    store = OpenSearchStore("http://127.0.0.1:9")
    assert store.collection(LETTERS).index.name == "mahavishnu_dlq"
    assert store.collection(HISTORY).index.name == "mahavishnu_dlq_history"


async def test_the_settings_of_a_new_index(server: Server) -> None:
    async with server.store(shards=2, replicas=0, refresh_interval="7s"):
        (described,) = server.request("GET", "/_settings").values()
    settings = described["settings"]["index"]
    assert (settings["number_of_shards"], settings["number_of_replicas"]) == ("2", "0")
    assert settings["refresh_interval"] == "7s"


async def test_opening_again_and_by_many_at_once_changes_nothing(server: Server) -> None:
    stores = [server.store() for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    before = server.mapping
    assert await write_one(stores[0].collection(LETTERS), make_letter(task_id="a")) is not None
    await asyncio.gather(*(store.close() for store in stores))
    async with server.store() as store:
        assert server.mapping == before
        assert await get_one(store.collection(LETTERS), "a") is not None


async def test_the_documented_queries(server: Server) -> None:
    now = SystemClock().now()
    soon, later = now + timedelta(minutes=30), now + timedelta(hours=2)

    def letter(name: str, status: str, due: datetime | None = None, category: str = "transient") -> DeadLetter:
        dates = {} if due is None else {"due_at": due}
        return make_letter(task_id=name, status=status, error_category=category, created_at=now, **dates)

    async with server.store() as store:
        await store.collection(LETTERS).write(
            [
                letter("pending-soon", "pending", soon),
                letter("pending-later", "pending", later, "network"),
                letter("retrying", "retrying", soon),
                letter("exhausted-1", "exhausted"),
                letter("exhausted-2", "exhausted", category="permanent"),
                letter("completed", "completed"),
                letter("archived", "archived", category="network"),
            ]
        )
    assert server.search({"term": {"status.keyword": "exhausted"}}) == {"exhausted-1", "exhausted-2"}
    assert server.search({"term": {"status": "exhausted"}}) == {"exhausted-1", "exhausted-2"}
    assert server.search({"term": {"error_category.keyword": "transient"}}) == {
        "pending-soon", "retrying", "exhausted-1", "completed",
    }  # fmt: skip
    assert server.search({"range": {"next_retry_at": {"lte": "now+1h"}}}) == {"pending-soon"}
    by_status = {"aggs": {"by": {"terms": {"field": "status.keyword"}}}, "size": 0}
    buckets = server.request("POST", "/_search", by_status)["aggregations"]["by"]["buckets"]
    assert {bucket["key"]: bucket["doc_count"] for bucket in buckets} == {
        status.value: 2 if status in ("pending", "exhausted") else 1 for status in DeadLetterStatus
    }


async def test_users_search_in_texts_and_metadata_with_their_own_tools(server: Server) -> None:
    async with server.store() as store:
        await store.collection(LETTERS).write(
            [
                make_letter(task_id="a", error="Connection reset by peer", metadata={"tenant": {"name": "acme"}}),
                make_letter(task_id="b", error="Timeout", metadata={"tenant": {"name": "other"}}, task={"x": [1]}),
            ]
        )
    assert server.search({"match": {"error": "connection"}}) == {"a"}
    assert server.search({"match_phrase": {"error": "reset by peer"}}) == {"a"}
    assert server.search({"term": {"metadata.tenant.name": "acme"}}) == {"a"}
    assert server.request("GET", "/_doc/b")["_source"]["task"] == {"x": [1]}


async def test_an_older_index_is_extended_and_used_as_it_is(server: Server) -> None:
    server.make({"dynamic": True, **properties(task_id="keyword", status="keyword", failed_at="date", mine="double")})
    server.request("PUT", "/_doc/old", {"task_id": "old", "status": "pending", "mine": 1.5})
    async with server.store() as store:
        collection = store.collection(LETTERS)
        mapping = server.mapping
        assert mapping["dynamic"] == "strict"
        assert DOCUMENTED.keys() <= mapping["properties"].keys()
        assert mapping["properties"]["mine"] == {"type": "double"}
        assert mapping["properties"]["status"]["fields"]["keyword"]["type"] == "keyword"
        letter = make_letter(task_id="new", task={"a": {"b": 1}}, metadata={"tenant": "acme"})
        assert await write_one(collection, letter) is not None
        assert await get_one(collection, "new") == letter
        assert server.search({"term": {"status.keyword": "pending"}}) == {"new"}
        page = await collection.find(Query())
        assert list(page.items) == [letter]
        assert [problem.key for problem in page.corrupt] == ["old"]  # type: ignore[attr-defined]
    assert list(server.request("GET", "/_mapping")) == [server.index], "no other index was made"


async def test_what_an_older_index_held_can_be_listed_and_asked_for(server: Server) -> None:
    server.make({"dynamic": True, **properties(task_id="keyword", status="keyword")})
    old = {f"old{number}" for number in range(30)}
    lines = [line for key in sorted(old) for line in ({"index": {"_id": key}}, {"status": "pending"})]
    server.request("POST", "/_bulk?refresh=true", *lines)
    async with server.store() as store:
        while server.search({"term": {"status.keyword": "pending"}}) != old:
            pass  # the server works on it in the background
        collection = store.collection(LETTERS)
        seen: list[str] = []
        page = await collection.find(Query(limit=7))
        while True:
            seen += [problem.key for problem in page.corrupt]  # type: ignore[attr-defined]
            if page.next is None:
                break
            page = await collection.find(Query(limit=7), page.next)
        assert seen == sorted(old)


async def test_an_index_made_by_hand_from_the_documentation_works(server: Server) -> None:
    """Its `task` and `metadata` are ordinary objects, which payloads would make grow: they are kept beside them."""
    server.make(properties(**DOCUMENTED))
    async with server.store() as store:
        collection = store.collection(LETTERS)
        given = [
            make_letter(task_id=str(number), task=task, metadata={"value": task, "tenant": f"t{number}"})
            for number, task in enumerate([{"v": 1}, {"v": "a"}, {"v": {"b": 2}}, [1], "text", None])
        ]
        before = server.mapping
        assert await collection.write(given) == given
        assert await collection.get([letter.key for letter in given]) == given
        assert server.mapping == before
        at = Query((At("metadata", "tenant", "t3"),))
        assert list((await collection.find(at)).items) == [given[3]]
        assert list((await collection.find(Query((Missing("metadata"),)))).items) == []
    async with server.store() as again:
        assert server.mapping == before
        assert await again.collection(LETTERS).get(["2"]) == [given[2]]


@pytest.mark.parametrize(
    ("field", "wrong", "said"),
    [
        ("status", {"type": "text"}, "status is text, not keyword"),
        ("failed_at", {"type": "keyword"}, "failed_at is keyword, not date"),
        ("failed_at", {"type": "date", "format": "epoch_second"}, "failed_at has the format epoch_second"),
        ("retry_count", {"type": "double"}, "retry_count is double, not integer"),
        ("error", {"type": "keyword"}, "error is keyword, not text"),
        ("task", {"type": "text"}, "task is text, not object"),
        ("metadata", {"type": "nested"}, "metadata is nested, not flat_object"),
        ("task_id", {"type": "keyword", "index": False}, "task_id has index: false"),
        ("queue", {"type": "keyword", "doc_values": False}, "queue has doc_values: false"),
        ("queue", {"type": "keyword", "normalizer": "lowercase"}, "queue has the normalizer lowercase"),
    ],
)
async def test_a_contradicting_index_is_reported_and_left_alone(
    server: Server, field: str, wrong: dict[str, Any], said: str
) -> None:
    server.make({"properties": {"task_id": {"type": "keyword"}, field: wrong}})
    before = server.mapping
    with pytest.raises(StoreMisconfigured, match=said):
        await server.store(kinds=[HISTORY, LETTERS]).open()
    assert server.mapping == before
    server.index += "_history"
    with pytest.raises(AssertionError, match="index_not_found"):
        server.request("GET")


async def test_all_contradictions_are_said_at_once(server: Server) -> None:
    server.make(properties(status="text", failed_at="text", retry_count="keyword"))
    with pytest.raises(StoreMisconfigured, match=r"status is .*; failed_at is .*; retry_count is ") as problem:
        await server.store().open()
    assert server.index in str(problem.value)


async def test_an_alias_of_several_indices_is_reported(server: Server, opensearch: Servers) -> None:
    for number in (1, 2):
        alias: dict[str, Any] = {"aliases": {server.index: {}}}
        assert opensearch.request("PUT", f"/{server.index}-{number}", alias)[0] == 200
    with pytest.raises(StoreMisconfigured, match="several indices"):
        await server.store().open()


async def test_an_index_without_its_alias_is_reported(server: Server, opensearch: Servers) -> None:
    assert opensearch.request("PUT", f"/{server.index}-1", {"settings": {"number_of_replicas": 0}})[0] == 200
    with pytest.raises(StoreMisconfigured, match="already exists"):
        await server.store().open()


async def test_a_kind_that_comes_later_gets_its_index_at_first_use(server: Server) -> None:
    async with server.store(kinds=[]) as store:
        assert list((await store.collection(LETTERS).find(letters_query())).items) == []
        assert server.mapping["dynamic"] == "strict"
        server.index += "_history"
        assert (await store.collection(HISTORY).tally(Query((Is("status", ("pending",)),)))).total.count == 0
        assert server.mapping["dynamic"] == "strict"


async def test_dates_are_exact_to_the_millisecond(server: Server) -> None:
    at = datetime.fromisoformat("2026-02-03T04:05:06.789+00:00")
    async with server.store() as store:
        await store.collection(LETTERS).write([make_letter(task_id="a", failed_at=at)])
    assert server.search({"term": {"failed_at": instant_text(at)}}) == {"a"}
    assert server.search({"range": {"failed_at": {"gt": instant_text(at)}}}) == set()


TEMPLATES: dict[str, dict[str, Any]] = {
    "no source": {"mappings": {"_source": {"enabled": False}}},
    "a source without the payload": {"mappings": {"_source": {"excludes": ["task"]}}},
    "a source of one field": {"mappings": {"_source": {"includes": ["status"]}}},
    "required routing": {"mappings": {"_routing": {"required": True}}},
    "short lists": {"settings": {"index.max_result_window": 100}},
    "a pipeline that is not there": {"settings": {"index.final_pipeline": "none such"}},
    "a first pipeline that is not there": {"settings": {"index.default_pipeline": "none such"}},
}


@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_template_of_the_server_s_users_does_not_change_a_new_index(
    server: Server, opensearch: Servers, template: str
) -> None:
    path = f"/_index_template/{server.prefix}"
    body = {"index_patterns": [f"{server.prefix}_*"], "priority": 500, "template": TEMPLATES[template]}
    assert opensearch.request("PUT", path, body)[0] == 200
    try:
        async with server.store() as store:
            letters = store.collection(LETTERS)
            stored = await letters.write(
                [make_letter(task_id=f"{number:03}", task={"n": number}) for number in range(150)]
            )
            assert await letters.get(["007"]) == [stored[7]]
            assert list((await letters.find(Query(limit=200))).items) == stored
            assert (await store.health()).status == "ok"
    finally:
        assert opensearch.request("DELETE", path)[0] == 200


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"_source": {"enabled": False}}, "_source does not keep the whole document"),
        ({"_source": {"excludes": ["task"]}}, "_source does not keep the whole document"),
        ({"_source": {"includes": ["status"]}}, "_source does not keep the whole document"),
        ({"_routing": {"required": True}}, "_routing is required"),
    ],
)
async def test_an_index_that_does_not_give_back_what_it_gets_is_refused(
    server: Server, mapping: dict[str, Any], said: str
) -> None:
    server.make(mapping)
    with pytest.raises(StoreMisconfigured, match=said):
        await server.store().open()


async def test_lists_that_an_older_index_keeps_too_short_are_made_longer(server: Server) -> None:
    server.request("PUT", "", {"settings": {"number_of_replicas": 0, "index.max_result_window": 100}})
    async with server.store() as store:
        letters = store.collection(LETTERS)
        stored = await letters.write([make_letter(task_id=f"{number:03}") for number in range(150)])
        assert list((await letters.find(Query(limit=200))).items) == stored
        server.request("PUT", "/_settings", {"index.max_result_window": 100})
        health = await store.health()
        assert health.status == "degraded"
        assert "max_result_window of 100" in health.detail


async def test_a_pipeline_of_an_older_index_is_reported_and_what_it_refuses_fails(server: Server) -> None:
    server.request("PUT", "", {"settings": {"number_of_replicas": 0, "index.final_pipeline": "nosuch"}})
    async with server.store() as store:
        with pytest.raises(ItemFailed, match="nosuch"):
            await write_one(store.collection(LETTERS), make_letter())
        health = await store.health()
        assert health.status == "degraded"
        assert "the final_pipeline 'nosuch'" in health.detail
        server.request("PUT", "/_settings", {"index.final_pipeline": "_none"})
        assert await write_one(store.collection(LETTERS), make_letter()) is not None
        assert (await store.health()).status == "ok"


async def test_a_block_of_the_metadata_alone_is_no_trouble(server: Server) -> None:
    async with server.store() as store:
        first = await write_one(store.collection(LETTERS), make_letter(task_id="a"))
        server.request("PUT", "/_settings", {"index.blocks.metadata": True})
        try:
            assert (await store.health()).status == "ok"
            async with server.store() as another:  # it cannot look at the mapping
                second = await write_one(another.collection(LETTERS), make_letter(task_id="b"))
                assert list((await another.collection(LETTERS).find(Query())).items) == [first, second]
                assert (await another.health()).status == "ok"
        finally:
            server.request("PUT", "/_settings", {"index.blocks.metadata": None})
        assert (await store.health()).status == "ok"

"""Queries as text over HTTP: in lists, exports and bulk runs, and what can be written next."""

from __future__ import annotations

import pytest

from mahavishnu.search.service import COUNTS_LAST
from tests.support.api import ApiHarness


@pytest.fixture
async def kept(api: ApiHarness) -> ApiHarness:
    await api.keep("old", adapter="orders", task={"currency": "EURO"}, created_at=api.clock.now())
    api.clock.advance(3 * 3600)
    await api.keep("new", adapter="orders", task={"currency": "EUR"}, created_at=api.clock.now())
    await api.keep("mail", adapter="mails", task={}, created_at=api.clock.now())
    return api


async def test_a_list_takes_a_query(kept: ApiHarness) -> None:
    async def names(**params: str) -> set[str]:
        answer = await kept.get("/dlq", params=params)
        assert answer.status_code == 200, answer.text
        return {letter["task_id"] for letter in answer.json()}

    assert await names(q="adapter:orders age>2h") == {"old"}
    assert await names(q="-task.currency:EURO") == {"new", "mail"}
    assert await names(q="task.currency:EURO or adapter:mails") == {"old", "mail"}
    assert await names(q="age<2h", adapter="orders") == {"new"}
    assert await names(q="") == {"old", "new", "mail"}
    assert await names(q="namespace:eu") == set()
    assert await names(q="namespace:*") == {"old", "new", "mail"}


async def test_a_page_goes_on_with_its_query(kept: ApiHarness) -> None:
    page = await kept.get("/dlq", params={"q": "adapter:orders,mails", "limit": 2})
    rest = await kept.client.get(page.links["next"]["url"])
    assert len(page.json()) == 2
    assert len(rest.json()) == 1


async def test_an_export_takes_a_query(kept: ApiHarness) -> None:
    answer = await kept.get("/dlq/export", params={"q": "adapter:orders age>2h"})
    assert [line.count('"task_id":"old"') for line in answer.text.splitlines()] == [1]


async def test_a_bulk_run_takes_a_query(kept: ApiHarness) -> None:
    body = {"verb": "archive", "filter": {"q": "adapter:orders task.currency:EUR,EURO"}}
    assert (await kept.post("/runs/preview", body)).json()["matched"] == 2
    run = (await kept.post("/runs", body)).json()
    await kept.dlq.runs.advance()
    assert (await kept.get(f"/runs/{run['run_id']}")).json()["counts"]["moved"] == 2
    assert (await kept.dlq.get_task("mail")) is not None


async def test_a_problem_says_where(api: ApiHarness) -> None:
    answer = await api.get("/dlq", params={"q": "is:open statsu:pending"})
    problem = answer.json()
    assert answer.status_code == 422
    assert problem["type"].endswith(":invalid-query")
    assert (problem["start"], problem["end"], problem["near"][0]) == (8, 14, "status")
    assert "did you mean status?" in problem["detail"]
    twice = await api.get("/dlq", params={"q": "namespace:eu", "namespace": "us"})
    assert twice.status_code == 422
    assert "said twice" in twice.json()["detail"]
    run = await api.post("/runs", {"verb": "archive", "filter": {"q": "age:2h"}})
    assert run.status_code == 422
    assert run.json()["start"] == 4
    assert (await api.get("/dlq", params={"q": "a" * 4001})).status_code == 422


async def test_a_run_without_any_condition_is_refused(kept: ApiHarness) -> None:
    assert (await kept.post("/runs", {"verb": "archive", "filter": {"q": " "}})).status_code == 422


async def test_what_can_be_written_next(kept: ApiHarness) -> None:
    answer = await kept.get("/query/suggest", params={"text": "is:open adapter:", "limit": 1})
    assert answer.json() == {
        "start": 16, "end": 16, "items": [{"text": "orders", "about": "", "letters": 2}],
    }  # fmt: skip
    names = (await kept.get("/query/suggest", params={"text": "sta is:open", "position": 3})).json()
    assert (names["start"], names["end"], names["items"][0]["text"]) == (0, 3, "status:")
    assert (await kept.get("/query/suggest")).json()["items"][0]["text"] == "is:"


async def test_values_of_another_namespace_are_counted_as_seldom(api: ApiHarness) -> None:
    async def counted() -> list[int]:
        found = await api.get("/query/suggest", params={"text": "adapter:", "namespace": "eu"})
        return [each["letters"] for each in found.json()["items"]]

    eu = api.dlq.in_namespace("eu")
    await eu.enqueue("order-1", {}, [], "declined", adapter="orders")
    assert await counted() == [1]
    await eu.enqueue("order-2", {}, [], "declined", adapter="orders")
    assert await counted() == [1]
    api.clock.advance(COUNTS_LAST.total_seconds())
    assert await counted() == [2]

"""What `create_app` makes: the start page, the OpenAPI document, and an app that is mounted in another one."""

from __future__ import annotations

import httpx
from fastapi import FastAPI

from mahavishnu import __version__
from mahavishnu.core.api import create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from tests.support.api import URL, ApiHarness, bearer


def test_openapi_says_that_a_filter_takes_one_value() -> None:
    document = create_app(DeadLetterQueue()).openapi()
    one = {"type": "string", "minLength": 1, "maxLength": 500}
    in_query = {each["name"]: each["schema"] for each in document["paths"]["/api/v1/dlq"]["get"]["parameters"]}
    for schema in (document["components"]["schemas"]["Filter"]["properties"]["queue"], in_query["queue"]):
        assert schema["anyOf"] == [{"type": "array", "items": one, "maxItems": 10_000}, one, {"type": "null"}]


async def test_the_start_page_says_where_everything_is(api: ApiHarness) -> None:
    for path in ("/", "/api/v1"):
        told = (await api.client.get(path)).json()
        assert (told["name"], told["version"], told["api"]) == ("mahavishnu", __version__, "/api/v1")
        for link in (told["api"], told["openapi"], told["health"]):
            assert (await api.client.get(link)).status_code == 200


async def test_the_start_page_needs_a_token(guarded_api: ApiHarness) -> None:
    for path in ("/", "/api/v1"):
        assert (await guarded_api.client.get(path)).status_code == 401
        assert (await guarded_api.client.get(path, headers=bearer("viewer"))).status_code == 200


async def test_a_mounted_app_gives_paths_below_its_mount_point() -> None:
    outer = FastAPI()
    outer.mount("/letters", create_app(DeadLetterQueue()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=URL) as client:
        told = (await client.get("/letters/api/v1")).json()
        for link in (told["api"], told["openapi"], told["health"]):
            assert (await client.get(link)).status_code == 200
        assert "/letters/api/v1/openapi.json" in (await client.get("/letters/nothing")).json()["detail"]

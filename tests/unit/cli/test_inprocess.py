"""An app in this process, spoken to over HTTP: what is told while it is told, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from mahavishnu.cli.client import Connection
from mahavishnu.cli.output import Failed
from mahavishnu.cli.local_transport import InProcess
from mahavishnu.cli.options import Session

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}


def client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=InProcess(app), base_url="http://localhost", timeout=None)


async def test_an_answer_is_read_while_it_is_written() -> None:
    go_on, left = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"" and scope["raw_path"] == b"/a%2Fb"
        await send(START)
        await send({"type": "http.response.body", "body": b"one\n", "more_body": True})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"two\n", "more_body": True})
        try:
            await receive()
        finally:
            left.set()

    async with client(app) as http, http.stream("GET", "/a%2Fb?x=1") as answer:
        lines = answer.aiter_lines()
        assert await anext(lines) == "one"
        go_on.set()
        assert await anext(lines) == "two"
    assert left.is_set()


async def test_what_the_app_raises_in_the_middle_is_raised_here() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"one\n", "more_body": True})
        raise Failed("the disk is gone")

    async with client(app) as http:
        with pytest.raises(Failed, match="the disk is gone"):
            await http.get("/")


async def test_an_app_that_raises_at_once() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise Failed("nothing works")

    async with client(app) as http:
        with pytest.raises(Failed, match="nothing works"):
            await http.get("/")


async def test_a_list_that_leads_to_another_server_is_not_followed() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        link = (b"link", b'<http://elsewhere.example/api/v1/dlq>; rel="next"')
        await send({**START, "headers": [*START["headers"], link]})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": b"[1]"})

    async with client(app) as http:
        connection = Connection(http, Session(), "x", None)
        with pytest.raises(Failed, match="leads to another server"):
            await connection.list("/dlq", {}, 5)

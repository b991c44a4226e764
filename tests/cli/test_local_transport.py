"""Requests to an app in this process: its answer is read while it is written, and what it raises is raised."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahavishnu.cli.client import Connection
from mahavishnu.cli.local_transport import LocalTransport
from mahavishnu.cli.options import Session
from mahavishnu.cli.output import Failed

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}


async def no_read(path: str, query: str) -> None:
    """Leave each read to the app."""


def connection(app: Any) -> Connection:
    return Connection(LocalTransport(lambda: app, "here", no_read), Session())


async def test_an_answer_is_read_while_it_is_written() -> None:
    go_on, left = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"" and scope["raw_path"] == b"/api/v1/a%2Fb"
        assert scope["query_string"] == b"x=1" and scope["path"] == "/api/v1/a/b"
        await send(START)
        await send({"type": "http.response.body", "body": b"one\n", "more_body": True})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"two\n", "more_body": True})
        try:
            await receive()
        finally:
            left.set()

    async with connection(app).stream("/a%2Fb", {"x": 1, "y": None}) as lines:
        assert await anext(lines) == "one"
        go_on.set()
        assert await anext(lines) == "two"
    assert left.is_set()


async def test_what_the_app_raises_in_the_middle_is_raised_here() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"one\n", "more_body": True})
        raise Failed("the disk is gone")

    with pytest.raises(Failed, match="the disk is gone"):
        await connection(app).get("/")
    async with connection(app).stream("/") as lines:
        assert await anext(lines) == "one"
        with pytest.raises(Failed, match="the disk is gone"):
            await anext(lines)


async def test_an_app_that_raises_at_once() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise Failed("nothing works")

    with pytest.raises(Failed, match="nothing works"):
        await connection(app).get("/")
    with pytest.raises(Failed, match="nothing works"):
        async with connection(app).stream("/"):
            pass


async def test_a_list_that_leads_to_another_server_is_not_followed() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        link = (b"link", b'<http://elsewhere.example/api/v1/dlq>; rel="next"')
        await send({**START, "headers": [*START["headers"], link]})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": b"[1]"})

    with pytest.raises(Failed, match="leads to another server"):
        await connection(app).list("/dlq", {}, 5)

"""Reads that many ask for at once are done once, and never show less than was there when they were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from mahavishnu.api import Access
from mahavishnu.api.middleware import ApiMiddleware, Receive, Scope, Send, SharedReads
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.testing import turn
from tests.unit.api.conftest import TOKENS, URL, bearer


class Source:
    """A value that is read slowly: each read shows the value as it was when the read began."""

    def __init__(self) -> None:
        self.value, self.reads = 0, 0
        self.gates: list[asyncio.Event] = []

    async def read(self) -> int:
        self.reads += 1
        seen, gate = self.value, asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        if seen < 0:
            raise ValueError("broken")
        return seen

    async def let(self, number: int) -> None:
        """Let this read end, as soon as it has begun."""
        while len(self.gates) < number:
            await turn()
        self.gates[number - 1].set()


async def test_who_asks_during_a_read_shares_the_next_one() -> None:
    source, shared = Source(), SharedReads[int]()
    first = asyncio.create_task(shared.get("k", source.read))
    await turn()
    source.value = 1  # written before the others ask: they have to see it
    others = [asyncio.create_task(shared.get("k", source.read)) for _ in range(50)]
    await turn()
    assert source.reads == 1
    await source.let(1)
    assert await first == 0
    await turn()
    source.value = 2
    late = asyncio.create_task(shared.get("k", source.read))
    await turn()
    await source.let(2)
    assert await asyncio.gather(*others) == [1] * 50
    await turn()
    await source.let(3)
    assert await late == 2
    assert source.reads == 3


async def test_a_failure_is_everybodys_and_the_next_read_is_new() -> None:
    source, shared = Source(), SharedReads[int]()
    source.value = -1
    asked = [asyncio.create_task(shared.get("k", source.read)) for _ in range(3)]
    await turn()
    await source.let(1)
    await turn()
    await source.let(2)
    assert all(isinstance(each, ValueError) for each in await asyncio.gather(*asked, return_exceptions=True))
    source.value = 5
    again = asyncio.create_task(shared.get("k", source.read))
    await turn()
    await source.let(3)
    assert await again == 5


async def test_one_who_gives_up_takes_nothing_from_the_others() -> None:
    source, shared = Source(), SharedReads[int]()
    impatient = asyncio.create_task(shared.get("k", source.read))
    await turn()
    patient = asyncio.create_task(shared.get("k", source.read))
    await turn()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    await source.let(1)
    await turn()
    await source.let(2)
    assert await patient == 0


async def test_different_reads_do_not_wait_for_each_other() -> None:
    source, shared = Source(), SharedReads[int]()
    a, b = (asyncio.create_task(shared.get(key, source.read)) for key in "ab")
    await turn()
    assert source.reads == 2
    for gate in source.gates:
        gate.set()
    assert (await a, await b) == (0, 0)


async def test_a_loop_that_ends_in_the_middle_leaves_nothing_behind() -> None:
    source, shared = Source(), SharedReads[int]()
    askers = []
    for _ in range(2):
        askers.append(asyncio.create_task(shared.get("k", source.read)))
        await turn()
    shared._next["k"].cancel()  # as asyncio.run does with every task
    await turn()
    again = asyncio.create_task(shared.get("k", source.read))
    await source.let(1)
    await source.let(2)
    assert (await askers[0], await again) == (0, 0)
    assert not shared._running and not shared._next


@dataclass
class Routes:
    """What is behind the edge: it answers with the query and the number of the request, once it may."""

    asked: list[str] = field(default_factory=list)
    may: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = scope["query_string"].decode()
        self.asked.append(query)
        await self.may.wait()
        if query == "fail":
            raise ValueError("broken")
        body = f"{query} {len(self.asked)}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-of", scope["path"].encode())]})
        await send({"type": "http.response.body", "body": body[:2], "more_body": True})
        await send({"type": "http.response.body", "body": body[2:]})


@asynccontextmanager
async def asker(routes: Routes) -> AsyncIterator[httpx.AsyncClient]:
    access = Access.of({"vic": TOKENS["viewer"]}, {"olga": TOKENS["operator"]}, {})
    dlq = DeadLetterQueue()
    edge = ApiMiddleware(routes, dlq=dlq, access=access, max_body_bytes=1000, via="http", shared=["/list"])

    async def marking(scope: Scope, receive: Receive, send: Send) -> None:
        """An app around this one, which adds to the headers in place, as Starlette's middleware does."""

        async def marked(message: dict[str, object]) -> None:
            if isinstance(headers := message.get("headers"), list):
                headers.append((b"x-mark", b"1"))
            await send(message)

        await edge(scope, receive, marked)  # type: ignore[arg-type]

    transport = httpx.ASGITransport(marking)
    async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
        yield client


async def ask(client: httpx.AsyncClient, path: str, role: str = "viewer") -> httpx.Response:
    return await client.get(path, headers=bearer(role) if role in TOKENS else {})


async def test_the_same_request_of_many_passes_the_edge_once_for_those_who_wait() -> None:
    routes = Routes()
    async with asyncio.timeout(10), asker(routes) as client:
        first = asyncio.create_task(ask(client, "/list?a"))
        while not routes.asked:
            await turn()
        others = [asyncio.create_task(ask(client, "/list?a", role)) for role in ("viewer", "operator") * 10]
        another = asyncio.create_task(ask(client, "/list?b"))
        stranger = asyncio.create_task(ask(client, "/list?a", "nobody"))
        assert (await stranger).status_code == 401
        while len(routes.asked) < 2:
            await turn()
        assert routes.asked == ["a", "b"]  # who came later waits for a read that has not begun
        routes.may.set()
        assert (await first).text == "a 2"
        assert (await another).text == "b 2"
        answers = await asyncio.gather(*others)
    assert {answer.text for answer in answers} == {"a 3"}
    assert {tuple(answer.headers.multi_items()) for answer in answers} == {(("x-of", "/list"), ("x-mark", "1"))}
    assert routes.asked == ["a", "b", "a"]


async def test_what_is_not_the_same_for_all_is_not_shared() -> None:
    routes = Routes()
    routes.may.set()
    async with asker(routes) as client:
        await asyncio.gather(*(ask(client, "/one") for _ in range(3)), *(client.post("/list") for _ in range(3)))
    assert len(routes.asked) == 3  # a post without a token gets nowhere
    async with asker(routes) as client:
        posts = [client.post("/list", headers=bearer("operator")) for _ in range(3)]
        assert {answer.status_code for answer in await asyncio.gather(*posts)} == {200}
    assert len(routes.asked) == 6


async def test_what_goes_wrong_goes_wrong_for_those_who_share_it_and_nobody_after() -> None:
    routes = Routes()
    routes.may.set()
    async with asker(routes) as client:
        failed = await asyncio.gather(*(ask(client, "/list?fail") for _ in range(5)), return_exceptions=True)
        assert [str(each) for each in failed] == ["broken"] * 5
        assert (await ask(client, "/list?ok")).status_code == 200

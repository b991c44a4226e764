"""The limits of a body, idempotency keys, HEAD, and reads that several clients share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from mahavishnu.core.api import Access
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http import middleware
from mahavishnu.http.middleware import ApiMiddleware, Receive, Scope, Send, SharedReads
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.stores.base import Result
from mahavishnu.testing import turn
from tests.support.api import TOKENS, URL, ApiHarness, bearer

NEW = {"task_id": "wf", "error": "connection reset"}
KEY = {"Idempotency-Key": "k"}


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


async def test_a_large_body_is_refused_with_and_without_its_length(api: ApiHarness) -> None:
    large = b'{"error": "' + b"x" * 30_000 + b'"}'

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 1000):
            yield large[start : start + 1000]

    for content in (large, parts()):
        answer = await api.client.post("/api/v1/dlq", content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, "20000" in answer.json()["detail"]) == (413, True)


async def test_a_body_without_an_end_is_not_waited_for(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.01)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    answer = await api.client.post("/api/v1/dlq", content=endless(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (408, "urn:mahavishnu:problem:request-timeout")
    assert "nothing was done" in answer.json()["detail"]


async def test_an_idempotency_key_has_one_effect_and_replays_the_first_response(api: ApiHarness) -> None:
    key = {"Idempotency-Key": "abc"}
    first = await api.post("/dlq", NEW, headers=key)
    again = await api.post("/dlq", NEW, headers=key)
    assert (again.status_code, again.content) == (first.status_code, first.content) and first.status_code == 201
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["etag"] == first.headers["etag"]
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.occurrences == 1
    other = await api.post("/dlq", {**NEW, "error": "another"}, headers=key)
    assert (other.status_code, other.json()["type"].rpartition(":")[2]) == (422, "idempotency-key-reused")
    assert (await api.post("/dlq", NEW, headers={"Idempotency-Key": "k" * 201})).status_code == 400
    api.clock.advance(hours=48)
    await api.post("/dlq", NEW, headers=key)
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.occurrences == 2


async def test_a_refusal_is_replayed(api: ApiHarness) -> None:
    first = await api.post("/dlq/wf/requeue", headers={"Idempotency-Key": "k"})
    await api.keep("wf")
    again = await api.post("/dlq/wf/requeue", headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code, again.content) == (400, 400, first.content)


async def test_of_twenty_concurrent_requests_with_one_key_one_has_an_effect(api: ApiHarness) -> None:
    answers = await asyncio.gather(*(api.post("/dlq", NEW, headers={"Idempotency-Key": "k"}) for _ in range(20)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert 201 in {answer.status_code for answer in answers}
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.occurrences == 1


async def test_the_keys_of_two_people_are_two_keys(guarded_api: ApiHarness) -> None:
    key = {"Idempotency-Key": "k"}
    await guarded_api.post("/dlq", NEW, headers=bearer("operator") | key)
    other = await guarded_api.post("/dlq", {**NEW, "task_id": "b"}, headers=bearer("admin") | key)
    assert other.status_code == 201


async def test_a_response_that_cannot_be_stored_is_sent_all_the_same(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(api.dlq.replies, "finish", away)
    answer = await api.post("/dlq", NEW, headers=KEY)
    assert (answer.status_code, answer.json()["task_id"]) == (201, "wf")
    began = api.clock.now()
    api.clock.advance(hours=23)  # nobody answers any more, and it was done: to begin it anew would do it twice
    again = await api.post("/dlq", NEW, headers=KEY)
    assert (again.status_code, again.json()["type"].rpartition(":")[2]) == (409, "idempotency-unfinished")
    assert (again.json()["began_at"], "new key" in again.json()["detail"]) == (instant_text(began), True)
    assert (await api.get("/dlq/wf")).json()["occurrences"] == 1


async def test_replies_that_cannot_be_removed_are_left_for_the_next_time(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.post("/dlq", NEW, headers=KEY)
    api.clock.advance(hours=48)
    asked = 0

    async def refused(records: Any) -> list[Result[Any]]:
        nonlocal asked
        asked += 1
        assert asked < 3, "it asks for ever"
        return [StoreUnavailable("read only") for _ in records]

    monkeypatch.setattr(api.dlq.replies._replies, "remove", refused)
    await api.dlq.replies.clean()
    assert asked == 1


async def test_a_key_is_free_after_its_old_reply_is_removed(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = api.dlq.replies
    assert await replies.begin("k", "first") is None
    api.clock.advance(hours=48)
    real, writes = replies._replies.write, 0

    async def slow(records: Any) -> Any:
        nonlocal writes
        writes += 1
        assert writes < 9, "it asks for ever"
        if records[0].version is not None:
            await replies.clean()  # by another process, between a look and a write
        return await real(records)

    monkeypatch.setattr(replies._replies, "write", slow)
    assert await replies.begin("k", "again") is None


async def test_a_request_that_may_have_had_its_effect_is_not_repeated(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters: Any = type(api.dlq.context.letters.records)
    real, lost = letters.write, [True, False]

    async def write(self: Any, records: Any) -> Any:
        if records[0].key != "wf":
            return await real(self, records)
        if lost[0]:
            await real(self, records)
        raise StoreUnavailable("the answer was lost", maybe_written=lost[0])

    monkeypatch.setattr(letters, "write", write)
    assert (await api.post("/dlq", NEW, headers=KEY)).status_code == 503
    lost.pop(0)
    assert (await api.post("/dlq", NEW, headers={"Idempotency-Key": "sure"})).status_code == 503
    monkeypatch.setattr(letters, "write", real)
    again = await api.post("/dlq", NEW, headers=KEY)
    assert (again.status_code, again.json()["type"].rpartition(":")[2]) == (409, "idempotency-unfinished")
    letter = await api.dlq.get_task("wf")
    assert letter is not None and letter.occurrences == 1
    assert (await api.post("/dlq", NEW, headers={"Idempotency-Key": "sure"})).status_code == 201  # nothing was done


async def test_head_is_answered_without_a_body(api: ApiHarness, guarded_api: ApiHarness) -> None:
    await api.keep("wf")
    for path in ("/healthz", "/readyz", "/metrics", "/api/v1/dlq", "/api/v1/dlq/wf", "/api/v1/openapi.json"):
        whole, head = [await api.client.request(method, path) for method in ("GET", "HEAD")]
        assert (head.status_code, head.content) == (200, b"")
        assert {*head.headers.items()} - {*whole.headers.items()} == set()
        assert head.headers["content-length"] == str(len(whole.content))
    assert (await guarded_api.client.head("/healthz")).status_code == 200
    assert (await guarded_api.client.head("/api/v1/dlq")).status_code == 401


async def test_calls_during_a_read_share_the_next_one() -> None:
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


async def test_a_failure_reaches_all_sharers_and_the_next_read_is_new() -> None:
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


async def test_a_cancelled_call_does_not_cancel_the_shared_read() -> None:
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


async def test_an_event_loop_that_ends_during_a_read_leaves_nothing_behind() -> None:
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


async def test_equal_requests_that_wait_are_answered_by_one_read() -> None:
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


async def test_a_response_that_depends_on_who_asks_is_not_shared() -> None:
    routes = Routes()
    routes.may.set()
    async with asker(routes) as client:
        await asyncio.gather(*(ask(client, "/one") for _ in range(3)), *(client.post("/list") for _ in range(3)))
    assert len(routes.asked) == 3  # a post without a token gets nowhere
    async with asker(routes) as client:
        posts = [client.post("/list", headers=bearer("operator")) for _ in range(3)]
        assert {answer.status_code for answer in await asyncio.gather(*posts)} == {200}
    assert len(routes.asked) == 6


async def test_an_error_reaches_those_who_share_the_read_and_nobody_after() -> None:
    routes = Routes()
    routes.may.set()
    async with asker(routes) as client:
        failed = await asyncio.gather(*(ask(client, "/list?fail") for _ in range(5)), return_exceptions=True)
        assert [str(each) for each in failed] == ["broken"] * 5
        assert (await ask(client, "/list?ok")).status_code == 200

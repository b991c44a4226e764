"""How the store gets at OpenSearch: addresses, clients, event loops, and secrets, which stay where they are."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from opensearchpy import AsyncOpenSearch, JSONSerializer, OpenSearch

from mahavishnu.model.errors import InvalidInput, StoreError, StoreMisconfigured, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.base import get_one, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import make_letter
from tests.support.opensearch_proxy import Forward, Proxy, Request, answer, error, lose_request

pytestmark = pytest.mark.opensearch
PATIENT = 30.0
SECRET = "s3cret-and-more"


@pytest.fixture
async def proxy(opensearch_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(opensearch_url) as proxy:
        yield proxy


@pytest.fixture
def synchronous(opensearch_url: str) -> Iterator[OpenSearch]:
    client = OpenSearch(opensearch_url)
    yield client
    client.close()


async def use(store: OpenSearchStore) -> None:
    collection = store.collection(LETTERS)
    many = [make_letter(task_id=f"m{number}") for number in range(700)]
    results = await asyncio.gather(collection.write(many), *(collection.write([letter]) for letter in many[:20]))
    assert sum(isinstance(each, DeadLetter) for result in results for each in result) == 700
    assert await get_one(collection, "m3") == many[3]
    page = await collection.find(Query(limit=100))
    assert page.next is not None
    assert len((await collection.find(Query(limit=100), page.next)).items) == 100
    assert (await collection.tally(Query())).total.count == 700
    assert await collection.remove(page.items) == [True] * 100
    assert (await store.health()).status == "ok"


async def test_a_synchronous_client_works_in_threads(
    synchronous: OpenSearch, opensearch_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()
    inner = synchronous.transport.perform_request

    def perform_request(*args: Any, **options: Any) -> Any:
        threads.add(threading.get_ident())
        return inner(*args, **options)

    monkeypatch.setattr(synchronous.transport, "perform_request", perform_request)
    async with OpenSearchStore(client=synchronous, prefix=opensearch_prefix, timeout=PATIENT) as store:
        await use(store)
    assert threads
    assert threading.get_ident() not in threads, "the event loop was not held up"
    assert synchronous.info()["version"], "it is left open"


async def test_an_asynchronous_client_works_and_is_left_open(opensearch_url: str, opensearch_prefix: str) -> None:
    async with AsyncOpenSearch(opensearch_url) as client:
        async with OpenSearchStore(client=client, prefix=opensearch_prefix, timeout=PATIENT) as store:
            await use(store)
        assert (await client.info())["version"]


async def test_a_client_that_changes_numbers_is_refused(opensearch_url: str, opensearch_prefix: str) -> None:
    class Lossy(JSONSerializer):
        def loads(self, s: str) -> Any:
            return float(s) if s.isdigit() else super().loads(s)

    async with AsyncOpenSearch(opensearch_url, serializer=Lossy()) as client:
        with pytest.raises(StoreMisconfigured, match="serializer"):
            await OpenSearchStore(client=client, prefix=opensearch_prefix).open()


@pytest.mark.parametrize("synchronous_client", [True, False])
async def test_a_given_client_that_hangs_is_not_waited_for_beyond_the_time_out(
    proxy: Proxy, opensearch_prefix: str, synchronous_client: bool, opensearch_url: str
) -> None:
    async with OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT):
        pass
    client: Any = (OpenSearch if synchronous_client else AsyncOpenSearch)(proxy.url, timeout=PATIENT, max_retries=9)
    store = OpenSearchStore(client=client, prefix=opensearch_prefix, timeout=3.0)
    await store.open()
    proxy.plan("_bulk", *[lose_request] * 9999)
    proxy.plan("_mget", *[lose_request] * 9999)
    async with asyncio.timeout(PATIENT):
        with pytest.raises(StoreUnavailable) as problem:
            await write_one(store.collection(LETTERS), make_letter())
    assert problem.value.maybe_written
    await store.close()
    closing = client.close()
    if not synchronous_client:
        await closing


def test_every_event_loop_gets_its_own_connections(opensearch_url: str, opensearch_prefix: str) -> None:
    """As a program does that calls `asyncio.run` for each of its commands."""
    store = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT)
    collection = store.collection(LETTERS)
    asyncio.run(store.open())
    asyncio.run(collection.write([make_letter(task_id="a")]))
    (letter,) = asyncio.run(collection.get(["a"]))
    assert isinstance(letter, DeadLetter)

    async def several() -> None:
        await asyncio.gather(*(collection.find(Query()) for _ in range(5)), collection.write([letter]))

    asyncio.run(several())
    asyncio.run(several())
    assert asyncio.run(store.health()).status == "ok"
    asyncio.run(store.close())
    asyncio.run(store.close())


async def test_before_opening_and_after_closing_it_says_so(opensearch_url: str, opensearch_prefix: str) -> None:
    store = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT)
    collection = store.collection(LETTERS)
    for _ in range(2):
        for call in (collection.write([make_letter()]), collection.get(["a"]), collection.find(Query())):
            with pytest.raises(StoreUnavailable, match="not open"):
                await call
        assert (await store.health()).status == "down"
        async with store:
            assert await write_one(collection, make_letter()) is not None


async def test_an_error_leaves_nothing_open(opensearch_url: str, opensearch_prefix: str) -> None:
    store = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=PATIENT, shards=0)
    with pytest.raises(StoreMisconfigured, match="number_of_shards"):
        await store.open()


@pytest.mark.parametrize(
    "url",
    ["", "localhost:9200", "opensearch://host", "http://", "http://host:port", "http://host?x=1", "http://host:99999"],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidInput):
        OpenSearchStore(url)


def test_what_cannot_be_given_together() -> None:
    with pytest.raises(InvalidInput, match="either"):
        OpenSearchStore()
    with pytest.raises(InvalidInput, match="either"):
        OpenSearchStore("http://host", client=object())
    for prefix in ("", "Upper", "_x", "a/b", "a*", "x" * 200):
        with pytest.raises(InvalidInput, match="name of an index"):
            OpenSearchStore("http://host", prefix=prefix)


def chain(problem: BaseException | None) -> str:
    """Everything that a traceback, or a curious logger, could show of an exception."""
    if problem is None:
        return ""
    inside = f"{chain(problem.__cause__)} {chain(problem.__context__)}"
    return f"{problem!r} {problem} {problem.args!r} {vars(problem)!r} {inside}"


TROUBLES = {
    "wrong password": answer(401, b"Unauthorized"),
    "forbidden": error(403, "security_exception", f"no permissions for [x] and User [name={SECRET}, backend_roles=[]]"),
    "no answer": lose_request,
    "not HTTP": answer(200, b"\x00\x01"),
    "a proxy's page": answer(502, b"<html>Bad gateway</html>"),
    "overloaded": error(429, "circuit_breaking_exception"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("given_as", ["user and password", "header", "url"])
async def test_secrets_are_not_told(
    proxy: Proxy, opensearch_prefix: str, given_as: str, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options: dict[str, Any] = {"prefix": opensearch_prefix, "timeout": 0.5}
    url = proxy.url
    match given_as:
        case "user and password":
            options |= {"user": SECRET, "password": SECRET}
        case "header":
            options |= {"headers": {"Authorization": f"Bearer {SECRET}", "X-Key": SECRET}}
        case _:
            url = url.replace("http://", f"http://{SECRET}:{SECRET}@")
    proxy.plan("", *[TROUBLES[trouble]] * 999)
    store = OpenSearchStore(url, **options)
    with pytest.raises(StoreError) as problem:
        await store.open()
    health = await store.health()
    await store.close()
    told = [chain(problem.value), repr(store), repr(store.collection(LETTERS)), repr(health), caplog.text]
    told += [repr(vars(record)) for record in caplog.records]
    sent = b"".join(request.head for request in proxy.requests)
    assert (SECRET.encode() in sent) == (given_as == "header"), "the header has been used"
    assert (b"authorization: basic" in sent.lower()) == (given_as != "header")
    for text in told:
        assert SECRET not in text
        assert "Basic" not in text


@pytest.mark.parametrize("body", [{"hello": "world"}, [], "text"])
async def test_something_else_that_answers(proxy: Proxy, opensearch_prefix: str, body: object) -> None:
    proxy.plan("", answer(200, body))
    with pytest.raises(StoreUnavailable, match="does not answer like OpenSearch"):
        await OpenSearchStore(proxy.url, prefix=opensearch_prefix, kinds=[LETTERS], timeout=PATIENT).open()
    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, kinds=[], timeout=PATIENT) as store:
        proxy.plan("", answer(200, body))
        with pytest.raises(StoreUnavailable, match="does not answer like OpenSearch"):
            await write_one(store.collection(LETTERS), make_letter())
        proxy.plan("_bulk", answer(200, body))
        assert await write_one(store.collection(LETTERS), make_letter()) is not None


async def test_a_redirect_is_not_followed(proxy: Proxy, opensearch_prefix: str, opensearch_url: str) -> None:
    """It would turn a search into one for everything."""

    async def redirect(request: Request, forward: Forward) -> bytes:
        target = opensearch_url + request.line.partition(" ")[2]
        return f"HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n".encode()

    async with OpenSearchStore(proxy.url, prefix=opensearch_prefix, kinds=[LETTERS], timeout=1.0) as store:
        letters = store.collection(LETTERS)
        await letters.write([make_letter(task_id="a"), make_letter(task_id="b")])
        assert (await letters.tally(Query((Is("task_id", ("a",)),)))).total.count == 1
        proxy.plan("_search", *[redirect] * 999)
        with pytest.raises(StoreUnavailable, match="302"):
            await letters.tally(Query((Is("task_id", ("a",)),)))


async def test_a_password_may_have_any_characters(proxy: Proxy, opensearch_prefix: str) -> None:
    proxy.plan("", answer(401, b"Unauthorized"))
    with pytest.raises(StoreMisconfigured):
        await OpenSearchStore(proxy.url, prefix=opensearch_prefix, user="ann", password="pä😀:").open()
    assert b"YW5uOnDDpPCfmIA6" in proxy.requests[0].head


async def test_a_certificate_file_that_is_none(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    for text in (None, "not a certificate"):
        if text:
            wrong.write_text(text)
        with pytest.raises(StoreMisconfigured, match="ca="):
            await OpenSearchStore("https://127.0.0.1:9", ca=wrong).open()


async def test_tls_to_a_server_that_speaks_none(opensearch_url: str) -> None:
    with pytest.raises(StoreMisconfigured, match="TLS"):
        await OpenSearchStore(opensearch_url.replace("http:", "https:"), timeout=PATIENT).open()


async def test_an_unverified_certificate_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreUnavailable):
        await OpenSearchStore("https://127.0.0.1:9", verify=False, timeout=0.2).open()
    assert "not verified" in caplog.text


@pytest.mark.parametrize(("address", "warned"), [("http://127.0.0.1:9", False), ("http://0.0.0.0:9", True)])
async def test_letters_that_leave_this_machine_unencrypted_are_warned_of(
    address: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StoreUnavailable):
        await OpenSearchStore(address, timeout=0.2).open()
    assert ("unencrypted; use opensearchs:" in caplog.text) is warned


def test_other_stores_do_without_the_client() -> None:
    code = "import sys, mahavishnu.stores.memory, mahavishnu.stores.sqlite, mahavishnu.stores.urls; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"opensearchpy", "aiohttp", "tenacity"} & set(loaded)

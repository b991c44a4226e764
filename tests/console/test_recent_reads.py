"""Answers that many share: how old they may be, and that whoever changes something sees it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import httpx
import pytest

from mahavishnu.console.recent_reads import RecentReads
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import ManualClock
from tests.access.test_page import log_in
from tests.core.test_api_namespaces import serve
from tests.support.api import ApiHarness, bearer
from tests.support.pages import HTML, read


class Source:
    """Something that is read; a read can be held up."""

    def __init__(self) -> None:
        self.value, self.reads = 0, 0
        self.free, self.began, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.free.set()

    async def read(self) -> int:
        self.reads += 1
        value = self.value
        self.began.set()
        await self.free.wait()
        self.ended.set()
        return value


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_all_who_ask_share_one_read(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)
    found = await asyncio.gather(*(reads.get("a", source.read) for _ in range(20)))
    assert (source.reads, {each.value for each in found}) == (1, {0})
    await reads.get("b", source.read)
    assert source.reads == 2


@pytest.mark.parametrize(("took", "pause"), [(0.01, 2.0), (0.3, 3.0), (0.4, 4.0), (0.8, 3.4), (3.0, 2.0)])
async def test_what_took_long_is_read_again_later(clock: ManualClock, took: float, pause: float) -> None:
    reads, count = RecentReads(clock, clock), 0

    async def read_slowly() -> int:
        nonlocal count
        count += 1
        clock.advance(took)
        return count

    await reads.get("a", read_slowly)
    began = clock.monotonic() - took
    for after in (pause - 0.01, pause):
        clock.advance(max(0.0, began + after - clock.monotonic()))
        assert (reads.peek("a") is None) is (clock.monotonic() - began >= pause)


async def test_an_answer_that_took_long_outlives_a_change_for_longer(clock: ManualClock) -> None:
    reads, count = RecentReads(clock, clock), 0

    async def read_slowly() -> int:
        nonlocal count
        count += 1
        clock.advance(0.4)
        return count

    await reads.get("a", read_slowly)
    reads.outdate()
    clock.advance(3.5)
    assert (await reads.get("a", read_slowly)).value == 1
    clock.advance(0.2)
    assert (await reads.get("a", read_slowly)).value == 2


async def test_an_old_answer_is_renewed_while_nobody_waits(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)
    first = await reads.get("a", source.read)
    source.value = 1
    clock.advance(3)
    source.free.clear()
    source.ended.clear()
    assert await reads.get("a", source.read) == first  # at once, although the read hangs
    source.free.set()
    await source.ended.wait()
    renewed = await reads.get("a", source.read)
    assert (renewed.value, renewed.at - first.at, source.reads) == (1, timedelta(seconds=3), 2)


async def test_nobody_gets_what_is_older_than_five_seconds(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)
    await reads.get("a", source.read)
    source.value = 1
    clock.advance(5)
    assert (await reads.get("a", source.read)).value == 1


async def test_after_a_change_an_answer_from_before_lasts_a_second(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)
    await reads.get("a", source.read)
    source.value = 1
    reads.outdate()
    assert (await reads.get("a", source.read)).value == 0
    clock.advance(1)
    assert (await reads.get("a", source.read)).value == 1


async def test_a_read_that_began_before_a_change_answers_nobody_after_it(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)
    source.free.clear()
    before = asyncio.ensure_future(reads.get("a", source.read))
    await source.began.wait()
    source.began.clear()
    source.value = 1
    reads.forget()
    after = asyncio.ensure_future(reads.get("a", source.read))
    await source.began.wait()
    source.free.set()
    assert ((await before).value, (await after).value) == (0, 1)
    assert (await reads.get("a", source.read)).value == 1


async def test_a_text_of_several_answers_is_made_again_when_one_of_them_is_new(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)
    first, other = await reads.get("a", source.read), await reads.get("b", source.read)
    texts = iter(range(9))

    def text() -> str:
        return str(next(texts))

    assert [first.beside(other).text("frame", text), first.beside(other).text("frame", text)] == ["0", "0"]
    assert first.text("frame", text) == "1"
    clock.advance(1)
    reads.forget()
    newer = await reads.get("b", source.read)
    assert first.beside(newer).text("frame", text) == "2"
    assert (first.beside(newer).at, newer.beside(first).at) == (first.at, first.at) != (newer.at, newer.at)


async def test_a_read_that_fails_fails_for_those_who_wait(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)

    failed = asyncio.Event()

    async def fail() -> int:
        failed.set()
        raise OSError("no disk")

    kept = await reads.get("a", source.read)
    clock.advance(3)
    assert await reads.get("a", fail) == kept  # still true as of then
    await failed.wait()
    clock.advance(3)
    with pytest.raises(OSError, match="no disk"):
        await reads.get("a", fail)
    assert (await reads.get("a", source.read)).value == 0


async def test_a_shared_text_has_the_proofs_of_whoever_looks(guarded_api: ApiHarness) -> None:
    """Two logins of one person are shown one text, each with its own proof; so are two loads, each with its own key."""
    proofs, keys = set(), set()
    await guarded_api.dlq.enqueue("wf_1", {}, [], "card declined")
    group = (await guarded_api.dlq.groups.list()).items[0].fingerprint
    for _ in range(2):
        await log_in(guarded_api)
        page = await read(guarded_api, f"/groups/{group}")
        proofs.add(_between(page, 'name="form_token" value="'))
        keys |= {_between(page, 'name="idempotency_key" value="')}
        again = await read(guarded_api, f"/groups/{group}")
        keys |= {_between(again, 'name="idempotency_key" value="')}
        assert _between(again, 'name="form_token" value="') in proofs
        said = await guarded_api.client.post(
            "/logout", data={"form_token": _between(again, 'name="form_token" value="')}
        )
        assert said.status_code == 303
    assert (len(proofs), len(keys)) == (2, 4)


async def test_what_somebody_has_done_is_on_their_next_page(guarded_api: ApiHarness) -> None:
    """The clock stands still: nothing is renewed by itself."""
    await guarded_api.dlq.enqueue("wf_1", {}, [], "card declined")
    assert "wf_1" in await read(guarded_api, "/letters", "operator")
    done = await guarded_api.client.post("/api/v1/dlq/wf_1/resolve", json={}, headers=bearer("operator"))
    assert done.status_code == 200
    assert "wf_1" not in await read(guarded_api, "/letters", "operator")


async def test_who_is_not_known_makes_nobody_wait(guarded_api: ApiHarness) -> None:
    """What is kept for those who look stays, whatever a stranger sends; a change that is refused makes it be read."""
    recent = guarded_api.client._transport.app.state.console.recent  # type: ignore[attr-defined]
    await read(guarded_api, "/letters", "operator")
    kept = {**recent._kept}
    for path in ("/login", "/letters/x/resolve", "/api/v1/dlq", "/nothing"):
        for sent in ({"data": {"token": "guess"}}, {"content": b"\xff"}):
            answer = await guarded_api.client.post(path, headers=HTML, **sent)
            assert answer.status_code in (303, 401, 403, 422, 429)
    assert recent._kept == kept
    refused = await guarded_api.client.post("/api/v1/dlq/x/resolve", json={}, headers=bearer("operator"))
    assert refused.status_code == 404 and not recent._kept


async def test_what_somebody_has_done_at_one_server_is_on_their_next_page_of_another() -> None:
    """Behind a proxy; what the other one has read a moment ago is for everybody else."""
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        red, blue = [await stack.enter_async_context(serve(store, "shop")) for _ in range(2)]
        await red.dlq.enqueue("wf_1", {}, [], "card declined")
        assert "1 letter" in await read(blue, "/letters")
        done = await red.client.post("/letters/wf_1/resolve", headers=HTML)
        for page in ("/letters", "/letters", "/"):
            shown = await blue.client.get(page, headers={**HTML, "Cookie": cookies_of(done)})
            assert "wf_1" not in shown.text and 'id="n-letters" class="n">0<' in shown.text, page


async def test_what_began_before_somebody_asked_is_no_answer_to_them(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)
    await reads.get("a", source.read)
    clock.advance(1)
    source.value, since = 1, reads.now()
    assert reads.peek("a", since) is None and reads.peek("a") is not None
    assert (await reads.get("a", source.read, since)).value == 1
    assert ((await reads.get("a", source.read, since)).value, source.reads) == (1, 2), "read once since"


async def test_a_read_under_way_is_no_answer_to_who_asks_for_a_later_one(clock: ManualClock) -> None:
    source, reads = Source(), RecentReads(clock, clock)
    source.free.clear()
    before = asyncio.ensure_future(reads.get("a", source.read))
    await source.began.wait()
    source.began.clear()
    clock.advance(1)
    source.value = 1
    after = asyncio.ensure_future(reads.get("a", source.read, reads.now()))
    await source.began.wait()
    source.free.set()
    assert ((await before).value, (await after).value) == (0, 1)
    assert (await reads.get("a", source.read)).value == 1, "the later one is kept"


def cookies_of(response: httpx.Response) -> str:
    return "; ".join(each.partition(";")[0] for each in response.headers.get_list("set-cookie"))


def _between(text: str, start: str, end: str = '"') -> str:
    return text.partition(start)[2].partition(end)[0]

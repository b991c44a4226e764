"""Each change is sent once to every listener, whoever made it; nothing is polled while nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.events.routes import (
    KEEPALIVE_SECONDS,
    POLL_SECONDS,
    LiveEvent,
    LiveEvents,
    LiveFeed,
    _instant_from_id,
    _texts,
)
from mahavishnu.http.auth import LIFETIME
from mahavishnu.model.permissions import Scope
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock, turn
from tests.support.queues import until


class Listener:
    """A client of the feed, and what it has received."""

    def __init__(self, live: LiveFeed, **since: Any) -> None:
        self.received: list[LiveEvent | None] = []
        self._stream = live.listen(**since)
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async with aclosing(self._stream) as stream:
            async for events in stream:
                self.received += events.events or (None,)

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def ended(self) -> bool:
        return self._task.done()

    @property
    def letters(self) -> list[tuple[str, str]]:
        return [
            (event[2]["task_id"], event[2]["status"])
            for event in self.received
            if event is not None and event[1] == "letter"
        ]

    @property
    def names(self) -> list[str | None]:
        return [event and event[1] for event in self.received]


class FeedHarness:
    """Two processes on one store; `live` is the feed of the first."""

    def __init__(self) -> None:
        self.clock, self.pace, self.faults = ManualClock(), ManualClock(), Faults()
        store = MemoryStore()
        self.polls = 0
        self.here = DeadLetterQueue(store=FaultyStore(store, self.faults), clock=self.clock)
        self.elsewhere = DeadLetterQueue(store=store, clock=self.clock)
        self.live = LiveFeed(self.here, self.pace)
        self.listeners: list[Listener] = []

    async def listener(self, **since: Any) -> Listener:
        """A client that has begun to listen."""
        self.listeners.append(Listener(self.live, **since))
        await turn()
        await self.pace.sleeping()
        return self.listeners[-1]

    async def poll(self) -> None:
        """Let the next poll happen, and all clients receive what it sends."""
        await self.pace.sleeping()
        self.pace.advance(POLL_SECONDS / 5)
        await self.pace.sleeping()
        self.pace.advance(POLL_SECONDS)
        await self.pace.sleeping()
        await turn()
        await turn()


@asynccontextmanager
async def feed_harness() -> AsyncIterator[FeedHarness]:
    made = FeedHarness()
    async with made.here, made.elsewhere:
        yield made
        for listener in made.listeners:
            await listener.leave()


@pytest.fixture
async def feed() -> AsyncIterator[FeedHarness]:
    async with feed_harness() as made:
        yield made


async def test_a_change_in_this_process_is_sent_at_once(feed: FeedHarness) -> None:
    listener = await feed.listener()
    await feed.here.enqueue("wf", {}, [], "connection reset")
    feed.pace.advance(POLL_SECONDS / 5)  # only the moment between two polls passes
    await until(lambda: listener.received)
    assert listener.letters == [("wf", "pending")]


async def test_a_change_of_another_process_is_sent_once(feed: FeedHarness) -> None:
    listeners = [await feed.listener(), await feed.listener()]
    await feed.here.enqueue("here", {}, [], "connection reset")
    await feed.elsewhere.enqueue("there", {}, [], "connection reset")
    for _ in range(5):
        await feed.poll()
    for listener in listeners:
        assert sorted(listener.letters) == [("here", "pending"), ("there", "pending")]
    feed.clock.advance(1)
    await feed.elsewhere.letters.resolve("here")
    await feed.poll()
    await feed.poll()
    for listener in listeners:
        assert listener.letters[2:] == [("here", "completed")]


async def test_two_changes_in_the_same_instant_are_two(feed: FeedHarness) -> None:
    listener = await feed.listener()
    await feed.elsewhere.enqueue("wf", {}, [], "connection reset")
    await feed.poll()
    await feed.elsewhere.letters.resolve("wf")
    await feed.poll()
    assert listener.letters == [("wf", "pending"), ("wf", "completed")]


async def test_changes_of_runs_and_groups_are_sent(feed: FeedHarness) -> None:
    listener = await feed.listener()
    letter = await feed.here.enqueue("wf", {}, [], ConnectionError("reset"))
    await feed.elsewhere.groups.update(str(letter.fingerprint), by="ann", state="investigating")
    run = await feed.elsewhere.runs.start("archive", queue="default", by="ann")
    await feed.poll()
    assert {event[1]: event[2] for event in listener.received if event and event[1] == "group"}["group"][
        "state"
    ] == "investigating"
    assert run.run_id in [event[2]["run_id"] for event in listener.received if event and event[1] == "run"]


async def test_a_client_that_was_away_gets_what_it_missed(feed: FeedHarness) -> None:
    first = await feed.listener()
    await feed.elsewhere.enqueue("a", {}, [], "connection reset")
    await feed.poll()
    (event,) = first.received
    assert event is not None
    await first.leave()
    feed.clock.advance(minutes=10)
    await feed.elsewhere.enqueue("b", {}, [], "connection reset")
    feed.clock.advance(minutes=10)
    await feed.elsewhere.enqueue("c", {}, [], "connection reset")
    again = await feed.listener(since=feed.clock.now() - timedelta(minutes=20))
    await until(lambda: len(again.letters) >= 3)
    await feed.poll()
    assert [task_id for task_id, _ in again.letters][:3] == ["a", "b", "c"]  # the last one that was sent, once more
    assert event[0] == "2026-01-01T00:00:00.000Z"
    fresh = await feed.listener()
    feed.clock.advance(minutes=1)
    await feed.poll()
    assert fresh.received == []


async def test_reading_missed_events_takes_none_from_other_listeners(feed: FeedHarness) -> None:
    listener = await feed.listener()
    await feed.elsewhere.enqueue("wf", {}, [], "connection reset")
    late = await feed.listener(since=feed.clock.now())
    await until(lambda: late.letters)
    await feed.poll()
    assert listener.letters == [("wf", "pending")]


async def test_a_change_while_missed_events_are_read_is_sent(feed: FeedHarness) -> None:
    listener = await feed.listener()
    hold = feed.faults.hold("find", after=True)  # the letters were read, the runs not yet
    late = Listener(feed.live, since=feed.clock.now())
    feed.listeners.append(late)
    await hold.wait_for_call()
    await feed.elsewhere.enqueue("wf", {}, [], "connection reset")
    await feed.poll()
    assert listener.letters == [("wf", "pending")]
    hold.release()
    await until(lambda: late.letters)
    assert late.letters == [("wf", "pending")]


async def test_a_slow_client_is_told_to_read_again(feed: FeedHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahavishnu.events.routes._MAX_QUEUED", 2)
    slow = feed.live.listen()
    first = asyncio.ensure_future(anext(slow))
    quick = await feed.listener()
    for number in range(5):
        await feed.elsewhere.enqueue(f"wf_{number}", {}, [], "connection reset")
        await feed.poll()
    first_polled = await first
    rest = [await anext(slow) for _ in range(2)]
    await slow.aclose()
    assert ("", "many", {"of": "everything"}) in [event for each in (first_polled, *rest) for event in each.events]
    assert quick.received


async def test_more_changes_than_one_poll_takes_are_announced(
    feed: FeedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahavishnu.events.routes._MAX_CHANGES", 5)
    listener = await feed.listener()
    for number in range(9):
        await feed.elsewhere.enqueue(f"wf_{number}", {}, [], "connection reset")
    await feed.poll()
    assert [name for name in listener.names if name != "letter"] == ["many"]
    assert listener.received[-1] is not None and listener.received[-1][2] == {"of": "letter"}


async def test_an_outage_of_the_store_and_its_end_are_sent_once(feed: FeedHarness) -> None:
    listener = await feed.listener()
    with feed.faults.unavailable("find"):
        for _ in range(3):
            await feed.poll()
        assert listener.received == [("", "degraded", {"detail": "the store cannot be reached"})]
        late = await feed.listener()
        await feed.poll()
        assert late.names == ["degraded"]
        await feed.elsewhere.enqueue("wf", {}, [], "connection reset")
        feed.clock.advance(minutes=10)
    await feed.poll()
    await feed.poll()
    assert listener.letters == [("wf", "pending")]  # although it was written long ago
    assert listener.names.count("many") == 1
    assert listener.names.count("degraded") == 1


async def test_a_client_that_returns_during_an_outage_is_told_to_read_again(feed: FeedHarness) -> None:
    with feed.faults.unavailable("find"):
        listener = await feed.listener(since=feed.clock.now())
        await until(lambda: len(listener.received) == 2)
        assert sorted(map(str, listener.names)) == ["degraded", "many"]


async def test_a_bug_in_a_poll_ends_the_streams_and_the_next_client_restarts_it(feed: FeedHarness) -> None:
    listener = await feed.listener()

    async def broken(_: object) -> None:
        raise KeyError("a bug")

    with feed.faults.before("find", broken):
        feed.pace.advance(POLL_SECONDS / 5)
        await feed.pace.sleeping()
        feed.pace.advance(POLL_SECONDS)
        await until(lambda: listener.ended)
    await feed.elsewhere.enqueue("wf", {}, [], "connection reset")
    again = await feed.listener()
    await feed.poll()
    assert again.letters == [("wf", "pending")]


async def test_a_poll_that_fails_half_way_forgets_nothing(feed: FeedHarness) -> None:
    from mahavishnu.groups.records import GROUPS

    listener = await feed.listener()
    await feed.elsewhere.enqueue("wf", {}, [], "connection reset")
    with feed.faults.unavailable("find", kind=GROUPS):
        await feed.poll()
    assert listener.letters == []
    await feed.poll()
    assert listener.letters == [("wf", "pending")]


async def test_a_clear_makes_clients_read_again(feed: FeedHarness) -> None:
    listener = await feed.listener()
    await feed.here.enqueue("wf", {}, [], "connection reset")
    await feed.poll()
    await feed.here.clear_all(by="ann")
    await feed.poll()
    assert listener.names == ["letter", "many"]


async def test_nothing_is_polled_without_listeners(feed: FeedHarness) -> None:
    calls: list[Any] = []

    async def count(call: Any) -> None:
        calls.append(call)

    feed.faults.before("find", count)
    await feed.here.enqueue("wf", {}, [], "connection reset")
    calls.clear()
    listener = await feed.listener()
    assert calls
    await listener.leave()
    calls.clear()
    await feed.here.letters.resolve("wf")
    feed.pace.advance(100)
    for _ in range(10):
        await turn()
    assert (calls, feed.pace.sleepers) == ([], 0)


async def test_a_quiet_stream_gets_a_comment(feed: FeedHarness) -> None:
    listener = await feed.listener()
    for _ in range(round(KEEPALIVE_SECONDS / POLL_SECONDS)):
        await feed.poll()
    assert listener.received == [None]


async def test_so_many_other_namespaces_are_polled_at_a_time(
    feed: FeedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahavishnu.events.routes._MOST_OTHERS", 2)
    others, listening = [], []
    for name in ("eu", "us"):
        others.append(feed.live.within(feed.here.in_namespace(name)))
        listening.append(asyncio.ensure_future(anext(others[-1].listen())))
        await turn()
    with pytest.raises(HTTPException, match="2 other namespaces are followed live now"):
        feed.live.within(feed.here.in_namespace("asia"))
    assert feed.live.within(feed.here.in_namespace("us")) is others[1] and feed.live.within(feed.here) is feed.live
    listening[0].cancel()
    await asyncio.wait({listening[0]})
    assert feed.live.within(feed.here.in_namespace("asia")) not in others
    listening[1].cancel()
    await asyncio.wait({listening[1]})


async def test_close_ends_all_streams(feed: FeedHarness) -> None:
    listeners = [await feed.listener(), await feed.listener()]
    await feed.live.close()
    await until(lambda: all(listener.ended for listener in listeners))
    assert feed.pace.sleepers == 0


@pytest.mark.parametrize("odd", ["junk", "7", "2026-01-01", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
async def test_a_foreign_event_id_means_from_now_on(odd: str) -> None:
    assert _instant_from_id(odd) is None
    assert _instant_from_id("2026-01-01T00:00:00.000Z") == ManualClock().now()


async def test_events_as_server_sent_text() -> None:
    async def polls() -> AsyncGenerator[LiveEvents]:
        yield LiveEvents(LiveEvent("2026-01-01T00:00:00.000Z", "letter", {"task_id": "a\nb"}))
        yield LiveEvents()
        yield LiveEvents(LiveEvent("", "degraded", {"detail": "away"}))

    assert [text async for text in _texts(polls(), None, False)] == [
        ": open\n\n",
        'id: 2026-01-01T00:00:00.000Z\nevent: letter\ndata: {"task_id": "a\\nb"}\n\n',
        ": still here\n\n",
        'event: degraded\ndata: {"detail": "away"}\n\n',  # no id: the last one counts on
    ]


class Stream:
    """A browser that listens with the cookie of a login, and what it was sent."""

    def __init__(self, api: Any, cookie: str) -> None:
        self.text = ""
        headers = [(b"host", b"localhost"), (b"cookie", f"mahavishnu_session={cookie}".encode())]
        path = "/api/v1/events"
        scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path}
        scope |= {"raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers}
        self.task = asyncio.create_task(api(scope | {"client": ("127.0.0.1", 1)}, self._receive, self._send))

    async def _receive(self) -> Any:
        await asyncio.Event().wait()  # it stays

    async def _send(self, message: Any) -> None:
        self.text += message.get("body", b"").decode()


async def test_a_stream_ends_with_the_login_of_who_listens() -> None:
    feed = FeedHarness()
    api = create_app(feed.here, access=Access.of({"vic": "look-1", "val": "look-2"}, {}, {}))
    api.state.live = feed.live
    begun = [api.state.sessions.begin(token) for token in ("look-1", "look-2")]
    async with feed.here, feed.elsewhere:
        left, stays = streams = [Stream(api, cookie) for _, cookie in begun]
        await until(lambda: all(": open" in each.text for each in streams))
        await feed.here.enqueue("before", {}, [], "connection reset")
        await feed.poll()
        await until(lambda: all('"before"' in each.text for each in streams))
        api.state.sessions.end(begun[0][0])
        await feed.here.enqueue("after", {}, [], "connection reset")
        await feed.poll()
        await until(lambda: '"after"' in stays.text)
        await until(left.task.done)
        assert '"after"' not in left.text
        feed.clock.advance(LIFETIME)
        await feed.here.enqueue("later", {}, [], "connection reset")
        await feed.poll()
        await until(stays.task.done)
        assert '"later"' not in stays.text and not feed.live._listeners


async def test_a_text_is_made_once_for_those_who_see_the_same() -> None:
    mine, theirs = (
        LiveEvent("", "letter", {"namespace": "default", "queue": "default", "adapter": adapter})
        for adapter in ("orders", "mail")
    )
    events, orders = LiveEvents(mine, theirs), Scope(adapters=frozenset({"orders"}))
    assert events.text(None).count("event: letter") == 2
    assert "orders" in events.text(orders) and "mail" not in events.text(orders)
    assert events.text(Scope(adapters=frozenset({"orders"}))) is events.text(orders)
    assert events.text(Scope(adapters=frozenset({"sms"}))) == ""  # and nothing is sent


def test_who_reads_the_lists_again_is_told_each_name_once() -> None:
    record = {"namespace": "default", "queue": "default", "adapter": "orders"}
    letters = [LiveEvent(f"2026-01-01T00:00:0{second}.000Z", "letter", record) for second in range(3)]
    events = LiveEvents(*letters, LiveEvent("", "many", {"of": "letter"}))
    assert events.text(None, brief=True) == (
        "id: 2026-01-01T00:00:02.000Z\nevent: letter\ndata: {}\n\nevent: many\ndata: {}\n\n"
    )
    assert events.text(Scope(adapters=frozenset({"sms"})), brief=True) == "event: many\ndata: {}\n\n"
    assert events.text(None).count("event: letter") == 3

"""Stored events are brought to a webhook and to plugins: at least once, in order, signed."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import httpx
import pytest
import respx

from mahavishnu import hookimpl
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.events import delivery as event_delivery
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import DomainEvent
from mahavishnu.model.webhooks import is_signed
from mahavishnu.testing import turn
from tests.support.queues import House
from tests.support.receivers import HttpReceiver

URL = "https://hooks.example/mahavishnu"


def shop(house: House, **events: Any) -> MahavishnuApp:
    return house.app(events=events)


async def publish(app: MahavishnuApp, *names: str) -> None:
    for name in names:
        assert (await app.events.publish(name, {"n": name}, mode="durable")).stored


async def delivered(house: House, app: MahavishnuApp) -> int:
    """Of one go, with all its waits."""
    going = asyncio.ensure_future(app.events.deliver())
    for _ in range(2000):
        if going.done():
            break
        await turn()
        house.clock.advance(1)
    return await going


@respx.mock
async def test_events_are_posted_in_order_and_signed(any_house: House) -> None:
    route = respx.post(URL).respond(204)
    app = shop(any_house, webhook_url=URL, webhook_secret="hush")
    await publish(app, "a", "b", "c")
    assert await app.events.deliver() == 3
    bodies = [json.loads(call.request.content) for call in route.calls]
    assert [body["name"] for body in bodies] == ["a", "b", "c"]
    assert [body["number"] for body in bodies] == [1, 2, 3]
    for call, body in zip(route.calls, bodies, strict=True):
        header = call.request.headers["Mahavishnu-Signature"]
        now = any_house.clock.now()
        assert is_signed("hush", header, call.request.content, now)
        assert not is_signed("guess", header, call.request.content, now)
        assert not is_signed("hush", header, call.request.content + b" ", now)
        assert call.request.headers["Mahavishnu-Event-Id"] == body["event_id"]
    assert await app.events.deliver() == 0
    assert [(each.consumer, each.number) for each in await app.events.consumers()] == [("webhook", 3)]


@respx.mock
async def test_what_fails_is_tried_again_and_then_later(house: House, caplog: pytest.LogCaptureFixture) -> None:
    route = respx.post(URL).mock(side_effect=[httpx.ConnectError("no"), httpx.Response(503), httpx.Response(200)])
    app = shop(house, webhook_url=URL)
    await publish(app, "a")
    assert await delivered(house, app) == 1
    assert route.call_count == 3
    assert "Mahavishnu-Signature" not in route.calls[0].request.headers
    route.mock(return_value=httpx.Response(500))
    await publish(app, "b")
    assert await delivered(house, app) == 0
    assert "is tried again" in caplog.text
    assert "hooks.example" not in caplog.text, "an address may have a token in it"
    count = route.call_count
    assert await app.events.deliver() == 0
    assert route.call_count == count, "it is left alone for a while"
    house.clock.advance(300)
    route.mock(return_value=httpx.Response(200))
    assert await delivered(house, app) == 1


@respx.mock
async def test_an_event_that_is_refused_does_not_hold_up_the_others(house: House) -> None:
    route = respx.post(URL).mock(side_effect=[httpx.Response(422), httpx.Response(200)])
    app = shop(house, webhook_url=URL)
    await publish(app, "a", "b")
    assert await delivered(house, app) == 2
    assert route.call_count == 2
    assert app.dlq.context.counts["events_refused"] == 1


@respx.mock
async def test_one_process_brings_them_and_another_goes_on_when_it_is_gone(any_house: House) -> None:
    route = respx.post(URL).respond(200)
    first, second = (shop(any_house, webhook_url=URL) for _ in range(2))
    await publish(first, "a")
    assert await first.events.deliver() == 1
    await publish(first, "b")
    assert await second.events.deliver() == 0, "the other one holds it"
    any_house.clock.advance(200)
    assert await second.events.deliver() == 1
    assert route.call_count == 2


@respx.mock
async def test_who_was_taken_for_gone_leaves_the_rest_to_the_other_one(any_house: House) -> None:
    """A process that stood still: what it was bringing then comes twice, and nothing after that."""
    first, second = (shop(any_house, webhook_url=URL) for _ in range(2))
    brought: list[str] = []

    async def take(request: httpx.Request) -> httpx.Response:
        brought.append(json.loads(request.content)["name"])
        if len(brought) == 1:
            any_house.clock.advance(200)
            assert await second.events.deliver() == 3
        return httpx.Response(200)

    respx.post(URL).mock(side_effect=take)
    for name in ("a", "b", "c"):
        await publish(first, name)
    assert await first.events.deliver() == 1
    assert brought == ["a", "a", "b", "c"]


class Bridge:
    """A plugin to some broker."""

    def __init__(self) -> None:
        self.events: list[DomainEvent] = []
        self.error: BaseException | None = None

    @hookimpl
    def deliver(self, event: DomainEvent) -> None:
        if self.error is not None:
            raise self.error
        self.events.append(event)


class AsyncBridge(Bridge):
    @hookimpl
    async def deliver(self, event: DomainEvent) -> None:  # type: ignore[override]
        await turn()
        if self.error is not None:
            raise self.error
        self.events.append(event)


@pytest.mark.parametrize("kind", [Bridge, AsyncBridge])
async def test_plugins_are_brought_them(house: House, kind: type[Bridge]) -> None:
    app, bridge = shop(house), kind()
    app.chain.plugins.register(bridge, "broker")
    await publish(app, "a", "b")
    assert await app.events.deliver() == 2
    assert [event.name for event in bridge.events] == ["a", "b"]
    assert [each.consumer for each in await app.events.consumers()] == ["plugin:broker"]


async def test_a_plugin_that_raises_gets_it_again(house: House) -> None:
    app, bridge = shop(house), Bridge()
    app.chain.plugins.register(bridge, "broker")
    await publish(app, "a")
    bridge.error = ConnectionError("no broker")
    assert await delivered(house, app) == 0
    bridge.error = None
    house.clock.advance(300)
    assert await app.events.deliver() == 1
    bridge.error = InvalidInput("not this one")
    await publish(app, "b")
    assert await app.events.deliver() == 1
    assert [event.name for event in bridge.events] == ["a"]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
@pytest.mark.parametrize("kind", [Bridge, AsyncBridge])
async def test_a_plugin_that_ends_the_program_or_itself_ends_nobody_else(
    house: House, kind: type[Bridge], error: BaseException
) -> None:
    app, bad, good = shop(house), kind(), Bridge()
    app.chain.plugins.register(bad, "bad")
    app.chain.plugins.register(good, "good")
    await publish(app, "a")
    bad.error = error
    assert await delivered(house, app) == 1
    assert [event.name for event in good.events] == ["a"]
    bad.error = None
    house.clock.advance(300)
    assert await app.events.deliver() == 1
    assert [event.name for event in bad.events] == ["a"]


async def test_a_plugin_that_hangs_takes_no_thread_from_others(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried once at a time, in a thread that is its own; asyncio's are there for everybody else."""
    monkeypatch.setattr(event_delivery, "_PLUGIN_SECONDS", 0.01)
    released, calls = threading.Event(), []

    class Hanging:
        @hookimpl
        def deliver(self, event: DomainEvent) -> None:
            calls.append(threading.current_thread().name)
            released.wait()

    app = shop(house)
    app.chain.plugins.register(Hanging(), "hanging")
    await publish(app, "a")
    assert await app.events.deliver() == 0
    released.set()
    assert len(calls) == 1
    assert "asyncio" not in calls[0]


@respx.mock
async def test_a_worker_brings_them(house: House) -> None:
    route = respx.post(URL).respond(200)
    app = shop(house, webhook_url=URL)
    await publish(app, "a")
    await app.start_dlq_processor()
    async with asyncio.timeout(10):
        while not route.called:
            await turn()
    await app.stop_dlq_processor()


@pytest.mark.parametrize(
    "header", [None, "", "t=1", "v1=ab", "t=x,v1=ab", "t=1,t=2,v1=ab", "t=²,v1=ab", "v1", "t=9" + "9" * 20]
)
def test_a_header_that_is_none_signs_nothing(header: str | None, house: House) -> None:
    assert not is_signed("hush", header, b"{}", house.clock.now())


def test_a_signature_that_is_old_signs_nothing(house: House) -> None:
    from mahavishnu.model.webhooks import sign

    header = sign("hush", b"{}", house.clock.now())
    house.clock.advance(301)
    assert not is_signed("hush", header, b"{}", house.clock.now())


async def test_no_log_has_the_address_of_a_webhook(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """Neither ours nor that of httpx in an application that logs at INFO; other requests of it are logged as ever."""
    caplog.set_level(logging.DEBUG)
    async with HttpReceiver.serve() as hook, httpx.AsyncClient() as others:
        app = shop(house, webhook_url=f"{hook.url}/hooks/canary?canary=1")
        await publish(app, "a")
        assert await app.events.deliver() == 1
        await others.get(f"{hook.url}/seen")
    assert len(hook.requests) == 2 and "canary" not in caplog.text and "/seen" in caplog.text

"""Domain events on stores that several processes share: what restarts, outages and deaths leave of them."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.events.log import HOLE_SECONDS
from mahavishnu.events.records import EVENTS
from mahavishnu.stores.kinds import stored_kinds
from mahavishnu.stores.urls import open_store
from mahavishnu.tasks.records import TASKS
from mahavishnu.testing import FaultyStore
from tests.events.test_service import Heard
from tests.proofs.event_node import app_on
from tests.support.node import ROOT, WrongClock
from tests.support.opensearch import Servers


def faulty(url: str) -> FaultyStore:
    return FaultyStore(open_store(url, kinds=stored_kinds()))


async def charge(order: int) -> str:
    return f"paid {order}"


def add_shop(app: MahavishnuApp) -> None:
    """Give the app a tracked workflow of one step."""

    @app.workflow(name="ship", key="key", track=True)
    async def ship(key: str, order: int) -> str:
        return await app.lifecycle.step("charge", charge, order)

    add_shop.ship = ship  # type: ignore[attr-defined]


async def test_what_a_process_published_before_it_died_others_read(store_url: str) -> None:
    """Each consumer gets what it has not acknowledged, after any restart; the outbox adds what is missing, once."""
    command = [sys.executable, "-m", "tests.proofs.event_node", store_url]
    died = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, timeout=120, check=False)
    assert died.returncode == -signal.SIGKILL
    async with app_on(store_url) as app:
        page = await app.events.read(consumer="billing")
        assert [(event.number, event.payload.value) for event in page.events] == [
            (order, {"order": order}) for order in (1, 2, 3)
        ]
        await app.events.acknowledge("billing", 1)
    async with app_on(store_url, WrongClock(timedelta(seconds=30))) as app:
        assert [event.number for event in (await app.events.read(consumer="billing")).events] == [2, 3]
        assert await app.events.publish_missed() == 1
        assert await app.events.publish_missed() == 0
        page = await app.events.read(consumer="billing")
        assert [event.name for event in page.events] == ["order.paid", "order.paid", "dlq.captured"]
        assert page.events[2].task_id == "order-7"
        await app.events.acknowledge("billing", page.next)
    async with app_on(store_url) as app:
        assert (await app.events.read(consumer="billing")).events == ()
        assert len((await app.events.read(consumer="stock")).events) == 4
        assert [(each.consumer, each.number) for each in await app.events.consumers()] == [("billing", 4)]


async def test_a_number_of_a_dead_writer_is_filled(store_url: str) -> None:
    """Nobody passes by a number that may still come; when it is given up, who is late after all takes a later one."""
    late = WrongClock(timedelta(seconds=HOLE_SECONDS + 1))
    async with app_on(store_url) as writer, app_on(store_url) as reader, app_on(store_url, late) as patient:
        await writer.events.publish("a", mode="durable")
        writer.events.log._last = 2  # another one has taken 2, and has not written it yet
        await writer.events.publish("c", mode="durable")
        page = await reader.events.read()
        assert [event.name for event in page.events] == ["a"]
        page = await patient.events.read(after=page.next)
        assert [(event.name, event.number) for event in page.events] == [("c", 3)]
        writer.events.log._last = 1  # the other one wakes up
        done = await writer.events.publish("b", mode="durable")
        assert done.event is not None and done.event.number == 4
        assert [event.name for event in (await patient.events.read()).events] == ["a", "c", "b"]


async def test_a_step_is_complete_though_its_event_cannot_be_stored(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A43: it is logged and counted once; and where the outcome is not written there is no event at all."""
    store, heard = faulty(store_url), Heard()
    async with app_on(store) as app:
        add_shop(app)
        app.events.subscribe(heard, "step.complete")
        away = store.faults.unavailable("write", kind=EVENTS)
        with caplog.at_level(logging.WARNING, "mahavishnu.events"):
            assert await add_shop.ship("o-7", 7) == "paid 7"  # type: ignore[attr-defined]
            await app.events.finish()
        away.stop()
        (task,) = (await app.lifecycle.list("all")).items
        assert [str(step.state) for step in task.steps] == ["complete"]
        assert app.dlq.context.counts["durable_events_dropped"] == 1
        assert len([line for line in caplog.messages if "was not stored" in line]) == 1
        assert len(await heard.reached(1)) == 1

        store.faults.unavailable("write", kind=TASKS)
        assert await add_shop.ship("o-8", 8) == "paid 8"  # type: ignore[attr-defined]
        await app.events.finish()
        assert (await app.events.read()).events == ()
        assert len(heard.events) == 1


async def test_a_broadcast_is_heard_while_the_store_is_away(store_url: str) -> None:
    """A44: with both ways open it has the same id on both."""
    store, heard = faulty(store_url), Heard()
    async with app_on(store) as app:
        app.events.subscribe(heard, "order.*")
        away = store.faults.unavailable("write", kind=EVENTS)
        done = await app.events.publish("order.paid", {"order": 7}, mode="broadcast")
        assert (done.told, done.stored) == (True, False)
        assert done.problem
        away.stop()
        done = await app.events.publish("order.paid", {"order": 8}, mode="broadcast")
        assert (done.told, done.stored) == (True, True)
        first, second = await heard.reached(2)
        assert (first.payload.value, second.payload.value) == ({"order": 7}, {"order": 8})
        (stored,) = (await app.events.read()).events
        assert stored.event_id == second.event_id != first.event_id


@pytest.mark.opensearch
async def test_where_no_events_are_used_there_is_no_index_for_them(opensearch: Servers, opensearch_prefix: str) -> None:
    """What workers do now and then finds nothing, and leaves nothing behind; the first event makes the index."""

    def indices() -> list[str]:
        _, answer = opensearch.request("GET", f"/{opensearch_prefix}*?filter_path=*.settings.index.provided_name")
        return [name for name in answer if "event" in name]

    url = f"{opensearch.urls[0].replace('http', 'opensearch', 1)}/{opensearch_prefix}?timeout=30"
    async with app_on(url, durable_names=[], durable_outbox=False) as app:
        await app.dlq.enqueue("order-7", {"order": 7}, [], "connection refused")
        assert await app.events.remove_old() == 0
        assert (await app.events.read(consumer="billing")).events == ()
        assert indices() == []
        assert (await app.events.publish("order.paid", mode="durable")).stored
        assert len((await app.events.read()).events) == 1
        assert len(indices()) == 1

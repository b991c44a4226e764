"""Queues that the settings declare are put into the store; edits of the files count without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.model.errors import NoSuchQueue, StoreUnavailable
from mahavishnu.queues.items import QueueItem
from mahavishnu.queues.rules import RetryRule
from mahavishnu.settings.sources import SettingsError
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings" / "queues").mkdir(parents=True)

    def write(name: str, text: str) -> None:
        (tmp_path / "settings" / name).write_text(text, encoding="utf-8")

    return write


@pytest.fixture
async def app(write: Write) -> AsyncIterator[MahavishnuApp]:
    write(
        "mahavishnu.yaml", "dlq_store_url: 'memory:'\nqueues:\n  orders: {dead_queue: dead, max_attempts: 2}\n  dead:\n"
    )
    write("queues/mails.yaml", "retry: {attempts: 3, cooldown: 30s}\n")
    app = MahavishnuApp(MahavishnuSettings(), clock=ManualClock())
    yield app
    await app.shutdown()


async def test_what_is_declared_is_there(app: MahavishnuApp) -> None:
    found = {each.name: each for each in await app.dlq.queues.list()}
    assert sorted(found) == ["dead", "mails", "orders"]
    assert (found["orders"].dead_queue, found["orders"].max_attempts) == ("dead", 2)
    assert found["mails"].retry == RetryRule(3, "30s")
    entries = (await app.dlq.audit.list(action="queue.create")).items
    assert {each.actor for each in entries} == {"settings"}


async def test_an_edit_counts_at_the_next_failure(app: MahavishnuApp, write: Write) -> None:
    queues = app.dlq.queues

    async def fail() -> str:
        (lease,) = await queues.lease("mails", "w")
        item = await queues.retry("mails", lease.item.id, lease.token)
        assert isinstance(app.dlq.clock, ManualClock)
        app.dlq.clock.advance(30)
        return (await queues.item("mails", item.id)).status

    await queues.produce("mails", 1)
    assert await fail() == "pending"
    write("queues/mails.yaml", "retry: {attempts: 1}\n")
    assert await fail() == "dead"
    write("queues/mails.yaml", "retry: {attempts: 5, cooldown: 1s}\n")
    (item,) = (await queues.items("mails")).items
    assert item.status == "dead"
    write("queues/mails.yaml", "retry: {attempts: 5")
    await queues.produce("mails", 2)
    assert await fail() == "pending", "a broken file leaves the last good definition"
    assert (await queues.get("mails")).retry == RetryRule(5, "1s")


async def test_a_reload_takes_what_is_not_said_any_more_away(app: MahavishnuApp, write: Write) -> None:
    await app.dlq.queues.list()
    write("mahavishnu.yaml", "dlq_store_url: 'memory:'\nqueues: {orders: {}, dead: {}}\n")
    assert app.reload().changed == ("queues",)
    orders = await app.dlq.queues.get("orders")
    assert (orders.dead_queue, orders.max_attempts) == (None, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("retry: {attempts: 3, cooldown: invalid}", ("'mails'", "cooldown", "'invalid'")),
        ("retry: {attempts: -1}", ("'mails'", "attempts", "-1")),
        ("retry: {attempts: true}", ("'mails'", "attempts")),
        ("kind: external\nretry: {attempts: 1}", ("'mails' is external", "retry")),
        ("retries: 3", ("'mails'", "retries")),
        ("retry: {", ("queues/mails.yaml:",)),
    ],
)
def test_what_cannot_be_is_refused_at_load(write: Write, text: str, words: tuple[str, ...]) -> None:
    write("queues/mails.yaml", text)
    with pytest.raises(SettingsError) as refused:
        MahavishnuSettings.load()
    assert all(word in str(refused.value) for word in words), str(refused.value)


async def test_a_dead_queue_that_nobody_declared_is_said_in_the_log(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("mahavishnu.yaml", "dlq_store_url: 'memory:'\nqueues: {orders: {dead_queue: nowhere}, mails: {}}\n")
    app = MahavishnuApp(MahavishnuSettings())
    assert [each.name for each in await app.dlq.queues.list()] == ["mails"]
    assert "queue 'orders' of the settings cannot be: dead_queue 'nowhere' does not exist" in caplog.text
    await app.shutdown()


async def test_a_process_that_starts_during_an_outage_has_the_queues_that_are_declared(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("mahavishnu.yaml", "queues: {orders: {dead_queue: dead, max_attempts: 1}, dead: {}}\n")
    primary, clock = FaultyStore(MemoryStore()), ManualClock()
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS, clock=clock)
    outage = primary.faults.unavailable()
    async with MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=store, clock=clock) as app:
        queues = app.dlq.queues
        caplog.clear()
        made = await asyncio.gather(
            queues.produce("orders", "first"), queues.produce("other", 1), return_exceptions=True
        )
        assert isinstance(made[0], QueueItem)
        assert isinstance(made[1], StoreUnavailable) and "not known whether there is a queue 'other'" in str(made[1])
        await queues.produce("orders", "second")
        became = []
        for _ in range(2):  # max_attempts is what is allowed
            (lease,) = await queues.lease("orders", "w")
            became.append((lease.item.payload, (await queues.retry("orders", lease.item.id, lease.token)).status))
        assert became == [("first", "pending"), ("first", "dead")]
        await queues.maintain()
        assert [each.payload for each in (await queues.items("dead")).items] == ["first"]
        assert "could not be put into the store" not in caplog.text, "that is no news during an outage"
        with pytest.raises(StoreUnavailable):
            await queues.get("orders")
        outage.stop()
        await store.drain()
        found = {name: [each.payload for each in (await queues.items(name)).items] for name in ("orders", "dead")}
        assert found == {"orders": ["second"], "dead": ["first"]}
        assert (await queues.get("orders")).max_attempts == 1, "now the store has it"
        with pytest.raises(NoSuchQueue):
            await queues.produce("other", 1)

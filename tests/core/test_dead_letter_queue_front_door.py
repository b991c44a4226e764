"""The import paths that users know, backoffs of their own, and letters that live in the local store only."""

from __future__ import annotations

import importlib
import logging
from datetime import timedelta

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.model.backoff import BackoffRegistry, geometric, intervals
from mahavishnu.model.letter_parts import NO_ADAPTER
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore
from tests.support.queues import NETWORK, House, Runs, letter_of

PUBLIC = {
    "mahavishnu.core": ("MahavishnuApp",),
    "mahavishnu.core.app": ("MahavishnuApp",),
    "mahavishnu.core.config": ("MahavishnuSettings",),
    "mahavishnu.core.dead_letter_queue": (
        "DeadLetterQueue",
        "RetryPolicy",
        "DeadLetterStatus",
        "FailedTask",
        "DLQFullError",
    ),
    "mahavishnu.core.dlq_integration": ("DLQIntegrationStrategy", "create_dlq_integration"),
    "mahavishnu.core.resilience": ("ErrorCategory",),
}


@pytest.mark.parametrize("module", PUBLIC)
def test_documented_names_are_there(module: str) -> None:
    found = importlib.import_module(module)
    for name in PUBLIC[module]:
        assert getattr(found, name) is not None
    with pytest.raises(AttributeError):
        _ = found.no_such_name


async def test_a_queue_needs_nothing(house: House) -> None:
    async with DeadLetterQueue(max_size=100) as queue:
        await queue.enqueue("wf_1", {}, [], "boom")
        assert (queue.max_size, len(await queue.list_tasks())) == (100, 1)


async def test_a_backoff_of_ones_own_by_name(any_house: House, caplog: pytest.LogCaptureFixture) -> None:
    queue = any_house.queue(Runs(NETWORK))
    queue.register_backoff("fibonacci", lambda failed: (1, 2, 3, 5)[failed.retry_count] * 60)
    now = any_house.clock.now()
    letter = await queue.enqueue("wf_1", {}, [], "connection refused", "custom:fibonacci")
    assert (letter.retry_policy, letter.next_retry_at) == ("custom:fibonacci", now + timedelta(minutes=1))
    any_house.clock.advance(minutes=1)
    await queue.run_due()
    assert (await letter_of(queue, "wf_1")).next_retry_at == now + timedelta(minutes=3)
    restarted = any_house.queue(Runs(NETWORK))  # and nobody has registered it there
    any_house.clock.advance(minutes=2)
    await restarted.run_due()
    letter = await letter_of(restarted, "wf_1")
    assert (letter.status, letter.retry_policy, letter.retry_count) == ("pending", "custom:fibonacci", 2)
    assert letter.next_retry_at == any_house.clock.now() + timedelta(minutes=4)  # as exponential
    with caplog.at_level(logging.WARNING):
        await restarted.enqueue("wf_2", {}, [], "boom", "custom:fibonacci")
    assert "no backoff 'custom:fibonacci' is registered; exponential is used" in caplog.text


@pytest.mark.parametrize("nonsense", [float("nan"), "soon", None, True])
async def test_a_backoff_that_talks_nonsense_is_exponential(house: House, nonsense: object) -> None:
    queue = house.queue()
    queue.register_backoff("odd", lambda failed: nonsense)  # type: ignore[arg-type,return-value]
    letter = await queue.enqueue("wf_1", {}, [], "boom", "custom:odd")
    assert letter.next_retry_at == house.clock.now() + timedelta(minutes=1)


async def test_a_backoff_is_bounded(house: House) -> None:
    queue = house.queue()
    for name, delay, expected in (("back", -5.0, timedelta(0)), ("far", 1e12, timedelta(days=7))):
        queue.register_backoff(name, lambda failed, delay=delay: delay)  # type: ignore[misc]
        letter = await queue.enqueue(name, {}, [], "boom", f"custom:{name}")
        assert letter.next_retry_at == house.clock.now() + expected


async def test_tables_and_factors(house: House) -> None:
    backoffs = BackoffRegistry().with_custom("table", intervals(30, 60, 120, 300, 600))
    queue = house.queue(Runs(NETWORK), backoffs=backoffs.with_custom("hourly", geometric(timedelta(hours=1), 2.0)))
    for name, seconds in (("table", [30, 60, 120, 300, 600, 600]), ("hourly", [3600, 7200, 14400])):
        await queue.enqueue(name, {}, [], "connection refused", f"custom:{name}", max_retries=9)
        for delay in seconds:
            assert (await letter_of(queue, name)).next_retry_at == house.clock.now() + timedelta(seconds=delay)
            await queue.letters.edit(name, next_retry_at=house.clock.now())
            queue.context.breakers.record_success(NO_ADAPTER)
            await queue.run_due()
        await queue.letters.resolve(name)


async def test_jitter_is_never_longer(house: House) -> None:
    queue = house.queue(backoffs=BackoffRegistry(random=lambda: 0.5))
    letter = await queue.enqueue("wf_1", {}, [], "boom", "linear")
    assert letter.next_retry_at == house.clock.now() + timedelta(minutes=2.5)


async def test_letters_of_the_local_store_are_letters(house: House) -> None:
    primary = FaultyStore(MemoryStore())
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS)
    async with DeadLetterQueue(store=store, clock=house.clock, options=QueueOptions(callback=Runs())) as queue:
        await queue.enqueue("before", {}, [], "boom", "never")
        primary.faults.unavailable()
        for name in ("archived", "retried"):
            await queue.enqueue(name, {}, [], "boom", "never")
        assert await queue.archive_task("archived") is True
        assert (await queue.retry_task("retried"))["success"] is True
        stats = await queue.get_statistics()
        assert stats["storage_mode"] == "degraded"
        assert stats["degraded"]
        assert any("degraded" in warning for warning in await queue.health_warnings())
        assert (await queue.list_tasks()).degraded

"""Bulk runs while the primary store is away: they wait, and are right afterwards."""

from __future__ import annotations

import pytest

from mahavishnu.bulk.run import RunState
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import FaultyStore, ManualClock
from tests.support.queues import Runs, fill


async def test_a_run_waits_for_the_primary_store_and_misses_nothing() -> None:
    primary, clock = FaultyStore(MemoryStore()), ManualClock()
    store = FallbackStore(primary, MemoryStore(), kinds=KINDS, clock=clock)
    async with DeadLetterQueue(store=store, clock=clock, options=QueueOptions(callback=Runs())) as queue:
        await fill(queue, 30, max_retries=0)
        primary.faults.unavailable()
        await queue.enqueue("kept here", {}, [], "connection refused", max_retries=0)
        run = await queue.runs.start("redrive", everything=True, by="ann", ramp=(5,))
        with pytest.raises(StoreUnavailable):
            await queue.runs.preview("redrive", everything=True)
        with pytest.raises(StoreUnavailable):
            await queue.runs.advance()
        primary.faults.clear()
        await store.drain()
        while await queue.runs.advance():
            pass
        run = await queue.runs.get(run.run_id)
        assert (run.state, run.counts.members, run.counts.moved) == (RunState.RUNNING, 31, 5)
        await queue.run_due()
        primary.faults.unavailable()
        clock.advance(1)
        with pytest.raises(StoreUnavailable):
            await queue.runs.advance()
        primary.faults.clear()
        await store.drain()
        for _ in range(2):
            clock.advance(120)
            while await queue.runs.advance():
                pass
            await queue.run_due()
        clock.advance(120)
        while await queue.runs.advance():
            pass
        run = await queue.runs.get(run.run_id)
        assert (run.state, run.counts.moved, run.counts.succeeded) == (RunState.DONE, 31, 31)

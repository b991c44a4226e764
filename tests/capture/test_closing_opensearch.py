"""A success of the application and a worker at the same letter, on a real OpenSearch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from itertools import count

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.model.errors import LostLease
from mahavishnu.model.letter_parts import Source, SourceKind
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock, make_letter
from mahavishnu.values.payload import LetterRequest
from tests.support.interleaving import Actor, run_in_every_order
from tests.support.queues import letter_of, sound

pytestmark = pytest.mark.opensearch
Open = Callable[[Faults], DeadLetterQueue]


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def queues(opensearch_url: str, opensearch_prefix: str, clock: ManualClock) -> AsyncIterator[Open]:
    """Each as another process would have it."""
    async with AsyncExitStack() as stack:

        def opened(faults: Faults) -> DeadLetterQueue:
            store = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=60, kinds=KINDS)
            options = QueueOptions(limits=Limits(skew_seconds=0), breakers=Breakers(threshold=10_000))
            queue = DeadLetterQueue(store=FaultyStore(store, faults), clock=clock, options=options)
            stack.push_async_callback(queue.shutdown)
            return queue

        yield opened


async def test_a_letter_of_another_process_is_seen_at_once(queues: Open, clock: ManualClock) -> None:
    """It was written just now: a search would not find it yet."""
    here, there = queues(Faults()), queues(Faults())
    await here.open()
    names = [f"wf_{number}" for number in range(60)]
    await asyncio.gather(*(there.enqueue(name, {"n": 1}, [], "connection refused", "immediate") for name in names))
    for name in names:
        here.closing.note_success(name, lambda: LetterRequest("any", {"n": 1}, ()), began=clock.now())
    await here.closing.flush()
    assert here.context.counts["closed_by_success"] == 60
    assert (await sound(here))["lifetime_stats"]["manually_resolved"] == 60


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
async def test_a_run_that_ends_at_the_same_time(queues: Open, clock: ManualClock, outcome: str) -> None:
    """In every order of the calls of both."""
    ours, theirs, numbers = Faults(), Faults(), count(1)
    here, there = queues(ours), queues(theirs)
    name, seen = "", set[tuple[int, int]]()

    async def begin() -> list[Actor]:
        nonlocal name
        key = name = f"wf_{next(numbers)}"
        clock.advance(1)
        await there.enqueue(key, {"n": 1}, [], "connection refused", "immediate")
        clock.advance(1)
        (claim,) = await there.claims.claim("w", lease_seconds=600)

        async def close() -> None:
            here.closing.note_success(key, lambda: LetterRequest(key, {"n": 1}, ()), began=clock.now())
            await here.closing.flush()

        async def settle() -> None:
            error = "again" if outcome == "failed" else None
            with suppress(LostLease):
                await there.claims.settle(key, claim.token, outcome, error=error)

        return [Actor(close, ours, key), Actor(settle, theirs, key)]

    async def check() -> None:
        letter = await letter_of(here, name)
        assert (letter.status, letter.tallies.closings) == ("completed", 1)
        seen.add((letter.tallies.retry_success, letter.tallies.retry_failed))

    assert await run_in_every_order(begin, check) > 5
    assert seen == ({(1, 0), (0, 0)} if outcome == "succeeded" else {(0, 1), (0, 0)})
    await sound(here)


async def test_a_failure_that_waits_for_room(queues: Open, clock: ManualClock) -> None:
    queue = queues(Faults())
    queue.context.capacities.max_size = 1
    await queue.enqueue("wf_0", {"n": 0}, [], "connection refused", "never")
    source = Source(SourceKind.WORKFLOW, "sweep")
    waiting = make_letter(task_id="wf_1", task={"n": 1}, adapter="sweep", source=source)
    await queue.context.waiting.keep(waiting)
    clock.advance(1)
    queue.closing.note_success("wf_1", lambda: LetterRequest("any", {"n": 1}, (), adapter="sweep"), began=clock.now())
    await queue.closing.flush()
    assert (await letter_of(queue, "wf_1")).status == "completed"
    assert await queue.context.waiting.count() == 0
    await sound(queue)

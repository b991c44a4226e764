"""Workers elsewhere, and letters that are sent back, on a real OpenSearch."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.letters.rules import RequeueRules
from mahavishnu.model.errors import LostLease
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import ManualClock

pytestmark = pytest.mark.opensearch
Open = Callable[[], DeadLetterQueue]


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def queues(opensearch_url: str, opensearch_prefix: str, clock: ManualClock) -> AsyncIterator[Open]:
    """Each as another process would have it."""
    async with AsyncExitStack() as stack:

        def opened() -> DeadLetterQueue:
            store = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=60, kinds=KINDS)
            rules = RequeueRules(enabled=True)
            queue = DeadLetterQueue(
                store=store, clock=clock, options=QueueOptions(limits=Limits(skew_seconds=0), rules=[rules])
            )
            stack.push_async_callback(queue.shutdown)
            return queue

        yield opened


async def test_twenty_workers_run_a_thousand_letters_once_each(queues: Open) -> None:
    opened = [queues() for _ in range(4)]
    names = [f"wf_{number:04}" for number in range(1000)]
    for at in range(0, 1000, 100):
        await asyncio.gather(
            *(opened[0].enqueue(name, {}, [], "connection refused", "immediate") for name in names[at : at + 100])
        )
    ran: Counter[str] = Counter()

    async def work(queue: DeadLetterQueue, owner: str) -> None:
        while claims := await queue.claims.claim(owner, limit=25):
            ran.update(claim.letter.task_id for claim in claims)
            await asyncio.gather(
                *(queue.claims.settle(claim.letter.task_id, claim.token, "succeeded") for claim in claims)
            )

    while sum(ran.values()) < 1000:  # who lost every race of one look goes home; the next shift finds the rest
        await asyncio.gather(*(work(opened[number % 4], f"worker-{number}") for number in range(20)))
    assert ran == Counter(names)
    assert (await opened[0].get_statistics())["lifetime_stats"]["retry_success"] == 1000


async def test_a_lease_that_ran_out_is_refused(queues: Open, clock: ManualClock) -> None:
    slow, quick = queues(), queues()
    await slow.enqueue("wf_1", {}, [], "connection refused", "immediate")
    (late,) = await slow.claims.claim("slow", lease_seconds=10)
    clock.advance(11)
    assert await quick.claims.claim("quick") == []  # another process: it sees the lease for the first time
    clock.advance(10)
    (taken,) = await quick.claims.claim("quick")
    with pytest.raises(LostLease, match="quick holds it now"):
        await slow.claims.settle("wf_1", late.token, "succeeded")
    first = await quick.claims.settle("wf_1", taken.token, "failed", error="boom")
    assert await slow.claims.settle("wf_1", taken.token, "failed", error="boom") == first


async def test_a_letter_is_sent_back_once_by_hand_and_once_by_the_rule(queues: Open, clock: ManualClock) -> None:
    opened = [queues() for _ in range(4)]
    await opened[0].enqueue("wf_1", {}, [], "connection refused", "immediate", max_retries=0, priority=5)
    answers = await asyncio.gather(*(opened[number % 4].requeue_from_dlq("wf_1") for number in range(20)))
    assert sum(answer["success"] for answer in answers) == 1
    (claim,) = await opened[1].claims.claim("w")
    assert claim.letter.priority == 15
    exhausted = await opened[1].claims.settle("wf_1", claim.token, "failed", error="connection reset")
    assert exhausted.status == "exhausted"
    clock.advance(3600)
    assert sum(await asyncio.gather(*(queue.requeues.requeue_exhausted() for queue in opened))) == 1
    letter = await opened[0].get_task("wf_1")
    assert letter is not None
    assert (letter.priority, letter.dlq_retry_count) == (25, 2)
    assert await opened[0].requeues.outcomes() == {"in_flight": 1}


async def test_the_rule_sends_back_what_was_never_sent_back_before(queues: Open, clock: ManualClock) -> None:
    queue = queues()
    exhausted = await queue.enqueue("wf_1", {}, [], "connection refused", "immediate", max_retries=0)
    assert (exhausted.status, exhausted.dlq_retry_count) == ("exhausted", 0)
    clock.advance(3600)
    assert await queue.requeues.requeue_exhausted() == 1, "a count of 0 is not in the document"
    assert await queue.requeues.requeue_exhausted() == 0

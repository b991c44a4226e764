"""A bulk run on OpenSearch: waves, what became of the letters, and a preview that counts."""

from __future__ import annotations

from typing import Any

import pytest

from mahavishnu.bulk import service as run_preview
from mahavishnu.bulk.run import ACTIVE, BulkRun, RunState
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import ManualClock
from tests.support.queues import NETWORK, fill

pytestmark = pytest.mark.opensearch


async def callback(task: Any, repos: list[str]) -> None:
    if task["name"] in ("wf_00000", "wf_00001"):
        raise NETWORK


async def settled(queue: DeadLetterQueue, run: BulkRun, clock: ManualClock) -> BulkRun:
    """The run at its end, or where it halts."""
    for _ in range(60):
        await queue.runs.advance()
        await queue.run_due()
        clock.advance(5)
        run = await queue.runs.get(run.run_id)
        if run.state not in ACTIVE:
            break
    return run


async def test_a_run_with_a_stop_rule(
    opensearch_url: str, opensearch_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    store = OpenSearchStore([opensearch_url], prefix=opensearch_prefix, timeout=30.0, kinds=KINDS)
    async with DeadLetterQueue(store=store, clock=clock, options=QueueOptions(callback=callback)) as queue:
        await fill(queue, 40, max_retries=0)
        await queue.letters.resolve("wf_00039")
        monkeypatch.setattr(run_preview, "READ", 1)
        preview = await queue.runs.preview("redrive", everything=True, stop_percent=50)
        assert (preview.matched, preview.eligible, preview.ramp) == (40, 39, (1, 5, 25))
        assert preview.ineligible == {"completed, resolved otherwise: cannot redrive it": 1}

        run = await queue.runs.start("redrive", everything=True, by="ann", stop_percent=50)
        run = await settled(queue, run, clock)
        assert (run.state, run.counts.moved) == (RunState.HALTED, 1), run.halted_because
        await queue.archive_task("wf_00000")
        run = await queue.runs.resume(run.run_id, by="ann", stop_percent=100)
        run = await settled(queue, run, clock)
        assert run.state is RunState.DONE
        counts = run.counts
        assert (counts.moved, counts.succeeded, counts.failed_again, counts.closed) == (39, 37, 2, 0)

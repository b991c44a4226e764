"""The dashboard on OpenSearch: it equals a recount."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import ManualClock
from tests.monitoring.test_dashboard import archive_recounted, assert_staleness, fill_tasks
from tests.support.opensearch import Servers

pytestmark = pytest.mark.opensearch


async def test_views_equal_a_recount(opensearch: Servers, opensearch_prefix: str) -> None:
    store, clock = OpenSearchStore(opensearch.urls, prefix=opensearch_prefix, timeout=60, kinds=KINDS), ManualClock()
    async with DeadLetterQueue(store=store, clock=clock) as queue:
        for view in (queue.dashboard.dlq, queue.dashboard.staleness, queue.dashboard.archive):
            assert await view() == [], "nothing has been stored yet"
        await fill_tasks(queue, 60)
        for number in range(6):
            for _ in range(2):
                await queue.enqueue(f"wf_{number}", {"n": number}, [], "boom")
                await queue.letters.resolve(f"wf_{number}")
            clock.advance(timedelta(days=10))
        clock.advance(timedelta(days=31))
        assert (await queue.archive.archive_completed_tasks(dry_run=False)).tasks_archived == 6

        for each in (queue, queue.in_namespace("eu"), queue.all_namespaces):
            await assert_staleness(each)
            lines = await each.dashboard.archive()
            assert [line for line in lines if line["archive_size"]] == await archive_recounted(each)

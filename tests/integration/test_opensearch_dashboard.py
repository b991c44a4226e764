"""The dashboard on OpenSearch: it equals a recount, also where an earlier version wrote some of the documents."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import ManualClock
from tests.opensearch import Servers
from tests.unit.core.queue.test_dashboard import archive_recounted, assert_staleness, fill_tasks

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

        lacking = (
            ("dlq_tasks", ["entered_second"], 20),
            ("dlq_archive_2026_01", ["former_count", "document_bytes"], 2),
        )
        for index, names, count in lacking:
            source = "for (name in params.names) ctx._source.remove(name)"
            body = {"script": {"source": source, "params": {"names": names}}, "max_docs": count}
            assert opensearch.request("POST", f"/{opensearch_prefix}_{index}/_refresh")[0] == 200
            path = f"/{opensearch_prefix}_{index}/_update_by_query?refresh=true"
            status, answer = opensearch.request("POST", path, body)
            assert (status, answer["updated"]) == (200, count), answer
        for each in (queue, queue.in_namespace("eu"), queue.all_namespaces):
            await assert_staleness(each)
            lines = await each.dashboard.archive()
            assert [line for line in lines if line["archive_size"]] == await archive_recounted(each)

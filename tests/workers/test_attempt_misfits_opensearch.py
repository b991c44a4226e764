"""Workers of two versions of one function on a real OpenSearch."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.stores.opensearch import OpenSearchStore

pytestmark = pytest.mark.opensearch


@pytest.mark.parametrize("old_first", [True, False])
async def test_each_worker_runs_what_fits_it(opensearch_url: str, opensearch_prefix: str, old_first: bool) -> None:
    ran: list[Any] = []

    async with AsyncExitStack() as stack:

        async def opened() -> MahavishnuApp:
            store = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=60, kinds=KINDS)
            return await stack.enter_async_context(
                MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=store)
            )

        old, new = await opened(), await opened()

        @old.workflow("invoice")
        async def invoice(amount: int) -> None:
            ran.append(("old", amount))

        @new.workflow("invoice")
        async def invoice_now(amount: int, currency: str) -> None:
            ran.append(("new", amount, currency))

        for task in ({"amount": 1}, {"amount": 2, "currency": "EUR"}):
            await new.dlq.enqueue(f"wf_{task['amount']}", task, [], "boom", "immediate", adapter="invoice")
        for app in (old, new) if old_first else (new, old):
            await app.dlq.run_due()
            await app.dlq.list_tasks()  # what was given back is found from here on
        await (old if not old_first else new).dlq.run_due()
        letters = [await old.dlq.get_task(name, include_archived=True) for name in ("wf_1", "wf_2")]
    assert sorted(ran) == [("new", 2, "EUR"), ("old", 1)]
    assert [(each.status, each.retry_count, each.total_attempts, each.unfit) for each in letters if each] == [
        ("completed", 0, 1, None)
    ] * 2

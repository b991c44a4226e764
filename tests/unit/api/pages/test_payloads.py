"""Who may look and not see payloads finds none on any of these pages."""

from __future__ import annotations

from mahavishnu.api import Access
from mahavishnu.api.auth import Limit
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.lifecycle import Lifecycle
from mahavishnu.model.permissions import Permission
from mahavishnu.testing import ManualClock
from tests.unit.api.conftest import TOKENS, harness_for
from tests.unit.api.pages.reading import read


async def test_payloads_are_shown_to_those_who_may_see_them() -> None:
    clock = ManualClock()
    dlq = DeadLetterQueue(clock=clock)
    limits = {"vic": Limit(frozenset({Permission.VIEW}))}
    access = Access.of({"vic": TOKENS["viewer"]}, {}, {"ada": TOKENS["admin"]}, limits=limits)
    async for api in harness_for(dlq, clock, access):
        await dlq.enqueue("a", {"card": "canary"}, [], "boom")
        await dlq.queues.create("q")
        await dlq.queues.produce("q", {"card": "canary"})
        task = await Lifecycle(dlq.context).create("pay", {"card": "canary"})
        run = await dlq.runs.start("redrive", by="ada", everything=True, patch={"card": "canary"})
        for path in (f"/tasks/{task.task_id}", f"/runs/{run.run_id}", "/queues/q", "/audit"):
            assert "canary" in await read(api, path, "admin"), path
            assert "canary" not in await read(api, path, "viewer"), path

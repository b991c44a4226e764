"""Who may look and not see payloads finds none on any of these pages."""

from __future__ import annotations

from mahavishnu.core.api import Access
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.http.auth import Limit
from mahavishnu.model.permissions import Permission
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.testing import ManualClock
from tests.support.api import TOKENS, harness_for
from tests.support.pages import read


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


async def test_each_look_at_a_letter_is_written_down_where_that_is_wanted() -> None:
    clock = ManualClock()
    dlq = DeadLetterQueue(clock=clock, options=QueueOptions(audit_payload_reads=True))
    async for api in harness_for(dlq, clock, Access.of({}, {}, {"ada": TOKENS["admin"]})):
        await dlq.enqueue("a", {"card": "canary"}, [], "boom")
        for _ in range(2):
            assert "canary" in await read(api, "/letters/a", "admin")
        assert len((await dlq.audit.list(actor="ada", action="read")).items) == 2

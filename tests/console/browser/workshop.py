"""A queue in which all that the further pages show is there: runs in all states, queues, tasks, an archive, workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import StepRecord
from mahavishnu.testing import ManualClock
from tests.console.browser.shop import NIGHT, failure_of, order_of, price

VAT = {"SE": 0.25}


async def invoice(task: dict[str, Any], repos: list[str]) -> None:
    """Price an order, and ask for its tax."""
    price(task)
    VAT[task["customer"]["country"]]


def make_workshop(clock: ManualClock) -> DeadLetterQueue:
    """The queue; its letters are orders, which are run by `invoice`."""
    return DeadLetterQueue(clock=clock, options=QueueOptions(callback=invoice))


async def fill_workshop(dlq: DeadLetterQueue, clock: ManualClock) -> dict[str, str]:
    """Have it happen. Returns the ids that addresses of pages need."""
    clock.set(NIGHT - timedelta(hours=1))
    for number in range(60):
        order = order_of(1042 + number)
        order["customer"]["country"] = "DE" if number % 4 == 3 else "SE"
        await dlq.enqueue(
            f"order-{1042 + number}", order, ["shop"], failure_of(1042 + number), "never", 0, adapter="orders"
        )
    ids = {"halted": await _run(dlq, clock, {"currency": "EUR"})}
    ids["archived"], ids["old_task"] = await _archive(dlq, clock)
    ids["task"] = await _track(dlq, clock)
    await _queue(dlq)
    clock.set(NIGHT - timedelta(seconds=20))
    for adapter in ("mail", "sync-catalogue"):
        await dlq.enqueue(f"{adapter}-1", {}, [], "connection refused", "immediate", adapter=adapter)
    clock.set(NIGHT)
    await dlq.claims.claim("mailer-1", adapters=["mail"], lease_seconds=3600)
    return ids


async def _track(dlq: DeadLetterQueue, clock: ManualClock) -> str:
    lifecycle = Lifecycle(dlq.context)
    clock.set(NIGHT - timedelta(hours=2))
    steps = [StepRecord("fetch"), StepRecord("price", ("fetch",)), StepRecord("publish", ("price",))]
    task = await lifecycle.create("import-catalogue", {"feed": "de", "pages": [1, 2, 3]}, steps=steps)
    await lifecycle.transition(task.task_id, "initializing")
    await lifecycle.transition(task.task_id, "steps_in_process")
    await lifecycle.begin_step(task.task_id, "fetch")
    await lifecycle.complete_step(task.task_id, "fetch", {"rows": 812})
    done = await lifecycle.create("send-invoice", {"invoice": 88100})
    await lifecycle.finalize(done.task_id)
    clock.set(NIGHT - timedelta(minutes=4))
    await lifecycle.create("send-invoice", {"invoice": 88101})
    return task.task_id


async def _run(dlq: DeadLetterQueue, clock: ManualClock, patch: dict[str, Any]) -> str:
    run = await dlq.runs.start(
        "redrive", by="ann", patch=patch, stop_percent=20, reason="iOS 9.2 sends EURO, OPS-231", adapter="orders"
    )
    for _ in range(8):
        await dlq.runs.advance()
        await dlq.run_due()
        clock.advance(5)
    return run.run_id


async def _queue(dlq: DeadLetterQueue) -> None:
    await dlq.queues.create("mail-dead")
    await dlq.queues.create("mail", dead_queue="mail-dead", retry={"attempts": 2, "cooldown": "30s"})
    for number in range(6):
        await dlq.queues.produce("mail", {"to": f"kim-{number}@shop.example", "template": "invoice"})
    for lease in await dlq.queues.lease("mail", "mailer-1", limit=3):
        await dlq.queues.retry("mail", lease.item.id, lease.token, error="550 no such mailbox", dead=True)
    await dlq.queues.lease("mail", "mailer-1", limit=1, lease_seconds=7200)
    await dlq.queues.maintain()


async def _archive(dlq: DeadLetterQueue, clock: ManualClock) -> tuple[str, str]:
    clock.set(NIGHT - timedelta(days=40))
    for number in range(3):
        await dlq.enqueue(f"order-{810 + number}", order_of(810 + number), [], failure_of(810 + number), "never", 0)
        await dlq.letters.resolve(f"order-{810 + number}", by="bo", notes="paid by hand")
    task = await Lifecycle(dlq.context).create("import-catalogue", {"feed": "se"}, steps=[StepRecord("fetch")])
    await Lifecycle(dlq.context).transition(task.task_id, "cancelled", reason="the feed has ended")
    clock.set(NIGHT - timedelta(hours=3))
    await dlq.archive.run(dry_run=False, by="retention")
    return (await dlq.archive.search()).items[0].copy.entry_id, task.task_id

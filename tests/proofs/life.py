"""One process's life: `python -m tests.proofs.life work|go-home`, with the settings in the environment.

`work` runs workflows that fail and retries them until nothing is left to do now; `go-home` waits until nothing is kept
locally any more. Both end with one line of JSON that tells what they saw.
"""

from __future__ import annotations

import time

BEGAN = time.monotonic()  # before anything else is imported: that is part of starting

import asyncio  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from collections import Counter  # noqa: E402
from typing import Any  # noqa: E402

from mahavishnu.core import MahavishnuApp  # noqa: E402
from mahavishnu.core.dead_letter_queue import DeadLetterQueue  # noqa: E402
from mahavishnu.model.errors import StoreUnavailable  # noqa: E402
from mahavishnu.model.events import Event, EventName  # noqa: E402
from tests.support.node import say, until  # noqa: E402

FLAKY, DOWN, LATER, ITEMS = 20, 5, 5, 4
RUNS: Counter[str] = Counter()


def flaky(task: Any, repos: list[str]) -> str:
    """Works from the second run on."""
    RUNS[task["id"]] += 1
    if RUNS[task["id"]] == 1:
        raise ConnectionError("connection refused")
    return "swept"


def down(task: Any, repos: list[str]) -> None:
    RUNS[task["id"]] += 1
    raise ConnectionError("connection refused")


async def work(app: MahavishnuApp, dlq: DeadLetterQueue) -> None:
    """Failures of three sorts: that a retry helps, that none helps, that are due much later."""
    left, done = FLAKY + DOWN, asyncio.Event()

    async def heard(event: Event) -> None:
        nonlocal left
        left -= event.name in (EventName.RETRY_SUCCEEDED, EventName.EXHAUSTED)
        if not left:
            done.set()

    dlq.listen(heard)
    await app.start_dlq_processor()
    tasks = [f"flaky-{n}" for n in range(FLAKY)] + [f"down-{n}" for n in range(DOWN)]
    results = await asyncio.gather(
        *(app.execute_workflow({"id": name}, name.partition("-")[0], ["api"]) for name in tasks)
    )
    assert all(result["dlq_enqueued"] for result in results), results
    for number in range(LATER):
        await dlq.enqueue(f"later-{number}", {"id": f"later-{number}"}, ["api"], "timeout", retry_policy="linear")
    await done.wait()
    for number in range(ITEMS):  # the settings declare this queue, and it is in no store yet
        await dlq.queues.produce("orders", number)
    (lease,) = await dlq.queues.lease("orders", "w")
    await dlq.queues.complete("orders", lease.item.id, lease.token)
    try:
        await dlq.queues.produce("undeclared", 1)
    except StoreUnavailable as problem:
        assert "nothing was changed or kept" in str(problem), problem
    else:
        raise AssertionError("nobody would look for it")


async def go_home(app: MahavishnuApp, dlq: DeadLetterQueue) -> None:
    """The processor runs meanwhile: nothing that is done may be done again."""
    await app.start_dlq_processor()

    async def home() -> bool:
        health = await dlq.health()
        return health.status == "ok" and not health.waiting

    await until(home)


async def main(part: str) -> None:
    app = MahavishnuApp()
    app.register_adapter("flaky", flaky)
    app.register_adapter("down", down)
    async with app:
        started = time.monotonic() - BEGAN
        await (work if part == "work" else go_home)(app, app.dlq)
        letters = await app.dlq.list_tasks(status=None, resolution=None)
        stats, health = await app.dlq.get_statistics(), await app.dlq.health()
        seen = {
            "started": started,
            "runs": sum(RUNS.values()),
            "letters": {letter.task_id: [str(letter.status), letter.total_attempts] for letter in letters},
            "list": letters.degraded,
            "statistics": stats["degraded"],
            "mode": stats["storage_mode"],
            "health": [health.status, health.waiting],
            "warnings": await app.dlq.health_warnings(),
            "items": sorted([each.payload, each.status] for each in (await app.dlq.queues.items("orders")).items),
        }
    say(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

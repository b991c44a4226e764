"""Mahavishnu: the app runs each job, keeps those that fail as letters, and retries them."""

import asyncio
from typing import Any

from job import JOBS, SECONDS, URL, failed, note, numbers, run

AT_ONCE = 200  # jobs that are submitted at the same time


async def work(task: Any, repos: list[str]) -> None:
    run(task["id"])


async def serve(*, to_the_end: bool) -> None:
    from mahavishnu.core.app import MahavishnuApp
    from mahavishnu.core.config import MahavishnuSettings
    from mahavishnu.core.strategies import Decision

    settings = MahavishnuSettings(
        dlq_store_url=URL,
        dlq_local_url="none",
        dlq_max_size=100_000,
        dlq_retry_concurrency=500,
        dlq_claim_lease_seconds=SECONDS,
        dlq_clock_skew_grace_seconds=1,
        dlq_retry_interval_seconds=10,
    )
    app = MahavishnuApp(settings)
    assert app.dlq_integration is not None and app.dlq is not None
    app.dlq_integration.set_strategy(lambda occurrence: Decision(True, "retried at once", "immediate"))
    app.register_adapter("work", work)
    places, before = asyncio.Semaphore(AT_ONCE), frozenset(failed)

    async def submit(number: int) -> None:
        async with places:
            await app.execute_workflow({"id": number}, "work", [], task_id=f"job-{number}")
            note("A", number)  # whoever submitted it has an answer, and will not submit it again

    async with app:
        if not to_the_end:  # the tables or indices are made, as those of other systems are before their workers start
            return
        await app.start_dlq_processor()
        async with asyncio.TaskGroup() as group:
            for number in sorted(set(range(JOBS)) - numbers("A")):
                # Whoever has no answer looks whether there is a letter, before submitting the job again.
                if number not in before or await app.dlq.get_task(f"job-{number}", include_archived=True) is None:
                    group.create_task(submit(number))
        await asyncio.Event().wait()


def main(verb: str) -> None:
    """Make the store ready, or become the worker."""
    asyncio.run(serve(to_the_end=verb == "work"))

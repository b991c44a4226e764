"""procrastinate on PostgreSQL; jobs of a worker that is gone are found as its documentation says."""

import asyncio
import logging

import procrastinate
from job import JOBS, SECONDS, URL, run

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL, max_size=10))


@app.task(name="work", retry=procrastinate.RetryStrategy(max_attempts=4, wait=0))
async def work(number):
    run(number)


async def enqueue():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await work.batch_defer_async(*({"number": number} for number in range(JOBS)))


async def retry_stalled():
    while True:
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=SECONDS):
            await app.job_manager.retry_job(job)
        await asyncio.sleep(SECONDS / 2)


async def serve():
    async with app.open_async():
        looking = asyncio.create_task(retry_stalled())
        await app.run_worker_async(concurrency=50, fetch_job_polling_interval=0.05, update_heartbeat_interval=1)
        looking.cancel()


def main(verb):
    """Enqueue the jobs, or become the worker."""
    logging.disable(logging.CRITICAL)
    asyncio.run(enqueue() if verb == "enqueue" else serve())

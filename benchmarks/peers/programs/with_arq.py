"""arq: an exception other than `Retry` ends a job for good, so the task raises that."""

import asyncio

from arq import Worker, create_pool
from arq.connections import RedisSettings
from arq.worker import Retry
from job import JOBS, SECONDS, URL, run

SETTINGS = {"max_jobs": 100, "poll_delay": 0.01, "keep_result": 0, "max_tries": 5, "job_timeout": SECONDS}


async def work(context, number):
    try:
        run(number)
    except ConnectionResetError as lost:
        raise Retry(defer=0) from lost


async def enqueue():
    pool = await create_pool(RedisSettings.from_dsn(URL))
    for number in range(JOBS):
        await pool.enqueue_job("work", number)


def main(verb):
    """Enqueue the jobs, or become the worker."""
    if verb == "enqueue":
        asyncio.run(enqueue())
    else:
        asyncio.set_event_loop(asyncio.new_event_loop())
        Worker([work], redis_settings=RedisSettings.from_dsn(URL), **SETTINGS).run()

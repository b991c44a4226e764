"""taskiq: a stream of Redis with acknowledgements; a middleware sends a failed task again."""

import asyncio

from job import JOBS, SECONDS, URL, execute, run
from taskiq import SimpleRetryMiddleware
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(URL, idle_timeout=1000 * SECONDS, unacknowledged_lock_timeout=SECONDS).with_middlewares(
    SimpleRetryMiddleware(3)
)


@broker.task(retry_on_error=True, max_retries=3)
async def work(number: int) -> None:
    run(number)


async def enqueue():
    await broker.startup()
    for number in range(JOBS):
        await work.kiq(number)
    await broker.shutdown()


def main(verb):
    """Enqueue the jobs, or become the worker."""
    if verb == "enqueue":
        asyncio.run(enqueue())
    else:
        execute("taskiq", "worker", "with_taskiq:broker", "--workers", "1", "--log-level", "CRITICAL")

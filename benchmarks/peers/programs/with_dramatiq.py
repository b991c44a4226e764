"""Dramatiq on Redis, with its middleware for retries; a delay of 0 is not possible, one millisecond is."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from job import JOBS, SECONDS, URL, execute, run

dramatiq.set_broker(RedisBroker(url=URL, heartbeat_timeout=1000 * SECONDS, maintenance_chance=100_000))


@dramatiq.actor(max_retries=3, min_backoff=1, max_backoff=1)
def work(number):
    run(number)


def main(verb):
    """Enqueue the jobs, or become the worker."""
    if verb == "enqueue":
        for number in range(JOBS):
            work.send(number)
    else:
        execute("dramatiq", "with_dramatiq", "--processes", "1", "--threads", "8", "--skip-logging")

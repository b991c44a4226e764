"""RQ with the worker that does not fork for each job."""

import logging

from job import JOBS, SECONDS, URL, run
from redis import Redis
from rq import Queue, Retry, SimpleWorker

connection = Redis.from_url(URL)


def work(number):
    run(number)


def main(verb):
    """Enqueue the jobs, or become the worker."""
    queue = Queue(connection=connection, default_timeout=SECONDS)
    if verb == "enqueue":
        jobs = [
            Queue.prepare_data("with_rq.work", (number,), retry=Retry(max=3), result_ttl=0) for number in range(JOBS)
        ]
        queue.enqueue_many(jobs)
    else:
        logging.disable(logging.CRITICAL)
        SimpleWorker([queue], connection=connection, maintenance_interval=SECONDS).work(logging_level="CRITICAL")

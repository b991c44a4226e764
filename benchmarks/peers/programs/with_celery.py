"""Celery on Redis: late acknowledgement, so that a killed worker loses nothing; the pool that is one process."""

from celery import Celery
from job import JOBS, SECONDS, URL, execute, run

app = Celery("with_celery", broker=URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=100,
    broker_transport_options={"visibility_timeout": SECONDS},
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(autoretry_for=(ConnectionResetError,), max_retries=3, default_retry_delay=0)
def work(number):
    run(number)


def main(verb):
    """Enqueue the jobs, or become the worker."""
    if verb == "enqueue":
        for number in range(JOBS):
            work.delay(number)
    else:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "CRITICAL", "--quiet"]
        execute("celery", "-A", "with_celery", *quiet[-1:], "worker", "--pool", "solo", *quiet[:-1])

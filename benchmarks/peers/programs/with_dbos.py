"""DBOS on SQLite: a workflow with one step, which is retried in its process."""

import threading

from dbos import DBOS, DBOSClient
from job import JOBS, URL, run


@DBOS.step(retries_allowed=True, max_attempts=4, interval_seconds=0.001, backoff_rate=1)
def step(number):
    run(number)


@DBOS.workflow(name="work")
def work(number):
    step(number)


def main(verb):
    """Enqueue the jobs, or become the worker."""
    config = {"name": "peer", "system_database_url": URL, "log_level": "CRITICAL", "executor_id": "one"}
    config["application_version"] = "one"  # what a killed process has begun is carried on by the same version
    DBOS(config=config)
    if verb == "enqueue":
        DBOS.launch()  # makes the tables
        DBOS.register_queue("peer", polling_interval_sec=0.05)
        DBOS.destroy()
        client = DBOSClient(system_database_url=URL)
        for number in range(JOBS):
            client.enqueue({"queue_name": "peer", "workflow_name": "work", "app_version": "one"}, number)
    else:
        DBOS.launch()
        threading.Event().wait()

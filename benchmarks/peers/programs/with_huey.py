"""huey on SQLite, written through to the disk, or on Redis."""

from huey import RedisHuey, SqliteHuey
from job import JOBS, URL, execute, run

if URL.startswith("redis:"):
    huey = RedisHuey("peer", url=URL, results=False)
else:
    huey = SqliteHuey("peer", filename=URL.removeprefix("sqlite:///"), fsync=True, results=False)


@huey.task(retries=3, retry_delay=0)
def work(number):
    run(number)


def main(verb):
    """Enqueue the jobs, or become the worker."""
    if verb == "enqueue":
        for number in range(JOBS):
            work(number)
    else:
        options = ["--workers", "4", "--worker-type", "thread", "--delay", "0.01", "--no-periodic", "--quiet"]
        execute("huey_consumer", "with_huey.huey", *options)

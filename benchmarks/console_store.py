"""What the benchmarks of the console look at: a store with letters, and some of everything else that has a page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from benchmarks.stores import fill, letter
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.rules import move
from mahavishnu.tasks.task import TaskRecord, TaskState, new_task
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import Worker

GROUPS, RUNS, LETTERS_OF_RUN, TASKS_KEPT, QUEUES, ITEMS, ARCHIVED, EDITED = 200, 30, 10, 1000, 10, 50, 1000, 500


def letters(count: int, now: datetime) -> Iterator[DeadLetter]:
    """Open ones, as captures make them, over the last two days, of 200 causes."""
    for number in range(count):
        at = now - timedelta(days=2) * number / count
        yield letter(
            "pages", created_at=at, updated_at=at, failed_at=at, due_at=now + timedelta(days=1),
            fingerprint=f"group-{number % GROUPS}", priority=0,
        )  # fmt: skip


def old_letters(now: datetime) -> Iterator[DeadLetter]:
    """Closed so long ago that they leave for the archive."""
    for number in range(ARCHIVED):
        at = now - timedelta(days=40 + number % 60)
        made = letter("old", created_at=at, updated_at=at, failed_at=at, fingerprint=f"old-{number % 20}")
        yield lifecycle.resolve(made, now=at, by="ann")


def settled_letters(now: datetime) -> Iterator[DeadLetter]:
    """Of 30 causes, whose letters bulk runs close."""
    for number in range(RUNS * LETTERS_OF_RUN):
        yield letter("settled", created_at=now, updated_at=now, fingerprint=f"settled-{number % RUNS}")


def tasks(now: datetime) -> Iterator[TaskRecord]:
    """Tracked ones, of which every twentieth hangs."""
    for number in range(TASKS_KEPT):
        at = now - (timedelta(hours=5) if number % 20 == 0 else timedelta(seconds=number % 200))
        task = new_task("order", now=at, context=Json.of({"order": number}), task_id=f"task-{number:06}")
        yield move(task, TaskState.INITIALIZING, now=at)


async def fill_store(url: str, count: int) -> list[str]:
    """Fill an empty store: `count` open letters, and some of everything. Returns the task ids of the newest letters."""
    now = SystemClock().now()
    async with open_store(url, local=None, kinds=KINDS) as opened:
        await fill(opened.collection(LETTERS), letters(count, now))
        await fill(opened.collection(LETTERS), old_letters(now))
        await fill(opened.collection(LETTERS), settled_letters(now))
        await opened.collection(TASKS).write(list(tasks(now)))
        workers = [Worker(f"worker-{number}", now, now, takes_all=True, host="a", pid=number) for number in range(5)]
        await opened.collection(WORKERS).write(workers)
    async with DeadLetterQueue(10 * count, store=open_store(url)) as dlq:
        newest = (await dlq.letters.find(dlq.search.query("is:open", limit=EDITED))).items
        for each in newest:  # each is an entry of the audit
            await dlq.letters.edit(each.task_id, priority=1, by="ann")
        for number in range(RUNS):
            group = Query((Is("fingerprint", (f"settled-{number}",)),))
            await dlq.runs.start("resolve", group, by="ann", reason="settled by hand")
        while await dlq.runs.advance():
            pass  # to their end: the server would go on with them, beside what is measured
        for number in range(QUEUES):
            await dlq.queues.create(f"queue-{number}")
            await dlq.queues.import_items(f"queue-{number}", [{"payload": {"n": item}} for item in range(ITEMS)])
        await dlq.archive.archive_completed_tasks(30, ARCHIVED, dry_run=False)
    return [each.task_id for each in newest]

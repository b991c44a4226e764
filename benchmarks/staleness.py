"""How long a look for stale tasks takes on a SQLite file: `python -m benchmarks.staleness [tasks [stale [rounds]]]`.

Of 10,000 tracked tasks 4,459 are stale, in three states and templates. Measured are looks that change nothing, with the
usual batch of 100 and with all of them, and what a worker does: detect all and hand them over. Beside it bare SQL on a
file of its own: the same writes, one transaction for each batch of tasks, and of letters. `cpu` is processor time.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.json_value import Json
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.rules import move
from mahavishnu.tasks.stuck import StalenessCycle
from mahavishnu.tasks.task import TaskRecord, TaskState, new_task

TEMPLATES: dict[str, Any] = {
    "payment": {"lifecycle": {"max_waiting_for_dependencies_minutes": 10}},
    "sync": {"lifecycle": {"max_duration_minutes": 10080}},
    "mail": None,
}
_STATES = (TaskState.WAITING_FOR_DEPENDENCIES, TaskState.WAITING_FOR_RETRY, TaskState.STEPS_IN_PROCESS)
_NAMES = (None, "payment", "mail")
_BATCH = 100


class _Watch:
    """Says how long something took."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def tell(self, what: str) -> None:
        seconds, cpu = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        print(f"{what:<30} {seconds:8.3f} s   cpu {cpu:8.3f} s")


def _make(number: int, stale: bool, now: datetime) -> TaskRecord:
    """A task that has waited for hours, or has just begun to."""
    entered = now - (timedelta(hours=5, seconds=number) if stale else timedelta(seconds=number % 300))
    context = Json.of({"order": number, "lines": [{"sku": f"S-{each}", "count": each} for each in range(5)]})
    template = _NAMES[number // 3 % 3]
    task = new_task("order", now=entered, context=context, template=template, task_id=f"task-{number:06}")
    task = move(task, TaskState.INITIALIZING, now=entered)
    return move(task, _STATES[number % 3], now=entered)


def _measure_raw(path: Path, tasks: Sequence[str], letters: Sequence[str]) -> None:
    file = sqlite3.connect(path)
    file.execute("PRAGMA journal_mode=WAL")
    file.execute("PRAGMA synchronous=FULL")
    for table in ("tasks", "letters"):
        file.execute(f"CREATE TABLE {table} (key TEXT PRIMARY KEY, body TEXT)")
    with file:
        file.executemany("INSERT INTO tasks VALUES (?, ?)", [(str(n), text) for n, text in enumerate(tasks)])
    watch = _Watch()
    for first in range(0, len(tasks), _BATCH):
        numbers = range(first, min(first + _BATCH, len(tasks)))
        with file:
            file.executemany("UPDATE tasks SET body = ?2 WHERE key = ?1", [(str(n), tasks[n]) for n in numbers])
        with file:
            file.executemany("INSERT INTO letters VALUES (?, ?)", [(str(n), letters[n]) for n in numbers])
    watch.tell("bare SQL, the same writes")
    file.close()


async def _measure(folder: Path, count: int, stale: int) -> None:
    now = datetime.now(UTC)
    settings = MahavishnuSettings(
        dlq_store_url=f"sqlite:///{folder}/letters.db", dlq_max_size=stale + 100, templates=TEMPLATES
    )
    async with MahavishnuApp(settings) as app:
        tasks = [_make(number, number < stale, now) for number in range(count)]
        for first in range(0, count, 1000):
            assert all(await app.lifecycle.tasks.write(tasks[first : first + 1000]))
        for batch in (_BATCH, 10_000):
            for _ in range(3):
                watch = _Watch()
                rows = await app.lifecycle.detect_and_transition_stale_tasks(batch_size=batch)
                watch.tell(f"look, {len(rows):,} rows")
        watch = _Watch()
        moved = await StalenessCycle(app.dlq.context).run()
        watch.tell(f"detect and hand over {moved:,}")
        ended = (await app.lifecycle.list("error", limit=1000)).items
        letters = await app.dlq.list_tasks(limit=1000)
        assert moved == stale and len(await app.dlq.list_tasks()) == stale
    task_texts = [TASKS.document(ended[n % len(ended)]) for n in range(stale)]
    letter_texts = [LETTERS.document(letters[n % len(letters)]) for n in range(stale)]
    _measure_raw(folder / "raw.db", task_texts, letter_texts)


async def main(count: int, stale: int, rounds: int) -> None:
    """Measure, and print a line for each."""
    for number in range(rounds):
        print(f"round {number + 1}: {count:,} tasks, {stale:,} stale")
        with tempfile.TemporaryDirectory(prefix="mahavishnu-stale-") as folder:
            await _measure(Path(folder), count, stale)


if __name__ == "__main__":
    asyncio.run(main(*(int(number) for number in [*sys.argv[1:], *("10000", "4459", "3")[len(sys.argv) - 1 :]])))

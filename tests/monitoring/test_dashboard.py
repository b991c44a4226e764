"""The views of the dashboard equal a recount of all records, in one namespace and in all."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu.archive.partitions import ArchiveReader, Partitions
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.scoped import NamespaceRecords
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import OPEN, TaskRecord, TaskState, evolve, new_task
from mahavishnu.testing import FaultyStore
from tests.archive.test_archiving import LATER
from tests.support.queues import House

NAMESPACES = ("default", "eu")
MINUTE = timedelta(minutes=1)


async def fill_tasks(queue: DeadLetterQueue, count: int = 200) -> None:
    """Tasks in all states of two namespaces, which are in them for some seconds, or for some days."""
    chance, now = random.Random(7), queue.clock.now()
    tasks = []
    for number in range(count):
        task = new_task(f"job-{number}", now=now - timedelta(days=9), namespace=NAMESPACES[number % 2])
        ago = timedelta(minutes=chance.choice((0, 1, 59, 60, 61, 1439, 1440, 1441, chance.randint(0, 9000))))
        tasks.append(evolve(task, state=chance.choice(list(TaskState)), state_entered_at=now - ago))
    for edge in (60, 1440):  # minutes: neither is over it
        task = new_task(f"edge-{edge}", now=now, namespace="eu")
        tasks.append(evolve(task, state_entered_at=now - timedelta(minutes=edge)))
    await queue.open()
    assert None not in await queue.store.collection(TASKS).write(tasks)


async def staleness_recounted(queue: DeadLetterQueue) -> dict[str, dict[str, Any]]:
    """The same from every single record."""
    states = defaultdict[str, list[TaskRecord]](list)
    records = NamespaceRecords(queue.store.collection(TASKS), queue.namespace)
    async for task in scan(records, Query()):
        if task.state in OPEN:
            states[task.state].append(task)
    lines = {}
    for state, tasks in states.items():
        tasks.sort(key=lambda task: (task.state_entered_at, task.task_id))
        minutes = [(queue.clock.now() - task.state_entered_at) / MINUTE for task in tasks]
        lines[state] = {
            "current_state": state,
            "task_count": len(tasks),
            "avg_minutes_in_state": pytest.approx(sum(minutes) / len(minutes), abs=0.07),  # a decimal, and a second
            "max_minutes_in_state": pytest.approx(max(minutes), abs=0.05),
            "stale_over_1h": sum(each > 60 for each in minutes),
            "stale_over_1day": sum(each > 1440 for each in minutes),
            "top_stale_tasks": [task.task_id for task in tasks[:10]],
        }
    return lines


async def assert_staleness(queue: DeadLetterQueue) -> None:
    lines = await queue.dashboard.staleness()
    assert lines.degraded is None
    assert {line["current_state"]: line for line in lines} == await staleness_recounted(queue)
    over = [line["stale_over_1h"] for line in lines]
    assert over == sorted(over, reverse=True)


async def archive_recounted(queue: DeadLetterQueue) -> list[dict[str, Any]]:
    """The same from every copy that counts."""
    months: dict[str, Counter[str]] = defaultdict(Counter)
    places, reader = Partitions(queue.store, queue.clock), ArchiveReader(queue.context)
    for each in await places.every():
        records = NamespaceRecords(places.letters(each.name), queue.namespace)
        for copy in await reader.only_effective([copy async for copy in scan(records, Query())]):
            size = sum(len(text.encode()) for text in (copy.letter, *copy.former, *copy.revisions))
            months[each.month].update(tasks_archived=1, steps_archived=len(copy.former), archive_size=size)
        if each.has_tasks:
            async for task in scan(NamespaceRecords(places.tasks(each.name), queue.namespace), Query()):
                size = sum(len(text.encode()) for text in (task.task, *task.transitions))
                months[each.month].update(lifecycle_tasks_archived=1, archive_size=size)
    names = ("tasks_archived", "steps_archived", "lifecycle_tasks_archived", "archive_size")
    return [{"month": month, **{name: months[month][name] for name in names}} for month in sorted(months, reverse=True)]


async def fill_archive(queue: DeadLetterQueue, house: House, count: int = 9) -> None:
    """Letters of three months, some of which had others before, and revisions."""
    for number in range(count):
        for _ in range(1 + number % 3):
            await queue.enqueue(f"ärger_{number}", {"n": number}, [], "boom ü")
            await queue.letters.edit(f"ärger_{number}", priority=number + 1)
            await queue.letters.resolve(f"ärger_{number}")
        house.clock.advance(timedelta(days=8))
    house.clock.advance(LATER)
    assert (await queue.archive.archive_completed_tasks(dry_run=False)).tasks_archived == count


async def test_staleness_equals_a_recount_in_one_namespace_and_in_all(any_house: House) -> None:
    queue = any_house.queue()
    assert await queue.dashboard.staleness() == []
    await fill_tasks(queue)
    for view in (queue, queue.in_namespace("eu"), queue.all_namespaces, queue.in_namespace("nobody")):
        await assert_staleness(view)
    assert sum(line["task_count"] for line in await queue.all_namespaces.dashboard.staleness()) > 100


async def test_a_clock_that_is_ahead_makes_no_negative_time(house: House) -> None:
    queue = house.queue()
    now = queue.clock.now()
    await queue.open()
    await queue.store.collection(TASKS).write([new_task("early", now=now + timedelta(minutes=5))])
    (line,) = await queue.dashboard.staleness()
    assert (line["avg_minutes_in_state"], line["max_minutes_in_state"], line["stale_over_1h"]) == (0, 0, 0)


async def test_the_archive_equals_a_recount(any_house: House) -> None:
    queue = any_house.queue()
    assert await queue.dashboard.archive() == []
    await fill_archive(queue, any_house)
    eu = queue.in_namespace("eu")
    await eu.enqueue("elsewhere", {}, [], "boom")
    await eu.letters.resolve("elsewhere")
    any_house.clock.advance(LATER)
    await eu.archive.archive_completed_tasks(dry_run=False)
    for name in ("tracked", "other"):
        task = await Lifecycle(queue.context).create(name, context={"ü": name})
        await Lifecycle(queue.context).transition(task.task_id, "cancelled")
    any_house.clock.advance(LATER)
    assert (await queue.archive.run(dry_run=False)).lifecycle_tasks_archived == 2
    await queue.archive.restore("ärger_4")
    for view in (queue, eu, queue.all_namespaces):
        lines = await view.dashboard.archive()
        assert lines.degraded is None
        assert [line for line in lines if line["archive_size"]] == await archive_recounted(view)
    everything = await queue.all_namespaces.dashboard.archive()
    assert sum(line["tasks_archived"] for line in everything) == 9
    assert sum(line["lifecycle_tasks_archived"] for line in everything) == 2


async def test_a_month_that_is_detached_is_not_known(tmp_path: Any) -> None:
    house = House("sqlite", tmp_path)
    queue = house.queue()
    await fill_archive(queue, house)
    before = await queue.dashboard.archive()
    await queue.archive.detach("2026_02")
    lines = await queue.dashboard.archive()
    assert lines.degraded == "what is in detached partitions is not counted: 2026_02"
    names = ("tasks_archived", "steps_archived", "lifecycle_tasks_archived", "archive_size")
    unknown = {"month": "2026_02", **dict.fromkeys(names)}
    assert lines == [unknown if line["month"] == "2026_02" else line for line in before]
    await queue.archive.attach("2026_02")
    assert await queue.dashboard.archive() == before
    await house.close()


async def test_reasons_are_those_of_the_statistics(any_house: House) -> None:
    queue = any_house.queue()
    for number in range(5):
        await queue.enqueue(f"wf_{number}", {}, [], "boom", reason="staleness_timeout" if number % 2 else "manual")
    await queue.enqueue("wf_0", {}, [], "boom", namespace="eu")
    lines = await queue.dashboard.dlq()
    assert lines == await queue.get_statistics_by_reason()
    assert [(line["dlq_reason"], line["total_entries"]) for line in lines] == [("manual", 3), ("staleness_timeout", 2)]
    assert sum(line["total_entries"] for line in await queue.all_namespaces.dashboard.dlq()) == 6


async def test_an_outage_is_said() -> None:
    primary = FaultyStore(MemoryStore())
    async with DeadLetterQueue(store=FallbackStore(primary, MemoryStore())) as queue:
        await fill_tasks(queue)
        primary.faults.unavailable()
        for view in (queue.dashboard.dlq, queue.dashboard.staleness):
            assert (await view()).degraded is not None
        with pytest.raises(StoreUnavailable, match="out of reach"):
            await queue.dashboard.archive()


async def test_what_is_counted_is_not_read(any_house: House) -> None:
    """However many tasks and letters there are, ten tasks of each state are read."""
    queue = any_house.queue()
    await fill_tasks(queue, 600)
    seen = set[str]()
    collection = type(queue.store.collection(TASKS))
    find = collection.find

    async def counted(self: Any, query: Query, after: Any = None) -> Any:
        page = await find(self, query, after)
        seen.update(each.key for each in page.items)
        return page

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "find", counted)
        lines = await queue.all_namespaces.dashboard.staleness()
    assert sum(line["task_count"] for line in lines) > 300
    assert len(seen) <= 10 * len(lines)

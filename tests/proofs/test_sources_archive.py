"""Retention on stores that several processes share: what leaves, what stays, and that it is in one place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.errors import MahavishnuError, NoSuchLetter, NoSuchTask, StoreUnavailable
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.testing import FaultyStore, ManualClock
from mahavishnu.testing.clock import START
from tests.archive.test_tasks import with_many_moves
from tests.support.queues import letter_of, sound

NewQueue = Callable[..., DeadLetterQueue]
LATER = timedelta(days=31)


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def new_queue(store_url: str, clock: ManualClock) -> AsyncIterator[NewQueue]:
    """Makes queues over the same store, as other processes would have them."""
    made: list[DeadLetterQueue] = []

    def new(clock: ManualClock = clock, **rules: Any) -> DeadLetterQueue:
        store = FaultyStore(open_store(store_url, kinds=KINDS))
        made.append(DeadLetterQueue(store=store, clock=clock, options=QueueOptions(rules=[RetentionRules(**rules)])))
        return made[-1]

    yield new
    for queue in made:
        await queue.shutdown()


async def ended(queue: DeadLetterQueue, task: str, act: str) -> None:
    await queue.enqueue(task, {"task": task}, ["api"], "connection refused", max_retries=0)
    if act != "open":
        await getattr(queue.letters, act)(task)


async def in_archive(queue: DeadLetterQueue) -> list[str]:
    found, after = [], None
    while True:
        page = await queue.archive.list(limit=7, after=after)
        found += [line.copy.task_id for line in page.items]
        if page.next is None:
            return sorted(found)
        after = page.next


async def test_old_and_new_by_their_endings(new_queue: NewQueue, clock: ManualClock) -> None:
    """A38: the dry run tells what the run does; cancelled ones, permanent failures and open ones stay."""
    queue = new_queue()
    for age in ("old", "new"):
        for act in ("open", "resolve", "cancel", "fail", "archive"):
            await ended(queue, f"{age}-{act}", act)
        clock.advance(timedelta(days=16))
    clock.advance(timedelta(days=1))
    before = (await sound(queue))["lifetime_stats"]
    told = await queue.archive.archive_completed_tasks()
    done = await queue.archive.archive_completed_tasks(dry_run=False)
    assert told.tasks_archived == done.tasks_archived == 1
    assert await in_archive(queue) == ["old-resolve"]
    assert (await sound(queue))["lifetime_stats"] == before
    for name in ("old-open", "old-cancel", "old-fail", "old-archive", "new-resolve"):
        assert (await letter_of(queue, name)).task_id == name


async def test_a_month_goes_and_comes_back(new_queue: NewQueue, clock: ManualClock) -> None:
    """Detached, attached and dropped as a whole; and what is restored is what left."""
    queue, other = new_queue(), new_queue()
    await ended(queue, "january", "resolve")
    await queue.enqueue("edited", {"n": 1}, [], "boom")
    await queue.letters.edit("edited", priority=2)
    await queue.letters.resolve("edited")
    letter = await letter_of(queue, "edited")
    clock.advance(LATER)
    await ended(queue, "february", "resolve")
    clock.advance(LATER)
    before = (await sound(queue))["lifetime_stats"]
    assert (await queue.archive.archive_completed_tasks(dry_run=False)).tasks_archived == 3
    assert [each.partition.name for each in await other.archive.partitions()] == ["2026_02", "2026_01"]
    assert [each.letters for each in await other.archive.partitions()] == [1, 2]
    january = await other.archive.search(until=datetime(2026, 2, 1, tzinfo=UTC))
    assert sorted(line.copy.task_id for line in january.items) == ["edited", "january"]
    await queue.archive.detach("2026_01")
    assert await in_archive(other) == ["february"]
    with pytest.raises(NoSuchLetter):
        await other.archive.show("january")
    await other.archive.attach("2026_01")
    assert await in_archive(queue) == ["edited", "february", "january"]
    case = await other.archive.show("edited")
    assert (case.letter, len(case.revisions)) == (letter, 1)
    await Ledger(queue.context).fold()
    assert await other.archive.restore("edited") == letter
    assert await in_archive(queue) == ["february", "january"]
    assert (await sound(other))["lifetime_stats"] == before
    assert (await other.deletion.delete_task("january")).copies == 1
    await other.archive.detach("2026_01")
    await other.archive.drop("2026_01")
    assert await in_archive(queue) == ["february"]
    assert (await sound(other))["lifetime_stats"] == before


async def test_archived_twice_around_midnight(new_queue: NewQueue) -> None:
    """A40: a record of the last instant of January, by two processes, the first of which dies: one copy."""
    clock = ManualClock(datetime(2026, 1, 31, 23, 59, 59, 900_000, tzinfo=UTC))
    queue, killed = new_queue(clock), new_queue(clock)
    await ended(queue, "wf", "resolve")
    clock.advance(0.05)
    assert isinstance(killed.store, FaultyStore)
    with killed.store.faults.unavailable("write", kind=LETTERS), pytest.raises(StoreUnavailable):
        await killed.archive.archive_completed_tasks(retention_days=0, dry_run=False)
    assert await in_archive(queue) == [], "its letter is still there"
    clock.advance(timedelta(days=1))
    assert (await queue.archive.archive_completed_tasks(retention_days=0, dry_run=False)).tasks_archived == 1
    ((partition, letters),) = [(each.partition.name, each.letters) for each in await queue.archive.partitions()]
    assert (partition, letters) == ("2026_01", 1)


async def test_two_archivers_while_others_redrive_and_delete(new_queue: NewQueue, clock: ManualClock) -> None:
    """Each letter ends in one place: the queue, the archive, or nowhere if it was deleted."""
    rules = {"permanently_failed_days": 1}
    queues = [new_queue(**rules) for _ in range(4)]
    names = [f"wf_{number:03}" for number in range(60)]
    for name in names:
        await ended(queues[0], name, "fail")
    clock.advance(LATER)
    redriven: list[str] = []
    deleted: list[str] = []

    async def redrive() -> None:
        for name in names[::5]:
            try:
                await queues[2].letters.redrive(name)
                redriven.append(name)
            except MahavishnuError:  # it was archived first
                continue

    async def delete() -> None:
        for name in names[1::5]:
            await queues[3].deletion.delete_task(name)
            deleted.append(name)

    results = await asyncio.gather(
        queues[0].archive.archive_completed_tasks(batch_size=7, dry_run=False),
        queues[1].archive.archive_completed_tasks(batch_size=11, dry_run=False),
        redrive(),
        delete(),
    )
    look = new_queue()  # who starts anew sees all that was written
    archived = await in_archive(look)
    living = [letter.task_id for letter in await look.list_tasks(resolution=["pending", "permanently_failed"])]
    assert sorted([*archived, *living, *deleted]) == names
    assert set(redriven) <= set(living)
    assert deleted == names[1::5]
    counted = sum(result.tasks_archived for result in results if result is not None)
    assert len(archived) <= counted <= len(archived) + len(deleted)
    await sound(look)


async def test_2500_letters_killed_in_the_second_batch(new_queue: NewQueue, clock: ManualClock) -> None:
    """A39, with 250 in batches of 100: wherever it ends, queue and archive have each letter once."""
    queue = new_queue()
    await queue.open()
    names = [f"wf_{number:04}" for number in range(250)]
    for start in range(0, len(names), 50):
        await asyncio.gather(*(ended(queue, name, "resolve") for name in names[start : start + 50]))
    before = (await sound(queue))["lifetime_stats"]
    clock.advance(LATER)
    for operation, kind in (("write", "archive"), ("get", "archive"), ("write", "letters")):
        killed = new_queue()
        assert isinstance(killed.store, FaultyStore)
        await killed.open()
        seen = 0

        async def end(call: object, kind: str = kind) -> None:
            nonlocal seen
            seen += getattr(getattr(call, "kind", None), "name", "") == kind and bool(getattr(call, "keys", ()))
            if seen == 2:
                raise StoreUnavailable("the process is gone")

        killed.store.faults.before(operation, end)
        with pytest.raises(StoreUnavailable):
            await killed.archive.archive_completed_tasks(batch_size=30, dry_run=False)
        look = new_queue()  # who starts anew sees all that was written
        living = [letter.task_id for letter in await look.list_tasks("completed")]
        assert sorted([*await in_archive(look), *living]) == names
    done = await queue.archive.archive_completed_tasks(batch_size=100, dry_run=False)
    assert done.failed == {}
    assert await in_archive(queue) == names
    assert (await sound(queue))["lifetime_stats"] == before
    assert clock.now() > START


async def test_tasks_are_archived_and_exported_with_their_letters(new_queue: NewQueue, clock: ManualClock) -> None:
    queue = new_queue(tasks_days=9, analytics_export=True)
    task, moves = await with_many_moves(queue)
    handed = (await Lifecycle(queue.context).create("handed over")).task_id
    await Lifecycle(queue.context).move_to_dlq(handed, by="ann")
    await queue.letters.resolve(handed)
    clock.advance(LATER)
    done = await queue.archive.run(dry_run=False)
    assert (done.tasks_archived, done.lifecycle_tasks_archived, done.failed) == (1, 2, {})
    case = await queue.archive.show_task(task.task_id)
    assert (case.task, case.transitions) == (task, list(moves))
    assert [each.task_id for each in (await queue.archive.show(handed)).tasks] == [handed]
    step = await queue.archive.begin_export()
    (line,) = [line async for line in queue.archive.export(0, step)]
    assert json.loads(line)["task_id"] == handed
    (month,) = [each.partition.name for each in await queue.archive.partitions()]
    await queue.archive.detach(month)
    with pytest.raises(NoSuchTask):
        await queue.archive.show_task(task.task_id)
    with pytest.raises(StoreUnavailable, match=month):
        _ = [line async for line in queue.archive.export(0, step)]
    await queue.archive.attach(month)
    assert (await queue.archive.show_task(handed)).letter is not None
    assert [line async for line in queue.archive.export(0, step)] == [line]
    await queue.archive.detach(month)
    await queue.archive.drop(month)
    assert await queue.archive.partitions() == []

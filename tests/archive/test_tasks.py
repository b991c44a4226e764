"""Lifecycle tasks that have ended go to the archive with all their moves, each once, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.archive.records import ARCHIVE_PARTITIONS, ARCHIVED_TASKS, archive_kind
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import CorruptRecord, InvalidInput, NoSuchTask
from mahavishnu.model.query import Query
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import Cursor, get_one, scan
from mahavishnu.stores.kind import Kind
from mahavishnu.tasks.records import TASKS, TRANSITIONS
from mahavishnu.tasks.rules import return_from_error
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import KEPT_TRANSITIONS, OldTransition, StepRecord, TaskRecord
from mahavishnu.testing.faults import Call
from tests.support.kills import kill_at_each_call
from tests.support.queues import House, letter_of, sound

RULES = RetentionRules(completed_days=30, tasks_days=9)
MONTH = "2026_01"
Known = tuple[TaskRecord, Sequence[OldTransition]]


async def number(queue: DeadLetterQueue, kind: Kind[Any]) -> int:
    return (await queue.store.collection(kind).tally(Query())).total.count


async def with_many_moves(queue: DeadLetterQueue, name: str = "pay", state: str = "complete") -> Known:
    """A task with more moves than it has inside."""
    lifecycle = Lifecycle(queue.context)
    task_id = (await lifecycle.create(name, steps=[StepRecord("a")])).task_id
    for _ in range(KEPT_TRANSITIONS + 1):
        await lifecycle.begin_step(task_id, "a", take_over=True)
    if state != "pending":
        await lifecycle.complete_step(task_id, "a")
        await (lifecycle.finalize(task_id) if state == "complete" else lifecycle.transition(task_id, state))
    return await lifecycle.get(task_id), await lifecycle.transitions(task_id)


async def archive(queue: DeadLetterQueue) -> int:
    result = await queue.archive.run(dry_run=False)
    assert result.failed == {}
    return result.lifecycle_tasks_archived


@pytest.mark.parametrize("state", ["complete", "cancelled", "error", "pending"])
async def test_tasks_that_have_ended_are_archived_with_their_moves(any_house: House, state: str) -> None:
    queue = any_house.queue(rules=[RULES])
    task, moves = await with_many_moves(queue, state=state)
    assert await number(queue, TRANSITIONS) > 0
    any_house.clock.advance(timedelta(days=8))
    await queue.archive.maintain()
    assert await number(queue, TASKS) == 1
    any_house.clock.advance(timedelta(days=2))
    told = (await queue.archive.run()).lifecycle_tasks_archived
    await queue.archive.maintain()
    if state == "pending":
        assert (told, await number(queue, TASKS), await number(queue, TRANSITIONS) > 0) == (0, 1, True)
        return
    assert (told, await number(queue, TASKS), await number(queue, TRANSITIONS)) == (1, 0, 0)
    case = await queue.archive.show_task(task.task_id)
    assert (case.partition, case.task, case.transitions, case.letter) == (MONTH, task, list(moves), None)
    assert await archive(queue) == 0


async def test_a_task_stays_as_long_as_its_letter_is_open_and_then_both_are_found(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    lifecycle = Lifecycle(queue.context)
    task_id = (await lifecycle.create("pay")).task_id
    await lifecycle.move_to_dlq(task_id, by="ann")
    any_house.clock.advance(timedelta(days=10))
    assert await archive(queue) == 0
    await queue.letters.resolve(task_id, by="ann")
    letter = await letter_of(queue, task_id)
    assert await archive(queue) == 1
    assert (await queue.archive.show_task(task_id)).letter == letter, "it is still in the queue"
    any_house.clock.advance(timedelta(days=31))
    await archive(queue)
    assert (await queue.archive.show_task(task_id)).letter == letter
    shown = await queue.archive.show(letter.entry_id)
    assert (shown.letter, [each.task_id for each in shown.tasks]) == (letter, [task_id])
    await sound(queue)


async def test_a_task_with_moves_after_midnight_is_in_one_month(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    any_house.clock.advance(timedelta(days=30, hours=23, minutes=59, seconds=59))
    lifecycle = Lifecycle(queue.context)
    task_id = (await lifecycle.create("pay", steps=[StepRecord("a")])).task_id
    await lifecycle.begin_step(task_id, "a")
    any_house.clock.advance(timedelta(seconds=2))
    await lifecycle.complete_step(task_id, "a")
    await lifecycle.finalize(task_id)
    any_house.clock.advance(timedelta(days=10))
    assert await archive(queue) == 1
    assert [each.name async for each in scan(queue.store.collection(ARCHIVE_PARTITIONS), Query())] == ["2026_02"]
    assert (await queue.archive.show_task(task_id)).transitions[0].at.month == 1


async def test_a_task_that_comes_back_meanwhile_stays(any_house: House) -> None:
    """Its copy was written already; it is taken back."""
    queue, other = any_house.queue(rules=[RULES]), any_house.queue()
    task_id = (await Lifecycle(queue.context).create("pay")).task_id
    await Lifecycle(queue.context).transition(task_id, "error")
    any_house.clock.advance(timedelta(days=10))

    async def reset(call: Call) -> None:
        back = partial(return_from_error, now=other.clock.now(), letter="e-1", metadata={}, processor="other")
        await Lifecycle(other.context).change(task_id, back)

    any_house.faults.after("write", reset, kind=archive_kind(ARCHIVED_TASKS, MONTH), times=1)
    assert await archive(queue) == 0
    assert await number(queue, TASKS) == 1
    assert await number(queue, archive_kind(ARCHIVED_TASKS, MONTH)) == 0
    with pytest.raises(NoSuchTask):
        await queue.archive.show_task(task_id)


async def test_two_archivers_at_once_archive_each_task_once(any_house: House) -> None:
    one, other = any_house.queue(rules=[RULES]), any_house.queue(rules=[RULES])
    known = [await with_many_moves(one, f"pay {each}") for each in range(5)]
    any_house.clock.advance(timedelta(days=10))
    assert sum(await asyncio.gather(archive(one), archive(other))) == 5
    for task, moves in known:
        case = await one.archive.show_task(task.task_id)
        assert (case.task, case.transitions) == (task, list(moves))
    assert (await number(one, TASKS), await number(one, TRANSITIONS)) == (0, 0)


async def test_one_id_can_be_archived_twice(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    lives = []
    for _ in range(2):
        lives.append(await with_many_moves(queue))
        any_house.clock.advance(timedelta(days=10))
        assert await archive(queue) == 1
    assert lives[0][0].task_id == lives[1][0].task_id
    assert await number(queue, archive_kind(ARCHIVED_TASKS, MONTH)) == 2
    assert (await queue.archive.show_task(lives[1][0].task_id)).task == lives[1][0], "the latest"


async def test_a_changed_copy_is_not_shown(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    task, _ = await with_many_moves(queue)
    any_house.clock.advance(timedelta(days=10))
    await archive(queue)
    copies = queue.store.collection(archive_kind(ARCHIVED_TASKS, MONTH))
    (copy,) = [each async for each in scan(copies, Query())]
    there = await get_one(copies, copy.key)
    assert there is not None
    await copies.write([replace(there, task=there.task.replace("pay", "pax"))])
    with pytest.raises(CorruptRecord, match="checksum"):
        await queue.archive.show_task(task.task_id)


async def test_a_month_is_detached_with_its_tasks(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    task, _ = await with_many_moves(queue)
    any_house.clock.advance(timedelta(days=10))
    await archive(queue)
    await queue.archive.detach(MONTH)
    with pytest.raises(NoSuchTask):
        await queue.archive.show_task(task.task_id)
    await queue.archive.attach(MONTH)
    assert (await queue.archive.show_task(task.task_id)).task == task
    await queue.archive.detach(MONTH)
    await queue.archive.drop(MONTH)
    assert await queue.archive.partitions() == []


async def test_archived_tasks_are_listed_and_searched_page_by_page(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    lifecycle, made = Lifecycle(queue.context), list[str]()
    for number in range(5):  # in three months
        made.append((await lifecycle.create("odd" if number % 2 else "even", number)).task_id)
        await lifecycle.transition(made[-1], "cancelled" if number else "error")
        any_house.clock.advance(timedelta(days=15))
    there = (await lifecycle.create("waits")).task_id
    any_house.clock.advance(timedelta(days=10))
    assert await archive(queue) == 5
    search = queue.archive.search_tasks
    first, *_ = whole = (await search()).items
    assert [line.copy.task_id for line in whole] == made[::-1] and there not in made
    assert len({line.partition for line in whole}) == 3
    assert (first.to_dict()["state"], first.to_dict()["partition"]) == ("cancelled", first.partition)
    for limit in (1, 2, 3):
        found, place = list[str](), None
        for _ in range(10):
            page = await search(limit=limit, after=place and str(place))
            assert len(page.items) <= limit and page.corrupt == ()
            found += [line.copy.task_id for line in page.items]
            if (place := page.next) is None:
                break
        assert found == made[::-1]
    asked: list[tuple[dict[str, Any], list[str]]] = [
        ({"task_id": made[1]}, [made[1]]),
        ({"name": "odd"}, [made[3], made[1]]),
        ({"state": "error"}, [made[0]]),
        ({"since": whole[1].copy.closed_at}, [made[4], made[3]]),
        ({"until": whole[3].copy.closed_at}, [made[0]]),
        ({"name": "odd", "since": whole[0].copy.closed_at}, []),
    ]
    for filters, wanted in asked:
        assert [line.copy.task_id for line in (await search(**filters)).items] == wanted, filters
    assert (await queue.in_namespace("other").archive.search_tasks()).items == []
    wrong: list[dict[str, Any]] = [{"limit": 0}, {"after": "nonsense"}, {"after": Cursor((1,))}]
    for each in wrong:
        with pytest.raises(InvalidInput):
            await search(**each)
    await queue.archive.detach(whole[0].partition)
    assert [line.copy.task_id for line in (await search()).items] == made[-2::-1]


async def test_deleting_a_letter_deletes_its_tasks_in_the_archive(any_house: House) -> None:
    queue = any_house.queue(rules=[RULES])
    lifecycle, ids = Lifecycle(queue.context), {}
    for name in ("pay", "other"):
        ids[name] = (await lifecycle.create(name)).task_id
        await lifecycle.move_to_dlq(ids[name], by="ann")
        await queue.letters.resolve(ids[name], by="ann")
    any_house.clock.advance(timedelta(days=10))
    assert await archive(queue) == 2
    assert (await queue.deletion.delete_task(ids["pay"])).copies == 1
    with pytest.raises(NoSuchTask):
        await queue.archive.show_task(ids["pay"])
    assert (await queue.archive.show_task(ids["other"])).task.name == "other"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", ["memory", pytest.param("sqlite", marks=pytest.mark.prove)])
async def test_killed_at_any_call_nothing_is_lost_and_nothing_doubled(tmp_path: Path, kind: str, moment: str) -> None:
    async def prepare(house: House) -> Known:
        known = await with_many_moves(house.queue())
        house.clock.advance(timedelta(days=10))
        return known

    async def check(house: House, known: Known) -> None:
        queue, (task, moves) = house.queue(rules=[RULES]), known
        await queue.open()
        living = await get_one(queue.store.collection(TASKS), task.task_id)
        if living is None:
            assert (await queue.archive.show_task(task.task_id)).task == task
        else:
            with pytest.raises(NoSuchTask):
                await queue.archive.show_task(task.task_id)
        await queue.archive.maintain()
        case = await queue.archive.show_task(task.task_id)
        assert (case.task, case.transitions) == (task, list(moves))
        assert (await number(queue, TASKS), await number(queue, TRANSITIONS)) == (0, 0)
        assert await number(queue, archive_kind(ARCHIVED_TASKS, MONTH)) == 1

    async def act(queue: DeadLetterQueue) -> None:
        queue.context.set_rules(RULES)
        await queue.archive.run(dry_run=False)

    assert await kill_at_each_call(kind, tmp_path, moment, prepare, act, check) > 10

"""One record that cannot be read stops nothing but itself: what its neighbours leave is archived and removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from mahavishnu.archive.records import ARCHIVED_LETTERS, ARCHIVED_TASKS, ArchivedTask, archive_kind
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.groups.records import GROUPS
from mahavishnu.model.query import Query
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import get_one, pages
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.tasks.records import TRANSITIONS
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.testing.faults import Call
from tests.support.kills import Killed
from tests.support.queues import House, letter_of, sound

MONTH = "2026_01"
COPIES = archive_kind(ARCHIVED_LETTERS, MONTH)
TASK_COPIES = archive_kind(ARCHIVED_TASKS, MONTH)
RULES = RetentionRules(completed_days=0, history_days=None, archive_months=None)
Spoil = Callable[[House, DeadLetterQueue, str], Awaitable[object]]


async def fail_twice(queue: DeadLetterQueue, name: str) -> str:
    """A closed letter with a former one and a revision. Returns its entry id."""
    for number in (1, 2):
        await queue.enqueue(name, {"n": 0}, [], f"boom {number}")
        await queue.letters.edit(name, priority=number)
        await queue.letters.resolve(name)
    return (await letter_of(queue, name)).entry_id


async def tasks_in_history(queue: DeadLetterQueue) -> list[str]:
    return [each.task_id async for page in pages(queue.store.collection(HISTORY), Query()) for each in page]


async def unreadable(house: House, queue: DeadLetterQueue, entry_id: str) -> None:
    house.faults.corrupt(kind=COPIES, keys=[entry_id])


async def not_json(house: House, queue: DeadLetterQueue, entry_id: str) -> None:
    there = queue.store.collection(COPIES)
    copy = await get_one(there, entry_id)
    assert copy is not None
    await there.write([replace(copy, former=("{",))])


async def another_byte(house: House, queue: DeadLetterQueue, entry_id: str) -> None:
    there = queue.store.collection(COPIES)
    copy = await get_one(there, entry_id)
    assert copy is not None
    await there.write([replace(copy, former=tuple(each.replace("boom", "doom") for each in copy.former))])


async def end(call: Call) -> None:
    raise Killed


@pytest.mark.parametrize("spoil", [unreadable, not_json, another_byte])
async def test_a_copy_that_is_not_what_was_written_keeps_what_went_with_it(any_house: House, spoil: Spoil) -> None:
    """The process died that archived two letters, before it removed their former ones; one copy is spoiled since."""
    queue = any_house.queue(rules=[RULES])
    bad, _ = [await fail_twice(queue, name) for name in ("bad", "good")]
    any_house.clock.advance(1)
    dying = any_house.queue(rules=[RULES])
    await dying.open()
    dying.store.faults.after("write", end, kind=LETTERS)  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        await dying.archive.run(dry_run=False)
    any_house.kill(dying)
    assert sorted(await tasks_in_history(queue)) == ["bad", "good"]
    await spoil(any_house, queue, bad)
    await fail_twice(queue, "later")
    any_house.clock.advance(1)

    for archived in (1, 0):
        result = await queue.archive.run(dry_run=False)
        assert (result.tasks_archived, list(result.failed)) == (archived, ["bad"])
        assert "stays" in result.failed["bad"]
        assert await tasks_in_history(queue) == ["bad"], "the only sound copy of it"
    assert queue.context.counts["archive_failures"] == 2
    await sound(queue)


@pytest.mark.parametrize("kind", [HISTORY, REVISIONS])
async def test_what_cannot_be_read_of_one_letter_stops_no_other(any_house: House, kind: object) -> None:
    queue = any_house.queue(rules=[RULES])
    for name in ("bad", "good"):
        await fail_twice(queue, name)
    letter = await letter_of(queue, "bad")
    assert letter.fingerprint is not None
    key = {HISTORY: letter.previous_entry_id, REVISIONS: f"{letter.entry_id}/0"}[kind]
    any_house.clock.advance(1)
    with any_house.faults.corrupt(kind=kind, keys=[str(key)]):  # type: ignore[arg-type]
        result = await queue.archive.run(dry_run=False)
        assert result.tasks_archived == 2
    await sound(queue)


async def test_letters_of_a_group_that_cannot_be_read_stay(any_house: House) -> None:
    """It may be on hold. Those of other groups leave."""
    queue = any_house.queue(rules=[RULES])
    await queue.enqueue("held", {}, [], "boom")
    await queue.enqueue("other", {}, [], "the disk of the printer is full")
    letter = await letter_of(queue, "held")
    assert letter.fingerprint is not None
    await queue.groups.update(letter.fingerprint, hold_until=any_house.clock.now() + timedelta(days=9), by="ann")
    for name in ("held", "other"):
        await queue.letters.resolve(name)
    any_house.clock.advance(1)
    (group,) = [each async for page in pages(queue.store.collection(GROUPS), Query()) for each in page]
    with any_house.faults.corrupt(kind=GROUPS, keys=[group.key]):
        assert (await queue.archive.run(dry_run=False)).tasks_archived == 1
    assert (await letter_of(queue, "held")).entry_id == letter.entry_id


async def test_a_spoiled_copy_of_a_task_stops_no_other(any_house: House) -> None:
    """Its moves that are records of their own stay; those of the others are removed."""
    queue = any_house.queue(rules=[replace(RULES, tasks_days=0)])
    of = Lifecycle(queue.context)
    ids = [(await of.create(name)).task_id for name in ("bad", "good")]
    for task_id in ids:
        await of.begin_step(task_id, "a")
        for _ in range(40):
            await of.begin_step(task_id, "a", take_over=True)
        await of.transition(task_id, "cancelled")
    any_house.clock.advance(1)
    dying = any_house.queue(rules=[replace(RULES, tasks_days=0)])
    await dying.open()
    dying.store.faults.before("remove", end, kind=TRANSITIONS)  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        await dying.archive.run(dry_run=False)
    any_house.kill(dying)
    there = queue.store.collection(TASK_COPIES)
    found: list[ArchivedTask] = [copy async for page in pages(there, Query()) for copy in page]
    (bad,) = [copy for copy in found if copy.task_id == ids[0]]
    await there.write([replace(bad, transitions=("{", *bad.transitions[1:]))])

    result = await queue.archive.run(dry_run=False)
    assert list(result.failed) == [bad.key]
    left = [move.task_id async for page in pages(queue.store.collection(TRANSITIONS), Query()) for move in page]
    assert set(left) == {ids[0]}


async def test_what_only_a_spoiled_copy_has_is_not_taken_over(any_house: House) -> None:
    """A letter whose earlier copy is spoiled stays where it is: its former letters are in that one alone."""
    queue = any_house.queue(rules=[RULES])
    entry_id = await fail_twice(queue, "wf")
    any_house.clock.advance(1)
    other = any_house.queue(rules=[RULES])
    await other.open()

    async def leave_earlier_copy(call: Call) -> None:
        await another_byte(any_house, other, entry_id)
        raise Killed

    dying = any_house.queue(rules=[RULES])
    await dying.open()
    dying.store.faults.after("write", leave_earlier_copy, kind=COPIES, keys=[entry_id])  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        await dying.archive.run(dry_run=False)
    any_house.kill(dying)
    (former,) = [each async for page in pages(queue.store.collection(HISTORY), Query()) for each in page]
    await queue.store.collection(HISTORY).remove([former])  # only the copy has it, and nobody can tell what it was
    result = await queue.archive.run(dry_run=False)
    assert (result.tasks_archived, list(result.failed)) == (0, ["wf"])
    assert (await letter_of(queue, "wf")).entry_id == entry_id

"""Closed letters leave for the archive: each once, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.archive.partitions import Partitions, read_case
from mahavishnu.archive.records import ARCHIVED_LETTERS, ArchivedLetter, archive_kind
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.errors import InvalidInput, StoreUnavailable
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Query
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import get_one, scan
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.testing import FaultyStore
from mahavishnu.testing.faults import Call
from tests.support.kills import kill_at_each_call
from tests.support.queues import House, letter_of, sound

MONTH = "2026_01"
LATER = timedelta(days=31)
ENDS = ("resolve", "cancel", "fail", "archive")


async def closed(queue: DeadLetterQueue, count: int, act: str = "resolve") -> list[DeadLetter]:
    letters = []
    for number in range(count):
        await queue.enqueue(f"wf_{number:03}", {"n": number}, ["api"], "connection refused")
        await getattr(queue.letters, act)(f"wf_{number:03}")
        letters.append(await letter_of(queue, f"wf_{number:03}"))
    return letters


async def copies_in(queue: DeadLetterQueue, partition: str = MONTH) -> dict[str, ArchivedLetter]:
    places = Partitions(queue.store, queue.clock)
    if partition not in [each.name for each in await places.every()]:
        return {}
    return {copy.task_id: copy async for copy in scan(places.letters(partition), Query())}


async def living(queue: DeadLetterQueue) -> dict[str, DeadLetter]:
    return {letter.task_id: letter async for letter in scan(queue.context.letters, Query())}


async def run(queue: DeadLetterQueue, **more: Any) -> int:
    result = await queue.archive.archive_completed_tasks(dry_run=False, **more)
    assert result.failed == {}
    return result.tasks_archived


async def test_a_dry_run_tells_what_the_run_then_does(any_house: House) -> None:
    queue = any_house.queue()
    await closed(queue, 5)
    await queue.enqueue("open", {}, [], "boom")
    before = await sound(queue)
    any_house.clock.advance(timedelta(days=30))
    assert (await queue.archive.archive_completed_tasks()).tasks_archived == 0, "30 days are not over yet"
    any_house.clock.advance(1)
    told = await queue.archive.archive_completed_tasks(batch_size=2)
    assert (told.tasks_archived, told.dry_run, len(await living(queue))) == (5, True, 6)
    done = await queue.archive.archive_completed_tasks(batch_size=2, dry_run=False)
    assert (done.tasks_archived, done.dry_run, done.failed) == (5, False, {})
    assert set(await living(queue)) == {"open"}
    assert await run(queue) == 0
    assert (await sound(queue))["lifetime_stats"] == before["lifetime_stats"]


async def test_the_copy_is_the_letter(any_house: House) -> None:
    queue = any_house.queue()
    letters = await closed(queue, 3)
    any_house.clock.advance(LATER)
    await run(queue)
    copies = await copies_in(queue)
    assert [copies[letter.task_id].read_letter() for letter in letters] == letters
    assert all(copy.is_intact() for copy in copies.values())


async def test_only_what_is_old_enough_leaves_each_by_its_own_time(any_house: House) -> None:
    queue = any_house.queue(rules=[RetentionRules(cancelled_days=7, permanently_failed_days=None)])
    for act in ENDS:
        await queue.enqueue(act, {}, [], "boom", max_retries=0)
        await getattr(queue.letters, act)(act)
    any_house.clock.advance(timedelta(days=8))
    assert await run(queue) == 1, "what was cancelled"
    any_house.clock.advance(LATER)
    assert await run(queue) == 1, "what was resolved"
    assert set(await living(queue)) == {"fail", "archive"}, "both are permanent failures"
    await sound(queue)


async def test_letters_of_a_group_on_hold_stay(any_house: House) -> None:
    queue = any_house.queue()
    (letter,) = await closed(queue, 1)
    assert letter.fingerprint is not None
    await queue.groups.update(letter.fingerprint, hold_until=any_house.clock.now() + 2 * LATER, by="ann")
    any_house.clock.advance(LATER)
    assert await run(queue) == 0
    any_house.clock.advance(LATER)
    assert await run(queue) == 1, "the hold is over"


async def test_former_letters_and_revisions_go_along(any_house: House) -> None:
    queue = any_house.queue()
    for number in (1, 2):
        await queue.enqueue("wf", {"n": 0}, [], f"boom {number}")
        await queue.letters.edit("wf", priority=number)
        await queue.letters.edit("wf", priority=9)
        await queue.letters.resolve("wf")
    letter = await letter_of(queue, "wf")
    former = [each async for each in scan(queue.store.collection(HISTORY), Query())]
    revisions = [each async for each in scan(queue.store.collection(REVISIONS), Query())]
    assert (len(former), len(revisions)) == (1, 4)
    any_house.clock.advance(LATER)
    result = await queue.archive.archive_completed_tasks(dry_run=False)
    assert (result.tasks_archived, result.steps_archived, result.transitions_archived) == (1, 1, 4)
    copy = (await copies_in(queue))["wf"]
    assert (copy.read_letter(), copy.read_former()) == (letter, former)
    assert sorted(copy.read_revisions(), key=lambda each: each.key) == sorted(revisions, key=lambda each: each.key)
    for kind in (HISTORY, REVISIONS):
        assert [each async for each in scan(queue.store.collection(kind), Query())] == []
    await sound(queue)


async def test_a_letter_that_is_opened_again_meanwhile_is_not_archived(any_house: House) -> None:
    """Its copy was written already; it is taken back."""
    queue = any_house.queue(rules=[RetentionRules(permanently_failed_days=1)])
    await queue.enqueue("wf", {}, [], "boom", max_retries=0)
    await queue.letters.fail("wf")
    entry_id = (await letter_of(queue, "wf")).entry_id
    any_house.clock.advance(LATER)
    other = any_house.queue()

    async def redrive(call: Call) -> None:
        await other.letters.redrive("wf")

    any_house.faults.after("write", redrive, keys=[entry_id], kind=archive_kind(ARCHIVED_LETTERS, MONTH), times=1)
    assert await run(queue) == 0
    assert (await letter_of(queue, "wf")).is_open
    assert await copies_in(queue) == {}
    await sound(queue)


async def test_a_copy_with_another_byte_leaves_the_letter_where_it_is(any_house: House) -> None:
    queue = any_house.queue()
    (letter, _) = await closed(queue, 2)
    any_house.clock.advance(LATER)
    other = any_house.queue()

    async def spoil(call: Call) -> None:
        there = other.store.collection(archive_kind(ARCHIVED_LETTERS, MONTH))
        copy = await get_one(there, letter.entry_id)
        assert copy is not None
        await there.write([replace(copy, letter=copy.letter.replace("refused", "refuzed"))])

    any_house.faults.after("write", spoil, keys=[letter.entry_id], kind=archive_kind(ARCHIVED_LETTERS, MONTH), times=1)
    result = await queue.archive.archive_completed_tasks(dry_run=False)
    assert (result.tasks_archived, list(result.failed)) == (1, [letter.key])
    assert await letter_of(queue, letter.task_id) == letter
    assert await run(queue) == 1, "the next go writes it anew"


async def test_two_archivers_at_once_archive_each_letter_once(any_house: House) -> None:
    one, other = any_house.queue(), any_house.queue()
    letters = await closed(one, 50)
    any_house.clock.advance(LATER)
    counts = await asyncio.gather(run(one, batch_size=7), run(other, batch_size=5))
    assert sum(counts) == 50
    copies = await copies_in(one)
    assert [copies[letter.task_id].read_letter() for letter in letters] == letters
    assert await living(one) == {}
    await sound(one)


async def test_a_former_letter_that_goes_by_itself_meanwhile_is_archived_once(any_house: House) -> None:
    """One process archives it because its time is over, another one with the letter that succeeded it."""
    latest = any_house.queue(rules=[RetentionRules(history_days=None)])
    former = any_house.queue(rules=[RetentionRules(completed_days=None, history_days=1)])
    entries = {}
    for name in ("former", "latest"):
        entries[name] = (await latest.enqueue("wf", {}, [], name)).entry_id
        await latest.letters.resolve("wf")
    any_house.clock.advance(LATER)

    async def archive(call: Call) -> None:
        await latest.archive.run(dry_run=False)

    any_house.faults.after(
        "write", archive, keys=[entries["former"]], kind=archive_kind(ARCHIVED_LETTERS, MONTH), times=1
    )
    await former.archive.run(dry_run=False)
    cases = [read_case(line) for line in (await latest.archive.list()).items]
    found = [each.entry_id for case in cases for each in (case.letter, *case.former)]
    assert sorted(found) == sorted(entries.values())
    assert [each async for each in scan(latest.store.collection(HISTORY), Query())] == []
    await sound(latest)


async def test_a_letter_of_which_an_earlier_state_is_in_the_history_keeps_its_copy(any_house: House) -> None:
    """A local store that comes home may leave one there."""
    queue = any_house.queue()
    for _ in range(2):
        await queue.enqueue("wf", {}, [], "boom")
        await queue.letters.resolve("wf")
    letter = await letter_of(queue, "wf")
    await queue.store.collection(HISTORY).write([replace(FormerLetter.of(letter), version=None)])
    any_house.clock.advance(LATER)
    assert await run(queue) == 1
    assert (await queue.archive.show("wf")).letter.entry_id == letter.entry_id
    assert [each async for each in scan(queue.store.collection(HISTORY), Query())] == []


async def test_the_month_is_that_of_the_end_also_after_midnight(any_house: House) -> None:
    """Archived twice around a crash after midnight: one copy, in the month in which the case ended."""
    any_house.clock.advance(timedelta(days=30, hours=23, minutes=59, seconds=59, milliseconds=900))
    queue = any_house.queue()
    (letter,) = await closed(queue, 1)
    assert letter.resolution.at is not None
    assert letter.resolution.at.isoformat() == "2026-01-31T23:59:59.900000+00:00"
    any_house.clock.advance(timedelta(seconds=1))
    killed = any_house.queue()
    assert isinstance(killed.store, FaultyStore)
    killed.store.faults.unavailable("write", kind=LETTERS)
    with pytest.raises(StoreUnavailable):
        await killed.archive.archive_completed_tasks(retention_days=0, dry_run=False)
    assert set(await copies_in(queue)) == {"wf_000"}
    any_house.clock.advance(timedelta(days=1))
    assert await run(queue, retention_days=0) == 1
    assert set(await copies_in(queue)) == {"wf_000"}
    assert [each.name for each in await Partitions(queue.store, queue.clock).every()] == [MONTH]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", ["memory", pytest.param("sqlite", marks=pytest.mark.prove)])
async def test_killed_at_any_call_nothing_is_lost_and_nothing_doubled(tmp_path: Path, kind: str, moment: str) -> None:
    """The kill matrix: a process ends before or after a call of the store; the next one goes on."""

    async def prepare(house: House) -> tuple[list[DeadLetter], Any]:
        queue = house.queue()
        letters = await closed(queue, 2)
        for number in (1, 2):
            await queue.enqueue("twice", {}, [], "boom")
            await queue.letters.edit("twice", priority=number)
            await queue.letters.resolve("twice")
        letters.append(await letter_of(queue, "twice"))
        numbers = (await sound(queue))["lifetime_stats"]
        house.clock.advance(LATER)
        return letters, numbers

    async def check(house: House, prepared: tuple[list[DeadLetter], Any]) -> None:
        queue, (letters, numbers) = house.queue(), prepared
        await queue.open()
        await check_all_there(queue, letters)
        await run(queue)
        copies = await copies_in(queue)
        assert [copies[letter.task_id].read_letter() for letter in letters] == letters
        assert await living(queue) == {}
        for kind in (HISTORY, REVISIONS):
            assert [each async for each in scan(queue.store.collection(kind), Query())] == []
        assert [former.generation for former in copies["twice"].read_former()] == [1]
        assert (await sound(queue))["lifetime_stats"] == numbers

    archive = partial(run, batch_size=2)
    assert await kill_at_each_call(kind, tmp_path, moment, prepare, archive, check) > 15


async def check_all_there(queue: DeadLetterQueue, letters: Sequence[DeadLetter]) -> None:
    """Each letter is in the queue or in the archive."""
    there = {**{name: copy.read_letter() for name, copy in (await copies_in(queue)).items()}, **await living(queue)}
    assert [there[letter.task_id] for letter in letters] == list(letters)


async def test_tombstones_are_remembered_no_longer_than_needed(any_house: House) -> None:
    """Only as long after the end of the case as something may come home that is older."""
    queue = any_house.queue(tombstone_days=30)
    await closed(queue, 3)
    before = (await sound(queue))["lifetime_stats"]
    any_house.clock.advance(timedelta(days=10))
    await run(queue, retention_days=9)
    assert await Ledger(queue.context).fold() == 0
    any_house.clock.advance(timedelta(days=21))
    assert await Ledger(queue.context).fold() == 3
    assert (await queue.store.collection(LETTERS).tally(Query())).total.count == 0
    assert (await sound(queue))["lifetime_stats"] == before


async def test_a_task_that_fails_again_goes_on_counting(any_house: House) -> None:
    queue = any_house.queue()
    await closed(queue, 1)
    any_house.clock.advance(LATER)
    await run(queue)
    await queue.enqueue("wf_000", {"n": 0}, ["api"], "connection refused")
    letter = await letter_of(queue, "wf_000")
    assert (letter.generation, letter.is_open) == (2, True)
    await queue.letters.resolve("wf_000")
    any_house.clock.advance(LATER)
    assert await run(queue) == 1
    await sound(queue)


@pytest.mark.parametrize("batch_size", [0, -1, 10_001, True, 2.5])
async def test_a_batch_size_that_makes_no_sense_is_refused(house: House, batch_size: Any) -> None:
    with pytest.raises(InvalidInput, match="batch_size"):
        await house.queue().archive.archive_completed_tasks(batch_size=batch_size)


@pytest.mark.parametrize("days", [-1, float("nan"), True, 2.5, "30", None, 36_501, 10**20])
async def test_days_that_make_no_sense_are_refused_by_their_name(house: House, days: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^retention_days must be a whole number from 0 to 36500, not "):
        await house.queue().archive.archive_completed_tasks(retention_days=days)
    await house.queue().archive.archive_completed_tasks(retention_days=36_500)
    if days is not None:
        with pytest.raises(InvalidInput, match=r"^tasks_days must be a whole number from 0 to 36500, or None"):
            RetentionRules(tasks_days=days)

"""What is in the archive is found, shown and put back; its months are detached, attached and dropped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.archive.partitions import ArchivedLine
from mahavishnu.archive.records import ARCHIVED_LETTERS, archive_kind
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.errors import (
    CorruptRecord,
    IllegalMove,
    InvalidInput,
    InvalidQuery,
    NoSuchLetter,
    NoSuchPartition,
    StoreUnavailable,
)
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import Query
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import scan, update_with_retry
from mahavishnu.stores.kinds import HISTORY, REVISIONS
from mahavishnu.testing import FaultyStore
from mahavishnu.testing.faults import CHANGES, READS, Call
from tests.archive.test_archiving import LATER, closed, living, run
from tests.support.kills import kill_at_each_call
from tests.support.queues import House, letter_of, sound

MONTHS = 6


async def archived(queue: DeadLetterQueue, house: House, count: int) -> list[DeadLetter]:
    letters = await closed(queue, count)
    house.clock.advance(LATER)
    assert await run(queue) == count
    return letters


async def over_months(house: House, queue: DeadLetterQueue, count: int) -> list[str]:
    """A letter each fifteen days, all of them archived. Returns their tasks, the latest first."""
    for number in range(count):
        await queue.enqueue(f"wf_{number:02}", {}, [], "boom")
        await queue.letters.resolve(f"wf_{number:02}")
        house.clock.advance(timedelta(days=15))
    house.clock.advance(LATER)
    assert await run(queue) == count
    return [f"wf_{number:02}" for number in reversed(range(count))]


def tasks(lines: Sequence[ArchivedLine]) -> list[str]:
    return [line.copy.task_id for line in lines]


async def test_pages_go_through_all_months_the_latest_first(any_house: House) -> None:
    queue = any_house.queue()
    every = await over_months(any_house, queue, 7)
    for limit in (1, 2, 3, 7, 100):
        found: list[str] = []
        page = await queue.archive.list(limit)
        while page.next is not None:
            assert len(page.items) == limit
            found += tasks(page.items)
            page = await queue.archive.list(limit, after=str(page.next))
        assert [*found, *tasks(page.items)] == every


async def test_a_time_narrows_it_to_its_months(any_house: House) -> None:
    """Only partitions are asked that can have letters of that time."""
    queue = any_house.queue()
    await over_months(any_house, queue, 7)
    since, until = datetime(2026, 1, 20, tzinfo=UTC), datetime(2026, 2, 10, tzinfo=UTC)
    asked: list[str] = []
    reads = any_house.faults

    async def note(call: Call) -> None:
        assert call.kind is not None
        asked.append(call.kind.index)

    with reads.before("find", note, kind=archive_kind(ARCHIVED_LETTERS, "2026_01")):
        page = await queue.archive.search(since=since, until=until)
    assert tasks(page.items) == ["wf_02"]
    assert asked == ["dlq_archive_2026_02", "dlq_archive_2026_01"]


async def test_it_is_searched_by_what_stands_beside_the_letter(any_house: House) -> None:
    queue = any_house.queue()
    (one, *_) = await archived(queue, any_house, 3)
    assert tasks((await queue.archive.search(task_id="wf_001")).items) == ["wf_001"]
    assert len((await queue.archive.search(category="network", resolution="manually_resolved")).items) == 3
    assert (await queue.archive.search(category="validation")).items == []
    assert len((await queue.archive.search(fingerprint=one.fingerprint)).items) == 3
    other = queue.in_namespace("billing")
    assert (await other.archive.list()).items == []
    assert len((await queue.all_namespaces.archive.list()).items) == 3


async def test_a_cursor_of_another_list_is_refused(house: House) -> None:
    queue = house.queue()
    await queue.open()
    with pytest.raises(InvalidQuery, match="cursor"):
        await queue.archive.list(after="nonsense")


async def test_show_has_the_letter_and_all_that_went_with_it(any_house: House) -> None:
    queue = any_house.queue()
    for _ in range(2):
        await queue.enqueue("wf", {}, [], "boom")
        await queue.letters.edit("wf", priority=3)
        await queue.letters.resolve("wf")
    letter = await letter_of(queue, "wf")
    any_house.clock.advance(LATER)
    await run(queue)
    for name in ("wf", letter.entry_id):
        case = await queue.archive.show(name)
        assert case.letter == letter
        assert ([each.generation for each in case.former], len(case.revisions)) == ([1], 2)
    with pytest.raises(NoSuchLetter, match="the archive has no letter"):
        await queue.archive.show("other")


@pytest.mark.parametrize("fold", [False, True], ids=["remembered", "added up"])
async def test_what_comes_back_is_what_left(any_house: House, fold: bool) -> None:
    """With all that belongs to it; and the numbers stay, whether its tombstone is still there or not."""
    queue = any_house.queue()
    for _ in range(2):
        await queue.enqueue("wf", {}, [], "boom")
        await queue.letters.edit("wf", priority=3)
        await queue.letters.resolve("wf")
    letter = await letter_of(queue, "wf")
    before = (await sound(queue))["lifetime_stats"]
    kinds = (HISTORY, REVISIONS)
    there = {kind.name: [each async for each in scan(queue.store.collection(kind), Query())] for kind in kinds}
    any_house.clock.advance(LATER)
    await run(queue)
    if fold:
        assert await Ledger(queue.context).fold() == 1
    restored = await queue.archive.restore("wf", by="ann", notes="asked for")
    assert restored == letter == await letter_of(queue, "wf")
    for kind in kinds:
        assert [each async for each in scan(queue.store.collection(kind), Query())] == there[kind.name]
    assert (await sound(queue))["lifetime_stats"] == before
    assert (await queue.archive.list()).items == []
    with pytest.raises(NoSuchLetter):
        await queue.archive.restore("wf")
    assert await run(queue) == 0, "it is not archived again at once"
    assert (await queue.archive.archive_completed_tasks()).tasks_archived == 0
    any_house.clock.advance(LATER)
    assert await run(queue) == 1
    assert tasks((await queue.archive.list()).items) == ["wf"]
    await Ledger(queue.context).fold()
    assert (await sound(queue))["lifetime_stats"] == before
    (entry,) = (await queue.audit.list(action="archive.restore", outcome="done")).items
    assert (entry.actor, entry.reason, entry.subject) == ("ann", "asked for", "letter:wf")


@pytest.mark.parametrize("fold", [False, True], ids=["remembered", "added up"])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_at_any_call_of_a_restore_the_letter_is_in_one_place(
    tmp_path: Path, moment: str, fold: bool
) -> None:
    """In the queue or in the archive, in the next look; and the numbers are right at once."""

    async def prepare(house: House) -> tuple[DeadLetter, Any]:
        queue = house.queue()
        await queue.enqueue("wf", {}, [], "boom")
        await queue.letters.edit("wf", priority=3)
        await queue.letters.resolve("wf")
        letter, numbers = await letter_of(queue, "wf"), (await sound(queue))["lifetime_stats"]
        house.clock.advance(LATER)
        await run(queue)
        if fold:
            await Ledger(queue.context).fold()
        return letter, numbers

    async def check(house: House, prepared: tuple[DeadLetter, Any]) -> None:
        queue, (letter, numbers) = house.queue(), prepared
        here = await living(queue)
        there = (await queue.archive.list()).items
        assert len(here) + len(there) == 1, (here, there)
        assert (await sound(queue))["lifetime_stats"] == numbers
        if there:
            await queue.archive.restore("wf")
        assert await letter_of(queue, "wf") == letter
        await Ledger(queue.context).fold()
        assert len(await queue.letters.revisions("wf")) == 1
        assert (await sound(queue))["lifetime_stats"] == numbers

    async def restore(queue: DeadLetterQueue) -> None:
        await queue.archive.restore("wf")

    assert await kill_at_each_call("memory", tmp_path, moment, prepare, restore, check) > 8


async def test_two_who_restore_at_once_put_it_back_once(any_house: House) -> None:
    one, other = any_house.queue(), any_house.queue()
    (letter,) = await archived(one, any_house, 1)
    await Ledger(one.context).fold()
    before = (await sound(one))["lifetime_stats"]
    outcomes = await asyncio.gather(
        *(queue.archive.restore("wf_000") for queue in (one, other)), return_exceptions=True
    )
    restored = [each for each in outcomes if isinstance(each, DeadLetter)]
    assert restored == [letter]
    assert all(isinstance(each, DeadLetter | IllegalMove | NoSuchLetter) for each in outcomes), outcomes
    assert (await sound(one))["lifetime_stats"] == before


async def test_another_may_restore_it_at_any_moment(any_house: House) -> None:
    """Whoever is quicker, its numbers are taken out of the sums once."""
    one, other = any_house.queue(), any_house.queue()
    assert isinstance(one.store, FaultyStore)
    letters = await archived(one, any_house, 24)
    await Ledger(one.context).fold()
    before = (await sound(one))["lifetime_stats"]

    async def restore(queue: DeadLetterQueue, task: str) -> None:
        with contextlib.suppress(IllegalMove, NoSuchLetter):
            await queue.archive.restore(task)

    reached = 0
    for moment, letter in enumerate(letters):
        calls = 0

        async def interrupt(call: Call, moment: int = moment, task: str = letter.task_id) -> None:
            nonlocal calls
            calls += 1
            if calls == moment + 1:
                await Ledger(other.context).fold()
                await restore(other, task)

        for operation in (*CHANGES, *READS):
            one.store.faults.before(operation, interrupt)
        await restore(one, letter.task_id)
        one.store.faults.clear()
        reached += calls > moment
    assert 8 < reached < 24
    assert sorted(await living(one)) == sorted(letter.task_id for letter in letters)
    assert (await sound(one))["lifetime_stats"] == before


async def test_a_task_that_failed_again_keeps_its_place(any_house: House) -> None:
    queue = any_house.queue()
    await archived(queue, any_house, 1)
    await queue.enqueue("wf_000", {"n": 0}, ["api"], "connection refused")
    with pytest.raises(IllegalMove, match="its task failed again, and entry"):
        await queue.archive.restore("wf_000")
    assert tasks((await queue.archive.list()).items) == ["wf_000"]
    await sound(queue)


@pytest.mark.parametrize("act", ["fail again", "delete"])
async def test_a_restore_that_is_refused_in_the_end_leaves_nothing_behind(any_house: House, act: str) -> None:
    """What belongs to the letter comes back before it does; here somebody else is quicker for its key."""
    queue, other = any_house.queue(), any_house.queue()
    for _ in range(2):
        await queue.enqueue("wf", {}, [], "boom")
        await queue.letters.edit("wf", priority=3)
        await queue.letters.resolve("wf")
    any_house.clock.advance(LATER)
    await run(queue)

    async def be_quicker(call: Call) -> None:
        if act == "delete":
            await other.deletion.delete_task("wf")
        else:
            await other.enqueue("wf", {}, [], "boom")

    any_house.faults.before("write", be_quicker, kind=HISTORY, times=1)
    with pytest.raises(NoSuchLetter if act == "delete" else IllegalMove):
        await queue.archive.restore("wf")
    for kind in (HISTORY, REVISIONS):
        assert [each async for each in scan(queue.store.collection(kind), Query())] == []
    assert tasks((await queue.archive.list()).items) == ([] if act == "delete" else ["wf"])
    await sound(queue)


async def test_a_spoiled_copy_is_not_put_back(any_house: House) -> None:
    queue = any_house.queue()
    (letter,) = await archived(queue, any_house, 1)
    copies = queue.store.collection(archive_kind(ARCHIVED_LETTERS, "2026_01"))
    await update_with_retry(
        copies, letter.entry_id, lambda copy: replace(copy, letter=copy.letter.replace("refused", "refuzed"))
    )
    with pytest.raises(CorruptRecord, match="checksum"):
        await queue.archive.restore("wf_000")
    assert await living(queue) == {}


class TestPartitions:
    async def test_a_detached_month_is_not_read_and_comes_back(self, any_house: House) -> None:
        queue = any_house.queue()
        await over_months(any_house, queue, 4)
        assert [(each.partition.name, each.letters) for each in await queue.archive.partitions()] == [
            ("2026_02", 1),
            ("2026_01", 3),
        ]
        await queue.archive.detach("2026_01", by="ann")
        assert tasks((await queue.archive.list()).items) == ["wf_03"]
        with pytest.raises(NoSuchLetter):
            await queue.archive.show("wf_00")
        if any_house.kind == "sqlite":
            file = any_house.folder / "letters.archive-2026-01.db"
            assert not file.with_name(f"{file.name}-wal").exists(), "it may be moved"
            away = file.rename(any_house.folder / "away.db")
            with pytest.raises(StoreUnavailable, match="put it back"):
                await queue.archive.attach("2026_01")
            away.rename(file)
        await queue.archive.attach("2026_01", by="ann")
        assert len((await queue.archive.list()).items) == 4

    async def test_a_late_letter_of_a_detached_month_gets_another_place(self, any_house: House) -> None:
        queue = any_house.queue()
        await closed(queue, 1)
        await queue.enqueue("late", {}, [], "boom", max_retries=0)
        await queue.letters.fail("late")
        any_house.clock.advance(LATER)
        await run(queue)
        await queue.archive.detach("2026_01")
        queue.context.set_rules(RetentionRules(permanently_failed_days=1))
        assert await run(queue) == 1
        assert {each.partition.name for each in await queue.archive.partitions()} == {"2026_01", "2026_01_2"}
        assert tasks((await queue.archive.list()).items) == ["late"]
        await queue.archive.attach("2026_01")
        assert sorted(tasks((await queue.archive.list()).items)) == ["late", "wf_000"]

    async def test_only_a_detached_one_is_dropped(self, any_house: House) -> None:
        queue = any_house.queue()
        await archived(queue, any_house, 1)
        before = (await sound(queue))["lifetime_stats"]
        with pytest.raises(IllegalMove, match="detach it first"):
            await queue.archive.drop("2026_01")
        await queue.archive.detach("2026_01")
        await queue.archive.drop("2026_01")
        assert await queue.archive.partitions() == []
        assert not list(any_house.folder.glob("letters.archive-*"))
        assert (await sound(queue))["lifetime_stats"] == before
        for verb in (queue.archive.detach, queue.archive.attach, queue.archive.drop):
            with pytest.raises(NoSuchPartition):
                await verb("2026_01")

    async def test_a_month_that_is_detached_meanwhile_takes_no_letter(self, any_house: House) -> None:
        """Between the copy and the end of its letter: that stays, and goes elsewhere the next time."""
        queue, other = any_house.queue(), any_house.queue()
        (letter,) = await closed(queue, 1)
        any_house.clock.advance(LATER)
        await other.open()

        async def detach(call: Call) -> None:
            await other.archive.detach("2026_01")

        assert isinstance(queue.store, FaultyStore)
        queue.store.faults.after(
            "get", detach, kind=archive_kind(ARCHIVED_LETTERS, "2026_01"), keys=[letter.entry_id], times=1
        )
        assert await run(queue) == 0
        assert await letter_of(queue, "wf_000") == letter
        assert await run(queue) == 1

    async def test_it_is_maintained_in_the_background(self, any_house: House) -> None:
        queue = any_house.queue()
        await closed(queue, 2)
        any_house.clock.advance(LATER)
        await queue.archive.maintain()
        assert await living(queue) == {}
        (entry,) = (await queue.audit.list(action="archive.run")).items
        assert (entry.actor, entry.changes.value["archived"]) == ("retention", {"after": 2})
        await queue.archive.maintain()
        assert len((await queue.audit.list(action="archive.run")).items) == 1, "nothing to be done, nothing to be said"
        any_house.clock.advance(timedelta(days=6 * 31))
        await queue.archive.maintain()
        assert [each.partition.state for each in await queue.archive.partitions()] == ["detached"]
        await queue.archive.attach("2026_01")
        await queue.archive.maintain()
        assert [each.partition.state for each in await queue.archive.partitions()] == ["attached"], "somebody wants it"

    async def test_it_can_be_switched_off(self, house: House) -> None:
        queue = house.queue(rules=[RetentionRules(enabled=False)])
        await closed(queue, 1)
        house.clock.advance(LATER)
        await queue.archive.maintain()
        assert len(await living(queue)) == 1


async def test_a_redrive_races_a_restore(any_house: House) -> None:
    """Archive, restore and redrive at once: the letter is in one place, and open only if a redrive won."""
    queue = any_house.queue(rules=[RetentionRules(permanently_failed_days=1)])
    others = [any_house.queue(rules=[RetentionRules(permanently_failed_days=1)]) for _ in range(3)]
    await queue.enqueue("wf", {}, [], "boom", max_retries=0)
    await queue.letters.fail("wf")
    for _ in range(10):
        any_house.clock.advance(LATER)
        await asyncio.gather(
            others[0].archive.archive_completed_tasks(dry_run=False),
            others[1].letters.redrive("wf"),
            others[2].archive.restore("wf"),
            return_exceptions=True,
        )
        here, there = await living(queue), (await queue.archive.list()).items
        assert len(here) + len(there) == 1
        stats = await sound(queue)
        if "wf" in here and here["wf"].is_open:
            assert stats["queue_size"] == 1
            await queue.letters.fail("wf")
        elif there:
            await queue.archive.restore("wf")
        assert (await letter_of(queue, "wf")).status is DeadLetterStatus.EXHAUSTED


@pytest.mark.parametrize("name", ["since", "until"])
async def test_a_time_that_is_none_is_refused_by_its_name(house: House, name: str) -> None:
    queue = house.queue()
    given: dict[str, Any] = {name: "2026-01-01"}
    for search in (queue.archive.search, queue.archive.search_tasks, queue.audit.list):
        with pytest.raises(InvalidInput, match=f"{name} is a datetime with a time zone, not '2026-01-01'"):
            await search(**given)

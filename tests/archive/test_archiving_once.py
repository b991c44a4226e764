"""Processes that die while a letter goes back and forth between queue and archive: each failure is there once."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mahavishnu.archive.partitions import read_case
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.ledger import Ledger
from mahavishnu.model.errors import IllegalMove, NoSuchLetter
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Query
from mahavishnu.model.reconcile import reconcile_letters
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.retained import keep_former
from mahavishnu.testing.faults import Call
from tests.support.kills import Killed, kill_at_each_call
from tests.support.queues import House, letter_of, sound

RULES = RetentionRules(
    completed_days=0, cancelled_days=0, permanently_failed_days=0, history_days=0, archive_months=None
)
Act = Callable[[DeadLetterQueue], Awaitable[object]]


async def fail(queue: DeadLetterQueue) -> None:
    await queue.enqueue("wf", {}, [], "boom", max_retries=0)
    await queue.letters.fail("wf")


async def archive(queue: DeadLetterQueue) -> None:
    await queue.archive.run(dry_run=False)


async def restore(queue: DeadLetterQueue) -> None:
    await queue.archive.restore("wf")


async def succeed_late(queue: DeadLetterQueue) -> None:
    """A capture that had read the letter before it was archived writes it into the history now, and has lost."""
    line = next(each for each in (await queue.archive.list(1000)).items if read_case(each).former)
    await keep_former(queue.store.collection(HISTORY), FormerLetter.of(read_case(line).letter))


async def fail_openly(queue: DeadLetterQueue) -> None:
    await queue.enqueue("wf", {}, [], "boom", max_retries=0)


STORIES: dict[str, tuple[list[Act], Act, list[Act]]] = {  # before, who dies at it, and what others do then
    "archive, then it fails again": ([fail, fail], archive, [fail, archive]),
    "restore, then it fails again": ([fail, fail, archive], restore, [fail, archive]),
    "restore, then it is restored": ([fail, fail, archive], restore, [restore, archive]),
    "archive with a restored one as a former one": ([fail, fail, archive, restore, fail], archive, [fail, archive]),
    "archive again, then it fails again": ([fail, fail, archive, restore], archive, [fail, archive, fail, archive]),
    "fail after it was restored": ([fail, fail, archive, restore], fail, [archive]),
    "archive after a late capture": ([fail, fail, archive, fail, succeed_late], archive, [fail, archive]),
    "archive a former one after a late capture": (
        [fail, fail, archive, fail_openly, succeed_late],
        archive,
        [fail, archive],
    ),
    "archive a restored one after a late capture": (
        [fail, fail, archive, fail, succeed_late, archive, restore],
        archive,
        [fail, archive],
    ),
}


async def places(queue: DeadLetterQueue) -> dict[str, list[str]]:
    """Where each entry id is: in the queue, the history, a copy that counts."""
    found: dict[str, list[str]] = defaultdict(list)
    async for letter in scan(queue.context.letters, Query()):
        found[letter.entry_id].append("queue")
    async for former in scan(queue.store.collection(HISTORY), Query()):
        found[former.entry_id].append("history")
    for line in (await queue.archive.list(1000)).items:
        case = read_case(line)
        found[case.letter.entry_id].append("archive")
        for each in case.former:
            found[each.entry_id].append(f"archive of {case.letter.entry_id}")
    return found


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("story", STORIES)
async def test_each_failure_is_in_one_place(tmp_path: Path, story: str, moment: str) -> None:
    before, act, after = STORIES[story]

    async def prepare(house: House) -> set[str]:
        queue = house.queue(rules=[RULES])
        await queue.open()
        told = set[str]()
        for each in before:
            await each(queue)
            house.clock.advance(1)
            told |= set(await places(queue))
        return told

    async def die(queue: DeadLetterQueue) -> None:
        queue.context.set_rules(RULES)
        await act(queue)

    async def check(house: House, told: set[str]) -> None:
        queue = house.queue(rules=[RULES])
        await queue.open()
        for each in after:
            house.clock.advance(86400 * 2)
            with contextlib.suppress(IllegalMove, NoSuchLetter):  # the first had come further
                await each(queue)
        await archive(queue)
        found = await places(queue)
        assert told <= set(found), "lost"
        assert not {entry: where for entry, where in found.items() if len(where) > 1}
        await sound(queue)

    assert await kill_at_each_call("memory", tmp_path, moment, prepare, die, check) > 5


async def end(call: Call) -> None:
    raise Killed


async def leave_earlier_state(house: House, queue: DeadLetterQueue) -> DeadLetter:
    """A capture dies after its first write, which puts the letter into the history; the letter goes on."""
    await fail(queue)
    dying = house.queue()
    await dying.open()
    dying.store.faults.after("write", end, kind=HISTORY)  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        await dying.enqueue("wf", {}, [], "boom", max_retries=0)
    house.kill(dying)
    assert len([each async for each in scan(queue.store.collection(HISTORY), Query())]) == 1
    house.clock.advance(1)
    await queue.letters.redrive("wf")
    await queue.letters.resolve("wf")
    house.clock.advance(1)
    return await letter_of(queue, "wf")


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_earlier_state_in_the_history_takes_nothing_away(tmp_path: Path, moment: str) -> None:
    async def prepare(house: House) -> DeadLetter:
        queue = house.queue(rules=[RULES])
        await queue.open()
        return await leave_earlier_state(house, queue)

    async def die(queue: DeadLetterQueue) -> None:
        queue.context.set_rules(RULES)
        await archive(queue)

    async def check(house: House, letter: DeadLetter) -> None:
        queue = house.queue(rules=[RULES])
        await queue.open()
        await archive(queue)
        assert await places(queue) == {letter.entry_id: ["archive"]}
        assert (await queue.archive.show("wf")).letter == letter
        await sound(queue)

    assert await kill_at_each_call("memory", tmp_path, moment, prepare, die, check) > 5


async def test_an_earlier_state_that_stays_longer_than_the_tombstone_takes_nothing_away(house: House) -> None:
    queue = house.queue(rules=[replace(RULES, history_days=None)], tombstone_days=1)
    await queue.open()
    letter = await leave_earlier_state(house, queue)
    dying = house.queue(rules=[queue.context.rules(RetentionRules)])
    await dying.open()
    dying.store.faults.after("write", end, kind=LETTERS)  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        await archive(dying)
    house.kill(dying)
    house.clock.advance(timedelta(days=3))
    assert await Ledger(queue.context).fold() == 1
    queue.context.set_rules(RULES)
    await archive(queue)
    assert await places(queue) == {letter.entry_id: ["archive"]}
    assert (await queue.archive.show("wf")).letter == letter


async def test_who_removes_what_a_capture_left_loses_to_the_next_one_that_keeps_it(house: House) -> None:
    queue = house.queue(rules=[RULES])
    await queue.open()
    letter = await leave_earlier_state(house, queue)
    history = queue.store.collection(HISTORY)
    (left,) = await history.get([letter.entry_id])
    assert isinstance(left, FormerLetter)
    for state in (left, FormerLetter.of(letter), left):  # the same, a later one, an earlier one
        (seen,) = await history.get([letter.entry_id])
        assert isinstance(seen, FormerLetter)
        await keep_former(history, state)
        assert await history.remove([seen]) == [False]
    (kept,) = await history.get([letter.entry_id])
    assert kept == FormerLetter.of(letter)


async def test_letters_of_one_task_in_two_queues_have_their_own_former_letters_once(
    any_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where their histories are asked for apart."""
    monkeypatch.setattr("mahavishnu.archive.archiving._ASKED", 1)
    queue = any_house.queue(rules=[RULES])
    for name in ("mail", "default", "mail", "default"):
        made = await queue.enqueue("wf", {}, [], "boom", max_retries=0, queue=name)
        await queue.letters.fail("wf", queue=name)
        assert made
        any_house.clock.advance(1)
    await archive(queue)
    cases = [read_case(line) for line in (await queue.archive.list()).items]
    assert [(len(case.former), case.former[0].queue == case.letter.queue) for case in cases] == [(1, True)] * 2


async def test_what_came_home_as_a_former_letter_and_then_as_the_latest_is_archived_once(house: House) -> None:
    """A local store wrote it into the history, and lost to the one who closed the letter that was to succeed it."""
    queue, elsewhere = house.queue(rules=[RULES]), DeadLetterQueue(clock=house.clock)
    await queue.open()
    await fail(queue)
    async with elsewhere:
        await fail(elsewhere)
        ours = await letter_of(elsewhere, "wf")
    await keep_former(queue.store.collection(HISTORY), FormerLetter.of(ours))
    house.clock.advance(1)
    await fail(queue)
    house.clock.advance(1)
    await archive(queue)
    letters = queue.store.collection(LETTERS)
    (theirs,) = await letters.get(["wf"])
    assert isinstance(theirs, DeadLetter) and theirs.is_deleted
    plan = reconcile_letters(theirs, ours, house.clock.now())
    assert plan.live is not None and plan.former is None
    await letters.write([plan.live])
    for _ in range(2):
        found = await places(queue)
        assert {entry: where for entry, where in found.items() if len(where) > 1} in (
            {},
            {ours.entry_id: ["queue", "history"]},
        )
        await fail(queue)
        house.clock.advance(1)
        await archive(queue)
    assert {entry: where for entry, where in (await places(queue)).items() if len(where) > 1} == {}
    assert ours.entry_id in await places(queue)
    await sound(queue)

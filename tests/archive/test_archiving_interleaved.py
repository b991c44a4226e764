"""Two processes at one letter and its copy, in every order of their writes, and with one of them dying at each.

In the end each failure is in one place: the queue, the history or a copy that counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.archive.archiving import Archiving, Leftovers
from mahavishnu.archive.partitions import Partitions, read_case
from mahavishnu.archive.records import ARCHIVE_PARTITIONS, ARCHIVED_LETTERS, archive_kind
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.query import Query
from mahavishnu.model.rules import RetentionRules
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import HISTORY, LETTERS
from mahavishnu.stores.retained import keep_former
from tests.support.interleaving import Actor, run_in_every_order
from tests.support.queues import House, sound

MONTH = "2026_01"
COPIES = archive_kind(ARCHIVED_LETTERS, MONTH)
RULES = RetentionRules(
    completed_days=0, cancelled_days=0, permanently_failed_days=0, history_days=None, archive_months=None
)
LONE = RetentionRules(completed_days=None, history_days=0, archive_months=None)
STOPS = [("write", COPIES), ("remove", COPIES), ("write", LETTERS), ("remove", HISTORY)]
DYING = [0, pytest.param(1, marks=pytest.mark.prove), pytest.param(2, marks=pytest.mark.prove)]
Act = Callable[[DeadLetterQueue], Awaitable[object]]


def leftovers_of(queue: DeadLetterQueue) -> Leftovers:
    return Archiving(queue.context, RULES, Partitions(queue.store, queue.clock)).leftovers


class Case:
    """A task and its failures. Each order has a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: set[str] = set()
        self.deleted: set[str] = set()
        self.states: dict[str, datetime] = {}  # the latest state of a letter, for what has to be archived as it is
        self.may_be_twice = False

    async def fail(self, queue: DeadLetterQueue, end: str = "fail") -> str:
        """The task fails, and its letter is closed."""
        letter = await queue.enqueue("wf", {}, [], "boom", max_retries=0)
        self.told.add(letter.entry_id)
        await getattr(queue.letters, end)("wf")
        self.house.clock.advance(1)
        return letter.entry_id

    async def in_every_order(
        self,
        prepare: Act,
        one: Act,
        other: Act,
        stops: list[Any] = STOPS,
        dying: int = 0,
        rules: tuple[RetentionRules, RetentionRules] = (RULES, RULES),
        most: int = 500,
    ) -> int:
        """Prepare, then let both act in every order. `dying` says who dies, the first or the second, or nobody."""
        orders, dies_at, seen = 0, 1 if dying else None, 0
        actors: list[Actor] = []

        async def begin() -> list[Actor]:
            nonlocal actors
            self.house, self.told, self.deleted = House("memory", self.folder), set(), set()
            first = self.house.queue(rules=[RULES])
            await first.open()
            await prepare(first)
            actors = []
            for number, (act, own) in enumerate(zip((one, other), rules, strict=True), 1):
                queue = self.house.queue(rules=[own])
                await queue.open()
                faults: Any = queue.store.faults  # type: ignore[attr-defined]
                deadline = dies_at if number == dying else None
                actors.append(Actor(self._act(act, queue), faults, "wf", stops=stops, dies_at=deadline))
            return actors

        async def check() -> None:
            nonlocal seen
            seen = max(seen, actors[dying - 1].stopped)
            await self.check()

        while True:
            orders += await run_in_every_order(begin, check, most)
            if dies_at is None or seen < dies_at:
                return orders
            dies_at += 1

    def _act(self, act: Act, queue: DeadLetterQueue) -> Callable[[], Awaitable[object]]:
        async def run() -> None:
            with contextlib.suppress(MahavishnuError):
                await act(queue)

        return run

    async def check(self) -> None:
        """Nothing is lost now, and after the next has finished what others began each failure is in one place."""
        queue = self.house.queue(rules=[RULES])
        await queue.open()
        (current,) = await queue.context.letters.records.get(["wf"])
        if isinstance(current, DeadLetter) and current.is_deleted and current.archived_at is None:
            self.deleted |= {current.entry_id, *current.absorbed}
        lost = self.told - set(await self.places(queue)) - self.deleted
        assert not lost, "lost"
        await queue.deletion.finish()
        await leftovers_of(queue).remove_leftovers()
        for rules in (RULES, LONE):
            queue.context.set_rules(rules)
            self.house.clock.advance(1)
            await queue.archive.run(dry_run=False)
        places = await self.places(queue)
        assert not self.told - set(places) - self.deleted, "lost when others went on"
        assert self.may_be_twice or not {entry: found for entry, found in places.items() if len(found) > 1}
        await sound(queue)
        await self.house.close()

    async def places(self, queue: DeadLetterQueue) -> dict[str, list[str]]:
        places: dict[str, list[str]] = {}
        async for letter in scan(queue.context.letters, Query()):
            places.setdefault(letter.entry_id, []).append("queue")
        async for former in scan(queue.store.collection(HISTORY), Query()):
            places.setdefault(former.entry_id, []).append("history")
        for line in (await queue.archive.list(1000)).items:
            case = read_case(line)
            assert case.letter.updated_at >= self.states.get(case.letter.entry_id, case.letter.updated_at), "set back"
            places.setdefault(case.letter.entry_id, []).append("archive")
            for each in case.former:
                places.setdefault(each.entry_id, []).append(f"archive of {case.letter.entry_id}")
        return places


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


async def archive(queue: DeadLetterQueue) -> None:
    await queue.archive.run(dry_run=False)


@pytest.mark.parametrize("dying", DYING)
async def test_two_archivers_and_a_letter_that_is_closed_anew_between(case: Case, dying: int) -> None:
    async def prepare(queue: DeadLetterQueue) -> None:
        await case.fail(queue)

    async def close_anew_and_archive(queue: DeadLetterQueue) -> None:
        await queue.letters.redrive("wf")
        await queue.letters.resolve("wf")
        case.house.clock.advance(1)
        await archive(queue)

    # Between comparing a copy and letting the letter leave, the batch is counted in the partition.
    stops = [("write", COPIES), ("remove", COPIES), ("write", ARCHIVE_PARTITIONS)]
    assert await case.in_every_order(prepare, archive, close_anew_and_archive, stops, dying) > 20


async def fail_twice(case: Case, queue: DeadLetterQueue) -> None:
    await case.fail(queue)
    await case.fail(queue)


@pytest.mark.parametrize("dying", DYING)
async def test_a_former_letter_goes_by_itself_and_with_its_successor(case: Case, dying: int) -> None:
    async def prepare(queue: DeadLetterQueue) -> None:
        await fail_twice(case, queue)

    # Who archives it by itself and dies just after the other has removed it leaves a copy that nobody knows of.
    case.may_be_twice = dying == 1
    assert await case.in_every_order(prepare, archive, archive, dying=dying, rules=(LONE, RULES), most=5000) > 10


async def test_an_archiver_and_one_who_finds_an_earlier_state_in_the_history(case: Case) -> None:
    """A capture that died after its first write has left it there; the letter went on, and has its key."""

    async def prepare(queue: DeadLetterQueue) -> None:
        entry_id = await case.fail(queue)
        (letter,) = await queue.context.letters.records.get(["wf"])
        assert isinstance(letter, DeadLetter)
        await keep_former(queue.store.collection(HISTORY), FormerLetter.of(letter))
        await queue.letters.redrive("wf")
        await queue.letters.resolve("wf")
        (letter,) = await queue.context.letters.records.get(["wf"])
        assert isinstance(letter, DeadLetter)
        case.states = {entry_id: letter.updated_at}
        case.house.clock.advance(1)

    stops = [*STOPS, ("get", LETTERS), ("get", HISTORY)]
    assert await case.in_every_order(prepare, archive, archive, stops, rules=(LONE, RULES), most=5000) > 5


@pytest.mark.prove
async def test_an_archiver_of_a_letter_that_becomes_a_former_one(case: Case) -> None:
    async def prepare(queue: DeadLetterQueue) -> None:
        await case.fail(queue)

    async def fail_again_and_archive(queue: DeadLetterQueue) -> None:
        await case.fail(queue)
        queue.context.set_rules(LONE)
        await archive(queue)

    assert await case.in_every_order(prepare, archive, fail_again_and_archive, most=5000) > 10


@pytest.mark.prove
async def test_an_archiver_and_who_deletes_what_was_there_before(case: Case) -> None:
    """What fails after the deletion is another letter: nobody asked for its deletion."""

    async def prepare(queue: DeadLetterQueue) -> None:
        case.deleted.add(await case.fail(queue))
        await archive(queue)

    async def delete(queue: DeadLetterQueue) -> None:
        await queue.deletion.delete_task("wf")

    async def fail_and_archive(queue: DeadLetterQueue) -> None:
        await case.fail(queue)
        await archive(queue)

    stops = [("find", COPIES), ("get", COPIES), ("write", COPIES), ("remove", COPIES), ("write", ARCHIVE_PARTITIONS)]
    assert await case.in_every_order(prepare, delete, fail_and_archive, stops, most=5000) > 10


@pytest.mark.parametrize("dying", DYING)
async def test_who_restores_and_who_removes_what_was_left(case: Case, dying: int) -> None:
    """An archiver died before it removed the former letter."""

    async def prepare(queue: DeadLetterQueue) -> None:
        await fail_twice(case, queue)
        faults: Any = queue.store.faults  # type: ignore[attr-defined]
        with contextlib.suppress(MahavishnuError), faults.unavailable("remove", kind=HISTORY):
            await archive(queue)

    async def restore(queue: DeadLetterQueue) -> None:
        await queue.archive.restore("wf")

    async def finish(queue: DeadLetterQueue) -> None:
        await leftovers_of(queue).remove_leftovers()

    stops = [("write", HISTORY), ("remove", HISTORY), ("write", LETTERS)]
    assert await case.in_every_order(prepare, restore, finish, stops, dying, most=5000) > 10


@pytest.mark.prove
async def test_two_who_restore_and_an_archiver(case: Case) -> None:
    async def prepare(queue: DeadLetterQueue) -> None:
        await fail_twice(case, queue)
        await archive(queue)

    async def restore(queue: DeadLetterQueue) -> None:
        await queue.archive.restore("wf")

    async def restore_change_and_archive(queue: DeadLetterQueue) -> None:
        await queue.archive.restore("wf")
        await queue.letters.redrive("wf")
        await queue.letters.resolve("wf")
        case.house.clock.advance(1)
        await archive(queue)

    stops = [
        ("write", COPIES),
        ("remove", COPIES),
        ("remove", HISTORY),
    ]  # with each write of a letter there are too many
    assert await case.in_every_order(prepare, restore, restore_change_and_archive, stops, most=5000) > 5


async def test_an_archiver_and_who_detaches_the_partition(case: Case) -> None:
    async def prepare(queue: DeadLetterQueue) -> None:
        await case.fail(queue)
        await archive(queue)
        await case.fail(queue)

    async def detach_and_attach(queue: DeadLetterQueue) -> None:
        await queue.archive.detach(MONTH)
        await queue.archive.attach(MONTH)

    stops = [*STOPS, ("write", ARCHIVE_PARTITIONS)]
    assert await case.in_every_order(prepare, archive, detach_and_attach, stops, most=5000) > 5

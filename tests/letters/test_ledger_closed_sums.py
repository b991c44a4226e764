"""Closed letters are added up; whoever is at it, whatever opens them again, each number counts exactly once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.letters.ledger import Ledger, add_up_closed
from mahavishnu.model import lifecycle, tombstones
from mahavishnu.model.errors import MahavishnuError, StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query
from mahavishnu.model.reconcile import reconcile_letters
from mahavishnu.model.tombstones import has_numbers
from mahavishnu.stores.base import get_one, scan, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import Faults, FaultyStore, ManualClock
from mahavishnu.testing.faults import Call
from mahavishnu.testing.letters import make_letter
from tests.letters.test_ledger import OPERATIONS, Actor
from tests.support.queues import House, Runs, fill, letter_of, sound

HOURS = 2 * 3600.0
DAYS = 31 * 86400.0


def ledger_of(queue: DeadLetterQueue) -> Ledger:
    return Ledger(queue.context)


async def letters_of(queue: DeadLetterQueue) -> list[DeadLetter]:
    return [letter async for letter in scan(queue.context.letters.records, Query())]


async def counts(queue: DeadLetterQueue) -> tuple[Any, ...]:
    """The numbers that must not change when letters are added up."""
    stats = await sound(queue)
    groups = await queue.groups.list(quiet=True)
    shown = [(each.fingerprint, each.count, each.total, each.first_seen, each.last_seen) for each in groups.items]
    return stats["lifetime_stats"], stats["status_breakdown"], stats["error_categories"], sorted(shown)


async def closed_ones(house: House, count: int = 4) -> DeadLetterQueue:
    """Letters that were closed hours ago in several ways, one of them twice, one open, and one closed just now."""
    queue = house.queue(Runs())
    names = await fill(queue, count + 1)
    for place, name in enumerate(names[:count]):
        verb = (queue.letters.resolve, queue.letters.cancel, queue.letters.fail, queue.retry_task)[place % 4]
        await verb(name)
    await queue.letters.resurrect(names[2])
    await queue.letters.fail(names[2])
    house.clock.advance(HOURS)
    await queue.enqueue("today", {}, [], "boom")
    await queue.letters.resolve("today")
    return queue


async def test_closed_letters_are_added_up_and_stay_as_they_are(any_house: House) -> None:
    queue = await closed_ones(any_house)
    before, shown = await counts(queue), [letter.to_dict() for letter in await letters_of(queue)]
    assert await ledger_of(queue).fold_closed() == 0, "so few are left alone"
    assert await ledger_of(queue).fold_closed(1) == 4
    assert await counts(queue) == before
    assert [letter.to_dict() for letter in await letters_of(queue)] == shown
    (month,) = [entry async for entry in scan(queue.context.ledger, Query())]
    assert (month.key, month.letters, month.folding) == (any_house.clock.now().strftime("%Y-%m"), 4, ())
    assert sum(each.letters for each in month.groups.values()) == 4
    kept = {letter.task_id: has_numbers(letter) for letter in await letters_of(queue)}
    assert sorted(name for name, has in kept.items() if has) == ["today", "wf_00004"]
    assert await ledger_of(queue).fold_closed(1) == 0


async def test_many_are_added_up_go_by_go_with_as_much_rest(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, goes, rests = house.queue(), [5000, 3000, 2499, 5000], list[float]()

    async def fold_closed(self: Ledger) -> int:
        await asyncio.to_thread(house.clock.advance, 7)  # it takes a while
        return goes.pop(0)

    async def sleep(self: ManualClock, seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(Ledger, "fold_closed", fold_closed)
    monkeypatch.setattr(ManualClock, "sleep", sleep)
    await add_up_closed(queue.context)
    assert (rests, goes) == ([7, 7], [5000]), "after few it waits for its next time"


async def test_one_that_is_opened_again_counts_on(any_house: House) -> None:
    queue = await closed_ones(any_house)
    await ledger_of(queue).fold_closed(1)
    before = (await sound(queue))["lifetime_stats"]
    totals = {each.fingerprint: each.total for each in (await queue.groups.list(quiet=True)).items}
    await queue.letters.resurrect("wf_00002")
    await queue.enqueue("wf_00000", {}, [], "connection refused")
    stats = (await sound(queue))["lifetime_stats"]
    assert stats["reopened"] == before["reopened"] + 1
    assert stats["enqueued_total"] == before["enqueued_total"] + 2
    again = {each.fingerprint: each.total for each in (await queue.groups.list(quiet=True)).items}
    assert sum(again.values()) == sum(totals.values()) + 1, "the former letter counts on, and the new one too"
    assert (await letter_of(queue, "wf_00000")).to_dict()["generation"] == 2
    await queue.letters.fail("wf_00002")
    await queue.letters.resolve("wf_00000")
    any_house.clock.advance(HOURS)
    whole = await counts(queue)
    assert await ledger_of(queue).fold_closed(1) == 3
    assert await counts(queue) == whole
    kept = await letter_of(queue, "wf_00002")
    assert kept.counted is not None
    assert (kept.counted.letters, kept.counted.reopened) == (1, 2)


async def test_one_that_is_deleted_stays_deleted_and_goes_in_time(any_house: House) -> None:
    queue = await closed_ones(any_house)
    await ledger_of(queue).fold_closed(1)
    letter = await letter_of(queue, "wf_00000")
    before = (await sound(queue))["lifetime_stats"]
    deleted = tombstones.delete(letter, now=any_house.clock.now(), by="ann")
    assert await write_one(queue.context.letters.records, deleted)
    assert not reconcile_letters(deleted, letter, any_house.clock.now()).wait
    assert await ledger_of(queue).fold() == 0
    assert await get_one(queue.context.letters.records, letter.key) is not None, "it is still remembered"
    any_house.clock.advance(DAYS)
    await ledger_of(queue).fold()
    assert await get_one(queue.context.letters.records, letter.key) is None
    assert (await sound(queue))["lifetime_stats"] == before


async def test_one_that_was_archived_comes_back_with_its_numbers(any_house: House) -> None:
    queue = await closed_ones(any_house)
    await ledger_of(queue).fold_closed(1)
    before, original = (await sound(queue))["lifetime_stats"], await letter_of(queue, "wf_00000")
    any_house.clock.advance(DAYS)
    assert (await queue.archive.archive_completed_tasks(dry_run=False)).tasks_archived >= 3
    assert (await sound(queue))["lifetime_stats"] == before
    back = await queue.archive.restore(original.entry_id)
    assert (back, back.counted) == (original, original.counted)
    assert (await sound(queue))["lifetime_stats"] == before


async def test_one_that_is_imported_elsewhere_counts_there(any_house: House) -> None:
    queue, other = await closed_ones(any_house), DeadLetterQueue(clock=any_house.clock)
    any_house.look_after(other)
    await ledger_of(queue).fold_closed(1)
    async for line in queue.transfer.export(Query()):
        assert await other.transfer.import_letter(json.loads(line)) == "new"
    lifetime = (await sound(other))["lifetime_stats"]
    assert (lifetime["enqueued_total"], lifetime["manually_resolved"], lifetime["reopened"]) == (6, 2, 0)
    assert (lifetime["cancelled"], lifetime["permanently_failed"], lifetime["retry_success"]) == (1, 1, 1)


@pytest.mark.parametrize("lost", ["unavailable", "answer_lost"])
@pytest.mark.parametrize("operation", OPERATIONS[:3])
async def test_wherever_it_dies_nothing_is_lost_nor_counted_twice(house: House, operation: str, lost: str) -> None:
    """At each of its calls in turn, before the call and after it; and then one of the letters is opened again."""
    for number in range(1, 50):
        folder = house.folder / f"{number}"
        folder.mkdir()
        own = House(house.kind, folder)
        queue = await closed_ones(own)
        before = await counts(queue)
        victim, calls = own.queue(), 0
        assert isinstance(victim.store, FaultyStore)

        async def dies(call: Call, last: int = number, faults: Faults = victim.store.faults) -> None:
            nonlocal calls
            calls += 1
            if calls == last:
                getattr(faults, lost)(operation, times=1)

        await victim.open()
        victim.store.faults.before(operation, dies)
        try:
            await ledger_of(victim).fold_closed(1)
        except StoreError:
            own.kill(victim)
        died = calls >= number
        assert await counts(queue) == before, f"{operation} {number}"
        await queue.letters.resurrect("wf_00001")
        opened = await counts(queue)
        assert opened[0] == {
            **before[0],
            "enqueued_total": before[0]["enqueued_total"] + 1,
            "reopened": before[0]["reopened"] + 1,
        }
        await ledger_of(queue).fold_closed(1)
        assert await counts(queue) == opened, f"{operation} {number}, and then to the end"
        assert not [entry async for entry in scan(queue.context.ledger, Query()) if entry.folding]
        await own.close()
        if not died:
            assert number > 1, "there is such a call"
            return
    raise AssertionError("it makes so many calls?")


def faults_of(queue: DeadLetterQueue) -> Faults:
    assert isinstance(queue.store, FaultyStore)
    return queue.store.faults


def opened_again(letter: DeadLetter, now: datetime) -> DeadLetter:
    return lifecycle.redrive(letter, now=now)


def succeeded(letter: DeadLetter, now: datetime) -> DeadLetter:
    return lifecycle.next_generation(letter, make_letter(task_id=letter.task_id, updated_at=now))[1]


async def _play(schedule: list[tuple[int, bool]], verbs: list[tuple[str, int]]) -> None:
    """Two processes add up, one of them next month, while somebody opens, closes, captures and deletes."""
    house = House("memory", Path())
    observer = await closed_ones(house)
    expected = dict((await sound(observer))["lifetime_stats"])
    late = house.queue(clock=ManualClock(house.clock.now().replace(day=28)))
    queues = [house.queue(), late, house.queue(Runs())]
    for queue in queues:
        await queue.open()

    async def act() -> None:
        for verb, number in verbs:
            name = f"wf_{number:05}"
            try:
                if verb == "enqueue":
                    await queues[2].enqueue(name, {}, [], "connection refused")
                elif verb == "clear":
                    await queues[2].clear_all()
                else:
                    await getattr(queues[2].letters, verb)(name)
            except MahavishnuError:
                pass

    actors = [Actor(queues[0], ledger_of(queues[0]).fold_closed(1)), Actor(late, ledger_of(late).fold_closed(1))]
    actors.append(Actor(queues[2], act()))
    alive = actors
    for chosen, killed in schedule:
        alive = [actor for actor in alive if await actor.rests()]
        if not alive:
            break
        actor = alive[chosen % len(alive)]
        await (actor.dies() if killed and actor is not actors[2] else actor.goes_on())
        lifetime = (await sound(observer))["lifetime_stats"]
        assert all(lifetime[name] >= expected[name] for name in expected), "what was counted stays counted"
        expected = dict(lifetime)
    for actor in actors:
        while await actor.rests():
            await actor.goes_on()
        await actor.task
    before = await counts(observer)
    assert all(before[0][name] >= expected[name] for name in expected)
    house.clock.advance(HOURS)
    await ledger_of(observer).fold_closed(1)
    assert await counts(observer) == before
    assert not [entry async for entry in scan(observer.context.ledger, Query()) if entry.folding]
    await house.close()


steps = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([False] * 40 + [True])), min_size=15, max_size=60)
acts = st.lists(
    st.tuples(st.sampled_from(["resurrect", "resurrect", "fail", "enqueue", "clear"]), st.integers(0, 4)), max_size=5
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schedule=steps, verbs=acts)
def test_two_at_once_while_letters_are_opened(schedule: list[tuple[int, bool]], verbs: list[tuple[str, int]]) -> None:
    """Call by call in any order: at no moment is a number missing or there twice."""
    asyncio.run(_play(schedule, verbs))


async def test_new_letters_are_imported_by_one_write_and_others_meet_what_is_there(any_house: House) -> None:
    queue, other = any_house.queue(), any_house.queue(namespace="other")
    await fill(queue, 20)
    await queue.letters.resolve("wf_00003")
    documents = [json.loads(line) async for line in queue.transfer.export(Query())]
    await other.transfer.import_letters(documents[:2], namespace="other")
    assert isinstance(other.store, FaultyStore)
    writes = 0

    async def count(call: Call) -> None:
        nonlocal writes
        writes += 1

    counting = other.store.faults.before("write", count, kind=LETTERS)
    taken = await other.transfer.import_letters([*documents, documents[5]], namespace="other")
    counting.stop()
    assert Counter(taken.taken.values()) == {"same": 2, "new": 18}
    assert not taken.refused
    assert writes <= 4, "open ones, closed ones, and the one that is there twice"
    assert (await sound(other))["queue_size"] == 19
